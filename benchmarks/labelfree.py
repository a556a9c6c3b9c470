"""Which label-free measure tells good settings from bad ones? Its rank correlation with the probe, over settings.

    python benchmarks/labelfree.py [--graphs texas cora …] [--seeds 3] [--out results/labelfree] [--workers 2]

Some settings of epochs, size, encoder and weights are trained on each graph, a few seeds each, the trained vectors
alone. For each graph and measure: Spearman's correlation, over settings, of the measure with the test accuracy of the
linear probe, both averaged over seeds; and the accuracy that is lost by choosing the settings that the measure likes
best. A measure that users without labels can choose by has one sign on all graphs, and loses little. Records go to
OUT/*.jsonl, tables made of them to OUT.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from dssl.cli.progress import Progress
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job
from dssl.studies.records import Record
from dssl.studies.results_table import markdown_rows

DEFAULT = "default"
NOTHING = {"reconstruction_weight": 0.0, "link_reconstruction_weight": 0.0}
NO_LINKS = {"local_weight": 0.0, "global_weight": 0.0, "entropy_weight": 0.0, "balance_weight": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "not trained": {"epochs": 0},
    "10 epochs": {"epochs": 10},
    "300 epochs": {"epochs": 300},
    "dim 16": {"dim": 16},
    "dim 256": {"dim": 256},
    "GCN": {"encoder": "gcn"},
    "nothing rebuilt": NOTHING,
    "rebuilding alone": {**NO_LINKS, "distillation_weight": 0.0},
    "links × 10": {"local_weight": 10.0, "global_weight": 10.0},
    "no centring, no projector": {"center": False, "projector": False},
    "GCN, nothing rebuilt": {"encoder": "gcn", **NOTHING},
}
GRAPHS = ["texas", "cornell", "wisconsin", "cora", "citeseer", "chameleon", "reed98", "syn-cora-0.2", "syn-cora-0.8"]
# By name: how it is found in a record, and whether more is better.
Find = Callable[[Record], float | None]
MEASURES: dict[str, tuple[Find, bool]] = {
    "effective rank": (lambda r: label_free(r, "effective_rank"), True),
    "CH of clusters": (lambda r: label_free(r, "calinski_harabasz"), True),
    "CH of feature clusters": (lambda r: label_free(r, "calinski_harabasz_features"), True),
    "CH of factors": (lambda r: label_free(r, "calinski_harabasz_factors"), True),
    "alignment": (lambda r: label_free(r, "alignment"), False),
    "uniformity": (lambda r: label_free(r, "uniformity"), False),
    "loss": (lambda r: r.health.get("loss"), False),
}


def label_free(record: Record, name: str) -> float | None:
    value: float | None = record.views["embedding"].label_free.get(name)
    return value


def accuracy(record: Record) -> float:
    return 100 * float(np.mean(record.views["embedding"].probe["accuracy"]))


def jobs(graphs: list[str], variants: list[str], seeds: int, splits: int) -> list[Job]:
    """Seed by seed, so that a run which is stopped has something of everything."""
    return [
        Job(graph=graph, row=name, settings={"features": "raw", **VARIANTS[name]}, seed=seed, splits=splits)
        for seed in range(seeds)
        for graph in graphs
        for name in variants
    ]


def by_variant(records: list[Record], find: Find) -> dict[str, float]:
    """Mean over the seeds of each variant; variants where it is not defined are left out."""
    found: dict[str, list[float | None]] = {}
    for record in records:
        found.setdefault(record.row, []).append(find(record))
    return {
        name: float(np.mean([value for value in values if value is not None]))
        for name, values in found.items()
        if None not in values
    }


def correlation(records: list[Record], find: Find) -> float | None:
    """Spearman's correlation of a measure with the accuracy, over the variants that have both; none below four."""
    measured, truth = by_variant(records, find), by_variant(records, accuracy)
    names = sorted(measured)
    if len(names) < 4 or len({measured[name] for name in names}) < 2 or len({truth[name] for name in names}) < 2:
        return None
    return float(stats.spearmanr([measured[name] for name in names], [truth[name] for name in names]).statistic)


def chosen(records: list[Record], find: Find, *, more: bool) -> float | None:
    """The accuracy of the variant that a measure likes best, less the best of all."""
    measured, truth = by_variant(records, find), by_variant(records, accuracy)
    if not measured:
        return None
    pick = (max if more else min)(measured, key=measured.__getitem__)
    return truth[pick] - max(truth.values())


def page(records: list[Record]) -> str:
    graphs = list(dict.fromkeys(record.graph for record in records))
    on = {graph: [record for record in records if record.graph == graph] for graph in graphs}
    count = len({record.row for record in records})
    seeds = len({record.seed for record in records})
    t = stats.t.ppf(0.975, max(count - 2, 1))
    bound = t / np.sqrt(count - 2 + t * t)
    lines = [
        "# Label-free measures beside the linear probe",
        "",
        f"Made by `benchmarks/labelfree.py`: {count} settings, {seeds} seeds, the trained vectors alone.",
        "",
        "## Rank correlation with the accuracy, over settings",
        "",
        f"Spearman's, one row per graph. By chance alone, one in twenty is beyond ±{bound:.2f}. "
        "In brackets: whether more (+) or less (−) should be better.",
        "",
    ]
    heads = [f"{name} ({'+' if more else '−'})" for name, (_, more) in MEASURES.items()]
    values = {graph: [correlation(on[graph], find) for find, _ in MEASURES.values()] for graph in graphs}
    rows = [[graph, *(cell(value, "+.2f") for value in row)] for graph, row in values.items()]
    columns = [[value for value in column if value is not None] for column in zip(*values.values(), strict=True)]
    signs = [right(column, more) for column, (_, more) in zip(columns, MEASURES.values(), strict=True)]
    lines += [
        *markdown_rows(["graph", *heads], [*rows, ["right sign", *signs]]),
        "",
        "## What choosing by it costs",
        "",
    ]
    lines += ["Accuracy of the chosen settings less the best of all, in points; the default settings beside them.", ""]
    costs = []
    for graph in graphs:
        picked = [chosen(on[graph], find, more=more) for find, more in MEASURES.values()]
        truth = by_variant(on[graph], accuracy)
        picked.append(truth.get(DEFAULT, np.nan) - max(truth.values()))
        costs.append([graph, *(cell(value, ".1f") for value in picked)])
    lines += markdown_rows(["graph", *MEASURES, "default settings"], costs)
    lines += ["", "## Accuracy of each setting (%)", ""]
    means = {graph: by_variant(on[graph], accuracy) for graph in graphs}
    names = [name for name in VARIANTS if any(name in row for row in means.values())]
    rows = [[graph, *(cell(row.get(name), ".1f") for name in names)] for graph, row in means.items()]
    lines += markdown_rows(["graph", *names], rows)
    return "\n".join(lines) + "\n"


def cell(value: float | None, form: str) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:{form}}"


def right(values: list[float], more: bool) -> str:
    return f"{sum((value > 0) == more for value in values)} of {len(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/labelfree"))
    options = parser.parse_args()
    asked = jobs(options.graphs, options.variants, options.seeds, options.splits)
    with Progress("label-free", quiet=False) as shown:
        shown.plan(len(asked))
        found = experiments.run(asked, options.out, workers=options.workers, on_record=shown.record)
    files.write_text(options.out.with_suffix(".md"), page([record for record in found if not record.error]))
    print(options.out.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
