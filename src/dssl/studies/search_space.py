"""The settings that a search varies: the paper's grids, or the search values declared with each setting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from dssl.config.fields import settings_of
from dssl.config.registry import Search
from dssl.config.schema import Config
from dssl.errors import ConfigError, nearest

Space = Mapping[str, Search]

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
# The paper's appendix on its setup; the first three are for every method. The temperature is its lambda.
PAPER: Space = {
    "train.learning_rate": (0.001, 0.005, 0.01),
    "encoder.dim": (16, 32, 64),
    "train.weight_decay": (5e-4, 1e-4, 5e-6, 1e-6),
    "method.prototype_variance": FIFTHS,
    "method.link_variance": FIFTHS,
    "method.temperature": FIFTHS,
    "method.shift_scale": (0.1, *FIFTHS),
    "method.num_factors": (2, 4, 6, 8, 16, 32),
}


def wide(method: str) -> Space:
    """Return the search values declared with the settings, in the order training, encoder, method."""
    order, rows = ("train", "encoder", "method"), settings_of(method)
    return {row.path: row.search for section in order for row in rows if row.section == section and row.search}


SPACES: dict[str, Callable[[str], Space]] = {"paper": lambda _method: PAPER, "wide": wide}


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

    left = {path: choices for path, choices in SPACES[name](config.method.name).items() if open_(path)}
    if not left:
        raise ConfigError(f"the space {name!r} has nothing to vary that is not set already; leave out some --set")
    return left
