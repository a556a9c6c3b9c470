"""Row-wise operations of a loss on an (n, d) array, in one compiled pass each way: no copy of the array in between.

torch makes a new array for every operation: unit length and its gradient alone take seven. Rows are independent, and
sums over rows are made of fixed chunks of rows, in order, so the result is the same, bit for bit, with any number of
threads. Off the CPU, or where d is not a multiple of eight, the functions are torch's own.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.kernels import buffers
from dssl.kernels.compile import equal_parts, in_threads, usable_threads
from dssl.kernels.simd import (
    ZERO,
    compiled,
    fma,
    load,
    maximum,
    memory,
    number,
    put_double,
    put_number,
    splat,
    store,
    total,
    where_positive,
)

CHUNK = 2048  # rows
LEAST = np.float32(1e-12)  # length below which a row is not made longer, as in torch


def _fits(*arrays: Tensor) -> bool:
    kind = torch.float32
    return all(a.device.type == "cpu" and a.dtype is kind and a.dim() == 2 and not a.shape[1] % 8 for a in arrays)


def _address(tensor: Tensor) -> int:
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def _run(function: Any, shape: torch.Size, *arguments: Any) -> None:
    """Call a function of the chunks of rows, the number of rows and that of columns, and what else is given."""
    threads = usable_threads() if shape.numel() > 500_000 else 1
    in_threads(function, equal_parts(-(-shape[0] // CHUNK), threads), *shape, *arguments)


# --- unit length ----------------------------------------------------------------------------------------------------


@compiled
def _unit(begin: int, end: int, rows: int, columns: int, x: int, out: int, inverse: int) -> None:
    for i in range(begin * CHUNK, min(end * CHUNK, rows)):
        squares = splat(ZERO)
        for at in range(i * columns, (i + 1) * columns, 8):
            squares = fma(load(x, at), load(x, at), squares)
        scale = np.float32(1) / max(np.sqrt(total(squares)), LEAST)
        put_number(inverse, i, scale)
        for at in range(i * columns, (i + 1) * columns, 8):
            store(out, at, load(x, at) * splat(scale))


@compiled
def _unit_back(begin: int, end: int, rows: int, columns: int, v: int, inverse: int, grad: int, out: int) -> None:
    """(g − v (v · g)) / ‖x‖; a row too short to be made longer was only scaled."""
    for i in range(begin * CHUNK, min(end * CHUNK, rows)):
        scale = number(inverse, i)
        along = splat(ZERO)
        if scale * LEAST < np.float32(1):
            for at in range(i * columns, (i + 1) * columns, 8):
                along = fma(load(v, at), load(grad, at), along)
        share = splat(total(along))
        for at in range(i * columns, (i + 1) * columns, 8):
            store(out, at, (load(grad, at) - load(v, at) * share) * splat(scale))


class _Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        out, inverse = buffers.empty(*x.shape), torch.empty(len(x))
        _run(_unit, x.shape, _address(x), _address(out), _address(inverse))
        ctx.save_for_backward(out, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        v, inverse = ctx.saved_tensors
        grad, out = grads[0].contiguous(), buffers.empty(*v.shape)
        _run(_unit_back, v.shape, _address(v), _address(inverse), _address(grad), _address(out))
        return out


def unit(x: Tensor) -> Tensor:
    """Scale each row of x, of shape ``(n, d)``, to length one; rows of length zero stay.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    if not _fits(x):
        return F.normalize(x, dim=1)
    return cast(Tensor, _Unit.apply(x))  # type: ignore[no-untyped-call]


# --- PReLU ----------------------------------------------------------------------------------------------------------


@compiled
def _prelu(begin: int, end: int, rows: int, columns: int, x: int, slope: int, out: int) -> None:
    a, zero = splat(number(slope, 0)), splat(ZERO)
    for at in range(begin * CHUNK * columns, min(end * CHUNK, rows) * columns, 8):
        value = load(x, at)
        above = maximum(value, zero)
        store(out, at, fma(a, value - above, above))


