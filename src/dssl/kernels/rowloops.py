"""Compiled loops (Numba) over the rows of large graphs and matrices, each with a plain reference in its test.

They exist where a library would need an array as long as the links, or a call of Python for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from dssl.kernels.csr import mix

F = TypeVar("F", bound=Callable[..., object])

Indptr = NDArray[np.int64]
Indices = NDArray[np.int32]
Floats = NDArray[np.float32]

# POSIX: ssize_t pread(int file, void *buffer, size_t count, off_t offset)
_pread: Any = types.ExternalFunction("pread", types.intp(types.int32, types.uintp, types.uintp, types.int64))


def _compiled(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))


@_compiled
def read_rows(file: int, offset: int, width: int, nodes: Indptr, address: int) -> int:
    """Read rows of ``width`` bytes of a file to where ``address`` is; return how many there were before an error."""
    for row in range(nodes.shape[0]):
        at, done = np.int64(offset) + nodes[row] * width, np.int64(0)
        while done < width:
            got = _pread(
                np.int32(file), np.uintp(address + row * width + done), np.uintp(width - done), np.int64(at + done)
            )
            if got <= 0:
                return row
            done += got
    return len(nodes)


def _sum_rows(indptr: Indptr, indices: Indices, weights: Floats, dense: Floats, out: Floats) -> None:
    weighted = weights.shape[0] > 0
    for i in numba.prange(indptr.shape[0] - 1):
        row = out[i]
        row[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            other = dense[indices[e]]
            if weighted:
                weight = weights[e]
                for c in range(row.shape[0]):
                    row[c] += weight * other[c]
            else:
                for c in range(row.shape[0]):
                    row[c] += other[c]


_sum_together = numba.njit(cache=True, nogil=True, parallel=True)(_sum_rows)


def sum_neighbours(indptr: Indptr, indices: Indices, weights: Floats | None, dense: Floats) -> Floats:
    """Return A X for a graph's rows and X of shape ``(N, d)``: each row is the work of one thread.

    Unlike a product of matrices it needs no value per link where links have no weights.
    """
    out = np.empty((indptr.shape[0] - 1, dense.shape[1]), np.float32)
    given = np.empty(0, np.float32) if weights is None else weights
    _sum_together(indptr, indices, given, np.ascontiguousarray(dense), out)
    return out


@_compiled
def component_sizes(indptr: Indptr, indices: Indices) -> NDArray[np.int64]:
    """Sizes of the connected components, whatever the direction of links: union by smaller root, halving paths."""
    count = indptr.shape[0] - 1
    parent = np.arange(count)
    for i in range(count):
        for e in range(indptr[i], indptr[i + 1]):
            a, b = np.int64(i), np.int64(indices[e])
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    sizes = np.zeros(count, np.int64)
    for i in range(count):
        root = np.int64(i)
        while parent[root] != root:
            root = parent[root]
        sizes[root] += 1
    return sizes[sizes > 0]


@_compiled
def split_links(
    indptr: Indptr, indices: Indices, share: float, seed: int
) -> tuple[Indptr, Indices, NDArray[np.int32], NDArray[np.int32]]:
    """Hold out about a ``share`` of the links of an undirected graph, both directions of each or none.

    Whether a link is held out depends on the seed and its two ends alone. Returns the rows of the others, and both
    ends of those held out, once each; links of a node to itself are in neither.
    """
    count = indptr.shape[0] - 1
    bound = np.uint64(share * 2.0**32)
    mask = np.uint64(0xFFFFFFFF)
    kept, held = np.int64(0), np.int64(0)
    rows = np.zeros(count + 1, np.int64)
    for turn in range(2):  # count, then fill
        if turn == 1:
            others = np.empty(kept, np.int32)
            start, end = np.empty(held, np.int32), np.empty(held, np.int32)
            kept, held = np.int64(0), np.int64(0)
        for i in range(count):
            for e in range(indptr[i], indptr[i + 1]):
                j = np.int64(indices[e])
                if i == j:
                    continue
                low, high = (np.int64(i), j) if i < j else (j, np.int64(i))
                key = np.uint64(low) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(high)
                out = (mix(mix(key) ^ np.uint64(seed)) & mask) < bound
                if not out:
                    if turn == 1:
                        others[kept] = j
                    kept += 1
                elif i < j:
                    if turn == 1:
                        start[held], end[held] = i, j
                    held += 1
            rows[i + 1] = kept
    return rows, others, start, end
