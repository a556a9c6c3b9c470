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


def _compiled_fast(function: F) -> F:
    """Compile with sums in any order (vectorised) and fused multiply-add; NaN and infinity keep their meaning."""
    return cast(F, numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})(function))


@_compiled
def _count_arcs(source: Indices, target: Indices, indptr: Indptr, both: bool, loops: bool) -> None:
    """Turn ``indptr``, all zeros, into row pointers; with ``both``, an arc that is no loop counts both ways."""
    for e in range(source.shape[0]):
        s, t = source[e], target[e]
        if s != t or loops:
            indptr[s + 1] += 1
        if both and s != t:
            indptr[t + 1] += 1
    for i in range(indptr.shape[0] - 1):
        indptr[i + 1] += indptr[i]


@_compiled
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


@_compiled
def _sort_row(row: Indices) -> None:
    """Sort in place; most rows are short, and for those insertion takes about half the time of the general sort."""
    if row.shape[0] > 64:
        row.sort()
        return
    for i in range(1, row.shape[0]):
        value = row[i]
        at = i - 1
        while at >= 0 and row[at] > value:
            row[at + 1] = row[at]
            at -= 1
        row[at + 1] = value


@_compiled
def _merge_rows(indptr: Indptr, indices: Indices, values: Floats) -> None:
    """Sort each row and merge repeated entries in place, adding their weights."""
    weighted = values.shape[0] > 0
    write = 0
    begin = indptr[0]
    for i in range(indptr.shape[0] - 1):
        end = indptr[i + 1]
        if weighted:
            order = np.argsort(indices[begin:end], kind="mergesort")
            indices[begin:end] = indices[begin:end][order]
            values[begin:end] = values[begin:end][order]
        else:
            _sort_row(indices[begin:end])
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
    _merge_rows(indptr, indices, values)
    indices.resize(indptr[-1], refcheck=False)  # shrinks in place, where a slice would keep or copy it all
    if weights is None:
        return indptr, indices, None
    values.resize(indptr[-1], refcheck=False)
    return indptr, indices, values


