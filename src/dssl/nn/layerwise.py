"""The vectors of all nodes of a large graph, layer by layer: nothing is sampled, and memory is bounded.

A layer is computed for all nodes before the next one begins, so that each node is computed once per layer, however many
neighbours it has. Large matrices with a row per node lie in scratch files; blocks of rows, or a few columns, are in
memory. Up to rounding the vectors are those of the whole graph at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl.graph import Graph
from dssl.graph.adjacency import Averages, columns_at_once, degrees
from dssl.nn.batches import ALL, features, sampled_batch
from dssl.nn.encoders import Dense, Encoder, Hops, Stack
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
NODES, ARCS = 8192, 1 << 18  # of a part of the nodes with their neighbours, at most
RINGS = 256  # nodes at a time for a user's encoder, whose layers are not accessible


def encoded(encoder: Encoder, graph: Graph, device: torch.device) -> Floats:
    """Return the encoder's output for each node, outside training, shape ``(N, dim)``.

    Args:
        encoder: the encoder; a user's module counts as one layer of all its hops.
        graph: the graph, with features.
        device: where the encoder is.
    """
    assert graph.x is not None
    encoder.eval()
    with torch.no_grad():
        if isinstance(encoder, Hops):
            return _hops(encoder, graph, device)
        if isinstance(encoder, Stack):
            return _layers(encoder, graph, device)
        return _whole(encoder, graph, device)


def mapped(function: Callable[[Tensor], Tensor], x: Floats | sparse.csr_array | None, device: torch.device) -> Floats:
    """Return a function of each row of a matrix with N rows, by blocks of rows, shape ``(N, …)``."""
    assert x is not None
    blocks = ((begin, function(cast(Tensor, features(block, device)))) for begin, block in _row_blocks(x))
    return _joined(x.shape[0], blocks)


def _joined(rows: int, blocks: Iterable[tuple[int, Tensor]]) -> Floats:
    """The matrix with so many rows whose blocks are given with the first row of each."""
    out: Floats | None = None
    for begin, block in blocks:
        out = out_of_core.matrix((rows, block.shape[1])) if out is None else out
        out[begin : begin + len(block)] = block.cpu().numpy()
        out_of_core.drop(out)
    assert out is not None
    return out


def parts(graph: Graph) -> Iterator[NDArray[np.int64]]:
    """Positions of the nodes in order, in parts with few nodes and few neighbours."""
    begin = 0
    while begin < graph.num_nodes:
        end = int(np.searchsorted(graph.indptr, graph.indptr[begin] + ARCS, side="right")) - 1
        end = min(max(end, begin + 1), begin + NODES, graph.num_nodes)
        yield np.arange(begin, end)
        begin = end


def _layers(encoder: Stack, graph: Graph, device: torch.device) -> Floats:
    totals = degrees(graph)
    h: Floats | sparse.csr_array | None = graph.x
    for number, layer in enumerate(encoder.layers):
        after = encoder.between[number] if number < len(encoder.between) else torch.nn.Identity()
        table = mapped(partial(encoder.own, layer), h, device)
        if not encoder.hops:
            h = mapped(after, table, device)
            continue
        batches = (sampled_batch(graph, totals, nodes, (ALL,), 0, 0, device, table) for nodes in parts(graph))
        mixed = ((batch, encoder.mixed(layer, cast(Tensor, batch.x), batch)) for batch in batches)
        h = _joined(graph.num_nodes, ((int(b.nodes[0]), after(found[: b.num_centres])) for b, found in mixed))
    return cast(Floats, h)


def _hops(encoder: Hops, graph: Graph, device: torch.device) -> Floats:
    """By P^l (X W + 1 b), a few columns of W at a time."""
    links = Averages(graph)
    blocks = [(hop, cast(Dense, block)) for hop, block in enumerate(encoder.blocks)]
    width = blocks[0][1].weight.shape[1]
    if encoder.difference is not None:
        blocks.append((-1, encoder.difference))
    hidden = out_of_core.matrix((graph.num_nodes, width * len(blocks)))
    step = columns_at_once(graph.num_nodes)
    for at, (hop, block) in enumerate(blocks):
        for left in range(0, width, step):
            weight = block.weight[:, left : left + step]
            bias = weight.new_zeros(weight.shape[1]) if block.bias is None else block.bias[left : left + step]
            slab = np.empty((graph.num_nodes, weight.shape[1]), np.float32)
            for begin, rows in _row_blocks(graph.x):
                found = features(rows, device) @ weight + bias
                slab[begin : begin + len(found)] = found.cpu().numpy()
            for _ in range(max(hop, 0)):
                slab = links.mean(slab)
            if hop < 0:
                slab -= links.mean(slab)
            out_of_core.put_columns(hidden, at * width + left, slab)
    return mapped(lambda h: encoder.joined(list(h.chunk(len(blocks), dim=1))), hidden, device)


def _row_blocks(x: Floats | sparse.csr_array | None) -> Iterator[tuple[int, Floats | sparse.csr_array]]:
    if isinstance(x, np.ndarray):
        yield from out_of_core.blocks(x)
        return
    assert x is not None
    for begin in range(0, x.shape[0], 1 << 15):
        yield begin, x[begin : begin + (1 << 15)]


def _whole(encoder: Encoder, graph: Graph, device: torch.device) -> Floats:
    """A few nodes at a time with all neighbours that their vectors depend on: exact, and slow on dense graphs."""
    totals, every = degrees(graph), np.arange(graph.num_nodes)
    groups = (every[begin : begin + RINGS] for begin in range(0, graph.num_nodes, RINGS))
    batches = (sampled_batch(graph, totals, nodes, (ALL,), encoder.hops, 0, device) for nodes in groups)
    return _joined(graph.num_nodes, ((int(b.nodes[0]), encoder(b)[: b.num_centres]) for b in batches))
