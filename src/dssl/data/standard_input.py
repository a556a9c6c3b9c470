"""Edges from standard input (``-``): copied to a temporary file once, since an edge list is read more than once."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from dssl.errors import GraphError

STDIN = "-"
TITLE = "standard input"


@cache
def copied() -> Path:
    """Return a file with the content of standard input; it is removed when the process ends."""
    if sys.stdin.isatty():
        raise GraphError("standard input is a terminal; send edges to it: cat edges.csv | dssl fit -")
    folder = Path(tempfile.mkdtemp(prefix="dssl-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (folder / "edges.csv").open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        if not file.tell():
            raise GraphError("standard input is empty; send edges to it: cat edges.csv | dssl fit -")
    return folder / "edges.csv"
