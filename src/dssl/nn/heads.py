"""The networks around an encoder that a loss on pairs of nodes needs: projector, centring, inference head, scores."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from dssl.kernels.fused import PReLU, unit
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.runtime import distributed


class Branch(nn.Module):
    """Encoder, projector, centring, unit length: v for the online, z for the target parameters."""

    def __init__(self, encoder: Encoder, *, projector: bool, center: bool) -> None:
        super().__init__()
        dim = encoder.dim
        self.encoder = encoder
        self.projector = nn.Sequential(Dense(dim, dim), PReLU(), Dense(dim, dim)) if projector else nn.Identity()
        self.center = Center(dim) if center else None

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the embedding and the unit vectors of the loss, each ``(n, dim)``."""
        embedding = self.encoder(batch)
        return embedding, self.unit(embedding, batch.num_centres)

    def unit(self, embedding: Tensor, count: int | None = None) -> Tensor:
        """Return the unit vectors of embeddings, ``(n, dim)``, of which the first ``count`` are centres; or all."""
        projected = self.projector(embedding)
        if self.center is not None:
            projected = self.center(projected, len(projected) if count is None else count)
        return unit(projected)


class Bilinear(nn.Module):
    """hᵀ W s + b: how well vectors of nodes match a summary."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dim))
        self.bias = nn.Parameter(torch.zeros(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W; b is zero."""
        nn.init.zeros_(self.bias)
        nn.init.xavier_uniform_(self.weight)

    def forward(self, h: Tensor, s: Tensor) -> Tensor:
        """Return a score for each row of h, ``(n, dim)``, with s of shape ``(dim,)``; shape ``(n,)``."""
        return h @ (self.weight @ s) + self.bias


class Center(nn.Module):
    """Subtract the mean of the batch's centres, of all processes; outside training, the running mean.

    The centres of an epoch are every node once; those around them are there more often the more links they have.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))

    def forward(self, h: Tensor, count: int) -> Tensor:
        """Centre h of shape ``(n, dim)``, of which the first ``count`` rows are centres."""
        mean = cast(Tensor, self.mean)
        if not self.training:
            return h - mean
        now, _ = distributed.mean_rows(h[:count])
        with torch.no_grad():
            mean.lerp_(now, 0.1)
        return h - now


class Head(nn.Module):
    """h: one hidden layer on the concatenation or the product of v and z, scaled to entries of about one."""

    def __init__(self, dim: int, num_factors: int, *, product: bool) -> None:
        super().__init__()
        self.product = product
        self.scale = float(dim) if product else float(np.sqrt(dim))
        self.first = Dense(dim, dim)
        self.second = None if product else Dense(dim, dim, bias=False)
        self.out = Dense(dim, num_factors, bias=False)
        self.out_bias = nn.Parameter(torch.zeros(num_factors))

    def split(self, v: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """W [v; z] + b = a + b': the first layer of the concatenation falls into a part for each end."""
        assert self.second is not None
        first, second = self.scale * self.first.weight, self.scale * self.second.weight  # fewer numbers than in v and z
        return torch.addmm(cast(Tensor, self.first.bias), v, first), z @ second

    def forward(self, v: Tensor, z: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """Return the logits of each link, shape ``(A, K)``.

        With ``v[start]`` the gradient would be added up in whatever order the threads come; here and elsewhere
        `index_select` keeps to one order, so that a seed gives the same bits each time.
        """
        if self.product:
            hidden = self.first(self.scale * v.index_select(0, start) * z.index_select(0, end))
        else:
            first, second = self.split(v, z)
            hidden = first.index_select(0, start) + second.index_select(0, end)
        return cast(Tensor, self.out(torch.relu(hidden))) + self.out_bias
