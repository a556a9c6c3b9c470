r"""Leading eigenvectors of a symmetric matrix known by its products: subspace iteration with a Chebyshev filter.

A block of vectors is multiplied by a Chebyshev polynomial of the matrix that stays within ±1 on the unwanted part of
the spectrum and grows outside it (Zhou et al. 2006, "Self-consistent-field calculations using Chebyshev-filtered
subspace iteration"). Unwanted is the interval [−c, c], or [0, c] for a matrix without negative eigenvalues, where c is
the size of an estimate a little below the wanted ones. (The smallest one of the block is useless: mixtures of both ends
have estimates near 0.) So both ends of the spectrum are found. A round is a filter, an
orthonormalisation and a Rayleigh-Ritz step; rounds end when the residuals are small. The degree of a round is limited
so that the largest eigenvalue does not drown the others in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

EXTRA = 32  # vectors of the block beyond the ones wanted
DEGREE, GROWTH = 12, 1e5  # of the polynomial at most, and of the largest eigenvalue in a round
PRODUCTS = 160  # with the block, by default; the last round may add some
TOLERANCE = 5e-3  # of the residuals, relative to the largest eigenvalue


@dataclass(frozen=True, slots=True, eq=False)
class Eigenpairs:
    """Leading eigenvalues and eigenvectors.

    Args:
        values: eigenvalues by decreasing size, shape ``(k,)``.
        vectors: orthonormal eigenvectors, float32, shape ``(N, k)``.
        residual: largest norm of M v − λ v, relative to the largest eigenvalue.
        products: number of products of the matrix with the block.
    """

    values: Doubles
    vectors: Floats
    residual: float
    products: int


def leading_eigenpairs(
    times: Callable[[Floats], Floats],
    size: int,
    count: int,
    *,
    positive: bool = False,
    products: int = PRODUCTS,
    seed: int = 0,
) -> Eigenpairs:
    """Compute the eigenpairs whose eigenvalues have the largest sizes.

    Args:
        times: product of the matrix with a dense one, as a new array.
        size: number of rows.
        count: number of eigenpairs; fewer if the matrix is smaller.
        positive: whether no eigenvalue is negative.
        products: number of products of the matrix with the block after which no round begins.
        seed: seed of the start.

    >>> matrix = np.diag([1.0, -3.0, 2.0]).astype(np.float32)
    >>> leading_eigenpairs(lambda q: matrix @ q, 3, 2).values.round(4).tolist()
    [-3.0, 2.0]
    """
    count = min(count, size)
    width = min(count + EXTRA, size)
    block = _orthonormal(rng.stream(seed, "eigenvectors").standard_normal((size, width), dtype=np.float32))
    used = 0
    while True:
        image = times(block)
        used += 1
        values, block, image = _rayleigh_ritz(block, image)
        scale = max(abs(float(values[0])), 1e-30)
        residual = _residual(block[:, :count], image[:, :count], values[:count]) / scale
        if residual <= TOLERANCE or width == size or used >= products:
            break
        edge = max(abs(float(values[min(count + EXTRA // 4, width - 1)])), 1e-6 * scale)
        middle, half = (edge / 2, edge / 2) if positive else (0.0, edge)
        degree = _degree((scale - middle) / half)
        before, block = block, _shifted(image, block, middle, half)
        for _ in range(degree - 1):
            after = times(block)
            used += 1
            after -= np.float32(middle) * block
            after *= np.float32(2 / half)
            after -= before
            before, block = block, after
        block /= np.maximum(np.linalg.norm(block, axis=0), 1e-30)
        block = _orthonormal(block)
    vectors = np.ascontiguousarray(block[:, :count])
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(count)]
    vectors *= np.where(largest < 0, -1, 1).astype(np.float32)
    return Eigenpairs(values[:count], vectors, residual, used)


def _shifted(image: Floats, block: Floats, middle: float, half: float) -> Floats:
    """(M − middle) block / half, from M block."""
    out: Floats = image - np.float32(middle) * block
    out /= np.float32(half)
    return out


def _degree(ratio: float) -> int:
    """Degree at which the polynomial is `GROWTH` at the largest eigenvalue, within 2 and `DEGREE`."""
    return int(np.clip(np.log(2 * GROWTH) / np.arccosh(max(ratio, 1 + 1e-9)), 2, DEGREE))


def _orthonormal(block: Floats) -> Floats:
    """Orthonormal columns of the same span: twice by the Cholesky factor of the products, by QR where that fails."""
    for _ in range(2):
        try:
            factor = np.linalg.cholesky(_products(block, block))
        except np.linalg.LinAlgError:
            return np.linalg.qr(block)[0]
        block = _turned(block, np.linalg.inv(factor).T)
    return block


def _rayleigh_ritz(block: Floats, image: Floats) -> tuple[Doubles, Floats, Floats]:
    projected = _products(block, image)
    values, turn = np.linalg.eigh((projected + projected.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], _turned(block, turn[:, order]), _turned(image, turn[:, order])


def _residual(vectors: Floats, images: Floats, values: Doubles) -> float:
    squares = np.zeros(len(values))
    for begin, part in out_of_core.blocks(vectors):
        squares += np.square(images[begin : begin + len(part)] - part * values.astype(np.float32)).sum(axis=0)
    return float(np.sqrt(squares.max(initial=0)))


def _products(left: Floats, right: Floats) -> Doubles:
    """LᵀR, added up in double precision over blocks of rows."""
    out = np.zeros((left.shape[1], right.shape[1]))
    for begin, part in out_of_core.blocks(left, at_once=1 << 21):
        out += part.T @ right[begin : begin + len(part)]
    return out


def _turned(block: Floats, turn: Doubles) -> Floats:
    narrow, out = turn.astype(np.float32), np.empty((len(block), turn.shape[1]), np.float32)
    for begin, part in out_of_core.blocks(block):
        out[begin : begin + len(part)] = part @ narrow
    return out
