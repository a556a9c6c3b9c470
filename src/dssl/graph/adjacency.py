"""The matrices that a graph's adjacency A becomes, as SciPy CSR, and their products without these matrices.

Products are taken a few columns at a time, so that no array is as wide as the features. Where an encoder reads its
inputs only through P X, P² X, …, these are computed once, before training (`hop_features`), and a batch needs no
neighbours of neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
SLAB, LEAST, MOST = 1 << 28, 16, 64  # bytes of the columns in memory at a time, and bounds of their number


def gcn_matrix(
    adjacency: sparse.csr_array, degrees: NDArray[np.float32] | None = None, *, loop: float = 1.0
) -> sparse.csr_array:
    """S = D̂^−½ (A + I) D̂^−½ with D̂ the degrees of A + I (Kipf & Welling 2017).

    Args:
        adjacency: A, shape ``(n, n)``.
        degrees: row sums of A, shape ``(n,)``, where those of the whole graph are to be taken, not of a sample.
        loop: weight of self-loops, in place of the 1 of I.
    """
    loops = np.float32(loop) * sparse.eye_array(adjacency.shape[0], dtype=np.float32, format="csr")
    looped = sparse.csr_array(adjacency + loops)
    total = np.asarray(looped.sum(axis=1) if degrees is None else degrees + np.float32(loop), np.float32)
    scale = np.reciprocal(np.sqrt(np.maximum(total, np.float32(1e-12))))
    return scaled(looped, scale, scale)


def mean_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """P = D^−1 A: the (weighted) mean over neighbours; a node without neighbours gets zeros."""
    total = adjacency.sum(axis=1)
    return scaled(adjacency, np.divide(1, total, out=np.zeros_like(total), where=total > 0), None)


def normalised_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """D^−½ A D^−½ with the sums of rows on the left and of columns on the right; empty ones stay empty."""
    sums = [np.asarray(adjacency.sum(axis=axis), np.float32).reshape(-1) for axis in (1, 0)]
    left, right = (np.reciprocal(np.sqrt(np.where(total > 0, total, 1).astype(np.float32))) for total in sums)
    return scaled(adjacency, left, right)


def scaled(
    matrix: sparse.csr_array, rows: NDArray[np.float32], columns: NDArray[np.float32] | None
) -> sparse.csr_array:
    """Multiply the rows, and the columns if given, of a CSR matrix by vectors."""
    data = matrix.data * np.repeat(rows, np.diff(matrix.indptr))
    if columns is not None:
        data = data * columns[matrix.indices]
    return sparse.csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def degrees(graph: Graph) -> Floats:
    """Sum of the weights of each node's links, shape ``(N,)``."""
    if graph.weights is None:
        return graph.degrees.astype(np.float32)
    return np.asarray(graph.adjacency().sum(axis=1), dtype=np.float32)


class Averages:
    """Products of the matrices that a graph's adjacency A becomes with dense ones, without those matrices.

    Args:
        graph: the graph; for S it should be undirected.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        total = degrees(graph)
        self._inverse = np.divide(1, total, out=np.zeros_like(total), where=total > 0)[:, None]
        self._root = np.reciprocal(np.sqrt(np.maximum(total, 1e-12), dtype=np.float32))[:, None] * (total > 0)[:, None]
        self._looped = np.reciprocal(np.sqrt(total + 1, dtype=np.float32))[:, None]

    def mean(self, x: Floats) -> Floats:
        """P X with P = D^−1 A, for X of shape ``(N, d)``."""
        return self.product(x, after=self._inverse)

    def normalised(self, x: Floats) -> Floats:
        """D^−½ A D^−½ X, for an undirected graph."""
        return self.product(x, before=self._root, after=self._root)

    def smooth(self, x: Floats) -> Floats:
        """S X with S = D̂^−½ (A + I) D̂^−½."""
        return self.product(x, before=self._looped, after=self._looped, loops=True)

    def product(
        self, x: Floats, *, before: Floats | None = None, after: Floats | None = None, loops: bool = False
    ) -> Floats:
        """R (A + L) Q X for diagonal matrices R and Q; a few columns at a time if X is large.

        Args:
            x: X, shape ``(N, d)``; it may be in a scratch file, and a large result is.
            before: diagonal of Q as a column; none for ones.
            after: diagonal of R as a column; none for ones.
            loops: whether L is the identity, or zero.
        """
        from dssl.kernels.csr import sum_neighbours

        def times(part: Floats) -> Floats:  # a copy of columns, which is overwritten
            if before is not None:
                part *= before
            out = sum_neighbours(self.graph.indptr, self.graph.indices, self.graph.weights, part)
            if loops:
                out += part
            if after is not None:
                out *= after
            return out

        step = columns_at_once(x.shape[0])
        if x.nbytes <= out_of_core.SMALL or x.shape[1] <= step:
            return times(np.array(x))
        out = out_of_core.matrix((x.shape[0], x.shape[1]))
        for left in range(0, x.shape[1], step):
            out_of_core.put_columns(out, left, times(out_of_core.take_columns(x, left, left + step)))
        return out


def columns_at_once(num_nodes: int) -> int:
    """How many columns of float32 with a row per node are in memory at a time."""
    return min(max(SLAB // (4 * num_nodes), LEAST), MOST)  # fewer would read the links too often


def hop_features(graph: Graph, hops: int) -> Floats:
    """Return [P X | P 1 | P² X | P² 1 | …], shape ``(N, hops · (F + 1))``, for dense features.

    The column of means of ones is the factor of an encoder's bias: one for nodes with neighbours.
    """
    assert isinstance(graph.x, np.ndarray)
    width = graph.num_features + 1
    out = out_of_core.matrix((graph.num_nodes, hops * width))
    links = Averages(graph)
    step = columns_at_once(graph.num_nodes)
    for left in range(0, width, step):
        slab = out_of_core.take_columns(graph.x, left, left + step)
        if left + step >= width:
            slab = np.hstack([slab, np.ones((graph.num_nodes, 1), np.float32)])
        for hop in range(hops):
            slab = links.mean(slab)
            out_of_core.put_columns(out, hop * width + left, slab)
    return out
