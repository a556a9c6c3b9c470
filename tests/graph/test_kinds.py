"""Kinds of links: from edges, files and other libraries to the graph, and through every change of its links."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dssl import Graph, from_networkx, from_pyg, from_tables, load, to_pyg
from dssl.errors import GraphError
from dssl.graph import packed
from dssl.graph.kinds import given_arcs, kind_codes

SOURCE, TARGET = [0, 1, 0, 2, 2, 3], [1, 0, 1, 3, 2, 2]
KINDS = ["call", "import", "override", "call", "call", ""]


def graph_with_kinds(*, directed: bool = True, **rest: object) -> Graph:
    return Graph.from_edges(SOURCE, TARGET, kinds=KINDS, directed=directed, **rest)  # type: ignore[arg-type]


def named(graph: Graph) -> dict[tuple[int, int], str | None]:
    assert graph.kinds is not None and graph.kind_names is not None
    names = (*graph.kind_names, None)
    arcs = zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)
    return {arc: names[kind] for arc, kind in zip(arcs, graph.kinds, strict=True)}


def test_the_first_known_kind_of_a_repeated_edge_is_kept_and_recorded() -> None:
    graph = graph_with_kinds()
    assert named(graph) == {(0, 1): "call", (1, 0): "import", (2, 3): "call", (3, 2): None}
    assert "1 repeated edges of another kind, of which the first kind was kept" in map(str, graph.history)


def test_both_directions_of_an_undirected_link_have_one_kind() -> None:
    expected = {(0, 1): "call", (1, 0): "call", (2, 3): "call", (3, 2): "call"}
    assert named(graph_with_kinds(directed=False)) == named(graph_with_kinds().undirected()) == expected


def test_self_loops_keep_their_kind_and_lose_it_with_the_loop() -> None:
    graph = graph_with_kinds(self_loops="keep")
    assert named(graph)[2, 2] == "call"
    assert named(graph.without_self_loops()) == named(graph_with_kinds())


def test_new_links_have_no_kinds() -> None:
    graph = graph_with_kinds()
    assert graph.replace(indices=graph.indices[::-1].copy()).kinds is None
    assert graph.replace(name="other").kinds is graph.kinds


def test_the_fingerprint_depends_on_kinds_and_their_names() -> None:
    graph = graph_with_kinds()
    bare = Graph.from_edges(SOURCE, TARGET, directed=True)
    other = graph.replace(kind_names=("a", "b", "c"))
    assert len({graph.fingerprint(), bare.fingerprint(), other.fingerprint()}) == 3


def test_arcs_between_given_nodes_are_found_in_both_directions() -> None:
    graph = Graph.from_edges([0, 1, 2], [1, 2, 1], kinds=["a", "b", "c"], directed=True)
    forth, back = given_arcs(graph, np.array([0, 1, 1, 2, 0]), np.array([1, 0, 2, 1, 2]))
    assert forth.tolist() == [0, -1, 1, 2, -1]
    assert back.tolist() == [-1, 0, 2, 1, -1]


def test_numbers_are_kinds_in_the_order_of_their_size() -> None:
    codes, names = kind_codes([10, 9, None, 10, float("nan")], "edges")
    assert names == ("9", "10") and codes.tolist() == [1, 0, -1, 1, -1]


@pytest.mark.parametrize(
    ("kinds", "names", "message"),
    [
        (["a"], None, r"kinds of shape \(1,\) for 2 edges; give one per edge"),
        (["", ""], None, "no edge has a kind"),
        ([0, 2], ["a", "b"], "outside the 2 names"),
        ([0.5, 1], ["a", "b"], "outside the 2 names"),
    ],
)
def test_bad_kinds_are_refused(kinds: list[object], names: list[str] | None, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.from_edges([0, 1], [1, 2], kinds=kinds, kind_names=names)  # type: ignore[arg-type]


def test_ids_or_numbers_are_not_kinds() -> None:
    with pytest.raises(GraphError, match=r"300 different kinds.*at most 256 categories"):
        Graph.from_edges(np.arange(300), np.arange(300) + 1, kinds=np.arange(300))


def test_a_packed_graph_keeps_kinds(tmp_path) -> None:
    graph = graph_with_kinds()
    packed.pack(graph, tmp_path / "packed")
    for again in (packed.open_graph(tmp_path / "packed"), packed.read_graph(tmp_path / "packed")):
        assert named(again) == named(graph) and again.fingerprint() == graph.fingerprint()
        assert again.replace(indices=again.indices).kinds is None
    header = tmp_path / "packed" / "header.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"kind_names": ["call"]}))
    with pytest.raises(GraphError, match="kinds is damaged: a kind is outside the names of kinds"):
        packed.open_graph(tmp_path / "packed")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_kind_column_of_a_file_keeps_the_direction(tmp_path, ending: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"from": ["b", "a", "c"], "to": ["a", "b", "a"], "why": ["knows", "pays", None]})
    path = tmp_path / f"edges.{ending}"
    (pyarrow.csv.write_csv if ending == "csv" else pyarrow.parquet.write_table)(table, path)
    for graph in (load(path, kind_column="why"), from_tables(table, kind_column="why")):
        assert graph.directed and graph.weights is None
        assert named(graph) == {(0, 1): "pays", (1, 0): "knows", (2, 0): None}
    assert load(path).kinds is None and not load(path).directed


def test_a_third_column_without_a_name_is_the_kind_if_it_is_named(tmp_path) -> None:
    (tmp_path / "edges.csv").write_text("1,2,5\n2,3,5\n3,1,7\n")
    graph = load(tmp_path / "edges.csv", kind_column="3")
    assert graph.kind_names == ("5", "7") and graph.weights is None


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("from,to,why\na,b,\nb,c,\n", "why", r"column 'why': no edge has a kind"),
        ("from,to,why\na,b,x\n", "to", r"'to' cannot be both target and kind"),
        ("from,to,why\na,b,x\n", "whi", r"no column 'whi' \(kind_column\).*did you mean 'why'"),
    ],
)
def test_a_bad_kind_column_is_refused(tmp_path, text: str, column: str, message: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(GraphError, match=message):
        load(tmp_path / "edges.csv", target_column="to", kind_column=column)


def test_networkx_and_pyg_keep_kinds() -> None:
    import networkx

    many = networkx.MultiDiGraph()
    many.add_edge("a", "b", how="train")
    many.add_edge("a", "b", how="bus")
    many.add_edge("b", "c")
    graph = from_networkx(many, kind="how", name="ways")
    assert named(graph) == {(0, 1): "train", (1, 2): None}
    pytest.importorskip("torch_geometric")
    again = from_pyg(to_pyg(graph), name="ways")
    assert named(again) == named(graph)
    with pytest.raises(GraphError, match="no edge has a kind"):
        from_networkx(many, kind="why")
