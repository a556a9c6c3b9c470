"""Clusters, label-free measures, sanity baselines against literal formulas, and the whole evaluation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from dssl.errors import DsslError
from dssl.evaluation import baselines
from dssl.evaluation import label_free as label_free_measures
from dssl.evaluation.baselines import majority
from dssl.evaluation.evaluate import evaluate, kmeans, verdict
from dssl.evaluation.label_free import clusters, label_free
from dssl.evaluation.metrics import Score
from dssl.evaluation.splits import Split, random_splits
from dssl.graph import Graph, svd


def two_blocks(n: int = 60, *, labels: bool = True, features: bool = True) -> Graph:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    links = np.argwhere(rng.random((n, n)) < np.where(y[:, None] == y, 0.3, 0.03))
    x = rng.normal(size=(n, 5)) + 0.7 * y[:, None] if features else None
    return Graph.from_edges(*links.T, num_nodes=n, x=x, y=y if labels else None, name="blocks")


def same_up_to_rotation(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-4 * np.abs(b @ b.T).max())


def dense_svd(matrix: np.ndarray, dim: int) -> np.ndarray:
    u, s, _ = np.linalg.svd(matrix, full_matrices=False)
    return u[:, :dim] * s[:dim]


@pytest.mark.parametrize("as_sparse", [False, True])
def test_baselines_equal_the_dense_formulas(as_sparse):
    rng = np.random.default_rng(0)
    n = 12
    links = np.argwhere(rng.random((n, n)) < 0.2)
    links = links[(links != 5).all(axis=1)]  # node 5 is isolated
    x = rng.normal(size=(n, 6)).astype(np.float32) * (rng.random((n, 6)) < 0.6)
    features = sparse.csr_array(x) if as_sparse else x
    graph = Graph.from_edges(*links.T, num_nodes=n, x=features, directed=True, self_loops="keep")
    a = np.zeros((n, n))
    a[links[:, 0], links[:, 1]] = a[links[:, 1], links[:, 0]] = 1  # no weights: opposite arcs are one link
    np.fill_diagonal(a, 0)
    d = (a + np.eye(n)).sum(1)
    s = (a + np.eye(n)) / np.sqrt(d[:, None] * d)
    p = a / np.maximum(a.sum(1, keepdims=True), 1)
    found = dict(baselines.baseline_features(graph, dim=4))
    raw = dense_svd(x, 4)
    assert {name: values.shape[1] for name, values in found.items()} == {
        "raw": 4,
        "smoothed": 4,
        "hops": 12,
        "adjacency": 12,
    }
    same_up_to_rotation(found["raw"], raw)
    same_up_to_rotation(found["smoothed"], dense_svd(s @ s @ x, 4))
    same_up_to_rotation(found["hops"], np.hstack([raw, p @ raw, p @ p @ raw]))
    same_up_to_rotation(found["adjacency"], a @ np.linalg.svd(a)[2].T)
    again = dict(baselines.baseline_features(graph, dim=4))
    assert all(np.array_equal(found[name], again[name]) for name in found)


def test_truncated_svd_finds_the_leading_directions_of_a_large_matrix():
    rng = np.random.default_rng(0)
    matrix = (rng.normal(size=(300, 80)) * np.geomspace(1, 0.01, 80)).astype(np.float32)
    found = svd.truncated_svd(aslinearoperator(matrix), 10)
    np.testing.assert_allclose(np.linalg.norm(found, axis=0), np.linalg.svd(matrix)[1][:10], rtol=1e-4)


def test_label_free_measures_against_literal_loops_and_a_collapsed_embedding():
    graph = two_blocks(30)
    values = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    found = label_free(graph, values)
    linked = [
        np.sum((unit[i] - unit[j]) ** 2) for i in range(30) for j in graph.indices[slice(*graph.indptr[i : i + 2])]
    ]
    apart = [np.exp(-2 * np.sum((unit[i] - unit[j]) ** 2)) for i in range(30) for j in range(30) if i != j]
    assert found["alignment"] == pytest.approx(np.mean(linked), rel=1e-4)
    assert found["uniformity"] == pytest.approx(np.log(np.mean(apart)), abs=0.02)  # there over a sample of pairs
    collapsed = label_free(graph, np.ones((30, 4), np.float32))
    expected = {"effective_rank": 1, "alignment": 0, "uniformity": 0, "mean_direction": 1}
    assert {name: collapsed[name] for name in expected} == pytest.approx(expected)
    assert collapsed["calinski_harabasz"] is None  # all rows are one cluster


def literal_index(values: np.ndarray, groups: np.ndarray) -> float:
    """Between-group variance over within-group variance, each over its degrees of freedom."""
    mean, names = values.mean(axis=0), np.unique(groups)
    between = within = 0.0
    for name in names:
        rows = values[groups == name]
        between += len(rows) * np.sum((rows.mean(axis=0) - mean) ** 2)
        within += sum(np.sum((row - rows.mean(axis=0)) ** 2) for row in rows)
    return float((between / (len(names) - 1)) / (within / (len(values) - len(names))))


def test_groups_that_are_told_apart_have_a_high_index():
    graph = two_blocks(40)
    rng = np.random.default_rng(0)
    q = np.eye(2, dtype=np.float32)[graph.y] * 0.8 + 0.1
    q[7] = 0  # a node without links has no factor
    noise = rng.normal(size=(40, 3)).astype(np.float32)
    apart = noise + 5 * graph.y[:, None].astype(np.float32)
    for values in (noise, apart):
        found = label_free(graph, values, factors=q)["calinski_harabasz_factors"]
        known = np.arange(40) != 7
        assert found == pytest.approx(literal_index(values[known], graph.y[known]), rel=1e-4)
    far, near = label_free(graph, apart, factors=q), label_free(graph, noise, factors=q)
    for name in ("calinski_harabasz", "calinski_harabasz_features", "calinski_harabasz_factors"):
        assert far[name] > near[name], name
    groups = clusters(apart, 2)
    assert set(zip(groups, graph.y, strict=True)) in ({(0, 0), (1, 1)}, {(0, 1), (1, 0)})
    assert far["calinski_harabasz"] == pytest.approx(literal_index(apart, clusters(apart, 8)), rel=1e-4)
    one = np.repeat(np.array([[1, 0]], np.float32), 40, axis=0)
    assert label_free(graph, apart, factors=one)["calinski_harabasz_factors"] is None
    assert "calinski_harabasz_features" not in label_free(two_blocks(40, features=False), apart)


def test_large_graphs_are_clustered_by_a_sample(monkeypatch):
    graph, values = two_blocks(60), np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    whole = label_free(graph, values)["calinski_harabasz"]
    monkeypatch.setattr(label_free_measures, "CLUSTERED_NODES", 30)
    sample = label_free(graph, values, factors=np.full((60, 2), 0.5, np.float32))
    assert sample["calinski_harabasz"] != whole
    assert sample == label_free(graph, values, factors=np.full((60, 2), 0.5, np.float32))


def test_kmeans_finds_clusters_whatever_their_names_and_leaves_the_unlabelled_out():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    values = (np.eye(3)[y] * 20 + rng.normal(size=(60, 3))).astype(np.float32)
    assert kmeans(values, y) == {"nmi": 1, "ari": 1, "accuracy": 1}
    hidden = np.where(np.arange(60) % 5 == 0, -1, (y + 1) % 3)
    assert kmeans(values, hidden) == {"nmi": 1, "ari": 1, "accuracy": 1}
    assert kmeans(np.ones((60, 3), np.float32), y)["accuracy"] == pytest.approx(1 / 3)
    noise = rng.normal(size=(60, 3)).astype(np.float32)
    assert kmeans(noise, y, seed=3) == kmeans(noise, y, seed=3)


def test_majority_counts_train_and_scores_test():
    y = np.array([0, 0, 1, 2, 1, 1, 0, -1])
    split = Split(np.array([0, 1, 2]), np.array([3]), np.array([4, 5, 6]))
    assert majority(y, [split])["accuracy"].splits == (pytest.approx(1 / 3),)


def test_verdict_in_words():
    low, high = Score((0.5, 0.6, 0.55)), Score((0.8, 0.9, 0.86))
    assert "(55.0%) does not beat the best training-free baseline, the raw features (85.3%)" in verdict(
        low, {"majority": Score((0.1, 0.1, 0.1)), "raw": high}
    )
    assert "beats the best training-free baseline" in verdict(high, {"raw": low})
    assert "within the noise" in verdict(Score((0.5, 0.9)), {"raw": Score((0.6, 0.7))})


def test_whole_evaluation_is_plain_json_and_deterministic():
    graph = two_blocks()
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    stages: list[str] = []
    result = evaluate(graph, values, splits=3, random_encoder=values, on_stage=stages.append)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert set(result) == {"label_free", "probe", "kmeans", "sanity", "verdict"}
    assert set(result["sanity"]) == {"majority", "raw", "smoothed", "hops", "adjacency", "random-encoder"}
    assert result["sanity"]["random-encoder"]["accuracy"] == result["probe"]["accuracy"]
    assert len(result["probe"]["accuracy"]["splits"]) == 3
    assert result["probe"].keys() >= {"accuracy", "macro_f1", "roc_auc"}
    assert result["sanity"]["adjacency"]["accuracy"]["mean"] > 0.9  # two blocks are plain in the links
    assert "does not beat" in result["verdict"]  # noise does not
    assert stages[:3] == ["label-free measures", "linear probe", "k-means"]
    assert evaluate(graph, values, splits=3, random_encoder=values) == result
    assert evaluate(graph, values, splits=3, seed=1)["probe"] != result["probe"]


def test_rare_classes_are_measured_by_average_precision_or_balanced_accuracy():
    rng = np.random.default_rng(0)
    n = 300
    y = (np.arange(n) % 10 == 0).astype(np.int64)
    values = (rng.normal(size=(n, 3)) + 1.2 * y[:, None]).astype(np.float32)
    graph = Graph.from_edges(rng.integers(n, size=900), rng.integers(n, size=900), num_nodes=n, y=y)
    result = evaluate(graph, values, splits=4)
    assert result["probe"]["measure"] == "average_precision"
    assert "90.0% of the labelled nodes" in result["probe"]["reason"]
    assert result["probe"]["average_precision"]["interval"][0] < result["probe"]["average_precision"]["mean"]
    assert result["sanity"]["majority"]["average_precision"]["mean"] == pytest.approx(0.1, abs=0.05)
    assert result["verdict"].startswith("The embedding (average precision ")
    assert "beats the best training-free baseline" in result["verdict"]  # accuracy would be level with the majority
    assert evaluate(graph, values, splits=4, measure="accuracy")["probe"]["reason"] == "as requested"
    three = graph.replace(y=np.where(np.arange(n) % 20 == 0, 2, y))
    result = evaluate(three, values, splits=4, class_weight="balanced")
    assert result["probe"]["measure"] == "balanced_accuracy"
    present = [np.unique(three.y[split.test]).size for split in random_splits(three.y, count=4)]
    expected = [1 / classes for classes in present]  # the recall of the largest class is 1, that of the others 0
    assert result["sanity"]["majority"]["balanced_accuracy"]["splits"] == pytest.approx(expected)


def test_without_labels_features_or_links_the_rest_is_measured():
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    assert set(evaluate(two_blocks(labels=False), values)) == {"label_free"}
    bare = evaluate(two_blocks(features=False), values, splits=2)
    assert set(bare["sanity"]) == {"majority", "adjacency"}
    lonely = Graph.from_edges([], [], num_nodes=60, y=np.arange(60) % 2)
    result = evaluate(lonely, values, splits=2)
    assert result["label_free"]["alignment"] is None
    assert set(result["sanity"]) == {"majority"}
    single = evaluate(Graph.from_edges([], [], num_nodes=1), values[:1])
    assert single["label_free"]["uniformity"] is None


def test_labels_that_allow_no_probe_are_named_not_fatal():
    values = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    graph = two_blocks().replace(y=np.where(np.arange(60) < 2, 0, -1))
    assert "2 labelled nodes are too few" in evaluate(graph, values)["skipped"]["probe"]
    one = evaluate(two_blocks().replace(y=np.zeros(60, np.int64)), values)
    assert "fewer than two classes" in one["skipped"]["probe"]


def test_embeddings_that_do_not_fit_are_refused():
    graph = two_blocks()
    with pytest.raises(DsslError, match=r"shape \(59, 2\) for the 60 nodes of graph 'blocks'"):
        evaluate(graph, np.zeros((59, 2), np.float32))
    wrong = np.zeros((60, 2), np.float32)
    wrong[7] = np.inf
    with pytest.raises(DsslError, match="node 7 is NaN or infinite"):
        evaluate(graph, wrong)
