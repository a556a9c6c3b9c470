"""Methods of other packages: found by entry points, imported late, and refused in one line."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dssl.config.methods import METHODS, DGISettings
from dssl.config.plugins import Methods
from dssl.errors import ConfigError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods" / "adding.md"
SETTINGS = """
from dssl.config.registry import MethodSection, encoder_traits

class Settings(MethodSection):
    traits = encoder_traits("{name}", "{package}.method:Method", "Doe, 2026")
"""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that puts a package with an entry point on the path, as pip would."""

    def make(package: str, entry: str, **modules: str) -> Path:
        (tmp_path / package).mkdir()
        for name, text in {"__init__": "", **modules}.items():
            (tmp_path / package / f"{name}.py").write_text(text, encoding="utf-8")
        known = tmp_path / f"{package}-0.1.dist-info"
        known.mkdir()
        (known / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n", encoding="utf-8")
        (known / "entry_points.txt").write_text(f"[dssl.methods]\n{entry}\n", encoding="utf-8")
        return tmp_path

    monkeypatch.syspath_prepend(tmp_path)
    return make


def test_a_registered_method_follows_ours_and_is_imported_late(install: Install) -> None:
    install("late_one", "late = late_one.settings:Settings", settings=SETTINGS.format(name="late", package="late_one"))
    methods = Methods([DGISettings])
    assert methods["dgi"] is DGISettings
    assert "late_one.settings" not in sys.modules
    assert list(methods) == ["dgi", "late"]
    assert len(methods) == 2
    assert methods["late"].traits.home == "late_one.method:Method"
    assert "late_one.settings" in sys.modules
    assert "late_one.method" not in sys.modules
    with pytest.raises(KeyError):
        methods["unknown"]
    assert "unknown" not in methods


@pytest.mark.parametrize(
    ("entry", "text", "reason"),
    [
        ("bad = {package}.settings:Settings", "raise RuntimeError('no\\nluck')", r"\(RuntimeError: no\)"),
        ("bad = {package}.nowhere:Settings", "", "ModuleNotFoundError"),
        ("bad = {package}.settings:Missing", "", "AttributeError"),
        ("bad = {package}.settings:Settings", "Settings = 3", "must be a subclass of"),
        ("bad = {package}.settings:Settings", SETTINGS.format(name="other", package="x"), "must have traits"),
        (
            "bad = {package}.settings:Settings",
            "from dssl.config.registry import MethodSection\nclass Settings(MethodSection): pass",
            "must have traits",
        ),
    ],
)
def test_a_broken_method_is_left_out_and_named_when_asked_for(
    install: Install,
    caplog: pytest.LogCaptureFixture,
    entry: str,
    text: str,
    reason: str,
    request: pytest.FixtureRequest,
) -> None:
    package = f"broken_{abs(hash(request.node.name))}"
    install(package, entry.format(package=package), settings=text)
    methods = Methods([DGISettings])
    with caplog.at_level(logging.WARNING):
        assert list(methods) == list(methods) == ["dgi"]
    assert len(caplog.records) == 1
    with pytest.raises(ConfigError, match=reason) as caught:
        methods["bad"]
    assert f"of the package {package}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert methods["dgi"] is DGISettings


def test_names_that_are_taken_are_ignored(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    for package in ("taken_b", "taken_a"):
        text = SETTINGS.format(name="mine", package=package)
        install(package, f"mine = {package}.settings:Settings\ndgi = {package}.settings:Settings", settings=text)
    methods = Methods([DGISettings])
    with caplog.at_level(logging.WARNING):
        assert list(methods) == ["dgi", "mine"]
    assert methods["dgi"] is DGISettings
    assert methods["mine"].traits.home == "taken_a.method:Method"  # the first by name, on every machine
    assert len(caplog.records) == 3


def test_the_example_of_the_page_works_from_installation_to_evaluation(install: Install, tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    settings, method = (text for kind, text in blocks if kind == "python")
    (project,) = (text for kind, text in blocks if kind == "toml")
    (entry,) = re.findall(r'^nearby = "(.*)"$', project, flags=re.MULTILINE)
    folder = install("nearby", f"nearby = {entry}", settings=settings, method=method)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12)))
    code = """
import sys
import dssl
assert "nearby.settings" not in sys.modules
import numpy as np
graph = dssl.load("edges.csv")
def fit(margin, **rest):
    return dssl.Embedder(method="nearby", settings={"margin": margin}, dim=3, epochs=3, seed=1, **rest).fit(graph)
first = fit(0.5)
assert (fit(0.5).embeddings_.values == first.embeddings_.values).all()
assert (fit(0.9).embeddings_.values != first.embeddings_.values).any()
assert np.isfinite(fit(0.5, batch_size=5).embeddings_.values).all()
first.save("model")
assert (dssl.load_model("model").transform(graph) == first.embeddings_.values).all()
try:
    dssl.Embedder(method="nearby", settings={"margin": -1.0})
except ValueError as error:
    assert "method.margin is -1.0, but must be a number of at least 0" in str(error)
"""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *sys.path])

    def call(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stderr
        return done.stdout

    call("-c", code)
    assert re.search(r"^nearby +yes +yes", call("-m", "dssl", "methods"), flags=re.MULTILINE)
    call(
        "-m", "dssl", "fit", "edges.csv", "--method", "nearby", "--set", "epochs=2", "--set", "margin=0.3", "--out", "r"
    )
    assert "margin = 0.3" in (tmp_path / "r" / "config.toml").read_text("utf-8")


def test_no_other_package_is_needed() -> None:
    assert next(iter(METHODS)) == "dssl"
    assert len(METHODS) == len(set(METHODS))
