"""Jobs are done once, records say what was done, and a store survives a crash."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

import dssl
from dssl.evaluation import probe, splits
from dssl.studies import experiments, judge
from dssl.studies.experiments import Job
from dssl.studies.records import Record, records, slug

TINY = "synthetic:h=0.3,nodes=60,classes=3,degree=4,features=6"
QUICK = {"epochs": 2, "dim": 4, "num_factors": 2, "features": "raw"}


def test_a_record_says_what_was_done(tmp_path: Path) -> None:
    job = Job(TINY, "full", QUICK, seed=3, splits=2, views=("embedding", "factorwise"), clusters=True)
    (record,) = experiments.run([job], tmp_path, workers=1)
    assert record.settings == QUICK
    assert (record.graph, record.row, record.seed) == (TINY, "full", 3)
    assert record.versions["dssl"] == dssl.__version__
    assert (record.peak_memory_mb or 0) > 10
    assert record.seconds >= (record.fit_seconds or 0) >= 0
    assert set(record.health) == set(judge.HEALTH)
    assert [view.width for view in record.views.values()] == [4, 4 * 3]
    for view in record.views.values():
        assert len(view.probe["accuracy"]) == len(view.probe["val_accuracy"]) == 2
        assert set(view.kmeans) == {"nmi", "ari", "accuracy"}
    (stored,) = records(tmp_path)
    assert stored.stored and not record.stored
    assert stored.to_json() == json.loads(json.dumps(record.to_json()))


def test_the_trained_view_equals_the_estimator_by_hand(tmp_path: Path) -> None:
    job = Job(TINY, "full", QUICK, seed=1, splits=3, split_seed=5)
    (record,) = experiments.run([job], tmp_path, workers=1)
    graph = dssl.load(TINY)
    values = dssl.DSSL(seed=1, **QUICK).fit_transform(graph)
    assert graph.y is not None
    found = probe.linear_probe(values, graph.y, splits.random_splits(graph.y, count=3, seed=5))
    assert record.views["embedding"].probe["accuracy"] == pytest.approx(list(found.accuracy.values), abs=1e-6)


def test_what_is_stored_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(TINY, "raw", baseline="raw", splits=2)
    (first,) = experiments.run([job], tmp_path, workers=1)
    monkeypatch.setattr(judge, "perform", lambda _: pytest.fail("done twice"))
    seen = []
    again = experiments.run([job, job], tmp_path, workers=1, on_record=lambda j, r: seen.append((j, r)))
    assert [record.to_json() for record in again] == [first.to_json()] * 2
    assert seen == [(job, again[0])] and again[0].stored


def test_a_record_serves_jobs_of_which_no_more_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = {"splits": 2, "views": ("embedding", "trained"), "budgets": ("20%", "4/class"), "clusters": True}
    whole = Job(TINY, "full", QUICK, **tried)
    (first,) = experiments.run([whole], tmp_path, workers=1)
    assert len(first.views["embedding"].budgets["20%"]) == 2
    done: list[Job] = []
    monkeypatch.setattr(judge, "perform", lambda job: done.append(job) or first)
    less = [
        Job(TINY, "another name", QUICK, splits=2),
        Job(TINY, "full", QUICK, splits=2, views=("trained",), budgets=("4/class",)),
        Job(TINY, "full", QUICK, splits=2, clusters=True),
    ]
    assert [record.key for record in experiments.run(less, tmp_path, workers=1)] == [first.key] * 3
    assert [record.key for record in experiments.run(less, tmp_path, workers=1, stored=True)] == [first.key] * 3
    assert done == []
    more = [
        Job(TINY, "full", QUICK, splits=3),
        Job(TINY, "full", QUICK, splits=2, budgets=("1/class",)),
        Job(TINY, "full", QUICK, splits=2, views=("factorwise",)),
        Job(TINY, "full", {**QUICK, "epochs": 3}, splits=2),
        Job(TINY, "full", QUICK, splits=2, seed=1),
        Job(TINY, "full", QUICK, splits=2, shares=(0.5, 0.25, 0.25)),
    ]
    experiments.run(more, tmp_path, workers=1)
    assert done == more


def test_stored_tables_prefer_a_record_with_todays_settings(tmp_path: Path) -> None:
    job = Job(TINY, "dgi", {"method": "dgi", "epochs": 1, "dim": 4}, splits=2)
    more = Job(TINY, "dgi", job.settings, splits=2, clusters=True)
    first, other = experiments.run([job, more], tmp_path, workers=1)
    assert first.key != other.key
    old = {**first.to_json(), "resolved": {**(first.resolved or {}), "train.learning_rate": 0.5}}
    path = tmp_path / f"{slug(TINY)}.jsonl"
    path.write_text(json.dumps(old) + "\n" + json.dumps(other.to_json()) + "\n", encoding="utf-8")
    assert [record.key for record in experiments.run([job], tmp_path, stored=True)] == [other.key]
    path.write_text(json.dumps(old) + "\n", encoding="utf-8")
    assert [record.key for record in experiments.run([job], tmp_path, stored=True)] == [first.key]


def test_the_budget_of_the_first_fraction_has_the_values_of_the_splits(tmp_path: Path) -> None:
    job = Job(TINY, "raw", baseline="raw", splits=2, budgets=("60%", "50%"))
    (record,) = experiments.run([job], tmp_path, workers=1)
    view = record.views["embedding"]
    assert view.budgets["60%"] == view.probe["accuracy"]
    (other,) = experiments.run([Job(TINY, "raw", baseline="raw", splits=2, labels="50%")], tmp_path, workers=1)
    assert view.budgets["50%"] == other.views["embedding"].probe["accuracy"]


def test_a_training_is_done_again_if_a_default_has_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(TINY, "dgi", {"method": "dgi", "epochs": 1, "dim": 4}, splits=2)
    (first,) = experiments.run([job], tmp_path, workers=1)
    assert first.resolved is not None and first.resolved["train.epochs"] == 1
    path = tmp_path / f"{slug(TINY)}.jsonl"

    def stored(**changes: object) -> None:
        record = {**first.to_json(), "resolved": {**(first.resolved or {}), **changes}}
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")

    done = []
    monkeypatch.setattr(judge, "perform", lambda job: done.append(job) or first)
    stored()
    assert [record.key for record in experiments.run([job], tmp_path, workers=1)] == [first.key]
    assert done == []
    stored(**{"train.learning_rate": 0.5})
    experiments.run([job], tmp_path, workers=1)
    assert done == [job]


def test_the_limit_of_full_batches_counts_where_the_graph_is_larger() -> None:
    settings = {"method": "dgi", "in_memory_nodes": 20_000}

    def held(graph: str, before: int, **others: float) -> bool:
        resolved = {"train.in_memory_nodes": before, **{f"train.{name}": value for name, value in others.items()}}
        job = Job(graph, "dgi", settings)
        return judge.holds(Record(key=job.key, graph=graph, row="dgi", resolved=resolved), job)

    assert held("cora", 50_000) and held("cora", 20_000)
    assert not held("cora", 50_000, learning_rate=0.5)
    assert not held("cora", 1_000)  # 2,708 nodes: by blocks then, at once today
    assert not held(TINY, 50_000)  # its size is not known before it is read


def test_a_line_that_was_cut_off_is_done_again_and_hurts_nothing(tmp_path: Path) -> None:
    jobs = [Job(TINY, "raw", baseline="raw", splits=2), Job(TINY, "hops", baseline="hops", splits=2)]
    experiments.run(jobs, tmp_path, workers=1)
    (path,) = tmp_path.glob("*.jsonl")
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert [record.row for record in records(tmp_path)] == ["raw"]
    experiments.run(jobs, tmp_path, workers=1)
    assert [record.row for record in records(tmp_path)] == ["raw", "hops"]


def test_two_processes_give_what_one_gives(tmp_path: Path) -> None:
    jobs = [Job(TINY, f"raw {seed}", baseline="raw", splits=2, split_seed=seed) for seed in range(2)]
    alone = experiments.run(jobs, tmp_path / "one", workers=1)
    both = experiments.run(jobs, tmp_path / "two", workers=2)
    assert [record.views for record in both] == [record.views for record in alone]
    assert multiprocessing.active_children() == []


def test_hidden_links_are_judged(tmp_path: Path) -> None:
    job = Job(TINY, "full", QUICK, splits=2, hide_links=True)
    (record,) = experiments.run([job], tmp_path, workers=1)
    assert 0 <= record.views["embedding"].links["probe_uniform_auc"] <= 1


def test_majority_is_the_share_of_the_largest_class(tmp_path: Path) -> None:
    (record,) = experiments.run([Job(TINY, "majority", baseline="majority", splits=4)], tmp_path, workers=1)
    labels = dssl.load(TINY).y
    assert labels is not None
    for accuracy, split in zip(
        record.views["embedding"].probe["accuracy"], splits.random_splits(labels, count=4, seed=0), strict=True
    ):
        most = np.bincount(labels[split.train]).argmax()
        assert accuracy == pytest.approx((labels[split.test] == most).mean(), abs=1e-6)


def test_a_job_that_fails_says_why_and_is_not_stored(tmp_path: Path) -> None:
    jobs = [Job("synthetic:nodes=30,classes=2,features=0,degree=4", "raw", baseline="raw", splits=2)]
    (record,) = experiments.run(jobs, tmp_path, workers=1)
    assert "no baseline 'raw'" in record.error
    assert records(tmp_path) == []


def test_keys_tell_jobs_apart_and_are_stable() -> None:
    job = Job(TINY, "full", {"a": 1, "b": 2})
    assert job.key == Job(TINY, "full", {"b": 2, "a": 1}).key
    assert len({job.key, Job(TINY, "full", {"a": 1}).key, Job(TINY, "full", {"a": 1, "b": 2}, seed=1).key}) == 3


def test_the_factorwise_view_is_its_formula() -> None:
    graph = dssl.load(TINY)
    model = dssl.DSSL(**QUICK).fit(graph)
    values, found = model.transform(graph), model.factors(graph)
    got = judge.factorwise(model, graph, values)
    degree = graph.degrees
    for i in (0, 7, 31):
        for k in range(2):
            wanted = np.zeros(4)
            for arc in np.flatnonzero(found.source == i):
                wanted += found.links[arc, k] * values[found.target[arc]] / degree[i]
            np.testing.assert_allclose(got[i, 4 * (k + 1) : 4 * (k + 2)], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(got[:, :4], values)


STORED = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize("folder", ["runs", "recipes", "decoupling", "labelfree", "paper-terms", "compare-texas/runs"])
def test_every_stored_line_is_a_record_and_keeps_its_content(folder: str) -> None:
    lines = [
        json.loads(line)
        for path in sorted((STORED / folder).glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    found = records(STORED / folder)
    assert len(found) == len(lines) > 0
    assert [record.to_json() for record in found] == lines


def test_a_measure_of_a_view_is_in_percent_and_empty_if_it_was_not_measured() -> None:
    views = {"embedding": {"width": 4, "probe": {"accuracy": [0.5, 0.25]}, "kmeans": {"nmi": 0.125}}}
    view = Record(key="", graph="g", row="r", views=views).views["embedding"]
    assert view.percent("accuracy") == (50, 25)
    assert view.percent("nmi") == (12.5,)
    assert view.percent("link_auc") == view.percent("roc_auc") == ()


def test_a_training_of_an_earlier_implementation_is_done_again_unless_stored_records_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(TINY, "dgi", {"method": "dgi", "epochs": 1, "dim": 4}, splits=2)
    (first,) = experiments.run([job], tmp_path, workers=1)
    assert not first.outdated
    path = tmp_path / f"{slug(TINY)}.jsonl"
    path.write_text(json.dumps({**first.to_json(), "revision": 1}) + "\n", encoding="utf-8")
    (kept,) = experiments.run([job], tmp_path, workers=1, stored=True)
    assert kept.outdated and kept.stored
    done = []
    monkeypatch.setattr(judge, "perform", lambda job: done.append(job) or first)
    experiments.run([job], tmp_path, workers=1)
    assert done == [job]
    (last,) = experiments.run([job], tmp_path, workers=1)  # the new line counts, the old one stays
    assert done == [job] and not last.outdated
    assert len(path.read_text().splitlines()) == 2
