"""The folder of compiled code: Numba's own choice, or a temporary one where neither package nor home is writable.

Without any folder Numba refuses to compile a cached function, as for a container user without a home.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

VARIABLE = "NUMBA_CACHE_DIR"


def ensure() -> None:
    """Choose a temporary folder if Numba has none that it can write to, and log this once."""
    if os.environ.get(VARIABLE) or any(map(_writable, _usual())):
        return
    folder = _temporary()
    os.environ[VARIABLE] = str(folder)
    if "numba" in sys.modules:  # which has read the variable already
        sys.modules["numba"].config.CACHE_DIR = str(folder)
    log.warning(
        "no writable folder for compiled code; using %s, which may not outlast this process. Set %s to keep it",
        folder,
        VARIABLE,
    )


def _usual() -> Sequence[Path]:
    """The folders that Numba tries: next to the code, and the cache of the user."""
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111  (never raises)
    chosen = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return [Path(__file__).parent / "__pycache__", (Path(chosen) if chosen else home / ".cache") / "numba"]


def _writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _temporary() -> Path:
    """A folder that only this user can write to: code is loaded from it."""
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = Path(tempfile.gettempdir()) / f"dssl-numba-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o022:
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="dssl-numba-"))
