"""Reading and writing files and folders: a reader, or a crash, never finds half of one, and writers exclude each other.

A file or folder is written under a hidden name next to its own, and renamed when it is complete. The hidden name holds
the machine and the process, so that the next writer removes those of processes that were killed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from dssl.errors import RunError

_EXCHANGE = 2  # of Linux's renameat2: the two names change places in one step
_HERE = -100  # likewise: paths are relative to the working directory
_TEMPORARY = re.compile(r"/\.[^/]+\.[0-9a-f]{6}-\d+")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path next to ``path``; when the block ends well it takes the name of ``path`` in one step.

    The temporary name keeps the suffix, since some writers choose the format by it. The umask decides the permissions.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(path, path.stem, path.suffix)
        try:
            temporary.touch()
            mode = stat.S_IMODE(temporary.stat().st_mode)
            yield temporary
            temporary.chmod(mode)  # some writers make a file for its owner alone, whatever the umask
            with temporary.open("rb") as handle:
                os.fsync(handle.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system inside the block name ``path``, unless it names another file already.

    The system reports a failed write, such as on a full disk, without the file; the temporary name of a file that is
    being replaced means nothing to a user.
    """
    try:
        yield
    except OSError as error:
        named = error.filename is not None and Path(os.fsdecode(error.filename))
        if named and named != path and not _TEMPORARY.search(str(named)):
            raise
        number = error.errno or 0
        raise OSError(number, os.strerror(number) if number else str(error), str(path)) from None


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Give a new folder next to ``path``; when the block ends well it takes the name of ``path``, and the old one goes.

    On Linux the two change places in one step. Elsewhere the old folder is first renamed, and a process that is killed
    before the second step leaves it under a hidden name, which the next writer brings back.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _restore(path)
        temporary = _temporary(path, path.name, ".new")
        temporary.mkdir()
        try:
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    with file.open("rb") as handle:
                        os.fsync(handle.fileno())
            if not path.exists():
                temporary.rename(path)
            elif not _exchange(temporary, path):
                old = path.with_name(f".{path.name}{_OLD}")
                path.rename(old)
                temporary.rename(path)
                shutil.rmtree(old)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


_OLD = ".old"


def _restore(path: Path) -> None:
    """Bring back a folder whose writer was killed between two renames, or remove it if its successor is there."""
    old = path.with_name(f".{path.name}{_OLD}")
    if not old.is_dir():
        return
    if path.exists():
        shutil.rmtree(old)
    else:
        old.rename(path)


def _exchange(one: Path, other: Path) -> bool:
    """Let two names change places in one step; false where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        call = ctypes.CDLL(None, use_errno=True).renameat2
        return not call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    return False


@cache
def _machine() -> str:
    return hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()


def _temporary(path: Path, stem: str, suffix: str) -> Path:
    """Return a hidden name for this process, and remove those of processes of this machine that have ended.

    SQLite writes a journal next to its file.
    """
    pattern = re.compile(rf"\.{re.escape(stem)}\.{_machine()}-(\d+){re.escape(suffix)}(-journal)?")
    own = path.with_name(f".{stem}.{_machine()}-{os.getpid()}{suffix}")
    for entry in path.parent.iterdir():
        found = pattern.fullmatch(entry.name)
        if found and (entry == own or not _alive(int(found[1]))):
            with suppress(OSError):
                remove(entry)
    return own


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with its content, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def check_regular(path: Path) -> None:
    """Refuse a pipe, device or socket: reading it might never end. A missing file is left to the reader."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise RunError(f"{path} is a pipe, device or socket, not a file; remove it")


def read_text(path: Path, remedy: str) -> str:
    """Read a text file of a run or a cache.

    Args:
        path: the file.
        remedy: how to regenerate it, for the error message.
    """
    try:
        check_regular(path)
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    except UnicodeDecodeError:
        raise RunError(f"{path} is damaged: not UTF-8 text; {remedy}") from None


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON to ``path`` in one step."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file ``path`` while the block runs; `BlockingIOError` with the holder's process if another does.

    The system releases the file when a process ends, however it ends: there are no stale locks. A link, pipe or
    device is refused, since taking the lock writes to the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError:
        if path.is_symlink():
            raise RunError(f"{path} is a symbolic link, and a lock is a plain file; remove it") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise RunError(f"{path} is a pipe or device, and a lock is a plain file; remove it")
        # A file that was just removed belonged to its last holder, and another process may hold a new one.
        if not _take(handle) or not path.exists() or not os.path.samestat(os.fstat(handle), path.stat()):
            raise BlockingIOError(os.read(handle, 20).decode(errors="replace"))
        with naming(path):
            os.truncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no file that is open
                path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def hold(handle: int) -> None:
    """Lock an open file until it is closed, as soon as no other process holds it."""
    while not _take(handle):
        time.sleep(0.05)


def _take(handle: int) -> bool:
    """Lock an open file; true also on a file system without locks."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
