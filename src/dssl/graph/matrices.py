"""The matrices that a graph's adjacency A becomes: its averages, as SciPy CSR."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def gcn_matrix(adjacency: sparse.csr_array, degrees: NDArray[np.float32] | None = None) -> sparse.csr_array:
    """S = D̂^−½ (A + I) D̂^−½ with D̂ the degrees of A + I (Kipf & Welling 2017).

    Args:
        adjacency: A, shape ``(n, n)``.
        degrees: row sums of A, shape ``(n,)``, where those of the whole graph are to be taken, not of a sample.
    """
    looped = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))
    total = np.asarray(looped.sum(axis=1) if degrees is None else degrees + 1, np.float32)
    scale = np.reciprocal(np.sqrt(np.maximum(total, np.float32(1e-12))))
    return scaled(looped, scale, scale)


def mean_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """P = D^−1 A: the (weighted) mean over neighbours; a node without neighbours gets zeros."""
    total = adjacency.sum(axis=1)
    return scaled(adjacency, np.divide(1, total, out=np.zeros_like(total), where=total > 0), None)


def normalised_matrix(adjacency: sparse.csr_array) -> sparse.csr_array:
    """D^−½ A D^−½ with the sums of rows on the left and of columns on the right; empty ones stay empty."""
    sums = [np.asarray(adjacency.sum(axis=axis), np.float32).reshape(-1) for axis in (1, 0)]
    left, right = (np.reciprocal(np.sqrt(np.where(total > 0, total, 1).astype(np.float32))) for total in sums)
    return scaled(adjacency, left, right)


def scaled(
    matrix: sparse.csr_array, rows: NDArray[np.float32], columns: NDArray[np.float32] | None
) -> sparse.csr_array:
    """Multiply the rows, and the columns if given, of a CSR matrix by vectors."""
    data = matrix.data * np.repeat(rows, np.diff(matrix.indptr))
    if columns is not None:
        data = data * columns[matrix.indices]
    return sparse.csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
