r"""Leading eigenvectors of a symmetric matrix known by its products: subspace iteration with a Chebyshev filter.

A block of vectors is multiplied by a Chebyshev polynomial of the matrix that stays within ±1 on the unwanted part of
the spectrum and grows outside it (Zhou et al. 2006, "Self-consistent-field calculations using Chebyshev-filtered
subspace iteration"). Unwanted is the interval [−c, c], or [0, c] for a matrix without negative eigenvalues, where c is
the size of an estimate a little below the wanted ones. (The smallest one of the block is useless: mixtures of both ends
have estimates near 0.) So both ends of the spectrum are found. A round is a filter, an
orthonormalisation and a Rayleigh-Ritz step; rounds end when the residuals are small. The degree of a round is limited
so that the largest eigenvalue does not drown the others in single precision, and a round ends early if they grow faster
than that: the first estimates miss an eigenvalue that stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.graph import svd
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
    block = _orthonormal(_start(size, width, seed))
    used = 0
    while True:
        image = times(block)
        used += 1
        values, block, image = _rayleigh_ritz(block, image)
        scale = max(abs(float(values[0])), 1e-30)
        residual = _residual(block, image, values[:count]) / scale
        if residual <= TOLERANCE or width == size or used >= products:
            break
        edge = max(abs(float(values[min(count + EXTRA // 4, width - 1)])), 1e-6 * scale)
        middle, half = (edge / 2, edge / 2) if positive else (0.0, edge)
        degree = _degree((scale - middle) / half)
        before, block = block, _shifted(image, block, middle, half)
        for _ in range(degree - 1):
            image = times(block)
            used += 1
            following, largest = _next(image, block, before, middle, half)
            before, block = block, following
            if largest > 10 * GROWTH:
                break
        block = _orthonormal(block)
    del image
    vectors = out_of_core.mapped(lambda part: np.ascontiguousarray(part[:, :count]), block)
    signs = svd.signs(vectors).astype(np.float32)
    return Eigenpairs(values[:count], out_of_core.mapped(lambda part: part * signs, vectors), residual, used)


def _start(size: int, width: int, seed: int) -> Floats:
    draw, out = rng.stream(seed, "eigenvectors"), out_of_core.matrix((size, width))
    step = out_of_core.rows_at_once(out)
    for begin in range(0, size, step):
        rows = out[begin : begin + step]
        rows[:] = draw.standard_normal(rows.shape, dtype=np.float32)
        out_of_core.drop(out)
    return out


def _shifted(image: Floats, block: Floats, middle: float, half: float) -> Floats:
    """(M − middle) block / half, from M block, which is overwritten."""
    shift, scale = np.float32(middle), np.float32(half)
    return out_of_core.mapped(lambda part, own: (part - shift * own) / scale, image, block, into=image)


def _next(image: Floats, block: Floats, before: Floats, middle: float, half: float) -> tuple[Floats, float]:
    """The recurrence of the Chebyshev polynomials: 2 (M − middle) block / half − before, from M block as above.

    Returns:
        The next block, and the largest size of its values.
    """
    shift, scale, largest = np.float32(middle), np.float32(2 / half), [0.0]

    def step(part: Floats, own: Floats, last: Floats) -> Floats:
        found = (part - shift * own) * scale - last
        largest.append(float(max(found.max(initial=0), -found.min(initial=0))))
        return found

    return out_of_core.mapped(step, image, block, before, into=image), max(largest)


def _degree(ratio: float) -> int:
    """Degree at which the polynomial is `GROWTH` at the largest eigenvalue, within 2 and `DEGREE`."""
    return int(np.clip(np.log(2 * GROWTH) / np.arccosh(max(ratio, 1 + 1e-9)), 2, DEGREE))


def _orthonormal(block: Floats) -> Floats:
    """Orthonormal columns of the same span: twice by the Cholesky factor of the products, by QR where that fails."""
    for _ in range(2):
        products = _products(block, block)
        sizes = np.sqrt(np.maximum(np.diagonal(products), 1e-60))
        try:
            factor = np.linalg.cholesky(products / np.outer(sizes, sizes))
        except np.linalg.LinAlgError:
            return np.linalg.qr(block)[0]
        block = _turned(block, np.linalg.inv(factor).T / sizes[:, None])
    return block


def _rayleigh_ritz(block: Floats, image: Floats) -> tuple[Doubles, Floats, Floats]:
    projected = _products(block, image)
    values, turn = np.linalg.eigh((projected + projected.T) / 2)
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], _turned(block, turn[:, order]), _turned(image, turn[:, order])


def _residual(vectors: Floats, images: Floats, values: Doubles) -> float:
    count, narrow = len(values), values.astype(np.float32)
    squares = out_of_core.added(
        lambda part, image: np.square(image[:, :count] - part[:, :count] * narrow).sum(axis=0), vectors, images
    )
    return float(np.sqrt(squares.max(initial=0)))


def _products(left: Floats, right: Floats) -> Doubles:
    """LᵀR, added up in double precision over blocks of rows."""
    return out_of_core.added(lambda part, other: part.T @ other, left, right, at_once=1 << 21)


def _turned(block: Floats, turn: Doubles) -> Floats:
    """The block times a small matrix; a large block is overwritten."""
    narrow = turn.astype(np.float32)
    return out_of_core.mapped(lambda part: part @ narrow, block, into=block)
