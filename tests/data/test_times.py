"""Edges with times: the graph before a moment, and the links after it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dssl
from dssl.config.schema import ReadOptions
from dssl.data.later_links import read_later
from dssl.errors import GraphError

ROWS = [  # not in the order of time
    ("b", "c", "2024-01-02 10:00:00", 2.0),
    ("a", "b", "2024-01-01", 1.0),
    ("a", "d", "2024-03-01 00:00:00", 4.0),  # d is new
    ("c", "a", "2024-02-15 09:00:00", 8.0),
    ("b", "a", "2024-02-20", 16.0),  # linked before
    ("a", "c", "2024-02-25", 32.0),  # a second time
    ("c", "c", "2024-02-26", 64.0),
]


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    lines = [",".join(map(str, row)) for row in ROWS]
    path.write_text("\n".join(["payer,payee,paid,amount", *lines]) + "\n")
    return path


def options(path: Path, **given: object) -> ReadOptions:
    return ReadOptions(source=str(path), source_column="payer", target_column="payee", time_column="paid", **given)


def test_edges_before_a_moment_are_the_graph_of_these_rows(edges: Path) -> None:
    graph = dssl.load(
        edges,
        time_column="paid",
        until="2024-02-01",
        weight_column="amount",
        source_column="payer",
        target_column="payee",
    )
    kept = [row for row in ROWS if row[2] < "2024-02-01"]
    alike = dssl.from_tables({name: [row[at] for row in kept] for at, name in enumerate(("s", "t", "time", "weight"))})
    assert graph.ids.equals(alike.ids)
    np.testing.assert_array_equal(graph.adjacency().toarray(), alike.adjacency().toarray())
    assert "5 edges from 2024-02-01 00:00:00 on are held out" in map(str, graph.history)


def test_later_links_are_new_pairs_in_the_order_of_time(edges: Path) -> None:
    given = options(edges, until="2024-02-01")
    graph = dssl.data.load.read_graph(given)
    later = read_later(given, graph)
    assert [tuple(graph.ids[int(end)].as_py() for end in pair) for pair in later.pairs] == [("a", "c")]
    assert (later.moment, later.unknown) == ("2024-02-01 00:00:00", 1)


@pytest.mark.parametrize(
    "times",
    [
        [3, 1, 2, 10],
        pa.array([3, 1, 2, 10], pa.timestamp("s")),
        ["2024-01-03Z", "2024-01-01Z", "2024-01-02Z", "2024-01-10Z"],
    ],
    ids=["numbers", "time stamps", "text with a zone"],
)
def test_a_percentage_counts_edges(times: object, tmp_path: Path) -> None:
    if isinstance(times, list) and isinstance(times[0], str):
        times = [f"{time[:-1]}T00:00:00Z" for time in times]
    pq.write_table(pa.table({"source": [0, 1, 2, 3], "target": [1, 2, 3, 4], "at": times}), tmp_path / "e.parquet")
    graph = dssl.load(tmp_path / "e.parquet", time_column="at", until="75%")
    assert graph.num_edges == 3
    assert graph.ids.to_pylist() == [0, 1, 2, 3]  # node 4 comes later
    assert dssl.load(tmp_path / "e.parquet", time_column="at").num_edges == 3  # at most 85%


def test_the_line_of_an_unknown_node_counts_all_rows(edges: Path) -> None:
    nodes = edges.with_name("nodes.csv")
    nodes.write_text("id,x\na,1\nb,2\n")
    with pytest.raises(GraphError, match=r"line 5: the node 'c' is not in"):
        dssl.load(edges, nodes=nodes, time_column="paid", source_column="payer", target_column="payee")
    nodes.write_text("id,x\na,1\nb,2\nc,3\n")  # d is in held-out edges alone
    graph = dssl.load(
        edges, nodes=nodes, time_column="paid", until="2024-02-28", source_column="payer", target_column="payee"
    )
    assert graph.num_nodes == 3


@pytest.mark.parametrize(
    ("spoil", "until", "said"),
    [
        ("yesterday", None, r"line 3, column 'paid': 'yesterday' is not a time"),
        ("", None, r"line 3, column 'paid': the time is missing"),
        ("2024-01-01", "soon", r"until is 'soon'.* a date such as"),
        ("2024-01-01", "0%", r"between 0% and 100%"),
        ("2024-01-01", "2020-01-01", r"no edge is before 2020-01-01 00:00:00; the first is at 2024-01-01"),
    ],
)
def test_wrong_times_are_one_line(spoil: str, until: str | None, said: str, edges: Path) -> None:
    edges.write_text(edges.read_text().replace("a,b,2024-01-01,", f"a,b,{spoil},"))
    with pytest.raises(GraphError, match=said):
        dssl.data.load.read_graph(options(edges, until=until))


def test_times_with_and_without_a_zone_are_not_mixed(edges: Path) -> None:
    edges.write_text(edges.read_text().replace("a,b,2024-01-01,", "a,b,2024-01-01 10:00:00Z,"))
    with pytest.raises(GraphError, match=r"the column mixes times with and without a zone; use one of them"):
        dssl.data.load.read_graph(options(edges))


def test_later_ids_that_are_text_are_unknown_where_the_graph_has_integers(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("source,target,t\n1,2 ,1\n2,3,2\n1,3,8\n3,new,9\n")
    given = ReadOptions(source=str(tmp_path / "e.csv"), time_column="t", until="5", trim=True)
    graph = dssl.data.load.read_graph(given)
    later = read_later(given, graph)
    assert graph.ids.to_pylist() == [1, 2, 3]
    assert (later.pairs.tolist(), later.unknown) == ([[0, 2]], 1)


def test_until_needs_a_column(edges: Path) -> None:
    with pytest.raises(GraphError, match="name it with time_column"):
        dssl.load(edges, until="50%", source_column="payer", target_column="payee")
    with pytest.raises(GraphError, match="cannot be both weight and time"):
        dssl.load(edges, time_column="amount", weight_column="amount", source_column="payer", target_column="payee")


def test_columns_that_are_not_read_are_offered_by_their_content(edges: Path) -> None:
    edges.write_text(edges.read_text().replace(",amount", ",amount,channel").replace(".0\n", ".0,web\n"))
    graph = dssl.load(edges, source_column="payer", target_column="payee")
    note = "3 edge columns left out: 'paid' (--time-column), 'amount' (--weight-column), 'channel' (--kind-column)"
    assert note in map(str, graph.history)