@_compiled_fast
def additive_forward(
    indptr: Indptr,
    indices: Indices,
    link_weights: Floats,
    first: Floats,
    second: Floats,
    by_centre: Floats,
    by_neighbour: Floats,
    usage: NDArray[np.float64],
) -> tuple[float, float]:
    """As `head_forward`, for posteriors softmax(s_i + t_j): the closed form needs no hidden layer."""
    q = np.empty(first.shape[1], np.float32)
    weighted, plain = np.float64(0), np.float64(0)
    for i in range(indptr.shape[0] - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j, w = indices[e], link_weights[e]
            top = np.float32(-np.inf)
            for k in range(q.shape[0]):
                q[k] = first[i, k] + second[j, k]
                top = max(top, q[k])
            norm = np.float32(0)
            for k in range(q.shape[0]):
                q[k] = np.exp(q[k] - top)
                norm += q[k]
            entropy = np.float32(0)
            for k in range(q.shape[0]):
                q[k] /= norm
                by_centre[i, k] += w * q[k]
                by_neighbour[j, k] += w * q[k]
                usage[k] += q[k]
                entropy -= q[k] * np.log(max(q[k], np.float32(1e-30)))
            weighted += w * entropy
            plain += entropy
    return weighted, plain


@_compiled_fast
def link_products(start: Indptr, end: Indptr, first: Floats, second: Floats, out: Floats) -> None:
    """Write the products p_(start, k) · z_end of each link to ``out`` (A, K), for p (C, K, d) and z (n, d)."""
    for e in range(start.shape[0]):
        rows, other = first[start[e]], second[end[e]]
        for k in range(rows.shape[0]):
            total = np.float32(0)
            for c in range(other.shape[0]):
                total += rows[k, c] * other[c]
            out[e, k] = total


@_compiled_fast
def link_products_backward(start: Indptr, end: Indptr, second: Floats, grad: Floats, grad_first: Floats) -> None:
    """The backward pass of `link_products` to p: add grad (A, K) times z_end to ``grad_first`` (C, K, d)."""
    for e in range(start.shape[0]):
        rows, other = grad_first[start[e]], second[end[e]]
        for k in range(rows.shape[0]):
            rate = grad[e, k]
            for c in range(other.shape[0]):
                rows[k, c] += rate * other[c]


@_compiled
def mix(state: np.uint64) -> np.uint64:
    """SplitMix64: a counter becomes a random number, so that a draw depends on (seed, node, turn) alone."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@_compiled
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
        state = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(nodes[r] + 1) * np.uint64(
            0xD1342543DE82EF95
        )
        for t in range(fanout):
            bound = degree - fanout + t
            state = state + np.uint64(0x9E3779B97F4A7C15)
            drawn = begin + np.int64(mix(state) % np.uint64(bound + 1))
            for s in range(at, at + t):
                if arcs[s] == drawn:
                    drawn = begin + bound
                    break
            arcs[at + t] = drawn
        arcs[at : at + fanout].sort()
    return pointers, arcs


@_compiled
def attach_preferentially(
    classes: NDArray[np.int64],
    compatibility: NDArray[np.float64],
    first: int,
    links: int,
    chain: bool,
    rng: np.random.Generator,
) -> tuple[Indices, Indices]:
    """Let nodes arrive one by one and draw neighbours by degree and compatibility of the classes.

    Node ``v`` holds ``max(degree(v), 1)`` tokens in the urn of its class. To draw a node with probability
    proportional to ``max(degree, 1) · H[i, class]`` is then to draw the class with weight ``H[i, c] · tokens(c)``
    and a token of its urn uniformly: constant time, no pass over the nodes. A node that was drawn already is
    rejected and the draw repeated. Given the set S drawn so far, the accepted node has the distribution
    ``p(v) / (1 − p(S))`` on the others: the sequential draw, renormalised after each node, that NumPy's
    ``choice(replace=False, p=p)`` makes. (NumPy draws a batch from p, keeps the first of equal ones, and goes
    on with the weights of those set to zero: rejection within a batch, renormalisation between batches.)

    Args:
        classes: class of each node in the order of arrival, shape ``(N,)``.
        compatibility: matrix H, not negative, shape ``(C, C)``.
        first: how many nodes count as first: each but the first two brings one link at most.
        links: links of each later node; as many nodes of positive weight must be there when it arrives.
        chain: whether a first node is joined to the one before it instead of a drawn one.
        rng: source of chance.

    Returns:
        New node and the older node it chose, for each link, shapes ``(E,)``.
    """
    num_nodes, num_classes = classes.shape[0], compatibility.shape[0]
    source = np.empty(first + (num_nodes - first) * links, np.int32)
    target = np.empty(source.shape[0], np.int32)
    degree = np.zeros(num_nodes, np.int64)
    urns = np.empty((num_classes, 2 * links + 2), np.int32)
    tokens = np.zeros(num_classes, np.int64)
    largest = 0
    drawn = np.empty(links, np.int32)
    count = 0
    for v in range(num_nodes):
        row = compatibility[classes[v]]
        wanted = 0 if v < 2 else (1 if v < first else links)
        found = 0
        if chain and 2 <= v < first:
            drawn[0] = v - 1
            found = 1
        total = 0.0
        for c in range(num_classes):
            total += row[c] * tokens[c]
        while found < wanted and total > 0:
            left = rng.random() * total
            chosen = -1  # the last class of positive weight, should rounding leave a rest
            for c in range(num_classes):
                if row[c] > 0 and tokens[c] > 0:
                    chosen = c
                    if left < row[c] * tokens[c]:
                        break
                    left -= row[c] * tokens[c]
            at = min(np.int64(left / row[chosen]), tokens[chosen] - 1)
            node = urns[chosen, at]
            repeated = False
            for e in range(found):
                repeated = repeated or drawn[e] == node
            if not repeated:
                drawn[found] = node
                found += 1
        if largest + 2 * links + 2 > urns.shape[1]:
            wider = np.empty((num_classes, 2 * urns.shape[1]), np.int32)
            wider[:, : urns.shape[1]] = urns
            urns = wider
        for e in range(found):
            node = drawn[e]
            source[count], target[count] = v, node
            count += 1
            degree[node] += 1
            if degree[node] > 1:
                urns[classes[node], tokens[classes[node]]] = node
                tokens[classes[node]] += 1
                largest = max(largest, tokens[classes[node]])
        degree[v] = found
        for _ in range(max(found, 1)):
            urns[classes[v], tokens[classes[v]]] = v
            tokens[classes[v]] += 1
        largest = max(largest, tokens[classes[v]])
    return source[:count].copy(), target[:count].copy()
