"""Compiled loops (Numba) over the neighbours of each node: clustering and the largest value of a neighbour."""

from __future__ import annotations

import numpy as np

from dssl.kernels.arcs import place
from dssl.kernels.compile import Floats, Indices, Indptr, compiled, in_threads, row_parts, usable_threads
from dssl.kernels.csr import GOLDEN, LEAST, mix

PAIRS = 256  # pairs of neighbours that are looked at where there are more


@compiled
def _clustering(first: int, last: int, indptr: Indptr, indices: Indices, seed: int, out: Floats) -> None:
    for i in range(first, last):
        begin, degree = indptr[i], indptr[i + 1] - indptr[i]
        if degree < 2:
            continue
        pairs = degree * (degree - 1) // 2
        closed = 0
        if pairs <= PAIRS:
            for a in range(begin, begin + degree):
                for b in range(a + 1, begin + degree):
                    closed += place(indptr, indices, np.int64(indices[a]), np.int64(indices[b])) >= 0
        else:
            pairs = PAIRS
            for draw in range(PAIRS):
                key = mix(mix(np.uint64(i) * GOLDEN + np.uint64(draw)) ^ np.uint64(seed))
                one = np.int64((key >> np.uint64(32)) % np.uint64(degree))
                other = np.int64((key & np.uint64(0xFFFFFFFF)) % np.uint64(degree - 1))
                if other >= one:
                    other += 1
                left, right = np.int64(indices[begin + one]), np.int64(indices[begin + other])
                closed += place(indptr, indices, left, right) >= 0
        out[i] = closed / pairs


def clustering(indptr: Indptr, indices: Indices, seed: int) -> Floats:
    """Fraction of the pairs of a node's neighbours that are linked, shape ``(N,)``; 0 below two neighbours.

    For an undirected graph without self loops. A node with more than `PAIRS` pairs has that many drawn, with
    replacement, by a function of the seed, the node and the number of the draw.
    """
    out = np.zeros(indptr.size - 1, np.float32)
    parts = row_parts(indptr, usable_threads(), least=LEAST)
    in_threads(_clustering, parts, indptr, indices, seed, out)
    return out


@compiled
def largest_neighbour(indptr: Indptr, indices: Indices, values: Floats) -> Floats:
    """Largest value of a node's neighbours, shape ``(N,)``; 0 without neighbours. Values are not negative."""
    out = np.zeros(indptr.size - 1, np.float32)
    for i in range(out.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            value = values[indices[e]]
            if value > out[i]:
                out[i] = value
    return out
