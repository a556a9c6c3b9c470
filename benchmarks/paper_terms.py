"""The recipe on the paper's own terms: what was tried on each graph, and what validation chose.

    python benchmarks/paper_terms.py [--graphs cora …] [--out results/paper-terms] [--workers 2]

Two-layer GCN, 64 columns, nothing beside them; linear probe on ten random 60/20/20 splits. Each candidate is trained
once per graph; the one with the best validation accuracy is what src/dssl/recipes/paper-terms.toml has for the graph.
Records go to OUT/*.jsonl, the table made of them to OUT.md: every candidate with its validation and test accuracy.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job
from dssl.studies.paper import numbers
from dssl.studies.records import Record
from dssl.studies.records import records as read_records
from dssl.studies.results_table import markdown_rows

BASE = {"encoder": "gcn", "features": "raw", "distillation_weight": 0.0}
CANDIDATES: dict[str, dict[str, Any]] = {
    "base": {},
    "batch norm": {"batch_norm": True},
    "reconstruction 1": {"reconstruction_weight": 1.0},
    "links 15, batch norm": {"link_reconstruction_weight": 15.0, "batch_norm": True},
    "no link reconstruction": {"link_reconstruction_weight": 0.0},
    "no link reconstruction, reconstruction 1": {"link_reconstruction_weight": 0.0, "reconstruction_weight": 1.0},
    "taught by pairs": {"distillation_weight": 1.0},
    "taught by pairs, links 15": {"distillation_weight": 1.0, "link_reconstruction_weight": 15.0},
    "taught by pairs, reconstruction 1": {"distillation_weight": 1.0, "reconstruction_weight": 1.0},
}
REMOVED = ("negatives",)  # with batch norm; an option that was removed, whose stored records are still shown
GRAPHS = [name for name in numbers.GRAPHS if name != "penn94"]


def jobs(graphs: list[str], candidates: list[str]) -> list[Job]:
    """Candidate by candidate, so that a run which is stopped has something of every graph."""
    return [Job(graph, name, {**BASE, **CANDIDATES[name]}) for name in candidates for graph in graphs]


def table(records: list[Record]) -> str:
    """A line per candidate, a column per graph, the chosen one bold, the paper's number above."""
    graphs = [graph for graph in GRAPHS if any(record.graph == graph for record in records)]
    found = {(record.row, record.graph): record.views["embedding"].probe for record in records}
    chosen = {
        graph: max((row for row in CANDIDATES if (row, graph) in found), key=lambda row: mean(found[row, graph], "val"))
        for graph in graphs
    }
    lines = [
        "The paper's own terms: two-layer GCN of 64 columns, ten random 60/20/20 splits",
        "",
        "Validation / test accuracy in percent, ± one standard error of the test mean over splits. Made by",
        "`python benchmarks/paper_terms.py` from these records. **Bold**: best on validation, and in the recipe.",
        "",
    ]
    body = [["paper's DSSL", *(f"{numbers.CLASSIFICATION['dssl'][graph][0]:.2f}" for graph in graphs)]]
    for row in (*CANDIDATES, *REMOVED):
        cells = []
        for graph in graphs:
            if (row, graph) not in found:
                cells.append("–")
                continue
            scores = found[row, graph]
            error = 100 * np.std(scores["accuracy"], ddof=1) / np.sqrt(len(scores["accuracy"]))
            text = f"{mean(scores, 'val'):.1f} / {mean(scores, 'test'):.1f} ± {error:.1f}"
            cells.append(f"**{text}**" if chosen[graph] == row else text)
        body.append([row, *cells])
    return "\n".join([*lines, *markdown_rows(["candidate", *graphs], body)]) + "\n"


def mean(scores: dict[str, list[float]], part: str) -> float:
    return 100 * float(np.mean(scores["val_accuracy" if part == "val" else "accuracy"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--candidates", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--out", type=Path, default=Path("results/paper-terms"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    todo = jobs(options.graphs, options.candidates)

    def show(job: Job, record: Record) -> None:
        print(f"{job.graph} {job.row}: {record.error or f'{record.seconds} s'}", flush=True)
        files.write_text(options.out.with_suffix(".md"), table(read_records(options.out)))

    experiments.run(todo, options.out, workers=options.workers, on_record=show)
    print(options.out.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
