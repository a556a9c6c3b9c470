from __future__ import annotations

import numpy as np
import pytest

from dssl.graph.eigenvectors import TOLERANCE, leading_eigenpairs
from dssl.rng import stream


def symmetric(size: int, *, positive: bool = False) -> np.ndarray:
    draw = stream(0, "symmetric")
    turn = np.linalg.qr(draw.normal(size=(size, size)))[0]
    values = 0.98 ** np.arange(size) * (1 if positive else draw.choice([-1, 1], size=size))
    return ((turn * values) @ turn.T).astype(np.float32)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("size", "count"), [(20, 6), (400, 24)])
def test_the_leading_pairs_are_those_of_lapack(size: int, count: int, positive: bool) -> None:
    matrix = symmetric(size, positive=positive)
    found = leading_eigenpairs(lambda q: matrix @ q, size, count, positive=positive)
    values = np.linalg.eigvalsh(matrix.astype(np.float64))
    values = values[np.argsort(-np.abs(values))][:count]
    np.testing.assert_allclose(np.abs(found.values), np.abs(values), atol=1e-4)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-4)
    error = matrix @ found.vectors - found.vectors * found.values.astype(np.float32)
    assert np.linalg.norm(error, axis=0).max() <= 1.1 * TOLERANCE
    assert found.residual <= TOLERANCE
    again = leading_eigenpairs(lambda q: matrix @ q, size, count, positive=positive)
    assert np.array_equal(again.vectors, found.vectors)


def test_both_ends_of_the_spectrum_are_found() -> None:
    values = np.concatenate([[0.9, -0.8, 0.7, -0.6], np.linspace(-0.2, 0.2, 200)]).astype(np.float32)
    found = leading_eigenpairs(lambda q: values[:, None] * q, 204, 4)
    np.testing.assert_allclose(found.values, [0.9, -0.8, 0.7, -0.6], atol=1e-4)


@pytest.mark.parametrize("positive", [False, True])
def test_an_eigenvalue_that_stands_alone_does_not_overflow(positive: bool) -> None:
    values = np.concatenate([[1], np.linspace(0.05, 0.03, 20_000)]).astype(np.float32)
    found = leading_eigenpairs(lambda q: values[:, None] * q, 20_001, 4, positive=positive)
    assert found.values[0] == pytest.approx(1, abs=1e-4)
    assert np.isfinite(found.vectors).all()


def test_a_bipartite_graph_needs_few_products() -> None:
    half = (stream(0, "bipartite").random((600, 600)) < 0.004).astype(np.float32)
    matrix = np.block([[np.zeros((600, 600)), half], [half.T, np.zeros((600, 600))]]).astype(np.float32)
    found = leading_eigenpairs(lambda q: matrix @ q, 1200, 24)
    assert found.residual <= TOLERANCE
    assert found.products <= 40
    rough = leading_eigenpairs(lambda q: matrix @ q, 1200, 24, products=10)
    assert 10 <= rough.products < found.products


def test_a_matrix_of_zeros_and_one_smaller_than_the_block() -> None:
    found = leading_eigenpairs(np.zeros_like, 50, 4)
    assert found.values.tolist() == [0, 0, 0, 0]
    assert np.isfinite(found.vectors).all()
    np.testing.assert_allclose(leading_eigenpairs(lambda q: 2 * q, 3, 10).values, [2, 2, 2], rtol=1e-5)
