from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dssl.kernels import code_cache

# A user without a writable home or package, which root cannot imitate by permissions.
SCRIPT = """
import os
os.access = lambda *_: False
import numpy as np
from dssl.graph import Graph
print(Graph.from_edges([0, 1], [1, 2]).num_edges)
print(os.environ["NUMBA_CACHE_DIR"])
"""


def test_without_a_writable_home_code_goes_to_a_temporary_folder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != code_cache.VARIABLE}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    edges, folder = done.stdout.split()
    assert edges == "2"
    assert Path(folder).parent == tmp_path
    assert list(Path(folder).rglob("*.nbi"))
    assert len(done.stderr.splitlines()) == 1
    assert "no writable folder for compiled code; using" in done.stderr


def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(code_cache.tempfile, "tempdir", str(tmp_path))
    first = code_cache._temporary()
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert code_cache._temporary() == first
    first.chmod(0o777)
    assert code_cache._temporary() != first


def test_a_chosen_or_writable_folder_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(code_cache.VARIABLE, raising=False)
    monkeypatch.setattr(code_cache, "_usual", lambda: [tmp_path / "new" / "folder"])
    code_cache.ensure()
    assert code_cache.VARIABLE not in os.environ
