"""Cheap statistics of a collapse of the representation or of the factors, recorded during training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dssl.runtime import distributed

MOST_USAGE = 0.9  # largest fraction of the links of one factor
LEAST_INFORMATION = 0.02  # least information of the posteriors of links, as a fraction of ln K


def effective_rank(h: Tensor) -> float:
    """RankMe (Garrido et al. 2023): exp of the entropy of the singular values of h, from 1 (parallel rows) to ``dim``.

    NaN if a vector, or its square, is not finite.

    Args:
        h: vectors, shape ``(n, dim)``.

    >>> round(effective_rank(torch.eye(4)), 6), round(effective_rank(torch.ones(9, 4)), 3)
    (4.0, 1.0)
    """
    gram = torch.zeros(h.shape[1], h.shape[1], dtype=torch.float64, device=h.device)
    for start in range(0, len(h), 8192):  # in parts: no copy of h in double precision
        part = h[start : start + 8192].double()
        gram += part.T @ part
    if not torch.isfinite(gram).all():
        return float("nan")
    squares = torch.linalg.eigvalsh(gram)
    # Below this an eigenvalue is rounding, whose root would count as a direction.
    values = squares[squares > 1e-13 * squares.max().clamp_min(1e-300)].sqrt()
    if not len(values):
        return 0.0
    shares = values / values.sum()
    return float(torch.exp(-(shares * shares.log()).sum()))


def factor_statistics(usage: Tensor, mean_entropy: float) -> dict[str, float]:
    """Entropy, usage and information of the factors, from the sums of the links' posteriors.

    Args:
        usage: sum of the posteriors over links, shape ``(K,)``.
        mean_entropy: mean over links of the entropy of the posterior.

    Returns:
        ``posterior_entropy``, as a fraction of ln K; ``factor_usage_max``, the fraction of the most used factor; and
        ``factor_information``, the mutual information of link and factor as a fraction of ln K: 0 if every link has
        the same posterior.
    """
    most = max(float(np.log(len(usage))), 1e-12)
    shares = usage / usage.sum().clamp_min(1e-12)
    spread = float(-(shares * shares.clamp_min(1e-30).log()).sum())
    return {
        "posterior_entropy": mean_entropy / most,
        "factor_usage_max": float(shares.max()),
        "factor_information": max(spread - mean_entropy, 0.0) / most,
    }


def limits(dim: int, *, num_factors: int = 1) -> dict[str, dict[str, float]]:
    """Return the limits of a healthy record, as plain data: a collapse is a value ``below`` or ``above``.

    Args:
        dim: length of the vectors.
        num_factors: K of a method with factors; a single factor cannot collapse.

    >>> limits(64)
    {'effective_rank': {'below': 3.2}}
    """
    found = {"effective_rank": {"below": max(0.05 * dim, min(1.5, dim))}}
    if num_factors > 1:
        found |= {"factor_usage_max": {"above": MOST_USAGE}, "factor_information": {"below": LEAST_INFORMATION}}
    return found


def collapses(record: Mapping[str, float], limits: Mapping[str, Mapping[str, float]], *, dim: int) -> dict[str, str]:
    """Return a sentence for each limit that the record of an epoch exceeds, by name.

    >>> good = {"effective_rank": 30, "factor_usage_max": 0.2, "factor_information": 0.5}
    >>> collapses(good, limits(64, num_factors=8), dim=64)
    {}
    """
    sentences = {
        "effective_rank": "the representation collapsed (effective rank {value:.1f} of {dim})",
        "factor_usage_max": "one factor takes {value:.0%} of the links",
        "factor_information": "every link has nearly the same posterior, so the factors distinguish nothing",
    }
    found = {}
    for name, limit in limits.items():
        value = record.get(name)
        if value is not None and (value < limit.get("below", value) or value > limit.get("above", value)):
            found[name] = sentences[name].format(value=value, dim=dim)
    if "factor_usage_max" in found:  # one factor for all links carries no information either: one cause, one sentence
        found.pop("factor_information", None)
    return found


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
        """Return the means and start again."""
        numbers = torch.tensor([self.weight, *self.sums.values()], dtype=torch.float64)
        weight, *sums = distributed.total(numbers).tolist()
        means = {name: value / max(weight, 1) for name, value in zip(self.sums, sums, strict=True)}
        self.weight = 0
        self.sums.clear()
        return means
