"""The recipes of the methods that DSSL is compared with: what was tried on each graph, and what validation chose.

    python benchmarks/recipes.py [--methods dgi …] [--graphs cora …] [--out results/recipes] [--workers 2]

64 columns; linear probe on ten random 60/20/20 splits. Each candidate is trained once per graph; the one with the best
validation accuracy is what src/dssl/recipes/METHOD.toml has for the graph. Records go to OUT/*.jsonl, the table made of
them to OUT.md: every candidate with its validation accuracy, the chosen one bold. Trainings on large graphs take
minutes: there the methods in `LARGE` alone have candidates, and the others their defaults.

For the public splits of Planetoid the candidates in `PUBLIC` have wide vectors, as the methods' own papers have them,
and the 500 validation nodes choose; a method without any there has what random splits chose, wide. So few nodes make
chance large: of the methods in `ROWS`, whose papers scale rows of features, the best candidates of the first training
are trained with two more seeds, and the best mean is chosen.

The recipes of the methods in `AUTHORS`, and those in `FOLLOWED` on the public splits, have the settings that their
authors published: nothing is chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dssl.config.fields import locate
from dssl.config.methods import METHODS
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job
from dssl.studies.paper import numbers
from dssl.studies.records import Record
from dssl.studies.records import records as read_records
from dssl.studies.results_table import markdown_rows

Tried = Mapping[str, Mapping[str, Mapping[str, Any]]]  # what each candidate of a method changes
DEFAULTS = "defaults"
FASTER = {"learning_rate": 0.005}
WEAKER = {"link_drop_1": 0.2, "link_drop_2": 0.3, "feature_mask_1": 0.2, "feature_mask_2": 0.1}
CANDIDATES: Tried = {
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
AUTHORS = ("graphmae", "polygcl", "greet")
GRAPHS = [name for name in numbers.GRAPHS if name != "penn94"]
LARGE: dict[str, tuple[str, ...]] = {
    "pubmed": (),
    "twitch-de": ("dgi", "graphcl", "mvgrl", "struc2vec"),
    "squirrel": ("dgi", "graphcl", "mvgrl", "bgrl", "graphacl", "struc2vec"),
}
FEW_STEPS = {"dim": 2048, "hidden_dim": 2048, "temperature": 1.0}
TWO_LAYERS, ONE_LAYER = {"layers": 2}, {"layers": 1}
PUBLIC: Tried = {
    "dgi": {"one layer": ONE_LAYER, "two layers": TWO_LAYERS},
    "vgae": {DEFAULTS: {}, "weak prior": {"divergence_weight": 0.1}, "weaker prior": {"divergence_weight": 0.01}},
    "graphcl": {"one layer": ONE_LAYER, "two layers": TWO_LAYERS},
    "mvgrl": {"one layer": ONE_LAYER, "two layers": TWO_LAYERS, "wider diffusion": {"neighbours": 256, **ONE_LAYER}},
    "bgrl": {
        DEFAULTS: {},
        "one layer": ONE_LAYER,
        "slow": {"learning_rate": 5e-4, "epochs": 500, "momentum": 0.99, "predictor_dim": 512},
        "slow, one layer": {"learning_rate": 5e-4, "epochs": 500, "momentum": 0.99, "predictor_dim": 512, **ONE_LAYER},
    },
    "gca": {DEFAULTS: {}, "one layer": ONE_LAYER, "few links dropped": {"temperature": 0.9, "most_dropped": 0.3}},
    "cca-ssg": {
        DEFAULTS: {},
        "50 epochs": {"epochs": 50},
        "one layer, 20 epochs": {"epochs": 20, "decorrelation_weight": 5e-4, "feature_mask": 0.0, **ONE_LAYER},
        "harder views": {"dim": 512, "hidden_dim": 512, "feature_mask": 0.3, "link_drop": 0.5},
    },
    "graphacl": {
        "warmer": {"temperature": 1.0},
        "50 steps": {**FEW_STEPS, "epochs": 50, "learning_rate": 5e-4, "momentum": 0.97},
        "15 steps, one layer": {**FEW_STEPS, "epochs": 15, "learning_rate": 1e-3, **ONE_LAYER},
        "60 steps": {
            "dim": 1024,
            "hidden_dim": 1024,
            "epochs": 60,
            "learning_rate": 5e-4,
            "momentum": 0.99,
            "temperature": 0.75,
        },
    },
}
FOLLOWED: dict[tuple[str, str], dict[str, Any]] = {  # settings of the authors' scripts, in place of the best candidate
    ("mvgrl", "citeseer"): {
        "neighbours": 256,
        "threshold": 0.01,
        "column_scale": True,
        "row_scale": True,
        **ONE_LAYER,
    },
    ("cca-ssg", "pubmed"): {**PUBLIC["cca-ssg"]["harder views"], "row_scale": True},
    ("graphacl", "citeseer"): {
        **PUBLIC["graphacl"]["15 steps, one layer"],
        "temperature": 0.99,
        "weight_decay": 1e-4,
        "row_scale": True,
    },
    ("graphacl", "pubmed"): {**PUBLIC["graphacl"]["60 steps"], "weight_decay": 0.0, "row_scale": True},
}
ROWS = ("dgi", "mvgrl", "gca", "cca-ssg", "graphacl")
for method in ROWS:
    scaled = {
        "rows" if name == DEFAULTS else f"{name}, rows": {**changes, "row_scale": True}
        for name, changes in PUBLIC[method].items()
    }
    PUBLIC = {**PUBLIC, method: {**PUBLIC[method], **scaled}}
PLANETOID = ("cora", "citeseer", "pubmed")
FINALISTS, SEEDS = 3, 3
PUBLIC_LARGE = {
    "pubmed": {
        "vgae": tuple(PUBLIC["vgae"]),
        "mvgrl": ("one layer", "one layer, rows"),
        "cca-ssg": (*list(PUBLIC["cca-ssg"])[:4], "harder views, rows"),
        "graphacl": ("60 steps", "60 steps, rows"),
    }
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


def public_jobs(methods: list[str], graphs: list[str]) -> list[Job]:
    return [
        Job(graph, row(method, name), {"method": method, **wide(method, graph), **changes}, splits=1, protocol="public")
        for graph in PLANETOID
        if graph in graphs
        for method in methods
        for name, changes in PUBLIC.get(method, {}).items()
        if name in PUBLIC_LARGE.get(graph, PUBLIC).get(method, ())
    ]


def finals(methods: list[str], graphs: list[str], records: list[Record]) -> list[Job]:
    """The best of the first trainings on the public splits, with the other seeds."""
    first = _validation([record for record in records if record.seed == 0], "public")
    found = []
    for graph in ("cora", "citeseer"):
        for method in ROWS:
            if graph in graphs and method in methods:
                tried = [job for job in public_jobs([method], [graph]) if (job.row, graph) in first]
                tried.sort(key=lambda job: first[job.row, job.graph], reverse=True)
                found += [replace(job, seed=seed) for seed in range(1, SEEDS) for job in tried[:FINALISTS]]
    return found


def wide(method: str, graph: str) -> dict[str, int]:
    """The width of the vectors on public splits; half on PubMed, which has many nodes."""
    dim = 512 if graph != "pubmed" else 256
    return {"dim": dim, "hidden_dim": dim} if METHODS[method].traits.encoder else {"dim": 128}


def row(method: str, candidate: str) -> str:
    return method if candidate == DEFAULTS else f"{method}, {candidate}"


def choices(records: list[Record]) -> dict[tuple[str, str], str]:
    """The candidate with the best validation accuracy, by method and graph; the first of equals."""
    return _best(CANDIDATES, GRAPHS, _validation(records, "random"))


def public_choices(records: list[Record]) -> dict[tuple[str, str], str]:
    """The same on the public splits."""
    return _best(PUBLIC, PLANETOID, _validation(records, "public"))


def _validation(records: list[Record], protocol: str) -> dict[tuple[str, str], tuple[int, float]]:
    """How many trainings, and their mean validation accuracy in percent, by row and graph."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.protocol == protocol:
            accuracy = 100 * float(np.mean(record.views["embedding"].probe["val_accuracy"]))
            found.setdefault((record.row, record.graph), []).append(accuracy)
    return {key: (len(values), float(np.mean(values))) for key, values in found.items()}


