"""Eight links at a time: their rows gathered, their hidden values, scores and posteriors.

The functions take the memory of arrays by its address: with arrays, Numba counts references at every call, which takes
longer than the work of eight links.
"""

from __future__ import annotations

import numpy as np

from dssl.kernels.simd import (
    ONE,
    ZERO,
    compiled,
    exp,
    load,
    log,
    long,
    maximum,
    number,
    prefetch,
    put_long,
    put_number,
    short,
    splat,
    store,
    tile,
    transpose,
)

GROUP = 8  # links at a time, and factors to a vector
PANEL = 16  # hidden values to a panel: scratch arrays are (panel, link or factor, 16)

# Hidden values (link, 16) times columns of W₂ (16, factor).
_scores = tile(8, 1, 16, a_row=PANEL, a_column=1, b_row=GROUP, c_row=GROUP)


# --- eight links at a time ------------------------------------------------------------------------------------------
# Scratch memory of a part, in floats, with W hidden values and K factors
# (padded): hidden (W/16, 8, 16) | pulls (W/16, 8, 16) | turned (8, 8) | log_q (K, 8) | q (K, 8) | slopes (K, 8) |
# weights of the links (16) | gradient of the bias (K, 8) | gradient of W₂ (W/16, K, 16).

Memory = int


def scratch_size(width: int, padded: int) -> int:
    """How many floats of scratch memory a part needs."""
    return 16 * width + 64 + 24 * padded + 16 + 8 * padded + width * padded


@compiled
def transposed(x: Memory, at: int, y: Memory, to: int) -> None:
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
def take(
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
        Where to continue, and how many links there were; a group is filled up with repeats that have no weight.
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
def posteriors(
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
        transposed(turned, 0, log_q, k * GROUP)
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
