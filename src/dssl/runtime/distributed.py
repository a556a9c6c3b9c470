"""Several processes that train one model together: who is who, sums over all of them, and how they begin and end.

Alone, without a process group, every function answers as the only process of one.

Each process takes a part of the centres of the batch and computes the loss *of the whole batch*: a sum over centres
goes through `total`, which adds up over the processes, in the backward pass too. The mean of the processes' gradients
then is the gradient that one process with the whole batch has, and every process makes the same step.

Why `average_gradients` and not DistributedDataParallel: which parameters a loss uses depends on the settings and on the
batch, which it takes only with ``find_unused_parameters``, whose warning every process prints when all are used; its
overlap of the exchange with the backward pass is of no use for the few megabytes of an encoder; and one vector, added
up once, has the same bits everywhere.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from dssl.errors import ConfigError, DsslError, LostError, RunError

# A process that dies is noticed at once, as its connection closes. This is for a machine that falls silent, and longer
# than the differences between processes may be: in reading the graph, or in the writes of the first one.
TIMEOUT = timedelta(minutes=30)
OTHERS = "another process of this job could not begin; its own message has the reason"
_Sliced = TypeVar("_Sliced")


def world() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    return dist.get_rank() if world() > 1 else 0


def launched() -> bool:
    """Whether this process was started as one of several, by torchrun or in its manner."""
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return all(os.environ.get(name) for name in names) and os.environ["WORLD_SIZE"] != "1"


def restarted() -> bool:
    """Whether torchrun restarted the processes after one of them was lost."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


@contextmanager
def joined(device: str) -> Iterator[None]:
    """Be one of the processes that torchrun started, if it did; a process that is lost is a `LostError` of the others.

    Args:
        device: the setting ``train.device``. Unless it is cpu, each process takes the GPU of its number on the machine.
    """
    if not launched() or dist.is_initialized():
        yield
        return
    gpu = device != "cpu" and torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _stoppable():
        try:
            store, rank, world = next(rendezvous("env://", timeout=TIMEOUT))
            # After a restart the store is still there, with the addresses of the processes that are gone.
            store = dist.PrefixStore(  # type: ignore[attr-defined]
                f"dssl/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store
            )
            backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=TIMEOUT)
            yield
        except RuntimeError as error:
            if not _is_loss(error):
                raise
            raise LostError(_lost(str(error))) from None
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


@contextmanager
def _stoppable() -> Iterator[None]:
    """End with one line on SIGTERM, by which torchrun ends the others when one is lost.

    An exception would not do: raised inside a destructor, Python prints and ignores it. Locks end with the process, and
    files are replaced in one step.
    """

    def stop(*_: Any) -> None:
        os.write(2, f"dssl: error: {_lost('SIGTERM')}\n".encode())
        os._exit(2)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_loss(error: Exception) -> bool:
    """Whether an error is one of the connection to the others; gloo's have no separate type."""
    if isinstance(error, DsslError):
        return False
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "NCCL", "TCPStore"))


def _lost(reason: str) -> str:
    who = f"process {os.environ.get('RANK', '?')} of {os.environ.get('WORLD_SIZE', '?')}"
    short = reason.partition("] ")[2] or reason  # gloo begins with its source file
    return (
        f"{who} ends, as another one was lost or all were stopped ({short.splitlines()[0].partition('. ')[0]}); "
        "the same command resumes from the last checkpoint"
    )


@contextmanager
def together() -> Iterator[None]:
    """Let no process continue after the block unless all can: an error of one ends the others too, without a word."""
    if world() == 1:
        yield
        return
    try:
        yield
    except (DsslError, OSError):
        count(1)
        raise
    if count(0):
        raise RunError(OTHERS)


# --- sums ------------------------------------------------------------------------------------------------------------


def total(values: Tensor) -> Tensor:
    """Add up a tensor over the processes; a gradient is added up likewise."""
    return values if world() == 1 else cast(Tensor, _Total.apply(values))  # type: ignore[no-untyped-call]


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004
        return _added(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # noqa: ARG004
        return _added(grads[0])


def _added(values: Tensor) -> Tensor:
    out = values.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out)
    return out


