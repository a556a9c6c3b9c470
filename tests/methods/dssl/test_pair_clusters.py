"""Clusters of linked pairs against k-means on the pairs written out."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.data.synthetic import planted_pairs
from dssl.graph import Graph
from dssl.methods.dssl import pair_clusters


def written_out(graph: Graph, values: np.ndarray) -> np.ndarray:
    return np.hstack([values[graph.sources()], values[graph.indices]])


def of_links(graph: Graph, found: pair_clusters.Clusters) -> np.ndarray:
    return found.logits(graph.sources(), graph.indices)


def test_clusters_are_those_of_k_means_on_the_pairs() -> None:
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_mutual_info_score

    graph, _ = planted_pairs(nodes=300, directed=True)
    values = pair_clusters.directions(np.asarray(graph.x))
    ours = of_links(graph, pair_clusters.cluster_pairs(graph, values, 6, seed=0)).argmax(axis=1)
    theirs = KMeans(6, n_init=10, random_state=0).fit_predict(written_out(graph, values))
    assert adjusted_mutual_info_score(ours, theirs) == pytest.approx(1)


def test_scores_are_the_posterior_of_a_mixture_at_the_means_of_the_clusters() -> None:
    graph, _ = planted_pairs(nodes=200, signal=3.0, directed=True)
    values = pair_clusters.directions(np.asarray(graph.x)).astype(np.float64)
    logits = of_links(graph, pair_clusters.cluster_pairs(graph, values.astype(np.float32), 4, seed=0))
    rows, cluster = written_out(graph, values), logits.argmax(axis=1)
    means = np.stack([rows[cluster == k].mean(axis=0) for k in range(4)])
    distances = np.square(rows[:, None] - means).sum(axis=2)
    variance = distances.min(axis=1).mean() / rows.shape[1]
    wanted = -distances / (2 * variance)
    np.testing.assert_allclose(
        logits - logits.max(axis=1, keepdims=True), wanted - wanted.max(axis=1, keepdims=True), atol=0.3, rtol=0.02
    )


def test_directions_are_centred_unit_rows_of_the_leading_columns() -> None:
    values = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32) * np.arange(1, 51)[:, None]
    wanted = values[:, :32] - values[:, :32].mean(axis=0)
    found = pair_clusters.directions(values)
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1)[:, None], atol=1e-5)
    assert not pair_clusters.directions(np.ones((3, 2), np.float32)).any()


def test_same_seed_same_bytes_also_on_a_sample_of_the_links(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, reason = planted_pairs(nodes=300, directed=True)
    values = pair_clusters.directions(np.asarray(graph.x))
    monkeypatch.setattr(pair_clusters, "SAMPLE", 400)
    first, again = (pair_clusters.cluster_pairs(graph, values, 6, seed=3) for _ in range(2))
    assert first.first.tobytes() == again.first.tobytes() and first.second.tobytes() == again.second.tobytes()
    cluster = of_links(graph, first).argmax(axis=1)
    assert len(np.unique(np.stack([cluster, reason]), axis=1).T) <= 8  # six, and a stray pair or two


@pytest.mark.parametrize("links", [0, 1, 2])
def test_fewer_links_than_clusters(links: int) -> None:
    graph = Graph.from_edges(range(links), range(1, links + 1), num_nodes=4)
    found = pair_clusters.cluster_pairs(graph, np.eye(4, dtype=np.float32), 5, seed=0)
    assert found.first.shape == found.second.shape == (4, 5)
    assert np.isfinite(of_links(graph, found)).all()


def test_undirected_links_have_one_cluster_for_each_reason_whichever_end_is_first() -> None:
    from sklearn.metrics import adjusted_mutual_info_score

    graph, reason = planted_pairs(nodes=300)
    found = pair_clusters.cluster_pairs(graph, pair_clusters.directions(np.asarray(graph.x)), 6, seed=0)
    logits = of_links(graph, found)
    np.testing.assert_array_equal(logits, found.logits(graph.indices, graph.sources()))
    assert adjusted_mutual_info_score(logits.argmax(axis=1), reason) > 0.98


def test_either_way_of_reading_a_link_counts() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, 5, 3)).astype(np.float32)
    found = pair_clusters.Clusters(first, second, symmetric=True)
    i, j = np.array([0, 1]), np.array([2, 4])
    for row in range(2):
        a, b = i[row], j[row]
        wanted = np.log(np.exp(first[a] + second[b]) + np.exp(first[b] + second[a]))
        np.testing.assert_allclose(found.logits(i, j)[row], wanted, rtol=1e-5)
