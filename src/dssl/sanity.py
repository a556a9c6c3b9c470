r"""Features that need no training: what any method has to beat before it is worth its time.

With X reduced to d columns by a truncated SVD, A the adjacency matrix of the undirected graph without self loops,
:math:`S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` and :math:`P = D^{-1} A` (rows of isolated nodes are 0):

=============  =========================================  =======
``raw``        SVD of X                                   d
``smoothed``   SVD of :math:`S^2 X`                       d
``hops``       :math:`[X, PX, P^2X]` of the reduced X     3 d
``adjacency``  SVD of A                                   256
=============  =========================================  =======

A width is smaller where the matrix has fewer rows or columns. "SVD" stands for :math:`U \Sigma`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.rng import stream

ADJACENCY_DIM = 256
POWER_ITERATIONS = 6  # of the randomised SVD; spectra of graphs decay slowly

Dense = NDArray[np.float32]


def baseline_features(graph: Graph, *, dim: int) -> Iterator[tuple[str, Dense]]:
    """Give name and features, shape ``(N, width)``, of each baseline; those of X only if there are features."""
    plain = graph.undirected().without_self_loops()
    adjacency = plain.adjacency()
    if plain.x is not None:
        x = plain.x
        raw = _reduced(x, dim)
        yield "raw", raw
        yield "smoothed", smoothed(x, adjacency, dim)
        yield "hops", hops(raw, adjacency)
    if plain.num_arcs:
        yield "adjacency", _reduced(adjacency, ADJACENCY_DIM)


def smoothed(x: Dense | sparse.csr_array, adjacency: sparse.csr_array, dim: int) -> Dense:
    """SVD of S²X to ``dim`` columns, without forming S²X, which is dense where X is not."""
    s = symmetric_normalised(adjacency)
    return truncated_svd(lambda q: s @ (s @ (x @ q)), lambda q: x.T @ (s @ (s @ q)), (x.shape[0], x.shape[1]), dim)


def hops(x: Dense, adjacency: sparse.csr_array) -> Dense:
    """The features beside their means over neighbours and over neighbours of neighbours: [X, PX, P²X]."""
    p = row_normalised(adjacency)
    once = p @ x
    return np.hstack([x, once, p @ once])


def symmetric_normalised(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Add a self loop to every node and divide each link by the roots of the degrees of its ends."""
    looped = adjacency + sparse.eye_array(adjacency.shape[0], dtype=np.float32, format="csr")
    root = 1 / np.sqrt(looped.sum(axis=1))
    return sparse.csr_array(looped * root[:, None] * root[None, :], dtype=np.float32)


def row_normalised(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Divide each row by its sum; empty rows stay empty."""
    total = adjacency.sum(axis=1)
    return sparse.csr_array(adjacency * (1 / np.where(total > 0, total, 1))[:, None], dtype=np.float32)


def truncated_svd(
    times: Callable[[Dense], Dense], transposed_times: Callable[[Dense], Dense], shape: tuple[int, int], dim: int
) -> Dense:
    """UΣ of a matrix known by its products, by subspace iteration from a fixed start: the same on every call.

    Args:
        times: product with the matrix, ``(columns, k) -> (rows, k)``.
        transposed_times: product with its transpose.
        shape: rows and columns of the matrix.
        dim: number of singular vectors; as many as fit if the matrix is smaller.

    Returns:
        Rows in the leading singular directions, the largest first, shape ``(rows, min(dim, *shape))``.
    """
    dim = min(dim, *shape)
    width = min(dim + 10, *shape)  # a few more directions than needed make the last ones accurate
    q = stream(0, "svd").standard_normal((shape[1], width), dtype=np.float32)
    for _ in range(POWER_ITERATIONS):
        q = _orthonormal(transposed_times(_orthonormal(times(q))))
    basis = _orthonormal(times(q))
    values, vectors = np.linalg.eigh(_gram(transposed_times(basis)))
    leading = vectors[:, ::-1][:, :dim] * np.sqrt(np.maximum(values[::-1][:dim], 0))
    return np.ascontiguousarray(basis @ leading.astype(np.float32))


def _reduced(matrix: Dense | sparse.csr_array, dim: int) -> Dense:
    if matrix.shape[1] <= dim and not sparse.issparse(matrix):
        return np.asarray(matrix)
    transposed = matrix.T.tocsr() if isinstance(matrix, sparse.csr_array) else matrix.T
    return truncated_svd(lambda q: matrix @ q, lambda q: transposed @ q, (matrix.shape[0], matrix.shape[1]), dim)


def _orthonormal(block: Dense) -> Dense:
    return np.linalg.qr(block)[0]


def _gram(block: Dense) -> NDArray[np.float64]:
    wide = block.astype(np.float64)
    return wide.T @ wide
