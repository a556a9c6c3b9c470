"""Edge lists and node tables: what is read, and the table of what is refused."""

from __future__ import annotations

import gzip
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from dssl.data.load import load
from dssl.data.tables import from_tables
from dssl.data.text import BLOCK
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.encoding import Encoding


def write(folder: Path, name: str, content: object) -> Path:
    """Write text, bytes, columns (Parquet) or a SciPy matrix (npz) to a file."""
    path = folder / name
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes):
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    elif isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        sparse.save_npz(path, content)
    return path


def links(graph: Graph) -> set[tuple[object, object]]:
    """Links of an undirected graph as pairs of ids."""
    ids = graph.ids.to_pylist()
    arcs = zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)
    return {(ids[a], ids[b]) for a, b in arcs if a <= b}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "source,target\n30,10\n10,20\n"),
        ("e.csv", "30,10\n10,20\n"),
        ("e.csv", "30,10\n10,20"),
        ("e.csv", "\n30,10\r\n\r\n10,20\r\n\n"),
        ("e.csv", "\ufeffsrc,dst\n30,10\n10,20\n"),
        ("e.csv", "\ufeff30,10\n10,20\n"),
        ("e.csv", "person,knows\n30,10\n10,20\n"),
        ("e.csv", '"30","10"\n10, 20\n'),
        ("e.csv", "a;b\n30;10\n10;20\n"),
        ("e.csv", "to,x,from\n10,a,30\n20,b,10\n"),
        ("e.csv.gz", "source,target\n30,10\n10,20\n"),
        ("e.tsv", "source\ttarget\n30\t10\n10\t20\n"),
        ("e.txt", "# Directed graph\n# FromNodeId\tToNodeId\n30\t10\n10\t20\n"),
        ("e.txt", "% bip\n30 10\n10 20\n"),
        ("E.CSV", "30,10\n10,20\n"),
        ("e.parquet", {"source": [30, 10], "target": [10, 20]}),
        (
            "e.parquet",
            {"target": pa.array([10, 20], pa.uint8()), "x": [0, 0], "source": pa.array([30, 10], pa.int16())},
        ),
    ],
)
def test_integer_ids_from_any_file(tmp_path, name, content):
    graph = load(write(tmp_path, name, content))
    assert graph.ids == pa.array([10, 20, 30])
    assert links(graph) == {(10, 20), (10, 30)}
    assert graph.weights is None
    assert graph.name == Path(name).name.split(".")[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "source,target\nzoe,ann\nann,bob\n"),
        ("e.csv", "zoe,ann\nann,bob\n"),
        ("e.tsv.gz", "zoe\tann\nann\tbob\n"),
        ("e.parquet", {"a": ["zoe", "ann"], "b": pa.array(["ann", "bob"], pa.large_string())}),
        ("e.parquet", {"a": pa.array(["zoe", "ann"]).dictionary_encode(), "b": ["ann", "bob"]}),
    ],
)
def test_text_ids_from_any_file(tmp_path, name, content):
    graph = load(write(tmp_path, name, content))
    assert graph.ids == pa.array(["ann", "bob", "zoe"])
    assert links(graph) == {("ann", "bob"), ("ann", "zoe")}


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ("source,target\n007,7\n", ["007", "7"]),
        ("source,target\n1,2\n3,x\n", ["1", "2", "3", "x"]),
        ("source,target\nNA,NULL\n", ["NA", "NULL"]),
        ("source,target\n1.0,2\n", ["1.0", "2"]),
        ("source,target\n-5,9223372036854775807\n", [-5, 9223372036854775807]),
        ("source,target\n1,9223372036854775808\n", ["1", "9223372036854775808"]),
        ('source,target\n"a,b",c\n', ["a,b", "c"]),
        ("#python,#rust\n#rust,#go\n", ["#go", "#python", "#rust"]),
        ("source,target\né,ß\n", ["ß", "é"]),
    ],
)
def test_ids_are_kept_as_they_are_written(tmp_path, content, ids):
    assert load(write(tmp_path, "e.csv", content)).ids.to_pylist() == ids


