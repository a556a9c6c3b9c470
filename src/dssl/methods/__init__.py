"""One file per paper. A method is handed its encoder, owns its loss, and knows no optimiser, data set or file.

The registry is `dssl.config.schema.METHODS`: a section of settings for each method, which says where its class is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.config.schema import MethodSettings
from dssl.graph import Graph
from dssl.nn.encoders import Encoder


class Method(Protocol):
    """What the training loop asks of a method, which is also a `torch.nn.Module`."""

    def prepare(self, graph: Graph, *, seed: int) -> None:
        """Look at the graph once before training."""

    def batches(
        self, graph: Graph, *, batch_size: int, fanout: Sequence[int], seed: int, epoch: int, device: torch.device
    ) -> Iterator[Any]:
        """Give the batches of an epoch: the same for the same seed and epoch, in any process."""

    def forward(self, batch: Any) -> Tensor:
        """Return the loss of a batch."""

    def after_step(self) -> None:
        """Do what follows each step of the optimiser."""

    def after_epoch(self) -> dict[str, float]:
        """Do what follows each epoch; return its record for ``metrics.jsonl``, with at least ``loss``."""

    def embed(self, graph: Graph) -> NDArray[np.float32]:
        """Return a vector for each node, shape ``(N, dim)``."""

    def warnings(self) -> list[str]:
        """Say in plain sentences what went wrong in training and what to change."""


def build(settings: MethodSettings, *, encoder: Encoder | None, dim: int, in_dim: int, epochs: int) -> nn.Module:
    """Make a method from its section of the configuration.

    Args:
        settings: the section.
        encoder: the encoder, or none for a method without one.
        dim: length of the vectors.
        in_dim: number of features.
        epochs: how long it will be trained, for those whose steps change along the way.
    """
    module, _, name = settings.traits.home.partition(":")
    made = getattr(import_module(f"dssl.methods.{module}"), name)
    values: dict[str, Any] = settings.model_dump(exclude={"name"})
    known = inspect.signature(made).parameters
    values |= {name: value for name, value in {"in_dim": in_dim, "epochs": epochs}.items() if name in known}
    return cast(nn.Module, made(dim if encoder is None else encoder, **values))
