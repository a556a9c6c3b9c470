r"""Features that need no training: what any method has to beat before it is worth its time.

With X reduced to d columns by a truncated SVD, A the adjacency matrix of the undirected graph without self loops,
:math:`S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` and :math:`P = D^{-1} A` (rows of isolated nodes are 0):

=============  =========================================  =======
``raw``        SVD of X                                   d
``smoothed``   SVD of :math:`S^2 X`                       d
``hops``       :math:`[X, PX, P^2X]` of 64 columns of X   192
``adjacency``  SVD of A                                   256
=============  =========================================  =======

d is the width of the embedding, but at most 256, since wider ones take minutes to probe. A width is smaller where the
matrix has fewer rows or columns. "SVD" stands for :math:`U \Sigma`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph, svd
from dssl.graph.matrices import gcn_matrix, mean_matrix

MOST, HOP_DIM, ADJACENCY_DIM = 256, 64, 256

Dense = NDArray[np.float32]


def baseline_features(graph: Graph, *, dim: int) -> Iterator[tuple[str, Dense]]:
    """Give name and features, shape ``(N, width)``, of each baseline; those of X only if there are features."""
    plain = graph.undirected().without_self_loops()
    adjacency = plain.adjacency()
    if plain.x is not None:
        width = min(dim, MOST)
        yield "raw", _reduced(plain.x, width)
        yield "smoothed", svd.truncated_svd(svd.smoothed(plain.x, gcn_matrix(adjacency)), width)
        yield "hops", hops(_reduced(plain.x, min(dim, HOP_DIM)), adjacency)
    if plain.num_arcs:
        yield "adjacency", _reduced(adjacency, ADJACENCY_DIM)


def hops(x: Dense, adjacency: sparse.csr_array) -> Dense:
    """The features beside their means over neighbours and over neighbours of neighbours: [X, PX, P²X]."""
    p = mean_matrix(adjacency)
    once = p @ x
    return np.hstack([x, once, p @ once])


def _reduced(matrix: Dense | sparse.csr_array, dim: int) -> Dense:
    if matrix.shape[1] <= dim and not sparse.issparse(matrix):
        return np.asarray(matrix)
    return svd.truncated_svd(matrix, dim)