def test_many_blocks_equal_one(tmp_path):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 5000, (2, 400_000))
    expected = from_tables({"source": source * 3, "target": target * 3})
    lines = [f"{3 * s},{3 * t}\n" for s, t in zip(source, target, strict=True)]
    assert sum(map(len, lines)) > 2 * BLOCK
    path = write(tmp_path, "e.csv", "".join(lines))
    assert load(path).fingerprint() == expected.fingerprint()
    assert load(path).history == expected.history
    # One text id in the last line turns all ids into text.
    texts = load(write(tmp_path, "text.csv", "".join(lines) + "3,last\n"))
    assert texts.ids.type == pa.string()
    assert texts.num_edges == expected.num_edges + 1
    # The same links in another order are the same graph.
    shuffled = rng.permutation(len(lines))
    other = load(write(tmp_path, "shuffled.csv", "".join(lines[i] for i in shuffled)))
    assert other.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("source,target,weight\na,b,0.5\nb,c,2e1\n", {}),
        ("a,b,0.5\nb,c,20\n", {}),
        ("a,b,0.5\nb,c,20\n", {"source_column": "2", "target_column": "1"}),
        ("x,source,target,w\n1,a,b,0.5\n1,b,c,20\n", {}),
        ("source,target,kg\na,b,.5\nb,c,20\n", {"weight_column": "kg"}),
        ("kg,p,q\n0.5,a,b\n20,b,c\n", {"weight_column": "kg"}),
        ("a;b;0.5\nb;c;20\n", {"header": False}),
    ],
)
def test_weights(tmp_path, content, options):
    graph = load(write(tmp_path, "e.csv", content), **options)
    assert graph.adjacency().toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 20], [0, 20, 0]]


def test_other_columns_are_no_weights(tmp_path):
    assert load(write(tmp_path, "e.csv", "source,target,year\n1,2,1999\n")).weights is None


def test_directed_and_self_loops(tmp_path):
    path = write(tmp_path, "e.csv", "source,target\n2,1\n1,1\n2,1\n")
    graph = load(path, directed=True, self_loops="keep")
    assert graph.adjacency().toarray().tolist() == [[1, 0], [1, 0]]
    assert [str(change) for change in load(path).history] == ["1 self loops removed", "1 repeated edges merged"]


NODES = "id,label,age,city,paid\nc,x,1,Rome,true\na,,3,Oslo,false\nalone,y,5,Rome,true\n"


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_node_table_gives_order_labels_and_features(tmp_path, kind):
    edges = write(tmp_path, "e.csv", "source,target\na,c\n")
    columns = {"id": ["c", "a", "alone"], "label": ["x", None, "y"], "age": [1, 3, 5], "city": ["Rome", "Oslo", "Rome"]}
    columns["paid"] = [True, False, True]
    content = {"csv": NODES, "tsv": NODES.replace(",", "\t"), "parquet": columns}[kind]
    graph = load(edges, nodes=write(tmp_path, f"n.{kind}", content))
    assert graph.ids.to_pylist() == ["c", "a", "alone"]
    assert links(graph) == {("c", "a")}
    assert (graph.y.tolist(), graph.class_names) == ([0, -1, 1], ("x", "y"))
    assert graph.feature_names == ("age", "city=Oslo", "city=Rome", "paid")
    age = np.array([-1, 0, 1]) * np.sqrt(1.5)
    np.testing.assert_allclose(graph.x, np.column_stack([age, [0, 1, 0], [1, 0, 1], [1, 0, 1]]), rtol=1e-6)


def test_columns_of_the_node_table_by_name(tmp_path):
    edges = write(tmp_path, "e.csv", "source,target\n1,2\n")
    nodes = write(tmp_path, "n.csv", "kind,user,a,b,comment\nu,1,1,1,free text\nv,2,3,2,more text\n")
    graph = load(edges, nodes=nodes, id_column="user", label_column="kind", feature_columns=["b"])
    assert graph.ids == pa.array([1, 2])
    assert graph.class_names == ("u", "v")
    assert graph.x.tolist() == [[-1], [1]]


def test_next_weeks_table_is_encoded_alike(tmp_path):
    edges = write(tmp_path, "e.csv", "source,target\na,c\n")
    first = load(edges, nodes=write(tmp_path, "n.csv", NODES))
    encoding = Encoding.from_json(first.encoding.to_json())
    later = write(tmp_path, "later.csv", "paid,city,age,new,id\nfalse,01,7,?,a\ntrue,02,1,?,c\n")
    graph = load(edges, nodes=later, encoding=encoding)
    assert graph.feature_names == first.feature_names
    np.testing.assert_allclose(graph.x, [[2 * np.sqrt(1.5), 0, 0, 0], [-np.sqrt(1.5), 0, 0, 1]], rtol=1e-6)


