"""Random walks, and skip-gram with negative sampling along them: compiled loops that follow from a seed alone.

Each walk draws from a separate counter-based stream, named by the seed and its start, so that walks are the same in
any order and in batches of any size. Skip-gram goes through the walks one after another, as word2vec does with one
thread: parallel updates of shared rows would end elsewhere in each run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.kernels.arcs import place
from dssl.kernels.compile import Floats, Indices, Indptr, compiled_fast
from dssl.kernels.csr import GOLDEN, mix


class Links(NamedTuple):
    """The links that walks follow.

    Args:
        indptr: row pointers, shape ``(N + 1,)``.
        indices: ends of the links.
        heaps: `running_sums` of their weights; empty where all weigh the same.
    """

    indptr: Indptr
    indices: Indices
    heaps: NDArray[np.float64]


class Draws(NamedTuple):
    """An alias table: a position with a given probability in constant time.

    Args:
        chance: of each slot to stand for its own position, shape ``(N,)``.
        alias: the position that it stands for otherwise, shape ``(N,)``.
    """

    chance: NDArray[np.float64]
    alias: NDArray[np.int64]

    @classmethod
    def of(cls, weights: NDArray[np.floating]) -> Draws:
        """Make the table for probabilities in proportion to weights, shape ``(N,)``; all zero counts as uniform."""
        total = float(weights.sum())
        even = np.full(len(weights), 1 / max(len(weights), 1))
        return cls(*_alias(np.asarray(weights, np.float64) / total if total > 0 else even))


def walks(
    graph: Graph, starts: NDArray[np.int64], length: int, seed: int, *, p: float = 1.0, q: float = 1.0
) -> NDArray[np.int32]:
    """Walk from each start, along links in proportion to their weights.

    Args:
        graph: the graph.
        starts: positions to start from, shape ``(W,)``.
        length: steps of each walk.
        seed: below 2**63; a walk follows from it and its start.
        p: how much less likely it is to go straight back (node2vec).
        q: how much less likely it is to go to a node that is not a neighbour of the one before.

    Returns:
        Positions, shape ``(W, length + 1)``; −1 after a node without links, or with none that weighs anything.
    """
    heaps = np.zeros(0) if graph.weights is None else running_sums(graph.indptr, graph.weights)
    links = Links(graph.indptr, graph.indices, heaps)
    return _walks(links, starts.astype(np.int64), length, np.uint64(seed), p, q)


def running_sums(indptr: NDArray[np.int64], weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Running sums of weights that add up to one in each row, however small they are there."""
    filled = np.diff(indptr) > 0
    totals = np.ones(len(indptr) - 1)
    if len(weights):
        totals[filled] = np.add.reduceat(np.asarray(weights, np.float64), indptr[:-1][filled])
        totals[totals <= 0] = 1.0  # a row of links that weigh nothing
    sums: NDArray[np.float64] = np.cumsum(weights / np.repeat(totals, np.diff(indptr)), dtype=np.float64)
    return sums


@compiled_fast
def _unit(state: np.uint64) -> float:
    """A number within [0, 1)."""
    return float(mix(state) >> np.uint64(11)) / 9007199254740992.0


@compiled_fast
def _below(state: np.uint64, bound: Any) -> Any:
    return np.int64(mix(state) % np.uint64(bound))


@compiled_fast
def _neighbour(links: Links, node: Any, state: np.uint64) -> Any:
    """A random neighbour, in proportion to the weights."""
    indptr, indices, heaps = links
    begin, end = indptr[node], indptr[node + 1]
    if heaps.shape[0] == 0:
        return indices[begin + _below(state, end - begin)]
    low = heaps[begin - 1] if begin > 0 else 0.0
    at = np.searchsorted(heaps[begin:end], low + _unit(state) * (heaps[end - 1] - low), side="right")
    return indices[begin + min(at, end - begin - 1)]


