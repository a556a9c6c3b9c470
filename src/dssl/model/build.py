"""From settings to networks: the one place where a method is built from its section of the configuration."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, cast

from torch import nn

from dssl.config.registry import MethodSection
from dssl.nn.encoders import Encoder


def build(settings: MethodSection, *, encoder: Encoder | None, dim: int, in_dim: int) -> nn.Module:
    """Make a method from its section of the configuration.

    Args:
        settings: the section.
        encoder: the encoder, or none for a method without one.
        dim: length of the vectors.
        in_dim: number of features.
    """
    module, _, name = settings.traits.home.partition(":")
    made = getattr(import_module(module), name)
    values: dict[str, Any] = settings.model_dump(exclude={"name"})
    if "in_dim" in inspect.signature(made).parameters:
        values["in_dim"] = in_dim
    return cast(nn.Module, made(dim if encoder is None else encoder, **values))
