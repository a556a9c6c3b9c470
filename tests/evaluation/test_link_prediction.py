"""Hidden links are hidden, pairs without a link have none, and a score that knows ranks them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from sklearn.metrics import roc_auc_score

from dssl.data.synthetic import synthetic
from dssl.errors import GraphError
from dssl.evaluation import link_prediction
from dssl.evaluation.link_prediction import KINDS, hold_out, ranked, score_embedding, score_pairs
from dssl.graph import Graph

GRAPH = synthetic(nodes=200, classes=4, degree=6, features=4, h=0.9, seed=1)


def keys(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(min(pair)), int(max(pair))) for pair in pairs}


def links(graph: Graph) -> set[tuple[int, int]]:
    return keys(np.stack([graph.sources(), graph.indices], axis=1))


def test_hidden_links_are_gone_and_nothing_else() -> None:
    task = hold_out(GRAPH, seed=0)
    hidden = keys(task.val) | keys(task.test)
    assert links(task.graph) == links(GRAPH) - hidden
    assert keys(task.train) == links(task.graph)
    assert len(hidden) == len(task.val) + len(task.test)
    assert len(task.test) == round(0.1 * GRAPH.num_edges)
    assert str(task.graph.history[-1]) == f"{len(hidden)} links hidden for link prediction"


def test_pairs_without_a_link_have_none_and_do_not_repeat() -> None:
    task = hold_out(GRAPH, seed=0)
    for kind in KINDS:
        parts = [keys(part) for part in task.apart[kind]]
        assert [len(part) for part in parts] == [len(task.train), len(task.val), len(task.test)]
        assert not set().union(*parts) & links(GRAPH)
        assert len(set().union(*parts)) == sum(map(len, parts))
        assert all(low < high for part in parts for low, high in part)


def test_negatives_by_degree_have_higher_degrees() -> None:
    graph = synthetic(nodes=500, classes=2, degree=6, features=0, seed=0)  # preferential attachment
    task = hold_out(graph, seed=0)
    degrees = graph.degrees
    uniform, degree = (degrees[task.apart[kind][0]].mean() for kind in KINDS)
    linked = degrees[task.train].mean()
    assert uniform < 0.8 * linked < degree * 1.1


def test_the_same_seed_hides_the_same_links() -> None:
    first, again, other = (hold_out(GRAPH, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.test, again.test)
    assert all(
        np.array_equal(a, b) for kind in KINDS for a, b in zip(first.apart[kind], again.apart[kind], strict=True)
    )
    assert keys(first.test) != keys(other.test)


def test_an_embedding_that_knows_the_links_ranks_them_first_and_noise_does_not() -> None:
    task = hold_out(GRAPH, seed=0)
    rng = np.random.default_rng(0)
    known = np.linalg.svd(GRAPH.adjacency().toarray() + 2 * np.eye(GRAPH.num_nodes))[0].astype(np.float32)
    weights = np.linalg.svd(GRAPH.adjacency().toarray())[1]
    told = ranked(score_embedding(task, known * np.sqrt(weights).astype(np.float32)))
    noise = ranked(score_embedding(task, rng.standard_normal((GRAPH.num_nodes, 8)).astype(np.float32)))
    assert told["cosine_uniform_auc"] > 0.7 > noise["cosine_uniform_auc"]
    assert {name.rpartition("_")[0] for name in told} == {
        f"{how}_{kind}" for how in ("cosine", "probe") for kind in KINDS
    }
    assert all(0 <= value <= 1 for value in told.values())


def test_a_regression_finds_links_between_unlike_nodes_that_the_cosine_ranks_last() -> None:
    rng = np.random.default_rng(0)
    side = np.arange(120) % 2  # links join the two sides only, and the embedding is the side
    graph = Graph.from_edges(2 * rng.integers(60, size=500), 2 * rng.integers(60, size=500) + 1, num_nodes=120)
    values = (np.eye(2)[side] + 0.1 * rng.standard_normal((120, 2))).astype(np.float32)
    found = ranked(score_embedding(hold_out(graph, seed=0), values))
    assert found["probe_uniform_auc"] > 0.7
    assert found["cosine_uniform_auc"] < 0.3


def test_a_regression_learns_from_hidden_links_where_the_vectors_remember_the_others() -> None:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], size=(6, 100, 2, 2))  # six kinds of pairs of nodes, with two columns
    sign[0, :, 1, 0] = sign[0, :, 0, 0]  # links of the graph agree in the first column, which remembers them
    for hidden in (1, 2):  # the others disagree there, and agree in the second
        sign[hidden, :, 1, 0], sign[hidden, :, 1, 1] = -sign[hidden, :, 0, 0], sign[hidden, :, 0, 1]
    values = (sign + 0.1 * rng.standard_normal(sign.shape)).reshape(-1, 2).astype(np.float32)
    train, val, test, *apart = np.arange(1200).reshape(6, 100, 2)
    score = link_prediction.learn(values, (train, apart[0]), (val, apart[1]))
    truth = np.arange(200) < 100
    assert roc_auc_score(truth, score(np.concatenate([test, apart[2]]))) > 0.85
    few = link_prediction.learn(values, (train, apart[0]), (val[:4], apart[1][:4]))  # too few to learn from
    assert roc_auc_score(truth, few(np.concatenate([test, apart[2]]))) < 0.5


def test_a_function_that_tells_links_scores_one() -> None:
    task = hold_out(GRAPH, seed=0)
    truth = links(GRAPH)
    scores = score_pairs(task, "oracle", lambda pairs: np.array([float(pair in truth) for pair in map(tuple, pairs)]))
    found = ranked(scores)
    assert set(found.values()) == {1.0}
    assert set(found) == {f"oracle_{kind}_{what}" for kind in KINDS for what in ("auc", "ap")}


def test_graphs_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(GraphError, match="too few to hide"):
        hold_out(Graph.from_edges([0, 1], [1, 2]), seed=0)
    everything = [(i, j) for i in range(8) for j in range(i)]
    with pytest.raises(GraphError, match="too dense"):
        hold_out(Graph.from_edges(*zip(*everything, strict=True)), seed=0)


def test_a_star_has_negatives_too() -> None:
    star = Graph.from_edges([0] * 30, list(range(1, 31)))
    path = list(pairwise(range(40)))
    for graph in (star, Graph.from_edges(*zip(*path, strict=True))):
        task = hold_out(graph, seed=0)
        assert all(not keys(part) & links(graph) for kind in KINDS for part in task.apart[kind])


def test_baselines_equal_a_loop_over_their_formulas() -> None:
    draw = np.random.default_rng(0)
    pairs = draw.integers(30, size=(90, 2))
    task = link_prediction.hold_out(Graph.from_edges(*pairs.T, num_nodes=30), seed=0)
    a = (task.graph.adjacency().toarray() > 0).astype(float)
    d = a.sum(axis=1)
    found = ranked(link_prediction.score_baselines(task))

    def auc(score: Any) -> float:
        yes, no = [score(i, j) for i, j in task.test], [score(i, j) for i, j in task.apart["degree"][2]]
        return float(np.mean([(u > v) + 0.5 * (u == v) for u in yes for v in no]))

    def common(i: int, j: int) -> float:
        return sum(1 / np.log(max(d[k], 2)) for k in range(30) if a[i, k] and a[j, k])

    def paths(i: int, j: int) -> float:
        ends = [(k, m) for k in range(30) for m in range(30) if a[i, k] and a[k, m] and a[m, j]]
        return float(np.round(sum(1 / np.sqrt(d[k] * d[m]) for k, m in ends), 5))

    assert found["degrees_degree_auc"] == pytest.approx(auc(lambda i, j: d[i] * d[j]))
    assert found["neighbours_degree_auc"] == pytest.approx(auc(common))
    assert found["paths_degree_auc"] == pytest.approx(auc(paths), abs=0.02)


def test_baselines_of_a_weighted_graph_ignore_its_weights() -> None:
    pairs = np.random.default_rng(0).integers(30, size=(90, 2))
    graph = Graph.from_edges(*pairs.T, num_nodes=30, weights=np.linspace(1, 9, 90))
    found, plain = (
        ranked(link_prediction.score_baselines(hold_out(g, seed=0))) for g in (graph, graph.replace(weights=None))
    )
    assert found == plain


def with_auc(wanted: float, count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Scores of links and of other pairs with a given AUC."""
    normal = ndtri((np.arange(count) + 0.5) / count)
    return normal + 2**0.5 * ndtri(wanted), normal


