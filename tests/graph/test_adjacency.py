from __future__ import annotations

import numpy as np
import pytest

from dssl.graph import Graph
from dssl.graph import adjacency as averages
from dssl.graph.matrices import gcn_matrix, mean_matrix, normalised_matrix
from dssl.rng import stream
from tests.kernels.test_rowloops import random_graph


def with_features(graph: Graph) -> Graph:
    return graph.replace(x=stream(0, "x").normal(size=(graph.num_nodes, 7)).astype(np.float32))


@pytest.mark.parametrize("weighted", [False, True])
def test_products_are_those_of_the_matrices(weighted: bool) -> None:
    graph = with_features(random_graph(weighted=weighted))
    adjacency = graph.adjacency()
    links = averages.Averages(graph)
    for product, matrix in (
        (links.plain, adjacency),
        (links.mean, mean_matrix(adjacency)),
        (links.smooth, gcn_matrix(adjacency)),
        (links.normalised, normalised_matrix(adjacency)),
    ):
        np.testing.assert_allclose(product(graph.x), matrix.toarray() @ graph.x, atol=1e-5)


@pytest.mark.parametrize("slab", [1, 800, 3000, 1 << 20])  # bytes: one column at a time, and all of them at once
def test_hop_features_by_a_few_columns(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averages, "SLAB", slab)
    monkeypatch.setattr(averages, "LEAST", 1)
    graph = with_features(random_graph())
    p = mean_matrix(graph.adjacency()).toarray()
    x = np.hstack([graph.x, np.ones((200, 1))])
    np.testing.assert_allclose(averages.hop_features(graph, 2), np.hstack([p @ x, p @ p @ x]), atol=1e-5)
    s = gcn_matrix(graph.adjacency()).toarray()
    np.testing.assert_allclose(averages.smooth_features(graph), s @ s @ graph.x, atol=1e-5)