def count(number: int) -> int:
    """Add up a whole number over the processes."""
    return number if world() == 1 else int(_added(torch.tensor(number)))


def gather(number: int) -> list[int]:
    """Return the number that each process gives."""
    if world() == 1:
        return [number]
    numbers = torch.zeros(world(), dtype=torch.int64)
    numbers[rank()] = number
    return cast("list[int]", _added(numbers).tolist())


def from_first(values: Tensor) -> Tensor:
    """Return the values that the first process gives; the others' have the same shape."""
    if world() > 1:
        dist.broadcast(values, 0)
    return values


def share(number: int) -> float:
    """What to multiply a mean over ``number`` of the centres by, so that the mean over processes is that over all."""
    return 1.0 if world() == 1 else world() * number / max(count(number), 1)


def mean_rows(h: Tensor) -> tuple[Tensor, int]:
    """Return the mean of the rows that all processes have, h of shape ``(n, dim)``, and how many they are."""
    if world() == 1:
        return h.mean(dim=0), len(h)
    # In double precision the mean of a row that every process has is that row, and centred by it, it is exactly zero.
    sums = total(torch.cat([h.sum(dim=0, dtype=torch.float64), h.new_tensor([len(h)], dtype=torch.float64)]))
    return (sums[:-1] / sums[-1]).to(h.dtype), int(sums[-1].detach())


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Give every process the mean of the processes' gradients; one that no process has stays none."""
    if world() == 1:
        return
    parts = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters]
    used = torch.tensor([float(p.grad is not None) for p in parameters], device=parts[0].device)
    flat = _added(torch.cat([*parts, used]))
    means = torch.split(flat[: -len(parts)] / world(), [len(part) for part in parts])
    for p, mean, number in zip(parameters, means, flat[-len(parts) :].tolist(), strict=True):
        p.grad = mean.view_as(p) if number else None


# --- who has what ----------------------------------------------------------------------------------------------------


def part(centres: _Sliced) -> _Sliced:
    """Return this process's part of the rows of a batch; all of them if there are fewer than processes."""
    many: Any = centres
    if len(many) < world():
        return centres
    begin, end = (len(many) * place // world() for place in (rank(), rank() + 1))
    return cast(_Sliced, many[begin:end])


def start_alike(module: nn.Module) -> None:
    """Give every process the parameters and buffers of the first, and see that none normalises over its own rows.

    Args:
        module: the method.
    """
    if world() == 1:
        return
    for name, inner in module.named_modules():
        if isinstance(inner, nn.modules.batchnorm._BatchNorm) and not getattr(inner, "of_all_processes", False):
            raise ConfigError(
                f"{name} normalises over the rows of its own process ({type(inner).__name__}); use an encoder "
                "without batch normalisation, or one process"
            )
    for value in module.state_dict().values():
        dist.broadcast(value, 0)


@contextmanager
def file_of_first(path: Path) -> Iterator[Path | None]:
    """Give a path with the bytes that the file has for the first process, or none if there is no such file."""
    if rank() == 0:
        found = path.exists()
        if world() > 1:
            content = path.read_bytes() if found else b""
            dist.broadcast(torch.tensor(len(content) if found else -1), 0)
            if content:
                dist.broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), 0)
        yield path if found else None
        return
    size = torch.tensor(0)
    dist.broadcast(size, 0)
    if int(size) < 0:
        yield None
        return
    data = torch.empty(int(size), dtype=torch.uint8)
    if int(size):
        dist.broadcast(data, 0)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(data.numpy().tobytes())
        yield copy


def check_same(text: str, what: str) -> None:
    """Refuse to continue if the value of this process differs from that of the first.

    Args:
        text: what this process has, in a few characters of ASCII.
        what: its name in the message.
    """
    if world() == 1:
        return
    own = torch.zeros(256, dtype=torch.uint8)
    data = text.encode()[:256]
    own[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    first = own.clone()
    dist.broadcast(first, 0)
    if not torch.equal(first, own):
        raise RunError(f"process {rank()} has {what} other than process 0; give all machines the same files")