def test_a_node_table_without_features_or_labels(tmp_path):
    edges = write(tmp_path, "e.csv", "1,2\n2,3\n")
    graph = load(edges, nodes=write(tmp_path, "n.csv", "id\n3\n2\n1\n4\n"))
    assert graph.ids == pa.array([3, 2, 1, 4])
    assert (graph.x, graph.y, graph.encoding, graph.num_edges) == (None, None, None, 2)


def test_a_node_table_makes_a_graph_without_edges(tmp_path):
    edges = write(tmp_path, "e.csv", "source,target\n")
    graph = load(edges, nodes=write(tmp_path, "n.csv", "id,label\nonly,1\n"))
    assert (graph.num_nodes, graph.num_edges, graph.y.tolist()) == (1, 0, [0])


@pytest.mark.parametrize(("nodes", "edges"), [("csv", "parquet"), ("parquet", "csv")])
def test_text_that_looks_like_integers_meets_text(tmp_path, nodes, edges):
    text = {"csv": "source,target\n1,2\n", "parquet": {"source": ["1"], "target": ["2"]}}[edges]
    table = {"csv": "id,f\n2,1\n1,2\n", "parquet": {"id": ["2", "1"], "f": [1, 2]}}[nodes]
    graph = load(write(tmp_path, f"e.{edges}", text), nodes=write(tmp_path, f"n.{nodes}", table))
    assert graph.ids == pa.array(["2", "1"])


def test_quoted_values_may_hold_delimiters_and_newlines(tmp_path):
    edges = write(tmp_path, "e.csv", 'source,target\n"a,1",b\n')
    nodes = write(tmp_path, "n.csv", 'id,city\n"a,1","New\nYork"\nb,Rome\n')
    graph = load(edges, nodes=nodes)
    assert graph.feature_names == ("city=New\nYork", "city=Rome")


SYMMETRIC = sparse.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))


def test_a_matrix_file(tmp_path):
    path = write(tmp_path, "a.npz", SYMMETRIC)
    graph = load(path)
    assert (graph.num_edges, graph.history, graph.name) == (2, (), "a")
    features = write(tmp_path, "x.npz", sparse.csr_array(np.eye(3)))
    np.testing.assert_array_equal(load(path, nodes=features).x.toarray(), np.eye(3))
    table = write(tmp_path, "n.csv", "id,label,f\na,0,1\nb,0,2\nc,1,3\n")
    graph = load(path, nodes=table)
    assert graph.ids.to_pylist() == ["a", "b", "c"]
    assert graph.encoding.names == ("f",)


EDGES = {"source": ["b", "a", "a"], "target": ["c", "b", "b"], "weight": [1.0, 2.0, 3.0]}
PEOPLE = {"id": ["a", "b", "c", "d"], "label": [1, 0, None, 1], "age": [1.0, 2.0, 3.0, 4.0]}


def test_polars_holds_text_in_every_role(tmp_path: Path) -> None:
    categories = {"why": pl.Series(["x", "y"], dtype=pl.Categorical), "paid": ["2024-01-01", "2024-01-02"]}
    edges = pl.DataFrame({"source": ["a", "b "], "target": ["b", "a"], **categories})
    nodes = pl.DataFrame(
        {
            "id": ["a", "b"],
            "label": pl.Series(["u", None], dtype=pl.Categorical),
            "city": pl.Series(["Rome", "Oslo"], dtype=pl.Enum(["Oslo", "Rome"])),
            "tags": [["red", "big"], ["red"]],
        }
    )
    graph = from_tables(edges, nodes, kind_column="why", time_column="paid", until="2024-01-03", trim=True)
    assert graph.kind_names == ("x", "y")
    assert graph.class_names == ("u",)
    assert graph.feature_names is not None
    assert graph.feature_names[:3] == ("city=Oslo", "city=Rome", "tags[0]")
    table = pa.table({"source": ["a", "b"], "target": ["b", "c"], "paid": ["2024-01-01", "2024-01-02"]})
    pq.write_table(
        table.cast(pa.schema([(name, pa.string_view()) for name in table.column_names])), tmp_path / "e.parquet"
    )
    assert load(tmp_path / "e.parquet", time_column="paid", until="2024-01-02", trim=True).num_nodes == 2
    assert "'paid' (--time-column)" in str(load(tmp_path / "e.parquet").history[0])


