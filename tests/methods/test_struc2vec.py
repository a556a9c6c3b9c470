"""struc2vec: its weights, and that places count and not nearness."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from dssl.graph import Graph
from dssl.methods.struc2vec import layer, upward, weights_in_rows
from dssl.model.estimator import Embedder


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


def test_places_count_and_not_nearness() -> None:
    graph = barbells(6)
    values = Embedder(method="struc2vec", dim=8, epochs=30, step_size=0.1, seed=0).fit_transform(graph)
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    near = unit @ unit.T
    middle = graph.degrees > 1
    assert near[np.ix_(middle, middle)].mean() > near[np.ix_(middle, ~middle)].mean() + 0.3
