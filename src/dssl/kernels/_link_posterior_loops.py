"""Compiled loops of `dssl.kernels.link_posterior`, the inference head's pass over the links.

The functions take the memory of arrays by its address: with arrays, Numba counts references at every call, which takes
longer than the work of eight links.
"""

from __future__ import annotations

import numba
import numpy as np

from dssl.kernels.simd import (
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
    where_positive,
)

GROUP = 8  # links at a time, and factors to a vector
PANEL = 16  # hidden values to a panel: scratch arrays are (panel, link or factor, 16)

# Hidden values (link, 16) times columns of W₂ (16, factor); slopes (factor, link) times W₂ (factor, 16); slopes times
# hidden values.
_scores = tile(8, 1, 16, a_row=PANEL, a_column=1, b_row=GROUP, c_row=GROUP)
_pull = tile(4, 2, 8, a_row=1, a_column=GROUP, b_row=PANEL, c_row=PANEL)
_outer = tile(4, 2, 8, a_row=GROUP, a_column=1, b_row=PANEL, c_row=PANEL)


# --- eight links at a time ------------------------------------------------------------------------------------------
# Scratch memory of a part, in floats, with W hidden values and K factors
# (padded): hidden (W/16, 8, 16) | pulls (W/16, 8, 16) | turned (8, 8) | log_q (K, 8) | q (K, 8) | slopes (K, 8) |
# weights of the links (16) | gradient of the bias (K, 8) | gradient of W₂ (W/16, K, 16).

Memory = int


def scratch_size(width: int, padded: int) -> int:
    """How many floats of scratch memory a part needs."""
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


forward_alone, forward_together = alone_and_together(_forward)
backward_alone, backward_together = alone_and_together(_backward)
