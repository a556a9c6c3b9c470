"""Fixtures that every test file may use."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

# Tests run side by side: one thread each is faster than several that wait for each other.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import pytest

# A background job of a shell ignores interrupts, and so would the commands that the tests interrupt.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "datasets"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the raw benchmark graphs: $DSSL_DATA, or the one beside the checkout."""
    folder = Path(os.environ.get("DSSL_DATA", BESIDE))
    if not folder.is_dir():
        pytest.skip("the raw benchmark graphs are not on this machine: set DSSL_DATA")
    return folder
