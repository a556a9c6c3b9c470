"""Wrong indices of compiled loops in the debug mode, and loops that threads share."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from dssl.kernels import compile as loops

CODE = """
import numpy as np
from dssl.kernels.csr import sum_neighbours

indptr, indices = np.array([0, 1, 2]), np.array([1, 9], np.int32)
try:
    sum_neighbours(indptr, indices, None, np.ones((2, 3), np.float32))
except IndexError:
    print("refused")
"""


def test_a_wrong_index_is_refused_in_the_debug_mode() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "DSSL_CHECK_BOUNDS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["refused"]


def test_parts_are_bounded_by_the_threads_and_by_the_work() -> None:
    assert loops.equal_parts(10, 3) == [0, 3, 6, 10]
    assert loops.equal_parts(10, 3, least=4) == [0, 5, 10]
    assert loops.equal_parts(2, 8) == [0, 1, 2]
    assert loops.equal_parts(0, 8) == [0, 0]


def test_parts_of_rows_have_about_as_many_entries_each() -> None:
    indptr = np.array([0, 90, 91, 92, 93, 180], np.int64)
    assert loops.row_parts(indptr, 2) == [0, 1, 5]
    assert loops.row_parts(indptr, 2, least=3) == loops.row_parts(indptr, 0) == [0, 5]
    assert loops.row_parts(np.zeros(1, np.int64), 8) == [0, 0]
    assert loops.row_parts(np.zeros(4, np.int64), 2) == [0, 0, 3]  # no entries


def test_every_part_is_worked_on_once_and_at_the_same_time() -> None:
    together, seen = threading.Barrier(2, timeout=30), []

    def work(begin: int, end: int, extra: str) -> None:
        together.wait()  # passes only while the other part is worked on
        seen.append((begin, end, extra))

    loops.in_threads(work, [0, 4, 7], "x")
    assert sorted(seen) == [(0, 4, "x"), (4, 7, "x")]


@pytest.mark.parametrize("broken", [0, 4])
def test_an_error_of_a_part_is_raised_after_the_others_have_ended(broken: int) -> None:
    done = []

    def work(begin: int, end: int) -> None:
        if begin == broken:
            raise ValueError("broken")
        done.append(end)

    with pytest.raises(ValueError, match="broken"):
        loops.in_threads(work, [0, 4, 7])
    assert len(done) == 1


def test_a_forked_process_has_threads_of_its_own() -> None:
    code = """
import os
from dssl.kernels.compile import in_threads
in_threads(lambda begin, end: None, [0, 1, 2])
child = os.fork()
if child == 0:
    in_threads(lambda begin, end: None, [0, 1, 2])
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["7"]
