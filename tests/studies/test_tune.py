"""The search: it resumes, sees no test label, and writes a recipe that loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from dssl.config.registry import Range
from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.data.load import read_graph
from dssl.errors import ConfigError, DsslError, RunError
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import random_splits
from dssl.runs import run_folder, workflow
from dssl.studies import tune
from dssl.studies.trials import STUDY

SMALL = {"dim": 4, "hidden_dim": 4, "features": "raw", "epochs": 2, "num_factors": 2, "splits": 3, "seed": 1}
VARIED = {"train.learning_rate": Range(0.001, 0.1), "encoder.dim": (2, 4, 8), "method.shift_scale": (0.2, 0.6)}


def config(**changes: Any) -> Config:
    return resolve({"source": "synthetic:h=0.2,nodes=60,classes=2,degree=4,seed=1", **SMALL, **changes})


def tried(folder: Path) -> list[tuple[dict[str, Any], float]]:
    records = [json.loads(line) for line in (folder / tune.TRIALS).read_text().splitlines()]
    return [(record["changes"], record["value"]) for record in records]


def search(folder: Path, trials: int, base: Config | None = None, **options: Any) -> tune.Outcome:
    return tune.search(base or config(), folder, trials=trials, varied=options.pop("varied", VARIED), **options)


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    seen: list[int] = []
    search(tmp_path / "parts", 2, on_trial=lambda done, *_: seen.append(done))
    assert len(tried(tmp_path / "parts")) == 2
    search(tmp_path / "parts", 4, on_trial=lambda done, *_: seen.append(done))
    assert seen == [1, 2, 3, 4]
    outcome = search(tmp_path / "whole", 4)
    assert tried(tmp_path / "parts") == tried(tmp_path / "whole")
    assert outcome.done == 4
    assert outcome.value == max(value for _, value in tried(tmp_path / "whole"))
    assert search(tmp_path / "whole", 3) == outcome  # there are enough
    assert len({json.dumps(changes) for changes, _ in tried(tmp_path / "whole")}) > 1


def test_the_settings_of_the_start_come_first_where_the_space_holds_them(tmp_path: Path) -> None:
    search(tmp_path / "a", 1)
    assert tried(tmp_path / "a")[0][0] == {"train.learning_rate": 0.005, "encoder.dim": 4, "method.shift_scale": 0.6}
    search(tmp_path / "b", 1, varied={"encoder.dim": (2, 8)})
    assert tried(tmp_path / "b")[0][0]["encoder.dim"] != 4


def test_an_interrupted_trial_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search(tmp_path / "whole", 3)
    judge = tune.Judge.__call__
    calls: list[Any] = []

    def stop(self: tune.Judge, changes: dict[str, Any]) -> dict[str, Any]:
        calls.append(changes)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return judge(self, changes)

    monkeypatch.setattr(tune.Judge, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "parts", 3)
    search(tmp_path / "parts", 3)
    assert len(calls) == 4
    assert tried(tmp_path / "parts") == tried(tmp_path / "whole")


def test_a_trial_that_another_process_runs_is_left_to_it(tmp_path: Path) -> None:
    search(tmp_path / "whole", 3)
    search(tmp_path / "s", 1)
    code = (
        f"import pathlib; from dssl.runtime import files; "
        f"held = files.locked(pathlib.Path({str(tmp_path / 's' / '.trial-1.lock')!r})); "
        "held.__enter__(); print(); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert search(tmp_path / "s", 3).done == 2
        other.kill()
    assert search(tmp_path / "s", 3).done == 3  # the lock ended with its process
    assert sorted(tried(tmp_path / "s"), key=str)[0] == sorted(tried(tmp_path / "whole"), key=str)[0]
    assert [path.name for path in (tmp_path / "s").iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("moment", ["add_trial", "set_user_attr"])
def test_a_search_that_stops_inside_the_data_base_gives_the_same_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    search(tmp_path / "whole", 2)
    with monkeypatch.context() as patch:
        here = os.getpid()
        patch.setattr(optuna.Study, moment, lambda *_, **__: os._exit(9) if os.getpid() != here else None)
        if not (child := os.fork()):
            with suppress(BaseException):
                search(tmp_path / "parts", 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    search(tmp_path / "parts", 2)
    assert tried(tmp_path / "parts") == tried(tmp_path / "whole")
    whole, parts = (sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("whole", "parts"))
    assert whole == parts


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A ring of 60 nodes with a feature that leans towards the class, and labels of two classes."""
    rng = np.random.default_rng(0)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{(i + 1) % 60}\n" for i in range(60)))
    write_labels(tmp_path, rng.integers(2, size=60))
    return tmp_path / "edges.csv"


def write_labels(folder: Path, y: np.ndarray) -> None:
    x = np.random.default_rng(1).normal(size=(60, 3))
    truth = np.random.default_rng(0).integers(2, size=60)
    rows = [f"n{i},{'ab'[y[i]]},{','.join(f'{value:.4f}' for value in x[i] + truth[i])}\n" for i in range(60)]
    (folder / "nodes.csv").write_text("id,label,a,b,c\n" + "".join(rows))


