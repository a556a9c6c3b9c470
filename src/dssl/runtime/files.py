"""Reading files, writing them so that a reader, or a crash, never sees half of one, and keeping other writers out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dssl.errors import RunError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; when the block ends well it takes the name of ``path`` in one step.

    The temporary name keeps the suffix, since some writers choose the format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_text(path: Path, remedy: str) -> str:
    """Read a text that one of ours wrote; an error says what to do about it.

    Args:
        path: the file.
        remedy: what makes it anew, in a few words.
    """
    try:
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

    The system lets go of the file when a process ends, however it ends: there are no stale locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # A file that is no longer there was its holder's until just now, and somebody may hold a new one.
        if not _take(handle) or not path.exists() or not os.path.samestat(os.fstat(handle), path.stat()):
            raise BlockingIOError(os.read(handle, 20).decode(errors="replace"))
        os.truncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no file that is open
                path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    """Lock an open file; true also where the file system knows no locks."""
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
