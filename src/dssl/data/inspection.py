"""A graph before it is trained on: sizes, degrees, components, and how each column of the node table is encoded."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dssl.config.schema import ReadOptions
from dssl.data.columns import open_columns
from dssl.data.load import is_file, read_graph
from dssl.data.tables import chosen_kinds, id_and_label
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.column_fit import ColumnFit, plain
from dssl.graph.features import decode, encode_labels
from dssl.graph.homophily_spectrum import homophily_spectrum
from dssl.graph.statistics import homophily, summary

MOST_CLASSES = 50  # categories of a column up to which it is a candidate label
QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class InspectedColumn:
    """One column of a node table.

    Args:
        name: name of the column.
        stored: type in the file.
        missing: fraction of missing values.
        kind: type that decides the encoding, ``id`` or ``label`` for these two, ``error`` if it cannot be encoded.
        encoding: the encoding in a few words, or the error.
        homophily: adjusted homophily if the column were the label; none where it is not a candidate.
    """

    name: str
    stored: str
    missing: float
    kind: str
    encoding: str
    homophily: float | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """The properties of a graph before any training.

    Args:
        summary: sizes and shape, as of `dssl.summary`, with the quantiles of the degrees.
        columns: the columns of the node table; empty without one.
        changes: changes made while reading, in words.
        spectrum: directions of the features in which neighbours are similar or opposite above chance: their number and
            the smallest and largest eigenvalue of the spectrum of homophily; none without features or links.
    """

    summary: dict[str, Any]
    columns: tuple[InspectedColumn, ...]
    changes: tuple[str, ...]
    spectrum: dict[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def inspect(options: ReadOptions) -> Inspection:
    """Read a graph and describe it, with every column that cannot be encoded named at once.

    Args:
        options: the graph and how its files are read.
    """
    columns: list[InspectedColumn] = []
    if is_file(options.source) and options.nodes is not None and not options.nodes.endswith(".npz"):
        columns = _columns(options)
        broken = [column.name for column in columns if column.kind == "error"]
        kept = [part for part in options.column_types or () if part.rpartition("=")[0] not in broken]
        types = (*kept, *(f"{name}=ignore" for name in broken))
        options = options.model_copy(update={"column_types": types or None})
    graph = read_graph(options)
    degrees = np.quantile(graph.degrees, QUANTILES)
    shown = summary(graph) | {"degree_quantiles": dict(zip(map(str, QUANTILES), degrees.tolist(), strict=True))}
    scores = _homophily_by_column(graph)
    columns = [_with_homophily(column, scores) for column in columns]
    return Inspection(shown, tuple(columns), tuple(map(str, graph.history)), _spectrum(graph))


def _spectrum(graph: Graph) -> dict[str, float] | None:
    if graph.x is None or not graph.num_features or not graph.num_arcs:
        return None
    return homophily_spectrum(graph).extent


def _columns(options: ReadOptions) -> list[InspectedColumn]:
    nodes = open_columns(Path(options.nodes or ""))
    key, label = id_and_label(nodes, options)
    kinds = chosen_kinds(options, nodes)
    text = {name: pa.string() for name in (key, label) if name is not None}
    table = nodes.read(text)
    found = []
    for name in nodes.names:
        values = plain(table[name], name)
        if name in (key, label):
            missing = values.null_count / max(len(values), 1)
            role = "id" if name == key else "label"
            found.append(InspectedColumn(name, str(values.type), missing, role, _role_words(role, values, name)))
            continue
        if options.feature_columns is not None and name not in options.feature_columns:
            continue
        fit = ColumnFit(name, kinds.get(name))
        try:
            fit.add(values)
            column = fit.column()
            kind, words = str(column.kind), column.summary
        except GraphError as error:
            kind, words = "error", str(error)
        found.append(InspectedColumn(name, str(values.type), fit.missing / max(fit.rows, 1), kind, words))
    return found


def _role_words(role: str, values: pa.Array, name: str) -> str:
    if role == "id":
        return "node id"
    _, classes = encode_labels(values, name)
    return f"{len(classes)} classes, used for evaluation only"


def _homophily_by_column(graph: Graph) -> dict[str, float]:
    """Adjusted homophily of the label and of each category or flag that could be one."""
    found = {} if graph.y is None else {"": homophily(graph).adjusted}
    if graph.x is None or graph.encoding is None:
        return found
    for column, values in decode(graph.x, graph.encoding):
        if column.kind == "flag" or (column.kind == "category" and 2 <= len(column.categories) <= MOST_CLASSES):
            y = np.where(np.isnan(values), -1, values).astype(np.int64)
            found[column.name] = homophily(graph.replace(y=y, class_names=None)).adjusted
    return found


def _with_homophily(column: InspectedColumn, scores: dict[str, float]) -> InspectedColumn:
    score = scores.get("" if column.kind == "label" else column.name)
    if score is None or np.isnan(score):
        return column
    return replace(column, homophily=float(score))
