from __future__ import annotations

import numpy as np
from scipy import sparse

from dssl.graph.matrices import gcn_matrix, mean_matrix, normalised_matrix


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
