"""Posteriors over the factors of each link (Eq. 6), and the few sums of them in the loss.

Every term of DSSL's loss except the entropy is linear in the posterior q of a link, with coefficients that belong to
one of its two ends. So the loss needs, instead of a row per link,

    P[i, k] = Σ_j w_ij q(k | i, j)      by centre,    shape (C, K)   (π_i(k) of Eq. 8)
    R[j, k] = Σ_i w_ij q(k | i, j)      by neighbour, shape (n, K)
    H       = Σ_ij w_ij H(q(· | i, j))  the entropy,  a number

with w_ij = 1/|N(i)|. On a CPU one compiled pass over the links computes them, and a second one their gradients; no
array has a row per link. On other devices, and for the product head, the posteriors are tensors with a row per link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl.kernels import link_posterior
from dssl.runtime import distributed


@dataclass(frozen=True, slots=True)
class Posteriors:
    """Sums over the posteriors of all links.

    Args:
        by_centre: P, shape ``(C, K)``.
        by_neighbour: R, shape ``(n, K)``.
        entropy: H, weighted by w.
        mean_entropy: mean entropy over links, without weights, for the record.
        usage: mean posterior over links, without weights, shape ``(K,)``.
    """

    by_centre: Tensor
    by_neighbour: Tensor
    entropy: Tensor
    mean_entropy: float
    usage: Tensor


def from_head(
    links: sparse.csr_array,
    first: Tensor,
    second: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    *,
    plan: link_posterior.Plan | None = None,
) -> Posteriors:
    """Sums of q = softmax(W₂ relu(a_i + b_j) + b₂), differentiable in all tensors.

    Args:
        links: weights w of the links, shape ``(C, n)``.
        first: a, the hidden part of each centre, shape ``(C, H)``.
        second: b, the hidden part of each neighbour, shape ``(n, H)``.
        out_weight: W₂, shape ``(K, H)``.
        out_bias: b₂, shape ``(K,)``.
        plan: the links for the compiled pass, if they were prepared before.
    """
    if first.device.type != "cpu":
        start, end, _ = rows(links, first.device)
        hidden = torch.relu(first.index_select(0, start) + second.index_select(0, end))
        return from_rows(links, hidden @ out_weight.T + out_bias)
    by_centre, by_neighbour, entropy, mean_entropy, usage = _Head.apply(  # type: ignore[no-untyped-call]
        link_posterior.Plan.build(links) if plan is None else plan, first, second, out_weight, out_bias
    )
    return Posteriors(by_centre, by_neighbour, entropy, float(mean_entropy), usage)


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: link_posterior.Plan, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.plan, ctx.arrays = plan, [tensor.detach().contiguous().numpy() for tensor in tensors]
        by_centre, by_neighbour, usage, (weighted, plain) = link_posterior.forward(
            plan, ctx.arrays, threads=torch.get_num_threads()
        )
        count = max(plan.indices.size, 1)
        means = torch.tensor(plain / count), torch.from_numpy(usage / count)
        ctx.mark_non_differentiable(*means)
        entropy = torch.tensor(weighted, dtype=torch.float32)
        return torch.from_numpy(by_centre), torch.from_numpy(by_neighbour), entropy, *means

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_centre, by_neighbour = (grad.contiguous().numpy() for grad in grads[:2])
        found = link_posterior.backward(
            ctx.plan, ctx.arrays, by_centre, by_neighbour, float(grads[2]), threads=torch.get_num_threads()
        )
        return None, *(torch.from_numpy(array) for array in found)


def from_rows(links: sparse.csr_array, logits: Tensor) -> Posteriors:
    """Sums of q = softmax(logits), with a row per link, shape ``(A, K)``; plain torch, differentiable."""
    start, end, weights = rows(links, logits.device)
    log_q = torch.log_softmax(logits, dim=1)
    q = log_q.exp()
    entropies = -(q * log_q).sum(dim=1)
    weighted = weights[:, None] * q
    by_centre = logits.new_zeros(links.shape[0], logits.shape[1]).index_add(0, start, weighted)
    by_neighbour = logits.new_zeros(links.shape[1], logits.shape[1]).index_add(0, end, weighted)
    count = max(links.nnz, 1)
    mean_entropy, usage = float(entropies.detach().sum()) / count, q.detach().sum(dim=0) / count
    return Posteriors(by_centre, by_neighbour, (weights * entropies).sum(), mean_entropy, usage)


def uniform(links: sparse.csr_array, num_factors: int, device: torch.device) -> Posteriors:
    """Sums of q = 1/K on every link (ablation A5)."""
    by_centre = torch.from_numpy(np.asarray(links.sum(axis=1), np.float32)).to(device)
    by_neighbour = torch.from_numpy(np.asarray(links.sum(axis=0), np.float32)).to(device)
    entropy = by_centre.sum() * float(np.log(num_factors))
    spread = [total[:, None].expand(-1, num_factors) / num_factors for total in (by_centre, by_neighbour)]
    usage = torch.full((num_factors,), 1 / num_factors, device=device)
    return Posteriors(spread[0], spread[1], entropy, float(np.log(num_factors)), usage)


def rows(links: sparse.csr_array, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return centre, neighbour and weight of each link, each of shape ``(A,)``."""
    start = np.repeat(np.arange(links.shape[0], dtype=np.int64), np.diff(links.indptr))
    end = torch.from_numpy(links.indices.astype(np.int64))
    return torch.from_numpy(start).to(device), end.to(device), torch.from_numpy(np.array(links.data)).to(device)


def sampled_rows(links: sparse.csr_array, most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return centre and neighbour of each link, or of ``most`` links drawn with torch's generator if there are more.

    Several processes draw together from the links of all, and each keeps the draws that are its own links.
    """
    counts = distributed.gather(links.nnz)
    arcs = np.arange(links.nnz)
    if sum(counts) > most:
        drawn = distributed.from_first(torch.randint(sum(counts), (most,))).numpy()
        own = drawn - sum(counts[: distributed.rank()])
        arcs = own[(own >= 0) & (own < links.nnz)]
    start = np.searchsorted(links.indptr, arcs, side="right") - 1
    return start.astype(np.int64, copy=False), links.indices[arcs].astype(np.int64)
