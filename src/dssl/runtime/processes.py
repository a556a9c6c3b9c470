"""Worker processes with one thread each, and the number of threads inside a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from dssl.errors import RunError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

LOST = "a worker process was killed (out of memory?); run the same command to resume"
_Result = TypeVar("_Result")


@contextmanager
def pool(workers: int, *, fresh: bool = False) -> Iterator[Callable[..., Future[Any]]]:
    """Give a function that has work done and returns a future: in worker processes, or here and now for one worker.

    Args:
        workers: processes at a time, each with one thread.
        fresh: a new process for each piece of work, whose memory and death are then its own; one at a time has all
            threads.

    >>> with pool(1) as submit:
    ...     submit(max, 3, 5).result()
    5
    """
    from concurrent.futures import Future, ThreadPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children

    def here(work: Callable[..., _Result], *given: Any) -> Future[_Result]:
        future: Future[_Result] = Future()
        future.set_result(work(*given))
        return future

    if workers <= 1 and not fresh:
        yield here
        return
    executor = ThreadPoolExecutor(workers) if fresh else _processes(workers, one_thread=True)
    try:
        yield (lambda *given: executor.submit(_alone, workers > 1, *given)) if fresh else executor.submit
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in active_children():  # else the end of this process waits for theirs
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise RunError(LOST) from None
        raise
    executor.shutdown()


def _processes(number: int, *, one_thread: bool) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_begin, initargs=(one_thread,))


def _alone(one_thread: bool, work: Callable[..., _Result], *given: Any) -> _Result:
    """Have work done by a process that does nothing else, so that its death is the end of that work alone."""
    from concurrent.futures.process import BrokenProcessPool

    with _processes(1, one_thread=one_thread) as executor:
        try:
            return executor.submit(work, *given).result()
        except BrokenProcessPool:
            raise RunError(LOST) from None


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let torch and the compiled loops use this many threads inside the block; 0 leaves it alone.

    BLAS, which NumPy and SciPy call, has one: its sums depend on the number of threads, and on matrices as narrow as
    ours one thread is faster.
    """
    import scipy.linalg  # noqa: F401  only libraries that are loaded are limited
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(number or before)  # also for the threads that are started inside the block
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch, BLAS and OpenMP use one thread each inside the block, and restore them after."""
    from threadpoolctl import threadpool_limits

    with threads(1), threadpool_limits(1):
        yield


def _begin(one_thread: bool) -> None:
    """Set a worker up: its threads, before the libraries that read their number are imported, and when it ends.

    A script that starts workers is imported by each of them, and may have imported libraries before.
    """
    import sys
    import threading
    from multiprocessing import parent_process

    if one_thread:
        from threadpoolctl import threadpool_limits

        for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = "1"
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        threadpool_limits(1)  # BLAS that is loaded already: threads of several workers would wait for each other

    def end_with_the_parent() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_the_parent, daemon=True).start()
