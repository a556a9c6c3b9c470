"""Rows of a file read into memory without a call of Python for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from dssl.kernels.compile import compiled

# POSIX: ssize_t pread(int file, void *buffer, size_t count, off_t offset)
_pread: Any = types.ExternalFunction("pread", types.intp(types.int32, types.uintp, types.uintp, types.int64))


@compiled
def read_rows(file: int, offset: int, width: int, nodes: NDArray[np.int64], address: int) -> int:
    """Read rows of ``width`` bytes of a file to where ``address`` is; return how many there were before an error."""
    for row in range(nodes.shape[0]):
        at, done = np.int64(offset) + nodes[row] * width, np.int64(0)
        while done < width:
            got = _pread(
                np.int32(file), np.uintp(address + row * width + done), np.uintp(width - done), np.int64(at + done)
            )
            if got <= 0:
                return row
            done += got
    return len(nodes)
