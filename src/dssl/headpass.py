"""The inference head on every link in one pass, forward and backward: compiled, parallel, without a row per link.

A link from i to j has the posterior q = softmax(W₂ relu(a_i + b_j) + b₂). Eight links are taken at a time: their hidden
values fill a small scratch array, and the three products of the head, with W₂ forward, with W₂ and with the hidden
values backward, become tiles whose sums stay in registers (`dssl.vectors`). Exponentials are taken of eight links at
once. What a link adds to its two ends is added to their rows at once.

**Threads.** Rows and columns of the links are cut into the same few parts. In the first turn the parts (0, 0),
(1, 1), … of the matrix are worked on at the same time, in the second (0, 1), (1, 2), … and so on: no two of them share
a row or a column, so that nobody waits and no sum depends on who was first. How many parts there are follows from the
links alone, so the result is the same, bit for bit, with any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl import buffers
from dssl.vectors import (
    ONE,
    ZERO,
    alone_and_together,
    compiled,
    double,
    exp,
    fma,
    load,
    log,
    long,
    maximum,
    memory,
    number,
    prefetch,
    put_double,
    put_long,
    put_number,
    short,
    splat,
    store,
    tile,
    transpose,
    use_threads,
    where_positive,
)

Indptr = NDArray[np.int64]
Indices = NDArray[np.int32]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

GROUP = 8  # links at a time, and factors to a vector
PANEL = 16  # hidden values to a panel: scratch arrays are (panel, link or factor, 16)
PARTS = ((200_000, 4), (4_000_000, 8))  # links from which on rows and columns have so many parts

# Hidden values (link, 16) times columns of W₂ (16, factor); slopes (factor, link) times W₂ (factor, 16); slopes times
# hidden values.
_scores = tile(8, 1, 16, a_row=PANEL, a_column=1, b_row=GROUP, c_row=GROUP)
_pull = tile(4, 2, 8, a_row=1, a_column=GROUP, b_row=PANEL, c_row=PANEL)
_outer = tile(4, 2, 8, a_row=GROUP, a_column=1, b_row=PANEL, c_row=PANEL)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Links in CSR, cut into parts that threads can work on at the same time.

    Args:
        indptr: row pointers, shape ``(C + 1,)``.
        indices: neighbours, shape ``(A,)``.
        weights: of the links, shape ``(A,)``.
        num_columns: n.
        rows: first row of each part and, last, C; shape ``(B + 1,)``.
        starts: where in each row the links to each part of the columns begin, and where the row ends; shape
            ``(B + 1, C)``.
    """

    indptr: Indptr
    indices: Indices
    weights: Floats
    num_columns: int
    rows: Indptr
    starts: Indptr

    @classmethod
    def build(cls, links: sparse.csr_array, *, parts: int | None = None) -> Plan:
        """Cut links of shape ``(C, n)`` into parts of about as many links; how many, `PARTS` says by default."""
        indptr = cast(Indptr, links.indptr.astype(np.int64, copy=False))
        indices = cast(Indices, links.indices.astype(np.int32, copy=False))
        weights = cast(Floats, links.data.astype(np.float32, copy=False))
        centres, columns = int(links.shape[0]), int(links.shape[1])
        if parts is None:
            several = [number for least, number in PARTS if indices.size >= least and links.has_sorted_indices]
            parts = several[-1] if several else 1
        if parts == 1:
            rows, starts = np.array([0, centres], np.int64), np.stack([indptr[:-1], indptr[1:]])
            return cls(indptr, indices, weights, columns, rows, starts)
        shares = np.arange(1, parts) * indices.size // parts
        rows = np.concatenate([[0], np.searchsorted(indptr, shares), [centres]]).astype(np.int64)
        reached = np.cumsum(np.bincount(indices, minlength=columns))
        bounds = np.searchsorted(reached, shares, side="right").astype(np.int64)
        starts = np.empty((parts + 1, centres), np.int64)
        _find_starts(indptr, indices, bounds, starts)
        return cls(indptr, indices, weights, columns, rows, starts)


@compiled
def _find_starts(indptr: Indptr, indices: Indices, bounds: Indptr, starts: Indptr) -> None:
    parts = starts.shape[0] - 1
    for i in range(starts.shape[1]):
        e = indptr[i]
        starts[0, i] = e
        for part in range(1, parts):
            while e < indptr[i + 1] and indices[e] < bounds[part - 1]:
                e += 1
            starts[part, i] = e
        starts[parts, i] = indptr[i + 1]


