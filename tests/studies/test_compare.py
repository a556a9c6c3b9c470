"""Methods side by side: what is measured, what is stored, and what is refused."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dssl.config.methods import METHODS
from dssl.config.resolve import parse
from dssl.config.schema import GraphSettings
from dssl.errors import ConfigError, DatasetError, RunError
from dssl.runtime import processes
from dssl.studies import compare, experiments, judge
from dssl.studies.compare import Comparison, Line
from dssl.studies.entries import SANITY
from dssl.studies.experiments import Job
from dssl.studies.records import Record, records
from dssl.studies.results_table import Cell

TINY = "synthetic:h=0.3,nodes=60,classes=3,degree=4,features=6"
QUICK = {"train.epochs": 1, "encoder.dim": 4}


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in this process: what the processes are for has a test of its own."""

    @contextmanager
    def here(_workers: int, *, fresh: bool) -> Iterator[Any]:
        assert fresh
        with processes.pool(1) as submit:
            yield submit

    monkeypatch.setattr(experiments, "pool", here)


def side_by_side(source: str, out: Path, **options: Any) -> tuple[Comparison, list[Path]]:
    graph = GraphSettings(source=source, **options.pop("read", {}))
    return compare.compare(graph, out, **{"seeds": 1, "splits": 2, "settings": QUICK, **options})


def test_every_method_and_baseline_has_a_line(tmp_path: Path, inline: None) -> None:
    found, written = side_by_side(TINY, tmp_path)
    assert found.failed == []
    names = [line.name for line in found.lines]
    assert set(names) == {*SANITY, *METHODS, "dssl, trained part"}
    assert names[: len(SANITY)] == list(SANITY)
    for line in found.lines:
        assert line.score is not None
        assert len(line.score.values[0]) == 2
        assert (line.nmi is None) == (line.name == "majority")
        assert line.links is None
        assert bool(line.seconds) == (line.name != "majority")
    assert [path.name for path in written] == ["compare.md", "compare.csv", "compare.svg"]
    (untrained,) = (r for r in records(tmp_path / "runs") if r.row == "random-encoder")
    assert untrained.epochs == 0  # whatever is set for the methods
    page = written[0].read_text(encoding="utf-8")
    assert page.count("\n| ") == len(names) + 2
    assert "train.epochs=1" in page
    measured = list(csv.DictReader(written[1].read_text(encoding="utf-8").splitlines()))
    assert {row["measure"] for row in measured} == {"accuracy", "NMI", "columns", "seconds", "memory, MB"}


def test_a_second_call_trains_nothing_and_more_seeds_train_the_missing(
    tmp_path: Path, inline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int]] = []
    original = judge.perform

    def counted(job: Job) -> Record:
        done.append((job.row, job.seed))
        return original(job)

    monkeypatch.setattr(judge, "perform", counted)
    first, _ = side_by_side(TINY, tmp_path, methods=("dgi", "raw"))
    again, _ = side_by_side(TINY, tmp_path, methods=("dgi", "raw"))
    assert done == [("dgi", 0), ("raw", 0)]
    assert again.markdown() == first.markdown()
    more, _ = side_by_side(TINY, tmp_path, methods=("dgi", "raw"), seeds=2)
    assert done[2:] == [("dgi", 1)]
    assert more.lines[0].score is not None
    assert len(more.lines[0].score.values) == 2


def test_a_file_that_changed_is_compared_anew_and_without_labels_links_are_ranked(tmp_path: Path, inline: None) -> None:
    edges = tmp_path / "edges.csv"
    ring = [(at, (at + step) % 40) for at in range(40) for step in (1, 2, 3)]
    edges.write_text("\n".join(f"n{a},n{b}" for a, b in ring), encoding="utf-8")
    found, _ = side_by_side(str(edges), tmp_path / "out", methods=("sanity", "gae"))
    assert list(found.measures) == ["link AUC"]
    assert {line.name for line in found.lines} == {"adjacency", "random-encoder", "gae"}
    edges.write_text("\n".join(f"n{a},n{b}" for a, b in ring[:-7]), encoding="utf-8")
    side_by_side(str(edges), tmp_path / "out", methods=("gae",))
    keys = [record.key for record in records(tmp_path / "out" / "runs") if record.row == "gae"]
    assert len(set(keys)) == len(keys) == 2
    with pytest.raises(ConfigError, match="no labels"):
        side_by_side(str(edges), tmp_path / "out", methods=("gae",), links=False)


def test_labels_come_from_the_node_table(tmp_path: Path, inline: None) -> None:
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("\n".join(f"{a},{(a + step) % 30}" for a in range(30) for step in (1, 2)), encoding="utf-8")
    nodes.write_text("id,kind,size\n" + "\n".join(f"{a},{'ab'[a % 2]},{a % 2}" for a in range(30)), encoding="utf-8")
    read = {"nodes": str(nodes), "label_column": "kind"}
    found, _ = side_by_side(str(edges), tmp_path / "out", methods=("raw",), read=read)
    assert found.lines[0].score is not None
    assert found.lines[0].score.mean == 100


