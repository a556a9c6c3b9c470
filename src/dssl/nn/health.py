"""Cheap statistics that tell, during training, whether the representation or the factors collapsed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dssl.runtime import distributed

MOST_USAGE = 0.9  # of the links that one factor may take
LEAST_INFORMATION = 0.02  # share of ln K that the posteriors of links must tell


def effective_rank(h: Tensor) -> float:
    """RankMe (Garrido et al. 2023): exp of the entropy of the singular values of h, from 1 (all alike) to ``dim``.

    Args:
        h: vectors, shape ``(n, dim)``.

    >>> round(effective_rank(torch.eye(4)), 6), round(effective_rank(torch.ones(9, 4)), 3)
    (4.0, 1.0)
    """
    gram = torch.zeros(h.shape[1], h.shape[1], dtype=torch.float64, device=h.device)
    for start in range(0, len(h), 8192):  # in parts: no copy of h in double precision
        part = h[start : start + 8192].double()
        gram += part.T @ part
    squares = torch.linalg.eigvalsh(gram)
    # Below this an eigenvalue is rounding, whose root would count as a direction.
    values = squares[squares > 1e-13 * squares.max().clamp_min(1e-300)].sqrt()
    if not len(values):
        return 0.0
    shares = values / values.sum()
    return float(torch.exp(-(shares * shares.log()).sum()))


def factor_statistics(usage: Tensor, mean_entropy: float) -> dict[str, float]:
    """What the factors do, from the sums of the links' posteriors.

    Args:
        usage: sum of the posteriors over links, shape ``(K,)``.
        mean_entropy: mean over links of the entropy of the posterior.

    Returns:
        ``posterior_entropy``, as a share of ln K; ``factor_usage_max``, the share of the most used factor; and
        ``factor_information``, the share of ln K that a link's posterior tells beyond the mean posterior: 0 if
        every link has the same posterior.
    """
    most = max(float(np.log(len(usage))), 1e-12)
    shares = usage / usage.sum().clamp_min(1e-12)
    spread = float(-(shares * shares.clamp_min(1e-30).log()).sum())
    return {
        "posterior_entropy": mean_entropy / most,
        "factor_usage_max": float(shares.max()),
        "factor_information": max(spread - mean_entropy, 0.0) / most,
    }


def least_rank(dim: int) -> float:
    """The effective rank of ``dim`` columns below which they are called collapsed."""
    return max(0.05 * dim, min(1.5, dim))


def warnings(record: Mapping[str, float], *, dim: int, num_factors: int) -> list[str]:
    """Plain sentences on the record of an epoch whose representation or factors collapsed.

    >>> good = {"effective_rank": 30, "factor_usage_max": 0.2, "factor_information": 0.5}
    >>> warnings(good, dim=64, num_factors=8)
    []
    """
    said: list[str] = []
    if not record:
        return said
    if record["effective_rank"] < least_rank(dim):
        said.append(
            f"the representation collapsed (effective rank {record['effective_rank']:.1f} of {dim}): raise "
            "reconstruction_weight, set center = true, or lower learning_rate"
        )
    if num_factors > 1 and record["factor_usage_max"] > MOST_USAGE:
        share = f"{record['factor_usage_max']:.0%}"
        said.append(f"one factor takes {share} of the links: raise balance_weight or entropy_weight")
    elif num_factors > 1 and record["factor_information"] < LEAST_INFORMATION:
        said.append(
            "every link has nearly the same posterior, so the factors tell nothing: set center = true, or lower "
            "entropy_weight"
        )
    return said


@dataclass(slots=True)
class Meter:
    """Means over the batches of an epoch, and over the processes' parts of them, weighted by their centres."""

    weight: int = 0
    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, weight: int, values: Mapping[str, float]) -> None:
        """Count the values of a batch of ``weight`` centres."""
        self.weight += weight
        for name, value in values.items():
            self.sums[name] += weight * value

    def read(self) -> dict[str, float]:
        """Return the means and start anew."""
        numbers = torch.tensor([self.weight, *self.sums.values()], dtype=torch.float64)
        weight, *sums = distributed.total(numbers).tolist()
        means = {name: value / max(weight, 1) for name, value in zip(self.sums, sums, strict=True)}
        self.weight = 0
        self.sums.clear()
        return means