def test_the_verdict_compares_with_training_free_scores() -> None:
    wanted = {"cosine": 0.4, "probe": 0.7, "neighbours": 0.6, "paths": 0.65}
    found = {f"{name}_degree": with_auc(auc) for name, auc in wanted.items()}
    text = link_prediction.verdict(found)
    assert "AUC 0.70 of the embedding (probe) beats the best training-free score, paths of length three (0.65)" in text
    assert "A cosine AUC below 0.5" in text
    assert "does not beat" in link_prediction.verdict(found | {"paths_degree": with_auc(0.9)})


def test_a_difference_within_the_noise_of_few_pairs_is_no_win() -> None:
    draw = np.random.default_rng(1)
    few = {
        name: (draw.normal(size=40) + shift, draw.normal(size=40)) for name, shift in (("probe", 0.8), ("paths", 0.6))
    }
    text = link_prediction.verdict({f"{name}_degree": both for name, both in few.items()})
    assert "is above" in text and "within the noise of the pairs" in text


def test_the_interval_of_two_aucs_is_that_of_repeated_samples() -> None:
    draw = np.random.default_rng(2)

    def sample() -> list[tuple[np.ndarray, np.ndarray]]:
        common = draw.normal(size=(2, 150))
        return [(common[0] + draw.normal(size=150) + shift, common[1] + draw.normal(size=150)) for shift in (1.2, 1.0)]

    aucs, widths = [], []
    for _ in range(300):
        one, other = sample()
        low, high = link_prediction.difference(one, other)
        aucs.append((low + high) / 2)
        widths.append(high - low)
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(aucs), rel=0.15)
    labels = np.arange(300) < 150
    exact = [roc_auc_score(labels, np.concatenate(both)) for both in (one, other)]
    assert (low + high) / 2 == pytest.approx(exact[0] - exact[1])
