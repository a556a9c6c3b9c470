"""The order of the rooms, checked by reading the imports, and the libraries that a command may load at its start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dssl"
# In pipeline order: a module imports from its own room and from rooms before it, also inside functions.
ROOMS = (  # noqa: SIM905
    "errors rng kernels runtime config graph data nn methods train model evaluation runs studies report explore cli"
).split()
# Rooms that a room never imports, although they stand before it.
NEVER = {
    "kernels": {"errors", "rng"},
    "config": {"kernels", "runtime"},
    "methods": {"config", "data"},
    "report": {"nn", "methods", "train"},
    "explore": {"nn", "methods", "train"},
}
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
    return [path.relative_to(SOURCE).as_posix() for path in files if path.parent != SOURCE or path.name in NAMED]


NAMED = {"errors.py", "rng.py", "train.py"}


def imported(path: Path) -> set[str]:
    """Rooms that a file imports from, imports for type checkers included."""
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


def test_the_rooms_are_the_entries_of_the_package() -> None:
    entries = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.name != "__pycache__"}
    assert entries - {"__init__", "__main__", "py.typed", "recipes"} == set(ROOMS)


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_from_its_own_room_and_rooms_before_it(module: str) -> None:
    own = module.split("/")[0].removesuffix(".py")
    found = imported(SOURCE / module)
    assert {name for name in found if ROOMS.index(name) > ROOMS.index(own)} == set()
    assert found & NEVER.get(own, set()) == set()


def test_no_source_file_is_longer_than_400_lines() -> None:
    long = {
        path.name: size for path in SOURCE.rglob("*.py") if (size := len(path.read_text("utf-8").splitlines())) > 400
    }
    assert long == {}
    assert len((SOURCE / "methods" / "dssl" / "model.py").read_text("utf-8").splitlines()) < 300


def test_methods_do_not_import_each_other() -> None:
    shared = {"base", "table", "_walks", "_diffusion", "_node_similarity", "_structural_distance"}
    for path in (SOURCE / "methods").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dssl.methods."):
                assert (node.module or "").split(".")[2] in shared, f"{path.name} imports {node.module}"


@pytest.mark.parametrize("module", ["dssl", "dssl.cli", "dssl.config.schema", "dssl.config.resolve"])
def test_a_command_starts_without_the_heavy_libraries(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}} & set({HEAVY})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["dssl.runs.workflow", "dssl.cli.output", "dssl.data.datasets"])
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
