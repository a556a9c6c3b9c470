"""The settings that a search varies: the paper's grids, and a wider space that covers our own settings too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dssl.config import Config
from dssl.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two, drawn such that each power of ten is as likely."""

    low: float
    high: float


Space = Mapping[str, "tuple[Any, ...] | Range"]

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
SPACES: dict[str, Space] = {
    # The paper's appendix on its setup: the first three for every method. The temperature is its lambda.
    "paper": {
        "train.learning_rate": (0.001, 0.005, 0.01),
        "encoder.dim": (16, 32, 64),
        "train.weight_decay": (5e-4, 1e-4, 5e-6, 1e-6),
        "method.prototype_variance": FIFTHS,
        "method.link_variance": FIFTHS,
        "method.temperature": FIFTHS,
        "method.shift_scale": (0.1, *FIFTHS),
        "method.num_factors": (2, 4, 6, 8, 16, 32),
    },
    "wide": {
        "train.learning_rate": Range(0.0005, 0.02),
        "train.weight_decay": (0.0, 1e-6, 1e-5, 1e-4, 1e-3),
        "train.epochs": (25, 50, 100, 200, 400),
        "encoder.name": ("hops", "gcn", "sage", "gin", "mlp"),
        "encoder.dim": (16, 32, 64, 128, 256),
        "encoder.hidden_dim": (32, 64, 128, 256),
        "encoder.layers": (1, 2, 3),
        "encoder.dropout": (0.0, 0.2, 0.5),
        "encoder.batch_norm": (False, True),
        "encoder.high_pass": (False, True),
        "encoder.skip": (True, False),
        "method.num_factors": (2, 4, 6, 8, 16, 32),
        "method.relation": ("shift", "map"),
        "method.prototype_variance": Range(0.05, 1.0),
        "method.link_variance": Range(0.02, 1.0),
        "method.shift_scale": Range(0.1, 2.0),
        "method.temperature": Range(0.1, 1.0),
        "method.momentum": (0.9, 0.99, 0.999),
        "method.inference": ("amortised", "exact"),
        "method.local_weight": Range(0.1, 10.0),
        "method.global_weight": Range(0.1, 10.0),
        "method.entropy_weight": Range(0.01, 1.0),
        "method.balance_weight": (0.0, 0.1, 0.2, 0.5, 1.0),
        "method.center": (True, False),
        "method.projector": (True, False),
        "method.reconstruction_weight": (0.0, 1.0, 2.0, 5.0, 10.0),
        "method.link_reconstruction_weight": (0.0, 1.0, 2.0, 5.0, 10.0),
        "method.distillation_weight": (0.0, 0.5, 1.0, 2.0),
        "method.factor_readout": (False, True),
    },
}


def space(name: str, config: Config, *, fixed: Collection[str] = ()) -> Space:
    """Return the part of a space that a configuration leaves open.

    Args:
        name: ``paper`` or ``wide``.
        config: settings that the search starts from; only those of its method are varied.
        fixed: dotted paths that the user has set.
    """
    if name not in SPACES:
        raise ConfigError(f"unknown space {name!r}{nearest(name, SPACES)}; use one of {', '.join(SPACES)}")
    known = config.model_dump()

    def open_(path: str) -> bool:
        section, _, leaf = path.partition(".")
        if path in fixed or leaf not in known[section]:
            return False
        if section == "encoder" and not config.method.traits.encoder:
            return leaf == "dim"
        if path == "method.temperature":  # of no use without sampling
            return bool(known["method"]["estimator"] != "exact")
        if path == "encoder.high_pass":  # of one encoder only
            return config.encoder.name == "hops" and "encoder.name" in fixed
        return path != "encoder.name" or not config.encoder.high_pass

    left = {path: choices for path, choices in SPACES[name].items() if open_(path)}
    if not left:
        raise ConfigError(f"the space {name!r} has nothing to vary that is not set already; leave out some --set")
    return left
