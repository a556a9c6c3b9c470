"""struc2vec: its weights, and that places count and not nearness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chisquare

from dssl.graph import Graph
from dssl.methods._structural_distance import candidates
from dssl.methods.struc2vec import Struc2Vec, layer, upward, weights_in_rows
from dssl.model.estimator import Embedder
from tests.methods.test_structural_distance import compressed, plain_rings, warping


def barbells(number: int) -> Graph:
    """Separate stars of six leaves: middles are far from each other and in the same place."""
    start = [7 * k for k in range(number) for _ in range(6)]
    end = [7 * k + leaf for k in range(number) for leaf in range(1, 7)]
    return Graph.from_edges(start, end)


def test_a_layer_links_pairs_both_ways() -> None:
    found = np.array([0.5, np.inf, 2.0])
    made = layer(found, np.array([0, 0, 1]), np.array([1, 2, 2]), 3).toarray()
    assert made.tolist() == [[0, 0.5, 0], [0.5, 0, 2.0], [0, 2.0, 0]]


def test_weights_are_exponentials_however_far_all_are() -> None:
    matrix = sparse.csr_array(np.array([[0, 1.0, 3.0], [900.0, 0, 901.0], [0, 0, 0]]))
    found = weights_in_rows(matrix)
    np.testing.assert_allclose(found, [1, math.exp(-2), 1, math.exp(-1)])


def test_layers_with_many_like_nodes_are_left_upward() -> None:
    matrix = sparse.csr_array(np.array([[0, 0.1, 0.1], [0.1, 0, 5.0], [0.1, 5.0, 0]]))
    weights = [math.exp(-value) for value in matrix.data]
    mean = sum(weights) / len(weights)
    rows = matrix.toarray()
    for node, chance in enumerate(upward(matrix)):
        gamma = sum(1 for value in rows[node] if value and math.exp(-value) > mean)
        wanted = math.log(gamma + math.e)
        assert math.isclose(chance, wanted / (wanted + 1))


@pytest.mark.parametrize("rings", [1, 2, 3])
@pytest.mark.parametrize("stay", [0.3, 0.8])
def test_first_steps_have_the_chances_of_the_layers(rings: int, stay: float) -> None:
    """A walk changes layers until it stays, then steps by e^−f_k, with f_k a sum over rings of degrees."""
    graph = Graph.from_edges([0, 1, 2, 3, 4, 1, 6, 2], [1, 2, 3, 4, 5, 6, 7, 8])  # a path with branches
    n = graph.num_nodes
    method = Struc2Vec(2, rings=rings, stay=stay, walk_length=1, window=1, negatives=1, step_size=0.1)
    method.prepare(graph, seed=0)
    pairs = {
        (int(u), int(v)) for side in (candidates(graph), candidates(graph)[::-1]) for u, v in zip(*side, strict=True)
    }
    w = np.zeros((rings, n, n))
    f = np.full((rings, n, n), np.inf)
    for u, v in pairs:
        total = 0.0
        for k, (a, b) in enumerate(zip(plain_rings(graph, u, rings), plain_rings(graph, v, rings), strict=True)):
            if not a or not b:
                break
            total += warping(compressed(a), compressed(b))
            f[k, u, v], w[k, u, v] = total, math.exp(-total)
    gamma = [(w[k] > w[k][w[k] > 0].mean()).sum(axis=1) for k in range(rings)]
    start = 0
    chain = np.zeros((rings, rings))  # changes of layer at the start node
    for k in range(rings):
        up = math.log(gamma[k][start] + math.e)
        above = k + 1 < rings and w[k + 1, start].any()
        if above:
            chain[k, k + 1] = 1.0 if k == 0 else up / (up + 1)
        chain[k, max(k - 1, 0)] += 1 - chain[k].sum()
    layer = stay * np.linalg.inv(np.eye(rings) - (1 - stay) * chain)[0]
    wanted = sum(layer[k] * w[k, start] / w[k, start].sum() for k in range(rings) if w[k, start].any())
    assert wanted.sum() == pytest.approx(1)
    found = np.bincount([method.paths(np.array([start]), seed)[0, 1] for seed in range(4000)], minlength=n)
    reached = wanted > 0
    assert found[~reached].sum() == 0
    assert chisquare(found[reached], 4000 * wanted[reached]).pvalue > 1e-3


def test_places_count_and_not_nearness() -> None:
    graph = barbells(6)
    values = Embedder(method="struc2vec", dim=8, epochs=30, settings={"step_size": 0.1}, seed=0).fit_transform(graph)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    near = unit @ unit.T
    middle = graph.degrees > 1
    assert near[np.ix_(middle, middle)].mean() > near[np.ix_(middle, ~middle)].mean() + 0.3
