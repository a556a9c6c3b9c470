"""Compiled loops of `dssl.kernels.link_posterior`, the inference head's pass over the links, forward and backward."""

from __future__ import annotations

from dssl.kernels._link_groups import GROUP, PANEL, Memory, posteriors, take, transposed
from dssl.kernels.simd import (
    ZERO,
    compiled,
    double,
    fma,
    load,
    long,
    number,
    put_double,
    splat,
    store,
    tile,
    where_positive,
)

# Slopes (factor, link) times W₂ (factor, 16), and slopes times hidden values.
_pull = tile(4, 2, 8, a_row=1, a_column=GROUP, b_row=PANEL, c_row=PANEL)
_outer = tile(4, 2, 8, a_row=GROUP, a_column=1, b_row=PANEL, c_row=PANEL)


# --- forward --------------------------------------------------------------------------------------------------------


@compiled
def forward_part(
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
    entropies, plain = 0.0, 0.0
    at, i, e, count = 0, begin, 0, 0
    if begin < end:
        e = long(starts, begin)
        i, e, count = take(at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, second)
    while count > 0:  # while a group is worked on, the rows of the next one arrive
        following = 0
        if i < end:
            i, e, following = take(
                GROUP - at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, second
            )
        posteriors(at, width, factors, padded, places, first, second, columns, bias, hidden, turned, log_q, q)
        entropy = splat(ZERO)
        for k in range(factors):
            entropy = entropy - load(q, k * GROUP) * load(log_q, k * GROUP)
        store(turned, 0, entropy)
        for t in range(count):
            entropies += number(strengths, at + t) * number(turned, t)
            plain += number(turned, t)
        for k in range(0, padded, GROUP):
            transposed(q, k * GROUP, turned, 0)
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


# --- backward -------------------------------------------------------------------------------------------------------


@compiled
def backward_part(
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
    grad_centre: Memory,
    grad_neighbour: Memory,
    scale: float,
    grad_first: Memory,
    grad_second: Memory,
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
        i, e, count = take(
            at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, grad_second
        )
    while count > 0:
        following = 0
        if i < end:
            i, e, following = take(
                GROUP - at, i, e, end, starts, stops, indices, weights, places, strengths, width, second, grad_second
            )
        posteriors(at, width, factors, padded, places, first, second, columns, bias, hidden, turned, log_q, q)
        for k in range(0, padded, GROUP):
            for t in range(GROUP):
                centre = load(grad_centre, long(places, at + t) * padded + k)
                store(turned, t * GROUP, centre + load(grad_neighbour, long(places, 2 * GROUP + at + t) * padded + k))
            transposed(turned, 0, slopes, k * GROUP)
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
