"""Sparse times dense, compiled: each row's sum stays in registers while the rows that it needs are on their way.

A row is the work of one thread, from its first link to its last, so the result is the same, bit for bit, with any
number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dssl.kernels.compile import Floats, Indices, Indptr, in_threads, row_parts
from dssl.kernels.simd import ZERO, add_scaled, compiled, long, memory, number, prefetch, short, splat, store_all

AHEAD = 8  # links between the one that is added and the one whose row is prefetched
FEW = 1_000_000  # multiplications that are not worth a second thread


@compiled
def _multiply(
    sums: tuple[Any, ...],
    row: tuple[int, int, int],
    column: int,
    columns: int,
    last: int,
    step: int,
    arrays: tuple[int, int, int, int],
) -> int:
    """Write a row of the product from ``column`` on, eight columns per vector of ``sums``; return where it ends."""
    i, start, stop = row
    indices, values, dense, out = arrays
    for link in range(start, stop):
        ahead = short(indices, min(link + AHEAD, last)) * columns + column
        for line in range(0, 8 * len(sums), 16):
            prefetch(dense, ahead + line)
        sums = add_scaled(sums, number(values, link * step), dense, short(indices, link) * columns + column)
    store_all(out, i * columns + column, sums)
    return column + 8 * len(sums)


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
    arrays = (indices, values, dense, out)
    one = (splat(ZERO),)
    four = one + one + one + one
    eight = four + four
    for i in range(begin, end):
        row = (i, long(indptr, i), long(indptr, i + 1))
        column = 0
        while column + 64 <= columns:
            column = _multiply(eight, row, column, columns, last, step, arrays)
        while column + 32 <= columns:
            column = _multiply(four, row, column, columns, last, step, arrays)
        while column < columns:
            column = _multiply(one, row, column, columns, last, step, arrays)


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
