"""Graph -> batches: the whole graph at once, or centre nodes with sampled neighbours (Algorithm 1 of the paper).

A batch is a small graph, so that every encoder works on both kinds. An encoder that uses links only through averages of
its inputs over neighbours gets these averages precomputed for all nodes; a batch then has the centres and their
neighbours alone, and nothing else is sampled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees, gcn_matrix, hop_features, mean_matrix, normalised_matrix
from dssl.kernels import csr
from dssl.kernels.id_table import IntegerTable
from dssl.nn.operators import Operator
from dssl.runtime import distributed, out_of_core

_Item = TypeVar("_Item")
ALL = 2**31 - 1  # a fanout of all neighbours


@dataclass(frozen=True, eq=False)
class Batch:
    """A (sub)graph of n nodes, of which the first C are centres.

    Args:
        x: features, shape ``(n, F)``: a tensor, or an `Operator` where they are sparse.
        adjacency: (sampled) links between the n nodes, for the encoder, shape ``(n, n)``.
        links: from each centre to its (sampled) neighbours, in local positions, shape ``(C, n)``; the values
            are the weights 1/|N(i)| of the paper's average, or in proportion to link weights.
        degrees: (weighted) degree of each node in the whole graph, shape ``(n,)``.
        nodes: position of each node in the whole graph, shape ``(n,)``.
        symmetric: whether the adjacency is.
        device: where tensors live.
        averages: rows of `dssl.graph.adjacency.hop_features` for the n nodes, shape ``(n, hops · (F + 1))``, or none.
        loop: weight of a node's link to itself in `gcn`.
    """

    x: Tensor | Operator
    adjacency: sparse.csr_array
    links: sparse.csr_array
    degrees: NDArray[np.float32]
    nodes: NDArray[np.int64]
    symmetric: bool
    device: torch.device
    averages: Tensor | None = None
    loop: float = 1.0

    @property
    def num_centres(self) -> int:
        """Number of centre nodes C."""
        return int(self.links.shape[0])

    @property
    def centres(self) -> Batch:
        """The nodes that an encoder needs for the vectors of the centres: the centres if averages are known, or all."""
        if self.averages is None or not isinstance(self.x, Tensor):
            return self
        count = self.num_centres
        return replace(self, x=self.x[:count], averages=self.averages[:count], nodes=self.nodes[:count])

    @property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions in the whole graph of both ends of each link, in the order of ``adjacency.data``, ``(A,)``."""
        coo = self.adjacency.tocoo(copy=False)
        return self.nodes[coo.row], self.nodes[coo.col]

    @cached_property
    def gcn(self) -> Operator:
        """S = D̂^−½ (A + I) D̂^−½, with I times the weight of a loop."""
        matrix = gcn_matrix(self.adjacency, self.degrees, loop=self.loop)
        return Operator.build(matrix, symmetric=self.symmetric, device=self.device)

    @cached_property
    def mean(self) -> Operator:
        """P = D^−1 A."""
        return Operator.build(mean_matrix(self.adjacency), symmetric=False, device=self.device)

    @cached_property
    def normalised(self) -> Operator:
        """D^−½ A D^−½, by the row and column sums of the batch's own adjacency: its norm is at most 1."""
        return Operator.build(normalised_matrix(self.adjacency), symmetric=self.symmetric, device=self.device)

    @cached_property
    def sum(self) -> Operator:
        """A itself."""
        return Operator.build(self.adjacency, symmetric=self.symmetric, device=self.device)

    @cached_property
    def edge_index(self) -> Tensor:
        """The adjacency in PyG's form, from neighbour to node, shape ``(2, A)``."""
        coo = self.adjacency.tocoo()
        return torch.from_numpy(np.stack([coo.col, coo.row]).astype(np.int64)).to(self.device)


def features(x: NDArray[np.float32] | sparse.csr_array | None, device: torch.device) -> Tensor | Operator:
    """Take features to ``device``; sparse ones stay sparse."""
    if isinstance(x, sparse.csr_array):
        return Operator.build(x, symmetric=False, device=device)
    # torch warns of arrays that it could write to; the graph's are read-only and nothing here writes.
    return torch.from_numpy(x if x is not None and x.flags.writeable else np.array(x)).to(device)


