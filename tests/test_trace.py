"""The way of a command through the rooms, by tracing the calls: each stage once, in order, and calls lead down."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from dssl.cli import main
from tests.test_architecture import ROOMS, SOURCE

GRAPH = "synthetic:h=0.5,nodes=40,classes=2,degree=4,features=3"
SMALL = ["--set", "epochs=2", "--set", "splits=2", "--set", "dim=4", "--set", "hidden_dim=4", "--quiet"]
# The stages of each command: functions that are called once, in this order.
STAGES = {
    "fit": [
        "config/resolve.py:resolve",
        "runs/workflow.py:fit",
        "data/load.py:read_graph",
        "model/estimator.py:Embedder.fit",
        "graph/preparation.py:Inputs.fit",
        "train.py:train",
        "model/estimator.py:Embedder.save",
        "graph/packed.py:write",
    ],
    "evaluate": [
        "runs/workflow.py:evaluate",
        "graph/packed.py:read_graph",
        "evaluation/evaluate.py:evaluate",
        "evaluation/pictures.py:embedding_map",
    ],
    "report": [
        "report/page.py:write",
        "runs/node_map.py:map_of",
        "graph/packed.py:read_graph",
        "model/factors.py:Factors.load",
    ],
    "explore": [
        "explore/view.py:of_run",
        "graph/packed.py:read_graph",
        "explore/pages.py:export",
    ],
}
# Rooms in which a command calls no function.
UNUSED = {
    "fit": {"evaluation", "studies", "report", "explore"},
    "evaluate": {"data", "methods", "train", "studies", "report", "explore"},
    "report": {"data", "nn", "methods", "train", "studies", "explore"},
    "explore": {"data", "nn", "methods", "train", "studies", "report"},
}
# Calls that lead up: functions that a room before is given, to report its progress.
# Functions of rows and columns that `out_of_core.mapped` is given lead up too.
CALLBACKS = {
    ("runtime", "graph/eigenvectors.py"),
    ("runtime", "graph/node_parts.py"),
    ("runtime", "graph/positions.py"),
    ("runtime", "graph/principal.py"),
    ("runtime", "model/joint.py"),
    ("runs", "cli/train.py"),
    ("runs", "cli/progress.py"),
    ("evaluation", "cli/progress.py"),
    ("report", "cli/progress.py"),
    ("explore", "cli/progress.py"),
    ("model", "runs/workflow.py"),
    ("train", "model/estimator.py"),
}


class Call(NamedTuple):
    """A call of a function of the package from another room."""

    caller: str
    file: str
    name: str

    @property
    def room(self) -> str:
        return self.file.split("/")[0].removesuffix(".py")


class Trace:
    """The calls between rooms while the block runs; imports are left out."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._stack: list[str] = []  # rooms of the open frames; "" outside of the package, "import" in a module's body
        self._prefix = f"{SOURCE}/"

    def __enter__(self) -> Trace:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and self._stack:
            self._stack.pop()
        elif event == "call":
            self._stack.append(self._enter(frame))

    def _enter(self, frame: FrameType) -> str:
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or a class
            return "import"
        if "import" in self._stack or not code.co_filename.startswith(self._prefix):
            return ""
        file = code.co_filename.removeprefix(self._prefix)
        caller = next((room for room in reversed(self._stack) if room), "")
        call = Call(caller, file, code.co_qualname)
        if call.room not in (caller, "__init__"):
            self.calls.append(call)
        return call.room


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Call]]:
    """The calls of each command, on one small run."""
    folder = tmp_path_factory.mktemp("trace")
    run = str(folder / "run")
    commands = {
        "fit": ["fit", GRAPH, "--out", run, *SMALL],
        "evaluate": ["evaluate", run, "--quiet"],
        "report": ["report", run, "--quiet"],
        "explore": ["explore", run, "--export", str(folder / "page"), "--quiet"],
    }
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, words in commands.items():
            patch.setattr(sys, "argv", ["dssl", *words])
            with Trace() as trace:
                try:
                    main()
                except SystemExit as end:
                    assert not end.code, name
            found[name] = trace.calls
    return found


@pytest.mark.parametrize("command", STAGES)
def test_each_stage_is_entered_once_and_in_order(traces: dict[str, list[Call]], command: str) -> None:
    entered = [f"{call.file}:{call.name}" for call in traces[command]]
    times = Counter(entered)
    assert {stage: times[stage] for stage in STAGES[command]} == dict.fromkeys(STAGES[command], 1)
    assert sorted(STAGES[command], key=entered.index) == STAGES[command]


@pytest.mark.parametrize("command", STAGES)
def test_calls_lead_to_rooms_before_except_to_report_progress(traces: dict[str, list[Call]], command: str) -> None:
    between = [call for call in traces[command] if call.caller]
    up = {(call.caller, call.file) for call in between if ROOMS.index(call.room) > ROOMS.index(call.caller)}
    assert up <= CALLBACKS
    assert {call.room for call in traces[command]} & UNUSED[command] == set()


def test_every_callback_is_used(traces: dict[str, list[Call]]) -> None:
    calls = {(call.caller, call.file) for found in traces.values() for call in found}
    assert calls >= CALLBACKS


def test_a_trace_has_the_calls_of_a_block(tmp_path: Path) -> None:
    from dssl.runtime.files import write_text

    with Trace() as trace:
        write_text(tmp_path / "a.txt", "a")
    assert Call("", "runtime/files.py", "write_text") in trace.calls
