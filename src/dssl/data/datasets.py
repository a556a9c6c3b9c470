"""Any graph by one string: a published data set, ``python:PACKAGE``, ``synthetic:…``, or an edge file.

>>> load("texsa")
Traceback (most recent call last):
    ...
dssl.errors.DatasetError: 'texsa' is neither a file nor a data set, did you mean 'texas'?
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.data.catalogue import DATASETS, Dataset, Figures, split_files
from dssl.data.published import bases, fetch_raw, find_raw, read_raw
from dssl.errors import DatasetError, nearest
from dssl.graph import Graph, SelfLoops
from dssl.graph import packed as store
from dssl.graph.cache import cached_graph
from dssl.graph.features import Encoding
from dssl.graph.statistics import summary

READER_VERSION = 1  # raise it when a reader makes another graph of the same files: cached ones are then made anew
SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz", ".txt")

Split = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def load(
    source: str | Path,
    *,
    nodes: str | Path | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    header: bool | None = None,
    directed: bool = False,
    self_loops: SelfLoops = "remove",
    encoding: Encoding | None = None,
) -> Graph:
    """Load a graph; all arguments but the first are for edge files, and refused with anything else.

    A data set is returned as published (directed if it is, with its self loops) with the ids 0 … N−1. Its name goes
    before a file of the same name: write ``./cora`` for the file.

    Args:
        source: name of a data set, ``python:PACKAGE``, ``synthetic:h=0.25,…``, ``planted:factors=4,…``, path of an
            edge file, or folder of a graph that ``dssl pack`` wrote.
        nodes: path of the node table.
        source_column: column with the start of each edge.
        target_column: column with the end of each edge.
        weight_column: column with the weight of each edge.
        id_column: column of the node table with the ids.
        label_column: column of the node table with the classes.
        feature_columns: columns of the node table that become features; by default all others.
        header: whether the edge file has a header; by default this is seen from the file.
        directed: keep the direction of edges.
        self_loops: remove or keep edges from a node to itself.
        encoding: how an earlier node table was turned into features, to treat this one alike.
    """
    text = str(source)
    packed = not _is_known(text) and store.is_store(source)
    if not packed and (isinstance(source, Path) or is_file(text)):
        from dssl.data.tables import read_edges

        return read_edges(
            Path(source),
            nodes=None if nodes is None else Path(nodes),
            source_column=source_column,
            target_column=target_column,
            weight_column=weight_column,
            id_column=id_column,
            label_column=label_column,
            feature_columns=feature_columns,
            header=header,
            directed=directed,
            self_loops=self_loops,
            encoding=encoding,
        )
    for_files = {
        "a node table": nodes,
        "the source column": source_column,
        "the target column": target_column,
        "the weight column": weight_column,
        "the id column": id_column,
        "the label column": label_column,
        "the feature columns": feature_columns,
        "whether there is a header": header,
        "directed": directed or None,
        "self_loops": None if self_loops == "remove" else self_loops,
        "an encoding": encoding,
    }
    given = [what for what, value in for_files.items() if value is not None]
    if given:
        raise DatasetError(f"{given[0]} can only be given with an edge file, and {text!r} is none; leave it out")
    return store.open_graph(source) if packed else _by_name(text)


def is_file(text: str) -> bool:
    """Say whether `load` takes a string for the path of an edge file: by its ending, or because it exists."""
    if _is_known(text):
        return False
    try:
        return text.lower().endswith(SUFFIXES) or Path(text).exists()
    except OSError:  # too long for a path
        return False


def _is_known(text: str) -> bool:
    """Whether a string names a graph, whatever files there are."""
    return text.startswith(("python:", "synthetic:", "planted:")) or _canonical(text) in DATASETS


def _by_name(text: str) -> Graph:
    if text.startswith("python:"):
        from dssl.data.python_code import package_graph

        return package_graph(text.removeprefix("python:"))
    if text.startswith("synthetic:"):
        from dssl.data.synthetic import from_spec

        return from_spec(text, load=load)
    if text.startswith("planted:"):
        from dssl.data.synthetic import planted_from_spec

        return planted_from_spec(text)
    if _canonical(text) not in DATASETS:
        guess = nearest(_canonical(text), [*DATASETS, "python:stdlib"]) or "; `dssl datasets` lists the data sets"
        raise DatasetError(f"{text!r} is neither a file nor a data set{guess}")
    return load_dataset(text)


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-")


def find(name: str) -> Dataset:
    """Return the catalogue's entry; an unknown name is an error that suggests the nearest one."""
    dataset = DATASETS.get(_canonical(name))
    if dataset is None:
        guess = nearest(_canonical(name), DATASETS) or "; `dssl datasets` lists them"
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


def where(name: str) -> Path | None:
    """Return the folder with the raw files of a data set on this machine, or none."""
    return find_raw(find(name))


def available(name: str) -> bool:
    """Say whether the raw files of a data set are on this machine."""
    return where(name) is not None


def catalogue() -> list[dict[str, Any]]:
    """Return one row for each known data set, with the keys of `dssl.graph.statistics.summary`, without loading any.

    The figures are those of the published files (a checksum makes sure of them when a graph is loaded). ``edges`` are
    without self loops. ``raw`` is the folder on this machine or none, ``paper`` the paper's figures or none.
    """
    return [
        {
            "name": dataset.name,
            **_row(asdict(dataset.figures)),
            "directed": dataset.directed,
            "raw": find_raw(dataset),
            "paper": None if dataset.paper is None else _row(asdict(dataset.paper)),
            "note": dataset.note,
        }
        for dataset in DATASETS.values()
    ]


