from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph
from dssl.graph import adjacency as averages
from dssl.graph.adjacency import gcn_matrix, mean_matrix, normalised_matrix
from dssl.rng import stream
from tests.kernels.test_csr import looped_graph


def with_features(graph: Graph) -> Graph:
    return graph.replace(x=stream(0, "x").normal(size=(graph.num_nodes, 7)).astype(np.float32))


@pytest.mark.parametrize("weighted", [False, True])
def test_products_are_those_of_the_matrices(weighted: bool) -> None:
    graph = with_features(looped_graph(weighted=weighted))
    adjacency = graph.adjacency()
    links = averages.Averages(graph)
    for product, matrix in (
        (links.product, adjacency),
        (links.mean, mean_matrix(adjacency)),
        (links.smooth, gcn_matrix(adjacency)),
        (links.normalised, normalised_matrix(adjacency)),
    ):
        np.testing.assert_allclose(product(graph.x), matrix.toarray() @ graph.x, atol=1e-5)


@pytest.mark.parametrize("slab", [1, 800, 3000, 1 << 20])  # bytes: one column at a time, and all of them at once
def test_hop_features_by_a_few_columns(slab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averages, "SLAB", slab)
    monkeypatch.setattr(averages, "LEAST", 1)
    graph = with_features(looped_graph())
    p = mean_matrix(graph.adjacency()).toarray()
    x = np.hstack([graph.x, np.ones((200, 1))])
    np.testing.assert_allclose(averages.hop_features(graph, 2), np.hstack([p @ x, p @ p @ x]), atol=1e-5)


def random_matrix(rows: int, columns: int) -> sparse.csr_array:
    return sparse.random_array((rows, columns), density=0.2, format="csr", dtype=np.float32, rng=0)


def test_gcn_matrix_is_the_formula() -> None:
    adjacency = random_matrix(6, 6)
    adjacency = sparse.csr_array(adjacency + adjacency.T)
    looped = adjacency.toarray() + np.eye(6)
    scale = np.diag(1 / np.sqrt(looped.sum(axis=1)))
    np.testing.assert_allclose(gcn_matrix(adjacency).toarray(), scale @ looped @ scale, rtol=1e-5)


def test_mean_matrix_averages_and_leaves_isolated_nodes_at_zero() -> None:
    adjacency = sparse.csr_array(np.array([[0, 2, 6], [2, 0, 0], [0, 0, 0]], np.float32))
    found = mean_matrix(adjacency).toarray()
    np.testing.assert_allclose(found, [[0, 0.25, 0.75], [1, 0, 0], [0, 0, 0]])


def test_normalised_matrix_divides_by_the_roots_of_both_sums() -> None:
    adjacency = np.array([[0, 4, 0], [1, 0, 3], [0, 0, 0]], np.float32)
    found = normalised_matrix(sparse.csr_array(adjacency)).toarray()
    np.testing.assert_allclose(found, [[0, 1, 0], [1 / 2, 0, 3 / np.sqrt(12)], [0, 0, 0]], rtol=1e-6)
