r"""Asymmetric graph contrastive learning without augmentations (GraphACL).

Xiao, Zhu, Chen, Wang: *Simple and Asymmetric Graph Contrastive Learning without Augmentations*, NeurIPS 2023, by the
authors of DSSL.

A predictor g on a node's vector predicts its neighbours'. Two nodes with similar neighbours become similar, although
the neighbours may differ from them; random nodes are pushed apart:

.. math::
    \mathcal{L} = -\frac{1}{N} \sum_i \frac{1}{|N(i)|} \sum_{j \in N(i)}
        \log \frac{\exp(g(v_i)^\top u_j / \tau)}
        {\exp(g(v_i)^\top u_j / \tau) + \sum_{k} \exp(v_i^\top v_k / \tau)}

with v of the online encoder, u of its moving average (no gradient), all of length one. As in the authors' code, g is
linear, starts as torch's `Linear`, and i is among its own neighbours N(i), with a loop of weight one.

Where we differ: of more than ``negatives`` nodes, the sum over k is over so many random ones, new in each step
and the same for all i, and is scaled up to all. At most ``pairs`` links enter a step. Without ``own_neighbour``, a node
without links adds nothing.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.methods.base import EncoderMethod, follow, sampled_links
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.heads import draw_as_torch


class GraphACL(EncoderMethod):
    """The networks and the loss of GraphACL.

    Args:
        encoder: the online encoder.
        momentum: fraction of the target encoder kept in each step.
        temperature: τ of the contrast.
        predictor_layers: layers of g.
        own_neighbour: whether a node is among its own neighbours.
        negatives: nodes k per step, at most.
        pairs: links per step, at most.
    """

    augments = False

    def __init__(
        self,
        encoder: Encoder,
        *,
        momentum: float,
        temperature: float,
        predictor_layers: int,
        own_neighbour: bool,
        negatives: int,
        pairs: int,
    ) -> None:
        super().__init__(encoder)
        self.momentum, self.temperature, self.negatives, self.pairs = momentum, temperature, negatives, pairs
        self.own_neighbour = own_neighbour
        hidden = [part for _ in range(predictor_layers - 1) for part in (Dense(encoder.dim, encoder.dim), nn.ReLU())]
        self.predictor = nn.Sequential(*hidden, Dense(encoder.dim, encoder.dim))
        for layer in self.predictor:
            if isinstance(layer, Dense):
                draw_as_torch(layer)
        self.target = copy.deepcopy(encoder).requires_grad_(False)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        count = batch.num_centres
        h = self.encoder(batch)[:count]
        v = F.normalize(h, dim=1)
        with torch.no_grad():
            u = F.normalize(self.target(batch), dim=1)
        p = F.normalize(self.predictor(h), dim=1)
        links = sampled_links(batch, self.pairs)
        start, end, weights = with_loops(*links, batch) if self.own_neighbour else links
        others = torch.randperm(count)[: self.negatives].to(batch.device)
        loss = asymmetric(p, v, u, start, end, weights, others, self.temperature)
        return self.note(count, loss, h)

    def after_step(self) -> None:
        """Let the target follow the online encoder."""
        follow(self.target, self.encoder, self.momentum)


def with_loops(start: Tensor, end: Tensor, weights: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Add a link of weight one from each centre to itself; the weights of a centre sum to one, shapes ``(m,)``."""
    own = torch.arange(batch.num_centres, device=batch.device)
    degree = torch.from_numpy(batch.degrees[: batch.num_centres]).to(batch.device)
    share = 1 / (degree + 1)
    weights = torch.cat([weights * (1 - share).index_select(0, start), share])
    return torch.cat([start, own]), torch.cat([end, own]), weights


def asymmetric(
    p: Tensor, v: Tensor, u: Tensor, start: Tensor, end: Tensor, weights: Tensor, others: Tensor, temperature: float
) -> Tensor:
    """The loss, for links given by their ends.

    Args:
        p: g(v) of the centres, unit vectors, shape ``(C, dim)``.
        v: unit vectors of the centres, shape ``(C, dim)``.
        u: unit vectors of all nodes by the target encoder, shape ``(n, dim)``.
        start: centre of each link, shape ``(m,)``.
        end: its neighbour, shape ``(m,)``.
        weights: 1/|N(i)| of each link, shape ``(m,)``.
        others: centres that push apart, shape ``(M,)``, which stand for all.
        temperature: τ.
    """
    pull = (p.index_select(0, start) * u.index_select(0, end)).sum(dim=1) / temperature
    push = torch.logsumexp(v @ v.index_select(0, others).T / temperature, dim=1) + math.log(len(v) / len(others))
    return (weights * (torch.logaddexp(pull, push.index_select(0, start)) - pull)).sum() / len(v)
