"""Matrices on disk, of which only the rows or columns in use are in memory.

With a plain memory map the system keeps every page that was touched, and sixteen pages around it, until other programs
need the memory: a few batches of random rows make all of a matrix resident. So random rows are read with system calls
into a separate array, and `drop` releases the pages of a pass in order. All functions accept plain arrays too.
"""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dssl.runtime.files import naming

AT_ONCE = 1 << 24  # bytes of a block of rows
SMALL = 1 << 26  # bytes of a matrix that is kept in memory
_Array = TypeVar("_Array", bound=NDArray[Any])


class _Scratch(np.memmap[Any, np.dtype[Any]]):
    """A map that owns its nameless file; its views keep it alive, but do not own the file."""

    file: Any = None

    def __del__(self) -> None:
        if self.file is not None:
            self.file.close()


def scratch(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return a matrix of float32 zeros in a file without a name, which is deleted with the matrix (or its process).

    It lies in the folder of `tempfile`: ``TMPDIR`` moves it to a larger disk. Its space is reserved here, since a full
    disk that is found by writing to a map ends the process.
    """
    size = max(4 * shape[0] * shape[1], 1)
    with naming(Path(tempfile.gettempdir())):
        file = tempfile.TemporaryFile(prefix="dssl-")  # noqa: SIM115 (it lives as long as the matrix)
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
    made = _Scratch(file, np.float32, "r+", shape=shape)
    made.file = file
    return made


def is_mapped(x: object) -> bool:
    """Whether an array is the whole of a memory map of a file."""
    return isinstance(x, np.memmap) and isinstance(x.base, mmap.mmap)


def drop(x: object) -> None:
    """Release the pages of a map from the memory of this process; its content stays on disk."""
    if is_mapped(x) and hasattr(mmap, "MADV_DONTNEED"):
        x._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def blocks(x: NDArray[Any], *, at_once: int | None = None) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the rows in order: the number of the first, and a block that is valid until the next one is taken."""
    step = rows_at_once(x, at_once)
    for begin in range(0, x.shape[0], step):
        yield begin, np.asarray(x[begin : begin + step])
        drop(x)


def rows_at_once(x: NDArray[Any], at_once: int | None = None) -> int:
    """Return how many rows of a matrix make a block of so many bytes, by default `AT_ONCE`."""
    return max((at_once or AT_ONCE) // max(x.itemsize * int(np.prod(x.shape[1:])), 1), 1)


def rows(x: NDArray[np.float32], nodes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return a copy of some rows of a matrix, shape ``(n, F)``; positions must be within it."""
    if not is_mapped(x) or sys.platform == "win32" or not x.flags.c_contiguous or not nodes.size:
        return x[nodes]
    from dssl.kernels.pread import read_rows

    out = np.empty((nodes.size, x.shape[1]), x.dtype)
    file = getattr(x, "file", None)
    handle = os.open(x.filename, os.O_RDONLY) if file is None else file.fileno()  # type: ignore[attr-defined]
    try:
        done = read_rows(handle, x.offset, x.itemsize * x.shape[1], nodes, out.ctypes.data)  # type: ignore[attr-defined]
    finally:
        if file is None:
            os.close(handle)
    if done != nodes.size:
        raise OSError(0, "is shorter than it was when it was opened", getattr(x, "filename", None) or "a scratch file")
    return out


def matrix(shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return a matrix of float32 to be filled: in memory if it is small, and else in a scratch file."""
    return np.empty(shape, np.float32) if 4 * shape[0] * shape[1] <= SMALL else scratch(shape)


def put_away(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the matrix itself if it is small, and else a copy in a scratch file."""
    if x.nbytes <= SMALL:
        return x
    out = scratch((x.shape[0], x.shape[1]))
    put_columns(out, 0, x)
    return out


def mapped(
    function: Callable[..., NDArray[np.float32]],
    *matrices: NDArray[np.float32],
    into: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Apply a function of rows to matrices of as many rows, block by block; a large result is in a scratch file.

    Args:
        function: takes a block of each matrix and returns a row for each of theirs.
        matrices: the matrices, the widest first.
        into: matrix for a large result, which may be one of the given ones; none for a new one.

    >>> mapped(lambda a, b: a + b, np.ones((3, 2), np.float32), np.ones((3, 1), np.float32)).tolist()
    [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]
    """
    first = matrices[0]
    if len(first) <= rows_at_once(first):
        return function(*(np.asarray(part) for part in matrices))
    out = into
    for begin, made in _by_blocks(function, matrices, None):
        out = matrix((len(first), made.shape[1])) if out is None else out
        out[begin : begin + len(made)] = made
        drop(out)
    assert out is not None
    return out


def added(
    function: Callable[..., NDArray[Any]], *matrices: NDArray[np.float32], at_once: int | None = None
) -> NDArray[np.float64]:
    """Add up a function of blocks of rows in double precision, in the order of the blocks.

    Args:
        function: takes a block of each matrix and returns an array, of the same shape for all blocks, or a number.
        matrices: matrices of as many rows, at least one.
        at_once: bytes of a block of the first matrix, by default `AT_ONCE`.

    >>> added(lambda a: a.sum(axis=0), np.ones((3, 2), np.float32)).tolist()
    [3.0, 3.0]
    """
    total: NDArray[np.float64] | None = None
    for _, made in _by_blocks(function, matrices, at_once):
        total = np.array(made, np.float64) if total is None else np.add(total, made, out=total)
    assert total is not None
    return total


def _by_blocks(
    function: Callable[..., NDArray[Any]], matrices: tuple[NDArray[Any], ...], at_once: int | None
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Results of a function of blocks of rows, in order; a thread for each core has a block in work."""
    from dssl.kernels.compile import usable_threads

    step = rows_at_once(matrices[0], at_once)
    starts = range(0, len(matrices[0]), step)

    def result(begin: int) -> NDArray[Any]:
        return function(*(np.asarray(part[begin : begin + step]) for part in matrices))

    number = min(usable_threads(), len(starts))
    if number < 2:
        for begin in starts:
            yield begin, result(begin)
            for part in matrices:
                drop(part)
        return
    with ThreadPoolExecutor(number) as pool:
        waiting = deque((begin, pool.submit(result, begin)) for begin in starts[:number])
        for begin in (*starts[number:], *[-1] * number):
            first, future = waiting.popleft()
            yield first, future.result()
            for part in matrices:
                drop(part)
            if begin >= 0:
                waiting.append((begin, pool.submit(result, begin)))


def take_columns(x: NDArray[np.float32], begin: int, end: int) -> NDArray[np.float32]:
    """Return a copy of some columns of a matrix, shape ``(N, end - begin)``."""
    out = np.empty((x.shape[0], min(end, x.shape[1]) - begin), np.float32)
    for first, block in blocks(x):
        out[first : first + len(block)] = block[:, begin:end]
    return out


def put_columns(x: NDArray[np.float32], begin: int, values: NDArray[np.float32]) -> None:
    """Write some columns of a matrix, from ``begin`` on."""
    step = rows_at_once(x)
    for first in range(0, x.shape[0], step):
        x[first : first + step, begin : begin + values.shape[1]] = values[first : first + step]
        drop(x)