@compiled_fast
def _leads_on(links: Links, node: Any) -> Any:
    """Whether a walk can leave a node: it has links, and some weigh more than nothing."""
    indptr, _, heaps = links
    begin, end = indptr[node], indptr[node + 1]
    if begin == end or heaps.shape[0] == 0:
        return begin < end
    return heaps[end - 1] > (heaps[begin - 1] if begin > 0 else 0.0)


@compiled_fast
def _walks(
    links: Links, starts: NDArray[np.int64], length: int, seed: np.uint64, p: float, q: float
) -> NDArray[np.int32]:
    indptr, indices, _ = links
    out = np.full((starts.shape[0], length + 1), -1, np.int32)
    plain = p == 1.0 and q == 1.0
    most = max(1.0, 1.0 / p, 1.0 / q)
    for w in range(starts.shape[0]):
        node = starts[w]
        before = np.int64(-1)
        out[w, 0] = node
        state = mix(seed * GOLDEN + np.uint64(node) + np.uint64(1))
        for step in range(length):
            if not _leads_on(links, node):
                break
            state += GOLDEN
            chosen = np.int64(_neighbour(links, node, state))
            while not plain and before >= 0 and indptr[node] + 1 < indptr[node + 1]:
                # Rejection: no table of all pairs of links is needed.
                if chosen == before:
                    bias = 1.0 / p
                elif place(indptr, indices, before, chosen) >= 0:
                    bias = 1.0
                else:
                    bias = 1.0 / q
                state += GOLDEN
                if _unit(state) * most < bias:
                    break
                state += GOLDEN
                chosen = np.int64(_neighbour(links, node, state))
            before, node = node, chosen
            out[w, step + 1] = node
    return out


@compiled_fast
def layered_walks(
    links: Links,
    upward: NDArray[np.float64],
    starts: NDArray[np.int64],
    length: int,
    stay: float,
    seed: np.uint64,
) -> NDArray[np.int32]:
    """Walk through several layers of links among the same nodes; a change of layer is not a step of the walk.

    Args:
        links: those of all layers, one after another: node i of layer k is row k · N + i; their ends are nodes.
        upward: chance to change to the layer above rather than below, shape ``(layers, N)``; a layer in which the node
            has no links is not entered.
        starts: nodes to start from, in the lowest layer, shape ``(W,)``.
        length: steps within layers.
        stay: chance to stay in the layer, above 0.
        seed: a walk follows from it and its start.

    Returns:
        Nodes, shape ``(W, length + 1)``; −1 after a node without links.
    """
    indptr = links.indptr
    layers, n = upward.shape
    out = np.full((starts.shape[0], length + 1), -1, np.int32)
    for w in range(starts.shape[0]):
        node, layer, step = starts[w], 0, 0
        out[w, 0] = node
        state = mix(seed * GOLDEN + np.uint64(node) + np.uint64(1))
        while step < length:
            row = layer * n + node
            if indptr[row] == indptr[row + 1]:
                break
            state += GOLDEN
            if _unit(state) < stay:
                state += GOLDEN
                node = np.int64(_neighbour(links, row, state))
                step += 1
                out[w, step] = node
                continue
            state += GOLDEN
            above = layer + 1 < layers and indptr[row + n] < indptr[row + n + 1]
            if above and (layer == 0 or _unit(state) < upward[layer, node]):
                layer += 1
            elif layer > 0:
                layer -= 1
    return out


