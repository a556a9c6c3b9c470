"""The order of the modules, kept by reading the imports; and what the first second of a command may import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dssl"
# In pipeline order: a module imports only from modules before it, also inside functions.
ORDER = (  # noqa: SIM905
    "errors rng files environment processes distributed kernels rowloops vectors buffers headloops headpass "
    "products rowwise disk idtable sections config settings resolve spaces "
    "svd features graph matrices averages cache store statistics meaning structure textfile columns links convert "
    "streams tables codereader codegraph synthetic catalogue sources datasets inputs operators loader "
    "posterior pairs collapse encoders inference networks augment learner walks diffusion structural "
    "readout reconstruction lookup methods train embeddings factors logistic probe splits sanity evaluate "
    "linktask layout plots drawings model runfolder run cluster paper cells experiments plans compare "
    "reproduce figures tune report_facts report_charts report progress show explore explore_pages "
    "explore_server commands cli_fit cli_look cli_study cli __main__"
).split()
HEAVY = (
    "torch",
    "torch_geometric",
    "numba",
    "sklearn",
    "matplotlib",
    "pandas",
    "polars",
    "networkx",
    "scipy",
    "pyarrow",
    "optuna",
    "sqlalchemy",
)


def modules() -> list[str]:
    files = sorted(SOURCE.rglob("*.py"))
    return [path.relative_to(SOURCE).as_posix() for path in files if path != SOURCE / "__init__.py"]


def imported(path: Path) -> set[str]:
    """First parts below ``dssl`` of everything that a file imports from the package."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: relative import"
            if node.module == "dssl":
                found |= {alias.name for alias in node.names}
            elif node.module is not None and node.module.startswith("dssl."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dssl.")}
    return found


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_from_those_before_it(module: str) -> None:
    own = module.split("/")[0].removesuffix(".py")
    assert own in ORDER, f"give {own} its place in ORDER"
    later = {name for name in imported(SOURCE / module) if ORDER.index(name) >= ORDER.index(own)}
    assert later - ({own} if "/" in module else set()) == set()


def test_methods_do_not_import_each_other() -> None:
    for path in (SOURCE / "methods").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dssl.methods."):
                assert path.name == "__init__.py", f"{path.name} imports {node.module}"


@pytest.mark.parametrize("module", ["dssl", "dssl.cli", "dssl.config", "dssl.resolve"])
def test_a_command_starts_without_the_heavy_libraries(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}} & set({HEAVY})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["dssl.run", "dssl.show", "dssl.datasets"])
def test_reading_a_run_needs_no_torch(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{'torch', 'numba', 'sklearn', 'matplotlib'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_public_name_exists() -> None:
    import dssl

    for name in dssl.__all__:
        assert getattr(dssl, name) is not None
        assert name in dir(dssl)
    assert sorted(dssl._HOME) == sorted(dssl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Dssl'"):
        dssl.Dssl  # noqa: B018
    assert dssl.__version__
