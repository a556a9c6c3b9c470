"""The only training loop: a `Method` and a graph in, a trained method out.

>>> from dssl.methods.dgi import DGI
>>> from dssl.nn import encoders
>>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
>>> encoder = encoders.build("gcn", in_dim=2, dim=3, hidden_dim=4, layers=1, dropout=0.0, batch_norm=False)
>>> method = DGI(encoder)
>>> settings = {"learning_rate": 0.01, "weight_decay": 0.0, "batch_size": 0, "fanout": (10,)}
>>> train(method, graph, epochs=2, seed=0, device=device("cpu"), **settings)
2
>>> method.embed(graph).shape
(4, 3)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dssl import rng
from dssl.errors import ConfigError, RunError
from dssl.graph import Graph
from dssl.kernels import buffers
from dssl.methods import InPlaceMethod, Method
from dssl.nn.batches import ALL, Sampling
from dssl.runtime import distributed
from dssl.runtime.processes import threads
from dssl.runtime.scale import IN_MEMORY, Scale
from dssl.runtime.tensors import write_tensors

Record = dict[str, float]


def device(name: str) -> torch.device:
    """Return the torch device of a name; ``auto`` is a GPU where one is available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(name)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError):
        raise ConfigError(f"train.device: {name!r} is not usable on this machine; use auto or cpu") from None
    return found


def train(
    method: nn.Module,
    graph: Graph,
    *,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    batch_size: int,
    fanout: Sequence[int],
    seed: int,
    device: torch.device,
    scale: Scale = IN_MEMORY,
    patience: int = 0,
    tolerance: float = 0.0,
    checkpoint: Path | None = None,
    checkpoint_every: int = 10,
    on_epoch: Callable[[int, Record], None] | None = None,
) -> int:
    """Train a method on a graph; return the number of epochs after which it stopped.

    The random numbers of an epoch follow from the seed and its number. So a checkpoint needs no state of a generator,
    and resumed training ends with the same bytes as training without a break.

    In a process group each process takes a part of every batch, and all make the same steps: see
    `dssl.runtime.distributed`. The first one writes the checkpoints, and broadcasts the one that it reads.

    Args:
        method: a `Method`, trained in place.
        graph: the graph, with features.
        epochs: passes over all nodes.
        learning_rate: of Adam.
        weight_decay: of Adam.
        batch_size: centre nodes per step; 0 takes all at once.
        fanout: neighbours sampled per ring in mini-batches.
        seed: seed of the run.
        device: where to train.
        scale: whether the preparation of the graph is computed at once or by blocks.
        patience: epochs over which `Plateau` averages the loss; 0 never stops early.
        tolerance: fraction of the decrease so far that they must add.
        checkpoint: file to resume from if it exists, and to write to.
        checkpoint_every: epochs between two checkpoints.
        on_epoch: called with the number and the record of each epoch done (from 1).
    """
    method.to(device)
    steps = cast(Method, method)
    steps.prepare(graph, seed=seed, scale=scale)
    distributed.start_alike(method)
    if distributed.world() > 1 and not batch_size:  # all centres at once, with all neighbours, split like any batch
        batch_size, fanout = graph.num_nodes, (ALL,)
    sampling = Sampling(batch_size=batch_size, fanout=fanout, seed=seed, epoch=0, device=device)
    parameters = [p for p in method.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate, weight_decay=weight_decay)
    done, plateau = 0, Plateau(patience, tolerance)
    if checkpoint is not None:
        with distributed.file_of_first(checkpoint) as found:
            done = 0 if found is None else _restore(found, method, optimizer, plateau)
    with _resources(mini_batches=batch_size > 0):
        while done < epochs and not plateau.reached:
            method.train()
            steps.before_epoch(done, epochs)
            with rng.seeded(seed, "train", done, *([distributed.rank()] if distributed.rank() else [])):
                for batch in steps.batches(graph, replace(sampling, epoch=done)):
                    if isinstance(method, InPlaceMethod):
                        _finite(method.update(batch), done)
                    else:
                        loss = method(batch)
                        _finite(loss.item(), done)
                        optimizer.zero_grad(set_to_none=True)
                        loss.backward()
                        distributed.average_gradients(parameters)
                        optimizer.step()
                    steps.after_step()
            record = steps.after_epoch()
            done += 1
            plateau.add(record["loss"])
            if on_epoch is not None:
                on_epoch(done, record)
            if checkpoint is not None and (done % checkpoint_every == 0 or done == epochs) and not distributed.rank():
                _save(checkpoint, method, optimizer, plateau, done)
    method.eval()
    return done


