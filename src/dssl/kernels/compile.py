"""How the loops of the package are compiled.

Compiled code is cached on disk, so that only the first call on a machine waits for the compiler. With the environment
variable ``DSSL_CHECK_BOUNDS=1`` every array index is checked, nothing is cached, and a wrong index raises IndexError.
Loops that take addresses instead of arrays (`dssl.kernels.simd` and its users) have no bounds to check.

A loop that several threads share takes the bounds of its part first (`in_threads`). Numba's own parallel loops are not
used: each takes half a second more to compile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Indptr = NDArray[np.int64]  # row pointers of a graph or a sparse matrix
Indices = NDArray[np.int32]
Floats = NDArray[np.float32]
F = TypeVar("F", bound=Callable[..., object])

CHECK_BOUNDS = os.environ.get("DSSL_CHECK_BOUNDS", "") not in ("", "0")
_OPTIONS: dict[str, Any] = {"nogil": True, "cache": not CHECK_BOUNDS, "boundscheck": CHECK_BOUNDS}
# Sums in any order (vectorised) and fused multiply-add; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}


def compiled(function: F) -> F:
    """Compile a loop."""
    return cast(F, numba.njit(**_OPTIONS)(function))


def compiled_fast(function: F) -> F:
    """Compile a loop whose sums may be taken in any order."""
    return cast(F, numba.njit(**_OPTIONS, fastmath=_FAST)(function))


def usable_threads() -> int:
    """Number of threads for a loop: that of torch where it is loaded, at most ``NUMBA_NUM_THREADS``."""
    limit = int(cast(Any, numba.config).NUMBA_NUM_THREADS)
    return min(limit, sys.modules["torch"].get_num_threads()) if "torch" in sys.modules else limit


def equal_parts(count: int, threads: int, *, least: int = 1) -> list[int]:
    """Bounds of equal parts of ``range(count)``, one per thread, none with less than ``least`` turns.

    >>> equal_parts(10, 4)
    [0, 2, 5, 7, 10]
    """
    parts = max(min(threads, count // max(least, 1)), 1)
    return [count * part // parts for part in range(parts + 1)]


def row_parts(indptr: NDArray[np.int64], threads: int, *, least: int = 1) -> list[int]:
    """Bounds of parts of the rows of a sparse matrix, one per thread, with about as many entries each.

    >>> row_parts(np.array([0, 8, 9, 10, 16]), 2)
    [0, 1, 4]
    """
    parts = max(min(threads, (indptr.size - 1) // max(least, 1)), 1)
    shares = [int(indptr[-1]) * part // parts for part in range(1, parts)]
    return [0, *np.searchsorted(indptr, shares).tolist(), indptr.size - 1]


def in_threads(function: Callable[..., Any], bounds: Sequence[int], *arguments: Any) -> None:
    """Call ``function(begin, end, *arguments)`` between each two bounds, every part in a separate thread."""
    first, *others = pairwise(bounds)
    waiting = [_threads().submit(function, *part, *arguments) for part in others]
    try:
        function(*first, *arguments)
        wait(waiting)
    finally:
        wait(waiting)  # after an interrupt too: the caller would free memory that a thread writes to
    for done in waiting:
        done.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(int(cast(Any, numba.config).NUMBA_NUM_THREADS), os.cpu_count() or 1), "dssl loops")


if hasattr(os, "register_at_fork"):  # the threads stay with the parent
    os.register_at_fork(after_in_child=_threads.cache_clear)
