"""Walks and skip-gram: distributions, determinism, and a literal loop over the updates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dssl import rng
from dssl.graph import Graph
from dssl.methods import _walks, table
from dssl.methods.node2vec import Node2Vec
from dssl.nn.batches import Sampling
from tests.graphs import CPU, random_graph


def test_walks_follow_links_and_their_seed_whatever_the_batches() -> None:
    graph = random_graph()
    starts = np.arange(graph.num_nodes)
    paths = _walks.walks(graph, starts, 6, 3)
    matrix = graph.adjacency().toarray()
    for path in paths:
        known = path[path >= 0]
        assert (matrix[known[:-1], known[1:]] > 0).all()
        assert len(known) == (7 if graph.degrees[path[0]] else 1)
    parts = np.concatenate([_walks.walks(graph, part, 6, 3) for part in (starts[:7], starts[7:])])
    assert (parts == paths).all()
    assert (_walks.walks(graph, starts, 6, 4) != paths).any()


def test_a_walk_ends_where_no_arc_leads_on() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], directed=True)
    assert _walks.walks(graph, np.array([0]), 4, 0).tolist() == [[0, 1, 2, -1, -1]]


def test_steps_are_in_proportion_to_weights() -> None:
    graph = Graph.from_edges([0, 0, 0], [1, 2, 3], weights=[1e-9, 2e-9, 7e-9])
    counts = np.bincount([_walks.walks(graph, np.array([0]), 1, seed)[0, 1] for seed in range(3000)], minlength=4)
    np.testing.assert_allclose(counts[1:] / 3000, [0.1, 0.2, 0.7], atol=0.03)


def test_links_that_weigh_nothing_are_not_walked() -> None:
    graph = Graph.from_edges([0, 1, 1, 3], [1, 2, 3, 4], weights=[0.0, 1.0, 3.0, 0.0])
    paths = _walks.walks(graph, np.array([0, 1, 2, 3, 4] * 40), 5, 0)
    assert {0: {0, -1}, 4: {4, -1}} == {start: set(paths[paths[:, 0] == start].ravel()) for start in (0, 4)}
    steps = [_walks.walks(graph, np.array([1]), 1, seed)[0, 1] for seed in range(2000)]
    np.testing.assert_allclose(np.bincount(steps, minlength=4)[2:] / 2000, [0.25, 0.75], atol=0.04)


def test_a_leaf_leads_back_however_little_walks_turn_back() -> None:
    graph = Graph.from_edges([0], [1])
    assert _walks.walks(graph, np.array([0]), 4, 0, p=1e300).tolist() == [[0, 1, 0, 1, 0]]


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25)])
def test_biased_steps_have_the_chances_of_node2vec(p: float, q: float) -> None:
    # From 0 (coming from 1): back to 1, to 2, which 1 is linked to, or to 3 and 4, which it is not.
    graph = Graph.from_edges([0, 0, 0, 0, 1], [1, 2, 3, 4, 2])
    seen = np.zeros(5)
    for seed in range(4000):
        path = _walks.walks(graph, np.array([1]), 2, seed, p=p, q=q)[0]
        if path[1] == 0:
            seen[path[2]] += 1
    wanted = np.array([0, 1 / p, 1, 1 / q, 1 / q])
    np.testing.assert_allclose(seen / seen.sum(), wanted / wanted.sum(), atol=0.035)


@pytest.mark.parametrize("weights", [[1.0], [0, 0], [1, 2, 3, 4], [0, 5, 0, 1e-3]])
def test_drawn_positions_have_their_probabilities(weights: list[float]) -> None:
    table = _walks.Draws.of(np.array(weights))
    drawn = _walks.draw(table, 20_000, np.uint64(1))
    wanted = np.array(weights) / sum(weights) if sum(weights) else np.full(len(weights), 1 / len(weights))
    np.testing.assert_allclose(np.bincount(drawn, minlength=len(weights)) / 20_000, wanted, atol=0.015)


def test_a_step_of_skip_gram_is_that_of_its_gradient() -> None:
    rng = np.random.default_rng(0)
    vectors, outputs = rng.normal(size=(2, 5, 3)).astype(np.float32)
    only = _walks.Draws.of(np.array([0, 0, 0, 1.0, 0]))  # each negative is node 3
    v, u = vectors.astype(float), outputs.astype(float)
    loss = _walks.train_pairs(np.array([0]), np.array([1]), vectors, outputs, only, 2, 0.1, np.uint64(0))

    def sigma(score: float) -> float:
        return 1 / (1 + math.exp(-score))

    change, wanted_loss = np.zeros(3), 0.0
    for target, label in ((1, 1.0), (3, 0.0), (3, 0.0)):
        found = sigma(float(v[0] @ u[target]))
        wanted_loss -= math.log(found if label else 1 - found)
        change += 0.1 * (label - found) * u[target]
        u[target] += 0.1 * (label - found) * v[0]
    v[0] += change
    assert math.isclose(loss, wanted_loss, rel_tol=1e-5)
    np.testing.assert_allclose(vectors, v, atol=1e-6)
    np.testing.assert_allclose(outputs, u, atol=1e-6)


def test_walks_train_each_pair_within_the_window() -> None:
    vectors, outputs = np.full((4, 2), 0.1, np.float32), np.zeros((4, 2), np.float32)
    others = _walks.Draws.of(np.ones(4))
    path = np.array([[0, 1, 2, -1]], np.int32)
    _, near = _walks.train_walks(path, vectors, outputs, others, 1, 1, 0.1, np.uint64(0))
    assert near == 4  # 01, 10, 12, 21
    counts = {_walks.train_walks(path, vectors, outputs, others, 2, 1, 0.1, np.uint64(seed))[1] for seed in range(20)}
    assert counts <= {4, 5, 6}
    assert len(counts) > 1


def test_a_node_is_also_paired_with_itself_as_in_word2vec() -> None:
    """Along 0 1 0 with a window of two, the ends are a pair too; its step is that of any other pair."""
    only = _walks.Draws.of(np.array([0, 0, 1.0]))  # each negative is node 2
    path = np.array([[0, 1, 0]], np.int32)
    for seed in range(20):
        vectors, outputs = (np.random.default_rng(at).normal(size=(3, 2)).astype(np.float32) for at in (0, 1))
        v, u = vectors.astype(float), outputs.astype(float)
        _, pairs = _walks.train_walks(path, vectors, outputs, only, 2, 1, 0.1, np.uint64(seed))
        if pairs < 6:
            continue
        for t, s in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
            i, o = path[0, t], path[0, s]
            change = np.zeros(2)
            for target, label in ((o, 1.0), (2, 0.0)):
                step = 0.1 * (label - 1 / (1 + math.exp(-float(v[i] @ u[target]))))
                change += step * u[target]
                u[target] += step * v[i]
            v[i] += change
        np.testing.assert_allclose(vectors, v, atol=1e-5)
        np.testing.assert_allclose(outputs, u, atol=1e-5)
        return
    raise AssertionError("no window reached the other end")


def test_layered_walks_change_layers_and_stay_in_them() -> None:
    # Layer 0 links 0-1 and 2-3, layer 1 links 1-2 alone: only by changing layers can a walk from 0 reach 2.
    indptr = np.array([0, 1, 2, 3, 4, 4, 5, 6, 6])
    indices = np.array([1, 0, 3, 2, 2, 1], np.int32)
    links = _walks.Links(indptr, indices, _walks.running_sums(indptr, np.ones(6)))
    up = np.full((2, 4), 0.5)
    starts = np.zeros(1, np.int64)
    seen = np.concatenate([_walks.layered_walks(links, up, starts, 8, 0.3, np.uint64(seed)) for seed in range(20)])
    assert set(seen.ravel()) == {0, 1, 2, 3}
    kept = _walks.layered_walks(links, up, starts, 8, 1.0, np.uint64(0))
    assert kept.tolist() == [[0, 1, 0, 1, 0, 1, 0, 1, 0]]


def test_layers_are_changed_with_their_chances() -> None:
    # Layer k links every node to 10 + k alone: where a walk goes tells the layer that it is in.
    layers, n = 3, 13
    rows = [[10 + k] for k in range(layers) for _ in range(n)]
    indptr = np.arange(len(rows) + 1)
    indices = np.array([end for row in rows for end in row], np.int32)
    links = _walks.Links(indptr, indices, _walks.running_sums(indptr, np.ones(len(rows))))
    up = np.full((layers, n), 0.8)
    paths = np.concatenate(
        [_walks.layered_walks(links, up, np.zeros(1, np.int64), 200, 0.5, np.uint64(seed)) for seed in range(40)]
    )
    # The layers are a chain: up from the first, then up with 0.8, down from the last; stay 0.5.
    chain = np.array([[0.5, 0.5, 0], [0.1, 0.5, 0.4], [0, 0.5, 0.5]])
    share = np.linalg.matrix_power(chain, 200)[0]
    found = np.bincount(paths[:, 50:].ravel(), minlength=n)[10:]
    np.testing.assert_allclose(found / found.sum(), share, atol=0.03)


def test_windows_do_not_follow_the_first_steps_of_walks() -> None:
    graph = Graph.from_edges(np.zeros(10, np.int64), np.arange(1, 11))  # from 0 to ten others
    method = Node2Vec(4, return_weight=1, away_weight=1, walk_length=1, window=10, negatives=1, step_size=0.1)
    method.prepare(graph, seed=0)
    with pytest.MonkeyPatch.context() as patched:
        seeds = []
        patched.setattr(table, "train_walks", lambda *given: seeds.append(int(given[-1])) or (0.0, 1))
        list(map(method.update, method.batches(graph, Sampling(batch_size=0, fanout=(), seed=0, epoch=0, device=CPU))))
        ((_, number),) = method.batches(graph, Sampling(batch_size=0, fanout=(), seed=0, epoch=0, device=CPU))
    assert seeds == [rng.integer(number, "pairs")]
    assert number not in seeds
