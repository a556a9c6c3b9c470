"""Compiled loops (Numba) over arcs: find them by their two ends in the ascending rows of a graph, and sort them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.kernels.compile import Floats, Indices, Indptr, compiled, compiled_fast


@compiled
def place(indptr: Indptr, indices: Indices, i: np.int64, j: np.int64) -> int:
    """Place of the arc from i to j in ``indices``, or −1 if there is none; of one integer type, it is compiled once."""
    low, high = indptr[i], indptr[i + 1]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < j:
            low = middle + 1
        else:
            high = middle
    if low < indptr[i + 1] and indices[low] == j:
        return int(low)
    return -1


@compiled
def places(indptr: Indptr, indices: Indices, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each arc from ``start`` to ``end`` in ``indices``, −1 where there is none, shape ``(M,)``."""
    out = np.empty(start.shape[0], np.int64)
    for e in range(start.shape[0]):
        out[e] = place(indptr, indices, start[e], end[e])
    return out


@compiled
def first_kinds(
    indptr: Indptr, indices: Indices, source: Indices, target: Indices, kinds: Indices, both: bool
) -> tuple[Indices, int]:
    """Kind of each arc, and the number of edges whose kind differs from an earlier one of the same arc.

    The first known kind of an arc is kept; −1 is unknown. With ``both``, an edge gives its kind to both directions.
    An edge that is not among the arcs (a removed self loop) is ignored.
    """
    out = np.full(indices.shape[0], np.int32(-1))
    differing = 0
    for e in range(source.shape[0]):
        if kinds[e] < 0:
            continue
        i, j = np.int64(source[e]), np.int64(target[e])
        at = place(indptr, indices, i, j)
        if at < 0:
            continue
        if out[at] < 0:
            out[at] = kinds[e]
        else:
            differing += out[at] != kinds[e]
        if both:
            out[place(indptr, indices, j, i)] = out[at]
    return out, differing


@compiled
def add_rows(out: Floats, nodes: NDArray[np.int64], values: Floats) -> None:
    """Add each row of ``values``, shape ``(M, K)``, to the row of ``out`` that ``nodes`` names."""
    for e in range(nodes.shape[0]):
        for k in range(values.shape[1]):
            out[nodes[e], k] += values[e, k]


@compiled
def sort_by(ends: NDArray[np.int64], count: int) -> tuple[Indptr, NDArray[np.int64]]:
    """Row pointers, shape ``(count + 1,)``, and order, shape ``(A,)``, of arcs sorted by one of their ends."""
    indptr = np.zeros(count + 1, np.int64)
    for end in ends:
        indptr[end + 1] += 1
    for i in range(count):
        indptr[i + 1] += indptr[i]
    free, order = indptr.copy(), np.empty(ends.shape[0], np.int64)
    for arc in range(ends.shape[0]):
        order[free[ends[arc]]] = arc
        free[ends[arc]] += 1
    return indptr, order


@compiled_fast
def products(x: Floats, y: Floats, start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
    """Inner product of the row ``start`` of x and the row ``end`` of y for each arc, shape ``(A,)``."""
    out = np.empty(start.shape[0], np.float32)
    for arc in range(start.shape[0]):
        left, right, total = x[start[arc]], y[end[arc]], np.float32(0)
        for k in range(x.shape[1]):
            total += left[k] * right[k]
        out[arc] = total
    return out
