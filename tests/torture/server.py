"""Cases at the price of a fork: the package is imported once, and each command runs in a fork of this process.

`shim.c` counts the file operations of a case, and kills it or lets one fail. Clocks and memory are fixed in a case, so
that files of two cases can be compared byte by byte.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

HERE = Path(__file__).parent
SHIM = "DSSL_TORTURE_SHIM"
LIMIT = 120  # seconds of processor time that a case may take; more is a hang
WAITING = 10  # times as long may a case wait: for the processor, or for something that never comes
COUNT, KILL, TEAR, FAIL, FAIL_FROM = range(5)
# One thread: a fork has only the thread that called it. The cache of compiled code is outside of the watched folder.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NUMBA_THREADING_LAYER": "workqueue",
    "MPLBACKEND": "agg",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An intervention: at which operation below ``root``, what, the error number, and whether reads count."""

    root: Path
    at: int = -1
    action: int = COUNT
    error: int = errno.ENOSPC
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a case: exit code (negative: signal), output, seconds, and the operations that were counted."""

    code: int
    out: str
    err: str
    seconds: float
    trace: tuple[str, ...] = ()

    @property
    def one_line(self) -> bool:
        """Whether it ended as the command line promises: success, or one line and code 2."""
        if "Traceback" in self.err:
            return False
        return self.code == 0 or (self.code == 2 and self.err.count("dssl: error: ") == 1)


def compiled(folder: Path) -> Path | None:
    """Compile the shim; none without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "shim.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "shim.c"), "-ldl"]
    done = subprocess.run(command, check=False, capture_output=True)
    return library if done.returncode == 0 else None


def restart_with_shim(folder: Path) -> bool:
    """Start this program again with the shim below it; false if it cannot be compiled, true if it is loaded."""
    if os.environ.get(SHIM):
        return True
    library = compiled(folder)
    if library is None:
        return False
    os.environ.update(ENVIRONMENT, LD_PRELOAD=str(library), **{SHIM: str(library)})
    os.execv(sys.executable, sys.orig_argv)


def arm(fault: Fault, trace: int = -1) -> None:
    """Let the shim watch this process."""
    library = ctypes.CDLL(None)
    root = os.fsencode(fault.root.resolve())
    library.torture_arm(root, ctypes.c_long(fault.at), fault.action, fault.error, int(fault.reads), trace)


class _Clock(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2026, 1, 1, tzinfo=tz or UTC)


def freeze() -> None:
    """Fix the clocks and the measured memory in this process."""
    from dssl.runs import workflow
    from dssl.runtime import environment
    from dssl.studies import judge

    environment.version = lambda _: "0"  # type: ignore[assignment]
    time.perf_counter = lambda: 0.0  # type: ignore[assignment]
    environment.peak_memory = environment.memory = lambda: 1 << 20  # type: ignore[assignment]
    for module in (workflow, environment, judge):
        module.datetime = _Clock  # type: ignore[attr-defined]


def stay_in_process() -> None:
    """Let comparisons train in the process of the command, which is the one that is watched."""
    from dssl.studies import experiments

    run = experiments.run
    experiments.run = lambda *given, **named: run(*given, **{**named, "workers": 1, "fresh": False})  # type: ignore[assignment]


def warm() -> None:
    """Import everything that commands import on first use."""
    import importlib
    import pkgutil

    import dssl

    freeze()
    stay_in_process()
    cli = importlib.import_module("dssl.cli")
    cli.app = importlib.import_module("typer.main").get_command(cli.app)  # built once
    for module in pkgutil.walk_packages(dssl.__path__, "dssl."):
        if module.name not in ("dssl.__main__", "dssl.runs.ray"):
            importlib.import_module(module.name)
    for name in (
        "safetensors.torch",
        "pyarrow.parquet",
        "pyarrow.csv",
        "matplotlib.figure",
        "optuna",
        "openTSNE",
        "sklearn",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def call(work: Callable[[], None], *, scratch: Path, fault: Fault | None = None, limit: int = LIMIT) -> Result:
    """Run a function in a fork, and return how it ended.

    Args:
        work: the function; it may exit.
        scratch: folder for its output, outside of the watched one.
        fault: what happens to its files.
        limit: seconds of processor time after which it is killed, or ten times as long by the clock.
    """
    paths = [scratch / name for name in ("out", "err", "trace")]
    begun = time.monotonic()
    child = os.fork()
    if not child:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            handles = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in paths]
            os.dup2(handles[0], 1)
            os.dup2(handles[1], 2)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            if fault is not None:
                arm(fault, handles[2])
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    status = _wait(child, begun + WAITING * limit)
    texts = [path.read_text(errors="replace") if path.exists() else "" for path in paths]
    code = -signal.SIGALRM if status is None else os.waitstatus_to_exitcode(status)
    return Result(code, texts[0], texts[1], time.monotonic() - begun, tuple(texts[2].splitlines()))


def _wait(child: int, deadline: float) -> int | None:
    """The status of a child; none if it had to be killed after the deadline."""
    pause = 0.002
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(pause * 1.3, 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def dssl(*arguments: str | Path, folder: Path, scratch: Path, fault: Fault | None = None) -> Result:
    """Run a command line in a fork, with ``folder`` as its working directory."""

    def work() -> None:
        from dssl.cli import main

        os.chdir(folder)
        sys.argv = ["dssl", *map(str, arguments)]
        main()

    return call(work, scratch=scratch, fault=fault)


def rehearse(*arguments: str | Path, folder: Path) -> None:
    """Run a command line in this process, so that forks find its loops compiled."""
    from dssl.cli import main

    os.chdir(folder)
    sys.argv = ["dssl", *map(str, arguments)]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
