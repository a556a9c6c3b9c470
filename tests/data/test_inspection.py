"""What `dssl inspect` reports of a messy table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import sparse

import dssl
from dssl.config.schema import ReadOptions
from dssl.data.inspection import inspect


@pytest.fixture
def options(tmp_path: Path) -> ReadOptions:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{i + 2}\n" for i in range(58)))
    rows = "".join(
        f"{i},{i % 2},{i % 3 == 0},u{i}@x.org,{'inf' if i == 3 else i},{'' if i < 15 else 7 * i}\n" for i in range(60)
    )
    (tmp_path / "nodes.csv").write_text("id,label,member,email,broken,age\n" + rows)
    return ReadOptions(source=str(tmp_path / "edges.csv"), nodes=str(tmp_path / "nodes.csv"))


def test_every_column_is_described_at_once(options: ReadOptions) -> None:
    found = inspect(options)
    by_name = {column.name: column for column in found.columns}
    kinds = {name: column.kind for name, column in by_name.items()}
    assert kinds == {
        "id": "id",
        "label": "label",
        "member": "flag",
        "email": "ignore",
        "broken": "error",
        "age": "number",
    }
    assert by_name["age"].missing == 0.25
    assert "missing values marked" in by_name["age"].encoding
    assert by_name["label"].encoding == "2 classes, used for evaluation only"
    assert by_name["label"].homophily == pytest.approx(1.0)  # links join nodes of the same parity
    assert by_name["member"].homophily is not None
    assert by_name["member"].homophily < 0
    assert found.summary["degree_quantiles"]["1.0"] == 2
    assert json.loads(json.dumps(found.to_json()))["columns"][0]["name"] == "id"


def test_a_chosen_type_is_used(options: ReadOptions) -> None:
    chosen = options.model_copy(update={"column_types": ("broken=ignore", "email=text")})
    kinds = {column.name: column.kind for column in inspect(chosen).columns}
    assert (kinds["broken"], kinds["email"]) == ("ignore", "text")


def test_a_graph_without_a_table_has_no_columns() -> None:
    found = inspect(ReadOptions(source="synthetic:h=0.2,nodes=100,classes=2,degree=4"))
    assert found.columns == ()
    assert found.summary["nodes"] == 100


def test_the_spectrum_of_homophily_needs_no_labels() -> None:
    similar, mixed = (
        inspect(ReadOptions(source=f"synthetic:h={h},nodes=400,classes=2,degree=12")).spectrum for h in (1, 0.5)
    )
    assert similar is not None
    assert similar["directions"] >= 1
    assert similar["largest"] > 0.2
    assert mixed is None or mixed["largest"] < similar["largest"]


def test_a_column_that_may_be_the_label_is_named(options: ReadOptions) -> None:
    table = Path(str(options.nodes))
    rows = "".join(f"{i},{i % 2 if i < 20 else ''},{i % 5}\n" for i in range(60))
    table.write_text("id,is fraud,office\n" + rows)
    note = "1 feature column may be the label: 'is fraud' (--label-column 'is fraud')"
    assert note in inspect(options).changes
    labelled = inspect(options.model_copy(update={"label_column": "is fraud"}))
    assert not any("may be the label" in change for change in labelled.changes)


def test_an_empty_column_of_a_table_without_labels_is_left_out(options: ReadOptions) -> None:
    table = Path(str(options.nodes))
    table.write_text("id,age,empty\n" + "".join(f"{i},{i % 7},\n" for i in range(60)))
    assert "1 column left out: 'empty', it is empty" in inspect(options).changes


def test_lists_of_strings_are_words() -> None:
    tags = [["new", "card"], [], None, ["card"]]
    graph = dssl.from_tables(
        {"source": ["a", "b", "c"], "target": ["b", "c", "d"]}, nodes={"id": list("abcd"), "tags": tags}
    )
    assert graph.encoding is not None
    assert [column.kind for column in graph.encoding.columns] == ["text"]
    assert sparse.issparse(graph.x)
    assert graph.x.sum(axis=1).tolist() == [2, 0, 0, 1]