def test_a_process_of_its_own_measures_its_own_memory(tmp_path: Path) -> None:
    found, _ = side_by_side(TINY, tmp_path, methods=("raw", "hops"))
    assert all(len(line.memory) == 1 and 0 <= line.memory[0] < 1000 for line in found.lines)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown method 'dig'"):
        side_by_side(TINY, tmp_path, methods=("dig",))
    with pytest.raises(ConfigError, match=r"--set method.num_factors: a comparison takes"):
        side_by_side(TINY, tmp_path, settings=parse(["num_factors=3"]))
    for wrong in ({"train.epochs": -1}, {"graph.directed": True}):
        with pytest.raises(ConfigError):
            side_by_side(TINY, tmp_path, methods=("dgi",), settings=wrong)
    with pytest.raises(DatasetError, match="no geom-gcn splits"):
        side_by_side(TINY, tmp_path, methods=("dgi",), protocol="geom-gcn")
    assert not (tmp_path / "compare.md").exists()
    (tmp_path / "config.toml").touch()
    with pytest.raises(RunError, match="holds a fitted model"):
        side_by_side(TINY, tmp_path, methods=("raw",))
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        side_by_side(TINY, tmp_path / "file", methods=("raw",))


def test_settings_of_the_encoder_are_for_the_methods_that_have_one(tmp_path: Path, inline: None) -> None:
    settings = {**QUICK, "encoder.name": "gat", "train.learning_rate": 0.1}
    found, _ = side_by_side(TINY, tmp_path, methods=("line", "gae"), settings=settings)
    assert not found.failed
    given = {record.row: record.settings for record in records(tmp_path / "runs")}
    assert given["gae"]["encoder.name"] == "gat"
    assert set(given["line"]) == {"method", "train.epochs", "encoder.dim"}


def test_the_direction_of_links_is_kept_if_asked_for(tmp_path: Path, inline: None) -> None:
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("a,b\n" + "".join(f"{i},{(7 * i + 1) % 30}\n" for i in range(30)))
    nodes.write_text("id,f,label\n" + "".join(f"{i},{i % 5},{'xy'[i % 2]}\n" for i in range(30)))
    read = {"nodes": str(nodes), "label_column": "label"}
    tables = {}
    for directed in (True, False):
        options = {"read": {**read, "directed": directed}, "methods": ("raw", "gae"), "links": False}
        found, _ = side_by_side(str(edges), tmp_path / str(directed), **options)
        tables[directed] = {line.name: line.score for line in found.lines}
        assert ("links one way" in found.notes[0]) == directed
        loaded = judge.graph_of(Job(str(edges), "gae", read={**read, **({"directed": True} if directed else {})}))[0]
        assert loaded.directed == directed
    assert tables[True]["raw"] == tables[False]["raw"]
    assert tables[True]["gae"] != tables[False]["gae"]
    with pytest.raises(ConfigError, match="leave out --directed"):
        side_by_side(str(edges), tmp_path, read={**read, "directed": True}, links=True)


def test_a_method_whose_process_is_killed_is_left_out_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = judge.perform_alone
    monkeypatch.setattr(judge, "perform_alone", killed)
    with pytest.raises(RunError, match=r"nothing could be compared: a worker process was killed"):
        side_by_side(TINY, tmp_path, methods=("raw",))
    assert not (tmp_path / "compare.md").exists()
    monkeypatch.setattr(judge, "perform_alone", killed_if_hops)
    found, _ = side_by_side(TINY, tmp_path, methods=("hops", "raw"))
    assert [line.name for line in found.lines] == ["raw"]
    assert found.failed[0].startswith("hops: a worker process was killed")
    monkeypatch.setattr(judge, "perform_alone", real)
    found, _ = side_by_side(TINY, tmp_path, methods=("hops", "raw"))  # the same command tries it again
    assert {line.name for line in found.lines} == {"raw", "hops"}


def killed(_job: Job) -> Record:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def killed_if_hops(job: Job) -> Record:
    return killed(job) if job.row == "hops" else judge.perform(job)


def test_the_best_is_bold_and_cost_is_mean_and_most() -> None:
    lines = [
        Line("majority", Cell(((50.0, 60.0),)), None, None, (), (), 0),
        Line("dgi", Cell(((70.0, 80.0), (72.0, 82.0))), None, None, (1.0, 3.0), (10.0, 30.0), 64),
        Line("line", Cell(((60.0, 60.0),)), None, None, (1.0,), (0.2,), 64),
    ]
    found = Comparison("toy", lines, ["What.", "How."], ["line: too dense"])
    assert found.rows() == [
        ["majority", "55.0 ± 7.1", "", "", ""],
        ["dgi", "**76.0 ± 7.1 (seeds 1.4)**", "64", "2.0 ± 1.4", "30"],
        ["line", "60.0 ± 0.0", "64", "1.0", "<1"],
    ]
    assert "## Left out\n\n- line: too dense\n" in found.markdown()
