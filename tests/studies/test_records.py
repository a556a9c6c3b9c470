"""Files of records: a line that a crash has cut off is replaced, and a complete one is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssl.studies.records import Record, append, records


def record(key: str) -> Record:
    return Record(key=key, graph="g", row="r", versions={"dssl": "ä"})


def test_a_line_that_was_cut_off_gives_way_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    append(path, record("a"))
    append(path, record("b"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole) - 1):
        path.write_bytes(whole[:end])
        append(path, record("b"))
        assert path.read_bytes() == whole


def test_a_complete_line_without_an_end_of_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    append(path, record("a"))
    path.write_bytes(path.read_bytes().rstrip())
    append(path, record("b"))
    assert [one.key for one in records(tmp_path)] == ["a", "b"]
    assert path.read_bytes().count(b"\n") == 2


def test_a_damaged_line_is_named_once_and_the_others_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "g.jsonl"
    append(path, record("a"))
    path.write_bytes(path.read_bytes() + b'{"key": "b", "gr\n\n')
    append(path, record("c"))
    for _ in range(2):
        assert [one.key for one in records(tmp_path)] == ["a", "c"]
    (warning,) = caplog.messages
    assert warning.startswith(f"{path}, line 2 is not a record")


def test_a_preset_may_have_changed_since_a_record_without_its_settings() -> None:
    first = Record(key="a", graph="g", row="full, as printed", settings={"preset": "paper"})
    assert first.outdated
    assert not first.model_copy(update={"resolved": {"method.name": "dssl"}}).outdated
    assert not Record(key="a", graph="g", row="paper-terms", settings={"recipe": "paper-terms"}).outdated
