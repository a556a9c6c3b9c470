"""Views of a batch: pure functions that return a new batch and leave the given one unchanged.

Random numbers come from torch's generator, which the training loop seeds for each epoch. A hash of the two ends decides
whether a link is dropped, so that both directions of an undirected link are dropped or neither. A view keeps the nodes
and their order: a dropped node loses its links and its features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl.nn.batches import Batch
from dssl.nn.operators import Filled, Operator

_SHARED = ("gcn", "mean", "normalised", "sum", "edge_index")


def shuffle_features(batch: Batch) -> Batch:
    """Permute the features between nodes; the links stay."""
    order = torch.randperm(batch.x.shape[0])
    x = batch.x
    return with_features(batch, x.take_rows(order) if isinstance(x, Operator) else x[order.to(x.device)])


def mask_columns(batch: Batch, rates: float | Tensor) -> Batch:
    """Set random columns of the features to zero, each for all nodes.

    Args:
        batch: the batch.
        rates: probability of each column to be masked, shape ``(F,)``, or one for all.
    """
    kept = (torch.rand(batch.x.shape[1]) >= rates).float().to(batch.device)
    x = batch.x
    return with_features(batch, x.scaled(columns=kept) if isinstance(x, Operator) else x * kept)


def mask_nodes(batch: Batch, rate: float) -> Batch:
    """Set all features of random nodes to zero."""
    return _without_features(batch, torch.rand(len(batch.nodes)) < rate)


def drop_features(batch: Batch, rate: float) -> Batch:
    """Set random entries of the features to zero and divide the others by ``1 − rate``, as dropout does."""
    x = batch.x
    return with_features(batch, x.dropped(rate) if isinstance(x, Operator) else F.dropout(x, rate))


def replace_rows(batch: Batch, *, hidden: Tensor, token: Tensor, swapped: Tensor, donors: Tensor) -> Batch:
    """Replace the features of some nodes by one learnable row, and those of others by another node's.

    Args:
        batch: the batch.
        hidden: positions of the nodes whose features become the token, shape ``(m,)``.
        token: the learnable row, shape ``(F,)``.
        swapped: positions of the nodes whose features become those of a donor, shape ``(s,)``.
        donors: positions of the donors, shape ``(s,)``.
    """
    n = len(batch.nodes)
    order, at = torch.arange(n), torch.zeros(n)
    order[swapped], at[hidden] = donors, 1.0
    x, order, at = batch.x, order.to(batch.device), at.to(batch.device)
    if isinstance(x, Operator):
        kept = x.take_rows(order).scaled(rows=1 - at)
        return with_features(batch, Filled(kept.matrix, kept.shape, symmetric=False, at=at, row=token))
    return with_features(batch, (1 - at)[:, None] * x.index_select(0, order) + at[:, None] * token)


def drop_links(batch: Batch, rates: float | NDArray[np.floating]) -> Batch:
    """Leave out random links.

    Args:
        batch: the batch.
        rates: probability of each link to be left out, in the order of ``adjacency.data``, or one for all.
    """
    return _keep_links(batch, _uniform(batch) >= rates)


def perturb_links(batch: Batch, rate: float) -> Batch:
    """Leave out random links and put as many random ones in."""
    fewer = drop_links(batch, rate)
    n = len(batch.nodes)
    count = round((batch.adjacency.nnz - fewer.adjacency.nnz) / (2 if batch.symmetric else 1))
    if not count:
        return fewer
    start, end = torch.randint(n, (2, count)).numpy()
    if batch.symmetric:
        start, end = np.concatenate([start, end]), np.concatenate([end, start])
    added = sparse.csr_array((np.ones(len(start), np.float32), (start, end)), shape=(n, n))
    more = np.asarray(added.sum(axis=1), np.float32)
    return replace(fewer, adjacency=sparse.csr_array(fewer.adjacency + added), degrees=fewer.degrees + more)


def drop_nodes(batch: Batch, rate: float) -> Batch:
    """Remove the links and features of random nodes."""
    return _isolate(batch, torch.rand(len(batch.nodes)) < rate)


def subgraph(batch: Batch, rate: float) -> Batch:
    """Keep a connected part with a fraction ``1 − rate`` of the nodes: rings around a random node.

    Where a component ends before that, another random node starts the next part.
    """
    n = len(batch.nodes)
    wanted = max(round((1 - rate) * n), 1)
    kept = np.zeros(n, bool)
    for start in torch.randperm(n).numpy():
        ring = np.array([start])
        while kept.sum() < wanted and len(ring):
            ring = ring[~kept[ring]]
            if len(ring) > wanted - kept.sum():
                ring = ring[torch.randperm(len(ring)).numpy()[: wanted - kept.sum()]]
            kept[ring] = True
            ring = np.unique(batch.adjacency[ring].indices)
        if kept.sum() >= wanted:
            break
    return _isolate(batch, torch.from_numpy(~kept))


VIEWS: dict[str, Callable[[Batch, float], Batch]] = {
    "none": lambda batch, _: batch,
    "node": drop_nodes,
    "link": perturb_links,
    "mask": mask_nodes,
    "subgraph": subgraph,
}


def _uniform(batch: Batch) -> NDArray[np.float64]:
    """A random number within [0, 1) of each link, the same in both directions, shape ``(A,)``."""
    seed = np.uint64(int(torch.randint(2**62, ())))
    rows, columns = (side.astype(np.uint64) for side in batch.ends)
    state = np.minimum(rows, columns) * np.uint64(0x9E3779B97F4A7C15) + np.maximum(rows, columns) + seed
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    uniform: NDArray[np.float64] = ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return uniform


def _keep_links(batch: Batch, kept: NDArray[np.bool_]) -> Batch:
    """The batch with some of its links; degrees shrink by the fraction of a node's links in the batch that is kept."""
    old = batch.adjacency
    indptr = np.concatenate([[0], np.cumsum(kept)])[old.indptr]
    adjacency = sparse.csr_array((old.data[kept], old.indices[kept], indptr), shape=old.shape)
    before, after = (np.asarray(matrix.sum(axis=1), np.float32) for matrix in (old, adjacency))
    share = np.divide(after, before, out=np.full_like(before, kept.mean() if len(kept) else 1), where=before > 0)
    return replace(batch, adjacency=adjacency, degrees=batch.degrees * share)


def _isolate(batch: Batch, gone: Tensor) -> Batch:
    away = gone.numpy()
    rows = np.repeat(away, np.diff(batch.adjacency.indptr))
    return _without_features(_keep_links(batch, ~(rows | away[batch.adjacency.indices])), gone)


def _without_features(batch: Batch, gone: Tensor) -> Batch:
    kept = (~gone).float().to(batch.device)
    x = batch.x
    return with_features(batch, x.scaled(rows=kept) if isinstance(x, Operator) else x * kept[:, None])


def with_features(batch: Batch, x: Tensor | Operator) -> Batch:
    """The batch with other features; the matrices that were made of its links are shared."""
    view = replace(batch, x=x)
    view.__dict__.update({name: value for name, value in batch.__dict__.items() if name in _SHARED})
    return view