def test_no_label_of_the_test_part_changes_what_is_chosen(labelled: Path, tmp_path: Path) -> None:
    base = config(source=str(labelled), nodes=str(tmp_path / "nodes.csv"))
    y = read_graph(base.graph).y
    assert y is not None
    test = random_splits(y, count=1)[0].test
    first = search(tmp_path / "a", 3, base)
    truth = np.random.default_rng(0).integers(2, size=60)
    scrambled = truth.copy()
    scrambled[test] = 1 - scrambled[test]
    write_labels(tmp_path, scrambled)
    tune._graph.cache_clear()
    second = search(tmp_path / "b", 3, base)
    assert tried(tmp_path / "a") == tried(tmp_path / "b")
    assert (first.changes, first.value) == (second.changes, second.value)
    others = truth.copy()
    others[np.setdiff1d(np.arange(60), test)[::2]] ^= 1
    write_labels(tmp_path, others)
    tune._graph.cache_clear()
    search(tmp_path / "c", 3, base)
    assert tried(tmp_path / "c") != tried(tmp_path / "a")  # the other labels do matter


def test_the_value_is_the_probe_s_on_validation_nodes_that_are_none_of_the_test() -> None:
    judge = tune.Judge(config(), "validation")
    graph = judge.check()
    assert graph.y is not None
    first = random_splits(graph.y, count=1)[0]
    seen, splits = judge.parts(graph)
    assert (seen[first.test] == -1).all()
    assert len(splits) == 3
    for split in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.sort(np.concatenate([first.train, first.val])))
        assert (split.train.size, split.val.size, split.test.size) == (first.train.size, first.val.size, 0)
    assert not np.array_equal(splits[0].train, splits[1].train)
    from dssl.model.estimator import Embedder

    values = Embedder.from_config(judge.config).fit_transform(graph)
    assert judge({})["value"] == linear_probe(values, seen, splits, tested=False).validation.mean


@pytest.mark.parametrize("select", ["validation", "effective-rank", "calinski-harabasz", "loss"])
def test_each_criterion_chooses_its_best_and_the_recipe_gives_it_again(tmp_path: Path, select: str) -> None:
    outcome = search(tmp_path / "s", 3, select=select, command="dssl tune x")
    best = min if select == "loss" else max
    assert outcome.value == best(value for _, value in tried(tmp_path / "s"))
    records = [json.loads(line) for line in (tmp_path / "s" / tune.TRIALS).read_text().splitlines()]
    assert all(record["measures"][select] == record["value"] for record in records)
    again = resolve({"source": "texas", "recipe": str(outcome.recipe)})
    asked = tune.changed(config(), outcome.changes)
    assert (again.encoder, again.method, again.train) == (asked.encoder, asked.method, asked.train)
    assert (again.graph.source, again.seed) == ("texas", 0)
    text = outcome.recipe.read_text()
    for part in ("dssl tune x", f"best of 3 trials by {select}", "encoder.dim"):
        assert part in text


def test_a_recipe_is_fitted(tmp_path: Path) -> None:
    outcome = search(tmp_path / "s", 1)
    asked = resolve({"source": config().graph.source, "recipe": str(outcome.recipe)})
    workflow.fit(asked, tmp_path / "run")
    assert run_folder.read_config(tmp_path / "run").encoder.dim == outcome.changes["encoder.dim"]


def test_a_label_free_search_needs_no_labels(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i + 1) % 30}\n" for i in range(30)))
    base = config(source=str(tmp_path / "edges.csv"))
    assert search(tmp_path / "s", 2, base, select="effective-rank").value > 0
    with pytest.raises(DsslError, match="has no labels to select by"):
        search(tmp_path / "t", 2, base)
    assert not (tmp_path / "t").exists()


def test_a_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    search(tmp_path / "s", 1)
    for changes in ({"base": config(epochs=1)}, {"select": "loss"}, {"varied": {"encoder.dim": (2, 4)}}):
        with pytest.raises(RunError, match=r"holds a search with other (settings|select|space)"):
            search(tmp_path / "s", 1, **changes)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").touch()
    with pytest.raises(RunError, match="is not empty and holds no search"):
        search(tmp_path / "notes", 1)
    (tmp_path / "s" / STUDY).write_bytes(b"no data base" * 100)
    with pytest.raises(RunError, match=r"study\.db cannot be used"):
        search(tmp_path / "s", 1)


def test_trials_that_fail_are_counted_and_named(tmp_path: Path) -> None:
    outcome = search(tmp_path / "some", 3, select="loss", varied={"train.epochs": (0, 2)})
    assert outcome.changes == {"train.epochs": 2}
    assert outcome.done + len(outcome.failed) == 3
    with pytest.raises(RunError, match="all 2 trials failed, the first with: loss is not defined"):
        search(tmp_path / "all", 2, config(epochs=0), select="loss", varied={"encoder.dim": (2, 4)})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": "val"}, "unknown criterion 'val'"),
        ({"trials": 0}, "0 trials"),
        ({"workers": 0}, "by 0 workers"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        search(tmp_path / "s", **{"trials": 1, **options})


@pytest.mark.slow
@pytest.mark.distributed
def test_worker_processes_give_the_same_values(tmp_path: Path) -> None:
    search(tmp_path / "s", 3, workers=2)
    judge = tune.Judge(config(), "validation")
    for changes, value in tried(tmp_path / "s"):
        assert judge(changes)["value"] == pytest.approx(value)
    assert len(tried(tmp_path / "s")) == 3
