"""Measures of an embedding that need no labels: rank, alignment, uniformity, and how separable groups are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dssl.graph import Graph, svd
from dssl.nn.health import effective_rank
from dssl.rng import integer, stream

UNIFORMITY_PAIRS = 100_000
CLUSTERS, CLUSTERED_NODES, CLUSTERED_COLUMNS = 8, 4096, 64  # of the clusters that stand in for unknown classes
TINY = np.finfo(np.float32).tiny  # leaves rows of zeros at zero


def label_free(
    graph: Graph, values: NDArray[np.float32], *, seed: int = 0, factors: NDArray[np.float32] | None = None
) -> dict[str, float | None]:
    """Measures that need no labels.

    ``effective_rank`` (RankMe): exp of the entropy of the singular values, 1 … d. ``alignment``: mean squared distance
    of linked unit rows, small if neighbours are similar. ``uniformity``: log of the mean of exp(−2 squared distance)
    over random pairs of unit rows, 0 if all rows point the same way and about −4 if they spread over the sphere.
    ``mean_direction``: squared norm of the mean unit row, 1 for a collapsed embedding. The rest is
    `calinski_harabasz` of three groupings of the nodes: ``calinski_harabasz``, eight clusters of the embedding;
    ``calinski_harabasz_features``, eight clusters of the features; ``calinski_harabasz_factors``, the most probable
    factor of each node, if ``factors`` of shape ``(N, K)`` are given.
    """
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    unit: NDArray[np.float32] = values / np.maximum(norms, TINY)
    rng = stream(seed, "uniformity")
    pairs = rng.integers(graph.num_nodes, size=(2, UNIFORMITY_PAIRS)) if graph.num_nodes > 1 else np.zeros((2, 0), int)
    pairs = pairs[:, pairs[0] != pairs[1]]
    arcs = np.arange(graph.num_arcs)
    if arcs.size > 10 * UNIFORMITY_PAIRS:
        arcs = np.sort(rng.integers(graph.num_arcs, size=10 * UNIFORMITY_PAIRS))
    linked = _squared_distances(unit, np.stack([graph.sources()[arcs], graph.indices[arcs]]))
    apart = _squared_distances(unit, pairs)
    return {
        "effective_rank": effective_rank(torch.from_numpy(values)),
        "alignment": float(linked.mean()) if linked.size else None,
        "uniformity": float(np.log(np.exp(-2 * apart).mean())) if apart.size else None,
        "mean_direction": float(np.square(unit.mean(axis=0, dtype=np.float64)).sum()),
        **_separation(graph, values, factors, seed=seed),
    }


def _separation(
    graph: Graph, values: NDArray[np.float32], factors: NDArray[np.float32] | None, *, seed: int
) -> dict[str, float | None]:
    """The Calinski–Harabasz index of groups that stand in for unknown classes, over a sample of the nodes."""
    nodes = np.arange(graph.num_nodes)
    if nodes.size > CLUSTERED_NODES:
        nodes = np.sort(stream(seed, "clustered nodes").permutation(nodes)[:CLUSTERED_NODES])
    rows = values[nodes]
    found = {"calinski_harabasz": calinski_harabasz(rows, clusters(rows, CLUSTERS, seed=seed))}
    if graph.x is not None:
        x = svd.truncated_svd(graph.x[nodes], min(CLUSTERED_COLUMNS, graph.x.shape[1]))
        found["calinski_harabasz_features"] = calinski_harabasz(rows, clusters(x, CLUSTERS, seed=seed))
    if factors is not None:
        known = factors[nodes].any(axis=1)  # a node without links has no factor
        found["calinski_harabasz_factors"] = calinski_harabasz(rows[known], factors[nodes][known].argmax(axis=1))
    return found


def calinski_harabasz(values: NDArray[np.float32], groups: NDArray[np.integer[Any]]) -> float | None:
    """Variance between the groups over variance within, above 0; none for one group.

    It grows with the number of rows and depends on the number of groups: compare it on one graph, with one number.
    """
    from sklearn.metrics import calinski_harabasz_score

    if not 1 < np.unique(groups).size < len(groups):
        return None
    return float(calinski_harabasz_score(values, groups))


def clusters(values: NDArray[np.float32], count: int, *, seed: int = 0, starts: int = 3) -> NDArray[np.int32]:
    """Clusters of the rows by k-means, the best of several starts, shape ``(N,)``."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    count = min(count, np.unique(values, axis=0).shape[0])
    model = KMeans(n_clusters=count, n_init=starts, random_state=integer(seed, "kmeans") % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ by rounding make fewer clusters
        found: NDArray[np.int32] = model.fit_predict(values)
    return found


def _squared_distances(unit: NDArray[np.float32], pairs: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    blocks = [
        unit[a] - unit[b] for a, b in zip(*(np.array_split(end, 1 + end.size // 65536) for end in pairs), strict=True)
    ]
    return np.concatenate([np.einsum("md,md->m", block, block) for block in blocks])
