"""Work in other processes is what it is here; a killed worker is one line."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info

from dssl.errors import RunError
from dssl.runtime import processes
from dssl.runtime.processes import pool


def threads() -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_work_gives_the_same_here_and_elsewhere(workers: int) -> None:
    with pool(workers) as submit:
        assert [submit(pow, base, 2).result() for base in range(3)] == [0, 1, 4]
        where = submit(os.getpid).result()
    assert (where == os.getpid()) is (workers == 1)
    assert multiprocessing.active_children() == []


def test_a_worker_has_one_thread() -> None:
    with pool(2) as submit:
        assert submit(threads).result() == "1"


def test_a_worker_has_one_thread_also_if_the_script_imports_numpy_and_torch_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy, torch\n"
        "from threadpoolctl import threadpool_info\n"
        "from dssl.runtime.processes import pool\n"
        "def threads():\n"
        "    return {torch.get_num_threads(), *(library['num_threads'] for library in threadpool_info())}\n"
        "if __name__ == '__main__':\n"
        "    with pool(2) as submit:\n"
        "        print(submit(threads).result())\n",
        encoding="utf-8",
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    found = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "{1}"


def test_a_worker_that_is_killed_is_told_in_one_line() -> None:
    with pytest.raises(RunError, match="a worker process was killed"), pool(2) as submit:
        submit(die).result()


@pytest.mark.skipif(sys.platform == "win32", reason="looks for a process by its number")
def test_workers_end_with_a_parent_that_is_killed() -> None:
    code = "from tests.runtime.test_processes import wait_in_a_worker; wait_in_a_worker()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(3000):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker outlived its parent by five minutes")


def wait_in_a_worker() -> None:
    with pool(2) as submit:
        submit(wait).result()


def wait() -> None:
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(3600)


def test_threads_are_restored() -> None:
    before = torch.get_num_threads(), _blas_threads()
    with pytest.raises(RuntimeError), processes.one_thread():
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert (torch.get_num_threads(), _blas_threads()) == before


def test_blas_has_one_thread_whatever_torch_has() -> None:
    with processes.threads(2):
        assert torch.get_num_threads() == 2
        assert _blas_threads() == {1}


def _blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
