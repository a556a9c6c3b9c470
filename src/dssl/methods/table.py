"""Methods without an encoder: a table with a vector for each node of the fitted graph, found again by the node's id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

Starts = tuple[NDArray[np.int64], int]


AT_ONCE = 10_000  # walks that are held in memory


class Lookup(nn.Module):
    """Tables of vectors and of the nodes as contexts, trained in place by compiled loops.

    They go through the one training loop as every method does: a batch is a set of start nodes, an epoch has each of
    them once, records, checkpoints and early stopping are the same. Only the step is not Adam's: `forward` has already
    moved the rows when it returns the loss, which has no gradient. Skip-gram moves a few rows for each of millions of
    pairs; a dense step of an optimiser for each batch of them would take longer and see far fewer updates.

    Args:
        dim: length of the vectors.
        step_size: of the first epoch; it falls linearly towards zero over ``epochs``, as in word2vec.
        epochs: length of the training.
    """

    def __init__(self, dim: int, *, step_size: float, epochs: int) -> None:
        super().__init__()
        self.dim, self.step_size, self.epochs = dim, step_size, epochs
        self.table = nn.Parameter(torch.empty(0, dim))
        self.contexts = nn.Parameter(torch.empty(0, dim))
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.keys: Tensor
        self.rate = step_size
        self.seed = 0
        self.loss, self.pairs = 0.0, 0

    def prepare(self, graph: Graph, *, seed: int) -> None:
        """Make a row for each node: small random vectors, contexts of zeros; rows of known ids stay (warm start)."""
        keys = id_keys(graph.ids)
        draw = rng.stream(seed, "table")
        table = ((draw.random((graph.num_nodes, self.dim)) - 0.5) / self.dim).astype(np.float32)
        contexts = np.zeros_like(table)
        if len(self.keys):
            at, known = self._places(keys)
            table[known] = self.table.detach().cpu().numpy()[at[known]]
            contexts[known] = self.contexts.detach().cpu().numpy()[at[known]]
        device = self.table.device
        self.table = nn.Parameter(torch.from_numpy(table).to(device))
        self.contexts = nn.Parameter(torch.from_numpy(contexts).to(device))
        self.keys = torch.from_numpy(keys.copy()).to(device)

    def batches(
        self,
        graph: Graph,
        *,
        batch_size: int,
        fanout: Sequence[int],  # noqa: ARG002
        seed: int,
        epoch: int,
        device: torch.device,  # noqa: ARG002
    ) -> Iterator[Starts]:
        """Give start nodes in random order, each once, with the seed of the epoch."""
        order = rng.stream(seed, "starts", epoch).permutation(graph.num_nodes)
        self.rate = self.step_size * max(1 - epoch / max(self.epochs, 1), 1e-4)
        number = rng.integer(seed, "walks", epoch) >> 1
        for begin in range(0, graph.num_nodes, batch_size or graph.num_nodes):
            yield order[begin : begin + (batch_size or graph.num_nodes)], number

    def forward(self, batch: Starts) -> Tensor:
        """Move the rows along a batch, and return the mean loss of its pairs, without gradient."""
        vectors, contexts = (part.detach().cpu().numpy() for part in (self.table, self.contexts))
        loss, pairs = self.learn(batch, vectors, contexts)
        if self.table.device.type != "cpu":
            self.table.data.copy_(torch.from_numpy(vectors))
            self.contexts.data.copy_(torch.from_numpy(contexts))
        self.loss, self.pairs = self.loss + loss, self.pairs + pairs
        return torch.tensor(loss / max(pairs, 1))

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Train both tables in place; return the summed loss and the number of pairs."""
        raise NotImplementedError

    def after_step(self) -> None:
        """Nothing follows a step."""

    def after_epoch(self) -> dict[str, float]:
        """Return the mean loss over the pairs of the epoch."""
        mean = self.loss / max(self.pairs, 1)
        self.loss, self.pairs = 0.0, 0
        return {"loss": mean}

    def vectors(self) -> Tensor:
        """Return the vector of each row, shape ``(N, dim)``."""
        return self.table.detach()

    def embed(self, graph: Graph) -> NDArray[np.float32]:
        """Return the vectors of nodes by their ids, shape ``(N, dim)``; a node that was not fitted is refused."""
        at, known = self._places(id_keys(graph.ids))
        if not known.all():
            missing = graph.ids[int(np.flatnonzero(~known)[0])].as_py()
            raise GraphError(
                f"graph {graph.name!r}: node {missing!r} was not in the fitted graph, and this method has vectors only "
                "for nodes that were; fit it again, or choose an inductive method (dssl methods)"
            )
        found: NDArray[np.float32] = self.vectors().cpu().numpy()[at]
        return found

    def warnings(self) -> list[str]:
        """A table cannot collapse as an encoder can."""
        return []

    def _places(self, wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows of keys, and which of them there are."""
        own = self.keys.cpu().numpy()
        order = np.argsort(own, kind="stable")
        at = (
            order[np.searchsorted(own, wanted, sorter=order).clip(max=max(len(own) - 1, 0))] if len(own) else wanted * 0
        )
        known = own[at] == wanted if len(own) else np.zeros(len(wanted), bool)
        return at, known

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        # The number of rows is that of the fitted graph, which a new module does not know.
        for name in ("table", "contexts", "keys"):
            stored = state_dict.get(prefix + name)
            if isinstance(stored, Tensor) and stored.shape != getattr(self, name).shape:
                empty = torch.empty_like(stored)
                setattr(self, name, nn.Parameter(empty) if name != "keys" else empty)
        super()._load_from_state_dict(state_dict, prefix, *args)


class SkipGram(Lookup):
    """Skip-gram with negative sampling on walks; a method says how it walks, and how negatives are drawn.

    Args:
        dim: length of the vectors.
        walk_length: steps of a walk.
        window: largest distance of a pair along a walk.
        negatives: draws per pair.
        step_size: of the first epoch.
        epochs: walks per node.
    """

    def __init__(
        self, dim: int, *, walk_length: int, window: int, negatives: int, step_size: float, epochs: int
    ) -> None:
        super().__init__(dim, step_size=step_size, epochs=epochs)
        self.walk_length, self.window, self.negatives = walk_length, window, negatives
        self.others = Draws.of(np.ones(1))

    def paths(self, starts: NDArray[np.int64], seed: int) -> NDArray[np.int32]:
        """Walk from each start node, shape ``(n, walk_length + 1)``."""
        raise NotImplementedError

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Walk from the start nodes and go through the walks."""
        starts, seed = batch
        total, count = 0.0, 0
        drawn = np.uint64(rng.integer(seed, "pairs"))  # not what the walks are drawn by
        for begin in range(0, len(starts), AT_ONCE):
            loss, pairs = train_walks(
                self.paths(starts[begin : begin + AT_ONCE], seed),
                vectors,
                contexts,
                self.others.chance,
                self.others.alias,
                self.window,
                self.negatives,
                self.rate,
                drawn,
            )
            total, count = total + loss, count + pairs
        return total, count