def _best(
    candidates: Tried, graphs: Sequence[str], found: Mapping[tuple[str, str], tuple[int, float]]
) -> dict[tuple[str, str], str]:
    chosen = {}
    for method, names in candidates.items():
        for graph in graphs:
            tried = [name for name in names if (row(method, name), graph) in found]
            if tried:
                chosen[method, graph] = max(tried, key=lambda name: found[row(method, name), graph])
    return chosen


def expected(method: str, graph: str, records: list[Record]) -> dict[str, dict[str, Any]]:
    """What a recipe has for a graph, ``GRAPH`` or ``GRAPH-public``, as its sections."""
    name = graph.removesuffix("-public")
    changes = CANDIDATES[method][choices(records).get((method, name), DEFAULTS)]
    if name != graph:
        own = public_choices(records).get((method, name))
        changes = FOLLOWED.get((method, name), changes if own is None else PUBLIC[method][own])
        changes = {**wide(method, name), **changes}
    found: dict[str, dict[str, Any]] = {}
    for setting, value in changes.items():
        section, _, leaf = locate(setting).partition(".")
        found.setdefault(section, {})[leaf] = value
    return found


def table(records: list[Record]) -> str:
    """A line per candidate, a column per graph, the chosen one bold; for random and for public splits."""
    random = _lines(CANDIDATES, GRAPHS, _validation(records, "random"))
    public = _lines(PUBLIC, PLANETOID, _validation(records, "public"))
    lines = [
        "# Recipes of the methods that DSSL is compared with: what was tried",
        "",
        "Validation accuracy in percent, ten random 60/20/20 splits, one training each, 64 columns. Made by",
        "`python benchmarks/recipes.py` from the records in `recipes/`. **Bold**: best on validation, in the recipe.",
        "",
        *random,
        "",
        "## The public splits of Planetoid",
        "",
        "Accuracy in percent on the 500 validation nodes; 512 columns, on PubMed 256, where nothing else is said. One",
        "training each; of those with (3), the best of the first training, the mean of three seeds, and the choice is",
        "among them. *Rows*: features divided by their sum, node by node (`row_scale`). Methods and graphs that are",
        "not here have what the random splits chose, with that width. The recipes of",
        ", ".join(f"{method}:{graph}-public" for method, graph in FOLLOWED) + " have the settings of",
        "the authors' scripts instead, whatever validation prefers.",
        "",
        *public,
    ]
    return "\n".join(lines) + "\n"


