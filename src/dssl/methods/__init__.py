"""One file per paper. A method gets an encoder, owns its loss, and has no optimiser, data set or file.

The registry is `dssl.config.methods.METHODS`: a section of settings for each method, which names its class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.nn.batches import Sampling
from dssl.runtime.scale import Scale


class Method(Protocol):
    """The verbs that the training loop calls, in this order. A method is also a `torch.nn.Module`.

    Its ``forward(batch)`` returns the loss of a batch, and the loop follows the gradient. A method that trains itself
    has `InPlaceMethod.update` instead.
    """

    def prepare(self, graph: Graph, *, seed: int, scale: Scale) -> None:
        """Compute everything that depends on the graph alone, once before training."""

    def before_epoch(self, epoch: int, epochs: int) -> None:
        """Set everything that changes along the training, before epoch number ``epoch`` (from 0) of ``epochs``."""

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Any]:
        """Return the batches of an epoch: the same for the same seed and epoch, in any process."""

    def after_step(self) -> None:
        """Run after each step of the optimiser."""

    def after_epoch(self) -> dict[str, float]:
        """Run after each epoch; return its record for ``metrics.jsonl``, with at least ``loss``."""

    def embed(self, graph: Graph, *, scale: Scale) -> NDArray[np.float32]:
        """Return a vector for each node, shape ``(N, dim)``."""

    def health_limits(self) -> dict[str, dict[str, float]]:
        """Return the limits of a healthy training by name of the record, each ``{"below": …}`` or ``{"above": …}``."""

    def warnings(self) -> list[str]:
        """Return a sentence for each limit that the last epoch exceeded, with a remedy."""


@runtime_checkable
class InPlaceMethod(Method, Protocol):
    """A method that updates its parameters itself, without an optimiser."""

    def update(self, batch: Any) -> float:
        """Train on a batch in place and return its loss."""
