"""The Graph value: what it holds, what it records, what it refuses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph
from tests import graphs


def rows(graph: Graph) -> list[list[int]]:
    return [graph.indices[a:b].tolist() for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]


def test_an_undirected_graph_holds_both_directions():
    graph = graphs.path()
    assert rows(graph) == [[1], [0, 2], [1, 3], [2]]
    assert (graph.num_nodes, graph.num_edges, graph.num_arcs) == (4, 3, 6)
    assert graph.history == ()


def test_a_directed_graph_holds_the_given_one():
    graph = graphs.directed()
    assert rows(graph) == [[1, 2], [2], [0]]
    assert graph.num_edges == 4
    assert graph.degrees.tolist() == [2, 1, 1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("self_loops", ["remove", "keep"])
def test_loops_and_repeats_are_recorded_and_weights_added(directed, self_loops):
    source, target, weights = [0, 1, 0, 2, 2], [1, 0, 1, 2, 2], [1, 2, 4, 8, 16]
    graph = Graph.from_edges(source, target, weights=weights, directed=directed, self_loops=self_loops)
    dense = np.zeros((3, 3))
    for s, t, w in zip(source, target, weights, strict=True):
        if s == t:
            dense[s, t] += w * (self_loops == "keep")
        else:
            dense[s, t] += w
            dense[t, s] += w * (not directed)
    assert graph.adjacency().toarray().tolist() == dense.tolist()
    told = {change.what: change.count for change in graph.history}
    loops = 0 if self_loops == "keep" else 2
    assert told.get("self loops removed", 0) == loops
    assert told["repeated edges merged"] == 5 - loops - graph.num_edges
    assert graph.num_self_loops == (1 if self_loops == "keep" else 0)


def test_loops_removed_later_equal_loops_removed_at_once():
    source, target = [0, 1, 1, 2], [1, 1, 2, 2]
    at_once = Graph.from_edges(source, target)
    later = Graph.from_edges(source, target, self_loops="keep").without_self_loops()
    assert rows(later) == rows(at_once)
    assert later.history == at_once.history
    assert later.without_self_loops() is later


def test_loops_are_counted_over_many_rows():
    nodes = 70_000  # more than one of the ranges that are looked at together
    loops = np.array([0, 65_535, 65_536, 69_999])
    graph = Graph.from_edges([*range(nodes - 1), *loops], [*range(1, nodes), *loops], self_loops="keep")
    assert graph.num_self_loops == 4
    assert graph.num_edges == nodes - 1 + 4


def test_making_links_undirected_is_recorded():
    graph = graphs.directed().undirected()
    assert not graph.directed
    assert rows(graph) == [[1, 2], [0, 2], [0, 1]]
    assert [str(change) for change in graph.history] == ["2 arcs added to make the links undirected"]
    assert graphs.path().undirected().history == ()


@pytest.mark.parametrize("make", graphs.ALL)
def test_the_value_is_immutable(make):
    graph = make()
    for array in (graph.indptr, graph.indices, graph.weights, graph.y):
        if array is not None:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(AttributeError):
        graph.name = "other"


def test_the_inputs_are_copied():
    x, y = np.ones((2, 1), np.float32), np.array([0, 1])
    graph = Graph.from_edges([0], [1], x=x, y=y)
    x[:] = 7
    y[:] = 0
    assert graph.x.tolist() == [[1], [1]]
    assert graph.y.tolist() == [0, 1]


def test_positions_of_ids():
    assert graphs.disconnected().positions([50, 10]).tolist() == [4, 0]
    with pytest.raises(GraphError, match="no node with the id 7"):
        graphs.disconnected().positions([10, 7])
    with pytest.raises(GraphError, match="node ids are integers, not text such as '10'"):
        graphs.disconnected().positions(["10"])
    assert graphs.path().positions([]).shape == (0,)  # of no type


@pytest.mark.parametrize("weights", [["a", "b"], [[1.0], [1.0, 2.0]], [1.0, {}]])
def test_weights_that_are_no_numbers_are_refused(weights):
    with pytest.raises(GraphError, match="the weights are not numbers"):
        Graph.from_edges([0, 1], [1, 2], weights=weights)


@pytest.mark.parametrize("make", graphs.ALL)
def test_the_fingerprint_is_of_the_content(make):
    graph = make()
    sliced = pa.concat_arrays([graph.ids, graph.ids])[graph.num_nodes :]  # the same ids elsewhere in memory
    assert graph.fingerprint() == make().replace(name="other", ids=sliced).fingerprint()
    assert graph.fingerprint() != graph.replace(ids=pa.array(range(1000, 1000 + graph.num_nodes))).fingerprint()
    assert len({other().fingerprint() for other in graphs.ALL}) == len(graphs.ALL)


def test_ids_that_join_alike_have_other_fingerprints():
    one, other = (Graph.from_edges([0], [1], ids=ids) for ids in (["ab", "c"], ["a", "bc"]))
    assert one.fingerprint() != other.fingerprint()


def test_sparse_features_stay_sparse():
    graph = Graph.from_edges([0], [1], x=sparse.coo_matrix(([1.0, 2.0], ([0, 0], [3, 3])), shape=(2, 5)))
    assert isinstance(graph.x, sparse.csr_array)
    assert graph.x.toarray().tolist() == [[0, 0, 0, 3, 0], [0] * 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": [], "target": []}, "has no nodes"),
        ({"source": [0, 1], "target": [1]}, "2 sources for 1 targets"),
        ({"source": [0.5], "target": [1]}, "positions"),
        ({"source": [-1], "target": [1]}, "position -1"),
        ({"source": [2**33], "target": [1]}, "position 8589934592"),
        ({"source": [0], "target": [5], "num_nodes": 3}, "names position 5, but there are 3 nodes"),
        ({"source": [0], "target": [1], "weights": [1, 2]}, "2 weights for 1 edges"),
        ({"source": [0, 0], "target": [1, 1], "weights": [-1, 5]}, "a weight is -1.0"),
        ({"source": [0], "target": [1], "weights": [np.nan]}, "a weight is nan"),
        ({"source": [0], "target": [1], "weights": [np.inf]}, "a weight is inf"),
        ({"source": [0], "target": [1], "ids": ["a"]}, "position 1, but there are 1 nodes"),
        ({"source": [0], "target": [1], "ids": ["a", "a"]}, "the node id 'a' occurs more than once"),
        ({"source": [0], "target": [1], "ids": [7, 7]}, "the node id 7 occurs more than once"),
        ({"source": [0], "target": [1], "ids": ["a", None]}, "a node id is missing"),
        ({"source": [0], "target": [1], "ids": ["a", 1]}, "all strings or all integers"),
        ({"source": [0], "target": [1], "ids": [0.5, 1.5]}, "node ids are of type double"),
        ({"source": [0], "target": [1], "ids": [2**63, 1]}, "below 2\\*\\*63"),
        ({"source": [0], "target": [1], "x": [[1.0], [np.nan]]}, "feature '0' of node 1 is NaN or infinite"),
        ({"source": [0], "target": [1], "x": [[1.0]], "num_nodes": 2}, r"features of shape \(1, 1\)"),
        ({"source": [0], "target": [1], "x": [["a"], ["b"]]}, "features are not an array of numbers"),
        ({"source": [0], "target": [1], "x": np.ones((2, 2)), "feature_names": ["a"]}, "1 feature names for 2"),
        ({"source": [0], "target": [1], "y": [0]}, "position 1, but there are 1 nodes"),
        ({"source": [0], "target": [1], "y": [0, 0.5]}, "labels are of type float64"),
        ({"source": [0], "target": [1], "y": [0, -2]}, "a label is -2"),
        ({"source": [0], "target": [1], "y": [0, 3], "class_names": ["a"]}, "label 3 is outside the 1 class names"),
    ],
)
def test_bad_parts_are_refused_in_one_line(arguments, message):
    with pytest.raises(GraphError, match=message) as caught:
        Graph.from_edges(**arguments)
    assert "\n" not in str(caught.value)


def test_not_finite_sparse_features_are_named():
    x = sparse.csr_array(([np.inf], ([1], [2])), shape=(2, 3))
    with pytest.raises(GraphError, match="feature 'c' of node 'n' is NaN or infinite"):
        Graph.from_edges([0], [1], x=x, ids=["m", "n"], feature_names=["a", "b", "c"])
