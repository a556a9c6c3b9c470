"""Features made from the links."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.link_features import INDUCTIVE, KINDS, choose, structural_features, svd_features
from dssl.runtime.scale import BY_BLOCKS
from tests import graphs

BARE = [make for make in graphs.ALL if make().x is None]


def degree_by_hand(neighbours: list[list[int]]) -> np.ndarray:
    own = [np.log(1 + len(row)) for row in neighbours]
    mean = [np.mean([own[j] for j in row]) if row else 0 for row in neighbours]
    columns = []
    for i, row in enumerate(neighbours):
        near = [own[j] for j in row] or [0]
        two = np.mean([mean[j] for j in row]) if row else 0
        columns.append([own[i], mean[i], np.std(near), min(near), max(near), two])
    return np.array(columns)


def neighbours(matrix) -> list[list[int]]:
    return [np.flatnonzero(row).tolist() for row in matrix.toarray()]


@pytest.mark.parametrize("make", BARE)
def test_degree_features_equal_those_by_hand(make):
    graph = make()
    expected = degree_by_hand(neighbours(graph.adjacency()))
    if graph.directed:
        expected = np.hstack([expected, degree_by_hand(neighbours(graph.adjacency().T))])
    made = structural_features(graph, "degree")
    np.testing.assert_allclose(made.x, expected, atol=1e-6)
    assert len(set(made.feature_names)) == made.num_features


@pytest.mark.parametrize("make", BARE)
@pytest.mark.parametrize("kind", [*KINDS, "auto"])
def test_every_kind_works_on_every_graph_and_is_recorded(make, kind):
    graph = make()
    made = structural_features(graph, kind, dim=3)
    assert made.x.shape == (graph.num_nodes, made.num_features)
    assert made.num_features > 0
    assert made.x.dtype == np.float32
    assert made.history[:-1] == graph.history
    assert made.history[-1].count == made.num_features
    assert choose(graph, kind) in made.history[-1].what
    again = structural_features(make(), kind, dim=3)
    values = [x.toarray() if sparse.issparse(x) else x for x in (made.x, again.x)]
    assert values[0].tobytes() == values[1].tobytes()


def test_the_default():
    assert choose(graphs.path()) == "svd"
    assert choose(graphs.no_edges()) == choose(graphs.one_node()) == "degree"
    assert "svd" not in INDUCTIVE


def test_svd_gives_back_the_normalised_adjacency():
    graph = graphs.path()
    x = structural_features(graph, "svd", dim=64).x
    assert x.shape == (4, 4)  # no more columns than nodes
    dense = graph.adjacency().toarray()
    scale = 1 / np.sqrt(dense.sum(axis=1))
    normalised = scale[:, None] * dense * scale
    np.testing.assert_allclose(x @ x.T / 4, normalised @ normalised.T, atol=1e-6)  # U S (U S)' = M M'


def test_svd_of_a_directed_graph_has_both_sides():
    made = structural_features(graphs.directed(), "svd", dim=2)
    assert made.feature_names == ("svd out 0", "svd in 0")
    assert structural_features(graphs.directed(), "svd", dim=made.num_features).x.tobytes() == made.x.tobytes()


def test_svd_of_a_larger_graph_is_deterministic_and_near_the_exact_one():
    rng = np.random.default_rng(0)
    block = rng.integers(0, 4, 600)
    source, target = rng.integers(0, 600, (2, 60_000))
    keep = (block[source] == block[target]) | (rng.random(60_000) < 0.02)
    graph = Graph.from_edges(source[keep], target[keep], num_nodes=600)
    first, second = (structural_features(graph, "svd", dim=4, seed=3).x for _ in range(2))
    assert first.tobytes() == second.tobytes()
    dense = graph.adjacency().toarray().astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(dense.sum(axis=1), 1))
    values = np.linalg.svd(scale[:, None] * dense * scale, compute_uv=False)[:4]
    np.testing.assert_allclose(np.sqrt((first**2).sum(axis=0) / 600), values, rtol=1e-3)


def test_nodes_without_links_get_zeros_from_svd():
    made = structural_features(graphs.isolated_node(), "svd")
    assert made.x[2].tolist() == [0, 0, 0]
    assert not structural_features(graphs.no_edges(), "svd").x.any()


def test_identity_is_sparse():
    made = structural_features(graphs.path(), "identity")
    assert isinstance(made.x, sparse.csr_array)
    np.testing.assert_array_equal(made.x.toarray(), np.eye(4))
    assert made.feature_names == ("node a", "node b", "node c", "node d")


def test_degree_features_do_not_depend_on_the_order_of_nodes():
    graph = graphs.no_features()
    order = np.array([3, 1, 5, 0, 2, 4])
    place = np.argsort(order)
    moved = Graph.from_edges(place[graph.sources()], place[graph.indices], num_nodes=6)
    x, y = structural_features(graph, "degree").x, structural_features(moved, "degree").x
    np.testing.assert_allclose(y, x[order], atol=1e-6)


def test_refusals():
    with pytest.raises(GraphError, match="has 2 features already"):
        structural_features(graphs.two_blocks())
    with pytest.raises(GraphError, match=r"structure 'sdv' is unknown.*did you mean 'svd'"):
        structural_features(graphs.path(), "sdv")


def test_a_large_graph_gets_the_same_columns_by_another_way() -> None:
    draw = np.random.default_rng(4)
    y = draw.integers(3, size=300)
    ends = draw.integers(300, size=(2, 6000))
    graph = Graph.from_edges(*ends[:, (y[ends[0]] == y[ends[1]]) | (draw.random(6000) < 0.03)], num_nodes=301)
    wanted, names = svd_features(graph, 3)
    found, same = svd_features(graph, 3, scale=BY_BLOCKS)
    assert same == names
    # Two eigenvalues are nearly the same, so that their vectors may be turned: what stays are products of rows.
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=0.15)
    assert not found[300].any()  # a node without links
