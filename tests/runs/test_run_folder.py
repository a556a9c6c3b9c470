"""Who may write a run folder, how a run replaces another, and what damaged files lead to."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.errors import DsslError, RunError
from dssl.runs import records, run_folder, transform, workflow

SAME = ("embeddings.parquet", "metrics.jsonl", "weights.safetensors", "factors.parquet", "node_factors.parquet")
GRAPH = "synthetic:h=0.5,nodes=30,classes=2,degree=4,features=3"


def config(**changes: object) -> Config:
    small = {"num_factors": 2, "dim": 4, "hidden_dim": 4, "features": "raw", "epochs": 4, "splits": 2}
    return resolve({"source": GRAPH, "checkpoint_every": 1, **small, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    workflow.fit(config(), folder)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other") / "run"
    workflow.fit(config(seed=7), folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "evaluation.json").write_text("{}")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    return tmp_path / "run"


class Stop(BaseException):
    """A kill: no handler runs but those of the system."""


def same(folder: Path, wanted: Path) -> bool:
    return all((folder / name).read_bytes() == (wanted / name).read_bytes() for name in SAME)


def test_the_old_run_is_readable_until_the_new_one_is_complete(run: Path, finished: Path, other: Path) -> None:
    def look(record: dict[str, float]) -> None:
        assert same(run, finished)
        assert run_folder.read_config(run).seed == 0
        if record["epoch"] == 3:
            raise Stop

    with pytest.raises(Stop):
        workflow.fit(config(seed=7), run, overwrite=True, on_epoch=look)
    assert same(run, finished)
    epochs: list[float] = []
    outcome = workflow.fit(config(seed=7), run, overwrite=True, on_epoch=lambda record: epochs.append(record["epoch"]))
    assert epochs == [3, 4]  # resumed
    assert outcome.environment.resumed_at_epoch == 2
    assert same(run, other)
    assert (run / "notes.txt").read_text() == "mine"
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()} | {"notes.txt"}


def test_an_interrupted_overwrite_with_other_settings_is_started_anew(run: Path, other: Path) -> None:
    def stop(_: object) -> None:
        raise Stop

    with pytest.raises(Stop):
        workflow.fit(config(seed=3), run, overwrite=True, on_epoch=stop)
    with pytest.raises(RunError, match="holds a finished run; replace it with --overwrite"):
        workflow.fit(config(seed=3), run)
    workflow.fit(config(seed=7), run, overwrite=True)
    assert same(run, other)


def steps(monkeypatch: pytest.MonkeyPatch, kill_at: int) -> Callable[[], int]:
    """Kill at the n-th change of a name in a file system, counted from 1."""
    count = 0

    def counted(change: Callable[..., object]) -> Callable[..., object]:
        def one(*values: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == kill_at:
                raise Stop
            return change(*values, **options)

        return one

    for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "rename"), (shutil, "rmtree")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return lambda: count


@pytest.mark.parametrize("number", range(1, 60, 3))
def test_a_kill_at_any_change_of_a_name_is_resumed(
    run: Path, other: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        steps(patch, number)
        with suppress(Stop):
            workflow.fit(config(seed=7), run, overwrite=True)
    try:
        found = run_folder.read_config(run)
        assert found.seed == 0 or same(run, other)
    except RunError as error:  # only between the two sets of files
        assert "unfinished run" in str(error)
    workflow.fit(config(seed=7), run, overwrite=True)
    assert same(run, other)
    assert {path.name for path in run.iterdir()} == {path.name for path in other.iterdir()} | {"notes.txt"}


def test_the_kills_reach_the_end_of_the_command(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        count = steps(patch, -1)
        workflow.fit(config(seed=7), run, overwrite=True)
        assert 40 < count() <= 60


def test_a_kill_after_the_end_marker_leaves_no_checkpoint(run: Path, finished: Path) -> None:
    (run / run_folder.CHECKPOINT).write_bytes(b"left behind")
    with pytest.raises(RunError, match="holds a finished run"):
        workflow.fit(config(seed=7), run)
    outcome = workflow.fit(config(), run)
    assert outcome.record["epoch"] == 4
    assert same(run, finished)
    assert not (run / run_folder.CHECKPOINT).exists()
    with pytest.raises(RunError, match="holds a finished run"):
        workflow.fit(config(), run)


def test_an_unfinished_run_of_other_settings_is_replaced_in_place(tmp_path: Path, other: Path) -> None:
    def stop(_: object) -> None:
        raise Stop

    with pytest.raises(Stop):
        workflow.fit(config(seed=3), tmp_path / "run", on_epoch=stop)
    with pytest.raises(RunError, match="unfinished run with other settings"):
        workflow.fit(config(seed=7), tmp_path / "run")
    workflow.fit(config(seed=7), tmp_path / "run", overwrite=True)
    assert same(tmp_path / "run", other)


@pytest.mark.parametrize("name", ["config.toml", "graph.json", "embeddings.parquet", "metrics.jsonl", "map.parquet"])
def test_a_pipe_in_a_run_folder_is_refused_and_not_waited_for(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    for use in (run_folder.read_config, workflow.evaluate, transform.embed):
        with pytest.raises(RunError, match=f"{name} is a pipe, device or socket"):
            use(run)
    with pytest.raises(RunError, match=f"{name} is a pipe"):
        workflow.fit(config(seed=7), run, overwrite=True)


def test_a_lock_that_is_a_link_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("content")
    (run / run_folder.LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(RunError, match="is a symbolic link"):
        workflow.fit(config(seed=7), run, overwrite=True)
    assert (tmp_path / "precious").read_text() == "content"


READERS: dict[str, Callable[[Path], object]] = {
    "config.toml": run_folder.read_config,
    "graph.json": run_folder.read_graph_record,
    "environment.json": run_folder.read_environment,
    "evaluation.json": run_folder.read_evaluation,
    "metrics.jsonl": run_folder.read_metrics,
    "embeddings.parquet": run_folder.read_embeddings,
    "factors.parquet": lambda folder: run_folder.read_factors(folder, "x"),
    "node_factors.parquet": lambda folder: run_folder.read_factors(folder, "x"),
    "features.json": run_folder.read_inputs,
    "graph/header.json": lambda folder: run_folder.read_graph(folder, "x"),
    "graph/indices": lambda folder: run_folder.read_graph(folder, "x"),
}
CONTENTS = [
    b"",
    b"\xff\xfe\x00",
    b"[1, 2]\n",
    b"{}\n",
    b'{"epoch": []}\n',
    b"null\n",
    b'"x"\n',
    b"[" * 100_000 + b"\n",
    b"x\n",
]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: repr(content[:12]))
def test_any_damage_is_one_line_that_names_the_file(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    try:
        READERS[name](run)
    except DsslError as error:
        assert name.partition("/")[2] in str(error) or name in str(error)
        assert "\n" not in str(error)
    else:  # all values of these have defaults, or the file may be empty
        optional = name in ("environment.json", "evaluation.json") and content.startswith(b"{")
        assert optional or (name in ("config.toml", "metrics.jsonl") and not content.strip())


@pytest.mark.parametrize("name", ["graph.json", "environment.json", "evaluation.json"])
def test_values_of_other_types_are_one_line(run: Path, name: str) -> None:
    workflow.evaluate(run)
    whole = json.loads((run / name).read_text())
    for key, value in whole.items():
        for wrong in ([7, {}], {"x": [None]}, "text", -0.5):
            if type(wrong) is type(value) and not isinstance(wrong, dict):
                continue
            (run / name).write_text(json.dumps(whole | {key: wrong}))
            try:
                READERS[name](run)
            except DsslError as error:
                assert f"{name} is damaged: {key}" in str(error)
                assert "\n" not in str(error)


def test_records_come_back_as_they_were(run: Path) -> None:
    workflow.evaluate(run)
    kinds = {
        "graph.json": records.GraphRecord,
        "environment.json": records.Environment,
        "evaluation.json": records.Evaluation,
    }
    for name, kind in kinds.items():
        before = (run / name).read_bytes()
        assert json.loads(before)
        records.write(run / name, kind, dict(records.read(run / name, kind)))
        assert (run / name).read_bytes() == before


def test_a_record_with_an_unknown_key_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="extra"):
        records.write(tmp_path / "evaluation.json", records.Evaluation, {"probe": {"acuracy": 1.0}})
    assert not list(tmp_path.iterdir())


def test_sizes_count_what_is_there(run: Path) -> None:
    found = run_folder.sizes(run)
    assert found["graph"] == sum(path.stat().st_size for path in (run / "graph").iterdir())
    assert found["config.toml"] == (run / "config.toml").stat().st_size
    assert set(found) <= set(run_folder.FILES)


def test_the_shares_of_the_input_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dssl.cli import output

    small = {"source": "synthetic:h=0.8,nodes=60,classes=2,degree=4", "dim": 4, "epochs": 1, "num_factors": 2}
    for features in ("topics", "raw"):
        workflow.fit(resolve({**small, "features": features}), tmp_path / features)
    shares = run_folder.read_input_record(tmp_path / "topics").shares
    assert set(shares) == {"hops", "positions", "roles"}
    assert sum(shares.values()) == pytest.approx(1)
    assert run_folder.read_input_record(tmp_path / "raw").shares == {}
    output.info(tmp_path / "topics")
    assert f"4 columns, from {max(shares, key=shares.__getitem__)} " in " ".join(capsys.readouterr().out.split())
    spoilt = tmp_path / "raw" / "features.json"
    spoilt.write_text(spoilt.read_text()[:-2].rstrip() + ', "weights": {"topics": "x"}}')
    with pytest.raises(RunError, match="is damaged"):
        run_folder.read_input_record(tmp_path / "raw")


STORED = Path(__file__).parent / "stored-0.1.0"  # written by that version; the weights are left out


def test_vectors_of_a_run_of_an_earlier_version_are_read() -> None:
    vectors = run_folder.read_embeddings(STORED)
    assert vectors.values.shape == (30, 50)
    assert vectors.ids.to_pylist()[:2] == ["n0", "n1"]
    assert np.isfinite(vectors.values).all()
    assert run_folder.read_metrics(STORED)[-1]["epoch"] == 2
    assert run_folder.read_graph_record(STORED).summary["edges"] == 57
    assert run_folder.read_environment(STORED).packages["dssl"] == "0.1.0"


def test_a_model_of_an_earlier_version_is_refused_in_one_line() -> None:
    with pytest.raises(
        RunError, match=r"made by dssl 0\.1\.0, which has other settings than this; its vectors"
    ) as caught:
        run_folder.read_config(STORED)
    assert "\n" not in str(caught.value)
