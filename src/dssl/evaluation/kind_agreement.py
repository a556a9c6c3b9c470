"""Agreement of factors with the known kinds of links, compared with training-free baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.kinds import given_arcs
from dssl.graph.link_description import directions
from dssl.graph.svd import truncated_svd

SAMPLE = 20_000  # links that k-means on the pairs is fitted to
COMPONENTS = 32

Codes = NDArray[np.int64]


def known_links(
    graph: Graph, source: NDArray[np.int32], target: NDArray[np.int32]
) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Return which links run as the graph has them and have a known kind, ``(A,)``, and the kinds of these.

    Args:
        graph: a graph with kinds.
        source: position of the start of each link, shape ``(A,)``.
        target: position of its end, shape ``(A,)``.
    """
    if graph.kinds is None:
        raise GraphError(f"graph {graph.name!r} has no kinds of links; read them with kind_column")
    forth, _ = given_arcs(graph, source, target)
    kinds = np.append(graph.kinds, np.int32(-1))[forth]  # −1, the last, where there is no arc
    known = kinds >= 0
    if not graph.directed:
        known &= source <= target
    return known, kinds[known]


def kind_agreement(
    graph: Graph, source: NDArray[np.int32], target: NDArray[np.int32], q: NDArray[np.float32], *, seed: int = 0
) -> dict[str, Any]:
    """Compare the most probable factor of each link with its kind.

    Adjusted mutual information (AMI) is 0 for random groups and 1 if each determines the other. Purity is the accuracy
    if each factor is named after its most frequent kind; the row ``chance`` has the fraction of the most frequent kind.

    Args:
        graph: the graph as it was given, with kinds.
        source: position of the start of each link of the factors, shape ``(A,)``.
        target: position of its end, shape ``(A,)``.
        q: posterior of each link, shape ``(A, K)``.
        seed: seed of k-means.

    Returns:
        ``links``, the number of links that count; ``rows``, with AMI and purity of the factors, of k-means on the
        features of the two ends, of the classes of the two ends, and ``chance``; ``table``, the number of links by
        factor and kind; ``names`` of the kinds. Only ``skipped``, a reason, if fewer than two kinds occur.
    """
    known, kinds = known_links(graph, source, target)
    if np.unique(kinds).size < 2:
        return {"skipped": f"{np.unique(kinds).size} kind of links occurs, and agreement needs two"}
    assert graph.kind_names is not None
    start, end, factor = source[known], target[known], q[known].argmax(axis=1)
    rows = {"factors": scores(factor, kinds)}
    if graph.x is not None:
        rows["k-means on pairs"] = scores(_pair_clusters(graph, start, end, q.shape[1], seed=seed), kinds)
    if graph.y is not None:
        rows["classes of the ends"] = scores(graph.y[start] * (graph.num_classes + 1) + graph.y[end], kinds)
    rows["chance"] = {"ami": 0.0, "purity": float(np.bincount(kinds).max() / kinds.size)}
    table = np.zeros((q.shape[1], len(graph.kind_names)), np.int64)
    np.add.at(table, (factor, kinds), 1)
    return {"links": int(kinds.size), "rows": rows, "table": table.tolist(), "names": list(graph.kind_names)}


def scores(found: NDArray[Any], kinds: NDArray[np.int32]) -> dict[str, float]:
    """Return AMI and purity of groups of links.

    >>> scores(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    {'ami': 1.0, 'purity': 1.0}
    """
    from sklearn.metrics import adjusted_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    most = contingency_matrix(found, kinds).max(axis=1).sum()
    return {"ami": float(adjusted_mutual_info_score(kinds, found)), "purity": float(most / kinds.size)}


def _pair_clusters(graph: Graph, start: NDArray[np.int32], end: NDArray[np.int32], count: int, *, seed: int) -> Codes:
    """Clusters by k-means on the components of the features of both ends, in the direction of the link."""
    from sklearn.cluster import KMeans

    assert graph.x is not None
    values = directions(truncated_svd(graph.x, COMPONENTS, seed=seed))
    pairs = np.hstack([values[start], values[end]])
    draw = rng.stream(seed, "k-means on pairs")
    sample = pairs if len(pairs) <= SAMPLE else pairs[draw.choice(len(pairs), SAMPLE, replace=False)]
    fitted = KMeans(min(count, len(np.unique(sample, axis=0))), n_init=3, random_state=seed).fit(sample)
    return np.asarray(fitted.predict(pairs), np.int64)