# --- eight links at a time ------------------------------------------------------------------------------------------
# These functions take the memory of arrays by its address: with arrays, Numba counts references at every call, which
# takes longer than the work of eight links. Scratch memory of a part, in floats, with W hidden values and K factors
# (padded): hidden (W/16, 8, 16) | pulls (W/16, 8, 16) | turned (8, 8) | log_q (K, 8) | q (K, 8) | slopes (K, 8) |
# weights of the links (16) | gradient of the bias (K, 8) | gradient of W₂ (W/16, K, 16).

Memory = int


def _scratch_size(width: int, padded: int) -> int:
    return 16 * width + 64 + 24 * padded + 16 + 8 * padded + width * padded


@compiled
def _turn(x: Memory, at: int, y: Memory, to: int) -> None:
    """Write the transpose of the 8 × 8 matrix at one place to another."""
    t = transpose(
        load(x, at), load(x, at + 8), load(x, at + 16), load(x, at + 24),
        load(x, at + 32), load(x, at + 40), load(x, at + 48), load(x, at + 56),
    )  # fmt: skip
    store(y, to, t[0])
    store(y, to + 8, t[1])
    store(y, to + 16, t[2])
    store(y, to + 24, t[3])
    store(y, to + 32, t[4])
    store(y, to + 40, t[5])
    store(y, to + 48, t[6])
    store(y, to + 56, t[7])


@compiled
def _take(
    at: int,
    i: int,
    e: int,
    end: int,
    starts: Memory,
    stops: Memory,
    indices: Memory,
    weights: Memory,
    places: Memory,
    strengths: Memory,
    width: int,
    wanted: Memory,
    changed: Memory,
) -> tuple[int, int, int]:
    """Note the next eight links from link e of row i on, and ask for the rows that they will need.

    Returns:
        Where to go on, and how many links there were; a group is filled up with repeats that have no weight.
    """
    count = 0
    while count < GROUP:
        while e == long(stops, i):
            i += 1
            if i == end:
                break
            e = long(starts, i)
        if i == end:
            break
        j = np.int64(short(indices, e))
        put_long(places, at + count, i)
        put_long(places, 2 * GROUP + at + count, j)
        put_long(places, 4 * GROUP + at + count, e)
        put_number(strengths, at + count, number(weights, e))
        for h in range(0, width, PANEL):
            prefetch(wanted, j * width + h)
            prefetch(changed, j * width + h)
        e += 1
        count += 1
    for t in range(count, GROUP):
        for part in range(0, 6 * GROUP, 2 * GROUP):
            put_long(places, part + at + t, long(places, part + at))
        put_number(strengths, at + t, ZERO)
    return i, e, count


@compiled
def _posteriors(
    at: int,
    width: int,
    factors: int,
    padded: int,
    places: Memory,
    first: Memory,
    second: Memory,
    columns: Memory,
    bias: Memory,
    hidden: Memory,
    turned: Memory,
    log_q: Memory,
    q: Memory,
) -> None:
    """Fill ``hidden``, ``log_q`` and ``q`` for the eight links from ``at`` on."""
    zero = splat(ZERO)
    for t in range(GROUP):
        i, j = long(places, at + t) * width, long(places, 2 * GROUP + at + t) * width
        for h in range(0, width, PANEL):
            to = h * GROUP + t * PANEL
            store(hidden, to, maximum(load(first, i + h) + load(second, j + h), zero))
            store(hidden, to + 8, maximum(load(first, i + h + 8) + load(second, j + h + 8), zero))
    for k in range(0, padded, GROUP):
        for t in range(GROUP):
            store(turned, GROUP * t, zero)
        for h in range(0, width, PANEL):
            _scores(hidden, h * GROUP, columns, k * width + h * GROUP, turned, 0)
        _turn(turned, 0, log_q, k * GROUP)
    top = splat(np.float32(-np.inf))
    for k in range(factors):
        score = load(log_q, k * GROUP) + splat(number(bias, k))
        store(log_q, k * GROUP, score)
        top = maximum(top, score)
    norm = zero
    for k in range(factors):
        score = load(log_q, k * GROUP) - top
        store(log_q, k * GROUP, score)
        power = exp(score)
        store(q, k * GROUP, power)
        norm = norm + power
    inverse, rest = splat(ONE) / norm, log(norm)
    for k in range(factors):
        store(q, k * GROUP, load(q, k * GROUP) * inverse)
        store(log_q, k * GROUP, load(log_q, k * GROUP) - rest)


# --- forward --------------------------------------------------------------------------------------------------------


