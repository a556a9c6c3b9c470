from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import dssl
from dssl.config.resolve import resolve
from dssl.config.schema import Config, GraphSettings
from dssl.data.load import read_graph
from dssl.errors import ConfigError, GraphError, RunError
from dssl.model.embeddings import Embeddings
from dssl.runs import run_folder, transform, workflow

OLD, NEW = 700, 300
SETTINGS = {"num_factors": 2, "dim": 16, "hidden_dim": 16, "epochs": 20, "seed": 0}


@dataclass
class Weeks:
    """Payments of two weeks as files: amounts on the edges, and customers with two columns."""

    folder: Path
    fraud: NDArray[np.int64]

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def config(self, week: str, **settings: object) -> Config:
        given = {"source": self.path(f"edges-{week}.csv"), "nodes": self.path(f"nodes-{week}.csv")}
        return resolve({**given, "weight_column": "amount", "label_column": "fraud", **SETTINGS, **settings})


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Weeks:
    """A graph in which fraudsters pay others, not each other; the columns say little."""
    draw = np.random.default_rng(3)
    count = OLD + NEW
    fraud = (draw.random(count) < 0.3).astype(np.int64)
    pairs: dict[tuple[int, int], float] = {}
    while len(pairs) < 5 * count:
        a, b = sorted(map(int, draw.integers(count, size=2)))
        if a != b and draw.random() < (0.03, 1.0, 0.0)[fraud[a] + fraud[b]] + 0.02:
            pairs[a, b] = float(draw.gamma(2.0))
    first = {pair: weight for pair, weight in pairs.items() if max(pair) < OLD}
    second = {pair: weight for pair, weight in pairs.items() if max(pair) >= OLD}
    folder = tmp_path_factory.mktemp("weeks")
    size = draw.normal(size=count) + 0.3 * fraud
    age = draw.normal(size=count)
    for name, edges in {"1": first, "2": second, "all": pairs}.items():
        rows = "".join(f"c{a},c{b},{weight:.3f}\n" for (a, b), weight in edges.items())
        (folder / f"edges-{name}.csv").write_text("payer,payee,amount\n" + rows)
    for name, nodes in {"1": range(OLD), "2": range(OLD, count), "all": range(count)}.items():
        rows = "".join(f"c{i},{size[i]:.3f},{age[i]:.3f}{f',{fraud[i]}' if name != '2' else ''}\n" for i in nodes)
        (folder / f"nodes-{name}.csv").write_text(f"id,size,age{',fraud' if name != '2' else ''}\n" + rows)
    return Weeks(folder, fraud)


@pytest.fixture(scope="module")
def run(weeks: Weeks) -> Path:
    workflow.fit(weeks.config("1"), weeks.folder / "run")
    return weeks.folder / "run"


def new_files(weeks: Weeks, **changes: object) -> GraphSettings:
    options = GraphSettings(source=weeks.path("edges-2.csv"), nodes=weeks.path("nodes-2.csv"))
    return options.model_copy(update=changes)


def auc(weeks: Weeks, old: Embeddings, new: Embeddings) -> float:
    """Of a classifier that is trained on the vectors of week 1, on the nodes of week 2."""
    order = [int(str(i)[1:]) for i in new.ids.to_pylist()]
    head = LogisticRegression(max_iter=2000).fit(old.values, weeks.fraud[:OLD])
    return float(roc_auc_score(weeks.fraud[order], head.predict_proba(new.values)[:, 1]))


def test_a_classifier_of_week_1_suits_the_new_nodes_of_week_2(weeks: Weeks, run: Path) -> None:
    notes: list[str] = []
    new = transform.embed_new(run, new_files(weeks), on_note=notes.append)
    assert notes == ["50% of the edges are new: a fit on all files, then `dssl align`, learns from them too"]
    assert new.ids.to_pylist() == [f"c{i}" for i in range(OLD, OLD + NEW)]
    found = auc(weeks, transform.embed(run), new)
    joint = dssl.DSSL(**SETTINGS).fit(read_graph(weeks.config("all").graph)).embeddings_
    best = auc(weeks, Embeddings(joint.ids[:OLD], joint.values[:OLD]), Embeddings(joint.ids[OLD:], joint.values[OLD:]))
    assert best > 0.7
    assert found > best - 0.02


def test_new_files_give_the_vectors_of_the_grown_files(weeks: Weeks, run: Path) -> None:
    new = transform.embed_new(run, new_files(weeks))
    whole = transform.embed(run, weeks.config("all").graph)
    np.testing.assert_allclose(new.values, whole.values[OLD:], atol=1e-4)
    fitted = read_graph(weeks.config("1").graph)
    grown = dssl.extend(fitted, weeks.path("edges-2.csv"), weeks.path("nodes-2.csv"), weight_column="amount")
    np.testing.assert_allclose(dssl.load_model(run).transform(grown)[OLD:], new.values, atol=1e-6)


