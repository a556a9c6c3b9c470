"""Edge lists and node tables, from files or from memory -> `Graph`.

Nothing is guessed silently: unclear or wrong input is refused in one line with file, line and value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dssl.config.schema import ReadOptions
from dssl.data.columns import (
    Columns,
    FrameColumns,
    ParquetColumns,
    choose_column,
    ending,
    open_columns,
)
from dssl.data.convert import checked_matrix, from_scipy
from dssl.data.edge_list import (
    EdgeColumns,
    counted,
    edge_columns,
    has_text_ids,
    id_chunks,
    open_edges,
    read_links,
    refuse_missing,
    table_of,
    trimmed,
    usual_column,
)
from dssl.data.feature_blocks import LONG, encode_blocks
from dssl.data.graphml import read_graphml
from dssl.data.other_columns import other_labels, possible_labels, possible_types, unused_columns
from dssl.data.standard_input import STDIN
from dssl.data.text import one_line
from dssl.data.times import Keep, Times
from dssl.errors import GraphError
from dssl.graph import Change, Graph, SelfLoops
from dssl.graph.column_fit import BadCell
from dssl.graph.encoding import Encoding, Kind, check_kind
from dssl.graph.features import as_integers, encode, encode_labels

IDS = ("id", "node_id", "node", "nodeid", "ids")


def read_edges(options: ReadOptions, *, encoding: Encoding | None = None) -> Graph:
    """Read a graph from an edge list, and optionally a node table; `dssl.load` documents the options.

    Args:
        options: paths of the files, their columns, and the treatment of directions and self loops.
        encoding: encoding of an earlier node table, to be applied to this one.
    """
    path = Path(options.source)
    nodes = None if options.nodes is None else Path(options.nodes)
    kind = "" if options.source == STDIN else ending(path)
    if kind == ".graphml":
        return read_graphml(options)
    if kind == ".npz":
        return _read_matrix(path, nodes, options, encoding)
    edges = open_edges(options)
    if nodes is not None and ending(nodes) in (".npz", ".graphml"):
        raise GraphError(f"{nodes} is not a table with ids; give a node table with the edge list {edges.title}")
    table = None if nodes is None else open_columns(nodes)
    return _build(edges, table, options, encoding, name="graph" if options.source == STDIN else _stem(path))


def from_tables(
    edges: Any,
    nodes: Any = None,
    *,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    kind_column: str | None = None,
    time_column: str | None = None,
    until: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    column_types: Mapping[str, str] | None = None,
    count_edges: bool | None = None,
    trim: bool | None = None,
    directed: bool = False,
    self_loops: SelfLoops = "remove",
    encoding: Encoding | None = None,
    name: str = "graph",
) -> Graph:
    """Build a graph from tables in memory: pandas, polars, pyarrow, or a dict of columns. See `dssl.load`.

    Args:
        edges: a row per edge.
        nodes: a row per node.
        source_column: column with the start of each edge.
        target_column: column with the end of each edge.
        weight_column: column with the weight of each edge.
        kind_column: column with the kind of each edge; the graph is then directed.
        time_column: column with the time of each edge; only edges before ``until`` are read.
        until: first time that is left out: a date, a number, or a percentage of the edges.
        id_column: column of the node table with the ids.
        label_column: column of the node table with the classes.
        feature_columns: columns of the node table that become features.
        column_types: type of each named column of the node table.
        count_edges: take the number of rows of an edge as its weight.
        trim: remove spaces around node ids.
        directed: keep the direction of edges.
        self_loops: remove or keep edges from a node to itself.
        encoding: how an earlier node table was turned into features.
        name: what reports call the graph.

    >>> g = from_tables({"source": ["b", "a"], "target": ["c", "b"]})
    >>> g.ids.to_pylist(), g.num_edges
    (['a', 'b', 'c'], 2)
    """
    options = ReadOptions(
        source_column=source_column,
        target_column=target_column,
        weight_column=weight_column,
        kind_column=kind_column,
        time_column=time_column,
        until=until,
        id_column=id_column,
        label_column=label_column,
        feature_columns=None if feature_columns is None else tuple(feature_columns),
        column_types=column_types_of(column_types),
        count_edges=count_edges,
        trim=trim,
        directed=directed,
        self_loops=self_loops,
    )
    table = None if nodes is None else FrameColumns(nodes, "the node table")
    return _build(FrameColumns(edges, "the edge table"), table, options, encoding, name=name)


@dataclass(frozen=True, slots=True)
class NodeTable:
    """A node table that has been read: ids, features and labels as `Graph` takes them."""

    ids: pa.Array = None  # none with a matrix: the positions
    x: NDArray[np.float32] | sparse.csr_array | None = None
    feature_names: tuple[str, ...] | None = None
    y: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    notes: tuple[Change, ...] = ()


def column_types_of(types: Mapping[str, str] | None) -> tuple[str, ...] | None:
    """Return types of columns as the options hold them, each ``name=type``."""
    return None if types is None else tuple(f"{name}={kind}" for name, kind in types.items())


def chosen_kinds(options: ReadOptions, nodes: Columns) -> dict[str, Kind]:
    """Return the types of columns that the user chose."""
    found = {}
    for part in options.column_types or ():
        name, equals, kind = part.rpartition("=")
        if not equals:
            raise GraphError(f"column_types: {part!r} is not of the form name=type, such as age=number")
        found[choose_column(nodes, name, "column_types")] = check_kind(name, kind)
    return found


def _build(
    edges: Columns, nodes: Columns | None, options: ReadOptions, encoding: Encoding | None, *, name: str
) -> Graph:
    columns = edge_columns(edges, options)
    keep, held_out = _before(edges, options)
    if nodes is None:
        _refuse_node_options(options, encoding)
        links = read_links(edges, columns, trim=bool(options.trim), keep=keep)
        if not links.source.size:
            raise GraphError(f"{edges.title} holds no edges; give at least one, or a node table")
        table = NodeTable(links.ids)
    else:
        table = read_node_table(nodes, options, encoding, text_ids=has_text_ids(edges, columns))
        links = read_links(edges, columns, table.ids, nodes.title, trim=bool(options.trim), keep=keep)
    links = counted(links, edges.title) if options.count_edges else links
    graph = Graph.from_edges(
        links.source,
        links.target,
        num_nodes=len(table.ids),
        weights=links.weights,
        kinds=links.kinds,
        kind_names=links.kind_names,
        directed=options.directed or links.kinds is not None,
        self_loops=options.self_loops,
        ids=table.ids,
        x=table.x,
        feature_names=table.feature_names,
        y=table.y,
        class_names=table.class_names,
        encoding=table.encoding,
        name=name,
    )
    notes = (*table.notes, *_like_nodes(columns, options), *unused_columns(edges, columns))
    notes = (*notes, *_spaced(table.ids), *held_out)
    return graph.replace(history=(*graph.history, *notes)) if notes else graph


def _before(edges: Columns, options: ReadOptions) -> tuple[Keep | None, tuple[Change, ...]]:
    """Which edges are read by their time, and a note about the others."""
    if options.time_column is None:
        if options.until is not None:
            raise GraphError("until needs the column with the time of each edge; name it with time_column")
        return None, ()
    times = Times(edges, options.time_column)
    moment = times.moment(options.until)
    return times.before(moment), (Change(f"edges from {moment.words} on are held out", moment.held_out),)


def _like_nodes(columns: EdgeColumns, options: ReadOptions) -> Iterator[Change]:
    """A note on an edge list whose first column has the name of the ids of a node table."""
    if options.source_column is None and columns.source.lower() in IDS:
        ends = f"{columns.source!r}, {columns.target!r}"
        yield Change(f"columns, as of a node table, are read as the ends of edges: {ends} (--source-column)", 2)


def _spaced(ids: pa.Array) -> Iterator[Change]:
    """A note on ids such as ``"n39 "``, which are other nodes than those without the space."""
    if ids.type == pa.string():
        count = pc.sum(pc.not_equal(ids, pc.utf8_trim_whitespace(ids))).as_py()
        if count:
            yield Change("ids with spaces around them, which --trim removes", count)


def _refuse_node_options(options: ReadOptions, encoding: Encoding | None) -> None:
    given = {name: getattr(options, name) for name in ("id_column", "label_column", "feature_columns", "column_types")}
    for option, value in {**given, "encoding": encoding}.items():
        if value is not None:
            raise GraphError(f"{option} applies to a node table, and none is given; give one with nodes")


def id_and_label(nodes: Columns, options: ReadOptions) -> tuple[str, str | None]:
    """Return the columns of a node table with the ids and with the labels, if there are any."""
    key = choose_column(nodes, options.id_column, "id_column") if options.id_column else usual_column(nodes, IDS)
    label = options.label_column or next((name for name in nodes.names if name.lower() == "label"), None)
    if label is not None:
        choose_column(nodes, label, "label_column")
    return key, label


def read_node_table(nodes: Columns, options: ReadOptions, encoding: Encoding | None, *, text_ids: bool) -> NodeTable:
    """Read a node table.

    Args:
        nodes: the table.
        options: its columns.
        encoding: encoding of an earlier node table, to be applied to this one.
        text_ids: whether ids are text, also those that are written as integers.
    """
    key, label = id_and_label(nodes, options)
    chosen: Sequence[str] | None = options.feature_columns
    if chosen is None:
        chosen = [name for name in nodes.names if name not in (key, label)]
    for name in chosen:
        choose_column(nodes, name, "feature_columns")
    kinds = chosen_kinds(options, nodes)
    long = nodes if isinstance(nodes, ParquetColumns) and nodes.num_rows > LONG else None
    if long is not None:
        table = long.read({}, [key, *([] if label is None else [label])])
    else:
        table = nodes.read(_node_types(key, label, encoding, kinds))
    if not table.num_rows:
        raise GraphError(f"{nodes.title} holds no nodes; give at least one row")
    ids = _node_ids(nodes, table, key, text_ids, trim=bool(options.trim))
    try:
        if long is not None:
            x, names, fitted = encode_blocks(long.parts, long.num_rows, chosen, encoding, kinds=kinds)
        else:
            x, names, fitted = encode(table, chosen, encoding, kinds=kinds)
        y, classes = (None, ()) if label is None else encode_labels(table[label], label)
    except BadCell as error:
        value = error.value if nodes.typed else f"the value {nodes.shown(error.row, error.column)}"
        raise GraphError(
            f"{nodes.title}, {nodes.place(error.row)}, column {error.column!r}: {value} {error.advice}"
        ) from None
    except GraphError as error:
        raise GraphError(f"{nodes.title}: {error}") from None
    notes = tuple(Change(f"column left out: {column.name!r}, {column.note}", 1) for column in fitted.ignored)
    if encoding is None:
        notes += possible_types(table, [name for name in chosen if name not in kinds])
    free = () if encoding is not None or options.feature_columns is not None else chosen
    notes += possible_labels(table, free) if label is None else other_labels(free)
    found = NodeTable(ids, y=y, class_names=None if y is None else classes, notes=notes)
    return found if x is None else replace(found, x=x, feature_names=names, encoding=fitted)


def _node_types(
    key: str, label: str | None, encoding: Encoding | None, chosen: Mapping[str, Kind]
) -> dict[str, pa.DataType]:
    kinds = {"number": pa.float64(), "flag": pa.bool_(), "category": pa.string(), "text": pa.string()}
    known = chosen if encoding is None else {column.name: column.kind for column in encoding.columns}
    fitted = {name: kinds.get(kind) for name, kind in known.items()}
    types = {name: kind for name, kind in fitted.items() if kind is not None}
    return types | {key: pa.string()} | ({label: pa.string()} if label is not None else {})


def _node_ids(nodes: Columns, table: pa.Table, key: str, text_ids: bool, *, trim: bool) -> pa.Array:
    column = trimmed(table[key]) if trim else table[key]
    if not nodes.typed:
        column = pc.if_else(pc.equal(column, ""), None, column)
    refuse_missing(nodes, column, key, 0)
    ids = pa.concat_arrays(list(id_chunks(nodes, column, key)))
    if not nodes.typed and not text_ids:
        ids = as_integers(ids)
    positions = table_of(ids.type).add(ids)
    repeats = np.flatnonzero(positions != np.arange(len(ids)))
    if repeats.size:
        second = int(repeats[0])
        first = int(positions[second])
        raise GraphError(
            f"{nodes.title}, {nodes.place(second)}: the node id {ids[second].as_py()!r} occurs a second time, after "
            f"{nodes.place(first)}; give every node one row"
        )
    return ids


def _read_matrix(path: Path, nodes: Path | None, options: ReadOptions, encoding: Encoding | None) -> Graph:
    for name in ("kind_column", "time_column", "until"):
        if getattr(options, name) is not None:
            raise GraphError(f"{path} is a matrix, which has no columns; {name} applies to an edge list")
    adjacency = _load_npz(path)
    if nodes is None:
        _refuse_node_options(options, encoding)
        table = NodeTable()
    elif ending(nodes) == ".npz":
        _refuse_node_options(options, encoding)
        table = NodeTable(x=sparse.csr_array(_load_npz(nodes)))
    else:
        table = read_node_table(open_columns(nodes), options, encoding, text_ids=False)
    if table.ids is not None and len(table.ids) != adjacency.shape[0]:
        raise GraphError(
            f"{nodes} has {len(table.ids)} nodes, but {path} is a matrix of {adjacency.shape[0]} rows; give as many"
        )
    try:
        graph = from_scipy(
            adjacency,
            table.x,
            table.y,
            table.ids,
            directed=options.directed,
            self_loops=options.self_loops,
            feature_names=table.feature_names,
            class_names=table.class_names,
            name=_stem(path),
        )
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None
    return graph.replace(encoding=table.encoding, history=(*graph.history, *table.notes))


def _load_npz(path: Path) -> Any:
    try:
        with path.open("rb") as file:  # NumPy leaves a damaged archive open
            return checked_matrix(sparse.load_npz(file))  # which never unpickles
    except Exception as error:  # a damaged archive raises almost anything, from zlib.error to MemoryError
        raise GraphError(
            f"{path} is not a SciPy sparse matrix ({one_line(error)}); write one with scipy.sparse.save_npz"
        ) from None


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name
