"""Where and how a run was made: versions, machine, command, time, memory."""

from __future__ import annotations

import os
import platform
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_PACKAGES = ("dssl", "torch", "torch_geometric", "numba", "numpy", "pyarrow", "scikit-learn", "scipy")


def describe(command: str, *, started: datetime, resumed_at: int) -> dict[str, Any]:
    """Return the record of a run that ends now.

    Args:
        command: the command line.
        started: when.
        resumed_at: epochs that an earlier process had done.
    """
    finished = datetime.now(UTC)
    return {
        "command": command,
        "started": started.isoformat(timespec="seconds"),
        "finished": finished.isoformat(timespec="seconds"),
        "seconds": round((finished - started).total_seconds(), 3),
        "resumed_at_epoch": resumed_at,
        "peak_memory_mb": round(peak_memory() / 2**20, 1),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "torch_build": torch_build(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _of_linux("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
    }


def version(package: str) -> str:
    """Return the installed version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def torch_build() -> str:
    """Return the build of the installed PyTorch, such as ``CPU`` or ``CUDA 12.8``, without importing it."""
    found = find_spec("torch")
    path = Path(str(found.origin)).with_name("version.py") if found is not None and found.origin else None
    if path is None or not path.exists():
        return "unknown"
    text = path.read_text(encoding="utf-8")
    for name, words in (("cuda", "CUDA"), ("hip", "ROCm")):
        number = re.search(rf"^{name}\b[^=]*= '([^']+)'", text, re.MULTILINE)
        if number:
            return f"{words} {number[1]}"
    return "CPU"


def peak_memory() -> int:
    """Return the peak memory of this process so far, in bytes; 0 where the system does not report it."""
    if found := _of_linux("/proc/self/status", "VmHWM"):
        return int(found.split()[0]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory() -> int:
    """Return the current memory of this process, in bytes; 0 where the system does not report it."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


def forget_peak() -> None:
    """Reset `peak_memory`, on systems that can (Linux): a process may do several jobs."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def give_back() -> None:
    """Let the system have the memory that this process has freed, where the C library can (glibc keeps some)."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _of_linux(file: str, name: str) -> str:
    """The first value of a name in a file of the Linux kernel; empty without the file or the name."""
    with suppress(OSError):
        for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return ""
