"""The recipes of the methods that DSSL is compared with: what was tried on each graph, and what validation chose.

    python benchmarks/recipes.py [--methods dgi …] [--graphs cora …] [--out results/recipes] [--workers 2]

64 columns; linear probe on ten random 60/20/20 splits. Each candidate is trained once per graph; the one with the best
validation accuracy is what src/dssl/recipes/METHOD.toml has for the graph. Records go to OUT/*.jsonl, the table made of
them to OUT.md: every candidate with its validation accuracy, the chosen one bold. Trainings on large graphs take
minutes: there the methods in `LARGE` alone have candidates, and the others their defaults.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dssl import experiments, files, paper
from dssl.config import METHODS
from dssl.experiments import Job, Record
from dssl.settings import locate

DEFAULTS = "defaults"
FASTER = {"learning_rate": 0.005}
WEAKER = {"link_drop_1": 0.2, "link_drop_2": 0.3, "feature_mask_1": 0.2, "feature_mask_2": 0.1}
CANDIDATES: dict[str, dict[str, dict[str, Any]]] = {
    "dgi": {DEFAULTS: {}, "faster": FASTER, "two layers": {"layers": 2}},
    "gae": {DEFAULTS: {}, "slower": {"learning_rate": 0.001}, "one layer": {"layers": 1}},
    "vgae": {DEFAULTS: {}, "weak prior": {"divergence_weight": 0.1}, "one layer": {"layers": 1}},
    "graphcl": {
        DEFAULTS: {},
        "faster": FASTER,
        "two layers": {"layers": 2},
        "nt-xent": {**FASTER, "objective": "nt-xent", "layers": 2},
    },
    "mvgrl": {DEFAULTS: {}, "faster": FASTER, "two layers": {"layers": 2}},
    "bgrl": {DEFAULTS: {}, "weaker views": WEAKER, "one layer": {"layers": 1}},
    "gca": {DEFAULTS: {}, "faster": FASTER, "one layer": {"layers": 1}},
    "sage": {DEFAULTS: {}, "gcn": {"encoder": "gcn"}, "one layer": {"layers": 1}},
    "cca-ssg": {DEFAULTS: {}, "faster": FASTER, "one layer": {"layers": 1}},
    "graphacl": {DEFAULTS: {}, "warmer": {"temperature": 1.0}, "one layer": {"layers": 1}},
    "deepwalk": {DEFAULTS: {}, "narrow window": {"window": 5}},
    "node2vec": {DEFAULTS: {}, "stays near": {"away_weight": 2.0}},
    "line": {DEFAULTS: {}, "100 epochs": {"epochs": 100}},
    "struc2vec": {DEFAULTS: {}, "two rings": {"rings": 2}},
}
GRAPHS = [name for name in paper.GRAPHS if name != "penn94"]
LARGE: dict[str, tuple[str, ...]] = {
    "pubmed": (),
    "twitch-de": ("dgi", "graphcl", "mvgrl"),
    "squirrel": ("dgi", "graphcl", "mvgrl", "bgrl", "graphacl", "struc2vec"),
}


def jobs(methods: list[str], graphs: list[str]) -> list[Job]:
    """Graph by graph, so that a run which is stopped has every method on some."""
    return [
        Job(graph, row(method, name), {"method": method, **changes}, clusters=True)
        for graph in graphs
        for method in methods
        if graph not in LARGE or method in LARGE[graph]
        for name, changes in CANDIDATES[method].items()
        if graph not in LARGE or (method, name) != ("graphcl", "two layers")  # nt-xent has two layers as well
    ]


def row(method: str, candidate: str) -> str:
    return method if candidate == DEFAULTS else f"{method}, {candidate}"


def choices(records: list[Record]) -> dict[tuple[str, str], str]:
    """The candidate with the best validation accuracy, by method and graph; the first of equals."""
    found = {(record["row"], record["graph"]): validation(record) for record in records}
    chosen = {}
    for method, candidates in CANDIDATES.items():
        for graph in GRAPHS:
            tried = [name for name in candidates if (row(method, name), graph) in found]
            if tried:
                chosen[method, graph] = max(tried, key=lambda name: found[row(method, name), graph])
    return chosen


def validation(record: Record) -> float:
    return 100 * float(np.mean(record["views"]["embedding"]["probe"]["val_accuracy"]))


def tables(method: str, candidate: str) -> dict[str, dict[str, Any]]:
    """What a candidate changes, as the sections of a recipe."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in CANDIDATES[method][candidate].items():
        section, _, leaf = locate(name).partition(".")
        found.setdefault(section, {})[leaf] = value
    return found


def public(method: str, graph: str, candidate: str) -> dict[str, dict[str, Any]]:
    """The same for the public splits: wide vectors, as the methods' own papers have them; half as wide on PubMed."""
    found = tables(method, candidate)
    dim = 512 if graph != "pubmed" else 256
    wide = {"dim": dim, "hidden_dim": dim} if METHODS[method].traits.encoder else {"dim": 128}
    return {**found, "encoder": {**found.get("encoder", {}), **wide}}


def table(records: list[Record]) -> str:
    """A line per candidate, a column per graph, the chosen one bold."""
    found = {(record["row"], record["graph"]): f"{validation(record):.1f}" for record in records}
    chosen = choices(records)
    lines = [
        "# Recipes of the methods that DSSL is compared with: what was tried",
        "",
        "Validation accuracy in percent, ten random 60/20/20 splits, one training each, 64 columns. Made by",
        "`python benchmarks/recipes.py` from the records in `recipes/`. **Bold**: best on validation, in the recipe.",
        "",
        "| method | candidate | " + " | ".join(GRAPHS) + " |",
        "| --- " * (2 + len(GRAPHS)) + "|",
    ]
    for method, candidates in CANDIDATES.items():
        for name, changes in candidates.items():
            cells = []
            for graph in GRAPHS:
                text = found.get((row(method, name), graph), "–")
                cells.append(f"**{text}**" if chosen.get((method, graph)) == name else text)
            words = ", ".join(f"{key} {value}" for key, value in changes.items())
            lines.append(f"| {method} | {name}{f' ({words})' if words else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--out", type=Path, default=Path("results/recipes"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()

    def show(job: Job, record: Record) -> None:
        print(f"{job.graph} {job.row}: {record.get('error', str(record.get('seconds')) + ' s')}", flush=True)
        files.write_text(options.out.with_suffix(".md"), table(experiments.records(options.out)))

    experiments.run(jobs(options.methods, options.graphs), options.out, workers=options.workers, on_record=show)


if __name__ == "__main__":
    main()
