"""Optional libraries: without one, a command that needs it fails with one line that names the extra."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

from dssl.cli import main

ROOT = Path(__file__).resolve().parents[1]
GRAPH = "synthetic:h=0.3,nodes=60,classes=2,degree=4,features=8"
SMALL = ["--set", "dim=4", "--set", "epochs=1", "--set", "num_factors=2", "--set", "splits=2"]


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["dssl", *arguments])
    try:
        main()
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("extras") / "run"
    with pytest.MonkeyPatch.context() as patch:
        assert run(["fit", GRAPH, "--out", str(folder), "--quiet", *SMALL], patch) == 0
    return folder


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("optuna", "tune", ["tune", GRAPH, "--trials", "1"]),
        ("jinja2", "report", ["report", "RUN"]),
        ("plotly", "report", ["report", "RUN"]),
        ("openTSNE", "report", ["explore", "RUN", "--export", "page"]),
        ("matplotlib", "plots", ["compare", GRAPH, "--seeds", "1"]),
        ("matplotlib", "plots", ["reproduce", "table1", "--quick"]),
        ("matplotlib", "plots", ["reproduce", "figures", "--quick"]),
    ],
)
def test_a_missing_extra_gives_one_line_that_names_it(
    module: str,
    extra: str,
    arguments: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    assert run([str(folder) if word == "RUN" else word for word in arguments], monkeypatch) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"dssl: error: {module} is not installed; run: pip install 'dssl[{extra}]'"
    assert not list(tmp_path.rglob("*.md"))


@pytest.mark.parametrize(("module", "extra"), [("openTSNE", "report"), ("matplotlib", "plots")])
def test_an_evaluation_without_the_extras_leaves_only_the_map_out(
    module: str, extra: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("map.parquet", "embedding.png"):
        (folder / name).unlink(missing_ok=True)
    monkeypatch.setitem(sys.modules, module, None)
    assert run(["evaluate", str(folder)], monkeypatch) == 0
    found = json.loads((folder / "evaluation.json").read_text())
    assert 0 < found["probe"]["accuracy"]["mean"] <= 1
    assert f"dssl[{extra}]" in found["skipped"]["map"]
    printed = capsys.readouterr().out
    assert f"dssl[{extra}]" in printed
    assert "embedding.png" not in printed


def test_the_extra_all_has_every_optional_library_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert extras["all"] == ["dssl[report,tune,plots,graphml,index]"]
    assert "dssl[all]" in extras["dev"]
    optional = {
        need.partition(">")[0] for name in ("report", "tune", "plots", "graphml", "index") for need in extras[name]
    }
    assert optional == {"jinja2", "openTSNE", "plotly", "optuna", "matplotlib", "networkx", "usearch"}
    assert not optional & {need.partition(">")[0] for need in project["dependencies"]}
