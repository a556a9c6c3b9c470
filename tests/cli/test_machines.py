"""Commands as programs and schedulers call them: JSON, environment variables, exit codes, cards, alignment."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.cli import main
from dssl.model.embeddings import Embeddings
from tests.cli.test_cli import SMALL, fails, folder  # noqa: F401
from tests.cli.test_cli import call as shell


def run(arguments: list[str], cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process; return its standard output."""
    monkeypatch.chdir(cwd)
    monkeypatch.setattr(sys, "argv", ["dssl", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    printed = capsys.readouterr()
    assert caught.value.code == 0, printed.err
    return printed.out


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: F811
    return lambda *arguments: run(list(arguments), folder, monkeypatch, capsys)


def test_results_are_one_json_object(call: Any, folder: Path) -> None:  # noqa: F811
    fitted = json.loads(call("fit", "edges.csv", "--nodes", "nodes.csv", "--out", "runs/j", "--json", *SMALL))
    assert fitted["folder"] == "runs/j"
    assert fitted["record"]["epoch"] == 3
    evaluated = json.loads(call("evaluate", "runs/j", "--json"))["runs/j"]
    assert evaluated == json.loads((folder / "runs/j/evaluation.json").read_text())
    info = json.loads(call("info", "runs/j", "--json"))
    assert info["finished"]
    assert info["settings"]["encoder"]["dim"] == 4
    similar = json.loads(call("similar", "runs/j", "n3", "--top", "2", "--json"))
    assert [row["id"] for row in similar["similar"]] == [
        node for node, _ in Embeddings.load(folder / "runs/j/embeddings.parquet").most_similar("n3", 2)
    ]
    assert len(call("similar", "runs/j", "n3").splitlines()) == 10


JSON = {  # arguments of each command, and the keys of its object
    "card": (("runs/mine",), {"file", "markdown"}),
    "pack": (
        ("edges.csv", "--nodes", "nodes.csv", "-o", "packed"),
        {"folder", "nodes", "edges", "features", "changes"},
    ),
    "embed": (("runs/mine", "-o", "v.csv"), {"file", "vectors", "dim"}),
    "factors": (("runs/mine", "-o", "f.csv"), {"file", "nodes_file", "links", "factors", "names"}),
    "report": (("runs/mine",), {"file", "bytes"}),
    "explore": (("runs/mine", "--export", "site"), {"folder", "files", "bytes"}),
    "datasets": ((), {"datasets"}),
    "methods": ((), {"methods"}),
    "methods dgi": ((), {"settings", "citation"}),
    "recipes": ((), {"recipes"}),
    "recipes dgi": ((), {"recipe", "datasets"}),
    "settings": ((), {"settings"}),
    "config check": (("runs/mine/config.toml",), {"file", "method", "settings"}),
    "inspect": (("edges.csv", "--nodes", "nodes.csv"), {"summary", "columns", "changes", "spectrum"}),
    "tune": (
        ("edges.csv", "--nodes", "nodes.csv", "--trials", "1", "--epochs", "1"),
        {"criterion", "value", "settings", "recipe", "trials", "failed"},
    ),
    "compare": (
        ("edges.csv", "--nodes", "nodes.csv", "--methods", "sanity", "--seeds", "1", "--splits", "2"),
        {"graph", "measure", "rows", "failed", "files"},
    ),
}


@pytest.mark.parametrize("name", JSON)
def test_every_command_prints_one_json_object_on_request(name: str, call: Any) -> None:
    arguments, keys = JSON[name]
    found = json.loads(call(*name.split(), *arguments, "--json"))
    assert keys <= set(found)
    if name == "compare":
        assert {row["method"] for row in found["rows"]} >= {"raw"}
        assert all(isinstance(row["mean"], float) for row in found["rows"])


def test_commands_without_a_result_have_no_json() -> None:
    import typer.main

    from dssl.cli import app

    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    without = {name for name, each in known.items() if "as_json" not in {option.name for option in each.params}}
    assert without == {"config"}  # a group; its command is in the list above


def test_a_numeric_target_is_evaluated_by_r2(call: Any, folder: Path) -> None:  # noqa: F811
    rows = "".join(f"n{i},{i / 3}\n" for i in range(18))
    (folder / "price.csv").write_text("id,price\n" + rows)
    text = call("evaluate", "runs/mine", "--targets", "price.csv", "--target", "price")
    assert "R²" in text
    assert "training-free baseline" in text
    found = json.loads(call("evaluate", "runs/mine", "--targets", "price.csv", "--target", "price", "--json"))
    assert found["runs/mine"]["probe"]["measure"] == "r2"


def test_a_card_describes_a_run(call: Any, folder: Path) -> None:  # noqa: F811
    text = call("card", "runs/mine")
    for part in ("# Vectors of edges", "| nodes | 20 |", "| encoder.dim | 4 |", "## Evaluation", "## Limits"):
        assert part in text
    assert call("card", "runs/mine", "-o", "card.md") == ""
    assert (folder / "card.md").read_text() == text


def test_vectors_of_another_training_are_aligned(call: Any, folder: Path) -> None:  # noqa: F811
    old = Embeddings.load(folder / "runs/mine/embeddings.parquet")
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    values = old.values @ turn + 1
    values[7] = -3 * old.values[7] @ turn
    Embeddings(old.ids, values).save(folder / "turned.parquet")
    text = call("align", "turned.parquet", "--to", "runs/mine", "-o", "aligned.parquet", "--limit", "0.9")
    assert "20 shared, 0 added, 0 removed" in text
    command = ("align", "turned.parquet", "--to", "runs/mine", "-o", "aligned.csv")
    found = json.loads(call(*command, "--moved", "moved.csv", "--json"))
    assert found["most"][0][0] == "n7"
    assert found["moved"] >= 1
    rows = [line.split(",") for line in (folder / "moved.csv").read_text().replace('"', "").splitlines()]
    assert rows[0] == ["id", "cosine"] and rows[1][0] == "n7" and len(rows) == 21
    assert sum(float(cosine) < 0.8 for _, cosine in rows[1:]) == found["moved"]


def test_environment_variables_are_settings_below_options(
    call: Any,
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DSSL_TRAIN_EPOCHS", "2")
    monkeypatch.setenv("DSSL_SEED", "5")
    given = ["edges.csv", "--nodes", "nodes.csv", "--set", "dim=4", "--set", "num_factors=2", "--json"]
    assert json.loads(call("fit", *given, "--out", "runs/e"))["record"]["epoch"] == 2
    settings = json.loads(call("info", "runs/e", "--json"))["settings"]
    assert (settings["seed"], settings["train"]["epochs"]) == (5, 2)
    assert json.loads(call("fit", *given, "--epochs", "1", "--out", "runs/f"))["record"]["epoch"] == 1


def test_a_configuration_file_is_checked_without_training(
    call: Any,
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "good.toml").write_text("[train]\nepochs = 7\n")
    assert call("config", "check", "good.toml") == "good.toml: valid, method dssl; train.epochs=7\n"
    (folder / "bad.toml").write_text("epochs = 7\n[train]\nepoch = 1\n")
    words = fails(["config", "check", "bad.toml"], folder, monkeypatch, capsys)
    assert "unknown setting 'epochs', did you mean 'train.epochs'?" in words
    assert "'train.epoch'" in words


def test_bad_requests_of_machines_are_one_line(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments, words in {
        ("similar", "runs/mine", "n33"): "no vector for the node 'n33'",
        ("evaluate", "runs/mine", "--targets", "nodes.csv"): "--target NAME",
        ("evaluate", "runs/mine", "--targets", "nodes.csv", "--target", "siz"): "did you mean 'size'?",
        ("align", "runs/mine", "--to", "runs/none", "-o", "a.csv"): "runs/none",
        ("card", "runs"): "not a run folder",
    }.items():
        assert words in fails(list(arguments), folder, monkeypatch, capsys)
    monkeypatch.setenv("DSSL_TRAIN_EPOCH", "2")
    words = fails(["fit", "edges.csv", "--out", "runs/z"], folder, monkeypatch, capsys)
    assert "unknown environment variable DSSL_TRAIN_EPOCH, did you mean 'DSSL_TRAIN_EPOCHS'?" in words


def test_links_are_evaluated_after_a_cut_by_time(
    call: Any,
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Early links within groups predict late ones."""
    random.seed(0)
    rows = ["source,target,at"]
    for at in range(700):
        group, (a, b) = random.randrange(6), random.sample(range(12), 2)
        rows.append(f"n{group}-{a},n{group}-{b},{at}")
    (folder / "dated.csv").write_text("\n".join(rows) + "\n")
    call("fit", "dated.csv", "--time-column", "at", "--until", "250", "--out", "runs/t", "--epochs", "30", "-q")
    found = json.loads(call("evaluate", "runs/t", "--json"))["runs/t"]
    assert found["links"]["likelihood_degree_auc"] > 0.8
    assert "new links from 250 on: AUC" in found["links_verdict"]
    (folder / "new.csv").write_text("source,target,at\nnew,n0-1,800\nnew,n0-2,801\n")
    call("embed", "runs/t", "new.csv", "-o", "new.parquet")  # new edges are not cut
    wrong = ["embed", "runs/t", "new.csv", "--until", "3", "-o", "new.parquet"]
    assert "only `dssl fit` holds out edges by time" in fails(wrong, folder, monkeypatch, capsys)


def test_messages_are_json_on_request(folder: Path) -> None:  # noqa: F811
    done = shell(
        "--log-format", "json", "fit", "edges.csv", "--nodes", "nodes.csv", "--out", "runs/l", *SMALL, cwd=folder
    )
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= event.keys() for event in events)
    assert [event["epoch"] for event in events if event["message"] == "epoch"] == [1, 2, 3]
    failed = shell("--log-format", "json", "fit", "no.csv", cwd=folder)
    assert failed.returncode == 2
    (error,) = [json.loads(line) for line in failed.stderr.splitlines()]
    assert error["level"] == "error"
    assert "no.csv does not exist" in error["message"]
    wrong = shell("--log-format", "xml", "methods", cwd=folder)
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "dssl: error: the log format is 'xml', but must be one of text, json\n",
    )


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ev", ["evaluate"]),
        ("fit --ov", ["--overwrite"]),
        ("fit cora --method bg", ["bgrl"]),
        ("fit twitch-d", ["twitch-de"]),
        ("fit --recipe dgi", ["dgi"]),
        ("fit ", []),  # then the shell completes names of files
    ],
)
def test_the_shell_is_completed(folder: Path, typed: str, completed: list[str]) -> None:  # noqa: F811
    assert "--show-completion" in shell("--help", cwd=folder).stdout
    words = f"dssl {typed}"
    asked = {"_DSSL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['dssl']; import dssl.cli; dssl.cli.main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == completed
