"""Figures come from stored runs and stored studies, name what they vary, and are fitted once."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.config.resolve import resolve
from dssl.graph import Graph
from dssl.studies import charts, experiments
from dssl.studies.experiments import Job
from dssl.studies.paper import factor_figures, figures, plans
from dssl.studies.paper.factor_figures import EGO_NODES, Content, ego_nodes
from dssl.studies.paper.figures import CURVES, Line, line_jobs
from dssl.studies.paper.plans import Options
from dssl.studies.paper.reproduce import reproduce
from dssl.studies.records import Record


@pytest.fixture(autouse=True)
def graphs(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))


def pretend(jobs: Sequence[Job], folder: Path, **_: object) -> list[Record]:
    """Records as `experiments.run` gives them; accuracy is lower for each change, and one job fails."""
    found: list[Record] = []
    for job in jobs:
        same = {"key": job.key, "graph": job.graph, "row": job.row, "seed": job.seed}
        if job.settings.get("num_factors") == 32:
            found.append(Record(**same, error="too many factors"))
        else:
            accuracy = 0.6 - 0.1 * (len(job.settings) - 1) + 0.01 * job.seed
            view = {"width": 8, "probe": {"accuracy": [accuracy, accuracy + 0.02]}}
            found.append(Record(**same, views={"embedding": view}))
    return found


def pretended_study(job: Job) -> Content:
    """What `factor_figures.study` returns, of two classes, three nodes and two factors."""
    q = [[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]
    return {
        "class_names": ["a", "b"],
        "classes": {
            "neighbourhoods": [[1.0, 0.5], [0.5, None]],
            "posteriors": [[1.0, 0.7], [0.7, 1.0]],
            "correlation": [0.81, None],
        },
        "ego": {
            "ids": ["x", "y", "z"],
            "labels": [0, 1, -1],
            "links": [[0, 1], [0, 2], [1, 0], [2, 0]],
            "q": [*q, q[0]],
        },
        "sample": {"ids": ["x", "w", "y"], "labels": [0, 0, 1], "q": q},
    }


def path_in(given: Sequence[Any]) -> Path:
    return next(value for value in given if isinstance(value, Path))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Trainings and drawings that are only pretended; the list is of the studies that were made."""
    made: list[Job] = []
    for name in ("curves", "heat_maps", "neighbourhood"):
        monkeypatch.setattr(charts, name, lambda title, *given, **_: path_in(given).write_text(title))
    monkeypatch.setattr(experiments, "run", pretend)
    monkeypatch.setattr(factor_figures, "study", lambda job: (made.append(job), pretended_study(job))[1])
    return made


def test_figures_are_written_with_their_numbers_and_only_once_fitted(pretended: list[Job], tmp_path: Path) -> None:
    options = Options(datasets=("texas", "cora"), seeds=2)
    written = reproduce("figures", options, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in written}
    parts = [*CURVES, *(f"{part}-{graph}" for part in ("classes", "ego", "posteriors") for graph in ("texas", "cora"))]
    assert names == {f"figures/{part}.{ending}" for part in parts for ending in ("csv", "svg")} | {"figures.md"}
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in reproduce("figures", options, tmp_path)] == before
    assert [job.graph for job in pretended] == ["texas", "cora"]  # the second time from its file
    (tmp_path / "figures" / "factors-cora.json").write_text("{ cut off")
    reproduce("figures", Options(datasets=("texas", "cora"), seeds=2, quick=True), tmp_path)
    assert [job.graph for job in pretended] == ["texas", "cora", "texas", "cora"]  # other settings are another study


def test_the_page_says_what_is_seen_and_what_is_missing(
    pretended: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "available", lambda name: name == "texas")
    written = reproduce("figures", Options(datasets=("texas", "penn94"), seeds=2), tmp_path)
    text = written[-1].read_text()
    assert "![Accuracy over the momentum τ of the target encoder](figures/tau.svg)" in text
    assert "texas, as printed: best 61.5 ± 1.4 (seeds 0.7) at momentum 0.9, lowest 51.5 ± 1.4 (seeds 0.7) at 0." in text
    assert "over pairs of classes: 0.81; without pairs of a class with itself: not defined." in text
    assert "- num_factors=32, paper-terms on texas: too many factors" in text
    assert "- penn94: its files are not on this machine" in text
    assert not list((tmp_path / "figures").glob("*penn94*"))


