"""Losses that several methods share, each a mean over nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def infomax(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the binary cross-entropy of a discriminator between true and corrupted nodes (DGI, Eq. 1).

    Args:
        positive: logits of true nodes, shape ``(n,)``.
        negative: logits of corrupted nodes, shape ``(n,)``.

    >>> round(infomax(torch.zeros(3), torch.zeros(3)).item(), 4)  # ln 2: no discrimination
    0.6931
    """
    return (F.softplus(-positive).mean() + F.softplus(negative).mean()) / 2


def info_nce(first: Tensor, second: Tensor, temperature: float, *, within: bool = False) -> Tensor:
    """Return the contrast of two views of the same nodes by cosine similarity, the mean of both directions.

    The positive pair of a node is itself in the other view. The negatives are all other nodes of the other view
    (NT-Xent between views), and with ``within`` also all other nodes of the same view (GRACE, GCA Eq. 1).

    Args:
        first: vectors of the first view, shape ``(n, dim)``.
        second: vectors of the second view, shape ``(n, dim)``.
        temperature: divisor of the cosines.
        within: whether nodes of the same view are negatives too.

    >>> views = torch.eye(2)
    >>> round(info_nce(views, views, 1.0).item(), 4)  # −log(e / (e + 1))
    0.3133
    """
    u, v = F.normalize(first, dim=1), F.normalize(second, dim=1)
    between = u @ v.T / temperature
    if not within:
        same = torch.arange(len(between), device=between.device)
        return (F.cross_entropy(between, same) + F.cross_entropy(between.T, same)) / 2
    positive = between.diagonal()
    total = first.new_zeros(())
    for own, across in ((u @ u.T / temperature, between), (v @ v.T / temperature, between.T)):
        others = own - torch.diag(torch.full((len(own),), torch.inf, device=own.device))
        total = total + (torch.logsumexp(torch.cat([across, others], dim=1), dim=1) - positive).mean()
    return total / 2
