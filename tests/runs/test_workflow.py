from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.config.toml import from_toml
from dssl.data.load import read_graph, with_full_paths
from dssl.errors import DatasetError, DsslError, RunError
from dssl.graph import packed
from dssl.graph.preparation import links as prepare
from dssl.model.embeddings import Embeddings
from dssl.model.estimator import load_model
from dssl.runs import run_folder, transform, workflow
from dssl.runs.links import model_links

SMALL = {"num_factors": 2, "dim": 4, "hidden_dim": 4, "features": "raw", "epochs": 4, "seed": 1, "splits": 2}


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Two rings with a bridge as CSV files, ids with gaps and a node table with labels."""
    half = 15
    pairs = [(i, (i + 1) % half) for i in range(half)] + [(half + i, half + (i + 1) % half) for i in range(half)]
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in [*pairs, (0, half)]))
    generator = np.random.default_rng(0)
    rows = [f"n{i},{'ab'[i // half]},{generator.normal() + i // half},{generator.normal()}\n" for i in range(2 * half)]
    (tmp_path / "nodes.csv").write_text("id,label,size,age\n" + "".join(rows))
    return path


def config_for(edges: Path, **changes: object) -> Config:
    return resolve({"source": str(edges), "nodes": str(edges.with_name("nodes.csv")), **SMALL, **changes})


def test_a_run_folder_holds_everything(edges: Path, tmp_path: Path) -> None:
    seen: list[Any] = []
    outcome = workflow.fit(config_for(edges), tmp_path / "r", command="dssl fit x", on_epoch=seen.append)
    names = {path.name for path in (tmp_path / "r").iterdir()}
    assert names == set(run_folder.FILES) - {
        run_folder.CHECKPOINT,
        run_folder.LATER,
        run_folder.EVALUATION,
        run_folder.SPLITS,
        run_folder.MAP,
        run_folder.PICTURE,
        run_folder.REPORT,
    }
    config = from_toml((tmp_path / "r" / "config.toml").read_text(), "x")
    assert config.encoder.dim == 4
    assert config.graph.source == str(edges.resolve())
    vectors = Embeddings.load(tmp_path / "r" / "embeddings.parquet")
    assert vectors.ids.to_pylist() == [f"n{i}" for i in range(30)]
    assert vectors.values.shape == (30, 4)
    records = run_folder.read_metrics(tmp_path / "r")
    assert [record["epoch"] for record in records] == [1, 2, 3, 4]
    assert records == seen
    for name in ("loss", "local", "global", "entropy", "effective_rank", "posterior_entropy", "factor_usage_max"):
        assert name in records[-1]
    described = json.loads((tmp_path / "r" / "graph.json").read_text())
    assert described["summary"]["nodes"] == 30
    assert described["limits"]["factor_usage_max"] == {"above": 0.9}
    made = json.loads((tmp_path / "r" / "environment.json").read_text())
    assert made["command"] == "dssl fit x"
    assert made["packages"]["torch"]
    assert made["peak_memory_mb"] > 10
    assert outcome.record == records[-1]
    assert outcome.graph["edges"] == 31
    assert described["changes"] == outcome.changes == []


def test_what_was_done_to_the_graph_is_recorded(edges: Path, tmp_path: Path) -> None:
    with edges.open("a") as handle:
        handle.write("n3,n3\nn1,n0\n")
    outcome = workflow.fit(resolve({"source": str(edges), **SMALL}), tmp_path / "r")
    assert outcome.changes[:2] == ["1 self loops removed", "1 repeated edges merged"]
    assert "features made from the links" in outcome.changes[2]
    assert json.loads((tmp_path / "r" / "graph.json").read_text())["changes"] == outcome.changes


def test_same_seed_same_bytes(edges: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        workflow.fit(config_for(edges), tmp_path / name)
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors", "features.json", "config.toml"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_the_model_of_a_run_gives_its_embeddings(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    graph = read_graph(config_for(edges).graph)
    assert transform.embed(tmp_path / "r").ids.equals(graph.ids)
    np.testing.assert_array_equal(load_model(tmp_path / "r").transform(graph), transform.embed(tmp_path / "r").values)


def test_log_every_keeps_some_epochs_and_the_last(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges, log_every=3, epochs=7), tmp_path / "r")
    assert [record["epoch"] for record in run_folder.read_metrics(tmp_path / "r")] == [3, 6, 7]


def test_a_finished_run_is_kept_unless_told_otherwise(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    (tmp_path / "r" / "evaluation.json").write_text("{}")
    (tmp_path / "r" / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="holds a finished run; replace it with --overwrite"):
        workflow.fit(config_for(edges), tmp_path / "r")
    workflow.fit(config_for(edges, epochs=2), tmp_path / "r", overwrite=True)
    assert len(run_folder.read_metrics(tmp_path / "r")) == 2
    assert not (tmp_path / "r" / "evaluation.json").exists()
    assert (tmp_path / "r" / "notes.txt").read_text() == "mine"


def test_a_failed_overwrite_leaves_the_old_run(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    with pytest.raises(DsslError):
        workflow.fit(config_for(tmp_path / "none.csv"), tmp_path / "r", overwrite=True)
    assert run_folder.read_embeddings(tmp_path / "r").values.shape == (30, 4)


def test_other_folders_and_files_are_left_alone(edges: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(RunError, match="not empty and no run folder"):
            workflow.fit(config_for(edges), tmp_path / "other", overwrite=overwrite)
        with pytest.raises(RunError, match="is a file"):
            workflow.fit(config_for(edges), edges, overwrite=overwrite)
    assert (tmp_path / "other" / "thesis.tex").exists()


class Stop(Exception):
    pass


def stop_at(epoch: int) -> object:
    def stop(record: dict[str, float]) -> None:
        if record["epoch"] == epoch:
            raise Stop

    return stop


@pytest.mark.parametrize("epoch", [1, 3, 4, 9, 10])
def test_an_interrupted_run_goes_on_to_the_same_end(edges: Path, tmp_path: Path, epoch: int) -> None:
    config = config_for(edges, epochs=10, checkpoint_every=3, log_every=2, dropout=0.3)
    workflow.fit(config, tmp_path / "whole")
    with pytest.raises(Stop):
        workflow.fit(config, tmp_path / "parts", on_epoch=stop_at(epoch))  # type: ignore[arg-type]
    with pytest.raises(RunError, match="unfinished run; run its `dssl fit` again"):
        transform.embed(tmp_path / "parts")
    # A kill may also cut a line short.
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as handle:
        handle.write('{"epoch": 9, "lo')
    seen: list[dict[str, float]] = []
    outcome = workflow.fit(config, tmp_path / "parts", on_epoch=seen.append)
    assert seen[0]["epoch"] == (epoch - 1) // 3 * 3 + 1
    assert outcome.environment.resumed_at_epoch == (epoch - 1) // 3 * 3
    assert not (tmp_path / "parts" / run_folder.CHECKPOINT).exists()
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_a_kill_after_the_last_epoch_loses_nothing(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for(edges)
    workflow.fit(config, tmp_path / "whole")

    def fail(*_: object, **__: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("dssl.model.estimator.Embedder.save", fail)
        with pytest.raises(Stop):
            workflow.fit(config, tmp_path / "parts")
    outcome = workflow.fit(config, tmp_path / "parts")
    assert outcome.record["epoch"] == 4
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors", "graph.json"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_a_killed_process_goes_on_to_the_same_end(edges: Path, tmp_path: Path) -> None:
    nodes = edges.with_name("nodes.csv")
    command = [sys.executable, "-m", "dssl", "fit", str(edges), "--nodes", str(nodes), "--seed", "3"]
    command += ["--set", "dim=4", "--set", "checkpoint_every=7"]
    # Long enough to be killed in the middle on any machine: the epochs of a tiny graph take about a millisecond.
    first = [*command, "--set", "epochs=100000", "--out", str(tmp_path / "parts")]
    process = subprocess.Popen(first, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            if (tmp_path / "parts" / run_folder.CHECKPOINT).exists():
                break
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "parts" / run_folder.CHECKPOINT).exists()
    assert not (tmp_path / "parts" / run_folder.ENVIRONMENT).exists()
    done = len(run_folder.read_metrics(tmp_path / "parts"))
    # The end is moved to just after the kill: the settings say nothing else about how an epoch goes.
    settings = tmp_path / "parts" / "config.toml"
    settings.write_text(settings.read_text().replace("epochs = 100000", f"epochs = {done + 20}"))
    last = ["--set", f"epochs={done + 20}"]
    for folder in ("parts", "whole"):
        subprocess.run([*command, *last, "--out", str(tmp_path / folder)], check=True, capture_output=True)
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    made = json.loads((tmp_path / "parts" / run_folder.ENVIRONMENT).read_text())
    assert 0 < made["resumed_at_epoch"] <= done + 20
    assert {path.name for path in (tmp_path / "parts").glob("[!.]*")} <= set(run_folder.FILES)


def test_two_trainings_do_not_share_a_folder(edges: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    refused = []

    def again(_: object) -> None:
        for options in ({}, {"overwrite": True}):
            with pytest.raises(RunError, match="is in use by another training") as error:
                workflow.fit(config_for(edges), folder, **options)
            refused.append(str(error.value))

    outcome = workflow.fit(config_for(edges), folder, on_epoch=again)
    assert len(refused) == 2 * 4
    assert str(os.getpid()) in refused[0] and "--out" in refused[0] and "\n" not in refused[0]
    workflow.fit(config_for(edges), tmp_path / "alone")
    assert outcome.record == run_folder.read_metrics(tmp_path / "alone")[-1]
    assert {path.name for path in folder.iterdir()} == {path.name for path in (tmp_path / "alone").iterdir()}


def test_a_training_that_never_began_leaves_no_folder(edges: Path, tmp_path: Path) -> None:
    config = config_for(edges)
    edges.write_text("source,target\n")
    edges.with_name("nodes.csv").unlink()
    with pytest.raises(DsslError):
        workflow.fit(config, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_an_unfinished_run_is_not_mixed_with_another(edges: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        workflow.fit(config_for(edges), tmp_path / "r", on_epoch=stop_at(2))  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"other settings \(encoder.dim was 4, is 5\); replace it with --overwrite"):
        workflow.fit(config_for(edges, dim=5), tmp_path / "r")
    with edges.open("a") as handle:
        handle.write("n3,n9\n")
    with pytest.raises(RunError, match="another state of the graph"):
        workflow.fit(config_for(edges), tmp_path / "r")
    workflow.fit(config_for(edges), tmp_path / "r", overwrite=True)


def test_evaluate_writes_its_files(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    result = workflow.evaluate(tmp_path / "r")
    assert run_folder.read_evaluation(tmp_path / "r") == result
    assert 0 <= result["probe"]["accuracy"]["mean"] <= 1
    assert {"majority", "raw", "smoothed", "hops", "adjacency", "random-encoder"} <= set(result["sanity"])
    assert (tmp_path / "r" / "embedding.png").read_bytes()[:4] == b"\x89PNG"
    assert result["splits"] == {
        "protocol": "random",
        "origin": "2 random splits, 60/20/20, seed 0",
        "count": 2,
        "labelled": 30,
        "sizes": [[18, 6, 6]] * 2,
        "left_out": [0, 0],
    }
    with np.load(tmp_path / "r" / "splits.npz", allow_pickle=False) as content:
        assert np.bincount(content["parts"][0]).tolist() == [18, 6, 6]
    assert set(result["label_free"]) >= {"calinski_harabasz", "calinski_harabasz_features", "calinski_harabasz_factors"}
    assert workflow.evaluate(tmp_path / "r") == result


def test_an_evaluation_takes_settings_of_its_own_and_no_others(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    before = (tmp_path / "r" / "config.toml").read_bytes()
    shares = ["train_share=0.25", "validation_share=0.25", "splits=3", "scaling=plain"]
    result = workflow.evaluate(tmp_path / "r", settings=shares)
    assert result["splits"]["sizes"] == [[8, 8, 14]] * 3
    assert {choice["scaling"] for choice in result["probe"]["chosen"]} == {"plain"}
    assert (tmp_path / "r" / "config.toml").read_bytes() == before
    with pytest.raises(DsslError, match=r"encoder.dim was 4, is 5, but an evaluation can only change settings"):
        workflow.evaluate(tmp_path / "r", settings=["dim=5"])
    with pytest.raises(DsslError, match="is not a published data set, so it has no geom-gcn splits"):
        workflow.evaluate(tmp_path / "r", flags={"evaluate.protocol": "geom-gcn"})


def test_labels_too_few_to_split_leave_the_rest_of_an_evaluation(edges: Path, tmp_path: Path) -> None:
    nodes = edges.with_name("nodes.csv")
    header, *rows = nodes.read_text().splitlines()
    few = [row if at < 2 else ",".join([row.split(",")[0], "", *row.split(",")[2:]]) for at, row in enumerate(rows)]
    nodes.write_text("\n".join([header, *few]) + "\n")
    workflow.fit(config_for(edges), tmp_path / "r")
    result = workflow.evaluate(tmp_path / "r")
    assert "2 labelled nodes are too few" in result["skipped"]["probe"]
    assert set(result) == {"skipped", "label_free"}
    assert not (tmp_path / "r" / "splits.npz").exists()


def test_a_run_folder_alone_is_enough_when_the_files_of_the_user_have_moved(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    before = workflow.evaluate(tmp_path / "r")
    edges.unlink()
    edges.with_name("nodes.csv").unlink()
    (tmp_path / "r").rename(tmp_path / "moved")
    assert workflow.evaluate(tmp_path / "moved") == before
    assert transform.factors(tmp_path / "moved").links.shape == (62, 2)


def test_the_factors_of_a_run_are_those_of_its_model(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    stored = run_folder.read_factors(tmp_path / "r", "x")
    graph = run_folder.read_graph(tmp_path / "r", "x")
    found = load_model(tmp_path / "r").factors(graph)
    for name in ("source", "target", "links", "nodes"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(found, name))
    assert stored.ids.equals(found.ids)
    links = model_links(graph, config_for(edges).graph, stored)
    prepared = prepare(graph, directed=False, self_loops="remove")
    np.testing.assert_array_equal(links.indptr, prepared.indptr)
    np.testing.assert_array_equal(links.indices, prepared.indices)


def test_parts_that_were_left_out_are_named_with_the_command_that_needs_them(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges, keep_graph=False, keep_factors=False), tmp_path / "r")
    assert not {run_folder.PACKED, run_folder.FACTORS} & set(run_folder.sizes(tmp_path / "r"))
    with pytest.raises(RunError, match=r"no graph \(keep_graph is false\), which `dssl evaluate` needs; fit again"):
        workflow.evaluate(tmp_path / "r")
    with pytest.raises(RunError, match=r"no factors \(keep_factors is false\), which `x` needs"):
        run_folder.read_factors(tmp_path / "r", "x")
    workflow.fit(config_for(edges, keep_factors=False), tmp_path / "s")
    assert transform.factors(tmp_path / "s").links.shape == (62, 2)  # from the model
    assert "calinski_harabasz_factors" in workflow.evaluate(tmp_path / "s")["label_free"]


def test_a_packed_graph_of_the_user_is_referred_to_and_not_copied(edges: Path, tmp_path: Path) -> None:
    graph = read_graph(config_for(edges).graph)
    packed.pack(graph, tmp_path / "packed")
    workflow.fit(resolve({"source": str(tmp_path / "packed"), **SMALL}), tmp_path / "r")
    assert run_folder.read_graph_record(tmp_path / "r").packed == str(tmp_path / "packed")
    assert run_folder.PACKED not in run_folder.sizes(tmp_path / "r")
    assert run_folder.read_graph(tmp_path / "r", "x").fingerprint() == graph.fingerprint()
    packed.pack(graph.replace(y=None), tmp_path / "packed", overwrite=True)
    with pytest.raises(RunError, match=r"is not the one that .* was fitted on"):
        workflow.evaluate(tmp_path / "r")
    (tmp_path / "packed").rename(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"refers to a packed graph, which `dssl evaluate` needs: .*packed"):
        workflow.evaluate(tmp_path / "r")


def test_embed_takes_a_new_graph_with_the_fitted_scaling(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    new = tmp_path / "new.csv"
    new.write_text("source,target\nx,y\n")
    nodes = tmp_path / "new-nodes.csv"
    # The first two nodes of the old table under other names: alone in a table, their columns have another mean.
    rows = edges.with_name("nodes.csv").read_text().splitlines()
    nodes.write_text("\n".join([rows[0], "x" + rows[1][2:], "y" + rows[2][2:]]) + "\n")
    vectors = transform.embed(tmp_path / "r", config_for(new).graph.model_copy(update={"nodes": str(nodes)}))
    assert vectors.ids.to_pylist() == ["x", "y"]
    model = load_model(tmp_path / "r")
    graph = read_graph(config_for(edges).graph)
    from dssl.graph import Graph

    pair = Graph.from_edges([0], [1], x=np.asarray(graph.x)[:2], ids=["x", "y"])
    np.testing.assert_allclose(vectors.values, model.transform(pair), rtol=1e-5, atol=1e-6)


def grow(edges: Path) -> Path:
    """A later state of the graph: two more nodes, one of them far out, in files of their own."""
    grown = edges.with_name("grown.csv")
    grown.write_text(edges.read_text() + "n30,n1\nn31,n20\nn30,n31\n")
    nodes = edges.with_name("nodes.csv").read_text()
    grown.with_name("grown-nodes.csv").write_text(nodes + "n30,a,0.5,9\nn31,b,1,-3\n")
    return grown


def warm(start: Path, edges: Path, **changes: object) -> Config:
    grown = edges.with_name("grown.csv")
    return workflow.continued(
        start, {"graph.source": str(grown), "graph.nodes": str(grown.with_name("grown-nodes.csv")), **changes}
    )


def test_a_run_may_start_from_another_on_a_grown_graph(edges: Path, tmp_path: Path) -> None:
    first = config_for(edges, dim=6, id_column="id")
    workflow.fit(first, tmp_path / "a")
    grow(edges)
    outcome = workflow.fit(warm(tmp_path / "a", edges, epochs=3), tmp_path / "b")
    config = run_folder.read_config(tmp_path / "b")
    assert config.train.start_from == str((tmp_path / "a").resolve())
    assert (config.encoder.dim, config.train.epochs, config.seed, config.graph.id_column) == (6, 3, 1, "id")
    assert outcome.record["epoch"] == 3
    # The same as in Python, with the columns scaled as in the first run.
    model = load_model(tmp_path / "a")
    graph = read_graph(config.graph, encoding=model.inputs.encoding)
    model.set_params(epochs=3).fit(graph, warm=True)
    np.testing.assert_array_equal(transform.embed(tmp_path / "b").values, model.embeddings_.values)
    first_loss = run_folder.read_metrics(tmp_path / "a")[0]["loss"]
    assert run_folder.read_metrics(tmp_path / "b")[0]["loss"] < first_loss
    assert workflow.evaluate(tmp_path / "b")["probe"]["accuracy"]["mean"] > 0
    assert len(transform.factors(tmp_path / "b").nodes) == 32
    workflow.fit(workflow.continued(tmp_path / "b", {}), tmp_path / "c")  # and on, on the same graph
    assert len(transform.embed(tmp_path / "c")) == 32


def test_an_interrupted_warm_start_goes_on_to_the_same_end(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "a")
    grow(edges)
    config = warm(tmp_path / "a", edges, epochs=10, checkpoint_every=3)
    workflow.fit(config, tmp_path / "whole")
    for epoch in (1, 5):
        with pytest.raises(Stop):
            workflow.fit(config, tmp_path / "parts", on_epoch=stop_at(epoch))  # type: ignore[arg-type]
    workflow.fit(config, tmp_path / "parts")
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors", "config.toml", "graph.json"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_an_interrupted_warm_start_is_not_mixed_with_other_weights(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "a")
    grow(edges)
    config = warm(tmp_path / "a", edges)
    with pytest.raises(Stop):
        workflow.fit(config, tmp_path / "b", on_epoch=stop_at(1))  # type: ignore[arg-type]
    workflow.fit(config_for(edges, epochs=5), tmp_path / "a", overwrite=True)
    with pytest.raises(RunError, match="unfinished run on another state of the weights in"):
        workflow.fit(config, tmp_path / "b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder.dim": 5}, r"keeps the encoder and the method \(encoder.dim was 4, is 5\)"),
        ({"method.num_factors": 3}, "method.num_factors was 2, is 3"),
        ({"graph.directed": True}, "graph.directed was False, is True"),
        ({"preset": "paper"}, "--from takes its settings from .*; leave out --preset"),
        ({"recipe": "paper-terms"}, "leave out --recipe"),
        ({"graph.nodes": None}, "feature columns"),
    ],
)
def test_what_a_warm_start_cannot_change_is_refused(
    edges: Path, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    workflow.fit(config_for(edges), tmp_path / "a")
    grow(edges)
    with pytest.raises(DsslError, match=said):
        workflow.fit(warm(tmp_path / "a", edges, **changes), tmp_path / "b")
    assert not (tmp_path / "b" / "weights.safetensors").exists()


def test_a_warm_start_needs_a_fitted_run_that_is_not_its_own(edges: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        workflow.continued(tmp_path / "none", {})
    workflow.fit(config_for(edges), tmp_path / "a")
    with pytest.raises(RunError, match="is the run to start from; choose another folder with --out"):
        workflow.fit(workflow.continued(tmp_path / "a", {}), tmp_path / "a", overwrite=True)
    (tmp_path / "a" / "weights.safetensors").unlink()
    with pytest.raises(RunError, match=r"weights\.safetensors is missing"):
        workflow.fit(workflow.continued(tmp_path / "a", {}), tmp_path / "b")


def test_early_stopping_ends_a_run_and_an_interruption_does_not_move_the_end(edges: Path, tmp_path: Path) -> None:
    config = config_for(edges, epochs=1000, patience=5, tolerance=0.3, checkpoint_every=4)
    outcome = workflow.fit(config, tmp_path / "whole")
    end = int(outcome.record["epoch"])
    assert 10 <= end < 1000
    for epoch in (2, 6, end):
        with pytest.raises(Stop):
            workflow.fit(config, tmp_path / "parts", on_epoch=stop_at(epoch))  # type: ignore[arg-type]
    workflow.fit(config, tmp_path / "parts")
    for file in ("embeddings.parquet", "metrics.jsonl", "weights.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file


def test_factors_of_a_run_are_of_its_graph_or_of_another(edges: Path, tmp_path: Path) -> None:
    workflow.fit(config_for(edges), tmp_path / "r")
    found = transform.factors(tmp_path / "r")
    assert found.links.shape == (62, 2)
    grown = grow(edges)
    other = config_for(grown, nodes=str(grown.with_name("grown-nodes.csv"))).graph
    assert transform.factors(tmp_path / "r", other).links_table()["source"].to_pylist()[-1] == "n31"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("texas", "texas-dssl-0"),
        ("python:stdlib", "python-stdlib-dssl-0"),
        ("synthetic:h=0.25,nodes=10", "synthetic-h=0.25-nodes=10-dssl-0"),
        ("/data/my graph.csv.gz", "my-graph-dssl-0"),
        ("../../x.csv", "x-dssl-0"),
    ],
)
def test_default_folders(source: str, name: str) -> None:
    assert run_folder.default_folder(source, "dssl", 0) == Path("runs") / name


def test_a_graph_must_be_named() -> None:
    with pytest.raises(DatasetError, match="no graph is named"):
        read_graph(Config().graph)


def test_steps_on_the_links_are_the_models_for_a_named_graph() -> None:
    options = resolve({"source": "synthetic:h=0.5,nodes=50,classes=2,degree=4", "directed": True}).graph
    assert read_graph(options).num_nodes == 50


def test_full_paths_are_for_files_only(edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cora").write_text("")
    assert with_full_paths(resolve({"source": "cora"}).graph).source == "cora"
    assert with_full_paths(resolve({"source": "edges.csv"}).graph).source == str(edges)
    assert with_full_paths(resolve({"source": "python:json"}).graph).source == "python:json"


def test_hidden_links_are_ranked_by_a_training_that_does_not_see_them(tmp_path: Path) -> None:
    config = resolve({"source": "synthetic:h=0.9,nodes=80,classes=2,degree=6,features=4", "epochs": 2, "dim": 4})
    workflow.fit(config, tmp_path / "r")
    assert "links" not in workflow.evaluate(tmp_path / "r", settings=["splits=2"])
    found = workflow.evaluate(tmp_path / "r", settings=["splits=2", "links=true"])
    assert {"cosine_uniform_auc", "probe_degree_ap", "likelihood_uniform_auc"} <= set(found["links"])
    assert json.loads((tmp_path / "r" / "evaluation.json").read_text())["links"] == found["links"]
    again = workflow.evaluate(tmp_path / "r", settings=["splits=2", "links=true"])
    assert again["links"] == pytest.approx(found["links"], abs=0.01)  # of near ties, the last bit may decide


def test_the_untrained_baseline_is_the_encoder_of_the_first_epoch(edges: Path, tmp_path: Path) -> None:
    config = config_for(edges, epochs=0)
    workflow.fit(config, tmp_path / "r")
    found = workflow._untrained(config, run_folder.read_graph(tmp_path / "r", "x"))
    np.testing.assert_allclose(found, transform.embed(tmp_path / "r").values, atol=1e-6)
