"""The pages of docs/: their Python blocks and, in the tutorials, their commands run as they stand, in order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from dssl.cli import main

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [
    *(page.relative_to(DOCS).as_posix() for page in sorted((DOCS / "tutorials").glob("*.md"))),
    "quickstart.md",
    "machines.md",
]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(line.removeprefix("$ "), comments=True))
    try:
        main()
    except SystemExit as error:
        assert not error.code, line


@pytest.mark.filterwarnings("ignore:The ``noload``:DeprecationWarning")  # of MLflow's own code
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert any(kind == "python" for kind, _ in blocks)
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, page, "exec"), names)
        else:
            for line in text.splitlines():
                if line.startswith("$ dssl "):
                    command(line, monkeypatch)


def test_every_page_is_linked_or_in_the_navigation() -> None:
    navigation = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        if page.parent.name in {"methods", "decisions"} and page.name != "README.md":
            continue  # added by docs/site/hooks.py
        assert page.relative_to(DOCS).as_posix() in navigation, f"{page.name} is missing in mkdocs.yml"


def test_the_container_copies_files_that_exist() -> None:
    root = DOCS.parent
    lines = (root / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    kept = (root / ".dockerignore").read_text(encoding="utf-8").split()
    assert copied
    for name in copied:
        assert (root / name).exists()
        assert f"!{name}" in kept
