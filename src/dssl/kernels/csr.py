"""Compiled loops over the rows of a graph, each with a plain reference in its test.

They exist where a library would need an array as long as the links, or a call of Python for every row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.kernels.compile import Floats, Indices, Indptr, compiled, in_threads, row_parts, usable_threads

RUN = 32  # entries of a row that are sorted by insertion
LEAST = 1024  # rows that are worth a thread
WIDE = 8  # columns from which on products are taken by `spmm`
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: the step of SplitMix64


@compiled
def _count_arcs(source: Indices, target: Indices, indptr: Indptr, both: bool, loops: bool) -> None:
    """Turn ``indptr``, all zeros, into row pointers; with ``both``, an arc that is not a loop counts both ways."""
    for e in range(source.shape[0]):
        s, t = source[e], target[e]
        if s != t or loops:
            indptr[s + 1] += 1
        if both and s != t:
            indptr[t + 1] += 1
    for i in range(indptr.shape[0] - 1):
        indptr[i + 1] += indptr[i]


@compiled
def _fill_rows(
    source: Indices,
    target: Indices,
    weights: Floats,
    indptr: Indptr,
    indices: Indices,
    values: Floats,
    both: bool,
    loops: bool,
) -> None:
    """Counting sort: put the arcs into the rows that `_count_arcs` has made room for."""
    weighted = weights.shape[0] > 0
    # indptr[i] serves as the write position of row i, and is shifted back afterwards: no second array of N.
    for e in range(source.shape[0]):
        s, t = source[e], target[e]
        if s != t or loops:
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
    for i in range(indptr.shape[0] - 1, 0, -1):
        indptr[i] = indptr[i - 1]
    indptr[0] = 0


@compiled
def _sort_row(row: Indices, values: Floats, low: int, high: int, spare: Indices, spare_values: Floats) -> None:
    """Sort from ``low`` to ``high`` in place, equal entries in their order, and values with them if there are any.

    Runs are sorted by insertion, since most rows are short, and merged. Numba's own sorts take seconds to compile.
    """
    weighted = values.shape[0] > 0
    value = np.float32(0)
    for begin in range(low, high, RUN):
        for i in range(begin + 1, begin + RUN if begin + RUN < high else high):
            entry = row[i]
            if weighted:
                value = values[i]
            at = i - 1
            while at >= begin and row[at] > entry:
                row[at + 1] = row[at]
                if weighted:
                    values[at + 1] = values[at]
                at -= 1
            row[at + 1] = entry
            if weighted:
                values[at + 1] = value
    width = RUN
    while width < high - low:
        for begin in range(low, high - width, 2 * width):
            end = begin + 2 * width if begin + 2 * width < high else high
            right, at = begin + width, begin
            for left in range(width):
                spare[left] = row[begin + left]
                if weighted:
                    spare_values[left] = values[begin + left]
            left = 0
            while left < width:
                if right < end and row[right] < spare[left]:
                    row[at] = row[right]
                    if weighted:
                        values[at] = values[right]
                    right += 1
                else:
                    row[at] = spare[left]
                    if weighted:
                        values[at] = spare_values[left]
                    left += 1
                at += 1
        width *= 2


@compiled
def _merge_rows(indptr: Indptr, indices: Indices, values: Floats, spare: Indices, spare_values: Floats) -> None:
    """Sort each row and merge repeated entries in place, adding their weights; spare arrays hold the longest row."""
    weighted = values.shape[0] > 0
    write = 0
    begin = indptr[0]
    for i in range(indptr.shape[0] - 1):
        end = indptr[i + 1]
        _sort_row(indices, values, begin, end, spare, spare_values)
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


def rows_from_arcs(
    source: Indices, target: Indices, weights: Floats | None, num_nodes: int, *, both: bool, loops: bool = True
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
        loops: keep self loops.

    Returns:
        Row pointers ``(N+1,)``, neighbours and, if given, the sums of the weights of repeated arcs.
    """
    given = np.empty(0, np.float32) if weights is None else weights
    indptr = np.zeros(num_nodes + 1, np.int64)
    _count_arcs(source, target, indptr, both, loops)
    indices = np.empty(indptr[-1], np.int32)
    values = np.empty(0 if weights is None else indices.size, np.float32)
    _fill_rows(source, target, given, indptr, indices, values, both, loops)
    longest = int(np.diff(indptr).max(initial=0))
    spare = np.empty(longest, np.int32), np.empty(0 if weights is None else longest, np.float32)
    _merge_rows(indptr, indices, values, *spare)
    indices.resize(indptr[-1], refcheck=False)  # shrinks in place, where a slice would keep or copy it all
    if weights is None:
        return indptr, indices, None
    values.resize(indptr[-1], refcheck=False)
    return indptr, indices, values


