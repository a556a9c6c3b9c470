"""Graphs of other libraries -> `Graph` and back: PyG `Data`, NetworkX, SciPy matrices. None is imported unless used.

A matrix, or PyG's ``edge_index``, lists both directions of an undirected link. Where all arcs go both ways with the
same weight they are taken as they are; otherwise, if an undirected graph is requested, the missing ones are added and
this is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph, SelfLoops
from dssl.graph.column_fit import BadCell
from dssl.graph.features import encode, encode_labels

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def from_scipy(
    adjacency: sparse.sparray | sparse.spmatrix,
    x: ArrayLike | sparse.sparray | sparse.spmatrix | None = None,
    y: ArrayLike | None = None,
    ids: pa.Array | Sequence[int] | Sequence[str] | None = None,
    *,
    directed: bool = False,
    self_loops: SelfLoops = "remove",
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "graph",
) -> Graph:
    """Build a graph from an adjacency matrix.

    Args:
        adjacency: any SciPy sparse format, shape ``(N, N)``; stored values other than 1 are weights, zeros no links.
        x: features, shape ``(N, F)``, dense or sparse.
        y: class of each node, −1 where unknown, shape ``(N,)``.
        ids: the user's node ids; without them 0 … N−1.
        directed: keep the direction; otherwise each entry counts both ways.
        self_loops: whether the diagonal is removed or kept.
        feature_names: a name for each feature column.
        class_names: a name for each class.
        name: what reports call the graph.

    >>> from_scipy(sparse.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    Graph('graph': 3 nodes, 2 undirected edges, 0 features, 0 classes)
    """
    if not sparse.issparse(adjacency) or len(adjacency.shape) != 2 or adjacency.shape[0] != adjacency.shape[1]:
        shape = getattr(adjacency, "shape", type(adjacency).__name__)
        raise GraphError(f"graph {name!r}: the adjacency ({shape}) is not a square SciPy sparse matrix; give one")
    entries = sparse.coo_array(checked_matrix(adjacency, f"graph {name!r}: the adjacency"))
    row, column = entries.coords
    stored = entries.data != 0
    if not stored.all():
        row, column = row[stored], column[stored]
    values = entries.data[stored]
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if wrong.size:
        cell = (int(row[wrong[0]]), int(column[wrong[0]]))
        raise GraphError(
            f"graph {name!r}: the weight at {cell} is {values[wrong[0]]}; weights are finite, not negative"
        )
    graph = Graph.from_edges(
        row,
        column,
        num_nodes=adjacency.shape[0],
        weights=None if (values == 1).all() else values,
        directed=True,
        self_loops=self_loops,
        ids=ids,
        x=x,
        feature_names=feature_names,
        y=y,
        class_names=class_names,
        name=name,
    )
    return graph if directed else _undirected(graph)


def checked_matrix(matrix: Any, title: str = "the matrix") -> Any:
    """Return a sparse matrix of real numbers whose parts fit together; compiled loops do not check indices."""
    if len(matrix.shape) != 2:
        raise GraphError(f"{title} has {len(matrix.shape)} dimensions; give a matrix")
    real = matrix.dtype == bool or any(np.issubdtype(matrix.dtype, kind) for kind in (np.floating, np.integer))
    if not real or matrix.dtype == np.float16:  # SciPy computes nothing in half precision
        raise GraphError(f"{title} holds values of type {matrix.dtype}; give real numbers, such as float32")
    try:
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        elif matrix.format == "coo" and matrix.nnz:
            for index, size in zip(matrix.coords, matrix.shape, strict=True):
                if index.min() < 0 or index.max() >= size:
                    raise ValueError("an index is out of range")
    except ValueError as error:
        raise GraphError(f"{title} is damaged: {error}") from None
    return matrix


def _goes_both_ways(graph: Graph) -> bool:
    forth = graph.adjacency()
    back = forth.T.tocsr()
    back.sort_indices()
    return all(
        np.array_equal(a, b)
        for a, b in ((forth.indptr, back.indptr), (forth.indices, back.indices), (forth.data, back.data))
    )


def _undirected(graph: Graph) -> Graph:
    return graph.replace(directed=False) if _goes_both_ways(graph) else graph.undirected()


def from_pyg(
    data: Data, *, directed: bool | None = None, self_loops: SelfLoops = "remove", name: str = "graph"
) -> Graph:
    """Build a graph from PyG's `Data`: ``edge_index``, ``edge_weight`` (or one column of ``edge_attr``), ``x``, ``y``.

    ``edge_type`` becomes the kinds of links. Also the ``node_id``, ``feature_names``, ``class_names`` and
    ``kind_names`` that `to_pyg` writes are read.

    Args:
        data: a homogeneous graph, on any device.
        directed: keep the direction; by default, if there are arcs that do not go both ways.
        self_loops: whether self loops are removed or kept.
        name: what reports call the graph.
    """
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        raise GraphError(f"graph {name!r}: PyG's {type(data).__name__} is not a homogeneous Data; convert it first")
    num_nodes = int(data.num_nodes or 0)
    edge_index = np.zeros((2, 0), np.int64) if data.edge_index is None else data.edge_index.cpu().numpy()
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise GraphError(f"graph {name!r}: edge_index has the shape {edge_index.shape}; give two rows")
    graph = Graph.from_edges(
        edge_index[0],
        edge_index[1],
        num_nodes=num_nodes,
        weights=_column(
            data.edge_attr if data.edge_weight is None else data.edge_weight,
            name,
            "edge_attr",
            "an edge has one weight; put it into edge_weight, or remove edge_attr",
        ),
        directed=True,
        self_loops=self_loops,
        ids=_listed(data, "node_id"),
        x=_from_tensor(data.x),
        feature_names=_listed(data, "feature_names"),
        y=_column(data.y, name, "y", "a node has one class; choose one column"),
        class_names=_listed(data, "class_names"),
        kinds=_listed(data, "edge_type"),
        kind_names=_listed(data, "kind_names"),
        name=name,
    )
    if directed is None:
        directed = not _goes_both_ways(graph)
    return graph if directed else _undirected(graph)


def _column(tensor: Any, name: str, what: str, advice: str) -> NDArray[Any] | None:
    """The values of a tensor of one column, shape ``(n,)`` or ``(n, 1)``, or none."""
    if tensor is None:
        return None
    if tensor.dim() > 1 and tensor.shape[1] != 1:
        raise GraphError(f"graph {name!r}: {what} has {tensor.shape[1]} columns, but {advice}")
    values: NDArray[Any] = tensor.detach().cpu().numpy().reshape(-1)
    return values


def _from_tensor(x: Any) -> Any:
    if x is None:
        return None
    x = x.detach().cpu()
    if not x.is_sparse and not x.is_sparse_csr:
        return x.numpy()
    x = x.to_sparse_coo().coalesce()
    return sparse.csr_array((x.values().numpy(), x.indices().numpy()), shape=tuple(x.shape))


def _listed(data: Data, key: str) -> Any:
    value: Any = getattr(data, key, None)
    return value.tolist() if hasattr(value, "tolist") else value


def to_pyg(graph: Graph) -> Data:
    """Return PyG's `Data` with ``edge_index`` (both directions of an undirected link) and what else the graph has.

    The nodes keep their order; their ids go to ``node_id``. Sparse features become a sparse COO tensor.
    """
    import torch
    from torch_geometric.data import Data

    arcs = np.stack([graph.sources(), graph.indices]).astype(np.int64)
    ids = graph.ids.to_pylist() if graph.ids.type == pa.string() else torch.from_numpy(graph.ids.to_numpy().copy())
    data = Data(edge_index=torch.from_numpy(arcs), num_nodes=graph.num_nodes, node_id=ids)
    if graph.weights is not None:
        data.edge_weight = torch.from_numpy(graph.weights.copy())
    if isinstance(graph.x, sparse.csr_array):
        entries = graph.x.tocoo()
        where = torch.from_numpy(np.stack(entries.coords).astype(np.int64))
        values = torch.from_numpy(entries.data.copy())
        data.x = torch.sparse_coo_tensor(where, values, entries.shape, check_invariants=True, is_coalesced=True)
    elif graph.x is not None:
        data.x = torch.from_numpy(graph.x.copy())
    if graph.y is not None:
        data.y = torch.from_numpy(graph.y.copy())
    if graph.kinds is not None:
        data.edge_type = torch.from_numpy(graph.kinds.astype(np.int64))
    for key in ("feature_names", "class_names", "kind_names"):
        if getattr(graph, key) is not None:
            data[key] = list(getattr(graph, key))
    return data


def from_networkx(
    graph: networkx.Graph,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    kind: str | None = None,
    self_loops: SelfLoops = "remove",
    name: str | None = None,
) -> Graph:
    """Build a graph from NetworkX, directed if that is; node ids are all strings or all integers.

    Args:
        graph: any NetworkX graph; parallel edges are merged.
        label: node attribute with the class; by default ``label``, if there is one.
        features: node attributes that become features (see `dssl.graph.features.encode`); by default all others.
        weight: edge attribute with the weight; by default ``weight``, if there is one.
        kind: edge attribute with the kind; edges without it have an unknown kind.
        self_loops: whether self loops are removed or kept.
        name: what reports call the graph; by default its name in NetworkX.

    >>> import networkx
    >>> from_networkx(networkx.path_graph(["a", "b", "c"]), name="path")
    Graph('path': 3 nodes, 2 undirected edges, 0 features, 0 classes)
    """
    if not hasattr(graph, "nodes") or not hasattr(graph, "is_directed"):
        raise GraphError(f"{type(graph).__name__} is not a NetworkX graph; give one")
    name = name or graph.name or "graph"
    nodes = list(graph.nodes)
    for node in nodes:
        if type(node) is not type(nodes[0]) or isinstance(node, bool) or not isinstance(node, (int, str)):
            raise GraphError(
                f"graph {name!r}: the node {node!r} is of type {type(node).__name__}; "
                "ids are all strings or all integers: use networkx.relabel_nodes"
            )
        if isinstance(node, int) and not -(2**63) <= node < 2**63:
            raise GraphError(f"graph {name!r}: the node {node} is 2**63 or more; turn the ids into text")
    position = {node: i for i, node in enumerate(nodes)}
    pairs = np.array([(position[a], position[b]) for a, b in graph.edges()], np.int64).reshape(-1, 2)
    known = sorted({key for _, attributes in graph.nodes(data=True) for key in attributes})
    for wanted in [*([label] if label else []), *(features or [])]:
        if wanted not in known:
            raise GraphError(f"graph {name!r}: no node has the attribute {wanted!r}; there are {known}")
    label = label or ("label" if "label" in known else None)
    chosen = features if features is not None else [key for key in known if key != label]
    columns = {key: _attribute(graph, key, name) for key in {*chosen, *([label] if label else [])}}
    try:
        x, names, encoding = encode(pa.table({key: columns[key] for key in chosen}))
        y, classes = encode_labels(columns[label], label) if label else (None, ())
    except BadCell as error:
        raise GraphError(
            f"graph {name!r}, attribute {error.column!r} of node {nodes[error.row]!r}: {error.value} {error.advice}"
        ) from None
    return Graph.from_edges(
        pairs[:, 0],
        pairs[:, 1],
        num_nodes=len(nodes),
        weights=_edge_weights(graph, weight, name),
        kinds=None if kind is None else [edge.get(kind) for *_, edge in graph.edges(data=True)],
        directed=graph.is_directed(),
        self_loops=self_loops,
        ids=pa.array(nodes) if nodes else None,
        x=x,
        feature_names=names if x is not None else None,
        y=y,
        class_names=classes if y is not None else None,
        encoding=encoding if x is not None else None,
        name=name,
    )


def _attribute(graph: networkx.Graph, key: str, name: str) -> pa.Array:
    values = [attributes.get(key) for _, attributes in graph.nodes(data=True)]
    try:
        return pa.array([value.tolist() if hasattr(value, "tolist") else value for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = sorted({type(value).__name__ for value in values})
        raise GraphError(
            f"graph {name!r}: the node attribute {key!r} mixes {', '.join(kinds)}; give every node the same type"
        ) from None
    except OverflowError:
        raise GraphError(f"graph {name!r}: a node attribute {key!r} is 2**63 or more; turn it into a float") from None


def _edge_weights(graph: networkx.Graph, weight: str | None, name: str) -> NDArray[np.float32] | None:
    edges = list(graph.edges(data=True))
    key = weight or "weight"
    if not any(key in attributes for *_, attributes in edges):
        if weight and edges:
            raise GraphError(f"graph {name!r}: no edge has the attribute {weight!r}; name the one with the weights")
        return None
    for a, b, attributes in edges:
        value = attributes.get(key)
        if isinstance(value, (bool, str)) or not np.isscalar(value) or not (0 <= float(np.real(value)) < np.inf):
            raise GraphError(
                f"graph {name!r}: the {key!r} of the edge {(a, b)!r} is {value!r}; give every edge a number ≥ 0"
            )
    return np.array([attributes[key] for *_, attributes in edges], np.float32)
