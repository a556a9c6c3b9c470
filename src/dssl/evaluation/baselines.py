r"""Training-free baselines: a method is worth its time only if it beats them.

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

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dssl.evaluation.metrics import MEASURES, Measure, Score, measured, rarer_class
from dssl.evaluation.splits import Split
from dssl.graph import Graph, svd
from dssl.graph.adjacency import gcn_matrix, mean_matrix

MOST, HOP_DIM, ADJACENCY_DIM = 256, 64, 256
NAMES = {
    "majority": "the majority class",
    "raw": "the raw features",
    "smoothed": "the smoothed features S²X",
    "hops": "the features of the hops [X, PX, P²X]",
    "adjacency": "the SVD of the adjacency matrix",
    "random-encoder": "the encoder before training",
}

Dense = NDArray[np.float32]


def majority(y: ArrayLike, splits: Sequence[Split]) -> dict[Measure, Score]:
    """Scores of a constant prediction: the class frequencies of the training part, the first of equals predicted."""
    labels = np.asarray(y)
    classes, positive = int(labels.max()) + 1, rarer_class(labels)
    found: dict[Measure, Score] = {}
    for name in MEASURES:
        values = []
        for split in splits:
            p = np.maximum(np.bincount(labels[split.train], minlength=classes), 1e-9)
            log_p = np.broadcast_to(np.log(p / p.sum()), (split.test.size, classes))
            values.append(measured(name, labels[split.test], log_p, positive=positive))
        if any(value is not None for value in values):
            found[name] = Score(tuple(values))
    return found


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
    """The features and their means over neighbours at one and two hops, side by side: [X, PX, P²X]."""
    p = mean_matrix(adjacency)
    once = p @ x
    return np.hstack([x, once, p @ once])


def _reduced(matrix: Dense | sparse.csr_array, dim: int) -> Dense:
    if matrix.shape[1] <= dim and not sparse.issparse(matrix):
        return np.asarray(matrix)
    return svd.truncated_svd(matrix, dim)
