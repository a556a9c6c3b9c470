from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dssl.runtime import files


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "value.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), files.replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert json.loads(path.read_text()) == {"a": 1}
    assert [item.name for item in tmp_path.iterdir()] == ["value.json"]


def test_a_write_replaces_and_makes_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "text.txt"
    files.write_text(path, "one")
    files.write_text(path, "två")
    assert path.read_text(encoding="utf-8") == "två"


def test_a_lock_is_held_once_names_its_process_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / ".lock"
    for _ in range(2):
        with files.locked(path):
            with pytest.raises(BlockingIOError, match=f"^{os.getpid()}$"), files.locked(path):
                pass
            assert path.exists()  # the one who was refused took nothing away
        assert not path.exists()


def test_a_lock_ends_with_a_failure_inside_and_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with pytest.raises(RuntimeError), files.locked(path):
        raise RuntimeError
    code = (
        f"import os, pathlib; from dssl import files; held = files.locked(pathlib.Path({str(path)!r})); "
        "held.__enter__(); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert path.exists()
    with files.locked(path):
        assert path.read_text() == str(os.getpid())


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        files.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
