"""The figure of docs/methods/dssl.md: the loss as printed collapses, the default does not.

python benchmarks/collapse.py [--graph texas] [--epochs 200] [--out docs/images/collapse.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dssl
from dssl.evaluation.pictures import look, new_figure, save

MEASURES = {
    "local": "local loss: how far neighbours are from their prediction",
    "effective_rank": "effective rank of the embedding, of 64",
    "posterior_entropy": "entropy of a link's posterior, share of ln K",
    "factor_usage_max": "share of the most used factor",
}


def draw(runs: dict[str, list[dict[str, float]]], path: Path, *, title: str) -> None:
    """A panel for each measure, with a line over the epochs for each training."""
    figure, _ = new_figure(8, 5.2, panels=False)
    for at, (name, words) in enumerate(MEASURES.items()):
        axes = figure.add_subplot(2, 2, at + 1)
        for number, (run, records) in enumerate(runs.items()):
            points = [(record["epoch"], record[name]) for record in records if name in record]
            axes.plot(*zip(*points, strict=True), color=look(number)[0], lw=1.4, label=run)
        axes.set_title(words, fontsize=8)
        axes.set_ylim(bottom=0)
        axes.grid(linewidth=0.3)
        axes.tick_params(labelsize=7)
        if not at:
            axes.legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="texas")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("docs/images/collapse.svg"))
    options = parser.parse_args()
    graph = dssl.load(options.graph)
    runs = {}
    for preset in ("paper", "default"):
        model = dssl.Embedder(preset=preset, epochs=options.epochs).fit(graph)
        runs[f"preset = {preset}"] = model.metrics_
        print(preset, {name: round(model.metrics_[-1][name], 3) for name in MEASURES}, *model.warnings_, sep="\n  ")
    draw(runs, options.out, title=f"{options.graph}, {options.epochs} epochs")


if __name__ == "__main__":
    main()
