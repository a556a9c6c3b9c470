"""Each compiled pass against plain torch, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.kernels import fused


def random(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


# With and without a multiple of eight columns; less than a chunk, several of them, and no row at all.
SHAPES = [(5, 16), (5, 6), (2 * fused.CHUNK + 3, 8), (0, 8)]


@pytest.mark.parametrize("shape", SHAPES)
def test_unit_is_normalize_in_value_and_gradient(shape: tuple[int, int]) -> None:
    x, rates = random(*shape), random(*shape, seed=1)
    if len(x):
        x[0], x[1] = 0, 1e-14 * x[1]  # too short to be made longer
    x.requires_grad_(True)
    ours, theirs = fused.unit(x), F.normalize(x, dim=1)
    torch.testing.assert_close(ours, theirs)
    pulls = [torch.autograd.grad((rates * found).sum(), x)[0] for found in (ours, theirs)]
    torch.testing.assert_close(*pulls, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_a_unit_vector_is_across_it() -> None:
    x = random(40, 24).requires_grad_(True)
    (pull,) = torch.autograd.grad((fused.unit(x) * random(40, 24, seed=3)).sum(), x)
    torch.testing.assert_close((pull * x).sum(dim=1), torch.zeros(40), atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_prelu_is_that_of_torch_in_value_and_gradient(shape: tuple[int, int]) -> None:
    x, rates = random(*shape), random(*shape, seed=1)
    if len(x):
        x[0, :3] = torch.tensor([0.0, -0.0, 1e9])
    x.requires_grad_(True)
    ours, theirs = fused.PReLU(init=0.3), nn.PReLU(init=0.3)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    torch.testing.assert_close(ours(x), theirs(x))
    pulls = [torch.autograd.grad((rates * layer(x)).sum(), (x, layer.weight)) for layer in (ours, theirs)]
    for mine, other in zip(*pulls, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_what_is_not_a_number_stays_so() -> None:
    x = torch.zeros(2, 8)
    x[1, 3] = torch.nan
    assert fused.PReLU()(x).isnan().sum() == 1
    assert fused.unit(x)[1].isnan().all() and not fused.unit(x)[0].isnan().any()


@pytest.mark.parametrize("shape", SHAPES)
def test_squares_and_products_are_sums_over_rows(shape: tuple[int, int]) -> None:
    v, m, weights = random(*shape).requires_grad_(True), random(*shape, seed=1), random(1, shape[0], seed=2)[0]
    ours = fused.squares_and_products(weights, v, m)
    wanted = torch.zeros((), dtype=torch.float64)
    for i in range(shape[0]):
        wanted = wanted + (weights[i] * v[i].square().sum() - 2 * (v[i] * m[i]).sum()).double()
    torch.testing.assert_close(ours, wanted.float(), rtol=1e-5, atol=1e-4)
    if len(v):
        (pull,) = torch.autograd.grad(3 * ours, v)
        torch.testing.assert_close(pull, 6 * (weights[:, None] * v - m).detach(), rtol=1e-4, atol=1e-5)
    alone = fused.weighted_squares(weights, m)
    torch.testing.assert_close(alone, (weights[:, None] * m.square()).sum(), rtol=1e-4, atol=1e-4)


def test_chunks_are_fixed_and_in_order() -> None:
    """The sum over many rows is the sum of the chunks' own."""
    v, weights = random(3 * fused.CHUNK, 8), torch.ones(3 * fused.CHUNK)
    parts = [float(fused.weighted_squares(weights[: fused.CHUNK], part)) for part in v.split(fused.CHUNK)]
    assert float(fused.weighted_squares(weights, v)) == pytest.approx(sum(parts), rel=1e-6)
