from __future__ import annotations

import networkx
import numpy as np
import pytest

from dssl.graph import Graph
from dssl.graph.roles import DIRECTED, NAMES, Roles, role_columns
from dssl.kernels import triangles
from dssl.rng import stream
from tests import graphs
from tests.graphs import random_graph


def test_columns_are_what_their_names_say() -> None:
    graph = random_graph().without_self_loops().undirected()
    a = graph.adjacency().toarray() > 0
    found = role_columns(graph)
    assert found.shape[1] == len(NAMES)
    other = networkx.from_numpy_array(a)
    near = networkx.clustering(other)
    rank = np.ones(len(a))
    degree = a.sum(axis=1)
    for _ in range(40):
        rank = 0.15 + 0.85 * sum(rank[j] / degree[j] * a[j] for j in range(len(a)) if degree[j])
    for i in range(len(a)):
        mine = np.flatnonzero(a[i])
        logs = np.log1p(degree[mine])
        closed = sum(a[p, q] for p in mine for q in mine if p < q)
        pairs = len(mine) * (len(mine) - 1) / 2
        assert pairs <= triangles.PAIRS
        expected = [np.log1p(len(mine)), near[i], np.log1p(closed), np.log(rank[i])]
        expected += [logs.mean(), logs.std(), logs.max(), (degree[mine] == 1).mean()] if len(mine) else [0] * 4
        np.testing.assert_allclose(found[i, :8], expected, atol=2e-3)
        for column, of in ((8, 4), (9, 1), (10, 7)):
            np.testing.assert_allclose(found[i, column], found[mine, of].mean() if len(mine) else 0, atol=1e-4)


def test_a_directed_graph_has_degrees_of_both_directions() -> None:
    graph = graphs.directed()  # 0 -> 1 -> 2 -> 0 and 0 -> 2
    found = role_columns(graph)
    assert found.shape[1] == len(NAMES) + len(DIRECTED)
    out, into = np.log1p([2, 1, 1]), np.log1p([1, 1, 2])
    np.testing.assert_allclose(found[:, 11], out, atol=1e-6)
    np.testing.assert_allclose(found[:, 12], into, atol=1e-6)
    np.testing.assert_allclose(found[:, 13], [(into[1] + into[2]) / 2, into[2], into[0]], atol=1e-6)
    np.testing.assert_allclose(found[:, 14], [out[2], out[0], (out[0] + out[1]) / 2], atol=1e-6)


def test_clustering_of_hubs_is_sampled_near_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = stream(0, "dense")
    graph = Graph.from_edges(draw.integers(120, size=3000), draw.integers(120, size=3000), num_nodes=120)
    sampled = triangles.clustering(graph.indptr, graph.indices, 0)
    exact = networkx.clustering(networkx.from_numpy_array(graph.adjacency().toarray() > 0))
    assert graph.degrees.min() * (graph.degrees.min() - 1) / 2 > triangles.PAIRS
    np.testing.assert_allclose(sampled, list(exact.values()), atol=0.13)  # four deviations of 256 draws
    np.testing.assert_allclose(sampled.mean(), np.mean(list(exact.values())), atol=0.01)


def test_scaling_is_stored_and_repeats() -> None:
    graph = random_graph()
    fitted, found = Roles.fit(graph)
    np.testing.assert_array_equal(Roles.from_arrays(fitted.arrays()).apply(graph), found)
    np.testing.assert_array_equal(Roles.fit(graph)[1], found)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=0.05)  # but for clipping
    assert 0.7 < (found.var(axis=0)).sum() <= 1.001
    assert fitted.names == NAMES


def test_weights_and_self_loops_do_not_matter() -> None:
    plain = Graph.from_edges([0, 1, 2], [1, 2, 3], num_nodes=4)
    other = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 3], num_nodes=4, weights=[1, 5, 0.5, 2], self_loops="keep")
    np.testing.assert_array_equal(role_columns(plain), role_columns(other))


@pytest.mark.parametrize("graph", [graphs.no_edges(), graphs.isolated_node(), graphs.star(), graphs.directed()])
def test_small_graphs_have_finite_roles(graph: Graph) -> None:
    fitted, found = Roles.fit(graph)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(fitted.apply(graph), found)
