from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.svd import components, truncated_svd


@pytest.mark.parametrize("shape", [(30, 50), (900, 400)])
def test_components_span_the_leading_space(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    low = draw.normal(size=(shape[0], 8)) * np.arange(8, 0, -1) @ draw.normal(size=(8, shape[1]))
    found = truncated_svd(sparse.csr_array(low), 8)
    # U Σ keeps all inner products of a matrix of rank 8.
    np.testing.assert_allclose(found @ found.T, low @ low.T, rtol=1e-3, atol=1e-2 * np.abs(low @ low.T).max())
    assert found.dtype == np.float32
    assert np.all(np.diff(np.linalg.norm(found, axis=0)) <= 1e-3)


@pytest.mark.parametrize("shape", [(40, 12), (700, 500)])
def test_the_right_vectors_lead_to_the_components_sign_by_sign(shape: tuple[int, int]) -> None:
    draw = np.random.default_rng(2)
    low = (draw.normal(size=(shape[0], 8)) * np.arange(8, 0, -1) @ draw.normal(size=(8, shape[1]))).astype(np.float32)
    values, vectors = components(low, 6)
    assert np.array_equal(values, truncated_svd(low, 6))
    np.testing.assert_allclose(low @ vectors, values, atol=1e-3 * np.abs(values).max())
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-3)


def test_dense_and_sparse_agree_and_repeat() -> None:
    dense = np.random.default_rng(1).normal(size=(700, 300)).astype(np.float32)
    first = truncated_svd(dense, 10)
    np.testing.assert_array_equal(first, truncated_svd(dense, 10))
    np.testing.assert_allclose(first, truncated_svd(sparse.csr_array(dense), 10), atol=1e-3)


def test_fewer_columns_than_asked_for() -> None:
    assert truncated_svd(np.eye(3), 10).shape == (3, 3)
    assert truncated_svd(np.zeros((4, 0)), 10).shape == (4, 0)
    assert truncated_svd(np.zeros((4, 2)), 2).tolist() == [[0, 0]] * 4
