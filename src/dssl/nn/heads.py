"""Networks on top of an encoder that several methods share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dssl.nn.encoders import Dense


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


def draw_as_torch(layer: Dense) -> None:
    """Draw weights and bias as torch's `Linear` does, for methods whose authors use it."""
    bound = 1 / math.sqrt(len(layer.weight))
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound)
