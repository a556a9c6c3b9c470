"""One file per paper. A method is handed its encoder, owns its loss, and knows no optimiser, data set or file.

The registry is `dssl.config.methods.METHODS`: a section of settings for each method, which names its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.graph import Graph


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
