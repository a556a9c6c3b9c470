"""The base classes of methods without an encoder: a table with a vector for each node, found by the node's id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl import rng
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.ids import id_keys
from dssl.methods._walks import Draws, train_walks
from dssl.nn.batches import Sampling
from dssl.runtime.scale import IN_MEMORY, Scale

Starts = tuple[NDArray[np.int64], int]
AT_ONCE = 10_000  # walks that are held in memory


class TableMethod(nn.Module):
    """Tables of vectors and of the nodes as contexts, trained in place by compiled loops.

    They use the one training loop as every method does: a batch is a set of start nodes, an epoch has each of them
    once, records, checkpoints and early stopping are the same. Only the step is not Adam's: `update` changes the rows
    itself (`dssl.methods.InPlaceMethod`). Skip-gram changes a few rows for each of millions of pairs; a dense step of
    an optimiser for each batch of them would take longer and make far fewer updates.

    Args:
        dim: length of the vectors.
        step_size: of the first epoch; it falls linearly towards zero along the training, as in word2vec.
    """

    def __init__(self, dim: int, *, step_size: float) -> None:
        super().__init__()
        self.dim, self.step_size = dim, step_size
        self.table = nn.Parameter(torch.empty(0, dim))
        self.contexts = nn.Parameter(torch.empty(0, dim))
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.keys: Tensor
        self.rate = step_size
        self.seed = 0
        self.loss, self.pairs = 0.0, 0

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:  # noqa: ARG002
        """Create a row for each node: small random vectors, contexts of zeros; rows of known ids stay (warm start)."""
        keys = id_keys(graph.ids)
        draw = rng.stream(seed, "table")
        table = ((draw.random((graph.num_nodes, self.dim)) - 0.5) / self.dim).astype(np.float32)
        contexts = np.zeros_like(table)
        if len(self.keys):
            at, known = self._find(keys)
            table[known] = self.table.detach().cpu().numpy()[at[known]]
            contexts[known] = self.contexts.detach().cpu().numpy()[at[known]]
        device = self.table.device
        self.table = nn.Parameter(torch.from_numpy(table).to(device))
        self.contexts = nn.Parameter(torch.from_numpy(contexts).to(device))
        self.keys = torch.from_numpy(keys.copy()).to(device)

    def before_epoch(self, epoch: int, epochs: int) -> None:
        """Lower the step size linearly."""
        self.rate = self.step_size * max(1 - epoch / max(epochs, 1), 1e-4)

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Starts]:
        """Return start nodes in random order, each once, with the seed of the epoch."""
        order = rng.stream(sampling.seed, "starts", sampling.epoch).permutation(graph.num_nodes)
        number = rng.integer(sampling.seed, "walks", sampling.epoch) >> 1
        size = sampling.batch_size or graph.num_nodes
        for begin in range(0, graph.num_nodes, size):
            yield order[begin : begin + size], number

    def update(self, batch: Starts) -> float:
        """Train the rows on a batch in place, and return the mean loss of its pairs."""
        vectors, contexts = (part.detach().cpu().numpy() for part in (self.table, self.contexts))
        loss, pairs = self.learn(batch, vectors, contexts)
        if self.table.device.type != "cpu":
            self.table.data.copy_(torch.from_numpy(vectors))
            self.contexts.data.copy_(torch.from_numpy(contexts))
        self.loss, self.pairs = self.loss + loss, self.pairs + pairs
        return loss / max(pairs, 1)

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Train both tables in place; return the summed loss and the number of pairs."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Run after each step: nothing."""

    def after_epoch(self) -> dict[str, float]:
        """Return the mean loss over the pairs of the epoch."""
        mean = self.loss / max(self.pairs, 1)
        self.loss, self.pairs = 0.0, 0
        return {"loss": mean}

    def vectors(self) -> Tensor:
        """Return the vector of each row, shape ``(N, dim)``."""
        return self.table.detach()

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:  # noqa: ARG002
        """Return the vectors of nodes by their ids, shape ``(N, dim)``; a node that was not fitted is refused."""
        at, known = self._find(id_keys(graph.ids))
        if not known.all():
            missing = graph.ids[int(np.flatnonzero(~known)[0])].as_py()
            raise GraphError(
                f"graph {graph.name!r}: node {missing!r} was not in the fitted graph, and this method has vectors only "
                "for nodes that were; fit it again, or choose an inductive method (dssl methods)"
            )
        found: NDArray[np.float32] = self.vectors().cpu().numpy()[at]
        return found

    def health_limits(self) -> dict[str, dict[str, float]]:
        """Return no limits: a table cannot collapse as an encoder can."""
        return {}

    def warnings(self) -> list[str]:
        """Return no warnings."""
        return []

    def _find(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the rows of keys, and whether each key is present."""
        own = self.keys.cpu().numpy()
        if not len(own):
            return np.zeros_like(wanted), np.zeros(len(wanted), bool)
        order = np.argsort(own, kind="stable")
        at = order[np.searchsorted(own, wanted, sorter=order).clip(max=len(own) - 1)]
        return at, own[at] == wanted

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        # A new module has no rows yet: their number is that of the fitted graph.
        for name in ("table", "contexts", "keys"):
            stored = state_dict.get(prefix + name)
            if isinstance(stored, Tensor) and stored.shape != getattr(self, name).shape:
                empty = torch.empty_like(stored)
                setattr(self, name, nn.Parameter(empty) if name != "keys" else empty)
        super()._load_from_state_dict(state_dict, prefix, *args)


class SkipGram(TableMethod):
    """Skip-gram with negative sampling on walks; a method defines its walks, and how negatives are drawn.

    Args:
        dim: length of the vectors.
        walk_length: steps of a walk.
        window: largest distance of a pair along a walk.
        negatives: draws per pair.
        step_size: of the first epoch; each epoch walks once from each node.
    """

    def __init__(self, dim: int, *, walk_length: int, window: int, negatives: int, step_size: float) -> None:
        super().__init__(dim, step_size=step_size)
        self.walk_length, self.window, self.negatives = walk_length, window, negatives
        self.others = Draws.of(np.ones(1))

    def paths(self, starts: NDArray[np.int64], seed: int) -> NDArray[np.int32]:
        """Walk from each start node, shape ``(n, walk_length + 1)``."""
        raise NotImplementedError

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Walk from the start nodes and train on the pairs of the walks."""
        starts, seed = batch
        total, count = 0.0, 0
        drawn = np.uint64(rng.integer(seed, "pairs"))  # another stream than that of the walks
        for begin in range(0, len(starts), AT_ONCE):
            paths = self.paths(starts[begin : begin + AT_ONCE], seed)
            loss, pairs = train_walks(
                paths, vectors, contexts, self.others, self.window, self.negatives, self.rate, drawn
            )
            total, count = total + loss, count + pairs
        return total, count
