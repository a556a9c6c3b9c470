"""Seeded random streams: every random decision names its stream, so that adding one never changes another.

A stream is a function of (seed, name, counters) alone. Nothing needs to be saved to resume: the stream of
epoch 7 is the same whether epochs 0 to 6 ran in this process or in one that was killed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    pass


def _sequence(seed: int, name: str, *counters: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, zlib.crc32(name.encode()), *counters])


def stream(seed: int, name: str, *counters: int) -> np.random.Generator:
    """Return the NumPy generator of the stream ``name``.

    >>> bool(stream(0, "splits").integers(1 << 30) == stream(0, "splits").integers(1 << 30))
    True
    >>> bool(stream(0, "splits").integers(1 << 30) == stream(0, "probe").integers(1 << 30))
    False
    """
    return np.random.default_rng(_sequence(seed, name, *counters))


def integer(seed: int, name: str, *counters: int) -> int:
    """Return a 63-bit seed drawn from the stream, for libraries that want a number."""
    high, low = _sequence(seed, name, *counters).generate_state(2)
    return (int(high) << 31) ^ int(low)


@contextmanager
def seeded(seed: int, name: str, *counters: int) -> Iterator[None]:
    """Seed torch's global generators inside the block (dropout and initialisers use them), and restore them after."""
    import torch

    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(integer(seed, name, *counters))
        yield
