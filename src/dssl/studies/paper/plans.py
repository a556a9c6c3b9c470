"""Plans: the trainings that each table of the paper needs, with their place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dssl.config.recipes import read_recipe, recipes
from dssl.data.catalogue import DATASETS
from dssl.data.datasets import available, find
from dssl.studies.entries import (
    AS_PRINTED,
    PAPER_TERMS,
    QUICK,
    QUICK_SPLITS,
    SANITY,
    Entry,
    method_entries,
    method_names,
    method_settings,
)
from dssl.studies.experiments import Job
from dssl.studies.paper import numbers

PLANETOID = ("cora", "citeseer", "pubmed")
DIAL_SHARES = (0.25, 0.25, 0.5)  # train, validation and test on the synthetic graphs
PUBLIC_WIDTH = 512  # columns of DSSL there
SMALL = 6000  # nodes of the graphs that --quick keeps
ABLATIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "A1": {"local_weight": 0.0},
    "A2": {"global_weight": 0.0},
    "A3": {"entropy_weight": 0.0},
    "A4": {"shift_scale": 0.0},
    "A5": {"inference": "uniform"},
    "A2+A3": {"global_weight": 0.0, "entropy_weight": 0.0},
    "A2+A4": {"global_weight": 0.0, "shift_scale": 0.0},
    "A2+A5": {"global_weight": 0.0, "inference": "uniform"},
}
ABLATION_GRAPHS = ("texas", "cornell-2020", "cora")
BASES: dict[str, dict[str, Any]] = {
    AS_PRINTED: {"preset": "paper"},
    PAPER_TERMS: {"recipe": PAPER_TERMS},
    "raw features": {"features": "raw"},
}


@dataclass(frozen=True, slots=True)
class Options:
    """Selection of graphs, methods and seeds.

    Args:
        datasets: graphs, or none for those of the table.
        methods: names of methods, and ``sanity``; none for all.
        seeds: trainings per cell, or none for the table's own number.
        quick: few splits and epochs, small graphs: a smoke test.
        rows: rows of the table of regret; none for all.
        budgets: label budgets that the table of regret shows; none for all.
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: int | None = None
    quick: bool = False
    rows: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()


def classification(options: Options) -> list[Entry]:
    """Every method and baseline on every graph on this machine; k-means is included, for Table 5."""
    return [
        entry
        for graph in filter(available, graphs_of(options, catalogue_graphs()))
        for method in method_names(options.methods)
        for entry in method_entries(method, graph, seeds=seeds_of(options, 1), quick=options.quick)
    ]


def summary(options: Options) -> list[Entry]:
    """DSSL and the training-free baselines, as in Table 1."""
    shown = tuple(name for name in method_names(options.methods) if name in (*SANITY, "dssl"))
    return classification(replace(options, methods=shown)) if shown else []


def factors(options: Options) -> list[Entry]:
    """The default preset on every graph, as in Table 1."""
    return classification(replace(options, methods=("dssl",)))


def published(options: Options) -> list[Entry]:
    """Every method with a recipe for the public splits of Planetoid: wide vectors, one split; PubMed has one seed.

    DSSL has its defaults and 512 columns. Where the authors' code was run on random splits, a method has its width
    there.
    """
    found = []
    methods = method_names(options.methods)
    for graph in graphs_of(options, PLANETOID):
        for method in methods:
            if settings := _public(method, graph):
                job = Job(graph, method, settings, splits=1, protocol="public")
                found += _trainings(options, job, graph, method, usual=1 if graph == "pubmed" else 3)
    for method in filter(recipes().__contains__, methods):
        for graph, (columns, _) in read_recipe(method).header.wide.items():
            if not options.datasets or graph in options.datasets:
                settings = {"recipe": f"{method}:{graph}", "dim": columns, "hidden_dim": columns}
                job = Job(graph, method, settings, splits=splits_of(options))
                found += _trainings(options, job, graph, method, usual=3)
    return found


