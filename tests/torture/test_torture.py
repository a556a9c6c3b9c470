"""The small fixed part of the campaigns of `make torture`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dssl.data.load import load
from dssl.graph import packed
from tests.torture import commands, fuzz, options, server, table

QUICK = [
    target for target in fuzz.TARGETS if target.name not in ("run folders", "reports of run folders", "graph names")
]


def test_a_kill_at_any_operation_of_the_layer_of_files_leaves_old_or_new(tmp_path: Path) -> None:
    library = server.compiled(tmp_path / "build")
    if library is None:
        pytest.skip("no C compiler for shim.c")
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.small", str(tmp_path)],
        env={**os.environ, **server.ENVIRONMENT, "LD_PRELOAD": str(library)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.parametrize("target", QUICK, ids=lambda target: target.name)
def test_odd_and_damaged_inputs_are_accepted_or_refused_in_one_line(target: fuzz.Target, tmp_path: Path) -> None:
    state, log = tmp_path / "state", tmp_path / "log.jsonl"
    (state / "run").mkdir(parents=True)
    commands.write_graph(state)
    graph = load(state / "edges.csv", nodes=state / "nodes.csv")
    packed.pack(graph, state / "packed")
    (state / "run" / "config.toml").write_text('seed = 0\n\n[train]\nepochs = 3\n\n[encoder]\nname = "gcn"\n')
    fuzz.batch(target, 7, 60, state=state, folder=tmp_path, log=log)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    outcomes = [row["outcome"] for row in rows if "outcome" in row]
    assert len(outcomes) == 60
    assert [row["detail"] for row in rows if row.get("outcome") == "problem"] == []
    assert "refused" in outcomes
    assert "accepted" in outcomes or target.name == "packed graphs"  # of these, every damage is detected


def test_random_settings_are_command_lines_of_fit(tmp_path: Path) -> None:
    lines = {options.line(str(seed), tmp_path) for seed in range(30)}
    assert len(lines) == 30
    assert all(line[:2] == ("fit", "edges.csv") for line in lines)
    assert options.line("3", tmp_path) == options.line("3", tmp_path)


def test_the_table_counts_cases_and_shows_problems() -> None:
    rows = [
        {"key": "a", "campaign": "kills", "name": "fit", "cases": 1, "seconds": 1.0, "problems": []},
        {"key": "b", "campaign": "kills", "name": "fit", "cases": 1, "seconds": 2.4, "problems": ["torn | file"]},
    ]
    page = table.markdown(rows)
    assert "2 cases, 1 problems" in page
    assert "| fit | 2 | 1 | 3 |" in page
    assert "- `b`: torn / file" in page


def test_a_campaign_keeps_its_section_until_as_many_cases_are_known() -> None:
    def case(campaign: str, cases: int) -> dict[str, object]:
        return {"key": "k", "campaign": campaign, "name": "fit", "cases": cases, "seconds": 1.0, "problems": []}

    stored = table.markdown([case("kills", 1500), case("errors", 3)])
    page = table.markdown([case("kills", 20), case("errors", 4)], stored)
    assert "1,504 cases, 0 problems" in page
    assert "| fit | 1,500 | 0 | 1 |" in page
    assert "| fit | 4 | 0 | 1 |" in page
    assert table.markdown([], page) == page