def _lines(candidates: Tried, graphs: Sequence[str], found: Mapping[tuple[str, str], tuple[int, float]]) -> list[str]:
    chosen = _best(candidates, graphs, found)
    rows = []
    for method, names in candidates.items():
        for name, changes in names.items():
            cells = []
            for graph in graphs:
                value = found.get((row(method, name), graph))
                text = "–" if value is None else f"{value[1]:.1f}{f' ({value[0]})' if value[0] > 1 else ''}"
                cells.append(f"**{text}**" if chosen.get((method, graph)) == name else text)
            words = ", ".join(f"{key} {value}" for key, value in changes.items())
            rows.append([method, f"{name} ({words})" if words else name, *cells])
    return markdown_rows(["method", "candidate", *graphs], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--out", type=Path, default=Path("results/recipes"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()

    def show(job: Job, record: Record) -> None:
        print(f"{job.graph} {job.row}: {record.error or f'{record.seconds} s'}", flush=True)
        files.write_text(options.out.with_suffix(".md"), table(read_records(options.out)))

    wanted = [*jobs(options.methods, options.graphs), *public_jobs(options.methods, options.graphs)]
    experiments.run(wanted, options.out, workers=options.workers, on_record=show)
    last = finals(options.methods, options.graphs, read_records(options.out))
    experiments.run(last, options.out, workers=options.workers, on_record=show)


if __name__ == "__main__":
    main()
