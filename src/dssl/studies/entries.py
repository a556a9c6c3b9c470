"""Entries of a table: jobs with their place in it, for methods and training-free baselines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dssl.config.methods import METHODS
from dssl.config.recipes import read_recipe, recipes
from dssl.errors import ConfigError, nearest
from dssl.studies.experiments import Job
from dssl.studies.records import Record, View
from dssl.studies.results_table import Cell

SANITY = ("majority", "raw", "smoothed", "hops", "adjacency", "random-encoder")
QUICK: dict[str, Any] = {"epochs": 10}  # settings of every training of a smoke test
QUICK_SPLITS = 3
# Columns of DSSL in addition to the default: our loss on the paper's encoder, Algorithm 1, our trained vector.
PAPER_TERMS, AS_PRINTED, TRAINED = "paper-terms", "as printed", "dssl, trained part"
Printed = Mapping[tuple[str, str], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A job, one of its views, and the cell of a table that it belongs to.

    Args:
        job: the training or baseline.
        row: row of the table, mostly the graph.
        column: column of the table, mostly the method.
        view: the view of the model that is shown.
    """

    job: Job
    row: str
    column: str
    view: View = "embedding"


Results = Sequence[tuple[Entry, Record]]


def cells(results: Results, measure: str, printed: Printed | None = None) -> dict[tuple[str, str], Cell]:
    """Cells by row and column: a measure in percent, seed by seed, with the paper's number where it has one."""
    found: dict[tuple[str, str], Cell] = {}
    for entry, record in results:
        if values := record.views[entry.view].percent(measure):
            key = entry.row, entry.column
            before = found.get(key, Cell((), (printed or {}).get(key)))
            found[key] = before.plus(values, outdated=record.outdated)
    return found


def method_names(asked: Iterable[str]) -> list[str]:
    """Names of methods and baselines; ``sanity`` stands for all baselines, and none for everything."""
    every = [*SANITY, *METHODS]
    chosen = [name for part in asked for name in (SANITY if part == "sanity" else (part,))]
    for name in chosen:
        if name not in every:
            raise ConfigError(f"unknown method {name!r}{nearest(name, every) or '; use sanity, ' + ', '.join(METHODS)}")
    return list(dict.fromkeys(chosen)) or every


def method_entries(method: str, graph: str, *, seeds: Iterable[int] = (0,), quick: bool = False) -> list[Entry]:
    """Entries of a method or baseline on a graph: a job per seed; DSSL has two columns, on the paper's graphs four."""
    base = Job(graph, method, splits=QUICK_SPLITS if quick else 10, clusters=True)
    extra = QUICK if quick else {}
    if method == "random-encoder":
        return [_entry(replace(base, settings={"epochs": 0, "encoder": "gcn", "features": "raw"}))]
    if method in SANITY:
        return [_entry(replace(base, baseline=method, clusters=method != "majority"))]
    if method != "dssl":
        settings = {**method_settings(method, graph), **extra}
        return [_entry(replace(base, settings=settings, seed=seed)) for seed in seeds]
    found = []
    for seed in seeds:
        job = replace(base, settings=extra, seed=seed, views=("embedding", "trained"))
        found += [_entry(job), Entry(job, graph, TRAINED, "trained")]
    if graph in read_recipe(PAPER_TERMS).names:
        for row, own in ((PAPER_TERMS, {"recipe": f"{PAPER_TERMS}:{graph}"}), (AS_PRINTED, {"preset": "paper"})):
            found += [_entry(replace(base, row=row, settings={**own, **extra}, seed=seed)) for seed in seeds]
    return found


def _entry(job: Job) -> Entry:
    return Entry(job, job.graph, job.row)


def method_settings(method: str, graph: str) -> dict[str, Any]:
    """The method's recipe for a graph, or the method's defaults where the recipe does not cover the graph."""
    if method in recipes() and graph in read_recipe(method).names:
        return {"recipe": f"{method}:{graph}"}
    return {"method": method}
