"""Features made from the links, for a graph whose nodes have none.

``svd`` (the default): the leading singular vectors of the normalised adjacency. They say *where* in the graph a node
is: nodes with similar neighbours get similar rows, also in graphs whose neighbours are unlike, since rows are compared
and not neighbours. On the benchmark graphs they carry far more than degrees do. But a row means nothing in another
graph: new nodes call for a new fit.

``degree``: the node's degree and its neighbours'. They say *how* a node is placed, are the same function of the links
in every graph, so that a model can embed graphs that it has not seen; and they are cheap. Nodes in like places get the
same rows, which is why they are not the default; without any link, svd has nothing to say and degree is chosen.

``identity``: a column of its own for each node, sparse. The encoder learns a free vector per node: many parameters.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError, nearest
from dssl.graph import Change, Graph
from dssl.graph.adjacency import Averages, normalised_matrix
from dssl.graph.svd import symmetric_components, truncated_svd
from dssl.runtime.scale import IN_MEMORY, Scale

Structure = Literal["degree", "svd", "identity"]
KINDS: tuple[Structure, ...] = ("degree", "svd", "identity")
INDUCTIVE: tuple[Structure, ...] = ("degree",)


def choose(graph: Graph, kind: str = "auto") -> Structure:
    """Return the kind to use: the given one, or for ``auto`` svd if there is any link, else degree.

    Args:
        graph: any graph.
        kind: ``auto`` or one of `KINDS`.
    """
    if kind == "auto":
        return "svd" if graph.num_arcs else "degree"
    if kind not in KINDS:
        raise GraphError(
            f"structure {kind!r} is unknown; choose one of auto, {', '.join(KINDS)}{nearest(kind, ('auto', *KINDS))}"
        )
    return kind


def structural_features(
    graph: Graph, kind: str = "auto", *, dim: int = 64, seed: int = 0, scale: Scale = IN_MEMORY
) -> Graph:
    """Return the graph with features made from its links; the history records them.

    Args:
        graph: a graph without features.
        kind: ``auto`` or one of `KINDS`; see the top of this file.
        dim: number of columns for svd; at most N of them (2N if the graph is directed).
        seed: seed of svd, with little influence on the result.
        scale: whether svd is computed at once or by blocks.

    >>> star = Graph.from_edges([0, 0, 0], [1, 2, 3])
    >>> made = structural_features(star, "degree")
    >>> made.feature_names[0], (made.x[:, 0] > 1).tolist(), str(made.history[-1])
    ('log degree', [True, False, False, False], '6 degree features made from the links, as the nodes had none')
    """
    if graph.x is not None:
        raise GraphError(
            f"graph {graph.name!r} has {graph.num_features} features already; remove them first with replace(x=None)"
        )
    chosen = choose(graph, kind)
    x: NDArray[np.float32] | sparse.csr_array
    if chosen == "degree":
        x, names = degree_features(graph)
    elif chosen == "svd":
        x, names = svd_features(graph, dim, seed, scale)
    else:
        x = sparse.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
        names = tuple(f"node {value}" for value in graph.ids.to_pylist())
    change = Change(f"{chosen} features made from the links, as the nodes had none", x.shape[1])
    return graph.replace(x=x, feature_names=names, history=(*graph.history, change))


def degree_features(graph: Graph) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Log-degrees: the node's own, its neighbours' mean, deviation, least and largest, and the mean two links away.

    In a directed graph the six are given for the out-links and for the in-links. A node without links gets zeros.

    Returns:
        Features ``(N, 6)`` or ``(N, 12)`` and their names.
    """
    out = graph.adjacency()
    if not graph.directed:
        return _degree_columns(out), _degree_names("")
    back = sparse.csr_array(out.T)
    return np.hstack([_degree_columns(out), _degree_columns(back)]), (*_degree_names("out "), *_degree_names("in "))


def _degree_names(side: str) -> tuple[str, ...]:
    of = ("mean", "deviation", "least", "largest")
    return (f"log {side}degree", *(f"{what} of {side}neighbours" for what in of), f"mean two {side}links away")


def _degree_columns(rows: sparse.csr_array) -> NDArray[np.float32]:
    degree = np.diff(rows.indptr)
    own = np.log1p(degree)
    pattern = sparse.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    divisor = np.maximum(degree, 1)
    mean = pattern @ own / divisor
    deviation = np.sqrt(np.maximum(pattern @ own**2 / divisor - mean**2, 0))
    least, largest = np.zeros_like(own), np.zeros_like(own)
    linked = np.flatnonzero(degree)
    if linked.size:  # reduceat takes each part up to the next start, so that rows without entries must be left out
        starts = rows.indptr[linked]
        least[linked] = np.minimum.reduceat(own[rows.indices], starts)
        largest[linked] = np.maximum.reduceat(own[rows.indices], starts)
    columns = (own, mean, deviation, least, largest, pattern @ mean / divisor)
    return np.stack(columns, axis=1).astype(np.float32)


def svd_features(
    graph: Graph, dim: int, seed: int = 0, scale: Scale = IN_MEMORY
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    r"""Leading left singular vectors of D⁻¹ᐟ² A D⁻¹ᐟ², times their singular values and √N.

    A directed graph gets half of the columns from its out-links and half from its in-links (right singular vectors).
    Columns whose singular value is zero up to rounding are set to zero.

    Args:
        graph: any graph.
        dim: number of columns; at most N are there (2N if the graph is directed).
        seed: seed of the randomised SVD of a large graph.
        scale: whether it is computed at once or by blocks.

    Returns:
        Features ``(N, min(dim, N))`` and their names.
    """
    if graph.directed:
        matrix = normalised_matrix(graph.adjacency())
        sides = {"out": matrix, "in": sparse.csr_array(matrix.T)}
        parts = {side: _leading(rows, max(dim // 2, 1), seed) for side, rows in sides.items()}
        names = tuple(f"svd {side} {i}" for side, part in parts.items() for i in range(part.shape[1]))
        return np.hstack(list(parts.values())), names
    if scale.in_memory:
        x = _leading(normalised_matrix(graph.adjacency()), dim, seed)
    else:
        values, x = symmetric_components(Averages(graph).normalised, graph.num_nodes, dim, seed=seed)
        x *= np.where(np.abs(values) < 1e-5, 0, values * np.sqrt(graph.num_nodes)).astype(np.float32)
    return x, tuple(f"svd {i}" for i in range(x.shape[1]))


def _leading(matrix: sparse.csr_array, dim: int, seed: int) -> NDArray[np.float32]:
    x = truncated_svd(matrix, dim, seed=seed)
    value = np.sqrt((x.astype(np.float64) ** 2).sum(axis=0))
    x[:, value < 1e-5] = 0
    return x * np.float32(np.sqrt(matrix.shape[0]))
