"""What the tests of methods share: dense float64 networks over a method's own parameters, and the check of a loss.

A test writes the loss of its paper as loops over these; `agrees` compares its value and the gradient of every parameter
with those of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.nn import encoders
from dssl.nn.batches import Batch, full_batch, sampled_batch
from dssl.nn.encoders import Encoder
from tests.graphs import CPU, random_graph

Leaves = dict[str, Tensor]
IN, HIDDEN, DIM = 7, 16, 8  # multiples of eight take the compiled passes


def encoder(name: str = "gcn", *, layers: int = 2, batch_norm: bool = False) -> Encoder:
    """A small encoder of `random_graph`'s features."""
    with rng.seeded(0, "init"):
        return encoders.build(
            name, in_dim=IN, dim=DIM, hidden_dim=HIDDEN, layers=layers, dropout=0.0, batch_norm=batch_norm
        )


def moved(module: nn.Module) -> nn.Module:
    """Move each parameter of a module, targets too: none is zero, and no two networks are copies of each other.

    Matrices are drawn anew, whatever generator they were initialised by.
    """
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            if parameter.ndim > 1:
                parameter.copy_(noise / parameter.shape[0] ** 0.5)
            else:
                parameter += 0.2 * noise
    return module


def copies(module: nn.Module) -> Leaves:
    """The parameters of a module in float64, which take gradients where it is trained."""
    return {
        name: parameter.detach().double().requires_grad_(parameter.requires_grad)
        for name, parameter in module.named_parameters()
    }


def batches(graph: Graph | None = None, *, layers: int = 2) -> list[Batch]:
    """The whole graph, and a batch of nine centres with sampled neighbours."""
    graph = random_graph() if graph is None else graph
    centres = np.array([0, 3, 5, 8, 11, 20, 31, 38, 39])  # the last two have no links
    return [full_batch(graph, CPU), sampled_batch(graph, degrees(graph), centres, (3, 2), layers, 1, CPU)]


def agrees(
    method: nn.Module, batch: Any, literal: Callable[[Leaves], Tensor], *, without_effect: Collection[str] = ()
) -> None:
    """Check value and gradients of a method's `forward` against a literal loss, which draws from the same stream.

    Args:
        method: the method.
        batch: what its `forward` takes.
        literal: the loss as a function of the method's parameters in float64.
        without_effect: parameters whose gradient is zero, such as a bias before batch normalisation.
    """
    method.zero_grad()
    with rng.seeded(0, "train"):
        loss = method(batch)
    loss.backward()
    leaves = copies(method)
    with rng.seeded(0, "train"):
        wanted = literal(leaves)
    wanted.backward()
    torch.testing.assert_close(loss.detach().double(), wanted.detach(), rtol=2e-5, atol=1e-6)
    largest = max(float(leaf.grad.abs().max()) for leaf in leaves.values() if leaf.grad is not None)
    for name, parameter in method.named_parameters():
        if not parameter.requires_grad:
            assert parameter.grad is None, f"{name} is not trained"
            continue
        expected = leaves[name].grad
        assert expected is not None, f"{name} is not in the literal loss"
        assert parameter.grad is not None, f"no gradient reaches {name}"
        size = float(expected.abs().max())
        if name in without_effect:
            assert size < 1e-6 * largest
            assert float(parameter.grad.abs().max()) < 1e-4 * largest
            continue
        assert size > 1e-6 * largest, f"the literal loss does not depend on {name}"
        torch.testing.assert_close(
            parameter.grad.double(), expected, rtol=1e-3, atol=2e-4 * size, msg=lambda m, name=name: f"{name}: {m}"
        )


