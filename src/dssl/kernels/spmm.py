"""Sparse times dense, compiled: each row's sum stays in registers while the rows that it needs are on their way.

A row is the work of one thread, from its first link to its last, so the result is the same, bit for bit, with any
number of threads.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.kernels.compile import in_threads, row_parts
from dssl.kernels.simd import (
    ZERO,
    compiled,
    fma,
    load,
    long,
    memory,
    number,
    prefetch,
    short,
    splat,
    store,
)

Indptr = NDArray[np.int64]
Indices = NDArray[np.int32]
Floats = NDArray[np.float32]

BLOCK, HALF = 64, 32  # columns whose sums are in registers: eight of them, or four
AHEAD = 8  # links between the one that is added and the one whose row is prefetched
FEW = 1_000_000  # multiplications that are not worth a second thread


@compiled
def _multiply_rows(
    begin: int,
    end: int,
    last: int,
    step: int,
    indptr: int,
    indices: int,
    values: int,
    dense: int,
    columns: int,
    out: int,
) -> None:
    """Rows ``begin`` to ``end`` of the product; arguments after ``step`` but ``columns`` are addresses.

    The value of a link is ``step`` places after that of the link before: 0 for a value that all share.
    """
    for i in range(begin, end):
        start, stop = long(indptr, i), long(indptr, i + 1)
        column = 0
        while column + BLOCK <= columns:
            a = b = c = d = e = f = g = h = splat(ZERO)
            for link in range(start, stop):
                ahead = short(indices, min(link + AHEAD, last)) * columns + column
                prefetch(dense, ahead)
                prefetch(dense, ahead + 16)
                prefetch(dense, ahead + 32)
                prefetch(dense, ahead + 48)
                at, value = short(indices, link) * columns + column, splat(number(values, link * step))
                a = fma(value, load(dense, at), a)
                b = fma(value, load(dense, at + 8), b)
                c = fma(value, load(dense, at + 16), c)
                d = fma(value, load(dense, at + 24), d)
                e = fma(value, load(dense, at + 32), e)
                f = fma(value, load(dense, at + 40), f)
                g = fma(value, load(dense, at + 48), g)
                h = fma(value, load(dense, at + 56), h)
            to = i * columns + column
            store(out, to, a)
            store(out, to + 8, b)
            store(out, to + 16, c)
            store(out, to + 24, d)
            store(out, to + 32, e)
            store(out, to + 40, f)
            store(out, to + 48, g)
            store(out, to + 56, h)
            column += BLOCK
        while column + HALF <= columns:
            a = b = c = d = splat(ZERO)
            for link in range(start, stop):
                ahead = short(indices, min(link + AHEAD, last)) * columns + column
                prefetch(dense, ahead)
                prefetch(dense, ahead + 16)
                at, value = short(indices, link) * columns + column, splat(number(values, link * step))
                a = fma(value, load(dense, at), a)
                b = fma(value, load(dense, at + 8), b)
                c = fma(value, load(dense, at + 16), c)
                d = fma(value, load(dense, at + 24), d)
            to = i * columns + column
            store(out, to, a)
            store(out, to + 8, b)
            store(out, to + 16, c)
            store(out, to + 24, d)
            column += HALF
        while column < columns:
            a = splat(ZERO)
            for link in range(start, stop):
                prefetch(dense, short(indices, min(link + AHEAD, last)) * columns + column)
                at = short(indices, link) * columns + column
                a = fma(splat(number(values, link * step)), load(dense, at), a)
            store(out, i * columns + column, a)
            column += 8


def spmm(indptr: Indptr, indices: Indices, values: Floats | None, dense: Floats, out: Floats, *, threads: int) -> None:
    """Write the product of a CSR matrix ``(N, M)`` and a dense matrix ``(M, d)`` to ``out`` ``(N, d)``.

    Args:
        indptr: row pointers, shape ``(N + 1,)``.
        indices: columns of the entries.
        values: the entries; none where all are 1.
        dense: the dense matrix.
        out: where the result goes.
        threads: how many to use at most; a small product takes one.
    """
    columns = dense.shape[1]
    if columns % 8:  # vectors have eight columns; the ones added are zero
        wide = np.zeros((len(out), columns + -columns % 8), np.float32)
        spmm(indptr, indices, values, np.pad(dense, ((0, 0), (0, -columns % 8))), wide, threads=threads)
        out[:] = wide[:, :columns]
        return
    cuts = row_parts(indptr, threads if indices.size * columns > FEW else 1)
    entries = np.ones(1, np.float32) if values is None else values
    addresses = [memory(array) for array in (indptr, indices, entries, dense)]
    step = int(values is not None)
    in_threads(_multiply_rows, cuts, max(indices.size - 1, 0), step, *addresses, columns, memory(out))
