r"""Structural similarity of two nodes, whatever lies between them: the multilayer graph of struc2vec.

:math:`f_k(u, v)`, the structural distance up to k links away, adds up the distances of the ordered sequences of degrees
of the nodes in each ring, by dynamic time warping with the cost :math:`\max(a, b) / \min(a, b) - 1`. The three ways of
the paper to make it cheap:

1. sequences are compressed to (degree, how often), the cost of a match is multiplied by the larger count;
2. a node is compared only with the nodes nearest in degree, about 2 log₂ N of them; many have the same degree, and of
   these the nearest in the mean degree of their neighbours come first, however the nodes are numbered;
3. only the first layers are used.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.kernels.compile import compiled

Ints = NDArray[np.int64]


def candidates(graph: Graph) -> tuple[Ints, Ints]:
    """Pairs of nodes that are near each other in the order of degrees (optimisation 2), each once, shapes ``(P,)``."""
    n, degrees = graph.num_nodes, graph.degrees
    reach = max(1, math.ceil(math.log2(max(n, 2))))
    around = np.add.reduceat(np.append(degrees[graph.indices], 0), graph.indptr[:-1]) / np.maximum(degrees, 1)
    order = np.lexsort((around, degrees))  # what reduceat gives a node without links does not matter: all are equal
    steps = range(1, min(reach, n - 1) + 1)
    none = order[:0]
    return np.concatenate([none, *(order[:-step] for step in steps)]), np.concatenate(
        [none, *(order[s:] for s in steps)]
    )


def degree_sequences(graph: Graph, layers: int) -> tuple[Ints, Ints, Ints]:
    """The compressed degree sequences of the rings around each node (optimisation 1).

    Returns:
        Pointers, shape ``(N · layers + 1,)``: the sequence of node i and ring k is at ``i · layers + k``; then the
        degrees in rising order and how often each occurs.
    """
    return _rings(graph.indptr, graph.indices, layers)


@compiled
def _rings(indptr: Ints, indices: NDArray[np.int32], layers: int) -> tuple[Ints, Ints, Ints]:
    n = indptr.shape[0] - 1
    pointers = np.zeros(n * layers + 1, np.int64)
    room = 1024
    degrees, counts = np.empty(room, np.int64), np.empty(room, np.int64)
    seen = np.full(n, -1, np.int64)
    queue = np.empty(n, np.int64)
    at = 0
    for source in range(n):
        seen[source] = source
        queue[0] = source
        begin, end = 0, 1
        for k in range(layers):
            found = np.empty(end - begin, np.int64)
            for a in range(begin, end):
                found[a - begin] = indptr[queue[a] + 1] - indptr[queue[a]]
            found.sort()
            if at + found.shape[0] > room:
                room = 2 * (at + found.shape[0])
                wider, longer = np.empty(room, np.int64), np.empty(room, np.int64)
                wider[:at], longer[:at] = degrees[:at], counts[:at]
                degrees, counts = wider, longer
            start = at
            for a in range(found.shape[0]):
                if at > start and degrees[at - 1] == found[a]:
                    counts[at - 1] += 1
                else:
                    degrees[at], counts[at] = found[a], 1
                    at += 1
            pointers[source * layers + k + 1] = at
            if k + 1 == layers:
                break
            further = end
            for a in range(begin, end):
                for e in range(indptr[queue[a]], indptr[queue[a] + 1]):
                    other = indices[e]
                    if seen[other] != source:
                        seen[other] = source
                        queue[further] = other
                        further += 1
            begin, end = end, further
    return pointers, degrees[:at].copy(), counts[:at].copy()


@compiled
def _warping(a: Ints, how_a: Ints, b: Ints, how_b: Ints) -> float:
    """Dynamic time warping of two compressed sequences."""
    n, m = a.shape[0], b.shape[0]
    before = np.full(m + 1, np.inf)
    before[0] = 0.0
    now = np.empty(m + 1)
    for i in range(n):
        now[0] = np.inf
        for j in range(m):
            # Degrees may be zero: then both are counted as one more.
            high, low = max(a[i], b[j]), min(a[i], b[j])
            cost = (high / low if low > 0 else high + 1.0) - 1.0
            now[j + 1] = cost * max(how_a[i], how_b[j]) + min(before[j], before[j + 1], now[j])
        before, now = now, before
    return float(before[m])


@compiled
def distances(sequences: tuple[Ints, Ints, Ints], layers: int, first: Ints, second: Ints) -> NDArray[np.float64]:
    """f_k of pairs, shape ``(P, layers)``; infinite from the ring on that one of the two does not have."""
    pointers, degrees, counts = sequences
    out = np.full((first.shape[0], layers), np.inf)
    for e in range(first.shape[0]):
        total = 0.0
        for k in range(layers):
            i, j = first[e] * layers + k, second[e] * layers + k
            a, b = pointers[i], pointers[i + 1]
            c, d = pointers[j], pointers[j + 1]
            if a == b or c == d:
                break
            total += _warping(degrees[a:b], counts[a:b], degrees[c:d], counts[c:d])
            out[e, k] = total
    return out
