"""Analysis of factors: their agreement with the links of classes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.statistics import neighborhood_similarity


def class_similarity(graph: Graph, q: NDArray[np.float32]) -> NDArray[np.float64]:
    """Cosine between the mean posteriors of each two classes (the paper's section 4.4), shape ``(C, C)``.

    Args:
        graph: a labelled graph.
        q: q(k | v_i) of each node, shape ``(N, K)``; nodes without links have zeros and are left out.

    >>> graph = Graph.from_edges([0, 1], [1, 2], y=[0, 1, 0])
    >>> class_similarity(graph, np.array([[1, 0], [0, 1], [1, 0]], np.float32))
    array([[1., 0.],
           [0., 1.]])
    """
    if graph.y is None:
        raise GraphError(f"graph {graph.name!r} has no labels; similarity of classes needs a label column")
    means = np.full((graph.num_classes, q.shape[1]), np.nan)
    for label in range(graph.num_classes):
        rows = q[(graph.y == label) & q.any(axis=1)]
        if len(rows):
            means[label] = rows.mean(axis=0, dtype=np.float64)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    similarity: NDArray[np.float64] = unit @ unit.T
    return similarity


def similarity_correlation(graph: Graph, q: NDArray[np.float32], *, diagonal: bool = True) -> float:
    """Pearson correlation of `class_similarity` and the cross-class neighbourhood similarity over pairs of classes.

    Both are symmetric, so each pair of classes counts once. The cosines have ones on their diagonal whatever was
    learnt; without it, a graph needs three classes. NaN where the correlation is not defined.

    Args:
        graph: a labelled graph.
        q: q(k | v_i) of each node, shape ``(N, K)``.
        diagonal: whether the pairs of a class with itself count.
    """
    pairs = np.triu_indices(graph.num_classes, 0 if diagonal else 1)
    learnt, true = class_similarity(graph, q)[pairs], neighborhood_similarity(graph)[pairs]
    known = np.isfinite(learnt) & np.isfinite(true)
    learnt, true = learnt[known], true[known]
    if known.sum() < 2 or min(np.ptp(learnt), np.ptp(true)) < 1e-12:
        return math.nan
    return float(np.corrcoef(learnt, true)[0, 1])


def factor_means(links: sparse.csr_array, q: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return Σ_j w_ij q(k | i, j) v_j for each factor k: the mean of a node's neighbours, factor by factor.

    Args:
        links: weights w of the links, shape ``(N, N)``.
        q: posterior of each link, in the order of ``links.indices``, shape ``(A, K)``.
        values: v, shape ``(N, d)``.

    Returns:
        A block of d columns for each factor, shape ``(N, K · d)``.

    >>> links = sparse.csr_array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> q = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    >>> factor_means(links, q, np.array([[1], [2], [4]], np.float32)).tolist()
    [[1.0, 2.0], [1.0, 0.0], [1.0, 0.0]]
    """
    shape = links.shape
    blocks = [sparse.csr_array((links.data * part, links.indices, links.indptr), shape=shape) @ values for part in q.T]
    return np.hstack(blocks).astype(np.float32, copy=False)
