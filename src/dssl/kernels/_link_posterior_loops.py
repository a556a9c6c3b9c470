"""Compiled loops of `dssl.kernels.link_posterior`: the inference head's pass over the links, forward and backward.

Eight links are taken at a time: their rows gathered, their hidden values, scores and posteriors. The functions take the
memory of arrays by its address: with arrays, Numba counts references at every call, which takes longer than the work of
eight links.
"""

from __future__ import annotations

import numpy as np

from dssl.kernels.simd import (
    ONE,
    ZERO,
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

# Hidden values (link, 16) times columns of W₂ (16, factor).
_scores = tile(8, 1, 16, a_row=PANEL, a_column=1, b_row=GROUP, c_row=GROUP)
# Slopes (factor, link) times W₂ (factor, 16), and slopes times hidden values.
_pull = tile(4, 2, 8, a_row=1, a_column=GROUP, b_row=PANEL, c_row=PANEL)
_outer = tile(4, 2, 8, a_row=GROUP, a_column=1, b_row=PANEL, c_row=PANEL)

Memory = int
Links = tuple[Memory, Memory, Memory, Memory]  # where links start and stop in each row, their neighbours, their weights
Ends = tuple[Memory, Memory]  # of a group: rows and neighbours of its links, and their weights


# --- eight links at a time ------------------------------------------------------------------------------------------


@compiled
def _scratch(start: Memory, width: int, padded: int) -> tuple[Memory, ...]:
    """Scratch memory of a part, with W hidden values and K factors (padded), and its end.

    In floats: hidden (W/16, 8, 16) | pulls (W/16, 8, 16) | turned (8, 8) | log_q (K, 8) | q (K, 8) | slopes (K, 8) |
    weights of the links (16) | gradient of the bias (K, 8) | gradient of W₂ (W/16, K, 16).
    """
    pulls = start + 4 * 8 * width
    turned = pulls + 4 * 8 * width
    log_q = turned + 4 * 64
    q = log_q + 4 * 8 * padded
    slopes = q + 4 * 8 * padded
    strengths = slopes + 4 * 8 * padded
    grad_bias = strengths + 4 * 16
    grad_weight = grad_bias + 4 * 8 * padded
    return start, pulls, turned, log_q, q, slopes, strengths, grad_bias, grad_weight, grad_weight + 4 * width * padded


def scratch_size(width: int, padded: int) -> int:
    """How many floats of scratch memory a part needs."""
    return int(_scratch(0, width, padded)[-1]) // 4


@compiled
def _take(
    at: int, i: int, e: int, end: int, links: Links, group: Ends, width: int, wanted: Memory, changed: Memory
) -> tuple[int, int, int]:
    """Note the next eight links from link e of row i on, and ask for the rows that they will need.

    Returns:
        Where to continue, e = −1 at the start of a row, and how many links there were; a group is filled up with
        repeats that have no weight.
    """
    starts, stops, indices, weights = links
    places, strengths = group
    count = 0
    while count < GROUP and i < end:
        if e < 0:
            e = long(starts, i)
        if e == long(stops, i):
            i, e = i + 1, -1
            continue
        j = np.int64(short(indices, e))
        put_long(places, at + count, i)
        put_long(places, 2 * GROUP + at + count, j)
        put_number(strengths, at + count, number(weights, e))
        for h in range(0, width, PANEL):
            prefetch(wanted, j * width + h)
            prefetch(changed, j * width + h)
        e += 1
        count += 1
    for t in range(count, GROUP):
        for part in range(0, 4 * GROUP, 2 * GROUP):
            put_long(places, part + at + t, long(places, part + at))
        put_number(strengths, at + t, ZERO)
    return i, e, count


@compiled
def _posteriors(
    at: int, places: Memory, sizes: tuple[int, int, int], head: tuple[Memory, ...], scratch: tuple[Memory, ...]
) -> None:
    """Fill ``hidden``, ``log_q`` and ``q`` for the eight links from ``at`` on."""
    width, factors, padded = sizes
    first, second, columns, bias = head
    hidden, _, turned, log_q, q = scratch[:5]
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
        transpose(turned, 0, log_q, k * GROUP)
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
def forward_part(
    begin: int,
    end: int,
    links: Links,
    sizes: tuple[int, int, int],
    head: tuple[Memory, ...],
    sums: tuple[Memory, ...],
    own: tuple[Memory, Memory],
) -> None:
    """Add the links of the rows from ``begin`` to ``end`` to P, R, Σ q and the two sums of entropies."""
    width, factors, padded = sizes
    second = head[1]
    by_centre, by_neighbour, usage, entropy_sums = sums
    scratch, places = _scratch(own[0], width, padded), own[1]
    _, _, turned, log_q, q, _, strengths, _, _, _ = scratch
    for k in range(0, 16 * padded, 8):
        store(log_q, k, splat(ZERO))
    entropies, plain = 0.0, 0.0
    at, group = 0, (places, strengths)
    i, e, count = _take(at, begin, -1, end, links, group, width, second, second)
    while count > 0:  # while a group is worked on, the rows of the next one arrive
        i, e, following = _take(GROUP - at, i, e, end, links, group, width, second, second)
        _posteriors(at, places, sizes, head, scratch)
        entropy = splat(ZERO)
        for k in range(factors):
            entropy = entropy - load(q, k * GROUP) * load(log_q, k * GROUP)
        store(turned, 0, entropy)
        for t in range(count):
            entropies += number(strengths, at + t) * number(turned, t)
            plain += number(turned, t)
        for k in range(0, padded, GROUP):
            transpose(q, k * GROUP, turned, 0)
            used = splat(ZERO)
            for t in range(count):
                share = load(turned, t * GROUP)
                used = used + share
                share = share * splat(number(strengths, at + t))
                to = long(places, at + t) * padded + k
                store(by_centre, to, load(by_centre, to) + share)
                to = long(places, 2 * GROUP + at + t) * padded + k
                store(by_neighbour, to, load(by_neighbour, to) + share)
            store(turned, 0, used)
            for t in range(GROUP):
                put_double(usage, k + t, double(usage, k + t) + number(turned, t))
        at, count = GROUP - at, following
    put_double(entropy_sums, 0, double(entropy_sums, 0) + entropies)
    put_double(entropy_sums, 1, double(entropy_sums, 1) + plain)


# --- backward -------------------------------------------------------------------------------------------------------


@compiled
def backward_part(
    begin: int,
    end: int,
    links: Links,
    sizes: tuple[int, int, int],
    head: tuple[Memory, ...],
    panels: Memory,
    grads: tuple[Memory, Memory],
    scale: float,
    found: tuple[Memory, Memory],
    own: tuple[Memory, Memory],
) -> None:
    """Add the gradients by the links of the rows from ``begin`` to ``end``; those of W₂ and b₂ stay in scratch memory.

    ``grads`` are those of P and R, ``scale`` that of the entropy, ``found`` those of a and b.
    """
    width, factors, padded = sizes
    second = head[1]
    grad_centre, grad_neighbour = grads
    grad_first, grad_second = found
    scratch, places = _scratch(own[0], width, padded), own[1]
    hidden, pulls, turned, log_q, q, slopes, strengths, grad_bias, grad_weight, _ = scratch
    at, group = 0, (places, strengths)
    i, e, count = _take(at, begin, -1, end, links, group, width, second, grad_second)
    while count > 0:
        i, e, following = _take(GROUP - at, i, e, end, links, group, width, second, grad_second)
        _posteriors(at, places, sizes, head, scratch)
        for k in range(0, padded, GROUP):
            for t in range(GROUP):
                centre = load(grad_centre, long(places, at + t) * padded + k)
                store(turned, t * GROUP, centre + load(grad_neighbour, long(places, 2 * GROUP + at + t) * padded + k))
            transpose(turned, 0, slopes, k * GROUP)
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