def test_dates_as_text_are_named_and_can_be_read_as_dates() -> None:
    """pandas reads dates from CSV as text; with a zone, too."""
    edges = {"source": [0, 1], "target": [1, 2]}
    plain, zoned = (["2024-01-01", None, "2024-03-01"], ["2024-01-01T00:00:00Z", "", "2024-03-01T00:00:00Z"])
    graphs = []
    for dates in (plain, zoned):
        nodes = pd.DataFrame({"id": [0, 1, 2], "joined": dates, "city": ["a", "b", "a"]})
        assert [str(change) for change in from_tables(edges, nodes).history] == [
            "1 text column may hold dates: 'joined' (--column joined=date)"
        ]
        graphs.append(from_tables(edges, nodes, column_types={"joined": "date"}))
        assert graphs[-1].history == ()
    np.testing.assert_array_equal(np.asarray(graphs[0].x), np.asarray(graphs[1].x))
    with pytest.raises(GraphError, match=r"row 0 .*'soon' is not a date"):
        from_tables(edges, nodes.assign(joined="soon"), column_types={"joined": "date"})


def test_a_node_table_in_place_of_an_edge_list_gets_a_note(tmp_path: Path) -> None:
    path = write(tmp_path, "nodes.csv", "id,age\nann,31\nbob,31\n")
    note = "2 columns, as of a node table, are read as the ends of edges: 'id', 'age' (--source-column)"
    assert [str(change) for change in load(path).history] == [note]
    assert load(path, source_column="id").history == ()


def test_numbers_next_to_marks_of_missing_values_are_named(tmp_path: Path) -> None:
    edges = write(tmp_path, "e.csv", "source,target\n0,1\n1,2\n")
    nodes = write(tmp_path, "n.csv", "id,age,size,city,fee\n0,3.5,?,-,NA\n1,None,1,Rome,4\n2,,2,Rome,5\n")
    assert [str(change) for change in load(edges, nodes=nodes).history] == [
        "1 text column may hold numbers: 'age' (leave cells empty in place of 'None')",
        "1 text column may hold numbers: 'size' (leave cells empty in place of '?')",
    ]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_tables_in_memory(kind):
    graph = from_tables(kind(EDGES), kind(PEOPLE), name="people")
    assert graph.ids.to_pylist() == ["a", "b", "c", "d"]
    assert graph.adjacency().toarray()[:3, :3].tolist() == [[0, 5, 0], [5, 0, 1], [0, 1, 0]]
    assert (graph.y.tolist(), graph.class_names) == ([1, 0, -1, 1], ("0", "1"))
    assert graph.feature_names == ("age",)
    assert str(graph.history[0]) == "1 repeated edges merged"


def test_an_index_of_pandas_is_no_column_unless_it_has_a_name():
    edges = pd.DataFrame(EDGES, index=[5, 6, 7])
    people = pd.DataFrame(PEOPLE).set_index("id")
    graph = from_tables(edges, people)
    assert graph.feature_names == ("age",)
    assert graph.ids.to_pylist() == ["a", "b", "c", "d"]


def test_categories_that_are_not_used_make_no_nodes():
    frame = pd.DataFrame({"s": pd.Categorical(["a"], ["a", "unused"]), "t": pd.Categorical(["b"], ["b", "a"])})
    assert from_tables(frame).ids.to_pylist() == ["a", "b"]


GOOD = "source,target\n1,2\n2,3\n"
TABLE = "id,f\n1,0.5\n2,1.5\n3,2.5\n"

