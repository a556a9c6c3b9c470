"""The few compiled loops (Numba), each with a plain reference beside it in ``tests/test_kernels.py``.

They exist where no library keeps to the memory that the arrays themselves need. Compiled code is cached on
disk, so that only the first call on a machine waits for the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])

Indptr = NDArray[np.int64]
Indices = NDArray[np.int32]
Floats = NDArray[np.float32]


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_compiled
def _fill_rows(
    source: Indices, target: Indices, weights: Floats, num_nodes: int, both: bool
) -> tuple[Indptr, Indices, Floats]:
    """Counting sort of the arcs by source; with ``both``, every arc that is no loop is also put the other way round."""
    weighted = weights.shape[0] > 0
    indptr = np.zeros(num_nodes + 1, np.int64)
    for e in range(source.shape[0]):
        indptr[source[e] + 1] += 1
        if both and source[e] != target[e]:
            indptr[target[e] + 1] += 1
    for i in range(num_nodes):
        indptr[i + 1] += indptr[i]
    count = indptr[num_nodes]
    indices = np.empty(count, np.int32)
    values = np.empty(count if weighted else 0, np.float32)
    # indptr[i] serves as the write position of row i, and is shifted back afterwards: no second array of N.
    for e in range(source.shape[0]):
        s, t = source[e], target[e]
        at = indptr[s]
        indptr[s] = at + 1
        indices[at] = t
        if weighted:
            values[at] = weights[e]
        if both and s != t:
            at = indptr[t]
            indptr[t] = at + 1
            indices[at] = s
            if weighted:
                values[at] = weights[e]
    for i in range(num_nodes, 0, -1):
        indptr[i] = indptr[i - 1]
    indptr[0] = 0
    return indptr, indices, values


@_compiled
def _merge_rows(indptr: Indptr, indices: Indices, values: Floats) -> int:
    """Sort each row and merge repeated entries in place, adding their weights; return how many entries are left."""
    weighted = values.shape[0] > 0
    num_nodes = indptr.shape[0] - 1
    write = 0
    begin = indptr[0]
    for i in range(num_nodes):
        end = indptr[i + 1]
        if weighted:
            order = np.argsort(indices[begin:end], kind="mergesort")
            indices[begin:end] = indices[begin:end][order]
            values[begin:end] = values[begin:end][order]
        else:
            indices[begin:end].sort()
        start = write
        for e in range(begin, end):
            if write > start and indices[write - 1] == indices[e]:
                if weighted:
                    values[write - 1] += values[e]
            else:
                indices[write] = indices[e]
                if weighted:
                    values[write] = values[e]
                write += 1
        begin = end
        indptr[i + 1] = write
    return write


def rows_from_arcs(
    source: Indices, target: Indices, weights: Floats | None, num_nodes: int, *, both: bool
) -> tuple[Indptr, Indices, Floats | None]:
    """Build CSR rows, sorted and without repeats, from arcs.

    SciPy's ``coo → csr`` needs a value array and, to symmetrise, copies of both index arrays; this needs the
    arcs and the result.

    Args:
        source: start of each arc, shape ``(E,)``.
        target: end of each arc, shape ``(E,)``.
        weights: weight of each arc, shape ``(E,)``, or none.
        num_nodes: number of rows.
        both: also add each arc the other way round (self loops once).

    Returns:
        Row pointers ``(N+1,)``, neighbours and, if given, the sums of the weights of repeated arcs.
    """
    given = np.empty(0, np.float32) if weights is None else weights
    indptr, indices, values = _fill_rows(source, target, given, num_nodes, both)
    left = _merge_rows(indptr, indices, values)
    if left < indices.shape[0]:
        indices, values = indices[:left].copy(), values[:left].copy()
    return indptr, indices, None if weights is None else values
