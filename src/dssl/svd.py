"""The leading components of a matrix, dense or sparse: the same bytes from the same matrix, and never a wide copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl import rng


def truncated_svd(matrix: NDArray[Any] | sparse.csr_array, dim: int, *, seed: int = 0) -> NDArray[np.float32]:
    """Return U Σ of the ``dim`` largest singular values, shape ``(N, min(dim, N, F))``.

    Randomised (Halko et al. 2011, scikit-learn's) unless the matrix is small; each column's sign is set so that
    its largest entry is positive.

    >>> truncated_svd(np.array([[3.0, 0.0], [0.0, 2.0]]), 1)
    array([[3.],
           [0.]], dtype=float32)
    """
    dim = min(dim, *matrix.shape)
    if not dim:
        return np.zeros((matrix.shape[0], 0), np.float32)
    if min(matrix.shape) <= 256 or dim > 0.5 * min(matrix.shape):
        dense = matrix.toarray() if isinstance(matrix, sparse.csr_array) else np.asarray(matrix)
        u, s, _ = np.linalg.svd(dense.astype(np.float64), full_matrices=False)
    else:
        from sklearn.utils.extmath import randomized_svd

        state = rng.integer(seed, "svd") % 2**31
        u, s, _ = randomized_svd(matrix, dim, n_iter=6, n_oversamples=20, random_state=state)
    values = u[:, :dim] * s[:dim]
    signs = np.sign(values[np.abs(values).argmax(axis=0), np.arange(dim)])
    return np.ascontiguousarray(values * np.where(signs == 0, 1, signs), dtype=np.float32)