def full_batch(graph: Graph, device: torch.device) -> Batch:
    """The whole graph as one batch; every node is a centre."""
    adjacency = graph.adjacency()
    links = mean_matrix(adjacency)
    nodes = np.arange(graph.num_nodes, dtype=np.int64)
    return Batch(features(graph.x, device), adjacency, links, degrees(graph), nodes, not graph.directed, device)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the batches of an epoch are drawn.

    Args:
        batch_size: centres per batch; 0 takes the whole graph at once.
        fanout: neighbours sampled of a centre, of its neighbours, and so on; the last number holds further out.
            At least the largest degree means all.
        seed: seed of the run.
        epoch: number of the epoch; the same epoch gives the same batches in any process.
        device: where tensors live.
    """

    batch_size: int
    fanout: Sequence[int]
    seed: int
    epoch: int
    device: torch.device


class Loader:
    """The batches of each epoch; the batch of the whole graph and its averages are computed once and kept."""

    def __init__(self) -> None:
        self._whole, self._averages = lru_cache(maxsize=1)(full_batch), lru_cache(maxsize=1)(hop_features)

    def epoch(self, graph: Graph, sampling: Sampling, *, layers: int, averages: int = 0) -> Iterator[Batch]:
        """Return the whole graph at once for a ``batch_size`` of 0, and otherwise prefetched `mini_batches`.

        Args:
            graph: the graph.
            sampling: how the batches are drawn.
            layers: see `mini_batches`.
            averages: how many averages over neighbours the encoder takes in place of layers of links, or 0. They are
                computed before the first batch, for dense features.
        """
        if not sampling.batch_size:
            yield self._whole(graph, sampling.device)
            return
        table = None
        if averages and isinstance(graph.x, np.ndarray):
            table, layers = self._averages(graph, averages), 0
        yield from prefetched(mini_batches(graph, sampling, layers=layers, averages=table))


def prefetched(batches: Iterator[_Item]) -> Iterator[_Item]:
    """Prepare the next two batches in a thread while the current one is in use: the same ones, in the same order.

    An error in the thread is raised where its batch would have come. When the iterator is closed, so is the thread.

    Args:
        batches: the batches; only the thread may use it from now on.

    >>> list(prefetched(iter("abc")))
    ['a', 'b', 'c']
    """
    end, thread = object(), ThreadPoolExecutor(1, "dssl batches")
    waiting = deque(thread.submit(next, batches, end) for _ in range(2))
    try:
        while (item := waiting.popleft().result()) is not end:
            waiting.append(thread.submit(next, batches, end))
            yield cast(_Item, item)
            del item  # otherwise it stays in memory while the next one is awaited
    finally:
        thread.shutdown(cancel_futures=True)


def mini_batches(
    graph: Graph, sampling: Sampling, *, layers: int, averages: NDArray[np.float32] | None = None
) -> Iterator[Batch]:
    """The batches of one epoch, or this process's parts of them: each node is a centre once, in random order.

    Args:
        graph: the graph.
        sampling: how the batches are drawn.
        layers: steps of message passing of the encoder, each of which adds a ring of sampled neighbours.
        averages: `hop_features` of all nodes, of which a batch gets the rows of its nodes.
    """
    seed, epoch, size, device = sampling.seed, sampling.epoch, sampling.batch_size, sampling.device
    order = rng.stream(seed, "loader", epoch).permutation(graph.num_nodes)
    draw = rng.integer(seed, "neighbours", epoch) >> 1
    totals = degrees(graph)
    for begin in range(0, graph.num_nodes, size):
        centres = distributed.part(order[begin : begin + size])
        batch = sampled_batch(graph, totals, centres, sampling.fanout, layers, draw, device)
        if averages is not None:
            known = torch.from_numpy(out_of_core.rows(averages, batch.nodes)).to(device)
            batch = replace(batch, averages=known)
        yield batch


def sampled_batch(
    graph: Graph,
    totals: NDArray[np.float32],
    centres: NDArray[np.int64],
    fanout: Sequence[int],
    layers: int,
    seed: int,
    device: torch.device,
    x: NDArray[np.float32] | sparse.csr_array | None = None,
) -> Batch:
    """The batch of some centres, their sampled neighbours and the rings around them that the encoder needs.

    A sampled arc stands for degree/fanout arcs of its row and is weighted so; with a fanout of all neighbours
    the centres' vectors are those of the whole graph. The time depends on the batch, not on the graph.

    Args:
        graph: the graph.
        totals: (weighted) degree of each node.
        centres: positions of the centres, each once.
        fanout: see `Sampling`.
        layers: see `mini_batches`.
        seed: of the draws.
        device: where tensors live.
        x: features of all nodes in place of the graph's.
    """
    places = IntegerTable()
    places.add(pa.array(centres))
    rows, columns, weights = [], [], []
    frontier = centres
    links = None
    for ring in range(layers + 1):
        most = fanout[min(ring, len(fanout) - 1)]
        pointers, arcs = csr.sample_neighbours(graph.indptr, frontier, most, seed)
        found = graph.indices[arcs]
        strengths = np.ones(arcs.size, np.float32) if graph.weights is None else graph.weights[arcs]
        before = len(places)
        place = places.add(pa.array(found.astype(np.int64)))
        taken = np.diff(pointers)
        share = (graph.indptr[frontier + 1] - graph.indptr[frontier]) / np.maximum(taken, 1)
        rows.append(np.repeat(np.arange(before - frontier.size, before), taken))  # the last ones that were added
        columns.append(place)
        weights.append(strengths * np.repeat(share, taken).astype(np.float32))
        if links is None:
            links = (strengths, place, pointers)
        frontier = places.ids().to_numpy()[before:]
    assert links is not None
    nodes = places.ids().to_numpy().copy()
    n = nodes.size
    start, end, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(weights)
    adjacency = sparse.csr_array((value, (start, end)), shape=(n, n))
    wanted = sparse.csr_array(links, shape=(centres.size, n))
    chosen = graph.x if x is None else x
    assert chosen is not None
    own = out_of_core.rows(chosen, nodes) if isinstance(chosen, np.ndarray) else chosen[nodes]
    return Batch(features(own, device), adjacency, mean_matrix(wanted), totals[nodes], nodes, False, device)
