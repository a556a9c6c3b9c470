"""The run folder is the interface: what opening a stored run loads, and the order in which it enters the rooms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dssl.config.resolve import resolve
from dssl.runs import workflow
from dssl.runs.node_map import map_of
from tests.test_architecture import ROOMS

OPEN = {
    "report": ("from dssl.report import page", "page.write([run], run.parent / 'page.html')"),
    "explore": ("from dssl.explore import pages, view", "pages.export(view.of_run(run), run.parent / 'site')"),
}
TRACED = """
import json, sys
from pathlib import Path
run, entered, calls = Path(sys.argv[1]), [], 0

def profile(frame, event, _):
    global calls
    if event != "call":
        return
    name, caller = (f.f_globals.get("__name__", "") if f else "" for f in (frame, frame.f_back))
    if name.startswith("dssl.") and name != caller and frame.f_code.co_name != "<module>":
        calls += 1
        room = name.split(".")[1]
        if room not in entered:
            entered.append(room)

{imports}
sys.setprofile(profile)
{code}
sys.setprofile(None)
heavy = {"torch", "numba", "sklearn", "matplotlib", "openTSNE", "plotly", "torch_geometric"}
loaded = sorted(name for name in sys.modules if name.startswith("dssl."))
print(json.dumps({"heavy": sorted(heavy & set(sys.modules)), "loaded": loaded, "entered": entered, "calls": calls}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a directed graph, whose links the model makes undirected, with a stored map."""
    folder = tmp_path_factory.mktemp("interface")
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 40}\n" for i in range(40)))
    config = resolve({"source": str(folder / "edges.csv"), "epochs": 2, "dim": 4, "hidden_dim": 4, "num_factors": 2})
    workflow.fit(config, folder / "run")
    map_of(folder / "run")
    (folder / "edges.csv").unlink()
    return folder / "run"


@pytest.mark.parametrize("command", OPEN)
def test_opening_a_stored_run_loads_no_training_code(run: Path, command: str) -> None:
    imports, call = OPEN[command]
    code = TRACED.replace("{imports}", imports).replace("{code}", call)
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["heavy"] == []
    rooms = {name.split(".")[1] for name in found["loaded"]}
    assert not rooms & {"kernels", "nn", "methods", "train", "data", "studies", "cli"}
    assert "dssl.runs.workflow" not in found["loaded"]
    assert set(found["entered"]) <= set(ROOMS)
    assert found["entered"][0] == command
    assert found["calls"] < 3000  # 40 nodes: no call per link, few per node
