"""Clusters of linked pairs of nodes, which teach the posteriors: k-means without an array with a row per pair.

The squared distance of the pair [x_i; x_j] to the centre [a_k; b_k] is a sum of a part for each end,

    ‖x_i − a_k‖² + ‖x_j − b_k‖² = ‖x_i‖² + ‖x_j‖² − s_ik − t_jk
    with s_ik = 2 x_i·a_k − ‖a_k‖² and t_jk = 2 x_j·b_k − ‖b_k‖²,

so an iteration takes O(N D K + A K) for N nodes of D columns and A links instead of O(A D K), and the result is two
arrays with a row per node: the cluster of the link from i to j is the largest entry of ``s[i] + t[j]`` (in an
undirected graph, of that or of ``s[j] + t[i]``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.graph.svd import truncated_svd
from dssl.methods.dssl.posterior import sampled_rows
from dssl.nn.batches import Batch
from dssl.runtime import distributed
from dssl.runtime.scale import Scale

DIM = 32  # leading components of the features
SAMPLE = 50_000  # links that the centres are fitted to
STARTS, ITERATIONS = 8, 30
CANDIDATES = 8  # links tried for each further centre: greedy k-means++, as in scikit-learn

DISTILLED = 8192  # links per step whose posterior is compared with the clusters
SMOOTHING = 0.1  # of the clusters as targets; without it posteriors end with no entropy (Texas: 0.07 of ln K)

Floats = NDArray[np.float32]
Logits = Callable[[Tensor, Tensor], Tensor]  # of the links between two arrays of positions, shape (A, K)


def directions(components: Floats) -> Floats:
    """Centre the leading components of the features, of shape ``(N, ≥ DIM)``, and scale them to unit rows.

    Without unit rows the clusters follow the number of words of a node, and one of them takes most of the links
    (63% of Chameleon's with 32 components, 96% with 256).
    """
    values = components[:, :DIM] - components[:, :DIM].mean(axis=0)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return np.asarray(values, np.float32)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters of linked pairs, as a mixture of Gaussians of equal weights and variances at the centres.

    Args:
        first: s over twice the variance of a column within a cluster, shape ``(N, K)``.
        second: t over the same, shape ``(N, K)``.
        symmetric: whether a link may be read from either end, so that both directions have the same cluster.
    """

    first: Floats
    second: Floats
    symmetric: bool

    def logits(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
        """Log posterior, up to a constant, of the links from ``start`` to ``end``, shape ``(A, K)``."""
        forward = self.first[start] + self.second[end]
        return np.logaddexp(forward, self.first[end] + self.second[start]) if self.symmetric else forward

    def matched_to(self, q: Floats, start: NDArray[np.int64], end: NDArray[np.int64]) -> Clusters:
        """Return the clusters in the order of the factors that share most of their links.

        Args:
            q: posteriors of some links over the factors, shape ``(A, K)``.
            start: their centres, shape ``(A,)``.
            end: their neighbours, shape ``(A,)``.
        """
        order = linear_sum_assignment(q.T @ softmax(self.logits(start, end), axis=1), maximize=True)[1]
        return Clusters(self.first[:, order], self.second[:, order], self.symmetric)


class Teacher:
    """Teaches the posteriors of links the clusters of their pairs of features.

    Args:
        num_factors: K, the number of clusters and of factors.
    """

    def __init__(self, num_factors: int) -> None:
        self.num_factors = num_factors
        self.clusters: Clusters | None = None

    def prepare(
        self, graph: Graph, components: Floats | None, posteriors: Logits | None, *, seed: int, scale: Scale
    ) -> None:
        """Cluster the links of a graph with features.

        Args:
            graph: the graph.
            components: leading components of its features, if they are known, shape ``(N, d)``.
            posteriors: logits of the links by the present factors, before a warm start, or none. The clusters then
                get the numbers of these factors.
            seed: seed of the run.
            scale: whether components are computed at once or by blocks.
        """
        assert graph.x is not None
        if components is None or components.shape[1] < min(DIM, graph.num_features):
            components = truncated_svd(graph.x, DIM, seed=seed, scale=scale)
        self.clusters = cluster_pairs(graph, directions(components), self.num_factors, seed=seed)
        if posteriors is None or not graph.num_arcs:
            return
        arcs = np.linspace(0, graph.num_arcs - 1, min(graph.num_arcs, DISTILLED)).astype(np.int64)
        start, end = graph.sources()[arcs].astype(np.int64), graph.indices[arcs].astype(np.int64)
        with torch.no_grad():
            q = torch.softmax(posteriors(torch.from_numpy(start), torch.from_numpy(end)), dim=1).cpu().numpy()
        self.clusters = self.clusters.matched_to(q, start, end)

    def loss(self, batch: Batch, posteriors: Logits) -> Tensor:
        """Return the cross-entropy of the posteriors with the clusters, a mean over (a sample of) the links.

        Args:
            batch: the batch.
            posteriors: logits of the links from centres to nodes of the batch, given as positions in it.
        """
        assert self.clusters is not None
        start, end = sampled_rows(batch.links, DISTILLED)
        teacher = torch.from_numpy(self.clusters.logits(batch.nodes[start], batch.nodes[end])).to(batch.device)
        logits = posteriors(*(torch.from_numpy(side).to(batch.device) for side in (start, end)))
        targets = torch.softmax(teacher, dim=1)
        summed = F.cross_entropy(logits, targets, label_smoothing=SMOOTHING, reduction="sum")
        total, number = distributed.total(torch.stack([summed, summed.new_tensor(len(start))])).unbind()
        return total / number.clamp_min(1)


def cluster_pairs(graph: Graph, values: Floats, num_clusters: int, *, seed: int) -> Clusters:
    """Cluster the links of a graph by the vectors of their two ends; the best of several starts.

    An undirected link has no first end: each iteration reads it in the direction that is nearer to its centre.
    Otherwise a factor that joins two kinds of nodes would need a cluster for each direction, and with K clusters for K
    factors, different factors would be merged.

    Args:
        graph: the graph.
        values: a vector per node, shape ``(N, D)``.
        num_clusters: K.
        seed: seed of the run.
    """
    symmetric = not graph.directed
    start, end = _sampled_links(graph, seed)
    if not start.size:
        nothing = np.zeros((graph.num_nodes, num_clusters), np.float32)
        return Clusters(nothing, nothing, symmetric)
    nodes, position = np.unique(np.concatenate([start, end]), return_inverse=True)  # the cost does not grow with N
    links = position[: start.size], position[start.size :]
    fits = (
        _lloyd(values[nodes], *links, num_clusters, symmetric=symmetric, draw=rng.stream(seed, "pairs", number))
        for number in range(STARTS)
    )
    inertia, first, second = min(fits, key=lambda fit: fit[0])
    sharpness = 0.5 / max(inertia / (start.size * 2 * values.shape[1]), 1e-6)
    return Clusters(_scores(values, first) * sharpness, _scores(values, second) * sharpness, symmetric)


def _sampled_links(graph: Graph, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Both ends of (a sample of) the links; an undirected one counts once."""
    draw = rng.stream(seed, "pair sample")
    if graph.num_arcs > 4 * SAMPLE:  # without an array as long as the links
        arcs = np.unique(draw.integers(graph.num_arcs, size=4 * SAMPLE))
    else:
        arcs = np.arange(graph.num_arcs)
    start = (np.searchsorted(graph.indptr, arcs, side="right") - 1).astype(np.int32)
    end = graph.indices[arcs]
    once = np.flatnonzero((start <= end) | graph.directed)
    if once.size > SAMPLE:
        once = once[np.sort(draw.choice(once.size, SAMPLE, replace=False))]
    return start[once], end[once]


def _lloyd(
    x: Floats,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    num_clusters: int,
    *,
    symmetric: bool,
    draw: np.random.Generator,
) -> tuple[float, Floats, Floats]:
    """Lloyd's iteration from one start: the sum of squared distances, and the centres a and b."""
    first, second = _plus_plus(x, start, end, num_clusters, symmetric=symmetric, draw=draw)
    lengths = np.square(x).sum(axis=1)
    total = float(lengths[start].sum(dtype=np.float64) + lengths[end].sum(dtype=np.float64))
    links = np.arange(start.size)
    before = np.inf
    for _ in range(ITERATIONS):
        s, t = _scores(x, first), _scores(x, second)
        forward = s[start] + t[end]  # (A, K)
        back = s[end] + t[start] if symmetric else forward
        nearer = np.maximum(forward, back)
        cluster = nearer.argmax(axis=1)
        inertia = total - float(nearer[links, cluster].sum(dtype=np.float64))
        if inertia >= before * (1 - 1e-5):
            break
        before = inertia
        turn = back[links, cluster] > forward[links, cluster]
        first = _means(x, np.where(turn, end, start), cluster, first)
        second = _means(x, np.where(turn, start, end), cluster, second)
    return before, first, second


def _plus_plus(
    x: Floats,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    num_clusters: int,
    *,
    symmetric: bool,
    draw: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Centres at links drawn in proportion to their squared distance to the nearest centre so far."""

    def distances(links: list[int]) -> Floats:
        """Squared distances of all links to some of them, shape ``(A, len(links))``."""
        s, t = _scores(x, x[start[links]]), _scores(x, x[end[links]])
        forward = s[start] + t[end]
        nearer = np.maximum(forward, s[end] + t[start]) if symmetric else forward
        return np.asarray(np.maximum((lengths[start] + lengths[end])[:, None] - nearer, 0), np.float32)

    lengths = np.square(x).sum(axis=1)
    chosen = [int(draw.integers(start.size))]
    nearest = distances(chosen)[:, 0]
    while len(chosen) < num_clusters:
        sums = np.cumsum(nearest, dtype=np.float64)
        tried = np.searchsorted(sums, draw.random(CANDIDATES) * sums[-1]).clip(max=start.size - 1).tolist()
        reached = np.minimum(nearest[:, None], distances(tried))
        least = int(reached.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(tried[least])
        nearest = reached[:, least]
    return x[start[chosen]], x[end[chosen]]


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
