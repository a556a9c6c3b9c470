"""Do training and factors pay where labels are few? DSSL on topics beside its ablations, at three label budgets.

    python benchmarks/decoupling_budgets.py [--graphs texas cora …] [--seeds 3] [--out results/decoupling-budgets]

One training per graph, variant and seed with the default settings (64 columns), evaluated by the linear probe at 60%
and 5% of the labels and 20 per class. Differences to full DSSL are paired by seed. The closed form has no training.
Records go to OUT/*.jsonl, the tables to OUT.md; stored records are not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dssl.cli.progress import Progress
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job
from dssl.studies.records import Record
from dssl.studies.records import records as read_records
from dssl.studies.results_table import markdown_rows

GRAPHS = ("texas", "wisconsin", "cora", "chameleon", "syn-cora-0.2", "syn-cora-0.8")
BUDGETS = ("60%", "5%", "20/class")
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "no shift": {"shift_scale": 0.0},
    "uniform posterior": {"inference": "uniform"},
    "K = 1": {"num_factors": 1},
    "no local loss": {"local_weight": 0.0},
    "closed form": {"epochs": 0},
}
SMALL = ("texas", "wisconsin")  # ten splits, others five


def jobs(graphs: list[str], seeds: int, variants: list[str]) -> list[Job]:
    """Seed by seed, so that an interrupted study covers all graphs."""
    return [
        Job(
            graph=graph,
            row=name,
            settings={"dim": 64, **VARIANTS[name]},
            seed=seed,
            splits=10 if graph in SMALL else 5,
            views=("embedding",) if name == "closed form" else ("embedding", "trained"),
            budgets=BUDGETS,
        )
        for seed in range(seeds)
        for graph in graphs
        for name in variants
    ]


def tables(records: list[Record]) -> str:
    """A table for the vector and one for its trained part: full DSSL, and what each variant adds to it."""
    names = [name for name in VARIANTS if any(record.row == name for record in records)]
    graphs = [graph for graph in GRAPHS if any(record.graph == graph for record in records)]
    seeds = sorted({record.seed for record in records})
    lines = [
        "# Do training and factors pay where labels are few?",
        "",
        "Made by `python benchmarks/decoupling_budgets.py` from the records beside it. Accuracy of full DSSL on topics",
        f"in percent, then variant minus full in points, paired by seed; {len(seeds)} seeds at most, (n) of fewer.",
        "Bold: beyond two standard errors over seeds.",
    ]
    for view, title in (("embedding", "The vector"), ("trained", "The trained part alone")):
        header = ["graph", "labels", *(name for name in names if view == "embedding" or name != "closed form")]
        body = []
        for graph in graphs:
            for budget in BUDGETS:
                found = {
                    name: {
                        record.seed: float(np.mean(record.views[view].percent(budget)))
                        for record in records
                        if record.graph == graph and record.row == name and view in record.views
                    }
                    for name in header[2:]
                }
                body.append([graph, budget, *_cells(found)])
        lines += ["", f"## {title}", "", *markdown_rows(header, body)]
    return "\n".join(lines) + "\n"


def _cells(found: dict[str, dict[int, float]]) -> list[str]:
    full = found["full"]
    cells = [f"{np.mean(list(full.values())):.1f}" if full else "–"]
    for name, values in found.items():
        if name == "full":
            continue
        alone = name == "closed form" and len(values) == 1  # has no seed
        pairs = [(next(iter(values.values())) if alone else values[s]) - full[s] for s in full if alone or s in values]
        if not pairs:
            cells.append("–")
            continue
        mean = round(float(np.mean(pairs)), 1) + 0.0  # no negative zero
        error = float(np.std(pairs, ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 2 else np.inf
        text = f"**{mean:+.1f}**" if abs(mean) > 2 * error else f"{mean:+.1f}"
        cells.append(text if len(pairs) == len(full) else f"{text} ({len(pairs)})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/decoupling-budgets"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    todo = [
        job
        for job in jobs(options.graphs, options.seeds, options.variants)
        if job.row != "closed form" or job.seed == 0
    ]
    with Progress("budgets", quiet=False) as shown:
        shown.plan(len(todo))
        experiments.run(todo, options.out, workers=options.workers, on_record=shown.record)
    files.write_text(options.out.with_suffix(".md"), tables(read_records(options.out)))


if __name__ == "__main__":
    main()