def same(method: nn.Module, loss: Tensor, leaves: Leaves, wanted: Tensor) -> None:
    """Compare a loss and its gradients with the literal ones, of a loss that leaves some parameters alone."""
    torch.testing.assert_close(loss.detach().double(), wanted.detach(), rtol=1e-4, atol=1e-6)
    method.zero_grad()
    loss.backward()
    wanted.backward()
    largest = max(float(leaf.grad.abs().max()) for leaf in leaves.values() if leaf.grad is not None)
    for name, parameter in method.named_parameters():
        found, expected = parameter.grad, leaves[name].grad
        if found is None or expected is None:
            assert found is None or not found.any(), name
            assert expected is None or not expected.any(), name
            continue
        torch.testing.assert_close(
            found.double(), expected, rtol=1e-3, atol=1e-5 * largest, msg=lambda m, name=name: f"{name}: {m}"
        )


def embeds(method: Any, graph: Graph, literal: Callable[[Leaves], Tensor]) -> None:
    """Check the embedding of a graph against a literal one, after `moved`."""
    leaves = {name: value.detach().double() for name, value in method.state_dict().items()}
    wanted = literal(leaves).numpy()
    np.testing.assert_allclose(method.embed(graph), wanted, rtol=1e-4, atol=2e-5 * np.abs(wanted).max())


def links(batch: Batch) -> Tensor:
    """A as a dense matrix, shape ``(n, n)``."""
    return torch.from_numpy(batch.adjacency.toarray()).double()


def gcn(p: Leaves, at: str, batch: Batch, *, layers: int = 2, norm: bool = False) -> Tensor:
    """D̂^−½ (A + c I) D̂^−½ X W + b for each layer, with a PReLU between them, shape ``(n, dim)``."""
    loops = links(batch) + batch.loop * torch.eye(len(batch.nodes)).double()
    total = torch.from_numpy(batch.degrees).double() + batch.loop
    s = loops / (total[:, None] * total[None, :]).sqrt()
    h = features(batch)
    for layer in range(layers):
        h = s @ h @ p[f"{at}layers.{layer}.weight"] + p[f"{at}layers.{layer}.bias"]
        if layer + 1 < layers:
            between = f"{at}between.{layer}."
            h = normal(p, f"{between}0.", h, batch.num_centres) if norm else h
            h = prelu(h, p[f"{between}1.weight"])
    return h


def sage(p: Leaves, at: str, batch: Batch, *, layers: int = 2) -> Tensor:
    """H W₀ + b + D⁻¹ A H W₁ for each layer, with a PReLU between them, shape ``(n, dim)``."""
    a = links(batch)
    mean = a / a.sum(dim=1, keepdim=True).clamp_min(1e-300)
    h = features(batch)
    for layer in range(layers):
        own, others = (f"{at}layers.{layer}.{part}." for part in (0, 1))
        h = h @ p[f"{own}weight"] + p[f"{own}bias"] + mean @ h @ p[f"{others}weight"]
        if layer + 1 < layers:
            h = prelu(h, p[f"{at}between.{layer}.1.weight"])
    return h


def features(batch: Batch) -> Tensor:
    """X in float64, shape ``(n, F)``."""
    return (batch.x if isinstance(batch.x, Tensor) else batch.x.dense()).double()


def dense(p: Leaves, at: str, h: Tensor) -> Tensor:
    """H W + b."""
    return h @ p[f"{at}weight"] + p[f"{at}bias"]


def prelu(h: Tensor, slope: Tensor) -> Tensor:
    """H where it is positive, and a H elsewhere."""
    return torch.where(h > 0, h, slope * h)


def normal(p: Leaves, at: str, h: Tensor, count: int) -> Tensor:
    """Batch normalisation by the mean and spread of the first ``count`` rows."""
    mean, spread = h[:count].mean(dim=0), h[:count].var(dim=0, unbiased=False)
    return (h - mean) / (spread + 1e-5).sqrt() * p[f"{at}weight"] + p[f"{at}bias"]


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of two vectors."""
    return (a @ b) / (a.norm() * b.norm())


def sigmoid(score: Tensor) -> Tensor:
    """1 / (1 + e^−s)."""
    return 1 / (1 + torch.exp(-score))


def summary(h: Tensor) -> Tensor:
    """The sigmoid of the mean of rows, shape ``(dim,)``."""
    return sigmoid(sum(h[i] for i in range(len(h))) / len(h))  # type: ignore[arg-type]
