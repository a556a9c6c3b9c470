"""What all methods with one encoder share: batches, the record of an epoch, the embedding, and moving averages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.nn import health, layerwise
from dssl.nn.batches import Batch, Batches, full_batch
from dssl.nn.encoders import Encoder
from dssl.runtime import distributed, out_of_core


class Learner(nn.Module):
    """A method that trains one encoder and whose embedding is `vectors`; a method adds its networks and its loss.

    Args:
        encoder: the encoder.

    Attributes:
        augments: whether the loss looks at changed copies of a batch, so that averages over neighbours cannot be made
            once for all.
    """

    augments = True

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self._meter = health.Meter()
        self._last: dict[str, float] = {}
        self._batches = Batches()

    def vectors(self, batch: Batch) -> Tensor:
        """Return what the method calls the embedding of each node of a batch, shape ``(n, dim)``."""
        return self.finished(self.encoder(batch), batch.num_centres)

    def finished(self, h: Tensor, count: int | None = None) -> Tensor:  # noqa: ARG002
        """Return the embedding that the encoder's output becomes, node by node, shape ``(n, dim)``: by default itself.

        Args:
            h: what the encoder gives, shape ``(n, dim)``.
            count: how many of the rows, the first ones, are centres; by default all.
        """
        return h

    def prepare(self, graph: Graph, *, seed: int) -> None:
        """Look at the graph once before training."""

    def batches(
        self, graph: Graph, *, batch_size: int, fanout: Sequence[int], seed: int, epoch: int, device: torch.device
    ) -> Iterator[Any]:
        """Give the batches of an epoch; a ``batch_size`` of 0 is the whole graph at once."""
        return self._batches.of(
            graph,
            batch_size=batch_size,
            fanout=fanout,
            layers=self.encoder.hops,
            seed=seed,
            epoch=epoch,
            device=device,
            averages=0 if self.augments else self.encoder.averages,
        )

    def after_step(self) -> None:
        """Do what follows each step of the optimiser."""

    def note(self, weight: int, loss: Tensor, embedding: Tensor, **terms: Tensor) -> Tensor:
        """Count the loss, its terms and the embedding of a batch of ``weight`` centres.

        Returns:
            The loss; where several processes share the batch, weighted so that their mean is one over all centres.
        """
        if self.training:
            values = {name: float(value.detach()) for name, value in {"loss": loss, **terms}.items()}
            rank = health.effective_rank(embedding.detach()[:weight])
            self._meter.add(weight, {**values, "effective_rank": rank})
        return loss * distributed.share(weight) if distributed.world() > 1 else loss

    def after_epoch(self) -> dict[str, float]:
        """Return the record of the epoch: means over its batches."""
        self._last = self._meter.read()
        return self._last

    def embed(self, graph: Graph) -> NDArray[np.float32]:
        """Return the embedding of each node, shape ``(N, dim)``; of a large graph layer by layer."""
        self.eval()
        device = next(self.parameters()).device
        with torch.no_grad():
            if graph.num_nodes > out_of_core.LARGE:
                return layerwise.mapped(self.finished, layerwise.encoded(self.encoder, graph, device), device)
            found = self.vectors(full_batch(graph, device))
        return cast("NDArray[np.float32]", found.cpu().numpy())

    def warnings(self) -> list[str]:
        """Say whether the representation collapsed, and what to change."""
        rank, dim = self._last.get("effective_rank", float("inf")), self.encoder.dim
        if rank >= max(0.02 * dim, min(1.2, dim)):
            return []
        return [f"the representation collapsed (effective rank {rank:.1f} of {dim}): lower train.learning_rate"]


def follow(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """ξ ← τ ξ + (1 − τ) θ for parameters and running means; what is counted is copied.

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
    places = (torch.from_numpy(side.astype(np.int64)).to(batch.device) for side in (start, end))
    return *places, torch.from_numpy(np.array(weights, np.float32)).to(batch.device)  # type: ignore[return-value]