# (edge file, content, node table or none, options, message)
BAD = {
    "unknown id": ("e.csv", "source,target\n1,2\n\n2,9\n", TABLE, {}, r"e\.csv, line 4: the node 9 is not in .*n\.csv"),
    "unknown text id": ("e.csv", "source,target\n1,2\n2,x\n", TABLE, {}, r"e\.csv, line 3: the node 'x' is not in"),
    "padded id": (
        "e.csv", "source,target\n1,02\n", TABLE, {}, r"e\.csv, line 2: the node '02' is not in .*integers only",
    ),
    "unknown id, text": ("e.csv", "a,b\nb,z\n", "id\na\nb\n", {}, r"e\.csv, line 2: the node 'z' is not in .*n\.csv"),
    "unknown id, Parquet": (
        "e.parquet",
        {"source": [1, 2], "target": [2, 9]},
        TABLE,
        {},
        r"e\.parquet, row 1 \(counted from 0\): the node 9 is not in",
    ),
    "integers beside text": (
        "e.parquet",
        {"source": [1], "target": [2]},
        "id\na\nb\n",
        {},
        r"column 'source' are integers \(such as 1\), but those in .*n\.csv are text",
    ),
    "one end text": ("e.parquet", {"source": [1], "target": ["2"]}, None, {}, r"column 'target' are text .*'2'"),
    "infinite feature": (
        "e.csv", GOOD, "id,f\n1,0.5\n\n2,1\n3,-inf\n", {}, r"n\.csv, line 5, column 'f': the value '-inf' cannot",
    ),
    "wrong type of a column": (
        "e.csv", GOOD, "id,f\n1,a\n2,b\n3,c\n", {"column_types": {"f": "numeric"}},
        r"column 'f': 'numeric' is not a type of column; use one of number, .*did you mean 'number'",
    ),
    "type of no column": (
        "e.csv", GOOD, "id,f\n1,a\n2,b\n3,c\n", {"column_types": {"g": "number"}}, r"n\.csv has no column 'g'",
    ),
    "type without a table": ("e.csv", GOOD, None, {"column_types": {"f": "text"}}, "column_types applies to a node"),
    "negative weight": (
        "e.csv", "source,target,weight\n1,2,1\n2,3,-4\n", None, {}, r"e\.csv, line 3, column 'weight': the weight '-4'",
    ),
    "NaN weight": ("e.csv", "source,target,weight\n1,2,nan\n", None, {}, r"line 2, column 'weight': .*'nan'"),
    "infinite weight": ("e.csv", "source,target,weight\n1,2,inf\n", None, {}, r"line 2, column 'weight': .*'inf'"),
    "missing weight": ("e.csv", "source,target,weight\n1,2,1\n2,3,\n", None, {}, r"line 3, column 'weight': .*''"),
    "weight of words": (
        "e.csv", "source,target,weight\n1,2,1\n2,3,much\n", None, {}, r"line 3, column 'weight': 'much' is not",
    ),
    "weight of text": (
        "e.parquet", {"source": [1], "target": [2], "weight": ["1"]}, None, {}, "weights in column 'weight' are of",
    ),
    "ragged row": (
        "e.csv", "source,target\n1,2\n1,2,3\n", None, {}, r"e\.csv, line 3: 3 values instead of 2 \('1,2,3'\)",
    ),
    "short row": ("e.csv", "source,target\na,b\nc\n", None, {}, r"e\.csv, line 3: 1 value instead of 2 \('c'\)"),
    "ragged node": ("e.csv", GOOD, "id,f\n1,2\n2,3,4\n", {}, r"n\.csv, line 3: 3 values instead of 2"),
    "repeated node": (
        "e.csv", GOOD, "id\n1\n2\n3\n2\n", {}, r"n\.csv, line 5: the node id 2 occurs a second time, after line 3",
    ),
    "missing node id": ("e.csv", GOOD, "id,f\n1,1\n,2\n", {}, r"n\.csv, line 3, column 'id': the id is missing"),
    "missing id": (
        "e.csv", "source,target\n1,2\n,3\n", None, {}, r"e\.csv, line 3, column 'source': the id is missing",
    ),
    "missing id, text": (
        "e.csv", "source,target\na,\n", None, {}, r"e\.csv, line 2, column 'target': the id is missing",
    ),
    "ids with decimals": ("e.parquet", {"s": [1.0], "t": [2.0]}, None, {}, "the ids in column 's' are of type double"),
    "huge ids": (
        "e.parquet", {"s": pa.array([2**63], pa.uint64()), "t": [1]}, None, {}, r"column 's' is 2\*\*63 or more",
    ),
    "empty file": ("e.csv", "", None, {}, r"e\.csv is empty"),
    "empty Parquet": ("e.parquet", b"", None, {}, r"e\.parquet is empty"),
    "only blank lines": ("e.csv", "\n\n", None, {}, r"e\.csv holds no rows"),
    "only a header": ("e.csv", "source,target\n", None, {}, r"e\.csv holds no edges"),
    "Parquet without rows": (
        "e.parquet", {"s": pa.array([], pa.int64()), "t": pa.array([], pa.int64())}, None, {}, "holds no edges",
    ),
    "only a header of nodes": ("e.csv", GOOD, "id,f\n", {}, r"n\.csv has a header but no rows"),
    "empty node table": ("e.csv", GOOD, "", {}, r"n\.csv is empty"),
    "node table without header": ("e.csv", GOOD, "1,2\n3,4\n", {}, r"n\.csv has no header"),
    "wrong source": (
        "e.csv", GOOD, None, {"source_column": "sorce"}, r"no column 'sorce' \(source_column\); it has .*mean 'source'",
    ),
    "wrong weight": (
        "e.csv", GOOD, None, {"weight_column": "kg"}, r"no column 'kg' \(weight_column\); it has 'source'",
    ),
    "wrong id": (
        "e.csv", GOOD, TABLE, {"id_column": "ID"}, r"n\.csv has no column 'ID' \(id_column\); it has 'id', 'f'",
    ),
    "wrong label": (
        "e.csv", GOOD, TABLE, {"label_column": "klass"}, r"no column 'klass' \(label_column\); it has 'id', 'f'",
    ),
    "wrong feature": ("e.csv", GOOD, TABLE, {"feature_columns": ["g"]}, r"no column 'g' \(feature_columns\)"),
    "no fourth column": ("e.csv", "1,2\n2,3\n", None, {"weight_column": "4"}, r"no column '4' .*it has '1', '2'"),
    "one column twice": ("e.csv", GOOD, None, {"source_column": "target", "target_column": "target"}, "cannot be both"),
    "one name twice": ("e.csv", "a,a\n1,2\n", None, {}, r"e\.csv has two columns with the name 'a'"),
    "one column": ("e.csv", "1\n2\n", None, {}, r"e\.csv has one column"),
    "label without nodes": ("e.csv", GOOD, None, {"label_column": "y"}, "label_column applies to a node table"),
    "header or not": ("e.csv", "ann,bob\neve,joe\n", None, {}, r"it is unclear whether the first line \('ann, bob'\)"),
    "CSV called Parquet": ("e.parquet", GOOD, None, {}, r"e\.parquet is not a Parquet file"),
    "CSV called npz": ("e.npz", GOOD, None, {}, r"e\.npz is not a SciPy sparse matrix"),
    "CSV called gz": ("e.parquet.csv.gz.csv", gzip.compress(b"1,2\n"), None, {}, "is not text but a gzip file"),
    "random bytes": ("e.csv", bytes(range(1, 256)) * 4, None, {}, r"e\.csv, line 2: the byte 0x80 is not UTF-8"),
    "bytes with zeros": ("e.csv", b"\x00\x01\x02" * 50, None, {}, r"e\.csv is not text"),
    "random Parquet": ("e.parquet", b"PAR1" + bytes(range(256)), None, {}, r"e\.parquet is not a Parquet file"),
    "a pickle": ("e.npz", pickle.dumps({"a": 1}), None, {}, r"e\.npz is not a SciPy sparse matrix .*allow_pickle"),
    "not UTF-8": (
        "e.csv", b"source,target\na,b\nb,\xe9t\xe9\n", None, {}, r"e\.csv, line 3: the byte 0xe9 is not UTF-8",
    ),
    "UTF-16": ("e.csv", GOOD.encode("utf-16"), None, {}, r"e\.csv is UTF-16 text; save it as UTF-8"),
    "unknown ending": ("e.xlsx", GOOD, None, {}, r"the ending '\.xlsx' is not known; use one of \.csv, "),
    "no square": ("e.npz", sparse.csr_array(np.ones((2, 3))), None, {}, r"e\.npz: .*\(2, 3\)\) is not a square"),
    "matrix and times": ("e.npz", SYMMETRIC, None, {"time_column": "t"}, "time_column applies to an edge list"),
    "matrix and a moment": ("e.npz", SYMMETRIC, None, {"until": "50%"}, "until applies to an edge list"),
    "negative entry": ("e.npz", -SYMMETRIC, None, {}, r"e\.npz: .*the weight at \(0, 1\) is -1"),
    "matrix and more nodes": ("e.npz", SYMMETRIC, "id\n1\n2\n", {}, r"n\.csv has 2 nodes, but .* matrix of 3 rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_one_line_that_names_it(tmp_path, case):
    name, content, nodes, options, message = BAD[case]
    path = write(tmp_path, name, content)
    table = None if nodes is None else write(tmp_path, "n.csv", nodes)
    with pytest.raises(GraphError, match=message) as caught:
        load(path, nodes=table, **options)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    write(tmp_path, "edges.csv", GOOD)
    with pytest.raises(GraphError, match=r"edge\.csv does not exist.*did you mean 'edges\.csv'"):
        load(tmp_path / "edge.csv")
    with pytest.raises(GraphError, match=r"nodes\.parquet does not exist"):
        load(tmp_path / "edges.csv", nodes=tmp_path / "nodes.parquet")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(GraphError, match=r"folder\.csv is a folder"):
        load(folder)


@pytest.mark.parametrize("cut", [20, -3])
def test_a_torn_archive(tmp_path, cut):
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(GOOD.encode() * 1000)[:cut])
    with pytest.raises(GraphError, match=r"e\.csv\.gz cannot be read \(.*\)"):
        load(path)


def test_a_pickle_in_an_npz_is_not_opened(tmp_path):
    path = tmp_path / "e.npz"
    np.savez(path, format=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(GraphError, match="is not a SciPy sparse matrix"):
        load(path)


def test_faults_far_down_are_found_at_their_line(tmp_path):
    lines = [f"{i},{i + 1},1.5\n" for i in range(250_000)]
    assert sum(map(len, lines)) > 2 * BLOCK
    lines[240_000] = "7,8\n"
    with pytest.raises(GraphError, match="line 240001: 2 values instead of 3"):
        load(write(tmp_path, "e.csv", "".join(lines)))
    lines[240_000] = "7,8,-1\n"
    with pytest.raises(GraphError, match="line 240001, column '3': the weight '-1'"):
        load(write(tmp_path, "e.csv", "".join(lines)))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([1, 2, 3], r"the edge table \(list\) is not a table"),
        (pd.DataFrame({"s": ["a", None], "t": ["b", "c"]}), r"the edge table, row 1 \(counted from 0\), column 's'"),
        (pl.DataFrame({"s": [1, 2], "t": [2, 3], "w": [1.0, -1.0]}), r"row 1 .*column 'w': the weight -1\.0"),
        (pd.DataFrame({"s": [1.5], "t": [2]}), "ids in column 's' are of type double"),
    ],
)
def test_bad_tables_in_memory(edges, message):
    with pytest.raises(GraphError, match=message) as caught:
        from_tables(edges)
    assert "\n" not in str(caught.value)


