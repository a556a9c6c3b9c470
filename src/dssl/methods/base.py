"""The base class of methods with an encoder: batches, the record of an epoch, the embedding, and moving averages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.nn import health, layerwise
from dssl.nn.batches import Batch, Loader, Sampling, full_batch
from dssl.nn.encoders import Encoder
from dssl.runtime import distributed
from dssl.runtime.scale import IN_MEMORY, Scale


class EncoderMethod(nn.Module):
    """A method that trains one encoder. A subclass adds its networks and its loss, `forward`.

    Args:
        encoder: the encoder.

    Attributes:
        augments: whether the loss changes links or features of a batch. Otherwise averages over neighbours are computed
            once before training.
        advice: the remedy for each exceeded limit of `health_limits`.
    """

    augments = True
    advice: ClassVar[dict[str, str]] = {"effective_rank": "lower train.learning_rate"}

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self._meter = health.Meter()
        self._last: dict[str, float] = {}
        self._loader = Loader()

    @property
    def reach(self) -> int:
        """Steps of message passing that the loss of a centre depends on: by default those of the encoder."""
        return self.encoder.hops

    def vectors(self, batch: Batch) -> Tensor:
        """Return the embedding of each node of a batch, shape ``(n, dim)``."""
        return self.finalize(self.encoder(batch))

    def finalize(self, h: Tensor) -> Tensor:
        """Map the encoder's output to the embedding, row by row, shape ``(n, dim)``: by default the identity."""
        return h

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Compute everything that depends on the graph alone, once before training: by default nothing."""

    def before_epoch(self, epoch: int, epochs: int) -> None:
        """Set everything that changes along the training: by default nothing."""

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Any]:
        """Return the batches of an epoch."""
        averages = 0 if self.augments else self.encoder.averages
        return self._loader.epoch(graph, sampling, layers=self.reach, averages=averages)

    def after_step(self) -> None:
        """Run after each step of the optimiser: by default nothing."""

    def note(self, weight: int, loss: Tensor, embedding: Tensor, **terms: Tensor) -> Tensor:
        """Record the loss, its terms and the embedding of a batch of ``weight`` centres.

        Returns:
            The loss; where several processes share the batch, weighted so that their mean is one over all centres.
        """
        if self.training:
            self.record(weight, embedding, {"loss": loss, **terms})
        return loss * distributed.share(weight)

    def record(self, weight: int, embedding: Tensor, values: dict[str, Tensor | float]) -> None:
        """Add values of a batch of ``weight`` centres, and the effective rank of their embedding, to the epoch's."""
        plain = {name: float(value.detach() if isinstance(value, Tensor) else value) for name, value in values.items()}
        rank = health.effective_rank(embedding.detach()[:weight])
        self._meter.add(weight, {**plain, "effective_rank": rank})

    def after_epoch(self) -> dict[str, float]:
        """Return the record of the epoch: means over its batches."""
        self._last = self._meter.read()
        return self._last

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:
        """Return the embedding of each node, shape ``(N, dim)``; of a large graph layer by layer."""
        self.eval()
        device = next(self.parameters()).device
        with torch.no_grad():
            if not scale.in_memory:
                return layerwise.mapped(self.finalize, layerwise.encoded(self.encoder, graph, device), device)
            found = self.vectors(full_batch(graph, device))
        return cast("NDArray[np.float32]", found.cpu().numpy())

    def health_limits(self) -> dict[str, dict[str, float]]:
        """Return the limits beyond which `warnings` reports a collapse."""
        return health.limits(self.encoder.dim)

    def warnings(self) -> list[str]:
        """Return a sentence for each collapse in the last epoch, with a remedy."""
        found = health.collapses(self._last, self.health_limits(), dim=self.encoder.dim)
        return [f"{sentence}: {self.advice[name]}" for name, sentence in found.items()]


def follow(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """ξ ← τ ξ + (1 − τ) θ for parameters and running means; counters are copied.

    >>> target, online = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> _ = target.weight.data.fill_(1.0), online.weight.data.fill_(0.0)
    >>> follow(target, online, 0.75)
    >>> target.weight.item()
    0.75
    """
    with torch.no_grad():
        for kept, new in zip(target.state_dict().values(), online.state_dict().values(), strict=True):
            if kept.dtype.is_floating_point:
                kept.lerp_(new, 1 - momentum)
            else:
                kept.copy_(new)


def sampled_links(batch: Batch, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw up to ``most`` of the links of a batch without repeats, by torch's seeded generator; all if there are fewer.

    Returns:
        Start (a centre) and end of each link as positions in the batch, and its weight, scaled so that the sum over a
        draw is the sum over all links in the mean; shapes ``(m,)``.
    """
    links = batch.links
    start = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    end, weights = links.indices, links.data
    if links.nnz > most:
        chosen = torch.randperm(links.nnz)[:most].sort().values.numpy()
        start, end, weights = start[chosen], end[chosen], weights[chosen] * np.float32(links.nnz / most)
    ends = (torch.from_numpy(side.astype(np.int64)).to(batch.device) for side in (start, end))
    return *ends, torch.from_numpy(np.array(weights, np.float32)).to(batch.device)  # type: ignore[return-value]
