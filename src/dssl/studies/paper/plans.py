"""Which trainings each table of the paper needs: plans, as jobs of `dssl.studies.experiments`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dssl.config.methods import METHODS
from dssl.data.catalogue import DATASETS
from dssl.errors import ConfigError, nearest
from dssl.studies.experiments import Job, View
from dssl.studies.paper import numbers

SANITY = ("majority", "raw", "smoothed", "hops", "adjacency", "random-encoder")
PLANETOID = ("cora", "citeseer", "pubmed")
SMALL = 6000  # nodes of the graphs that --quick keeps
QUICK = {"epochs": 10}
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
BASES: dict[str, dict[str, Any]] = {
    "as printed": {"preset": "paper"},
    "paper-terms": {"recipe": "paper-terms"},
    "default, trained part": {"skip": False},
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to make a table of.

    Args:
        datasets: graphs, or none for those of the table.
        methods: names of methods, and ``sanity``; none for all.
        seeds: trainings per cell, or none for as many as the table asks for.
        quick: few splits and epochs, small graphs: to see that it works.
    """

    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: int | None = None
    quick: bool = False


def classification_jobs(options: Options) -> list[Job]:
    """Every method and baseline on every graph that is here; k-means comes with it, for Table 5."""
    from dssl.data.datasets import available

    jobs = []
    for graph in filter(available, graphs_of(options, catalogue_graphs())):
        for method in methods_of(options):
            jobs += method_jobs(method, graph, options)
    return jobs


def summary_jobs(options: Options) -> list[Job]:
    """DSSL and the baselines without training, as Table 1 has them."""
    shown = tuple(name for name in methods_of(options) if name in (*SANITY, "dssl"))
    return classification_jobs(replace(options, methods=shown)) if shown else []


def method_jobs(method: str, graph: str, options: Options) -> list[Job]:
    """A method or baseline on a graph: one job per seed."""
    from dssl.config.recipes import read_recipe

    base = Job(graph, method, splits=3 if options.quick else 10, clusters=True)
    extra = QUICK if options.quick else {}
    if method in SANITY and method != "random-encoder":
        return [replace(base, baseline=method, clusters=method != "majority")]
    if method == "random-encoder":
        return [replace(base, settings={"epochs": 0, "encoder": "gcn", "skip": False})]
    if method != "dssl":
        settings = {**method_settings(method, graph), **extra}
        return [replace(base, settings=settings, seed=seed) for seed in seeds_of(options, 1)]
    views: tuple[View, ...] = ("embedding", "trained")
    jobs = [replace(base, settings=extra, seed=seed, views=views) for seed in seeds_of(options, 1)]
    if graph in read_recipe("paper-terms").names:
        settings = {"recipe": f"paper-terms:{graph}", **extra}
        jobs += [replace(base, row="paper-terms", settings=settings, seed=seed) for seed in seeds_of(options, 1)]
    return jobs


def method_settings(method: str, graph: str) -> dict[str, Any]:
    """The method's recipe for a graph, or the method as it is where the recipe does not know the graph."""
    from dssl.config.recipes import read_recipe, recipes

    if method in recipes() and graph in read_recipe(method).names:
        return {"recipe": f"{method}:{graph}"}
    return {"method": method}


def published_jobs(options: Options) -> list[Job]:
    """Every method with a recipe for the public splits of Planetoid: wide vectors, one split; PubMed has one seed."""
    from dssl.config.recipes import read_recipe, recipes

    extra = QUICK if options.quick else {}
    return [
        Job(graph, method, {"recipe": f"{method}:{graph}-public", **extra}, seed=seed, splits=1, protocol="public")
        for graph in graphs_of(options, PLANETOID)
        for method in methods_of(options)
        if method in recipes() and f"{graph}-public" in read_recipe(method).names
        for seed in seeds_of(options, 1 if graph == "pubmed" else 3)
    ]


