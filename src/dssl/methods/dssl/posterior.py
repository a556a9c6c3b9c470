"""Posteriors over the factors of each link, and the few sums of them that a loss needs.

Everything in DSSL's loss but the entropy is linear in the posterior q of a link with coefficients that belong to
one of its two ends. So the loss needs, instead of a row per link,

    P[i, k] = Σ_j w_ij q(k | i, j)      by centre,    shape (C, K)   (π_i(k) of Eq. 8)
    R[j, k] = Σ_i w_ij q(k | i, j)      by neighbour, shape (n, K)
    H       = Σ_ij w_ij H(q(· | i, j))  the entropy,  a number

with w_ij = 1/|N(i)|. On a CPU one compiled pass over the links makes them, and a second one their gradients; no
array has a row per link. Elsewhere, and for heads that need it, the posteriors are tensors with a row per link.

A loss whose coefficients c belong to both ends gives them as values with a row per link, shape (A, K), and gets

    T       = Σ_ij w_ij Σ_k q(k | i, j) c_ijk    a number
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl.kernels import csr, link_posterior
from dssl.runtime import distributed


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sums of the links' posteriors.

    Args:
        by_centre: P, shape ``(C, K)``.
        by_neighbour: R, shape ``(n, K)``.
        entropy: H, weighted as the loss has it.
        mean_entropy: mean over links of the entropy, without weights, for the reader of a report.
        usage: mean over links of the posterior, without weights, shape ``(K,)``.
        total: T, for the values that were given; 0 without.
    """

    by_centre: Tensor
    by_neighbour: Tensor
    entropy: Tensor
    mean_entropy: float
    usage: Tensor
    total: Tensor


def from_head(
    links: sparse.csr_array,
    first: Tensor,
    second: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    values: Tensor | None = None,
    *,
    plan: link_posterior.Plan | None = None,
) -> Statistics:
    """Statistics of q = softmax(W₂ relu(a_i + b_j) + b₂), differentiable in all tensors.

    Args:
        links: weights w of the links, shape ``(C, n)``.
        first: a, what the head makes of each centre, shape ``(C, H)``.
        second: b, what it makes of each neighbour, shape ``(n, H)``.
        out_weight: W₂, shape ``(K, H)``.
        out_bias: b₂, shape ``(K,)``.
        values: c, shape ``(A, K)``, or none.
        plan: the links as the compiled pass takes them, where they were made ready before.
    """
    if first.device.type != "cpu":
        start, end, _ = rows(links, first.device)
        return from_rows(
            links,
            torch.relu(first.index_select(0, start) + second.index_select(0, end)) @ out_weight.T + out_bias,
            values,
        )
    values = first.new_zeros(0, out_bias.shape[0]) if values is None else values
    by_centre, by_neighbour, entropy, total, plain, usage = _Head.apply(  # type: ignore[no-untyped-call]
        link_posterior.Plan.build(links) if plan is None else plan, first, second, out_weight, out_bias, values
    )
    return Statistics(by_centre, by_neighbour, entropy, float(plain), usage, total)


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: link_posterior.Plan, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.plan, ctx.arrays = plan, _arrays(*tensors)
        by_centre, by_neighbour, usage, (weighted, plain, total) = link_posterior.forward(
            plan, ctx.arrays, threads=torch.get_num_threads()
        )
        count = max(plan.indices.size, 1)
        told = torch.tensor(plain / count), torch.from_numpy(usage / count)
        ctx.mark_non_differentiable(*told)
        sums = torch.tensor(weighted, dtype=torch.float32), torch.tensor(total, dtype=torch.float32)
        return torch.from_numpy(by_centre), torch.from_numpy(by_neighbour), *sums, *told

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_centre, by_neighbour = (grad.contiguous().numpy() for grad in grads[:2])
        found = link_posterior.backward(
            ctx.plan,
            ctx.arrays,
            by_centre,
            by_neighbour,
            float(grads[2]),
            float(grads[3]),
            threads=torch.get_num_threads(),
        )
        return None, *(torch.from_numpy(array) for array in found)


def from_sums(links: sparse.csr_array, first: Tensor, second: Tensor) -> Statistics:
    """Statistics of q = softmax(s_i + t_j) for s of shape ``(C, K)`` and t of shape ``(n, K)``, without gradient."""
    first, second = first.detach(), second.detach()
    if first.device.type != "cpu":
        start, end, _ = rows(links, first.device)
        return from_rows(links, first.index_select(0, start) + second.index_select(0, end))
    by_centre, by_neighbour = np.zeros(first.shape, np.float32), np.zeros(second.shape, np.float32)
    usage = np.zeros(first.shape[1], np.float64)
    weighted, plain = csr.additive_forward(
        *_parts(links), first.contiguous().numpy(), second.contiguous().numpy(), by_centre, by_neighbour, usage
    )
    count = max(links.nnz, 1)
    sums = torch.from_numpy(by_centre), torch.from_numpy(by_neighbour), torch.tensor(weighted, dtype=torch.float32)
    return Statistics(*sums, plain / count, torch.from_numpy(usage / count), first.new_zeros(()))