def test_the_numbers_are_those_of_the_runs(pretended: list[Job], tmp_path: Path) -> None:
    reproduce("figures", Options(datasets=("texas",), seeds=2), tmp_path)
    rows = {(row["setting"], row["line"], row["value"]): row for row in read(tmp_path / "figures" / "sweeps.csv")}
    own = resolve({"recipe": "paper-terms:texas"}).method
    row = rows["num_factors", "paper-terms", f"{own.num_factors}"]
    assert float(row["mean"]) == pytest.approx(61.5) and float(row["std_seeds"]) == pytest.approx(2**-0.5, abs=1e-3)
    assert (row["graph"], row["seeds"], row["splits"]) == ("texas", "2", "2")
    assert ("num_factors", "paper-terms", "32") not in rows
    assert (
        "link_variance",
        "paper-terms",
        f"{own.link_variance:g}",
    ) in rows  # our default, which need not be in the paper's grid
    ego = read(tmp_path / "figures" / "ego-texas.csv")
    assert [(row["source"], row["target"], row["target_class"]) for row in ego][:2] == [("x", "y", "b"), ("x", "z", "")]
    assert [float(row["q1"]) for row in ego] == [0.25, 0.5, 1.0, 0.25]
    classes = read(tmp_path / "figures" / "classes-texas.csv")
    assert [row["neighbourhoods"] for row in classes] == ["1.000000", "0.500000", "0.500000", ""]


def changes(line: Line, **options: Any) -> list[dict[str, Any]]:
    jobs = [job for _, job in line_jobs(line, "texas", Options(seeds=1, **options))]
    return [{name: value for name, value in job.settings.items() if name not in ("recipe", "preset")} for job in jobs]


def test_a_line_changes_what_it_names_and_nothing_at_the_base() -> None:
    assert changes(Line("", "momentum", (0.0, 1.0), "as printed")) == [{"momentum": 0.0}, {}, {"momentum": 1.0}]
    update = Line("", "epochs", (5,), "as printed", {"prototype_update": False})
    assert changes(update) == [{"prototype_update": False, "epochs": 5}, {"prototype_update": False}]
    assert changes(Line("", "momentum", (0.0, 0.5, 1.0), "as printed"), quick=True) == [
        {"epochs": 10, "momentum": 0.0},
        {"epochs": 10, "momentum": 1.0},
    ]


def test_what_is_not_changed_is_trained_once_for_all_figures_and_for_table_two() -> None:
    options = Options(datasets=("texas",))
    jobs = [job for _, lines in CURVES.values() for line in lines for _, job in line_jobs(line, "texas", options)]
    full = {
        entry.job.key
        for entry in plans.ablations(options)
        if entry.job.row in ("full, paper-terms", "full, as printed")
    }
    assert len(full) == 6 and full <= {job.key for job in jobs}
    by_settings = {(str(sorted(job.settings.items())), job.seed) for job in jobs}
    assert len(by_settings) == len(experiments.jobs_by_key(jobs)) < len(jobs)


def test_a_neighbourhood_is_connected_small_and_follows_from_the_seed() -> None:
    draw = np.random.default_rng(0)
    graph = Graph.from_edges(*draw.integers(300, size=(2, 900)), num_nodes=300).undirected().without_self_loops()
    linked = {*zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)}
    for seed in range(5):
        nodes = ego_nodes(graph, seed=seed)
        assert nodes == ego_nodes(graph, seed=seed) and len(set(nodes)) == len(nodes) <= EGO_NODES
        assert 4 <= graph.degrees[nodes[0]] <= 10
        ring = nodes[1 : 1 + graph.degrees[nodes[0]]]
        assert all((nodes[0], node) in linked for node in ring)
        assert all(any((node, other) in linked for other in ring) for node in nodes[1 + len(ring) :])
    assert len({ego_nodes(graph, seed=seed)[0] for seed in range(5)}) > 1


def test_a_graph_without_a_node_of_middling_degree_gives_the_nearest() -> None:
    star = Graph.from_edges([0] * 40, range(1, 41)).undirected()
    assert ego_nodes(star, seed=0)[1] == 0  # a leaf, its centre, other leaves
    assert len(ego_nodes(star, seed=0)) == EGO_NODES


def test_a_quick_figure_runs_from_the_graph_to_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CURVES", {"tau": ("τ", (Line("paper-terms", "momentum", (0.9,)),))})
    seen: list[Any] = []
    reproduce(
        "figures",
        Options(datasets=("texas",), quick=True),
        tmp_path,
        workers=1,
        on_plan=seen.append,
        on_record=lambda job, record: seen.append(record.seconds),
    )
    assert seen[0] == len(seen) - 1 == 3
    assert len(read(tmp_path / "figures" / "tau.csv")) == 2
    links = read(tmp_path / "figures" / "ego-texas.csv")
    q = np.array([[float(row[f"q{k}"]) for k in range(8)] for row in links])
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-4)
    ends = {(row["source"], row["target"]) for row in links}
    assert ends == {(target, source) for source, target in ends}
    sample = [row["class"] for row in read(tmp_path / "figures" / "posteriors-texas.csv")]
    assert len(sample) == factor_figures.SAMPLE and sample == sorted(sample)