def factor_jobs(options: Options) -> list[Job]:
    """The default preset on every graph, as Table 1 has it."""
    return classification_jobs(replace(options, methods=("dssl",)))


def ablation_jobs(options: Options) -> list[Job]:
    """Each ablation of each base configuration."""
    return [
        Job(
            graph,
            f"{row}, {base}",
            {**for_graph(settings, graph), **ABLATIONS[row], **(QUICK if options.quick else {})},
            seed=seed,
            splits=3 if options.quick else 10,
        )
        for graph in graphs_of(options, ("texas", "cornell-2020", "cora"))
        for base, settings in BASES.items()
        for row in ABLATIONS
        for seed in seeds_of(options, 3)
    ]


def gat_jobs(options: Options) -> list[Job]:
    """DSSL and the other methods with a GAT for an encoder."""
    from dssl.data.datasets import available

    jobs = []
    for graph in filter(available, graphs_of(options, numbers.GRAPHS)):
        for method in _gat_methods(options):
            theirs = {"recipe": f"paper-terms:{graph}"} if method == "dssl" else method_settings(method, graph)
            own = {} if method == "dssl" else {"layers": 2}
            settings = {**theirs, **own, "encoder": "gat", **(QUICK if options.quick else {})}
            jobs += [
                Job(graph, method, settings, seed=seed, splits=3 if options.quick else 10)
                for seed in seeds_of(options, 1)
            ]
    return jobs


def _gat_methods(options: Options) -> list[str]:
    return [
        name
        for name in ("mvgrl", "bgrl", "dssl")
        if name in METHODS and (not options.methods or name in options.methods)
    ]


def synthetic_jobs(options: Options) -> list[Job]:
    """Every method on the synthetic graphs, at 25/25/50."""
    jobs = []
    for h in numbers.HOMOPHILY:
        graph = synthetic_spec(h, options)
        for method in methods_of(options):
            for job in method_jobs(method, graph, options):
                jobs.append(replace(job, shares=(0.25, 0.25, 0.5), clusters=False))
    return jobs


def synthetic_spec(h: float, options: Options) -> str:
    """The graph of Table 6 with a share h of links inside classes."""
    return f"synthetic:h={h:g},nodes={1000 if options.quick else 10000},classes=10,degree=12"


def catalogue_graphs() -> tuple[str, ...]:
    """The paper's graphs, and the others that are on this machine."""
    from dssl.data.datasets import available

    return (*numbers.GRAPHS, *(name for name in DATASETS if name not in numbers.GRAPHS and available(name)))


def graphs_of(options: Options, usual: Sequence[str]) -> list[str]:
    """Names of the graphs that were asked for, or the usual ones; the quick ones alone if in a hurry."""
    from dssl.data.datasets import find

    chosen = [find(name).name for name in options.datasets] or list(usual)
    return [name for name in chosen if not options.quick or (DATASETS[name].figures.nodes or 0) < SMALL]


def methods_of(options: Options) -> list[str]:
    """Names of methods and baselines; ``sanity`` stands for all baselines."""
    every = [*SANITY, *METHODS]
    chosen = [name for part in options.methods for name in (SANITY if part == "sanity" else (part,))]
    for name in chosen:
        if name not in every:
            raise ConfigError(f"unknown method {name!r}{nearest(name, every) or '; use sanity, ' + ', '.join(METHODS)}")
    return list(dict.fromkeys(chosen)) or every


def seeds_of(options: Options, usual: int) -> range:
    """Seeds of the trainings of a cell."""
    return range(1 if options.quick else options.seeds or usual)


def for_graph(settings: Mapping[str, Any], graph: str) -> dict[str, Any]:
    """A recipe by name becomes the recipe for the graph, where it knows the graph."""
    from dssl.config.recipes import read_recipe

    if "recipe" not in settings or graph not in read_recipe(settings["recipe"]).names:
        return dict(settings)
    return {**settings, "recipe": f"{settings['recipe']}:{graph}"}
