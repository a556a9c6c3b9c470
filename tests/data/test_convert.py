"""Graphs of other libraries, there and back."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data, HeteroData

from dssl.data.convert import from_networkx, from_pyg, from_scipy, to_pyg
from dssl.data.load import load
from dssl.errors import GraphError
from dssl.graph import Graph
from tests import graphs


def assert_same(one: Graph, other: Graph) -> None:
    assert one.fingerprint() == other.fingerprint()
    assert (one.feature_names, one.class_names) == (other.feature_names, other.class_names)


@pytest.mark.parametrize("make", graphs.ALL)
def test_to_pyg_and_back(make):
    graph = make()
    data = to_pyg(graph)
    assert data.validate()
    assert data.num_nodes == graph.num_nodes
    assert data.edge_index.shape == (2, graph.num_arcs)
    if graph.num_arcs:  # a graph without links is both
        assert_same(from_pyg(data), graph)
    assert_same(from_pyg(data, directed=graph.directed), graph)


def test_sparse_features_and_self_loops_survive_pyg():
    graph = Graph.from_edges(
        [0, 1, 2], [1, 2, 2], self_loops="keep", weights=[1, 2, 5], x=sparse.eye_array(3, 7, format="csr")
    )
    data = to_pyg(graph)
    assert data.x.is_sparse
    assert_same(from_pyg(data, self_loops="keep"), graph)


def test_pyg_arrays_are_copies():
    graph = graphs.two_blocks()
    to_pyg(graph).x[:] = 0
    assert graph.x.any()


def test_pyg_data_of_others():
    data = Data(
        x=torch.ones(4, 1, requires_grad=True),
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]),
        edge_attr=torch.tensor([[1.0], [1.0], [3.0]]),
        y=torch.tensor([[0], [1], [-1], [0]]),
    )
    graph = from_pyg(data)
    assert graph.directed  # 1 -> 2 has no way back
    assert graph.num_nodes == 4  # node 3 has no links
    assert graph.adjacency().toarray().tolist() == [[0, 1, 0, 0], [1, 0, 3, 0], [0] * 4, [0] * 4]
    assert graph.y.tolist() == [0, 1, -1, 0]
    undirected = from_pyg(data, directed=False)
    assert undirected.num_edges == 2
    assert [change.what for change in undirected.history] == ["arcs added to make the links undirected"]
    assert from_pyg(Data(num_nodes=2)).num_edges == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (HeteroData(), "HeteroData is not a homogeneous Data"),
        (Data(edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1, 3)), "edge_attr has 3 columns"),
        (Data(edge_index=torch.tensor([[0], [1]]), y=torch.ones(2, 3)), "y has 3 columns"),
        (Data(edge_index=torch.tensor([[0], [1]]), y=torch.ones(2)), "labels are of type float32"),
        (Data(edge_index=torch.tensor([[0], [1]]), edge_weight=torch.tensor([-1.0])), "a weight is -1.0"),
        (Data(edge_index=torch.tensor([[0], [1]]), x=torch.tensor([[1.0], [torch.nan]])), "feature '0' of node 1 is"),
        (Data(), "has no nodes"),
    ],
)
@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes'")
def test_bad_pyg_data(data, message):
    with pytest.raises(GraphError, match=message):
        from_pyg(data)


def test_from_networkx():
    source = nx.Graph(name="friends")
    source.add_node("b", label="x", age=1.0)
    source.add_node("a", age=3.0)
    source.add_node("alone", label="y", age=5.0)
    source.add_edge("a", "b", weight=2.5)
    source.add_edge("b", "b", weight=1)
    graph = from_networkx(source)
    assert graph.name == "friends"
    assert graph.ids.to_pylist() == ["b", "a", "alone"]  # the order of NetworkX
    assert graph.adjacency().toarray().tolist() == [[0, 2.5, 0], [2.5, 0, 0], [0, 0, 0]]
    assert (graph.y.tolist(), graph.class_names) == ([0, -1, 1], ("x", "y"))
    np.testing.assert_allclose(graph.x[:, 0], [-1.2247449, 0, 1.2247449])
    assert graph.encoding.names == ("age",)
    assert [str(change) for change in graph.history] == ["1 self loops removed"]


def test_directed_and_parallel_edges_of_networkx():
    graph = from_networkx(nx.MultiDiGraph([(7, 3), (7, 3), (3, 9)]))
    assert graph.directed
    assert graph.ids.to_pylist() == [7, 3, 9]
    assert graph.num_edges == 2
    assert [str(change) for change in graph.history] == ["1 repeated edges merged"]


def test_attributes_of_networkx_by_name():
    source = nx.path_graph(3)
    nx.set_node_attributes(source, {0: "a", 1: "b", 2: "a"}, "kind")
    nx.set_node_attributes(source, {i: np.array([i, 1.0]) for i in range(3)}, "vector")
    nx.set_edge_attributes(source, 4, "strength")
    graph = from_networkx(source, label="kind", features=["vector"], weight="strength")
    assert graph.y.tolist() == [0, 1, 0]
    assert graph.x.tolist() == [[0, 1], [1, 1], [2, 1]]
    assert set(graph.weights.tolist()) == {4}
    assert from_networkx(source, features=[]).x is None


def weighted(value):
    graph = nx.path_graph(3)
    graph.add_edge(0, 1, weight=value)
    return graph


def with_ages(*ages):
    graph = nx.empty_graph(len(ages))
    nx.set_node_attributes(graph, dict(enumerate(ages)), "age")
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (nx.Graph([("a", 1)]), {}, "the node 1 is of type int; ids are all strings or all integers"),
        (nx.Graph([((0, 0), (0, 1))]), {}, r"the node \(0, 0\) is of type tuple.*relabel_nodes"),
        (nx.Graph(), {}, "has no nodes"),
        (weighted(-1), {}, r"the 'weight' of the edge \(0, 1\) is -1"),
        (weighted(float("nan")), {}, r"the 'weight' of the edge \(0, 1\) is nan"),
        (weighted("x"), {}, r"the 'weight' of the edge \(0, 1\) is 'x'"),
        (weighted(1), {}, r"the 'weight' of the edge \(1, 2\) is None"),
        (nx.path_graph(2), {"weight": "w"}, "no edge has the attribute 'w'"),
        (nx.path_graph(2), {"label": "kind"}, r"no node has the attribute 'kind'; there are \[\]"),
        (with_ages(1.0, float("inf")), {}, "attribute 'age' of node 1: inf cannot be a feature"),
        (with_ages(1.0, "old"), {}, "the node attribute 'age' mixes float, str"),
        (with_ages(1, 2**70), {}, r"a node attribute 'age' is 2\*\*63 or more"),
        (nx.Graph([(0, 2**70)]), {}, r"the node \d+ is 2\*\*63 or more"),
    ],
)
def test_bad_networkx(graph, options, message):
    with pytest.raises(GraphError, match=message) as caught:
        from_networkx(graph, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.coo_array, sparse.csc_array, sparse.lil_matrix])
def test_a_symmetric_matrix_is_an_undirected_graph(kind):
    matrix = kind(np.array([[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]]))
    graph = from_scipy(matrix, x=np.eye(3), y=[0, 1, -1], ids=["a", "b", "c"])
    assert (graph.num_edges, graph.history) == (2, ())
    np.testing.assert_array_equal(graph.adjacency().toarray(), matrix.toarray())
    assert graph.ids == pa.array(["a", "b", "c"])
    assert graph.y.tolist() == [0, 1, -1]


def test_another_matrix_is_made_symmetric_and_this_is_recorded():
    matrix = sparse.csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    graph = from_scipy(matrix)
    assert graph.num_edges == 2
    assert [str(change) for change in graph.history] == ["2 arcs added to make the links undirected"]
    assert from_scipy(matrix, directed=True).history == ()
    assert graph.weights is None  # ones only


def test_stored_zeros_are_no_links():
    matrix = sparse.coo_array(([0.0, 1.0, 1.0], ([0, 0, 1], [2, 1, 0])), shape=(3, 3))
    assert from_scipy(matrix).num_edges == 1


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (sparse.csr_array((2, 3)), r"\(2, 3\)\) is not a square"),
        (np.eye(2), "is not a square SciPy sparse matrix"),
        (sparse.csr_array(np.array([[0, -2.0], [0, 0]])), r"the weight at \(0, 1\) is -2.0"),
        (sparse.csr_array(np.array([[0, 0], [np.nan, 0]])), r"the weight at \(1, 0\) is nan"),
        (sparse.csr_array((0, 0)), "has no nodes"),
    ],
)
def test_bad_matrices(matrix, message):
    with pytest.raises(GraphError, match=message):
        from_scipy(matrix)


@pytest.mark.parametrize("parts", [([1], [0], [0, 2, 1, 1]), ([1], [7], [0, 1, 1, 1]), ([1], [-1], [0, 1, 1, 1])])
def test_a_matrix_whose_parts_do_not_fit_is_refused(tmp_path, parts):
    matrix = sparse.csr_array((3, 3))
    matrix.data, matrix.indices, matrix.indptr = (np.array(part) for part in parts)
    with pytest.raises(GraphError, match="the adjacency is damaged"):
        from_scipy(matrix)
    path = tmp_path / "a.npz"
    np.savez(path, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=(3, 3), format=b"csr")
    with pytest.raises(GraphError, match="is not a SciPy sparse matrix"):
        load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": np.int64(3)},
        {"shape": (10**12, 10**12)},
        {"data": np.array(["a"])},
        {"data": np.array([(1, 2.0)], "i4,f8")},
    ],
)
def test_a_matrix_file_with_wrong_parts_is_refused(tmp_path, change):
    parts = {"data": np.ones(1), "indices": np.zeros(1, np.int32), "indptr": np.array([0, 1, 1, 1]), "shape": (3, 3)}
    path = tmp_path / "a.npz"
    np.savez(path, **{**parts, **change}, format=b"csr")
    with pytest.raises(GraphError, match="is not a SciPy sparse matrix"):
        load(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(GraphError):
        load(path)


def test_what_is_no_graph_is_refused_in_one_line():
    with pytest.raises(GraphError, match="NoneType is not a NetworkX graph"):
        from_networkx(None)
    with pytest.raises(GraphError, match="num_nodes is '3'"):
        Graph.from_edges([0], [1], num_nodes="3")
    with pytest.raises(GraphError, match="a label is 2147483648; classes are numbered from 0"):
        Graph.from_edges([0], [1], y=[0, 2**31])
    with pytest.raises(GraphError, match="give two rows"):
        from_pyg(Data(edge_index=torch.tensor([[0, 1]]), num_nodes=2))
    assert Graph.from_edges([0], [1]).replace(x=np.ones((2, 1))).x.dtype == np.float32
