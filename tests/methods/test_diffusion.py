"""Sparse diffusion against dense matrix functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from dssl.graph import Graph
from dssl.methods._diffusion import coefficients, diffuse
from tests import graphs
from tests.graphs import random_graph


def dense(graph: Graph, kind: str) -> np.ndarray:
    a = graph.adjacency().toarray() + np.eye(graph.num_nodes)
    d = a.sum(axis=1)
    t = a / np.sqrt(np.outer(d, d))
    found = 0.3 * np.linalg.inv(np.eye(len(a)) - 0.7 * t) if kind == "ppr" else expm(2.0 * (t - np.eye(len(a))))
    return found


@pytest.mark.parametrize("kind", ["ppr", "heat"])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_entries_it_is_the_dense_diffusion(kind: str, weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    theta = coefficients(kind, teleport=0.3, heat_time=2.0)
    made = diffuse(graph, theta, neighbours=100, precision=1e-9)
    found, wanted = made.adjacency().toarray(), dense(graph, kind)
    # The mass that spreads from a node is stored as its row; beside it a loop of weight one stands for the diagonal.
    own = wanted.diagonal().mean()
    np.fill_diagonal(wanted, 0)
    np.testing.assert_allclose(found.T * own, wanted, atol=0.01 * own)
    assert made.x is graph.x


def test_only_the_largest_entries_are_kept() -> None:
    graph = random_graph()
    theta = coefficients("ppr", teleport=0.3, heat_time=1.0)
    few, all_ = (diffuse(graph, theta, neighbours=k, precision=1e-9).adjacency().toarray() for k in (3, 100))
    assert ((few > 0).sum(axis=1) <= 3).all()
    for i in range(graph.num_nodes):
        if (all_[i] > 0).sum() > 3:
            degrees = graph.degrees + 1  # entries are ranked before the symmetric scaling
            mass = all_[i] * np.sqrt(degrees)
            assert mass[few[i] > 0].min() >= np.sort(mass)[-3] * 0.999


def test_less_precision_means_fewer_entries() -> None:
    graph = random_graph()
    theta = coefficients("ppr", teleport=0.2, heat_time=1.0)
    counts = [diffuse(graph, theta, neighbours=100, precision=p).num_arcs for p in (1e-9, 1e-2, 0.5)]
    assert counts[0] > counts[1] > counts[2]


@pytest.mark.parametrize("make", graphs.ALL)
def test_any_graph_diffuses(make: object) -> None:
    graph = make()  # type: ignore[operator]
    made = diffuse(graph, coefficients("heat", teleport=0.2, heat_time=3.0), neighbours=4, precision=1e-4)
    assert made.num_nodes == graph.num_nodes
    assert made.ids.equals(graph.ids)


def test_links_that_weigh_nothing_lead_nowhere() -> None:
    theta = coefficients("ppr", teleport=0.2, heat_time=1.0)
    start, end = np.repeat(np.arange(50), 50), np.tile(np.arange(50), 50)
    nothing = Graph.from_edges(start, end, num_nodes=50, weights=np.zeros(2500))
    assert diffuse(nothing, theta, neighbours=8, precision=1e-9).num_arcs == 0
    some = Graph.from_edges([0, 1, 2], [1, 2, 3], weights=[1.0, 0.0, 2.0])
    made = diffuse(some, theta, neighbours=8, precision=1e-9).adjacency().toarray() > 0
    assert np.argwhere(made).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_coefficients_sum_to_nearly_one() -> None:
    for kind in ("ppr", "heat"):
        assert 0.99 <= coefficients(kind, teleport=0.2, heat_time=5.0).sum() <= 1
