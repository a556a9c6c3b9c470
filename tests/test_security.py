"""Promises of SECURITY.md: nothing in the package executes data; the audit of dependencies reads its answer right."""

from __future__ import annotations

import ast
import urllib.error
from pathlib import Path
from typing import Any

import pytest

import dssl
from tests import audit

SOURCE = Path(dssl.__file__).parent
# Modules and functions that execute what they read, or pass it to a shell.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "xml"}
CALLS = {"eval", "exec", "__import__", "torch.load", "os.system", "os.popen", "pandas.read_pickle"}
# The exceptions: two published files whose bytes are compared with their SHA-256 before they are loaded, and the error
# of the parser behind NetworkX, which resolves no external entity and refuses entities that grow (test_sources.py).
ALLOWED = {"data/published_splits.py: allow_pickle", "data/graphml.py: xml"}


def findings(tree: ast.AST, name: str) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {part.name.split(".")[0] for part in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").split(".")[0]} & MODULES
            found |= {f"{node.module}.{part.name}" for part in node.names} & CALLS
        elif isinstance(node, ast.Call):
            found |= {ast.unparse(node.func)} & CALLS
            for keyword in node.keywords:
                unsafe = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg in ("allow_pickle", "shell") and unsafe:
                    found.add(keyword.arg)
    return {f"{name}: {what}" for what in found}


def test_nothing_in_the_package_executes_data() -> None:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        found |= findings(ast.parse(path.read_text(encoding="utf-8")), path.relative_to(SOURCE).as_posix())
    assert found == ALLOWED


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from yaml import load",
        "from torch import load",
        "torch.load(path)",
        "eval(text)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(line, shell=True)",
    ],
)
def test_the_check_finds_each_kind(code: str) -> None:
    assert findings(ast.parse(code), "x.py")


def test_the_audit_names_vulnerable_versions_and_passes_over_a_missing_network(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = audit.pinned("# tested\nnumpy==2.0.0\ntorch==2.13.0+cpu ; python_version > '3.9'\n\nclick>=8\n")
    assert pins == {"numpy": "2.0.0", "torch": "2.13.0"}

    def answer(queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        assert queries[0] == {"package": {"name": "numpy", "ecosystem": "PyPI"}, "version": "2.0.0"}
        return [{"vulns": [{"id": "PYSEC-1"}, {"id": "GHSA-2"}]}, {}]

    assert audit.main(pins, answer) == 1
    assert capsys.readouterr().out == "audit: numpy 2.0.0: PYSEC-1, GHSA-2\n"
    assert audit.main(pins, lambda queries: [{} for _ in queries]) == 0
    assert "no known vulnerability in 2 packages" in capsys.readouterr().out

    def offline(_: list[dict[str, Any]]) -> list[dict[str, Any]]:
        raise urllib.error.URLError("no network")

    assert audit.main(pins, offline) == 0
    assert "audit: skipped" in capsys.readouterr().out