@compiled_fast
def _alias(probabilities: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    n = probabilities.shape[0]
    chance = probabilities * n
    alias = np.arange(n)
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    s, m = 0, 0
    for i in range(n):
        if chance[i] < 1.0:
            small[s] = i
            s += 1
        else:
            large[m] = i
            m += 1
    while s > 0 and m > 0:
        s -= 1
        poor, rich = small[s], large[m - 1]
        alias[poor] = rich
        chance[rich] -= 1.0 - chance[poor]
        if chance[rich] < 1.0:
            m -= 1
            small[s] = rich
            s += 1
    for i in range(s):
        chance[small[i]] = 1.0
    return chance, alias


@compiled_fast
def _draw(table: Draws, state: np.uint64) -> Any:
    slot = _below(state, table.chance.shape[0])
    return slot if _unit(state + np.uint64(0x632BE59BD9B4E019)) < table.chance[slot] else table.alias[slot]


@compiled_fast
def _pair(
    vectors: Floats,
    outputs: Floats,
    i: Any,
    o: Any,
    others: Draws,
    negatives: int,
    rate: float,
    state: np.uint64,
    change: Floats,
) -> float:
    """One step of −log σ(v_i·u_o) − Σ log σ(−v_i·u_n) over drawn n; returns the loss before it."""
    loss = 0.0
    change[:] = np.float32(0)
    for k in range(negatives + 1):
        target = o
        if k > 0:
            target = _draw(others, state + np.uint64(k) * GOLDEN)
            if target == o:
                continue
        score = np.float32(0)
        for d in range(change.shape[0]):
            score += vectors[i, d] * outputs[target, d]
        wanted = np.float32(1.0 if k == 0 else 0.0)
        found = np.float32(1.0) / (np.float32(1.0) + np.exp(-score))
        loss -= np.log(max(found if k == 0 else np.float32(1) - found, np.float32(1e-12)))
        step = np.float32(rate) * (wanted - found)
        for d in range(change.shape[0]):
            change[d] += step * outputs[target, d]
            outputs[target, d] += step * vectors[i, d]
    for d in range(change.shape[0]):
        vectors[i, d] += change[d]
    return loss


@compiled_fast
def train_walks(
    paths: NDArray[np.int32],
    vectors: Floats,
    outputs: Floats,
    others: Draws,
    window: int,
    negatives: int,
    rate: float,
    seed: np.uint64,
) -> tuple[float, int]:
    """Go through walks once, updating both tables in place; return the summed loss and the number of pairs.

    As in word2vec, the window of each position is drawn from 1 … ``window``, so that near nodes count more.

    Args:
        paths: positions, −1 after the end, shape ``(W, L)``.
        vectors: table of vectors, shape ``(N, d)``.
        outputs: table of the nodes as contexts, shape ``(N, d)``.
        others: table of the negatives.
        window: largest distance along a walk.
        negatives: draws per pair.
        rate: step size.
        seed: of windows and negatives; those of a walk follow from it and the start of the walk.
    """
    change = np.empty(vectors.shape[1], np.float32)
    loss, pairs = 0.0, 0
    for w in range(paths.shape[0]):
        state = mix(seed * GOLDEN + np.uint64(paths[w, 0]) + np.uint64(1))
        length = paths.shape[1]
        while length > 0 and paths[w, length - 1] < 0:
            length -= 1
        for t in range(length):
            state += GOLDEN
            reach = 1 + _below(state, window)
            for s in range(max(0, t - reach), min(length, t + reach + 1)):
                if s != t:
                    state = mix(state + GOLDEN)
                    loss += _pair(vectors, outputs, paths[w, t], paths[w, s], others, negatives, rate, state, change)
                    pairs += 1
    return loss, pairs


@compiled_fast
def train_pairs(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    vectors: Floats,
    outputs: Floats,
    others: Draws,
    negatives: int,
    rate: float,
    seed: np.uint64,
) -> float:
    """As `train_walks`, for pairs that are given; both tables may be the same. Returns the summed loss."""
    change = np.empty(vectors.shape[1], np.float32)
    state = mix(seed * GOLDEN)
    loss = 0.0
    for e in range(start.shape[0]):
        state = mix(state + GOLDEN)
        loss += _pair(vectors, outputs, start[e], end[e], others, negatives, rate, state, change)
    return loss


@compiled_fast
def draw(table: Draws, count: int, seed: np.uint64) -> NDArray[np.int64]:
    """Draw ``count`` positions of a table."""
    out = np.empty(count, np.int64)
    state = mix(seed * GOLDEN)
    for e in range(count):
        state += GOLDEN
        out[e] = _draw(table, state)
    return out