def test_the_examples_of_the_page_work(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    tables = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    for name, content in zip(("edges.csv", "nodes.csv"), tables, strict=True):
        write(tmp_path, name, content)
    first, memory, typed, later = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)
    shown = [line.split("# ")[-1] for line in first.splitlines() if line.startswith("print")]
    assert capsys.readouterr().out.splitlines() == [*shown[:-1], "()"]
    exec(later, names)
    exec(typed, names)
    assert [column.kind for column in names["graph"].encoding.columns] == ["ignore", "text"]
    exec(memory, names)
    assert names["graph"].num_nodes == 3


def test_columns_without_information_are_left_out_and_noted(tmp_path):
    edges = write(tmp_path, "e.csv", "source,target\n1,2\n2,3\n")
    rows = "".join(f"{i},user{i}@example.org,2024-01-{1 + i % 28:02d},{'' if i % 5 else i}\n" for i in range(1, 60))
    nodes = write(tmp_path, "n.csv", "id,email,since,age\n" + rows)
    graph = load(edges, nodes=nodes)
    assert graph.feature_names == ("since", "since, week sin", "since, week cos", "age", "age is missing")
    assert any("'email', it is an identifier" in str(change) for change in graph.history)
    graph = load(edges, nodes=nodes, column_types={"email": "text", "age": "ignore"})
    assert {column.name: column.kind for column in graph.encoding.columns} == {
        "email": "text",
        "since": "date",
        "age": "ignore",
    }


