"""Compiled loops (Numba) over pairs of nodes: common neighbours, ranks by degree, and overlaps of sparse rows.

The cost of a pair is bounded: of a row with more than `LOOKED_AT` entries, that many at equal distances are taken, and
counts are scaled up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.kernels.arcs import place
from dssl.kernels.compile import Floats, Indices, Indptr, compiled, equal_parts, in_threads, usable_threads

Places = NDArray[np.int64]

LOOKED_AT = 64
LEAST = 4096  # pairs that are worth a thread


@compiled
def _shared(
    indptr: Indptr,
    indices: Indices,
    i: np.int64,
    other_indptr: Indptr,
    other_indices: Indices,
    j: np.int64,
    weights: Floats,
) -> np.float32:
    """Sum of the weights of the nodes of row i that are in the other row j too."""
    low, size = indptr[i], indptr[i + 1] - indptr[i]
    taken = min(size, LOOKED_AT)
    total = np.float32(0)
    for turn in range(taken):
        node = np.int64(indices[low + turn * size // taken])
        if place(other_indptr, other_indices, j, node) >= 0:
            total += weights[node]
    return total * np.float32(size / taken) if taken else total


@compiled
def _common_neighbours(
    begin: int,
    stop: int,
    first_indptr: Indptr,
    first_indices: Indices,
    second_indptr: Indptr,
    second_indices: Indices,
    weights: Floats,
    start: Places,
    end: Places,
    out: Floats,
) -> None:
    for e in range(begin, stop):
        i, j = start[e], end[e]
        if second_indptr[j + 1] - second_indptr[j] < first_indptr[i + 1] - first_indptr[i]:
            out[e] = _shared(second_indptr, second_indices, j, first_indptr, first_indices, i, weights)
        else:
            out[e] = _shared(first_indptr, first_indices, i, second_indptr, second_indices, j, weights)


def common_neighbours(
    first_indptr: Indptr,
    first_indices: Indices,
    second_indptr: Indptr,
    second_indices: Indices,
    weights: Floats,
    start: Places,
    end: Places,
) -> Floats:
    """Sum of the weights of the nodes that are in row i of the first and in row j of the second rows, shape ``(M,)``.

    Rows are ascending. Entries of the shorter row are looked up in the longer one.
    """
    out = np.zeros(start.size, np.float32)
    rows = first_indptr, first_indices, second_indptr, second_indices
    in_threads(_common_neighbours, _parts(start), *rows, weights, start, end, out)
    return out


@compiled
def _rank_among_neighbours(
    begin: int, stop: int, indptr: Indptr, indices: Indices, values: Floats, start: Places, end: Places, out: Floats
) -> None:
    for e in range(begin, stop):
        low, size = indptr[start[e]], indptr[start[e] + 1] - indptr[start[e]]
        taken = min(size, LOOKED_AT)
        below = np.float32(0)
        for turn in range(taken):
            value = values[indices[low + turn * size // taken]]
            if value < values[end[e]]:
                below += np.float32(1)
            elif value == values[end[e]]:
                below += np.float32(0.5)
        if taken:
            out[e] = below / taken


def rank_among_neighbours(indptr: Indptr, indices: Indices, values: Floats, start: Places, end: Places) -> Floats:
    """Fraction of the neighbours of i whose value is below that of j, half of the equal ones counted, ``(M,)``."""
    out = np.full(start.size, 0.5, np.float32)
    in_threads(_rank_among_neighbours, _parts(start), indptr, indices, values, start, end, out)
    return out


@compiled
def _row_overlaps(
    begin: int, stop: int, indptr: Indptr, indices: Indices, data: Floats, start: Places, end: Places, out: Floats
) -> None:
    for e in range(begin, stop):
        a, b = indptr[start[e]], indptr[end[e]]
        stop_a, stop_b = indptr[start[e] + 1], indptr[end[e] + 1]
        product, both = np.float32(0), np.float32(0)
        while a < stop_a and b < stop_b:
            if indices[a] == indices[b]:
                product += data[a] * data[b]
                both += np.float32(1)
                a += 1
                b += 1
            elif indices[a] < indices[b]:
                a += 1
            else:
                b += 1
        out[e, 0], out[e, 1] = product, both


def row_overlaps(indptr: Indptr, indices: Indices, data: Floats, start: Places, end: Places) -> Floats:
    """Inner product of the sparse rows i and j, and the number of columns that both have, shape ``(M, 2)``."""
    out = np.zeros((start.size, 2), np.float32)
    in_threads(_row_overlaps, _parts(start), indptr, indices, data, start, end, out)
    return out


def _parts(pairs: Places) -> list[int]:
    return equal_parts(pairs.size, usable_threads(), least=LEAST)
