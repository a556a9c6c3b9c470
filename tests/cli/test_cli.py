from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dssl.cli import app, main
from dssl.config.fields import settings_of

SMALL = ["--set", "dim=4", "--set", "features=raw", "--set", "epochs=3", "--set", "num_factors=2", "--set", "splits=2"]
DOCS = Path(__file__).resolve().parents[2] / "docs"


def call(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, in a process of its own."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "dssl", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def fails(arguments: list[str], cwd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line in this process, which is quicker; return the line that it fails with."""
    monkeypatch.chdir(cwd)
    monkeypatch.setattr(sys, "argv", ["dssl", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    printed = capsys.readouterr()
    assert caught.value.code == 2, printed.err
    assert len(printed.err.splitlines()) == 1, printed.err
    assert printed.err.startswith("dssl: error: ")
    assert printed.out == ""
    return printed.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small graph and a finished run of it."""
    folder = tmp_path_factory.mktemp("cli")
    ring = 20
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % ring}\n" for i in range(ring)))
    rows = [f"n{i},{'ab'[i % 2]},{i % 2},{i / 7:.3f}\n" for i in range(ring)]
    (folder / "nodes.csv").write_text("id,label,parity,size\n" + "".join(rows))
    done = call("fit", "edges.csv", "--nodes", "nodes.csv", "--out", "runs/mine", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_fit_says_what_it_did_and_what_is_next(folder: Path) -> None:
    done = call("fit", "edges.csv", "--nodes", "nodes.csv", "--out", "runs/again", *SMALL, cwd=folder)
    assert done.returncode == 0
    assert "20 nodes, 20 edges" in done.stdout
    assert "dssl evaluate runs/again" in done.stdout
    assert "epoch 3/3  loss" in done.stderr
    assert "\x1b[" not in done.stdout + done.stderr


def test_quiet_prints_the_folder_alone(folder: Path) -> None:
    done = call("fit", "edges.csv", "--seed", "5", "-q", *SMALL, cwd=folder)
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["runs/edges-dssl-5"]
    assert "epoch" not in done.stderr


def test_evaluate_and_info(folder: Path) -> None:
    shutil.copytree(folder / "runs" / "mine", folder / "runs" / "judged")
    done = call("evaluate", "runs/judged", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "majority" in done.stdout
    assert re.search(r"\n\d+ random splits, 60/20/20, seed 0; the first has \d+/\d+/\d+ nodes", done.stdout)
    done = call("info", "runs/judged", cwd=folder)
    assert done.returncode == 0, done.stderr
    for part in ("20 nodes", "encoder.dim=4", "embeddings.parquet", "majority", "3 epochs"):
        assert part in done.stdout
    assert "(unfinished)" not in done.stdout


def test_evaluating_several_runs_tells_seeds_from_splits(folder: Path) -> None:
    for seed in ("7", "8"):
        given = ["fit", "edges.csv", "--nodes", "nodes.csv", "--seed", seed, "--out", f"runs/s{seed}", "-q", *SMALL]
        assert call(*given, cwd=folder).returncode == 0
    done = call("evaluate", "runs/s7", "runs/s8", "--set", "splits=3", cwd=folder)
    assert done.returncode == 0, done.stderr
    for part in ("runs/s7", "± over seeds", "± over splits", "seeds 7, 8; 3 random splits, 60/20/20, seed 0"):
        assert part in done.stdout
    assert "runs/s8: linear probe" in done.stderr


def test_tune_writes_a_recipe_that_fit_takes(folder: Path) -> None:
    given = ["tune", "edges.csv", "--nodes", "nodes.csv", "--trials", "2", "--epochs", "2", "--out", "runs/t"]
    done = call(*given, "--set", "splits=2", "--set", "features=raw", "--set", "dim=4", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "trial 2/2: " in done.stderr.splitlines()[-1]
    for part in (
        "best",
        "of 2 trials",
        "method.num_factors = ",
        "dssl fit edges.csv --nodes nodes.csv --recipe runs/t/recipe.toml",
    ):
        assert part in done.stdout
    assert "encoder.dim =" not in done.stdout  # set, so not varied
    fitted = ["fit", "edges.csv", "--nodes", "nodes.csv", "--recipe", "runs/t/recipe.toml", "--out", "runs/tuned", "-q"]
    assert call(*fitted, cwd=folder).returncode == 0
    assert "train.epochs=2" in call("info", "runs/tuned", cwd=folder).stdout


def test_info_shows_what_is_left_of_a_damaged_run(folder: Path) -> None:
    shutil.copytree(folder / "runs" / "mine", folder / "runs" / "broken")
    (folder / "runs" / "broken" / "graph.json").write_text("{")
    (folder / "runs" / "broken" / "environment.json").unlink()
    done = call("info", "runs/broken", cwd=folder)
    assert done.returncode == 0
    assert "graph.json is damaged" in done.stdout
    assert "(unfinished)" in done.stdout


@pytest.mark.parametrize("name", ["v.parquet", "v.csv", "v.npz"])
def test_embed_writes_each_format(folder: Path, name: str) -> None:
    done = call("embed", "runs/mine", "-o", name, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "20 vectors of length 4" in done.stdout
    assert (folder / name).stat().st_size > 0


def test_embed_lays_out_parquet_as_asked(folder: Path) -> None:
    assert call("embed", "runs/mine", "-o", "l.parquet", cwd=folder).returncode == 0
    assert call("embed", "runs/mine", "-o", "c.parquet", "--layout", "columns", "-q", cwd=folder).returncode == 0
    as_list, as_columns = pq.read_table(folder / "l.parquet"), pq.read_table(folder / "c.parquet")
    assert as_list.num_columns == 2
    assert as_columns.num_columns == 5
    first = np.array(as_list.column(1).to_pylist())
    np.testing.assert_array_equal(first, np.stack([column.to_numpy() for column in as_columns.columns[1:]], axis=1))


def test_embed_takes_new_nodes(folder: Path) -> None:
    (folder / "new.csv").write_text("source,target\nx,y\ny,z\nx,n3\n")
    (folder / "new-nodes.csv").write_text("id,label,parity,size\nx,a,0,1\ny,b,1,2\nz,a,0,0.5\n")
    done = call("embed", "runs/mine", "new.csv", "--nodes", "new-nodes.csv", "-o", "new.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "note: 13% of the edges are new: a fit on all files, then `dssl align`, learns from them too"
    ]
    assert pq.read_table(folder / "new.parquet").column(0).to_pylist() == ["x", "y", "z"]
    (folder / "apart.csv").write_text("source,target\nx,y\n")
    done = call("embed", "runs/mine", "apart.csv", "--nodes", "new-nodes.csv", "-o", "new.csv", cwd=folder)
    assert "note: 1 of 3 new nodes have no edges" in done.stderr
    assert "no edge connects a new node to the fitted graph" in done.stderr
    given = ["apart.csv", "--nodes", "new-nodes.csv", "--separate"]
    done = call("embed", "runs/mine", *given, "-o", "apart.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(pq.read_table(folder / "apart.parquet")) == 3


def test_factors_writes_links_and_nodes(folder: Path) -> None:
    done = call("factors", "runs/mine", "-o", "f.parquet", "--nodes-out", "fn.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "f.parquet: 2 factors on 40 links" in done.stdout
    links = pq.read_table(folder / "f.parquet")
    assert links.column_names == ["source", "target", "factor", "q"]
    assert len((folder / "fn.csv").read_text().splitlines()) == 21
    (folder / "few.csv").write_text("source,target\nx,y\n")
    (folder / "few-nodes.csv").write_text("id,label,parity,size\nx,a,0,1\ny,b,1,2\n")
    done = call("factors", "runs/mine", "few.csv", "--nodes", "few-nodes.csv", "-o", "few-f.csv", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    header, *rows = (folder / "few-f.csv").read_text().splitlines()
    assert header.replace('"', "") == "source,target,factor,q0,q1"
    assert len(rows) == 2


def test_fit_starts_from_a_run(folder: Path) -> None:
    done = call(
        *["fit", "edges.csv", "--nodes", "nodes.csv", "--from", "runs/mine", "--out", "runs/warm"],
        *["--set", "epochs=2"],
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 2/2" in done.stderr
    assert "train.start_from=" in call("info", "runs/warm", cwd=folder).stdout
    assert call("evaluate", "runs/warm", "-q", cwd=folder).returncode == 0


def test_datasets_lists_and_shows_one(folder: Path, data_dir: Path) -> None:
    done = call("datasets", cwd=folder)
    assert done.returncode == 0
    for name in ("cora", "texas", "penn94", "cornell-2020"):
        assert name in done.stdout
    done = call("datasets", "texas", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "183" in done.stdout


def test_one_recipe_is_its_file_and_one_method_has_its_settings(folder: Path) -> None:
    assert 'name = "dgi"' in call("recipes", "dgi:cora", cwd=folder).stdout
    shown = call("methods", "line", cwd=folder).stdout
    assert "method.step_size" in shown
    assert "encoder.layers" not in shown
    for command, what in (("recipes", "recipe"), ("methods", "method")):
        done = call(command, "nosuch", cwd=folder)
        assert done.returncode == 2
        assert f"unknown {what} 'nosuch'" in done.stderr


def test_recipes_lists_titles_and_data_sets(folder: Path) -> None:
    done = call("recipes", cwd=folder)
    assert done.returncode == 0
    for part in ("paper-terms", "two-layer GCN", "cora 83.06", "cornell-2020 53.15", "penn94 60.38"):
        assert part in done.stdout


def test_help_is_a_table_of_contents_with_examples(folder: Path) -> None:
    done = call("--help", cwd=folder)
    for part in (
        "fit",
        "embed",
        "evaluate",
        "info",
        "datasets",
        "settings",
        "factors",
        "recipes",
        "tune",
        "dssl fit texas",
    ):
        assert part in done.stdout


def test_the_help_of_fit_shows_every_setting(folder: Path) -> None:
    done = call("fit", "--help", cwd=folder)
    assert done.returncode == 0
    for row in settings_of():
        assert row.path in done.stdout
    assert done.stdout.split() == call("fit", "-h", cwd=folder).stdout.split()


def test_no_arguments_print_the_help(folder: Path) -> None:
    done = call(cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == call("--help", cwd=folder).stdout


def test_version(folder: Path) -> None:
    assert call("--version", cwd=folder).stdout.startswith("dssl 0.")


def truncate(run: Path) -> None:
    path = run / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def spoil(name: str, text: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        (run / name).write_text(text)

    return change


BAD = {
    "no graph": (["fit"], "no graph is named"),
    "unknown data set": (["fit", "texsa"], "did you mean 'texas'?"),
    "missing file": (["fit", "nope.csv"], "nope.csv"),
    "node file for a data set": (["fit", "texas", "--nodes", "nodes.csv"], "'texas'"),
    "unknown package": (["fit", "python:nope_nope"], "nope_nope"),
    "bad synthetic spec": (["fit", "synthetic:hh=3"], "hh"),
    "wrong column": (["fit", "edges.csv", "--source-column", "sorce"], "sorce"),
    "unknown method": (["fit", "edges.csv", "--method", "dsll"], "did you mean 'dssl'?"),
    "unknown encoder": (["fit", "edges.csv", "--encoder", "gcm"], "did you mean 'gcn'?"),
    "unknown preset": (["fit", "edges.csv", "--preset", "papr"], "did you mean 'paper'?"),
    "unknown recipe": (["fit", "edges.csv", "--recipe", "nope"], "unknown recipe 'nope'"),
    "unknown data set of a recipe": (
        ["fit", "texas", "--recipe", "paper-terms:x"],
        "unknown data set 'x'; it contains cora",
    ),
    "unknown setting": (["fit", "edges.csv", "--set", "epoch=3"], "did you mean 'epochs'?"),
    "out of range": (["fit", "edges.csv", "--set", "dropout=2"], "encoder.dropout is 2"),
    "no value": (["fit", "edges.csv", "--set", "dropout"], "not of the form key=value"),
    "negative seed": (["fit", "edges.csv", "--seed", "-1"], "seed is -1"),
    "text for a seed": (["fit", "edges.csv", "--seed", "x"], "--seed"),
    "unknown device": (["fit", "edges.csv", "--set", "device=tpu"], "tpu"),
    "missing config": (["fit", "edges.csv", "--config", "none.toml"], "none.toml"),
    "config is no TOML": (["fit", "edges.csv", "--config", "edges.csv"], "is not valid TOML"),
    "config with wrong values": (["fit", "edges.csv", "--config", "bad.toml"], "bad.toml: train.epochs is -1"),
    "finished run": (["fit", "edges.csv", "--out", "runs/mine"], "holds a finished run"),
    "out is a file": (["fit", "edges.csv", "--out", "edges.csv"], "is a file"),
    "out below a file": (["fit", "edges.csv", "--out", "edges.csv/run", *SMALL], "edges.csv"),
    "unknown command": (["fti"], "No such command 'fti'"),
    "unknown option": (["fit", "edges.csv", "--rounds", "3"], "No such option"),
    "missing run to evaluate": (["evaluate", "runs/none"], "runs/none is not a run folder"),
    "unknown protocol": (["evaluate", "runs/mine", "--protocol", "geomgcn"], "did you mean 'geom-gcn'?"),
    "protocol of another graph": (["evaluate", "runs/mine", "--protocol", "public"], "use the protocol random"),
    "evaluating with other training": (["evaluate", "runs/mine", "--set", "epochs=9"], "train.epochs was 3, is 9, but"),
    "tune without labels": (["tune", "edges.csv"], "has no labels to select by"),
    "tune no graph": (["tune"], "no graph is named"),
    "unknown criterion": (["tune", "edges.csv", "--select", "los"], "did you mean 'loss'?"),
    "unknown space": (["tune", "edges.csv", "--space", "wild"], "did you mean 'wide'?"),
    "tune nothing": (["tune", "edges.csv", "--trials", "0"], "0 trials"),
    "tune in a run": (["tune", "edges.csv", "--select", "loss", "--out", "runs/mine"], "holds no search"),
    "missing run to embed": (["embed", "runs/none", "-o", "v.csv"], "runs/none is not a run folder"),
    "missing run to look at": (["info", "runs/none"], "runs/none is not a run folder"),
    "missing output": (["embed", "runs/mine"], "--out"),
    "unknown output": (["embed", "runs/mine", "-o", "v.xlsx"], "xlsx"),
    "unknown layout": (["embed", "runs/mine", "-o", "v.csv", "--layout", "lits"], "lits"),
    "output in no folder": (["embed", "runs/mine", "-o", "edges.csv/v.csv"], "edges.csv"),
    "other features": (["embed", "runs/mine", "edges.csv", "--separate", "-o", "v.csv"], "feature columns"),
    "nothing new": (["embed", "runs/mine", "edges.csv", "-o", "v.csv"], "all nodes of edges.csv are in the fitted"),
    "custom encoder by name": (["fit", "edges.csv", "--encoder", "custom"], "DSSL(encoder=module)"),
    "start from no run": (["fit", "edges.csv", "--from", "runs/none"], "runs/none is not a run folder"),
    "start with a config": (["fit", "edges.csv", "--from", "runs/mine", "--config", "bad.toml"], "leave out --config"),
    "start with a preset": (["fit", "edges.csv", "--from", "runs/mine", "--preset", "paper"], "leave out --preset"),
    "start with another encoder": (
        ["fit", "edges.csv", "--from", "runs/mine", "--out", "runs/w", "--encoder", "gat"],
        "encoder.name was 'hops', is 'gat'",
    ),
    "start with another size": (
        ["fit", "edges.csv", "--from", "runs/mine", "--out", "runs/w", "--set", "dim=9"],
        "encoder.dim was 4, is 9",
    ),
    "missing run to factor": (["factors", "runs/none", "-o", "f.csv"], "runs/none is not a run folder"),
    "factors without output": (["factors", "runs/mine"], "--out"),
    "factors to an unknown format": (["factors", "runs/mine", "-o", "f.npz"], "use one of .parquet, .csv"),
    "factors of other features": (
        ["factors", "runs/mine", "edges.csv", "--separate", "-o", "f.csv"],
        "feature columns",
    ),
    "data set unknown to datasets": (["datasets", "coar"], "did you mean 'cora'?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_code_2(
    folder: Path, case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.toml").write_text("[train]\nepochs = -1\n")
    arguments, said = BAD[case]
    assert said in fails(arguments, folder, monkeypatch, capsys)


def test_a_process_fails_alike(folder: Path) -> None:
    done = call("fit", "texsa", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("dssl: error: 'texsa' is neither a file nor a data set, did you mean 'texas'?")
    assert len(done.stderr.splitlines()) == 1


DAMAGE: dict[str, tuple[Callable[[Path], None], list[str], str]] = {
    "weights cut short": (truncate, ["embed", "RUN", "edges.csv", "-o", "v.csv"], "weights.safetensors is damaged"),
    "config no TOML": (spoil("config.toml", "seed = ["), ["evaluate", "RUN"], "is not valid TOML"),
    "config with unknown setting": (spoil("config.toml", "sed = 1"), ["info", "RUN"], "did you mean 'seed'?"),
    "graph no JSON": (spoil("graph.json", "{"), ["evaluate", "RUN"], "graph.json is damaged"),
    "features no JSON": (spoil("features.json", "{"), ["embed", "RUN", "edges.csv", "-o", "v.csv"], "features.json"),
    "embeddings no Parquet": (spoil("embeddings.parquet", "x"), ["evaluate", "RUN"], "embeddings.parquet"),
    "no embeddings": (lambda run: (run / "embeddings.parquet").unlink(), ["embed", "RUN", "-o", "v.csv"], "embeddings"),
    "splits no NumPy": (spoil("splits.npz", "x"), ["evaluate", "RUN"], "splits.npz is damaged"),
    "unfinished": (lambda run: (run / "environment.json").unlink(), ["evaluate", "RUN"], "is an unfinished run"),
    "saved from Python": (
        lambda run: [(run / name).unlink() for name in ("environment.json", "graph.json")] and None,
        ["align", "RUN", "--to", "RUN", "-o", "v.csv"],
        "is a model that was saved from Python",
    ),
    "no folder to align": (shutil.rmtree, ["align", "RUN", "--to", "RUN", "-o", "v.csv"], "is not a run folder"),
    "metrics no JSON": (spoil("metrics.jsonl", "x\n"), ["info", "RUN"], "metrics.jsonl is damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_run_is_one_line_and_code_2(
    folder: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, arguments, said = DAMAGE[case]
    shutil.copytree(folder / "runs" / "mine", tmp_path / "run")
    damage(tmp_path / "run")
    given = [str(tmp_path / "run") if part == "RUN" else part for part in arguments]
    assert said in fails(given, folder, monkeypatch, capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_one_line(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = call("fit", "edges.csv", "--out", tmp_path / "run", *SMALL, cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_interrupt_ends_cleanly_and_the_same_command_resumes(folder: Path) -> None:
    command = ["fit", "edges.csv", "--out", "runs/stopped", "--set", "dim=4", "--set", "epochs=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dssl", *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (folder / "runs" / "stopped" / "checkpoint.safetensors").exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == "dssl: interrupted; run the same command again to resume"


def test_a_closed_pipe_ends_cleanly(folder: Path) -> None:
    script = f"{sys.executable} -m dssl settings | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


def test_settings_as_markdown_are_the_page(folder: Path) -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert call("settings", "--markdown", cwd=folder).stdout == page


def test_the_page_on_the_command_line_is_up_to_date() -> None:
    import typer
    from typer.cli import get_docs_for_click

    command = typer.main.get_command(app)
    written = get_docs_for_click(obj=command, ctx=typer.Context(command), name="dssl")
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert page.split() == written.split(), "write `written` to it"