def from_rows(links: sparse.csr_array, logits: Tensor, values: Tensor | None = None) -> Statistics:
    """Statistics of q = softmax(logits), with a row per link, shape ``(A, K)``; plain torch, differentiable."""
    start, end, weights = rows(links, logits.device)
    log_q = torch.log_softmax(logits, dim=1)
    q = log_q.exp()
    entropies = -(q * log_q).sum(dim=1)
    weighted = weights[:, None] * q
    empty = logits.new_zeros
    by_centre = empty(links.shape[0], logits.shape[1]).index_add(0, start, weighted)
    by_neighbour = empty(links.shape[1], logits.shape[1]).index_add(0, end, weighted)
    count = max(links.nnz, 1)
    plain, usage = float(entropies.detach().sum()) / count, q.detach().sum(dim=0) / count
    total = logits.new_zeros(()) if values is None else (weighted * values).sum()
    return Statistics(by_centre, by_neighbour, (weights * entropies).sum(), plain, usage, total)


def uniform(
    links: sparse.csr_array, num_factors: int, device: torch.device, values: Tensor | None = None
) -> Statistics:
    """Statistics of q = 1/K on every link (ablation A5)."""
    by_centre = torch.from_numpy(np.asarray(links.sum(axis=1), np.float32)).to(device)
    by_neighbour = torch.from_numpy(np.asarray(links.sum(axis=0), np.float32)).to(device)
    entropy = by_centre.sum() * float(np.log(num_factors))
    spread = [total[:, None].expand(-1, num_factors) / num_factors for total in (by_centre, by_neighbour)]
    usage = torch.full((num_factors,), 1 / num_factors, device=device)
    mean = torch.zeros((), device=device) if values is None else rows(links, device)[2] @ values.mean(dim=1)
    return Statistics(spread[0], spread[1], entropy, float(np.log(num_factors)), usage, mean)


def products(first: Tensor, second: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Return p_(i, k) · z_j of each link from i to j, shape ``(A, K)``, with a gradient for p.

    Args:
        first: p, shape ``(C, K, d)``.
        second: z, shape ``(n, d)``, a constant.
        start: i of each link, shape ``(A,)``.
        end: j of each link, shape ``(A,)``.
    """
    return cast(Tensor, _Products.apply(first, second, start, end))  # type: ignore[no-untyped-call]


class _Products(torch.autograd.Function):
    """No tensor has a vector per link and factor; off the CPU there is one with a vector per link."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, start: Tensor, end: Tensor) -> Tensor:
        ctx.save_for_backward(second, start, end)
        ctx.shape = first.shape
        if first.device.type != "cpu":
            others = second[end]
            factors = range(first.shape[1])
            return torch.stack([(first[:, k][start] * others).sum(dim=1) for k in factors], dim=1)
        out = torch.empty(start.shape[0], first.shape[1])
        csr.link_products(*_arrays(start, end, first, second, out))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        second, start, end = ctx.saved_tensors
        found = second.new_zeros(ctx.shape)
        if second.device.type != "cpu":
            others = second[end]
            for k in range(ctx.shape[1]):
                found[:, k].index_add_(0, start, grads[0][:, k, None] * others)
        else:
            csr.link_products_backward(*_arrays(start, end, second, grads[0], found))
        return found, None, None, None


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def factor_means(links: sparse.csr_array, q: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Σ_j w_ij q(k | i, j) v_j for each factor k: a node's neighbours, apart by the reason of the link.

    Args:
        links: weights w of the links, shape ``(N, N)``.
        q: posterior of each link, in the order of ``links.indices``, shape ``(A, K)``.
        values: v, shape ``(N, d)``.

    Returns:
        A block of d columns for each factor, shape ``(N, K · d)``.

    >>> links = sparse.csr_array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> q = np.array([[1, 0], [0, 1], [1, 0], [1, 0]], np.float32)
    >>> factor_means(links, q, np.array([[1], [2], [4]], np.float32)).tolist()
    [[1.0, 2.0], [1.0, 0.0], [1.0, 0.0]]
    """
    shape = links.shape
    blocks = [sparse.csr_array((links.data * part, links.indices, links.indptr), shape=shape) @ values for part in q.T]
    return np.hstack(blocks).astype(np.float32, copy=False)


def rows(links: sparse.csr_array, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Centre, neighbour and weight of each link, each of shape ``(A,)``."""
    start = np.repeat(np.arange(links.shape[0], dtype=np.int64), np.diff(links.indptr))
    end = torch.from_numpy(links.indices.astype(np.int64))
    return torch.from_numpy(start).to(device), end.to(device), torch.from_numpy(np.array(links.data)).to(device)


def sampled_rows(links: sparse.csr_array, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Centre and neighbour of each link, or of ``most`` links drawn with torch's generator if there are more.

    Several processes draw from the links of all, one after the other's, and each takes those that are its own.
    """
    counts = distributed.gather(links.nnz)
    arcs = np.arange(links.nnz)
    if sum(counts) > most:
        drawn = distributed.from_first(torch.randint(sum(counts), (most,))).numpy()
        own = drawn - sum(counts[: distributed.rank()])
        arcs = own[(own >= 0) & (own < links.nnz)]
    start = np.searchsorted(links.indptr, arcs, side="right") - 1
    return start.astype(np.int64, copy=False), links.indices[arcs].astype(np.int64)


def _parts(links: sparse.csr_array) -> tuple[Any, Any, Any]:
    return (
        cast(Any, links.indptr.astype(np.int64, copy=False)),
        links.indices.astype(np.int32, copy=False),
        links.data.astype(np.float32, copy=False),
    )
