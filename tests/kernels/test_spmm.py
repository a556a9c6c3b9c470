from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.kernels import spmm


@pytest.mark.parametrize("columns", [1, 8, 13, 64, 72, 130])
def test_product_is_that_of_dense_matrices(columns: int) -> None:
    matrix = sparse.random_array((300, 200), density=0.1, format="csr", dtype=np.float32, rng=0)
    matrix = sparse.csr_array(matrix)
    dense = np.random.default_rng(1).normal(size=(200, columns)).astype(np.float32)
    out = np.full((300, columns), np.nan, np.float32)  # what was there before does not count
    spmm.spmm(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, dense, out, threads=1)
    np.testing.assert_allclose(out, matrix.toarray() @ dense, atol=1e-5)


def test_rows_without_entries_and_matrices_without_any_are_zero() -> None:
    dense = np.ones((3, 64), np.float32)
    for entries in (0, 1):
        indptr, out = np.array([0, 0, entries, entries], np.int64), np.full((3, 64), np.nan, np.float32)
        indices, values = np.full(entries, 2, np.int32), np.full(entries, 2, np.float32)
        spmm.spmm(indptr, indices, values, dense, out, threads=1)
        np.testing.assert_array_equal(out, np.array([0, 2 * entries, 0], np.float32)[:, None].repeat(64, 1))


@pytest.mark.parametrize("columns", [8, 40, 64, 104])
def test_without_values_all_are_one(columns: int) -> None:
    draw = np.random.default_rng(0)
    matrix = sparse.random_array((30, 20), density=0.3, rng=draw, format="csr")
    matrix.data[:] = 1
    dense = draw.standard_normal((20, columns)).astype(np.float32)
    out = np.empty((30, columns), np.float32)
    spmm.spmm(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), None, dense, out, threads=1)
    np.testing.assert_allclose(out, matrix @ dense, atol=1e-5)
