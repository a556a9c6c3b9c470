"""Large arrays of a training step whose memory is used again: fresh memory is slow.

The C library gives large arrays back to the system when they are freed (above 32 MB at once, smaller ones when they lie
at the end of its heap), and a new one has pages that the system fills with zeros when they are touched first. A step
makes dozens of arrays with a row per node. Inside `reused`, `empty` hands out the memory of an earlier array of the
same shape once it has no reference any more.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LARGE = 4 << 20  # bytes: smaller arrays the C library keeps itself without much loss

_lock = threading.Lock()
_kept: dict[tuple[int, ...], list[NDArray[np.float32]]] | None = None
_probe = [np.empty(0)]
_UNUSED = sys.getrefcount(_probe[0])  # what Python counts for an array that only a list refers to


def empty(*shape: int) -> Tensor:
    """Return a tensor of float32 on the CPU with any values, as ``torch.empty`` does."""
    if _kept is None or 4 * math.prod(shape) < LARGE:
        return torch.empty(shape, dtype=torch.float32)
    with _lock:
        known = _kept[shape]
        for at in range(len(known)):
            if sys.getrefcount(known[at]) == _UNUSED:  # a tensor made of it, or a view of one, would count
                return torch.from_numpy(known[at])
        known.append(np.empty(shape, np.float32))
        return torch.from_numpy(known[-1])


def zeros(*shape: int) -> Tensor:
    """Return a tensor of zeros in the same way."""
    return empty(*shape).zero_()


@contextmanager
def reused(*, alike: bool = True) -> Iterator[None]:
    """Keep the memory of large arrays for the next ones, until the end; not if steps are not ``alike`` in their shapes.

    Where memory is kept already, nothing changes.
    """
    global _kept
    if _kept is not None or not alike:
        yield
        return
    _kept = defaultdict(list)
    try:
        yield
    finally:
        _kept = None