@compiled
def _forward_part(
    begin: int,
    end: int,
    starts: Memory,
    stops: Memory,
    indices: Memory,
    weights: Memory,
    width: int,
    factors: int,
    padded: int,
    first: Memory,
    second: Memory,
    columns: Memory,
    bias: Memory,
    values: Memory,
    by_centre: Memory,
    by_neighbour: Memory,
    usage: Memory,
    sums: Memory,
    hidden: Memory,
    places: Memory,
) -> None:
    turned = hidden + 4 * 16 * width
    log_q = turned + 4 * 64
    q, strengths = log_q + 4 * 8 * padded, log_q + 4 * 24 * padded
    for k in range(0, 16 * padded, 8):
        store(log_q, k, splat(ZERO))
    entropies, plain, mean = 0.0, 0.0, 0.0
    at, i, e, count = 0, begin, 0, 0
    if begin < end:
        e = long(starts, begin)
        i, e, count = _take(at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, second)
    while count > 0:  # while a group is worked on, the rows of the next one arrive
        following = 0
        if i < end:
            i, e, following = _take(
                GROUP - at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, second
            )
        _posteriors(at, width, factors, padded, places, first, second, columns, bias, hidden, turned, log_q, q)
        entropy = splat(ZERO)
        for k in range(factors):
            entropy = entropy - load(q, k * GROUP) * load(log_q, k * GROUP)
        store(turned, 0, entropy)
        for t in range(count):
            entropies += number(strengths, at + t) * number(turned, t)
            plain += number(turned, t)
        if values != 0:
            for t in range(count):
                row = long(places, 4 * GROUP + at + t) * factors
                for k in range(factors):
                    mean += number(strengths, at + t) * number(q, k * GROUP + t) * number(values, row + k)
        for k in range(0, padded, GROUP):
            _turn(q, k * GROUP, turned, 0)
            used = splat(ZERO)
            for t in range(count):
                own = load(turned, t * GROUP)
                used = used + own
                own = own * splat(number(strengths, at + t))
                to = long(places, at + t) * padded + k
                store(by_centre, to, load(by_centre, to) + own)
                to = long(places, 2 * GROUP + at + t) * padded + k
                store(by_neighbour, to, load(by_neighbour, to) + own)
            store(turned, 0, used)
            for t in range(GROUP):
                put_double(usage, k + t, double(usage, k + t) + number(turned, t))
        at, count = GROUP - at, following
    put_double(sums, 0, double(sums, 0) + entropies)
    put_double(sums, 1, double(sums, 1) + plain)
    put_double(sums, 2, double(sums, 2) + mean)


def _forward(
    parts: int,
    rows: Memory,
    starts: Memory,
    centres: int,
    indices: Memory,
    weights: Memory,
    width: int,
    factors: int,
    padded: int,
    first: Memory,
    second: Memory,
    columns: Memory,
    bias: Memory,
    values: Memory,
    by_centre: Memory,
    by_neighbour: Memory,
    usage: Memory,
    sums: Memory,
    scratch: Memory,
    size: int,
    places: Memory,
) -> None:
    for turn in range(parts):
        for part in numba.prange(parts):
            column = (part + turn) % parts
            _forward_part(
                long(rows, part), long(rows, part + 1),
                starts + 8 * column * centres, starts + 8 * (column + 1) * centres, indices, weights,
                width, factors, padded, first, second, columns, bias, values, by_centre, by_neighbour,
                usage + 8 * part * padded, sums + 8 * part * 3,
                scratch + 4 * part * size, places + 8 * part * 6 * GROUP,
            )  # fmt: skip


# --- backward -------------------------------------------------------------------------------------------------------


