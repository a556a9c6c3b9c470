"""The networks of DSSL around its encoder, and the links of a batch as its loss takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.graph.adjacency import mean_matrix
from dssl.kernels.fused import PReLU, unit
from dssl.kernels.link_posterior import Plan
from dssl.methods.dssl import posterior
from dssl.nn import layerwise
from dssl.nn.batches import Batch, full_batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.operators import Operator
from dssl.runtime import distributed
from dssl.runtime.scale import Scale

BLOCK = 1 << 16  # links whose hidden values are in memory at a time
Hidden = tuple[Tensor, Tensor]  # parts of the head's hidden layer, of centres and of neighbours


class Projection(nn.Module):
    """From an embedding to the unit vector in the loss: an optional projector, optional centring, length one.

    Args:
        dim: length of the embedding and of the result.
        projector: whether a network with one hidden layer comes first.
        center: whether the mean is subtracted.
    """

    def __init__(self, dim: int, *, projector: bool, center: bool) -> None:
        super().__init__()
        self.projector = nn.Sequential(Dense(dim, dim), PReLU(), Dense(dim, dim)) if projector else nn.Identity()
        self.center = Center(dim) if center else None

    def forward(self, embedding: Tensor, count: int | None = None) -> Tensor:
        """Return unit vectors, shape ``(n, dim)``; the first ``count`` rows are centres, by default all."""
        projected = self.projector(embedding)
        if self.center is not None:
            projected = self.center(projected, len(projected) if count is None else count)
        return unit(projected)


def unit_vectors(
    branches: Sequence[tuple[Encoder, Projection]], graph: Graph, device: torch.device, *, scale: Scale
) -> list[Tensor]:
    """Return the unit vectors of each node by each encoder and its projection, without gradients, ``(N, dim)`` each."""
    with torch.no_grad():
        if scale.in_memory:
            batch = full_batch(graph, device)
            return [projection(encoder(batch)) for encoder, projection in branches]
        rows = ((layerwise.encoded(encoder, graph, device), projection) for encoder, projection in branches)
        return [torch.from_numpy(layerwise.mapped(projection, h, device)).to(device) for h, projection in rows]


class Center(nn.Module):
    """Subtract the mean of the centres of all processes, as `BatchNorm` does; outside training, the running mean."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))

    def forward(self, h: Tensor, count: int) -> Tensor:
        """Centre h of shape ``(n, dim)``; the first ``count`` rows are centres."""
        mean = cast(Tensor, self.mean)
        if not self.training:
            return h - mean
        now, _ = distributed.mean_rows(h[:count])
        with torch.no_grad():
            mean.lerp_(now, 0.1)
        return h - now


class Head(nn.Module):
    """The inference network h of Eq. 6: one hidden layer on the concatenation or the product of v and z.

    Entries of unit vectors are of order 1/√d, so by default the input is scaled to entries of order one.

    Args:
        dim: length d of v and z.
        num_factors: K.
        product: whether v and z are multiplied, instead of concatenated.
        scaled: whether the input is scaled.
        uniform: whether the network is ignored, and every posterior is 1/K (ablation A5).
    """

    def __init__(self, dim: int, num_factors: int, *, product: bool, scaled: bool, uniform: bool) -> None:
        super().__init__()
        self.num_factors, self.product, self.uniform = num_factors, product, uniform
        self.scale = (float(dim) if product else float(np.sqrt(dim))) if scaled else 1.0
        self.first = Dense(dim, dim)
        self.second = None if product else Dense(dim, dim, bias=False)
        self.out = Dense(dim, num_factors, bias=False)
        self.out_bias = nn.Parameter(torch.zeros(num_factors))

    def split(self, v: Tensor, z: Tensor) -> Hidden | None:
        """Return the hidden layer of [v; z] as a sum of a part for each end: W₁ [v; z] + b₁ = a + b; none if unused."""
        if self.second is None or self.uniform:
            return None
        first, second = self.scale * self.first.weight, self.scale * self.second.weight  # smaller than v and z
        return torch.addmm(cast(Tensor, self.first.bias), v, first), z @ second

    def forward(self, v: Tensor, z: Tensor, start: Tensor, end: Tensor, hidden: Hidden | None = None) -> Tensor:
        """Return the logits of the links from ``start`` to ``end``, shape ``(A, K)``; ``hidden`` is `split`, if known.

        The gradient of ``v[start]`` is summed in an order that depends on threads. `index_select`, here and elsewhere,
        has a fixed order, so that a seed gives the same bits each time.
        """
        start, end = start.to(v.device), end.to(v.device)
        if self.uniform:
            return v.new_zeros(start.shape[0], self.num_factors)
        if self.product:
            values = self.first(self.scale * v.index_select(0, start) * z.index_select(0, end))
        else:
            first, second = cast(Hidden, hidden or self.split(v, z))
            values = first.index_select(0, start) + second.index_select(0, end)
        return cast(Tensor, self.out(torch.relu(values))) + self.out_bias

    @torch.no_grad()
    def of_graph(self, graph: Graph, v: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return q of each arc in the graph's order, ``(A, K)``, and π of each node, ``(N, K)``, without gradients."""
        start, end, weights = posterior.rows(mean_matrix(graph.adjacency()), v.device)
        blocks, hidden = zip(torch.split(start, BLOCK), torch.split(end, BLOCK), strict=True), self.split(v, z)
        q = torch.cat([torch.softmax(self(v, z, *ends, hidden), dim=1) for ends in blocks])
        return q, q.new_zeros(graph.num_nodes, q.shape[1]).index_add(0, start, weights[:, None] * q)

    def posteriors(self, links: Links, v: Tensor, z: Tensor, hidden: Hidden | None = None) -> posterior.Posteriors:
        """Return the sums of q (Eq. 6) over all links, without a row per link where possible."""
        if self.uniform:
            return posterior.uniform(links.weights, self.num_factors, v.device)
        if self.product:
            start, end, _ = posterior.rows(links.weights, v.device)
            return posterior.from_rows(links.weights, self(v, z, start, end))
        first, second = cast(Hidden, hidden or self.split(v, z))
        return posterior.from_head(links.weights, first, second, self.out.weight.T, self.out_bias, plan=links.plan)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The links from the centres of a batch to its nodes, with weights w_ij that sum to 1 for each centre.

    Args:
        weights: w, shape ``(C, n)``.
        plan: the same for the compiled pass of the inference network.
        mean: the same as an operator: the mean over a centre's neighbours.
        by_centre: Σ_j w_ij, shape ``(C,)``: 1, or 0 for a centre without neighbours.
        by_neighbour: Σ_i w_ij, shape ``(n,)``.
        active: number of centres with neighbours, shape ``(1,)``.
    """

    weights: sparse.csr_array
    plan: Plan
    mean: Operator
    by_centre: Tensor
    by_neighbour: Tensor
    active: Tensor

    @classmethod
    def of(cls, batch: Batch) -> Links:
        """Return the links of a batch."""
        weights, device = batch.links, batch.device
        by_centre, by_neighbour = (
            torch.from_numpy(np.asarray(weights.sum(axis=axis), np.float32)).to(device) for axis in (1, 0)
        )
        active = torch.tensor([float((np.diff(weights.indptr) > 0).sum())], device=device)
        mean = Operator.build(weights, symmetric=False, device=device)
        return cls(weights, Plan.build(weights), mean, by_centre, by_neighbour, active)