SPACED = "source,target\nn1,n2 \nn2, n3\nn3,n1\n"


def test_spaces_around_ids_are_counted_and_trimmed_on_request(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text(SPACED)
    kept = load(tmp_path / "edges.csv")
    assert kept.ids.to_pylist() == [" n3", "n1", "n2", "n2 ", "n3"]
    assert str(kept.history[-1]) == "2 ids with spaces around them, which --trim removes"
    plain = load(tmp_path / "edges.csv", trim=True)
    assert plain.ids.to_pylist() == ["n1", "n2", "n3"]
    assert plain.num_edges == 3
    assert not plain.history


@pytest.mark.parametrize("number", [True, False])
def test_trimmed_ids_meet_those_of_the_node_table(tmp_path: Path, number: bool) -> None:
    word = "" if number else "n"
    (tmp_path / "edges.csv").write_text(f"source,target\n{word}1,{word}2 \n{word}2, {word}3\n")
    (tmp_path / "nodes.csv").write_text(f"id,a\n{word}3 ,1\n{word}2,0\n {word}1,4\n")
    graph = load(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", trim=True)
    assert graph.ids.to_pylist() == ([3, 2, 1] if number else ["n3", "n2", "n1"])
    alone = load(tmp_path / "edges.csv", trim=True)
    assert alone.ids.to_pylist() == ([1, 2, 3] if number else ["n1", "n2", "n3"])


def test_an_id_of_spaces_is_missing_once_trimmed(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nn1,n2\nn2,   \n")
    with pytest.raises(GraphError, match=r"line 3, column 'target': the id is missing"):
        load(tmp_path / "edges.csv", trim=True)


def test_a_column_of_categories_may_be_the_label() -> None:
    color = pa.array(["red", "blue", None, None, None]).dictionary_encode()
    graph = from_tables({"source": [0, 1, 2, 3], "target": [1, 2, 3, 4]}, pa.table({"id": range(5), "color": color}))
    assert str(graph.history[-1]).startswith("1 feature column may be the label: 'color'")


def test_a_column_named_label_that_is_not_the_label_is_named() -> None:
    nodes = {"id": [0, 1, 2], "Label": [1, 0, 1], "group": ["a", "b", "a"]}
    graph = from_tables({"source": [0, 1], "target": [1, 2]}, nodes, label_column="group")
    assert any("feature column may be a label: 'Label'" in str(change) for change in graph.history)
    chosen = from_tables({"source": [0], "target": [1]}, nodes, label_column="group", feature_columns=["Label"])
    assert not any("may be a label" in str(change) for change in chosen.history)


def test_kinds_that_are_lists_are_one_line() -> None:
    with pytest.raises(GraphError, match=r"column 'kind': kinds are of type list.*; turn them into text"):
        from_tables({"source": [1, 2], "target": [2, 3], "kind": [["a"], ["b"]]}, kind_column="kind")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (pa.array([1.0, float("inf"), 2.0]), "is not a class"),
        (pa.array([1.0, 1e19, 2.0]), "is not a class"),
        (pa.array([1.0, 1.5, 2.0], pa.float16()), "is not a class"),
        (pa.array([b"a", b"\xff", b"b"]).view(pa.string()), "not UTF-8"),
    ],
)
def test_labels_that_are_no_classes(tmp_path: Path, label: pa.Array, words: str) -> None:
    edges = pa.table({"source": [0, 1], "target": [1, 2]})
    nodes = pa.table({"id": [0, 1, 2], "label": label})
    with pytest.raises(GraphError, match=words):
        from_tables(edges, nodes)
    found = from_tables(edges, nodes.set_column(1, "label", pa.array([1, 0, 1], pa.float16())))
    assert found.y.tolist() == [1, 0, 1]


def test_ids_that_are_not_utf8_and_weights_beyond_single_precision(tmp_path: Path) -> None:
    odd = pa.array([b"a", b"\xff"]).view(pa.string())
    with pytest.raises(GraphError, match=r"an id in column 'source' is not UTF-8 text"):
        from_tables(pa.table({"source": odd, "target": ["a", "b"]}))
    with pytest.raises(GraphError, match=r"column 'weight': the weight 1e\+39 is not allowed"):
        from_tables({"source": [0, 1], "target": [1, 2], "weight": [1.0, 1e39]})


@pytest.mark.parametrize("kind", [str, Path])
def test_an_encoding_without_a_node_table_is_refused(kind: type, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target\na,b\n")
    with pytest.raises(GraphError, match="encoding applies to a node table, and none is given"):
        load(kind(tmp_path / "e.csv"), encoding=Encoding(()))


def test_a_column_is_not_both_weight_and_end() -> None:
    edges = {"source": ["a", "b"], "weight": ["b", "c"]}
    assert from_tables(edges).ids.to_pylist() == ["a", "b", "c"]
    for given in ({"weight_column": "weight"}, {"target_column": "weight", "weight_column": "weight"}):
        with pytest.raises(GraphError, match=r"cannot be both (source and weight|target and weight|source and target)"):
            from_tables(edges, **given)


def test_a_text_column_is_no_vector(tmp_path: Path) -> None:
    nodes = {"id": [0, 1], "a": ["x", "y"]}
    with pytest.raises(GraphError, match=r"column 'a' is of type string, and a vector is a list of numbers"):
        from_tables({"source": [0], "target": [1]}, nodes, column_types={"a": "vector"})