def _finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise RunError(f"the loss is not finite in epoch {epoch + 1}; lower train.learning_rate")


@contextmanager
def _resources(*, mini_batches: bool) -> Iterator[None]:
    """Reuse large arrays from step to step, and leave a core to the thread that prepares mini-batches.

    Compute threads that share a core with it would spin while they wait for each other.
    """
    own = max(torch.get_num_threads() - 1, 1) if mini_batches else 0
    with buffers.reused(alike=not mini_batches), threads(own):
        yield


class Plateau:
    """Detects when training has levelled off, by the loss alone.

    The loss of an epoch is noisy, falls ever more slowly, and may have either sign. So means of ``patience`` epochs are
    compared, and the gain of the last ones is measured against the whole decrease since the first epoch.

    Args:
        patience: epochs per mean; 0 never stops.
        tolerance: fraction of the decrease so far that the last ``patience`` epochs must add.

    >>> plateau = Plateau(2, 0.1)
    >>> losses = [9, 5, 1.1, 0.9, 0.9, 0.9]
    >>> [plateau.add(loss) or plateau.reached for loss in losses]
    [False, False, False, False, False, True]
    """

    def __init__(self, patience: int, tolerance: float) -> None:
        self.patience, self.tolerance = patience, tolerance
        self.first: float | None = None
        self.recent: deque[float] = deque(maxlen=2 * patience)

    def add(self, loss: float) -> None:
        """Add the loss of the next epoch."""
        self.first = loss if self.first is None else self.first
        self.recent.append(loss)

    @property
    def reached(self) -> bool:
        """Whether the last epochs gained too little to continue."""
        if not self.patience or self.first is None or len(self.recent) < 2 * self.patience:
            return False
        losses = list(self.recent)
        before, now = (sum(part) / self.patience for part in (losses[: self.patience], losses[self.patience :]))
        return before - now <= self.tolerance * max(self.first - now, 0.0)

    def to_text(self) -> str:
        """Return the exact state for `from_text`."""
        return " ".join(loss.hex() for loss in ([] if self.first is None else [self.first, *self.recent]))

    def from_text(self, text: str) -> None:
        """Restore a state from `to_text`."""
        losses = [float.fromhex(part) for part in text.split()]
        self.first = losses[0] if losses else None
        self.recent.clear()
        self.recent.extend(losses[1:])


def _save(path: Path, method: nn.Module, optimizer: torch.optim.Optimizer, plateau: Plateau, done: int) -> None:
    tensors = {f"method.{name}": value for name, value in method.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
    write_tensors(path, tensors, {"epoch": str(done), "losses": plateau.to_text()})


def _restore(path: Path, method: nn.Module, optimizer: torch.optim.Optimizer, plateau: Plateau) -> int:
    try:
        with safe_open(path, framework="pt") as file:
            notes: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        method.load_state_dict(
            {name.removeprefix("method."): value for name, value in tensors.items() if name.startswith("method.")}
        )
        state: dict[int, dict[str, Any]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, field = name.split(".", 2)
                state.setdefault(int(index), {})[field] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        plateau.from_text(notes["losses"])
        return int(notes["epoch"])
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise RunError(f"checkpoint {path.name} cannot be read ({_first(error)}); delete it") from None


def _first(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
