"""Every script of examples/ runs, with few epochs, and prints its result."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PRINTS = {
    "csv_to_classifier": "balanced accuracy with 50 labels, embedding: ",
    "new_nodes": "c200: similar to c",
    "compare_methods": "deepwalk ",
    "accidental_calls": "calls between modules of email",
    "grid_search": "best settings {",
    "custom_encoder": "same vectors after loading: True",
    "custom_method": "in the last",
}


def test_every_example_is_tested_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(PRINTS)
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}.py]({name}.py)" in page for name in names)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--epochs", "4"])
    monkeypatch.syspath_prepend(EXAMPLES)
    import_module(name).main()
    assert PRINTS[name] in capsys.readouterr().out
