"""Losses written out in float64, to compare values and the gradient of every parameter with."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dssl.graph import Graph


def moved(method: nn.Module) -> dict[str, Tensor]:
    """Move every parameter off its start, and return copies in float64 that take gradients."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return {name: p.detach().double().requires_grad_() for name, p in method.named_parameters()}


def assert_same(method: nn.Module, loss: Tensor, copies: dict[str, Tensor], literal: Tensor) -> None:
    """Compare a loss and its gradients with the literal ones; no gradient counts as one of zeros."""
    torch.testing.assert_close(loss.detach().double(), literal.detach(), rtol=1e-4, atol=1e-6)
    method.zero_grad()
    loss.backward()
    literal.backward()
    scale = max(float(copy.grad.abs().max()) for copy in copies.values() if copy.grad is not None)
    for name, parameter in method.named_parameters():
        found, wanted = parameter.grad, copies[name].grad
        if found is None or wanted is None:
            assert found is None or not found.any(), name
            assert wanted is None or not wanted.any(), name
            continue
        torch.testing.assert_close(
            found.double(), wanted, rtol=1e-3, atol=1e-5 * scale, msg=lambda text, at=name: f"{at}: {text}"
        )


def features(graph: Graph) -> Tensor:
    """The features of a graph in float64."""
    x = graph.x
    assert x is not None
    return torch.tensor(x if isinstance(x, np.ndarray) else x.toarray(), dtype=torch.float64)


def adjacency(graph: Graph) -> Tensor:
    """The links of a graph in float64, with their zeros."""
    return torch.tensor(graph.adjacency().toarray(), dtype=torch.float64)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return a @ b / (a.norm() * b.norm())
