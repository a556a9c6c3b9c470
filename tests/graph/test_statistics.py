"""Each measure against a literal loop over its definition, and on graphs whose values are known by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.statistics import homophily, neighborhood_similarity, summary


def rows(graph: Graph, *, loops: bool) -> list[tuple[int, int]]:
    """The rows between labelled nodes, one by one."""
    return [
        (i, int(j))
        for i in range(graph.num_nodes)
        for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if graph.y[i] >= 0 and graph.y[j] >= 0 and (loops or i != j)
    ]


def literal_edge(graph: Graph) -> float:
    found = rows(graph, loops=True)
    return sum(graph.y[i] == graph.y[j] for i, j in found) / len(found) if found else math.nan


def literal_class_average(graph: Graph) -> float:
    found = rows(graph, loops=False)
    classes = sorted({int(label) for label in graph.y if label >= 0})
    if len(classes) < 2 or not found:
        return math.nan
    labelled = sum(label >= 0 for label in graph.y)
    total = 0.0
    for k in classes:
        degree = sum(graph.y[i] == k for i, _ in found)
        same = sum(graph.y[i] == k and graph.y[j] == k for i, j in found)
        share = sum(label == k for label in graph.y) / labelled
        total += max((same / degree if degree else 0) - share, 0)
    return total / (len(classes) - 1)


def literal_node(graph: Graph) -> float:
    found = rows(graph, loops=False)
    shares = []
    for node in range(graph.num_nodes):
        neighbours = [j for i, j in found if i == node]
        if neighbours:
            shares.append(sum(graph.y[j] == graph.y[node] for j in neighbours) / len(neighbours))
    return sum(shares) / len(shares) if shares else math.nan


def literal_adjusted(graph: Graph) -> float:
    found = rows(graph, loops=False)
    if not found:
        return math.nan
    ends = [graph.y[i] for i, _ in found] + [graph.y[j] for _, j in found]
    chance = sum((ends.count(k) / len(ends)) ** 2 for k in set(ends))
    if chance == 1:
        return math.nan
    return (sum(graph.y[i] == graph.y[j] for i, j in found) / len(found) - chance) / (1 - chance)


def literal_similarity(graph: Graph) -> np.ndarray:
    found = rows(graph, loops=False)
    histograms: dict[int, np.ndarray] = {}
    for i, j in found:
        histograms.setdefault(i, np.zeros(graph.num_classes))[graph.y[j]] += 1
    result = np.full((graph.num_classes, graph.num_classes), np.nan)
    for c in range(graph.num_classes):
        for d in range(graph.num_classes):
            cosines = [
                histograms[i] @ histograms[j] / np.linalg.norm(histograms[i]) / np.linalg.norm(histograms[j])
                for i in histograms
                for j in histograms
                if graph.y[i] == c and graph.y[j] == d
            ]
            if cosines:
                result[c, d] = sum(cosines) / len(cosines)
    return result


def random_graph(seed: int, *, directed: bool, nodes: int = 14, edges: int = 30, classes: int = 3) -> Graph:
    rng = np.random.default_rng(seed)
    ends = rng.integers(nodes, size=(2, edges))  # some are self loops
    y = rng.integers(-1, classes, size=nodes)  # some nodes are unlabelled
    return Graph.from_edges(*ends, num_nodes=nodes, y=y, directed=directed, self_loops="keep")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), directed=st.booleans(), edges=st.integers(0, 40))
def test_measures_equal_a_literal_loop(seed: int, directed: bool, edges: int) -> None:
    graph = random_graph(seed, directed=directed, edges=edges)
    got = homophily(graph)
    wanted = [literal(graph) for literal in (literal_edge, literal_class_average, literal_node, literal_adjusted)]
    np.testing.assert_allclose([got.edge, got.class_average, got.node, got.adjusted], wanted, atol=1e-12)
    np.testing.assert_allclose(neighborhood_similarity(graph), literal_similarity(graph), atol=1e-12)


def test_links_only_inside_classes_are_perfectly_homophilous() -> None:
    two_triangles = Graph.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], y=[0, 0, 0, 1, 1, 1])
    got = homophily(two_triangles)
    assert (got.edge, got.class_average, got.node, got.adjusted) == (1, 1, 1, 1)
    np.testing.assert_allclose(neighborhood_similarity(two_triangles), np.eye(2), atol=1e-12)


def test_bipartite_graph_is_perfectly_heterophilous() -> None:
    square = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], y=[0, 1, 0, 1])
    got = homophily(square)
    assert (got.edge, got.class_average, got.node, got.adjusted) == (0, 0, 0, -1)


def test_complete_graph_is_at_chance() -> None:
    nodes = 40
    source, target = np.triu_indices(nodes, 1)
    y = np.arange(nodes) % 2
    got = homophily(Graph.from_edges(source, target, y=y))
    assert got.edge == pytest.approx((nodes / 2 - 1) / (nodes - 1))
    assert got.class_average == 0  # a node does not count among its own neighbours: just below chance
    assert got.adjusted == pytest.approx(-1 / (nodes - 1))


def test_self_loops_count_in_edge_homophily_only() -> None:
    ends = ([0, 1, 2], [1, 2, 0])
    y = [0, 1, 1]
    plain = homophily(Graph.from_edges(*ends, y=y, directed=True))
    looped = homophily(Graph.from_edges([*ends[0], 0, 1], [*ends[1], 0, 1], y=y, directed=True, self_loops="keep"))
    assert (plain.edge, looped.edge) == (1 / 3, 3 / 5)
    assert (plain.class_average, plain.node, plain.adjusted) == (looped.class_average, looped.node, looped.adjusted)


def test_unlabelled_nodes_change_nothing() -> None:
    graph = random_graph(3, directed=False)
    nodes = graph.num_nodes
    more = Graph.from_edges(
        np.append(graph.sources(), np.arange(nodes)),
        np.append(graph.indices, np.full(nodes, nodes)),
        num_nodes=nodes + 1,
        y=np.append(graph.y, -1),
        self_loops="keep",
    )
    assert homophily(more) == homophily(graph)


def test_renaming_nodes_and_classes_changes_nothing() -> None:
    graph = random_graph(5, directed=True)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    names = np.array([2, 0, 1, -1])  # the last one is for label −1
    y = np.empty_like(graph.y)
    y[order] = names[graph.y]
    moved = Graph.from_edges(
        order[graph.sources()], order[graph.indices], num_nodes=graph.num_nodes, y=y, directed=True, self_loops="keep"
    )
    before, after = homophily(graph), homophily(moved)
    for name in ("edge", "class_average", "node", "adjusted"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), abs=1e-12)


@pytest.mark.parametrize(
    ("y", "undefined"),
    [([0, 0, 0], {"class_average", "adjusted"}), ([-1, -1, -1], {"edge", "class_average", "node", "adjusted"})],
    ids=["one class", "no label known"],
)
def test_undefined_measures_are_nan(y: list[int], undefined: set[str]) -> None:
    got = homophily(Graph.from_edges([0, 1], [1, 2], y=y))
    assert {
        name for name in ("edge", "class_average", "node", "adjusted") if math.isnan(getattr(got, name))
    } == undefined


def test_similarity_of_a_class_without_neighbours_is_nan() -> None:
    similarity = neighborhood_similarity(Graph.from_edges([0], [1], num_nodes=3, y=[0, 0, 1]))
    np.testing.assert_array_equal(similarity, [[1, np.nan], [np.nan, np.nan]])


def test_no_labels_is_one_line() -> None:
    graph = Graph.from_edges([0], [1], name="mine")
    for measure in (homophily, neighborhood_similarity):
        with pytest.raises(GraphError, match=r"^graph 'mine' has no labels; .*$"):
            measure(graph)


def test_summary_of_a_graph_known_by_hand() -> None:
    graph = Graph.from_edges(
        [0, 1, 2, 3],
        [1, 2, 2, 4],
        num_nodes=7,
        x=sparse.csr_array(([1.0, 0.0, 2.0], ([0, 1, 2], [0, 0, 1])), shape=(7, 2)),  # one stored zero
        y=[0, 0, 1, 1, 1, -1, -1],
        directed=True,
        self_loops="keep",
        name="small",
    )
    got = summary(graph)
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    assert got == {
        "name": "small",
        "nodes": 7,
        "edges": 4,
        "arcs": 4,
        "directed": True,
        "weighted": False,
        "self_loops": 1,
        "isolated_nodes": 2,
        "components": 4,
        "largest_component": 3,
        "mean_degree": 4 / 7,
        "max_degree": 1,
        "features": 2,
        "feature_storage": "sparse",
        "feature_density": 2 / 14,
        "nodes_without_features": 5,
        "classes": 2,
        "labelled_nodes": 5,
        "class_sizes": [2, 3],
        "edge_homophily": 3 / 4,
        "class_average_homophily": pytest.approx(0.5 - 0.4 + 1 - 0.6),
        "node_homophily": 2 / 3,
        "adjusted_homophily": pytest.approx((2 / 3 - 1 / 2) / (1 - 1 / 2)),
        "history": [],
    }


def test_summary_counts_an_undirected_link_once() -> None:
    got = summary(Graph.from_edges([0, 1, 1], [1, 0, 2], weights=[0.0, 0.0, 1.0]))
    assert (got["edges"], got["arcs"], got["components"], got["weighted"]) == (2, 4, 1, True)  # weight 0 is a link
    assert got["history"] == ["1 repeated edges merged"]


@pytest.mark.parametrize("y", [None, [-1, -1]], ids=["no labels", "none known"])
def test_summary_without_features_or_labels(y: list[int] | None) -> None:
    got = summary(Graph.from_edges([0], [1], y=y))
    assert (got["features"], got["classes"], got["edge_homophily"], got["feature_storage"]) == (0, 0, None, None)


def test_summary_of_one_node_without_links() -> None:
    got = summary(Graph.from_edges([], [], num_nodes=1, x=[[0.0, 3.0]], y=[0]))
    assert (got["nodes"], got["edges"], got["components"], got["isolated_nodes"]) == (1, 0, 1, 1)
    assert (got["feature_storage"], got["feature_density"], got["edge_homophily"]) == ("dense", 0.5, None)