def _public(method: str, graph: str) -> dict[str, Any]:
    """Settings of a method for the public split of a graph; none without a recipe for it."""
    if method == "dssl":
        return {"dim": PUBLIC_WIDTH} if graph in PLANETOID else {}
    known = method in recipes() and f"{graph}-public" in read_recipe(method).names
    return {"recipe": f"{method}:{graph}-public"} if known else {}


def ablations(options: Options) -> list[Entry]:
    """Each ablation of each base configuration."""
    found = []
    for graph in graphs_of(options, ABLATION_GRAPHS):
        for base, own in BASES.items():
            for row, changes in ABLATIONS.items():
                settings = {**for_graph(own, graph), **changes}
                job = Job(graph, f"{row}, {base}", settings, splits=splits_of(options))
                found += _trainings(options, job, row, ablation_column(graph, base), usual=3)
    return found


def ablation_column(graph: str, base: str) -> str:
    """The column of Table 2 for a graph and a base configuration."""
    return f"{graph}, {base}"


def gat(options: Options) -> list[Entry]:
    """DSSL and two other methods with a GAT encoder."""
    found = []
    for graph in filter(available, graphs_of(options, numbers.GRAPHS)):
        for method in ("mvgrl", "bgrl", "dssl"):
            if options.methods and method not in options.methods:
                continue
            own = method == "dssl"
            theirs = {"recipe": f"{PAPER_TERMS}:{graph}"} if own else {**method_settings(method, graph), "layers": 2}
            job = Job(graph, method, {**theirs, "encoder": "gat"}, splits=splits_of(options))
            found += _trainings(options, job, graph, method, usual=1)
    return found


def synthetic(options: Options) -> list[Entry]:
    """Every method on the synthetic graphs, at 25/25/50."""
    return [
        replace(entry, job=replace(entry.job, shares=DIAL_SHARES, clusters=False), row=f"{h:g}")
        for h in numbers.HOMOPHILY
        for method in method_names(options.methods)
        for graph in [synthetic_spec(h, quick=options.quick)]
        for entry in method_entries(method, graph, seeds=seeds_of(options, 1), quick=options.quick)
    ]


def synthetic_spec(h: float, *, quick: bool = False) -> str:
    """The graph of Table 6 with a fraction h of links inside classes."""
    return f"synthetic:h={h:g},nodes={1000 if quick else 10000},classes=10,degree=12"


def catalogue_graphs() -> tuple[str, ...]:
    """The paper's graphs, and the others that are on this machine."""
    return (*numbers.GRAPHS, *(name for name in DATASETS if name not in numbers.GRAPHS and available(name)))


def graphs_of(options: Options, usual: Sequence[str]) -> list[str]:
    """Names of the selected graphs, or the usual ones; small ones alone in a smoke test."""
    chosen = [find(name).name for name in options.datasets] or list(usual)
    return [name for name in chosen if not options.quick or _nodes(name) < SMALL]


def _nodes(name: str) -> int:
    return (DATASETS[name].figures.nodes or 0) if name in DATASETS else SMALL


def seeds_of(options: Options, usual: int) -> range:
    """Seeds of the trainings of a cell."""
    return range(1 if options.quick else options.seeds or usual)


def splits_of(options: Options) -> int:
    """Number of random splits."""
    return QUICK_SPLITS if options.quick else 10


def for_graph(settings: Mapping[str, Any], graph: str) -> dict[str, Any]:
    """Settings whose recipe is the one for the graph, where it covers the graph."""
    if "recipe" not in settings or graph not in read_recipe(settings["recipe"]).names:
        return dict(settings)
    return {**settings, "recipe": f"{settings['recipe']}:{graph}"}


def quick_settings(options: Options) -> dict[str, Any]:
    """Settings of every training: none, or those of a smoke test."""
    return QUICK if options.quick else {}


def _trainings(options: Options, job: Job, row: str, column: str, *, usual: int) -> list[Entry]:
    """The entries of a cell: a job with each seed."""
    job = replace(job, settings={**job.settings, **quick_settings(options)})
    return [Entry(replace(job, seed=seed), row, column) for seed in seeds_of(options, usual)]