@compiled
def mix(state: np.uint64) -> np.uint64:
    """SplitMix64: a counter becomes a random number, so that a draw depends on (seed, node, turn) alone."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def sample_neighbours(
    indptr: Indptr, nodes: NDArray[np.int64], fanout: int, seed: int
) -> tuple[Indptr, NDArray[np.int64]]:
    """Draw up to ``fanout`` different neighbours of each node; return row pointers and the drawn arcs' places.

    The draw of a node depends on the seed and the node, not on the order of the nodes or on threads.
    """
    count = nodes.shape[0]
    pointers = np.zeros(count + 1, np.int64)
    for r in range(count):
        degree = indptr[nodes[r] + 1] - indptr[nodes[r]]
        pointers[r + 1] = pointers[r] + min(degree, fanout)
    arcs = np.empty(pointers[count], np.int64)
    for r in range(count):
        begin = indptr[nodes[r]]
        degree = indptr[nodes[r] + 1] - begin
        at = pointers[r]
        if degree <= fanout:
            for e in range(degree):
                arcs[at + e] = begin + e
            continue
        # Floyd's algorithm: `fanout` different numbers below `degree` with `fanout` draws.
        state = np.uint64(seed) * GOLDEN + np.uint64(nodes[r] + 1) * np.uint64(0xD1342543DE82EF95)
        for t in range(fanout):
            bound = degree - fanout + t
            state = state + GOLDEN
            drawn = begin + np.int64(mix(state) % np.uint64(bound + 1))
            for s in range(at, at + t):
                if arcs[s] == drawn:
                    drawn = begin + bound
                    break
            arcs[at + t] = drawn
        for s in range(at + 1, at + fanout):  # in ascending order
            drawn, t = arcs[s], s - 1
            while t >= at and arcs[t] > drawn:
                arcs[t + 1] = arcs[t]
                t -= 1
            arcs[t + 1] = drawn
    return pointers, arcs


@compiled
def _sum_rows(
    begin: int, end: int, indptr: Indptr, indices: Indices, weights: Floats, step: int, dense: Floats, out: Floats
) -> None:
    """The weight of a link is ``step`` places after that of the link before: 0 for a weight that all share."""
    for i in range(begin, end):
        for e in range(indptr[i], indptr[i + 1]):
            j, weight = indices[e], weights[e * step]
            for c in range(dense.shape[1]):
                out[i, c] += weight * dense[j, c]


def sum_neighbours(indptr: Indptr, indices: Indices, weights: Floats | None, dense: Floats) -> Floats:
    """Return A X for a graph's rows and X of shape ``(N, d)``: each row is the work of one thread.

    Unlike a product of matrices it needs no value per link where links have no weights.
    """
    from dssl.kernels.spmm import spmm

    dense, out = np.ascontiguousarray(dense), np.zeros((indptr.size - 1, dense.shape[1]), np.float32)
    if dense.shape[1] >= WIDE and dense.dtype == np.float32:
        spmm(indptr, indices, weights, dense, out, threads=usable_threads())
        return out
    given = np.ones(1, np.float32) if weights is None else weights
    parts = row_parts(indptr, usable_threads(), least=LEAST)
    in_threads(_sum_rows, parts, indptr, indices, given, int(weights is not None), dense, out)
    return out


@compiled
def _join(indptr: Indptr, indices: Indices, parent: NDArray[np.int64]) -> None:
    """Point each node of ``parent``, at first to itself, to the smallest node of its component."""
    for i in range(parent.shape[0]):
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
    for i in range(parent.shape[0]):  # a parent is never larger, so it is a root already
        parent[i] = parent[parent[i]]


def component_sizes(indptr: Indptr, indices: Indices) -> NDArray[np.int64]:
    """Sizes of the connected components, whatever the direction of links: union by smaller root, halving paths."""
    parent = np.arange(indptr.size - 1)
    _join(indptr, indices, parent)
    sizes = np.bincount(parent)
    return sizes[sizes > 0]


@compiled
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
                key = np.uint64(low) * GOLDEN + np.uint64(high)
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
