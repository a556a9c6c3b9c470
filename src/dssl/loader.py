"""Graph -> batches: the whole graph at once, or centre nodes with sampled neighbours (Algorithm 1 of the paper).

A batch is a small graph of its own, so that every encoder works on both kinds alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl import kernels, rng
from dssl.graph import Graph
from dssl.matrices import gcn_matrix, mean_matrix
from dssl.operators import Operator


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
    """

    x: Tensor | Operator
    adjacency: sparse.csr_array
    links: sparse.csr_array
    degrees: NDArray[np.float32]
    nodes: NDArray[np.int64]
    symmetric: bool
    device: torch.device

    @property
    def num_centres(self) -> int:
        """Number of centre nodes C."""
        return int(self.links.shape[0])

    @cached_property
    def gcn(self) -> Operator:
        """S = D̂^−½ (A + I) D̂^−½."""
        return Operator.build(gcn_matrix(self.adjacency, self.degrees), symmetric=self.symmetric, device=self.device)

    @cached_property
    def mean(self) -> Operator:
        """P = D^−1 A."""
        return Operator.build(mean_matrix(self.adjacency), symmetric=False, device=self.device)

    @cached_property
    def sum(self) -> Operator:
        """A itself."""
        return Operator.build(self.adjacency, symmetric=self.symmetric, device=self.device)

    @cached_property
    def neighbours(self) -> Operator:
        """The links with their weights: the mean over each centre's neighbours, shape ``(C, n)``."""
        return Operator.build(self.links, symmetric=False, device=self.device)

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
    return torch.from_numpy(np.array(x)).to(device)


def full_batch(graph: Graph, device: torch.device) -> Batch:
    """The whole graph as one batch; every node is a centre."""
    adjacency = graph.adjacency()
    links = mean_matrix(adjacency)
    nodes = np.arange(graph.num_nodes, dtype=np.int64)
    return Batch(features(graph.x, device), adjacency, links, degrees(graph), nodes, not graph.directed, device)


def degrees(graph: Graph) -> NDArray[np.float32]:
    """Sum of the weights of each node's links, shape ``(N,)``."""
    if graph.weights is None:
        return graph.degrees.astype(np.float32)
    return np.asarray(graph.adjacency().sum(axis=1), dtype=np.float32)


class Batches:
    """The batches of each epoch, for a method to hold: the batch of the whole graph is made once and kept."""

    def __init__(self) -> None:
        self._whole: tuple[Graph, Batch] | None = None

    def of(
        self,
        graph: Graph,
        *,
        batch_size: int,
        fanout: Sequence[int],
        layers: int,
        seed: int,
        epoch: int,
        device: torch.device,
    ) -> Iterator[Batch]:
        """Give the whole graph at once for a ``batch_size`` of 0, and else what `mini_batches` gives."""
        if batch_size:
            yield from mini_batches(
                graph, batch_size=batch_size, fanout=fanout, layers=layers, seed=seed, epoch=epoch, device=device
            )
            return
        if self._whole is None or self._whole[0] is not graph:
            self._whole = graph, full_batch(graph, device)
        yield self._whole[1]


def mini_batches(
    graph: Graph, *, batch_size: int, fanout: Sequence[int], layers: int, seed: int, epoch: int, device: torch.device
) -> Iterator[Batch]:
    """The batches of one epoch: each node is a centre once, in random order.

    Args:
        graph: the graph.
        batch_size: centres per batch.
        fanout: neighbours sampled of a centre, of its neighbours, and so on; the last number holds further out.
            At least the largest degree means all.
        layers: steps of message passing of the encoder, each of which adds a ring of sampled neighbours.
        seed: seed of the run.
        epoch: number of the epoch; the same epoch gives the same batches in any process.
        device: where tensors live.
    """
    order = rng.stream(seed, "loader", epoch).permutation(graph.num_nodes)
    draw = rng.integer(seed, "neighbours", epoch) >> 1
    totals = degrees(graph)
    for begin in range(0, graph.num_nodes, batch_size):
        yield sampled_batch(graph, totals, order[begin : begin + batch_size], fanout, layers, draw, device)


def sampled_batch(
    graph: Graph,
    totals: NDArray[np.float32],
    centres: NDArray[np.int64],
    fanout: Sequence[int],
    layers: int,
    seed: int,
    device: torch.device,
) -> Batch:
    """The batch of some centres, their sampled neighbours and the rings around them that the encoder needs.

    A sampled arc stands for degree/fanout arcs of its row and is weighted so; with a fanout of all neighbours
    the centres' vectors are those of the whole graph.
    """
    place = np.full(graph.num_nodes, -1, np.int64)
    place[centres] = np.arange(centres.size)
    nodes = centres
    rows, columns, weights = [], [], []
    frontier = centres
    links = None
    for ring in range(layers + 1):
        most = fanout[min(ring, len(fanout) - 1)]
        pointers, arcs = kernels.sample_neighbours(graph.indptr, frontier, most, seed)
        found = graph.indices[arcs].astype(np.int64)
        strengths = np.ones(arcs.size, np.float32) if graph.weights is None else graph.weights[arcs]
        new = np.unique(found[place[found] < 0])
        place[new] = np.arange(nodes.size, nodes.size + new.size)
        taken = np.diff(pointers)
        share = graph.degrees[frontier] / np.maximum(taken, 1)
        rows.append(np.repeat(place[frontier], taken))
        columns.append(place[found])
        weights.append(strengths * np.repeat(share, taken).astype(np.float32))
        nodes = np.concatenate([nodes, new])
        if links is None:
            links = (strengths, place[found], pointers)
        frontier = new
    assert links is not None
    n = nodes.size
    start, end, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(weights)
    adjacency = sparse.csr_array((value, (start, end)), shape=(n, n))
    wanted = sparse.csr_array(links, shape=(centres.size, n))
    x = None if graph.x is None else graph.x[nodes]
    return Batch(features(x, device), adjacency, mean_matrix(wanted), totals[nodes], nodes, False, device)