@compiled
def _backward_part(
    begin: int,
    end: int,
    starts: Memory,
    stops: Memory,
    indices: Memory,
    weights: Memory,
    width: int,
    factors: int,
    padded: int,
    first: Memory,
    second: Memory,
    columns: Memory,
    panels: Memory,
    bias: Memory,
    values: Memory,
    grad_centre: Memory,
    grad_neighbour: Memory,
    scale: float,
    rate: float,
    grad_first: Memory,
    grad_second: Memory,
    grad_values: Memory,
    hidden: Memory,
    places: Memory,
) -> None:
    pulls = hidden + 4 * 8 * width
    turned = pulls + 4 * 8 * width
    log_q = turned + 4 * 64
    q = log_q + 4 * 8 * padded
    slopes = q + 4 * 8 * padded
    strengths = slopes + 4 * 8 * padded
    grad_bias = strengths + 4 * 16
    grad_weight = grad_bias + 4 * 8 * padded
    at, i, e, count = 0, begin, 0, 0
    if begin < end:
        e = long(starts, begin)
        i, e, count = _take(
            at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, grad_second
        )
    while count > 0:
        following = 0
        if i < end:
            i, e, following = _take(
                GROUP - at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, grad_second
            )
        _posteriors(at, width, factors, padded, places, first, second, columns, bias, hidden, turned, log_q, q)
        for k in range(0, padded, GROUP):
            for t in range(GROUP):
                centre = load(grad_centre, long(places, at + t) * padded + k)
                store(turned, t * GROUP, centre + load(grad_neighbour, long(places, 2 * GROUP + at + t) * padded + k))
            _turn(turned, 0, slopes, k * GROUP)
        if values != 0:
            for t in range(count):
                row = long(places, 4 * GROUP + at + t) * factors
                for k in range(factors):
                    slope = number(slopes, k * GROUP + t) + rate * number(values, row + k)
                    put_number(slopes, k * GROUP + t, slope)
                    share = number(strengths, at + t) * number(q, k * GROUP + t)
                    put_number(grad_values, row + k, rate * share)
        mean, steep, strength = splat(ZERO), splat(scale), load(strengths, at)
        for k in range(factors):
            each = load(slopes, k * GROUP) - steep * load(log_q, k * GROUP)
            store(slopes, k * GROUP, each)
            mean = fma(load(q, k * GROUP), each, mean)
        for k in range(factors):
            each = strength * load(q, k * GROUP) * (load(slopes, k * GROUP) - mean)
            store(slopes, k * GROUP, each)
            store(grad_bias, k * GROUP, load(grad_bias, k * GROUP) + each)
        for h in range(0, width, PANEL):
            for t in range(0, GROUP * PANEL, 8):
                store(pulls, h * GROUP + t, splat(ZERO))
            for k in range(0, padded, GROUP):
                _pull(slopes, k * GROUP, panels, h * padded + k * PANEL, pulls, h * GROUP)
                _pull(slopes, k * GROUP + 4, panels, h * padded + k * PANEL, pulls, h * GROUP + 4 * PANEL)
            for k in range(0, padded, 4):
                _outer(slopes, k * GROUP, hidden, h * GROUP, grad_weight, h * padded + k * PANEL)
        for t in range(count):
            centre_row, other_row = long(places, at + t) * width, long(places, 2 * GROUP + at + t) * width
            for h in range(0, width, PANEL):
                for half in range(0, PANEL, 8):
                    there, to, other = h * GROUP + t * PANEL + half, centre_row + h + half, other_row + h + half
                    pull = where_positive(load(hidden, there), load(pulls, there))
                    store(grad_first, to, load(grad_first, to) + pull)
                    store(grad_second, other, load(grad_second, other) + pull)
        at, count = GROUP - at, following


def _backward(
    parts: int,
    rows: Memory,
    starts: Memory,
    centres: int,
    indices: Memory,
    weights: Memory,
    width: int,
    factors: int,
    padded: int,
    first: Memory,
    second: Memory,
    columns: Memory,
    panels: Memory,
    bias: Memory,
    values: Memory,
    grad_centre: Memory,
    grad_neighbour: Memory,
    scale: float,
    rate: float,
    grad_first: Memory,
    grad_second: Memory,
    grad_values: Memory,
    scratch: Memory,
    size: int,
    places: Memory,
) -> None:
    for turn in range(parts):
        for part in numba.prange(parts):
            column = (part + turn) % parts
            _backward_part(
                long(rows, part), long(rows, part + 1),
                starts + 8 * column * centres, starts + 8 * (column + 1) * centres, indices, weights,
                width, factors, padded, first, second, columns, panels, bias, values, grad_centre, grad_neighbour,
                scale, rate, grad_first, grad_second, grad_values,
                scratch + 4 * (turn * parts + part) * size, places + 8 * part * 6 * GROUP,
            )  # fmt: skip


_forward_alone, _forward_together = alone_and_together(_forward)
_backward_alone, _backward_together = alone_and_together(_backward)


# --- what others call -----------------------------------------------------------------------------------------------


def _padded(array: Floats, columns: int) -> Floats:
    """Return the array with columns of zeros up to a multiple; itself if it has as many."""
    extra = -array.shape[1] % columns
    return np.pad(array, ((0, 0), (0, extra))) if extra else np.ascontiguousarray(array)


