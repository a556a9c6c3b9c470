"""The settings that a search varies: the paper's grids, and a wider space that covers our own settings too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dssl.config.schema import Config
from dssl.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two, drawn such that each power of ten is as likely."""

    low: float
    high: float


Space = Mapping[str, "tuple[Any, ...] | Range"]

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
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
        "method.momentum": (0.9, 0.95, 0.99, 0.999),
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
        # Of the other methods: a setting that several have is varied alike.
        "method.divergence_weight": Range(0.01, 1.0),
        "method.objective": ("infomax", "nt-xent"),
        "method.strength": (0.1, 0.2, 0.3, 0.5),
        "method.diffusion": ("ppr", "heat"),
        "method.teleport": (0.05, 0.1, 0.2, 0.4),
        "method.centrality": ("degree", "pagerank", "eigenvector"),
        **{f"method.link_drop{view}": SHARES for view in ("", "_1", "_2")},
        **{f"method.feature_mask{view}": SHARES for view in ("", "_1", "_2")},
        "method.decorrelation_weight": Range(1e-4, 1e-2),
        "method.walk_length": (5, 10, 20, 40, 80),
        "method.window": (2, 5, 10),
        "method.step_size": Range(0.01, 0.1),
        "method.return_weight": (0.25, 0.5, 1.0, 2.0, 4.0),
        "method.away_weight": (0.25, 0.5, 1.0, 2.0, 4.0),
        "method.rings": (2, 3, 4, 6),
        "method.stay": (0.1, 0.3, 0.5, 0.7),
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
        if section != "method" and not config.method.traits.encoder:  # a table of vectors, moved by its own steps
            return leaf in ("dim", "epochs")
        if path == "method.temperature" and known["method"].get("estimator") == "exact":  # of no use without sampling
            return False
        if path == "method.temperature" and known["method"].get("objective") == "infomax":
            return False
        if path == "encoder.high_pass":  # of one encoder only
            return config.encoder.name == "hops" and "encoder.name" in fixed
        return path != "encoder.name" or not config.encoder.high_pass

    left = {path: choices for path, choices in SPACES[name].items() if open_(path)}
    if not left:
        raise ConfigError(f"the space {name!r} has nothing to vary that is not set already; leave out some --set")
    return left
