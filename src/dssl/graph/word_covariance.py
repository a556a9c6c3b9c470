r"""The covariance of words and its signal part, which is the covariance without its diagonal.

A bag of words is a topic plus noise, and the noise of different words is independent. So the covariance S of the words
*without its diagonal* is the covariance of the topics. With V the leading right singular vectors of X:

.. math:: G = V^\top S V, \qquad T = V^\top (S - c \operatorname{diag} S) V, \qquad W = (G + \rho I)^{-1} T_+

T₊ is T with its negative eigenvalues set to zero. :math:`(x - \mu) V W` is the best linear guess of a node's topic from
its words. Each word is explained by the others and never by itself. The ridge ρ minimises the expected error on nodes
held out (four folds), :math:`\operatorname{tr}(W^\top G' W) - 2 \operatorname{tr}(W^\top T')` with the moments G' and
T' of those nodes. A handful of columns has no replicates: c = max(0, 1 − 64/F), which leaves T = G.

The rows of X are divided by the root of their sum, relative to the mean row. The noise of a row of counts grows with
its sum; divided by the root, all rows are equally noisy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl import rng
from dssl.graph import svd
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Features: TypeAlias = NDArray[np.float32] | sparse.csr_array

WIDTH = 256  # columns of the basis V
REPLICATES = 64  # columns up to which a feature has no replicates
FOLDS = 4
RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # relative to the mean diagonal of G
SAMPLE, SAMPLED = 50_000, 1 << 26  # nodes from which the basis is computed, and bytes of their features if dense
ROWS = 1 << 16  # of a block of sparse features at most


@dataclass(frozen=True, slots=True, eq=False)
class WordCovariance:
    """Second moments of the words in their leading directions.

    Args:
        row_size: mean sum of a row that is not empty; 1 if all rows are.
        mean: mean of the scaled rows, float64, shape ``(F,)``.
        basis: V, orthonormal columns, float32, shape ``(F, k)``.
        total: G, shape ``(k, k)``.
        signal: T₊, shape ``(k, k)``.
        weights: W, shape ``(k, k)``.
        ridge: ρ relative to the mean diagonal of G.
    """

    row_size: float
    mean: Doubles
    basis: Floats
    total: Doubles
    signal: Doubles
    weights: Doubles
    ridge: float

    @classmethod
    def fit(cls, x: Features, *, width: int = WIDTH, seed: int = 0) -> WordCovariance:
        """Compute the moments of a feature matrix.

        Args:
            x: features, dense or CSR, shape ``(N, F)``.
            width: most columns of the basis.
            seed: seed of the folds and of the sample of a large graph.
        """
        row_size = mean_row_size(x)
        basis = word_basis(x, row_size, min(width, *x.shape), seed)
        folds = np.asarray(rng.stream(seed, "topic folds").integers(FOLDS, size=int(x.shape[0])), np.int64)
        parts = _moments(x, row_size, basis, folds)
        whole = reduce(_Moments.plus, parts)
        total, signal = whole.covariances(basis)
        ridge = _choose_ridge(parts, whole, basis)
        values, vectors = np.linalg.eigh(signal)
        signal = (vectors * np.maximum(values, 0)) @ vectors.T
        penalty = ridge * np.trace(total) / len(total) * np.eye(len(total))
        weights = np.linalg.lstsq(total + penalty, signal, rcond=None)[0]
        return cls(row_size, whole.words / max(whole.count, 1), basis, total, signal, weights, ridge)

    def project(self, x: Features) -> Floats:
        """Return (x − μ)V with the rows scaled as they were when fitted, shape ``(N, k)``."""
        return project(x, self.row_size, self.basis, (self.mean @ self.basis).astype(np.float32))


def project(x: Features, row_size: float | None, basis: Floats, offset: Floats) -> Floats:
    """Return R x B − offset for the diagonal matrix R of row scales, by blocks of rows.

    Args:
        x: features, shape ``(N, F)``.
        row_size: sum of a row whose scale is 1, or none to leave rows as they are.
        basis: B, shape ``(F, k)``.
        offset: subtracted from each row, shape ``(k,)``.
    """
    out = out_of_core.matrix((x.shape[0], basis.shape[1]))
    for begin, block in scaled_blocks(x, row_size):
        out[begin : begin + block.shape[0]] = block @ basis - offset
    return out


def scaled_blocks(x: Features, row_size: float | None) -> Iterator[tuple[int, Any]]:
    """Give blocks of rows in order, each row divided by the root of its sum relative to ``row_size``, if given."""
    for begin, block in _blocks(x):
        if row_size is None:
            yield begin, block
            continue
        sizes = row_sizes(block)
        scales = np.sqrt(np.divide(row_size, sizes, out=np.zeros_like(sizes), where=sizes > 0)).astype(np.float32)
        if isinstance(block, np.ndarray):
            yield begin, block * scales[:, None]
        else:
            data = block.data * np.repeat(scales, np.diff(block.indptr))
            yield begin, sparse.csr_array((data, block.indices, block.indptr), shape=block.shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """Sums over some nodes: of words, of their squares, of projections and of products of projections."""

    count: int
    words: Doubles
    squares: Doubles
    scores: Doubles
    products: Doubles

    def plus(self, other: _Moments, sign: int = 1) -> _Moments:
        """The sums over the nodes of both, or without those of the other."""
        names = [field.name for field in fields(self)]
        return _Moments(*(getattr(self, name) + sign * getattr(other, name) for name in names))

    def covariances(self, basis: Floats) -> tuple[Doubles, Doubles]:
        """Return G and T, each of shape ``(k, k)``."""
        count = max(self.count, 1)
        mean = self.scores / count
        total = self.products / count - np.outer(mean, mean)
        variance = np.maximum(self.squares / count - (self.words / count) ** 2, 0)
        replicated = max(0.0, 1 - REPLICATES / len(variance))
        own = (basis.T * variance) @ basis.astype(np.float64)
        signal = total - replicated * own
        return (total + total.T) / 2, (signal + signal.T) / 2


def _moments(x: Features, row_size: float, basis: Floats, folds: NDArray[np.int64]) -> list[_Moments]:
    features, width = basis.shape
    count = np.bincount(folds, minlength=FOLDS)
    words, squares = np.zeros((FOLDS, features)), np.zeros((FOLDS, features))
    scores, products = np.zeros((FOLDS, width)), np.zeros((FOLDS, width, width))
    kind = np.float64 if x.shape[0] <= SAMPLE else np.float32  # a block of a large graph is added up in float64
    for begin, block in scaled_blocks(x, row_size):
        where = folds[begin : begin + block.shape[0]]
        projected = (block @ basis).astype(kind)
        for fold in range(FOLDS):
            rows = block[where == fold]
            part = projected[where == fold]
            words[fold] += np.asarray(rows.sum(axis=0, dtype=np.float64)).reshape(-1)
            squares[fold] += np.asarray((rows * rows).sum(axis=0, dtype=np.float64)).reshape(-1)
            scores[fold] += part.sum(axis=0, dtype=np.float64)
            products[fold] += part.T @ part
    return [_Moments(int(count[f]), words[f], squares[f], scores[f], products[f]) for f in range(FOLDS)]


def _choose_ridge(parts: list[_Moments], whole: _Moments, basis: Floats) -> float:
    loss = np.zeros(len(RIDGES))
    for part in parts:
        rest = whole.plus(part, -1)
        if not part.count or not rest.count:
            continue
        total, signal = rest.covariances(basis)
        total_out, signal_out = part.covariances(basis)
        values, vectors = np.linalg.eigh(total)
        # In the axes of G, W of any ridge is a row scaling, and both traces need one product each.
        cross = vectors.T @ signal  # (k, k)
        signal_turned, total_turned = vectors.T @ signal_out, vectors.T @ total_out @ vectors
        inner, outer = (cross * signal_turned).sum(axis=1), cross @ cross.T * total_turned
        for at, ridge in enumerate(RIDGES):
            shrink = 1 / np.maximum(np.maximum(values, 0) + ridge * values.mean(), 1e-300)
            loss[at] += shrink @ outer @ shrink - 2 * shrink @ inner
    return RIDGES[int(loss.argmin())]


def word_basis(x: Features, row_size: float | None, width: int, seed: int) -> Floats:
    """Leading right singular vectors of the scaled rows, or of a sample of a large graph's, shape ``(F, width)``."""
    if x.shape[1] <= width:
        return np.eye(x.shape[1], dtype=np.float32)
    if x.shape[0] > SAMPLE and isinstance(x, np.ndarray) and x.shape[1] <= svd.NARROW:
        products = np.zeros((x.shape[1], x.shape[1]))
        for _, block in scaled_blocks(x, row_size):
            products += block.T @ block
        basis = np.linalg.eigh(products)[1][:, ::-1][:, :width]
        return np.asarray(basis * svd.signs(basis), np.float32)
    if x.shape[0] > SAMPLE:
        size = SAMPLE
        if isinstance(x, np.ndarray):
            size = min(size, max(out_of_core.rows_at_once(x, SAMPLED), 4 * width))
        nodes = np.sort(rng.stream(seed, "topic basis").choice(x.shape[0], size, replace=False))
        x = out_of_core.rows(x, nodes) if isinstance(x, np.ndarray) else x[nodes]
    blocks = [block for _, block in scaled_blocks(x, row_size)]
    rows = np.concatenate(blocks) if isinstance(x, np.ndarray) else sparse.csr_array(sparse.vstack(blocks))
    return svd.right_vectors(rows, width, seed=seed)


def mean_row_size(x: Features) -> float:
    """Mean sum of the rows that are not empty; 1 if all are."""
    sizes = np.concatenate([row_sizes(block) for _, block in _blocks(x)])
    return float(sizes[sizes > 0].mean()) if (sizes > 0).any() else 1.0


def row_sizes(block: Features) -> Doubles:
    """Sum of the absolute values of each row."""
    return np.asarray(abs(block).sum(axis=1, dtype=np.float64)).reshape(-1)


def _blocks(x: Features) -> Iterator[tuple[int, Any]]:
    if isinstance(x, np.ndarray):
        yield from out_of_core.blocks(x)
        return
    step = min(max(1, (1 << 22) * x.shape[0] // max(x.nnz, 1)), ROWS)  # at most about four million entries
    for begin in range(0, x.shape[0], step):
        yield begin, x[begin : begin + step]
