"""New edges and new nodes -> the fitted graph with them: the context in which a model embeds new nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssl.config.schema import ReadOptions
from dssl.data.columns import Columns, FrameColumns, ending, open_columns
from dssl.data.edge_list import Links, counted, edge_columns, open_edges, read_links, table_of
from dssl.data.standard_input import STDIN
from dssl.data.tables import NodeTable, read_node_table
from dssl.errors import GraphError
from dssl.graph import Change, Graph
from dssl.graph.features import Features


def extend(
    graph: Graph,
    edges: Any,
    nodes: Any = None,
    *,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    kind_column: str | None = None,
    id_column: str | None = None,
    header: bool | None = None,
    count_edges: bool | None = None,
    trim: bool | None = None,
) -> Graph:
    """Return a graph with more edges and nodes.

    Old nodes come first, in their order, then the new ones. A node table is encoded as the one of the graph. A row of
    an old node replaces its features. The weight of a repeated edge is added. Labels are left out.

    Args:
        graph: the graph so far.
        edges: the new edges, with ids of old and new nodes: path of an edge list, or a table in memory.
        nodes: the new nodes with the columns of the old node table, likewise; not needed without features.
        source_column: column with the source of each edge.
        target_column: column with the target of each edge.
        weight_column: column with the weight of each edge.
        kind_column: column with the kind of each edge.
        id_column: column of the node table with the ids.
        header: whether the first line of a text edge list names the columns.
        count_edges: take the number of rows of an edge as its weight.
        trim: remove spaces around node ids.

    >>> week = Graph.from_edges([0, 1], [1, 2], ids=["a", "b", "c"])
    >>> grown = extend(week, {"source": ["c", "d"], "target": ["d", "e"]})
    >>> grown.ids.to_pylist(), grown.num_edges
    (['a', 'b', 'c', 'd', 'e'], 4)
    """
    options = ReadOptions(
        source_column=source_column,
        target_column=target_column,
        weight_column=weight_column,
        kind_column=kind_column,
        id_column=id_column,
        header=header,
        count_edges=count_edges,
        trim=trim,
    )
    return _extended(graph, _edges(edges, options), _nodes(nodes), options)


def read_extended(graph: Graph, options: ReadOptions) -> Graph:
    """Return a graph with the edges and nodes of files.

    Args:
        graph: the graph so far.
        options: the files with the new edges and nodes, and how they are read.
    """
    return _extended(graph, _edges(options.source, options), _nodes(options.nodes), options)


def _extended(graph: Graph, edges: Columns, nodes: Columns | None, options: ReadOptions) -> Graph:
    columns = edge_columns(edges, options)
    text = graph.ids.type == pa.string()
    table = _new_nodes(graph, nodes, options)
    links = read_links(edges, columns, trim=bool(options.trim))
    links = counted(links, edges.title) if options.count_edges else links
    _check_weights(graph, links, edges.title)
    known = table_of(graph.ids.type, graph.ids)
    rows = known.add(_same_type(table.ids, text, nodes)) if table is not None and nodes is not None else None
    named = len(known)
    ends = _same_type(links.ids, text, edges)
    at = known.add(ends) if ends is not None else np.empty(0, np.int32)
    if graph.x is not None and len(known) > named:
        unknown = ends[int(np.flatnonzero(at >= named)[0])].as_py()
        where = (
            "no node table is given; give one with nodes"
            if nodes is None
            else f"it is not in {nodes.title}; add it there"
        )
        raise GraphError(
            f"{edges.title}: the node {unknown!r} is new and needs its columns, but {where}, or remove its edges"
        )
    num_nodes, old = len(known), graph.num_nodes
    upper = slice(None) if graph.directed else graph.sources() <= graph.indices
    first, second = graph.sources()[upper], graph.indices[upper]
    weights, kinds, kind_names = graph.weights, graph.kinds, graph.kind_names
    if weights is not None:
        weights = np.concatenate([weights[upper], np.empty(0, np.float32) if links.weights is None else links.weights])
    if kinds is not None and kind_names is not None:
        kind_names = (*kind_names, *(name for name in links.kind_names or () if name not in kind_names))
        kinds = np.concatenate([kinds[upper], _kinds(links, kind_names)])
    grown = Graph.from_edges(
        np.concatenate([first, at[links.source]]),
        np.concatenate([second, at[links.target]]),
        num_nodes=num_nodes,
        weights=weights,
        kinds=kinds,
        kind_names=kind_names,
        directed=graph.directed,
        self_loops="keep" if graph.num_self_loops else options.self_loops,
        ids=known.ids(),
        x=None if graph.x is None else _features(graph, table, rows, num_nodes),
        feature_names=graph.feature_names,
        encoding=graph.encoding,
        name=graph.name,
    )
    steps = [
        Change("nodes added", num_nodes - old),
        Change("rows of known nodes replaced", 0 if rows is None else int((rows < old).sum())),
        Change("edges added", grown.num_edges - graph.num_edges),
    ]
    return grown.replace(history=(*graph.history, *grown.history, *(step for step in steps if step.count)))


def _edges(source: Any, options: ReadOptions) -> Columns:
    if not isinstance(source, str | Path):
        return FrameColumns(source, "the edge table")
    if str(source) != STDIN:
        _check_table(Path(source))
    return open_edges(options.model_copy(update={"source": str(source)}))


def _nodes(source: Any) -> Columns | None:
    if source is None:
        return None
    if not isinstance(source, str | Path):
        return FrameColumns(source, "the node table")
    _check_table(Path(source))
    return open_columns(Path(source))


def _check_table(path: Path) -> None:
    if ending(path) in (".npz", ".graphml"):
        raise GraphError(f"{path} is not a table; give new edges and nodes as tables with ids")


def _new_nodes(graph: Graph, nodes: Columns | None, options: ReadOptions) -> NodeTable | None:
    if nodes is None:
        return None
    if graph.x is not None and graph.encoding is None:
        raise GraphError(
            f"the features of graph {graph.name!r} do not come from a node table, so that {nodes.title} cannot be "
            "encoded in the same way; give a whole graph with its features"
        )
    table = read_node_table(nodes, options, graph.encoding, text_ids=graph.ids.type == pa.string())
    if graph.x is None and table.x is not None:
        raise GraphError(
            f"{nodes.title} has {table.x.shape[1]:,} features, but graph {graph.name!r} has none; leave out the columns"
        )
    return table


def _check_weights(graph: Graph, links: Links, title: str) -> None:
    if (graph.weights is None) == (links.weights is None) or not links.source.size:
        return
    if graph.weights is None:
        raise GraphError(f"{title} has weights, but graph {graph.name!r} has none; leave out the weight column")
    raise GraphError(f"{title} has no weights, but graph {graph.name!r} has; name their column (weight_column)")


def _same_type(ids: pa.Array | None, text: bool, source: Columns | None) -> Any:
    """Ids of the type of the graph's: a text file of digits may hold either type."""
    if ids is None or source is None or (ids.type == pa.string()) == text:
        return ids
    if text and not source.typed:
        return ids.cast(pa.string())
    here, there = ("integers", "text") if text else ("text", "integers")
    raise GraphError(
        f"{source.title}: the ids are {here} (such as {ids[0].as_py()!r}), but those of the graph are {there}"
    )


def _kinds(links: Links, names: tuple[str, ...]) -> NDArray[np.int32]:
    """The kinds of new edges by the names of old and new kinds; unknown without a column of kinds."""
    if links.kinds is None or links.kind_names is None:
        return np.full(links.source.size, -1, np.int32)
    code = np.array([names.index(name) for name in links.kind_names] + [-1], np.int32)
    return code[links.kinds]


def _features(graph: Graph, table: NodeTable | None, rows: NDArray[np.int32] | None, num_nodes: int) -> Features:
    """The features of old and new nodes; a row of the table stands for an old one too."""
    assert graph.x is not None
    if table is None or table.x is None or rows is None:
        return graph.x
    take = np.arange(num_nodes)
    take[rows] = graph.num_nodes + np.arange(len(rows))
    if isinstance(graph.x, np.ndarray):
        new = table.x if isinstance(table.x, np.ndarray) else table.x.toarray()
        return np.concatenate([graph.x, new])[take]
    return sparse.csr_array(sparse.vstack([graph.x, sparse.csr_array(table.x)], format="csr")[take])
