from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import svd
from dssl.graph.svd import components, truncated_svd
from dssl.rng import stream
from dssl.runtime import out_of_core
from dssl.runtime.scale import BY_BLOCKS


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


def test_tall_matrices_are_decomposed_by_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = stream(0, "tall")
    x = (draw.normal(size=(5000, 20)) * np.linspace(1, 3, 20)).astype(np.float32)
    kept = out_of_core.scratch(x.shape)
    kept[:] = x
    monkeypatch.setattr(out_of_core, "AT_ONCE", 999)
    wanted = [svd.right_vectors(x, 6), *svd.components(x, 6)]
    for matrix in (x, kept, sparse.csr_array(x)):
        found = [svd.right_vectors(matrix, 6, scale=BY_BLOCKS), *svd.components(matrix, 6, scale=BY_BLOCKS)]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-3)


def test_symmetric_components_are_the_eigenvalues_of_largest_size() -> None:
    draw = stream(0, "symmetric")
    turn = np.linalg.qr(draw.normal(size=(300, 300)))[0]
    values = np.concatenate([[9.0, -7.0, 5.0, -4.0, 3.0], draw.uniform(-1, 1, 295)])
    matrix = ((turn * values) @ turn.T).astype(np.float32)
    found, vectors = svd.symmetric_components(lambda q: matrix @ q, 300, 5, seed=1)
    np.testing.assert_allclose(found, values[:5], atol=1e-4)
    np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-3)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-4)
    again = svd.symmetric_components(lambda q: matrix @ q, 300, 5, seed=1)
    np.testing.assert_array_equal(vectors, again[1])


def test_symmetric_components_of_a_matrix_of_low_rank() -> None:
    matrix = np.zeros((100, 100), np.float32)
    matrix[0, 1] = matrix[1, 0] = 2
    found, vectors = svd.symmetric_components(lambda q: matrix @ q, 100, 4, seed=0)
    np.testing.assert_allclose(np.sort(np.abs(found)), [0, 0, 2, 2], atol=1e-5)
    assert np.isfinite(vectors).all()


def test_products_of_low_rank_have_zeros_in_place_of_rounding_errors() -> None:
    draw = np.random.default_rng(0)
    low = sparse.csr_array((draw.random((400, 3)) @ draw.random((3, 300))).astype(np.float32))
    product = svd.smoothed(low, sparse.csr_array(sparse.eye_array(400, dtype=np.float32)))
    first, second = (truncated_svd(product, 20) for _ in range(2))
    assert (np.abs(first).max(axis=0) > 0).tolist() == [True] * 3 + [False] * 17
    assert np.array_equal(first, second)
