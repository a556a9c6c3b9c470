"""The figure of docs/methods/dssl.md: the loss as printed collapses, the default does not.

python benchmarks/collapse.py [--graph texas] [--epochs 200] [--out docs/images/collapse.svg]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dssl
from dssl.studies import charts

MEASURES = {
    "local": "local loss: how far neighbours are from their prediction",
    "effective_rank": "effective rank of the embedding, of 64",
    "posterior_entropy": "entropy of a link's posterior, share of ln K",
    "factor_usage_max": "share of the most used factor",
}


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
    charts.comparison(runs, MEASURES, options.out, title=f"{options.graph}, {options.epochs} epochs")


if __name__ == "__main__":
    main()
