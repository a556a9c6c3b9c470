from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dssl
from dssl.errors import GraphError
from dssl.graph import Graph

EDGES = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 3.0]}
NODES = {"id": ["a", "b", "c"], "size": [1.0, 2.0, 6.0], "kind": ["x", "y", "x"]}


@pytest.mark.parametrize("directed", [False, True])
def test_an_extended_graph_is_the_graph_of_all_rows(directed: bool) -> None:
    old = dssl.from_tables(EDGES, NODES, directed=directed)
    new = {"source": ["d", "a", "d"], "target": ["a", "b", "e"], "weight": [1.0, 4.0, 2.0]}
    rows = {"id": ["e", "d"], "size": [4.0, 5.0], "kind": ["y", "z"]}
    grown = dssl.extend(old, new, rows)
    both = {name: [*EDGES[name], *new[name]] for name in EDGES}
    everything = {name: [*NODES[name], *rows[name]] for name in NODES}
    whole = dssl.from_tables(both, everything, directed=directed, encoding=old.encoding)
    assert grown.fingerprint() == whole.fingerprint()
    assert [str(change) for change in grown.history] == ["1 repeated edges merged", "2 nodes added", "2 edges added"]


def test_a_row_of_a_known_node_replaces_its_features() -> None:
    old = dssl.from_tables(EDGES, NODES)
    grown = dssl.extend(
        old,
        {"source": ["d"], "target": ["a"], "weight": [1.0]},
        {"id": ["d", "b"], "size": [1.0, 6.0], "kind": ["x", "x"]},
    )
    assert isinstance(grown.x, np.ndarray)
    np.testing.assert_array_equal(grown.x[1], grown.x[2])  # b has become like c
    np.testing.assert_array_equal(grown.x[3], grown.x[0])  # d is like a
    assert "1 rows of known nodes replaced" in [str(change) for change in grown.history]


def test_sparse_features_stay_sparse() -> None:
    many = {"id": [f"n{i}" for i in range(40)], "kind": [f"k{i % 20}" for i in range(40)]}
    old = dssl.from_tables({"source": many["id"][:-1], "target": many["id"][1:]}, many)
    assert not isinstance(old.x, np.ndarray)
    grown = dssl.extend(old, {"source": ["n0"], "target": ["m"]}, {"id": ["m"], "kind": ["k3"]})
    assert grown.x is not None
    assert not isinstance(grown.x, np.ndarray)
    np.testing.assert_array_equal(grown.x[[40]].toarray(), grown.x[[3]].toarray())


def test_digits_are_ids_of_the_type_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n7,8\n8,9\n")
    text = Graph.from_edges([0], [1], ids=["7", "x"])
    assert dssl.extend(text, tmp_path / "edges.csv").ids.to_pylist() == ["7", "x", "8", "9"]
    numbers = Graph.from_edges([0], [1], ids=[7, 5])
    assert dssl.extend(numbers, tmp_path / "edges.csv").ids.to_pylist() == [7, 5, 8, 9]
    with pytest.raises(GraphError, match=r"ids are text \(such as 'q'\), but those of the graph are integers"):
        dssl.extend(numbers, {"source": ["q"], "target": ["r"]})


def test_parts_that_do_not_fit_are_refused() -> None:
    old = dssl.from_tables(EDGES, NODES)
    more = {"source": ["d"], "target": ["a"]}
    with pytest.raises(GraphError, match="has no weights, but graph 'graph' has; name their column"):
        dssl.extend(old, more)
    with pytest.raises(GraphError, match="'d' is new and needs its columns, but no node table is given; give one"):
        dssl.extend(old, {**more, "weight": [1.0]})
    plain = dssl.from_tables({"source": ["a"], "target": ["b"]})
    with pytest.raises(GraphError, match="has weights, but graph 'graph' has none"):
        dssl.extend(plain, {**more, "weight": [1.0]})
    with pytest.raises(GraphError, match="has 1 features, but graph 'graph' has none"):
        dssl.extend(plain, more, {"id": ["d", "e"], "size": [1.0, 2.0]})
    own = plain.replace(x=np.eye(2, dtype=np.float32))
    with pytest.raises(GraphError, match="do not come from a node table"):
        dssl.extend(own, more, {"id": ["d"], "size": [1.0]})


def test_kinds_of_edges_keep_their_names() -> None:
    old = dssl.from_tables(
        {"source": ["a", "b"], "target": ["b", "c"], "rel": ["pays", "owns"]}, kind_column="rel", directed=True
    )
    new = {"source": ["d", "d"], "target": ["a", "b"], "rel": ["pays", "calls"]}
    grown = dssl.extend(old, new, kind_column="rel")
    assert grown.kinds is not None
    assert grown.kind_names is not None
    names = [grown.kind_names[code] for code in grown.kinds]
    ends = zip(grown.sources().tolist(), grown.indices.tolist(), strict=True)
    assert dict(zip(ends, names, strict=True)) == {
        (0, 1): "pays",
        (1, 2): "owns",
        (3, 0): "pays",
        (3, 1): "calls",
    }
    without = dssl.extend(old, {"source": ["d"], "target": ["a"]})
    assert without.kinds is not None
    assert without.kinds.tolist()[-1] == -1


def test_spaces_around_ids_are_removed_on_request(tmp_path: Path) -> None:
    old = Graph.from_edges([0], [1], ids=["a", "b"])
    (tmp_path / "edges.csv").write_text("source,target\n a,c \n")
    assert dssl.extend(old, tmp_path / "edges.csv", trim=True).ids.to_pylist() == ["a", "b", "c"]
    assert dssl.extend(old, tmp_path / "edges.csv").num_nodes == 4


def test_repeated_edges_are_counted_on_request() -> None:
    edges = {"source": ["a", "a", "b"], "target": ["b", "b", "c"]}
    assert dssl.from_tables(edges).weights is None
    counted = dssl.from_tables(edges, count_edges=True)
    assert counted.adjacency().toarray()[:2].tolist() == [[0, 2, 0], [2, 0, 1]]
    grown = dssl.extend(counted, {"source": ["a", "d", "d"], "target": ["b", "a", "a"]}, count_edges=True)
    assert grown.adjacency().toarray()[0].tolist() == [0, 3, 0, 2]
    with pytest.raises(GraphError, match="has weights, which add up already"):
        dssl.from_tables({**edges, "weight": [1.0, 1.0, 1.0]}, count_edges=True)


def test_a_column_that_may_be_the_weight_is_named() -> None:
    edges = {"source": ["a"], "target": ["b"], "amount": [3.0], "rel": ["pays"]}
    assert [str(change) for change in dssl.from_tables(edges, kind_column="rel").history] == [
        "1 edge column left out: 'amount' (--weight-column)"
    ]
    assert not dssl.from_tables(edges, kind_column="rel", weight_column="amount").history
