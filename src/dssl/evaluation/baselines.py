r"""Training-free baselines: a method is worth its time only if it beats them.

With X reduced to d columns by a truncated SVD, A the adjacency matrix of the undirected graph without self loops,
:math:`S = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` and :math:`P = D^{-1} A` (rows of isolated nodes are 0):

======================  ===========================================================  ========
``raw``                 SVD of X                                                     d
``row-scaled``          SVD of X with rows that sum to one                           d
``smoothed``            SVD of :math:`S^2 X`                                         d
``hops``                :math:`[X, PX, P^2X]` of at most 64 columns of X             3 d
``adjacency``           SVD of A                                                     256
``directed-adjacency``  SVD of the adjacency matrix with its directions              d
``spectral``            regularised spectral columns, see `dssl.graph.positions`     d
``blocks``              raw, smoothed, adjacency, spectral side by side, of size 1   4 d
======================  ===========================================================  ========

d is the width of the embedding, but at most 256, since wider ones take minutes to probe. A width is smaller where the
matrix has fewer rows or columns. "SVD" stands for :math:`U \Sigma`. `USUAL` are part of every evaluation.
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
from dssl.graph.positions import REGULARISATION, Positions

MOST, HOP_DIM, ADJACENCY_DIM = 256, 64, 256
TINY = float(np.finfo(np.float32).tiny)
USUAL = ("raw", "smoothed", "hops", "adjacency")
OF_FEATURES = ("raw", "row-scaled", "smoothed", "hops")
NAMES = {
    "majority": "the majority class",
    "constant": "a constant",
    "raw": "the raw features",
    "smoothed": "the smoothed features S²X",
    "hops": "the features of the hops [X, PX, P²X]",
    "adjacency": "the SVD of the adjacency matrix",
    "row-scaled": "the features with rows that sum to one",
    "directed-adjacency": "the SVD of the directed adjacency matrix",
    "spectral": "the regularised spectral columns",
    "blocks": "features, smoothed features and link columns side by side",
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
    """Give name and features, shape ``(N, width)``, of each usual baseline that the graph allows."""
    for name in USUAL:
        found = baseline(name, graph, dim=dim)
        if found is not None:
            yield name, found


def baseline(name: str, graph: Graph, *, dim: int) -> Dense | None:
    """The features of one baseline, shape ``(N, width)``; none if they need node features or links that are missing.

    Args:
        name: a name of the table above.
        graph: any graph.
        dim: d.
    """
    plain = graph.undirected().without_self_loops()
    if (name in OF_FEATURES and plain.x is None) or (name not in OF_FEATURES and not plain.num_arcs):
        return None
    width = min(dim, MOST)
    if name == "adjacency":
        return _reduced(plain.adjacency(), ADJACENCY_DIM)
    if name == "directed-adjacency":
        return _reduced(graph.without_self_loops().adjacency(), width)
    if name == "spectral":
        return Positions.fit(plain, dim=min(width, plain.num_nodes), tau=REGULARISATION)[1]
    if name == "blocks":
        names = ("raw", "smoothed", "spectral")
        parts = [part for each in names if (part := baseline(each, graph, dim=dim)) is not None]
        return np.hstack([_of_size_one(part) for part in (*parts, _reduced(plain.adjacency(), width))])
    x = plain.x
    assert x is not None
    if name == "raw":
        return _reduced(x, width)
    if name == "row-scaled":
        sums = np.asarray(abs(x).sum(axis=1)).reshape(-1, 1)
        scaled = x / np.maximum(sums, TINY)
        return _reduced(sparse.csr_array(scaled) if sparse.issparse(x) else np.asarray(scaled), width)
    if name == "smoothed":
        return svd.truncated_svd(svd.smoothed(x, gcn_matrix(plain.adjacency())), width)
    assert name == "hops", name
    return hops(_reduced(x, min(dim, HOP_DIM)), plain.adjacency())


def narrowed(columns: Dense, width: int) -> Dense:
    """The principal components of columns, at most ``width``; fewer columns are returned as they are."""
    if columns.shape[1] <= width:
        return columns
    return svd.truncated_svd(np.asarray(columns - columns.mean(axis=0), np.float32), width)


def _of_size_one(columns: Dense) -> Dense:
    centred = columns - columns.mean(axis=0)
    size = np.sqrt(np.square(centred, dtype=np.float64).sum() / max(len(centred), 1))
    return np.asarray(centred / max(size, TINY), np.float32)


def hops(x: Dense, adjacency: sparse.csr_array) -> Dense:
    """The features and their means over neighbours at one and two hops, side by side: [X, PX, P²X]."""
    p = mean_matrix(adjacency)
    once = p @ x
    return np.hstack([x, once, p @ once])


def _reduced(matrix: Dense | sparse.csr_array, dim: int) -> Dense:
    if matrix.shape[1] <= dim and not sparse.issparse(matrix):
        return np.asarray(matrix)
    return svd.truncated_svd(matrix, dim)