@compiled
def _prelu_back(
    begin: int, end: int, rows: int, columns: int, x: int, slope: int, grad: int, out: int, pulls: int
) -> None:
    a, zero = splat(number(slope, 0)), splat(ZERO)
    for chunk in range(begin, end):
        pull = splat(ZERO)
        for at in range(chunk * CHUNK * columns, min((chunk + 1) * CHUNK, rows) * columns, 8):
            value, g = load(x, at), load(grad, at)
            above = where_positive(value, g)
            store(out, at, fma(a, g - above, above))
            pull = fma(g, value - maximum(value, zero), pull)
        put_number(pulls, chunk, total(pull))


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor) -> Tensor:
        x = x.contiguous()
        out = buffers.empty(*x.shape)
        _run(_prelu, x.shape, _address(x), _address(slope), _address(out))
        ctx.save_for_backward(x, slope)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        grad, out, pulls = grads[0].contiguous(), buffers.empty(*x.shape), torch.empty(-(-len(x) // CHUNK))
        _run(_prelu_back, x.shape, _address(x), _address(slope), _address(grad), _address(out), _address(pulls))
        return out, pulls.double().sum().float().reshape(slope.shape)


class PReLU(nn.PReLU):
    """torch's PReLU with one slope."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x where it is positive and a x elsewhere, of the shape of x."""
        if not _fits(x):
            return super().forward(x)
        return cast(Tensor, _PReLU.apply(x, self.weight))  # type: ignore[no-untyped-call]


# --- weighted squares and products ----------------------------------------------------------------------------------


@compiled
def _squares(begin: int, end: int, rows: int, columns: int, weights: int, v: int, m: int, sums: int) -> None:
    """Σ_i c_i ‖v_i‖² − 2 v_i · m_i over the rows of each chunk; without m, the address 0, the squares alone."""
    for chunk in range(begin, end):
        found = 0.0
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, rows)):
            squares, products = splat(ZERO), splat(ZERO)
            for at in range(i * columns, (i + 1) * columns, 8):
                squares = fma(load(v, at), load(v, at), squares)
                if m != 0:
                    products = fma(load(v, at), load(m, at), products)
            found += number(weights, i) * total(squares) - np.float32(2) * total(products)
        put_double(sums, chunk, found)


@compiled
def _squares_back(
    begin: int, end: int, rows: int, columns: int, rate: float, weights: int, v: int, m: int, out: int
) -> None:
    for i in range(begin * CHUNK, min(end * CHUNK, rows)):
        weight, double = splat(number(weights, i)), splat(np.float32(2 * rate))
        for at in range(i * columns, (i + 1) * columns, 8):
            store(out, at, (load(v, at) * weight - load(m, at)) * double)


def _sum_squares(weights: Tensor, v: Tensor, m: Tensor | None) -> Tensor:
    sums = np.zeros(max(-(-len(v) // CHUNK), 1))
    _run(_squares, v.shape, _address(weights), _address(v), 0 if m is None else _address(m), memory(sums))
    return torch.tensor(sums.sum(), dtype=torch.float32)


class _Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, v: Tensor, m: Tensor) -> Tensor:
        v, m = v.contiguous(), m.contiguous()
        ctx.save_for_backward(weights, v, m)
        return _sum_squares(weights, v, m)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        weights, v, m = ctx.saved_tensors
        out = buffers.empty(*v.shape)
        _run(_squares_back, v.shape, float(grads[0]), *(_address(array) for array in (weights, v, m, out)))
        return None, out, None


def squares_and_products(weights: Tensor, v: Tensor, m: Tensor) -> Tensor:
    """Return Σ_i (c_i ‖v_i‖² − 2 v_i · m_i), differentiable in v.

    Args:
        weights: c, shape ``(n,)``, a constant.
        v: shape ``(n, d)``.
        m: shape ``(n, d)``, a constant.
    """
    if not _fits(v, m):
        return (weights * v.square().sum(dim=1)).sum() - 2 * (v * m).sum()
    return cast(Tensor, _Squares.apply(weights, v, m))  # type: ignore[no-untyped-call]


def weighted_squares(weights: Tensor, z: Tensor) -> Tensor:
    """Return Σ_i r_i ‖z_i‖² for weights r of shape ``(n,)`` and a constant z of shape ``(n, d)``."""
    if z.requires_grad or not _fits(z):
        return (weights * z.square().sum(dim=1)).sum()
    return _sum_squares(weights, z.contiguous(), None)
