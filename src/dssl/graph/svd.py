"""The leading singular vectors of a matrix that may be dense, sparse, or known by its products alone.

In memory they come from scikit-learn's randomised SVD and, for products such as S²X, which is dense where X is sparse,
from ARPACK; both with a fixed start, so that the same matrix gives the same result. A matrix with many rows and few
columns gets its right singular vectors from one pass over blocks of rows, which may be on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from dssl import rng
from dssl.runtime import out_of_core
from dssl.runtime.scale import IN_MEMORY, Scale

POWER_ITERATIONS, OVERSAMPLES = 6, 20  # spectra of graphs decay slowly
SYMMETRIC_ITERATIONS, SYMMETRIC_EXTRA = 8, 8  # of the decomposition for large graphs
ENTRIES, LEAST = 6_400_000, 32  # of components over all nodes: large graphs have fewer columns, but at least so many
NARROW = 1024  # columns up to which a matrix may be decomposed by XᵀX, from one pass over blocks of rows
TALL = 50_000  # rows from which on this is faster than subspace iteration, also in memory
SMALL = 256  # up to this many rows or columns, and 16 times as many of the others, LAPACK is exact and as fast

Dense = NDArray[np.float32]


def truncated_svd(
    matrix: Dense | sparse.csr_array | LinearOperator, dim: int, *, seed: int = 0, scale: Scale = IN_MEMORY
) -> Dense:
    """Return U Σ of the ``dim`` largest singular values, shape ``(N, min(dim, N, F))``, the largest first.

    Each column's sign is set so that its largest entry is positive.

    >>> truncated_svd(np.array([[3.0, 0.0], [0.0, 2.0]]), 1)
    array([[3.],
           [0.]], dtype=float32)
    """
    return components(matrix, dim, seed=seed, scale=scale)[0]


def components(
    matrix: Dense | sparse.csr_array | LinearOperator, dim: int, *, seed: int = 0, scale: Scale = IN_MEMORY
) -> tuple[Dense, Dense]:
    """Return U Σ as `truncated_svd` does, and the V of shape ``(F, min(dim, N, F))`` whose signs go with it.

    >>> x = np.array([[-3.0, 0.0], [0.0, 2.0]])
    >>> values, vectors = components(x, 1)
    >>> bool(np.allclose(x @ vectors, values)), bool(values[0, 0] > 0)
    (True, True)
    """
    if isinstance(matrix, np.ndarray) and _by_blocks(matrix, scale):
        v = _tall_vectors(matrix, dim)
        values = np.empty((matrix.shape[0], v.shape[1]), np.float32)
        for begin, block in out_of_core.blocks(matrix):
            values[begin : begin + len(block)] = block @ v
        turns = signs(values)
        values *= turns.astype(np.float32)
        return values, _scaled(v, turns)
    u, s, v = _decompose(matrix, dim, seed)
    turns = signs(u * s)
    return _scaled(u * s, turns), _scaled(v, turns)


def right_vectors(
    matrix: Dense | sparse.csr_array | LinearOperator, dim: int, *, seed: int = 0, scale: Scale = IN_MEMORY
) -> Dense:
    """Return V of the ``dim`` largest singular values, shape ``(F, min(dim, N, F))``: ``matrix @ V`` is U Σ.

    >>> right_vectors(np.array([[3.0, 0.0], [0.0, 2.0]]), 1)
    array([[1.],
           [0.]], dtype=float32)
    """
    if not isinstance(matrix, LinearOperator) and _by_blocks(matrix, scale):
        v = _tall_vectors(matrix, dim)
    else:
        v = _decompose(matrix, dim, seed)[2]
    return _scaled(v, signs(v))


def symmetric_components(
    times: Callable[[Dense], Dense], size: int, dim: int, *, seed: int = 0
) -> tuple[NDArray[np.float64], Dense]:
    """Return the eigenvalues of largest size of a symmetric matrix, the largest first, and their vectors.

    For large graphs: two arrays of ``size`` × (``dim`` + 8) are in memory, and each iteration is one product.

    Args:
        times: the product of the matrix with a dense one, as a new array.
        size: number of rows.
        dim: how many.
        seed: of the start.

    Returns:
        Shapes ``(dim,)`` and ``(size, dim)``; the vectors are the right singular vectors too.
    """
    width = min(dim + SYMMETRIC_EXTRA, size)
    q = rng.stream(seed, "svd").standard_normal((size, width), dtype=np.float32)
    for _ in range(SYMMETRIC_ITERATIONS):
        _orthonormalise(q)
        q = times(q)
    _orthonormalise(q)
    after = times(q)
    projected = np.zeros((width, width))
    for begin, block in out_of_core.blocks(q, at_once=1 << 21):
        projected += block.T.astype(np.float64) @ after[begin : begin + len(block)]
    del after
    values, turn = np.linalg.eigh((projected + projected.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")[: min(dim, size)]
    vectors = np.empty((size, len(order)), np.float32)
    for begin, block in out_of_core.blocks(q):
        vectors[begin : begin + len(block)] = block @ turn[:, order].astype(np.float32)
    vectors *= signs(vectors).astype(np.float32)
    return values[order], vectors


def most_columns(num_nodes: int) -> int:
    """Number of columns that the components of a graph's links may have.

    >>> most_columns(10_000), most_columns(100_000), most_columns(1_000_000)
    (640, 64, 32)
    """
    return max(ENTRIES // max(num_nodes, 1), LEAST)


def _orthonormalise(columns: Dense) -> None:
    """Turn columns into orthonormal ones of the same span, in place; missing directions become zeros."""
    values, vectors = np.linalg.eigh(_products(columns))
    scale = np.where(values > 1e-10 * max(values[-1], 1e-300), 1 / np.sqrt(np.maximum(values, 1e-300)), 0)
    turn = (vectors * scale).astype(np.float32)
    for begin, block in out_of_core.blocks(columns):
        columns[begin : begin + len(block)] = block @ turn


def _products(columns: Dense) -> NDArray[np.float64]:
    """XᵀX, added up in double precision, by blocks of rows."""
    out = np.zeros((columns.shape[1], columns.shape[1]))
    for _, block in out_of_core.blocks(columns, at_once=1 << 21):
        part = block.astype(np.float64) if block.shape[1] <= SMALL else block  # many columns take their time
        out += part.T @ part
    return out


def _by_blocks(matrix: Dense | sparse.csr_array, scale: Scale) -> bool:
    return matrix.shape[1] <= NARROW and (not scale.in_memory or matrix.shape[0] > TALL)


def _tall_vectors(matrix: Dense | sparse.csr_array, dim: int) -> Dense:
    """V of a matrix with many rows, by the eigenvectors of XᵀX."""
    products = (matrix.T @ matrix).toarray() if isinstance(matrix, sparse.csr_array) else _products(matrix)
    _, vectors = np.linalg.eigh(products.astype(np.float64))
    return np.asarray(vectors[:, ::-1][:, : min(dim, *matrix.shape)], np.float32)


def smoothed(x: Dense | sparse.csr_array, smoothing: sparse.csr_array) -> LinearOperator:
    """S²X for a symmetric S, by its products with vectors."""
    return LinearOperator(
        x.shape,
        matvec=lambda q: smoothing @ (smoothing @ (x @ q.reshape(-1, 1).astype(np.float32))),
        rmatvec=lambda q: x.T @ (smoothing @ (smoothing @ q.reshape(-1, 1).astype(np.float32))),
        dtype=np.float32,
    )


def _decompose(
    matrix: Dense | sparse.csr_array | LinearOperator, dim: int, seed: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """U of shape ``(N, dim)``, the singular values, and V of shape ``(F, dim)``."""
    shape = int(matrix.shape[0]), int(matrix.shape[1])
    dim = min(dim, *shape)
    if not dim:
        return np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0))
    if isinstance(matrix, LinearOperator):
        return _by_products(matrix, dim, seed)
    if min(shape) <= SMALL and max(shape) <= 16 * SMALL:
        dense = matrix.toarray() if isinstance(matrix, sparse.csr_array) else np.asarray(matrix)
        u, s, v = np.linalg.svd(dense.astype(np.float64), full_matrices=False)
        return u[:, :dim], s[:dim], v[:dim].T
    from sklearn.utils.extmath import randomized_svd

    u, s, v = randomized_svd(
        matrix,
        dim,
        n_oversamples=OVERSAMPLES,
        n_iter=POWER_ITERATIONS,
        random_state=rng.integer(seed, "svd") & 0xFFFFFFFF,
    )
    return u, s, v.T


def _by_products(matrix: LinearOperator, dim: int, seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The decomposition of a matrix that is never formed, by ARPACK; all of it where the matrix is small."""
    least = min(matrix.shape)
    if dim >= least:
        u, s, v = np.linalg.svd(matrix @ np.eye(matrix.shape[1], dtype=np.float32), full_matrices=False)
        return u[:, :dim], s[:dim], v[:dim].T
    u, s, v = svds(matrix, k=dim, v0=rng.stream(seed, "svd").standard_normal(least, dtype=np.float32))
    order = np.argsort(-s, kind="stable")
    u, s, v = u[:, order], s[order], v[order].T
    # Below its rank a matrix has directions of rounding errors, which ARPACK starts at random.
    real = s > s[0] * np.finfo(np.float32).eps * np.sqrt(max(matrix.shape))
    return u * real, s * real, v * real


def signs(columns: NDArray[Any]) -> NDArray[Any]:
    """The sign of the largest entry of each column."""
    largest = np.zeros(columns.shape[1], columns.dtype)
    every = np.arange(columns.shape[1])
    for _, block in out_of_core.blocks(columns):
        here = block[np.abs(block).argmax(axis=0), every]
        largest = np.where(np.abs(here) > np.abs(largest), here, largest)  # of equal ones the first counts
    return np.where(largest < 0, -1, 1)


def _scaled(columns: NDArray[Any], turns: NDArray[Any]) -> Dense:
    return np.ascontiguousarray(columns * turns, dtype=np.float32)
