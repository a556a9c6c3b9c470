"""How the loops of the package are compiled.

Compiled code is cached on disk, so that only the first call on a machine waits for the compiler. With the environment
variable ``DSSL_CHECK_BOUNDS=1`` every array index is checked, nothing is cached, and a wrong index raises IndexError.
Loops that take addresses instead of arrays (`dssl.kernels.simd` and its users) have no bounds to check.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

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


def compiled_parallel(function: F) -> F:
    """Compile a loop over `numba.prange`, whose turns are shared among threads, and by one if bounds are checked."""
    return cast(F, numba.njit(**_OPTIONS, parallel=not CHECK_BOUNDS)(function))
