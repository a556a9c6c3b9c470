from __future__ import annotations

import json
from pathlib import Path

import pytest

from dssl import files


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


def test_json_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        files.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