def _layouts(weight: Floats) -> tuple[Floats, Floats]:
    """W₂ of shape (K, H) as blocks of eight factors (block, H, 8), and as panels (panel, K, 16)."""
    whole = _padded(_padded(weight, PANEL).T, GROUP).T  # (padded K, padded H)
    columns = whole.reshape(-1, GROUP, whole.shape[1]).transpose(0, 2, 1)
    panels = whole.reshape(whole.shape[0], -1, PANEL).transpose(1, 0, 2)
    return np.ascontiguousarray(columns).reshape(-1), np.ascontiguousarray(panels).reshape(-1)


def forward(plan: Plan, arrays: Sequence[Floats], *, threads: int) -> tuple[Floats, Floats, Doubles, Doubles]:
    """One pass over the links; see `dssl.posterior.Statistics`.

    Args:
        plan: the links.
        arrays: a ``(C, H)``, b ``(n, H)``, W₂ ``(K, H)``, b₂ ``(K,)``, and values with a row per link, ``(A, K)``, or
            with no row at all.
        threads: how many to use at most.

    Returns:
        P ``(C, K)``, R ``(n, K)``, the sum of the posteriors ``(K,)``, and three numbers: the weighted and the plain
        sum of the entropies of the links' posteriors, and the weighted sum of the posterior means of the values.
    """
    first, second, weight, bias, values = arrays
    parts, factors = len(plan.rows) - 1, bias.size
    padded = factors + -factors % GROUP
    by_centre = np.zeros((len(first), padded), np.float32)
    by_neighbour = np.zeros((len(second), padded), np.float32)
    usage, sums = np.zeros((parts, padded), np.float64), np.zeros((parts, 3), np.float64)
    ends, columns = (_padded(first, PANEL), _padded(second, PANEL)), _layouts(weight)[0]
    width = ends[0].shape[1]
    scratch = np.zeros((parts, _scratch_size(width, padded)), np.float32)
    places = np.zeros((parts, 6 * GROUP), np.int64)
    run = _forward_together if use_threads(threads, parts) else _forward_alone
    run(
        *_links(plan), width, factors, padded,
        *_memories(*ends, columns, bias, values, by_centre, by_neighbour, usage, sums),
        memory(scratch), scratch.shape[1], memory(places),
    )  # fmt: skip
    return by_centre[:, :factors], by_neighbour[:, :factors], usage.sum(axis=0)[:factors], sums.sum(axis=0)


def _links(plan: Plan) -> tuple[int, ...]:
    rows, starts, indices, weights = _memories(plan.rows, plan.starts, plan.indices, plan.weights)
    return len(plan.rows) - 1, rows, starts, plan.starts.shape[1], indices, weights


def _memories(*arrays: NDArray[Any]) -> list[int]:
    return [memory(array) for array in arrays]


def backward(
    plan: Plan,
    arrays: Sequence[Floats],
    grad_centre: Floats,
    grad_neighbour: Floats,
    grad_entropy: float,
    grad_total: float,
    *,
    threads: int,
) -> tuple[Floats, ...]:
    """The gradients of `forward` for its arrays, of the same shapes: posteriors are computed again, not stored."""
    first, second, weight, bias, values = arrays
    parts, factors = len(plan.rows) - 1, bias.size
    padded = factors + -factors % GROUP
    ends = _padded(first, PANEL), _padded(second, PANEL)
    grads = _padded(grad_centre, GROUP), _padded(grad_neighbour, GROUP)
    columns, panels = _layouts(weight)
    found = [buffers.zeros(*end.shape).numpy() for end in ends]
    grad_values = np.zeros_like(values)
    width = ends[0].shape[1]
    # A part of each turn has scratch memory of its own: the gradients of W₂ and b₂ are summed there.
    scratch = np.zeros((parts * parts, _scratch_size(width, padded)), np.float32)
    places = np.zeros((parts, 6 * GROUP), np.int64)
    run = _backward_together if use_threads(threads, parts) else _backward_alone
    run(
        *_links(plan), width, factors, padded, *_memories(*ends, columns, panels, bias, values, *grads),
        np.float32(grad_entropy), np.float32(grad_total), *_memories(*found, grad_values),
        memory(scratch), scratch.shape[1], memory(places),
    )  # fmt: skip
    sums = scratch.sum(axis=0, dtype=np.float64)[-padded * (8 + width) :]
    grad_bias = sums[: 8 * padded].reshape(padded, 8).sum(axis=1)
    grad_weight = sums[8 * padded :].reshape(-1, padded, PANEL).transpose(1, 0, 2).reshape(padded, width)
    return (
        found[0][:, : first.shape[1]],
        found[1][:, : first.shape[1]],
        grad_weight[:factors, : first.shape[1]].astype(np.float32),
        grad_bias[:factors].astype(np.float32),
        grad_values,
    )
