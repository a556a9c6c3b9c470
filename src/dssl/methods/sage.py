r"""GraphSAGE without labels.

Hamilton, Ying, Leskovec: *Inductive Representation Learning on Large Graphs*, NeurIPS 2017.

A node is pulled to one that a short random walk from it visits, and pushed from random nodes:

.. math::
    J(z_u) = -\log \sigma(z_u^\top z_v) - Q\, \mathbb{E}_{v_n \sim P_n} \log \sigma(-z_u^\top z_{v_n}) \tag{1}

with v drawn from a walk of five steps, P_n in proportion to degree^¾, and all vectors of length one.

Where we differ: each epoch draws one v ≠ u for each u, where the paper draws 50 walks per node once; vectors are scaled
to length one at the end, in Algorithm 1 after each layer. In mini-batches a batch has the drawn nodes as centres too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.methods._walks import Draws, draw, walks
from dssl.methods.base import EncoderMethod
from dssl.nn.batches import Batch, Sampling, sampled_batch
from dssl.nn.encoders import Encoder
from dssl.runtime import distributed


class Drawn(NamedTuple):
    """A batch with its random draws: u, v and the negatives as positions, shapes ``(m,)``, ``(m,)``, ``(m, Q)``."""

    batch: Batch
    u: Tensor
    v: Tensor
    negatives: Tensor


class UnsupervisedSAGE(EncoderMethod):
    """The loss of unsupervised GraphSAGE around an encoder.

    Args:
        encoder: the encoder.
        walk_length: steps of the walks.
        negatives: Q.
    """

    def __init__(self, encoder: Encoder, *, walk_length: int, negatives: int) -> None:
        super().__init__(encoder)
        self.walk_length, self.negatives = walk_length, negatives

    def finalize(self, h: Tensor) -> Tensor:
        """Return unit vectors, shape ``(n, dim)``."""
        return F.normalize(h, dim=1)

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Drawn]:
        """Give batches with a drawn partner for each node."""
        seed, epoch, size, device = sampling.seed, sampling.epoch, sampling.batch_size, sampling.device
        order = rng.stream(seed, "sage", epoch).permutation(graph.num_nodes)
        u, v = partners(graph, order, self.walk_length, rng.integer(seed, "sage walks", epoch))
        table = Draws.of(graph.degrees.astype(np.float64) ** 0.75)
        drawn = draw(table, len(u) * self.negatives, np.uint64(rng.integer(seed, "sage", epoch)))
        others = drawn.reshape(len(u), self.negatives)
        if not size:
            (whole,) = super().batches(graph, sampling)
            yield Drawn(whole, *(torch.from_numpy(part).to(device) for part in (u, v, others)))
            return
        draws, totals = rng.integer(seed, "neighbours", epoch) >> 1, degrees(graph)
        for begin in range(0, max(len(u), 1), size):
            parts = [distributed.part(part[begin : begin + size]) for part in (u, v, others)]
            centres = np.unique(np.concatenate([part.ravel() for part in parts])) if len(u) else order[:1]
            batch = sampled_batch(graph, totals, centres, sampling.fanout, self.encoder.hops, draws, device)
            places = (torch.from_numpy(np.searchsorted(centres, part)).to(device) for part in parts)
            yield Drawn(batch, *places)

    def forward(self, drawn: Drawn) -> Tensor:
        """Return the loss of a batch (Eq. 1, a mean over u)."""
        z = self.vectors(drawn.batch)
        loss = walk_loss(z, drawn.u, drawn.v, drawn.negatives)
        return self.note(len(drawn.u), loss, z)


def partners(
    graph: Graph, order: NDArray[np.int64], length: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each node that has links, in the given order, another node that a walk of up to ``length`` steps visits."""
    paths = walks(graph, order, length, seed >> 1)
    steps = rng.stream(seed, "steps").integers(1, length + 1, size=len(order))
    found = paths[np.arange(len(order)), steps].astype(np.int64)
    again = (found < 0) | (found == order)  # the walk ended before, or is back: its first step is a neighbour
    found[again] = paths[again, 1]
    known = (found >= 0) & (found != order)
    return order[known], found[known]


def walk_loss(z: Tensor, u: Tensor, v: Tensor, negatives: Tensor) -> Tensor:
    """Eq. 1, the mean over u, for positions of shapes ``(m,)``, ``(m,)`` and ``(m, Q)`` in z, ``(n, dim)``."""
    if not len(u):
        return 0 * z.sum()
    centres, others = z.index_select(0, u), z.index_select(0, negatives.flatten()).view(*negatives.shape, -1)
    pull = F.softplus(-(centres * z.index_select(0, v)).sum(dim=1)).mean()
    push = F.softplus((centres[:, None] * others).sum(dim=2)).sum(dim=1).mean()
    return pull + push