def test_the_factors_of_new_links(weeks: Weeks, run: Path) -> None:
    found = transform.new_factors(run, new_files(weeks))
    whole = transform.factors(run, weeks.config("all").graph)
    table = found.links_table().to_pandas().set_index(["source", "target"])
    old = {f"c{i}" for i in range(OLD)}
    assert not any(source in old and target in old for source, target in table.index)
    other = whole.links_table().to_pandas().set_index(["source", "target"]).loc[table.index]
    np.testing.assert_allclose(np.stack(table["q"]), np.stack(other["q"]), atol=1e-4)
    assert len(table) == sum(
        1 for source, target in zip(whole.source, whole.target, strict=True) if max(source, target) >= OLD
    )


def test_the_run_keeps_how_its_files_are_read(weeks: Weeks, run: Path) -> None:
    """A whole graph is read by the columns of the run: the weight column above all."""
    same = GraphSettings(source=weeks.path("edges-1.csv"), nodes=weeks.path("nodes-1.csv"))
    np.testing.assert_allclose(transform.embed(run, same).values, transform.embed(run).values, atol=1e-5)
    flags = {"graph.source": same.source, "graph.nodes": same.nodes}
    graph = workflow.continued(run, flags).graph
    assert (graph.weight_column, graph.label_column) == ("amount", "fraud")
    other = workflow.continued(run, {**flags, "graph.weight_column": "sum"}).graph
    fitted = weeks.config("1").graph
    assert transform.differing_columns(fitted, other) == [
        "weight_column is 'sum', but was 'amount' when the model was fitted"
    ]


def test_missing_parts_of_new_nodes_are_reported(weeks: Weeks, run: Path) -> None:
    notes: list[str] = []
    edges = weeks.folder / "few.csv"
    nodes = weeks.folder / "few-nodes.csv"
    nodes.write_text("id,size,age\nx,0.1,1\ny,0.2,\nz,0.3,1\n")
    edges.write_text("payer,payee,amount\nx,y,1\n")
    few = new_files(weeks, source=str(edges), nodes=str(nodes))
    assert len(transform.embed_new(run, few, on_note=notes.append)) == 3
    assert notes == [
        "1 of 3 new nodes have no edges: their vectors come from their columns alone",
        "no edge connects a new node to the fitted graph; for another graph, add --separate",
    ]


def test_many_new_edges_are_reported(weeks: Weeks, run: Path) -> None:
    fitted = run_folder.read_graph(run, "").num_edges
    nodes = weeks.folder / "many-nodes.csv"
    nodes.write_text("id,size,age\nx,0.1,1\n")
    for many in (False, True):
        count = fitted // 8 if many else fitted // 10
        edges = weeks.folder / "many.csv"
        edges.write_text("payer,payee,amount\n" + "".join(f"x,c{i},1\n" for i in range(count)))
        notes: list[str] = []
        transform.embed_new(run, new_files(weeks, source=str(edges), nodes=str(nodes)), on_note=notes.append)
        assert notes == ["11% of the edges are new: a fit on all files, then `dssl align`, learns from them too"] * many


BAD = {
    "an unknown node": ("payer,payee,amount\nw,c1,1\n", "id,size,age\nx,1,1\n", GraphError, "'w' is new and needs"),
    "no weights": ("payer,payee\nx,c1\n", "id,size,age\nx,1,1\n", GraphError, "no column 'amount'"),
    "a missing column": ("payer,payee,amount\nx,c1,1\n", "id,size\nx,1\n", GraphError, "no column 'age'"),
    "nothing new": ("payer,payee,amount\nc2,c1,1\n", "id,size,age\nc1,1,1\n", GraphError, "all nodes of .* are in"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_additions_are_refused(weeks: Weeks, run: Path, name: str, tmp_path: Path) -> None:
    edges, nodes, kind, words = BAD[name]
    (tmp_path / "e.csv").write_text(edges)
    (tmp_path / "n.csv").write_text(nodes)
    few = new_files(weeks, source=str(tmp_path / "e.csv"), nodes=str(tmp_path / "n.csv"))
    with pytest.raises(kind, match=words):
        transform.embed_new(run, few)


def test_other_types_of_columns_are_refused(weeks: Weeks, run: Path) -> None:
    with pytest.raises(ConfigError, match="column_types: the columns are encoded as those of the run"):
        transform.embed_new(run, new_files(weeks, column_types=("age=category",)))


def test_a_run_without_its_graph_has_no_context(weeks: Weeks, tmp_path: Path) -> None:
    workflow.fit(weeks.config("1", keep_graph=False, epochs=0), tmp_path / "r")
    with pytest.raises(RunError, match="has no graph"):
        transform.embed_new(tmp_path / "r", new_files(weeks))
