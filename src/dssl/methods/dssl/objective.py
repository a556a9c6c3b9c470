r"""The terms of DSSL's loss, one function per equation of the paper; `dssl.methods.dssl.model` has the symbols.

Sums over links have the weights :math:`w_{ij} = 1/|N(i)|`; the caller divides by the number of centres.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dssl.kernels.fused import squares_and_products, weighted_squares
from dssl.methods.dssl.networks import Links
from dssl.methods.dssl.posterior import Posteriors


def log_prior(v: Tensor, prototypes: Tensor, variance: float) -> Tensor:
    r"""Eq. 3: :math:`\log p(k \mid v_i) = \log \mathrm{softmax}_k(v_i^\top \mu_k / \sigma_1^2)`.

    Args:
        v: unit vectors of centres, shape ``(n, dim)``.
        prototypes: μ, of any length; shape ``(K, dim)``.
        variance: σ₁².

    Returns:
        Shape ``(n, K)``.
    """
    return torch.log_softmax(v @ F.normalize(prototypes, dim=1).T / variance, dim=1)


def local_term(links: Links, q: Posteriors, v: Tensor, z: Tensor, shifts: Tensor) -> Tensor:
    r"""Eq. 5, first term: :math:`\sum_{ij} w_{ij}\, \mathbb{E}_q \|v_i + s_k - z_j\|^2`.

    Expanded, so that no array has a row per link: the products of v and z are one sparse product, those with the
    shifts need only the sums P and R of the posteriors.

    Args:
        links: the links.
        q: sums of their posteriors.
        v: vectors of the centres, shape ``(C, dim)``.
        z: vectors of the neighbours, shape ``(n, dim)``.
        shifts: s_k = β g(k), shape ``(K, dim)``.
    """
    without_shifts = squares_and_products(links.by_centre, v, links.mean @ z) + weighted_squares(links.by_neighbour, z)
    at_centres = _total(q.by_centre * (v @ (2 * shifts).T + shifts.square().sum(dim=1)))
    return without_shifts + at_centres - 2 * _total(q.by_neighbour * (z @ shifts.T))


def global_term(q: Posteriors, log_p: Tensor) -> Tensor:
    r"""Eq. 5, second term: :math:`-\sum_{ij} w_{ij}\, \mathbb{E}_q \log p(k \mid v_i)`, log p of shape ``(C, K)``."""
    return -_total(q.by_centre * log_p)


def _total(x: Tensor) -> Tensor:
    """The sum of a matrix, column by column: the same bits for any number of threads."""
    return x.sum(dim=0).sum()


def sampled_terms(
    rows: tuple[Tensor, Tensor, Tensor],
    logits: Tensor,
    v: Tensor,
    z: Tensor,
    log_p: Tensor,
    *,
    shift: Callable[[Tensor], Tensor],
    temperature: float,
) -> tuple[Tensor, Tensor]:
    r"""Eq. 7: local and global term with one straight-through Gumbel-softmax draw c of the factor per link.

    Args:
        rows: centre, neighbour and weight of each link, each of shape ``(A,)``.
        logits: h([v_i; z_j]), shape ``(A, K)``.
        v: vectors of the centres, shape ``(C, dim)``.
        z: vectors of the neighbours, shape ``(n, dim)``.
        log_p: log p(k | v_i), shape ``(C, K)``.
        shift: c ↦ β g(c), from shape ``(A, K)`` to ``(A, dim)``.
        temperature: γ.
    """
    start, end, weights = rows
    c = F.gumbel_softmax(logits, tau=temperature, hard=True)
    each = (v.index_select(0, start) + shift(c) - z.index_select(0, end)).square().sum(dim=1)
    local = (weights * each).sum()
    return local, -(weights * (c * log_p.index_select(0, start)).sum(dim=1)).sum()


def updated_prototypes(sums: Tensor, prototypes: Tensor) -> Tensor:
    r"""Eq. 8: :math:`\mu_k \propto \sum_i \pi_i(k)\, v_i`, scaled to length one; a factor without links keeps its μ.

    Args:
        sums: the sum for each k, shape ``(K, dim)``.
        prototypes: μ before, shape ``(K, dim)``.
    """
    lengths = sums.norm(dim=1, keepdim=True)
    return torch.where(lengths > 1e-12, sums / lengths.clamp_min(1e-12), prototypes)


def log_likelihood(
    v: Tensor, z: Tensor, log_p: Tensor, shifts: Tensor, variance: float, start: Tensor, end: Tensor
) -> Tensor:
    r"""Eq. 1: :math:`\log p(z_j \mid v_i) = \log \sum_k p(k \mid v_i)\, p(z_j \mid v_i, k)`, up to a constant.

    Args:
        v: vectors as centres, shape ``(N, dim)``.
        z: vectors as neighbours, shape ``(N, dim)``.
        log_p: log p(k | v_i), shape ``(N, K)``.
        shifts: s_k = β g(k), shape ``(K, dim)``.
        variance: σ₂².
        start: i of each pair, shape ``(M,)``.
        end: j of each pair, shape ``(M,)``.
    """
    difference = v.index_select(0, start) - z.index_select(0, end)
    squares = difference.square().sum(dim=1, keepdim=True) + difference @ (2 * shifts).T + shifts.square().sum(dim=1)
    return torch.logsumexp(log_p.index_select(0, start) - squares / variance, dim=1)


def balance(usage: Tensor) -> Tensor:
    """Ours: the entropy of the mean posterior, shape ``(K,)``; without it one factor takes all links."""
    return -(usage * usage.clamp_min(1e-30).log()).sum()
