from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dssl.cli import output, progress
from dssl.graph import Graph
from dssl.runs import workflow


def record(epoch: int) -> dict[str, float]:
    return {"epoch": epoch, "loss": 1 / epoch, "effective_rank": 3.0, "posterior_entropy": 0.5, "factor_usage_max": 0.2}


def training(epochs: int, *, terminal: bool = False, quiet: bool = False) -> str:
    shown = progress.Training(epochs, quiet=quiet)
    shown.console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with shown:
        shown.graph(Graph.from_edges([0], [1], name="[red]mine[/red]"))
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


def test_names_are_not_taken_for_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = {"name": "[bold]x[/bold]", "nodes": 1, "edges": 2, "features": 3, "classes": 4, "edge_homophily": 0.25}
    made = {"seconds": 1.0, "peak_memory_mb": 2.0}
    outcome = workflow.Outcome(Path("runs/[i]"), summary, made, record(3), ["1 [a] done"], ["[b] collapsed"])
    output.outcome(outcome, quiet=False)
    printed = capsys.readouterr()
    for part in ("[bold]x[/bold]: 1 nodes", "edge homophily 0.25", "runs/[i]", "1 [a] done", "3 epochs, loss 0.3333"):
        assert part in printed.out
    assert "warning: [b] collapsed" in printed.err


def test_numbers_for_people() -> None:
    assert [progress.number(value) for value in (None, float("nan"), 12345, 0.123456, 31.0)] == [
        "–",
        "–",
        "12,345",
        "0.1235",
        "31",
    ]
