"""From settings to networks: the one place that builds encoders and methods from a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from torch import nn

from dssl import rng
from dssl.config.registry import MethodSection
from dssl.config.schema import Config
from dssl.errors import ConfigError
from dssl.nn import encoders
from dssl.nn.encoders import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dssl.graph import Graph
    from dssl.graph.preparation import Inputs
    from dssl.methods import Method
    from dssl.model.joint import Joint
    from dssl.runtime.scale import Scale


@runtime_checkable
class FactorMethod(Protocol):
    """A method with latent factors behind links."""

    def observe(self, graph: Graph) -> None:
        """Set the graph as it was given, before training on the prepared graph."""

    def factors(self, graph: Graph, *, scale: Scale) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the posterior of each link, shape ``(A, K)``, and of each node, shape ``(N, K)``."""

    def link_scores(self, graph: Graph, pairs: NDArray[np.int64], *, scale: Scale) -> NDArray[np.float32]:
        """Return a score per pair of nodes, shape ``(M,)``."""


@dataclass(slots=True)
class Parts:
    """The parts of a model that `fit` creates and `save` stores.

    Args:
        module: the method with its weights.
        inputs: the preparation of graphs.
        joint: the input of topics, positions and roles, and the projection of the vectors, if it is used.
    """

    module: nn.Module
    inputs: Inputs
    joint: Joint | None = None

    @property
    def method(self) -> Method:
        """The method, as the training loop uses it."""
        return cast("Method", self.module)


def build(settings: MethodSection, *, encoder: Encoder | None, dim: int) -> nn.Module:
    """Build a method from its section of the configuration.

    Args:
        settings: the section.
        encoder: the encoder, or None for a method without one.
        dim: length of the vectors.
    """
    module, _, name = settings.traits.home.partition(":")
    try:
        made = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"method {settings.name!r}: its class {settings.traits.home} cannot be imported ({error}); "
            "update or remove the package that registers it"
        ) from error
    values: dict[str, Any] = settings.model_dump(exclude={"name"})
    return cast(nn.Module, made(dim if encoder is None else encoder, **values))


def build_method(config: Config, module: nn.Module | None, *, in_dim: int) -> nn.Module:
    """Build the method of a configuration with its encoder; the seed determines the initial weights.

    Args:
        config: the configuration.
        module: the user's encoder; its weights are copied.
        in_dim: number of features.
    """
    with rng.seeded(config.seed, "init"):
        encoder = _encoder(config, module, in_dim) if config.method.traits.encoder else None
        return build(config.method, encoder=encoder, dim=config.encoder.dim)


def build_encoder(config: Config, *, in_dim: int) -> Encoder:
    """Build the encoder of a configuration as it is before training.

    Args:
        config: the configuration.
        in_dim: number of features.
    """
    with rng.seeded(config.seed, "init"):
        return _encoder(config, None, in_dim)


def _encoder(config: Config, module: nn.Module | None, in_dim: int) -> Encoder:
    options = config.encoder
    if module is not None:
        return encoders.wrapped(module, in_dim=in_dim, dim=options.dim, hops=options.layers)
    return encoders.build(
        options.name,
        in_dim=in_dim,
        dim=options.dim,
        hidden_dim=options.hidden_dim,
        layers=options.layers,
        dropout=options.dropout,
        batch_norm=options.batch_norm,
        high_pass=options.high_pass,
    )
