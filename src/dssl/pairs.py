"""Clusters of the pairs of vectors at the two ends of links: k-means without an array that has a row per pair.

The squared distance of the pair [x_i; x_j] to the centre [a_k; b_k] is a sum of what belongs to each end,

    ‖x_i − a_k‖² + ‖x_j − b_k‖² = ‖x_i‖² + ‖x_j‖² − s_ik − t_jk
    with s_ik = 2 x_i·a_k − ‖a_k‖² and t_jk = 2 x_j·b_k − ‖b_k‖²,

so an iteration takes O(N D K + A K) for N nodes of D columns and A links instead of O(A D K), and the result is two
arrays with a row per node: the cluster of the link from i to j is the largest entry of ``s[i] + t[j]``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.graph import Graph

DIM = 32  # leading components of the features
SAMPLE = 50_000  # links that the centres are fitted to
STARTS, ITERATIONS = 8, 30
CANDIDATES = 8  # links tried for each further centre: greedy k-means++, as in scikit-learn

Floats = NDArray[np.float32]


def directions(components: Floats) -> Floats:
    """Centre the leading components of the features, of shape ``(N, ≥ DIM)``, and scale them to unit rows.

    Without unit rows the clusters follow the number of words of a node, and one of them takes most of the links
    (63% of Chameleon's with 32 components, 96% with 256).
    """
    values = components[:, :DIM] - components[:, :DIM].mean(axis=0)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.maximum(lengths, 1e-12), np.float32)


def cluster_pairs(graph: Graph, values: Floats, num_clusters: int, *, seed: int) -> tuple[Floats, Floats]:
    """Cluster the links of a graph by the vectors of their two ends; the best of several starts.

    Args:
        graph: the graph; the links from i to j and from j to i are two pairs.
        values: a vector per node, shape ``(N, D)``.
        num_clusters: K.
        seed: seed of the run.

    Returns:
        s and t over twice the variance of a column within a cluster, each of shape ``(N, K)``: their sum is the
        logits of the posterior of a mixture of Gaussians at the centres, of equal weights and variances.
    """
    start, end = _sampled_links(graph, seed)
    if not start.size:
        return (np.zeros((graph.num_nodes, num_clusters), np.float32),) * 2
    nodes, places = np.unique(np.concatenate([start, end]), return_inverse=True)  # the cost does not grow with N
    links = places[: start.size], places[start.size :]
    fits = (_lloyd(values[nodes], *links, num_clusters, rng.stream(seed, "pairs", n)) for n in range(STARTS))
    inertia, first, second = min(fits, key=lambda fit: fit[0])
    variance = max(inertia / (start.size * 2 * values.shape[1]), 1e-6)
    return _scores(values, first) / (2 * variance), _scores(values, second) / (2 * variance)


def _sampled_links(graph: Graph, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    start, end = graph.sources(), graph.indices
    if end.size <= SAMPLE:
        return start, end
    chosen = np.sort(rng.stream(seed, "pair sample").choice(end.size, SAMPLE, replace=False))
    return start[chosen], end[chosen]


def _lloyd(
    x: Floats, start: NDArray[np.int64], end: NDArray[np.int64], num_clusters: int, draw: np.random.Generator
) -> tuple[float, Floats, Floats]:
    """Lloyd's iteration from one start: the sum of squared distances, and the centres a and b."""
    first, second = _plus_plus(x, start, end, num_clusters, draw)
    lengths = np.square(x).sum(axis=1)
    total = float(lengths[start].sum(dtype=np.float64) + lengths[end].sum(dtype=np.float64))
    before = np.inf
    for _ in range(ITERATIONS):
        scores = _scores(x, first)[start] + _scores(x, second)[end]  # (A, K)
        cluster = scores.argmax(axis=1)
        inertia = total - float(scores[np.arange(start.size), cluster].sum(dtype=np.float64))
        if inertia >= before * (1 - 1e-5):
            break
        before = inertia
        first, second = (_means(x, ends, cluster, old) for ends, old in ((start, first), (end, second)))
    return before, first, second


def _plus_plus(
    x: Floats, start: NDArray[np.int64], end: NDArray[np.int64], num_clusters: int, draw: np.random.Generator
) -> tuple[Floats, Floats]:
    """Centres at links drawn in proportion to their squared distance to the nearest centre so far."""
    chosen = [int(draw.integers(start.size))]
    nearest = _distances(x, start, end, chosen)[:, 0]
    while len(chosen) < num_clusters:
        sums = np.cumsum(nearest, dtype=np.float64)
        tried = np.searchsorted(sums, draw.random(CANDIDATES) * sums[-1]).clip(max=start.size - 1).tolist()
        distances = np.minimum(nearest[:, None], _distances(x, start, end, tried))
        least = int(distances.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(tried[least])
        nearest = distances[:, least]
    return x[start[chosen]], x[end[chosen]]


def _distances(x: Floats, start: NDArray[np.int64], end: NDArray[np.int64], links: list[int]) -> Floats:
    """Squared distances of all links to some of them, shape ``(A, len(links))``."""
    lengths = np.square(x).sum(axis=1)[:, None]
    away = [lengths - _scores(x, x[ends[links]]) for ends in (start, end)]
    return np.asarray(np.maximum(away[0][start] + away[1][end], 0), np.float32)


def _scores(x: Floats, centres: Floats) -> Floats:
    scores: Floats = 2 * x @ centres.T - np.square(centres).sum(axis=1)
    return scores


def _means(x: Floats, ends: NDArray[np.int64], cluster: NDArray[np.int64], old: Floats) -> Floats:
    """Mean vector of the given end over the links of each cluster; an empty cluster stays where it was."""
    clusters = len(old)
    counts = np.bincount(ends * clusters + cluster, minlength=len(x) * clusters).reshape(-1, clusters)
    sizes = counts.sum(axis=0)[:, None]
    sums = counts.T.astype(np.float32) @ x
    means: Floats = np.where(sizes > 0, sums / np.maximum(sizes, 1), old).astype(np.float32)
    return means