def _row(figures: dict[str, Any]) -> dict[str, Any]:
    measures = ("edge", "class_average", "node", "adjusted")
    return {f"{key}_homophily" if key in measures else key: value for key, value in figures.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of a graph beside the paper's.

    Args:
        quantity: what is compared, a key of `dssl.graph.statistics.summary`.
        ours: measured on the graph as loaded, or none.
        paper: as printed in the paper, or none.
        agrees: whether they agree to the digits printed, or none.
    """

    quantity: str
    ours: int | float | None
    paper: int | float | None
    agrees: bool | None


def compare(name: str) -> list[Comparison]:
    """Put the figures of a data set beside the paper's; edges are counted without self loops.

    The graph is loaded and measured if it is on this machine; if not, nothing is downloaded, and the figures are
    those that were measured on the published files, as far as they are known.
    """
    dataset = find(name)
    measured = _row(asdict(dataset.measured))
    if find_raw(dataset):
        measured = summary(load_dataset(name))
        measured["edges"] -= measured["self_loops"]
    paper = _row(asdict(dataset.paper or Figures()))
    digits = {"edge_homophily": 2, "class_average_homophily": 3}
    rows = []
    for quantity, theirs in paper.items():
        ours = measured[quantity]
        known = ours is not None and theirs is not None
        agrees = round(ours, digits.get(quantity, 0)) == theirs if known else None
        rows.append(Comparison(quantity, ours, theirs, agrees))
    return rows


def published_splits(name: str) -> dict[str, list[Split]]:
    """Return the published splits whose files are on this machine, as ``(train, validation, test)`` positions.

    Kinds: ``geom-gcn`` (ten, 48/32/20 per cent though the files say 0.6 and 0.2; Cora's, and numbers 4 and 5 of
    CiteSeer's, cover the largest component only), ``linkx`` (five, 50/25/25, labelled nodes only), ``heterophilous``
    (ten, 50/25/25), ``public`` (the one of Planetoid: 20 nodes of each class, 500, 1,000).
    """
    dataset = find(name)
    found = {
        "geom-gcn": _geom_gcn_splits(dataset),
        "linkx": _linkx_splits(dataset),
        "heterophilous": _heterophilous_splits(dataset),
        "public": _public_split(dataset),
    }
    return {kind: splits for kind, splits in found.items() if splits}


def _locate(*places: str) -> Path | None:
    candidates = (base / place for base in bases() for place in places)
    return next((path for path in candidates if path.is_file()), None)


def _geom_gcn_splits(dataset: Dataset) -> list[Split]:
    if not dataset.split_name:
        return []
    paths = [_locate(f"{dataset.folder}/{file}", f"geomgcn_splits/{file}") for file in split_files(dataset.split_name)]
    splits = []
    for path in paths:
        if path is None:
            return []
        with np.load(path, allow_pickle=False) as masks:
            splits.append(_from_masks(masks["train_mask"], masks["val_mask"], masks["test_mask"]))
    return splits


def _from_masks(train: NDArray[Any], val: NDArray[Any], test: NDArray[Any]) -> Split:
    return np.flatnonzero(train), np.flatnonzero(val), np.flatnonzero(test)


# LINKX's split files are pickles: only these two, known by their SHA-256, are opened.
LINKX_SPLITS = {
    "penn94": ("fb100-Penn94-splits.npy", "88a1060358482d8e25b978ab59c4ff71771388cd5ffac3dd775a3cd9dc85b032"),
    "twitch-de": ("twitch-e-DE-splits.npy", "3e620e7b0d26e8b433e7e0bc0753d40c7004bfb51eba2d2926748f8be80e7806"),
}


def _linkx_splits(dataset: Dataset) -> list[Split]:
    file, sha256 = LINKX_SPLITS.get(dataset.name, ("", ""))
    path = _locate(f"{dataset.folder}/{file}") if file else None
    if path is None:
        return []
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise DatasetError(f"{path} is not the published split file (its SHA-256 differs); replace it")
    parts = np.load(path, allow_pickle=True)
    return [
        (
            np.asarray(part["train"], dtype=np.int64),
            np.asarray(part["valid"], dtype=np.int64),
            np.asarray(part["test"], dtype=np.int64),
        )
        for part in parts
    ]


def _heterophilous_splits(dataset: Dataset) -> list[Split]:
    path = _locate(f"{dataset.folder}/{dataset.files[0]}") if dataset.family == "heterophilous" else None
    if path is None:
        return []
    with np.load(path, allow_pickle=False) as content:
        masks = [content[f"{part}_masks"] for part in ("train", "val", "test")]
    return [_from_masks(*split) for split in zip(*masks, strict=True)]


def _public_split(dataset: Dataset) -> list[Split]:
    path = _locate(f"{dataset.folder}/{dataset.files[-1]}") if dataset.family == "planetoid" else None
    if path is None:
        return []
    classes = dataset.measured.classes
    assert classes is not None, "all three are in the catalogue"
    train = 20 * classes  # the files begin with the training nodes, 20 of each class
    test = np.sort(np.array(path.read_text(encoding="ascii").split(), dtype=np.int64))
    return [(np.arange(train), np.arange(train, train + 500), test)]
