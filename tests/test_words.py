"""The word list of tests/words.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "ALLOWED", tmp_path / "allowed.txt")


def found(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    return words.findings(path)


def test_markdown_is_checked_without_code_and_addresses(tmp_path: Path) -> None:
    text = "It goes\non with `beside` and [a](beside.md).\n\n```\nforetold\n```\n\nBut here: foretold.\n"
    assert found(tmp_path / "a.md", text) == [
        "a.md:1: 'goes on'; instead: resume, continue",
        "a.md:8: 'foretold'; instead: predict",
    ]


def test_python_is_checked_in_docstrings_messages_and_comments(tmp_path: Path) -> None:
    text = '"""Alike."""\n\n# It goes\n# on.\ntold = f"is {1} told twice"\nname = "beside"\n'
    assert [line.partition(";")[0] for line in found(tmp_path / "a.py", text)] == [
        "a.py:5: 'told'",
        "a.py:3: 'goes on'",
    ]
    assert found(tmp_path / "b.py", '"""All are alike."""\n') == ["b.py:1: 'alike'; instead: similar, in the same way"]


def test_javascript_is_checked_in_comments_and_strings(tmp_path: Path) -> None:
    assert len(found(tmp_path / "a.js", 'const told = "all is told"; // alike\n')) == 2


@pytest.mark.parametrize("text", ["There is no edge.", "Processes share one copy.", "Better than chance."])
def test_ordinary_sentences_pass(tmp_path: Path, text: str) -> None:
    assert found(tmp_path / "a.md", text) == []


def test_long_sentences_are_counted_by_words(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"# {'word ' * 40}\n\n{'word ' * 25}.\n\n{'word ' * 20}\n{'word ' * 6}.\n")
    assert [line.partition(" words")[0] for line in words.long_sentences(tmp_path / "a.md")] == ["a.md: 26"]


def test_the_allowed_numbers_only_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text("told told")
    monkeypatch.setattr("sys.argv", ["words.py"])
    assert words.main() == 1
    words.ALLOWED.write_text("README.md 3\n")
    assert words.main() == 0
    monkeypatch.setattr("sys.argv", ["words.py", "--update"])
    assert words.main() == 0
    assert words.allowed() == {"README.md": 2}
    (tmp_path / "README.md").write_text("told told told")
    assert words.main() == 1
