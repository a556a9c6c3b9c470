from __future__ import annotations

import io
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from dssl.cli import output, progress, use
from dssl.config.schema import GraphSettings
from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.model.embeddings import Embeddings, EmbeddingsError
from dssl.runs import card, run_folder, workflow
from dssl.runs.records import Environment
from dssl.studies.experiments import Job
from dssl.studies.records import Record


def record(epoch: int) -> dict[str, float]:
    return {"epoch": epoch, "loss": 1 / epoch, "effective_rank": 3.0, "posterior_entropy": 0.5, "factor_usage_max": 0.2}


@pytest.fixture(autouse=True)
def compiled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are compiled, so that no line announces the compilation."""
    if "kernel" not in request.node.name:
        monkeypatch.setattr(progress, "_compiled_before", lambda: tmp_path)


def training(epochs: int, *, terminal: bool = False, quiet: bool = False) -> str:
    shown = progress.Progress(quiet=quiet)
    shown.console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown:
        shown.graph(Graph.from_edges([0], [1], name="[red]mine[/red]"), epochs)
        for epoch in range(1, epochs + 1):
            shown.epoch(record(epoch))
    written = shown.console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


@pytest.mark.parametrize(("epochs", "lines"), [(100, 10), (7, 7), (1, 1), (0, 0), (105, 11)])
def test_about_ten_plain_lines_where_there_is_no_terminal(epochs: int, lines: int) -> None:
    text = training(epochs).splitlines()
    assert text[0].startswith("Graph('[red]mine[/red]': 2 nodes")
    assert len(text) == lines + 1
    if epochs:
        assert f"epoch {epochs}/{epochs}  loss {1 / epochs:.4g}  rank 3  entropy 0.5  usage 0.2" in text[-1]


def test_a_bar_with_the_statistics_on_a_terminal() -> None:
    text = training(20, terminal=True)
    assert "epoch 20/20" in text
    assert "loss 0.05  rank 3  entropy 0.5  usage 0.2" in text


def test_quiet_is_quiet() -> None:
    assert training(20, quiet=True) == training(20, terminal=True, quiet=True) == ""


def jobs(*, terminal: bool = False, quiet: bool = False) -> str:
    job = Job("data/texas.csv", "dgi", seed=1)
    failed = Record(key="", graph="", row="dgi", error="too large")
    done = Record(key="", graph="", row="dgi", seconds=2.0)
    shown = progress.Progress("table1", quiet=quiet)
    shown.console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown:
        shown.plan(3)
        for record in (done, failed, done.model_copy(update={"stored": True})):
            shown.record(job, record)
    written = shown.console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def test_jobs_are_counted_and_failures_are_shown_even_if_quiet() -> None:
    assert jobs().splitlines() == [
        "1/3 table1: dgi on texas.csv, seed 1: 2 s",
        "table1: dgi on texas.csv, seed 1: too large",
        "3/3 table1: dgi on texas.csv, seed 1: stored",
    ]
    assert jobs(quiet=True).splitlines() == ["table1: dgi on texas.csv, seed 1: too large"]
    assert "table1 3/3" in jobs(terminal=True)


def test_stages_and_trials_are_plain_lines_without_a_terminal() -> None:
    shown = progress.Progress("trial", quiet=False)
    shown.console = Console(file=io.StringIO(), width=100)
    with shown:
        shown.stage("reading [it]")
        shown.plan(2)
        shown.trial(1, None, None)
        shown.trial(2, 0.5, 0.5)
    written = shown.console.file
    assert isinstance(written, io.StringIO)
    lines = ["trial: reading [it]", "trial 1/2: failed, best –", "trial 2/2: 0.5, best 0.5"]
    assert written.getvalue().splitlines() == lines


def test_a_change_of_any_kernel_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "kernels").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "kernels" / name).write_text("x = 1\n")
    monkeypatch.setattr(progress, "__file__", str(tmp_path / "cli" / "progress.py"))
    before = progress._compiled_before()
    assert before == progress._compiled_before()
    (tmp_path / "kernels" / "b.py").write_text("x = 12\n")
    assert progress._compiled_before() != before


def test_names_are_not_taken_for_markup_or_emoji(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = {"name": "[bold]x[/bold]", "nodes": 1, "edges": 2, "features": 3, "classes": 4, "edge_homophily": 0.25}
    made = Environment(seconds=1.0, peak_memory_mb=2.0)
    outcome = workflow.Outcome(Path("runs/[i]"), summary, made, record(3), ["1 [a] :key:"], ["[b] :key:"])
    output.outcome(outcome, quiet=False)
    printed = capsys.readouterr()
    for part in ("[bold]x[/bold]: 1 nodes", "edge homophily 0.25", "runs/[i]", "1 [a] :key:", "3 epochs, loss 0.3333"):
        assert part in printed.out
    assert "warning: [b] :key:" in printed.err


def test_a_stage_is_not_taken_for_markup_or_emoji() -> None:
    shown = progress.Progress("runs/[i]:key:", quiet=False)
    shown.console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown:
        shown.stage("[b]")
        shown.stage("[c]")
        assert shown.status is not None
        assert str(shown.status.status) == "runs/[i]:key:: [c]"


@pytest.mark.parametrize("node", ["3", "--1", "²", str(2**63), "x"])
def test_an_id_that_is_no_node_is_one_line(node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Embeddings(pa.array([1, 2]), np.eye(2, dtype=np.float32))
    monkeypatch.setattr(run_folder, "read_embeddings", lambda _: vectors)
    with pytest.raises(EmbeddingsError, match="no vector for the node"):
        use.similar(Path("run"), node)


def test_options_of_numbers_and_of_classes_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match="name the table with --targets"):
        use.evaluate([Path("run")], target="size")
    with pytest.raises(ConfigError, match=r"evaluate\.labels has no effect on numbers"):
        use.evaluate([Path("run")], targets=Path("t.csv"), target="size", labels="1%")


def test_a_table_of_a_card_has_a_dash_for_nothing_alone() -> None:
    assert card._table({"name": "None of it", "y": None}).splitlines()[2:] == ["| name | None of it |", "| y | – |"]


def test_numbers_for_people() -> None:
    assert [progress.number(value) for value in (None, float("nan"), 12345, 0.123456, 31.0)] == [
        "–",
        "–",
        "12,345",
        "0.1235",
        "31",
    ]


def test_the_arguments_of_a_graph_read_it_again() -> None:
    graph = GraphSettings(
        source="my edges.csv",
        nodes="nodes.csv",
        weight_column="amount",
        header=True,
        column_types=("age=number", "city=category"),
        directed=True,
    )
    found = output.graph_arguments(graph)
    assert shlex.join(found) == (
        "'my edges.csv' --nodes nodes.csv --weight-column amount --column age=number --column city=category --header "
        "--directed"
    )
