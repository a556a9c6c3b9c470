"""The published data sets: find one by name, load it, list and compare their figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dssl.data.catalogue import DATASETS, Dataset, Figures
from dssl.data.published import fetch_raw, find_raw, read_raw
from dssl.errors import DatasetError, nearest
from dssl.graph import Graph
from dssl.graph.cache import cached_graph
from dssl.graph.statistics import summary

READER_VERSION = 1  # raise it when a reader builds another graph from the same files: cached graphs are then rebuilt


def canonical(name: str) -> str:
    """Return a name as the catalogue spells it."""
    return name.lower().replace("_", "-")


def find(name: str) -> Dataset:
    """Return the catalogue's entry; an unknown name is an error that suggests the nearest one."""
    dataset = DATASETS.get(canonical(name))
    if dataset is None:
        guess = nearest(canonical(name), DATASETS) or "; `dssl datasets` lists them"
        raise DatasetError(f"there is no data set {name!r}{guess}")
    return dataset


def load_dataset(name: str) -> Graph:
    """Load a published graph by name, from the cache of parsed graphs if its raw files have not changed."""
    dataset = find(name)
    folder = fetch_raw(dataset)
    stats = [(folder / file).stat() for file in dataset.files]
    state = " ".join(f"{stat.st_size}:{stat.st_mtime_ns}" for stat in stats)
    key = f"data set {dataset.name}, reader {READER_VERSION}, files {state}"
    return cached_graph(key, lambda: read_raw(dataset, folder), slot=f"{dataset.name} {folder.resolve()}")


def available(name: str) -> bool:
    """Say whether the raw files of a data set are on this machine."""
    return find_raw(find(name)) is not None


def catalogue() -> list[dict[str, Any]]:
    """Return one row for each known data set, with the keys of `dssl.graph.statistics.summary`, without loading any.

    The figures are those of the published files (a checksum makes sure of them when a graph is loaded). ``edges`` are
    without self loops, ``duplicates`` is the fraction of nodes that share links and label with another, ``spectrum`` is
    the result of `spectrum`, ``raw`` the folder on this machine or none, ``paper`` the paper's figures or none.
    """
    return [
        {
            "name": dataset.name,
            **_row(dataset.figures),
            "directed": dataset.directed,
            "duplicates": None if dataset.measured is None else dataset.measured.duplicates,
            "spectrum": spectrum(dataset.name),
            "raw": find_raw(dataset),
            "paper": None if dataset.paper is None else _row(dataset.paper),
            "note": dataset.note,
        }
        for dataset in DATASETS.values()
    ]


def spectrum(name: str) -> dict[str, float] | None:
    """Return the extent of the spectrum of homophily as measured, see `dssl.graph.homophily_spectrum`, or none."""
    measured = find(name).measured
    return (
        None if measured is None else dict(zip(("directions", "smallest", "largest"), measured.spectrum, strict=True))
    )


def _row(figures: Figures) -> dict[str, Any]:
    measures = ("edge", "class_average", "node", "adjusted")
    return {f"{key}_homophily" if key in measures else key: value for key, value in asdict(figures).items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One statistic of a graph, with the paper's value.

    Args:
        quantity: the compared quantity, a key of `dssl.graph.statistics.summary`.
        ours: measured on the graph as loaded, or none.
        paper: as printed in the paper, or none.
        agrees: whether they agree to the digits printed, or none.
    """

    quantity: str
    ours: int | float | None
    paper: int | float | None
    agrees: bool | None


def compare(name: str) -> list[Comparison]:
    """Compare the statistics of a data set with the paper's; edges are counted without self loops.

    The graph is loaded and measured if it is on this machine; if not, nothing is downloaded, and the figures are
    those that were measured on the published files, as far as they are known.
    """
    dataset = find(name)
    measured = _row(Figures() if dataset.measured is None else dataset.measured.figures)
    if find_raw(dataset):
        measured = summary(load_dataset(name))
        measured["edges"] -= measured["self_loops"]
    paper = _row(dataset.paper or Figures())
    digits = {"edge_homophily": 2, "class_average_homophily": 3}
    rows = []
    for quantity, theirs in paper.items():
        ours = measured[quantity]
        known = ours is not None and theirs is not None
        agrees = round(ours, digits.get(quantity, 0)) == theirs if known else None
        rows.append(Comparison(quantity, ours, theirs, agrees))
    return rows
