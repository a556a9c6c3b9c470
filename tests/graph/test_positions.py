from __future__ import annotations

import numpy as np
import pytest

from dssl.graph import Graph
from dssl.graph.positions import Positions, link_reliability, regularisation
from dssl.rng import stream
from tests import graphs
from tests.graphs import random_graph


def blocks(*, nodes: int = 400, within: float = 0.9, degree: int = 10, directed: bool = False) -> Graph:
    """Four blocks; a link stays within its block with the given probability."""
    draw = stream(0, "blocks")
    block = np.arange(nodes) % 4
    source = draw.integers(nodes, size=degree * nodes // 2)
    target = draw.integers(nodes // 4, size=source.size) * 4
    target += np.where(draw.random(source.size) < within, block[source], draw.integers(4, size=source.size))
    return Graph.from_edges(source, target, num_nodes=nodes, directed=directed, y=block)


def unit(columns: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(axis=0)
    return columns / np.sqrt((columns**2).sum() / len(columns))


def test_the_denser_a_graph_the_more_it_is_regularised() -> None:
    def regular(degree: int) -> Graph:
        steps = np.arange(1, degree // 2 + 1)
        ends = (np.arange(200)[:, None] + steps) % 200
        return Graph.from_edges(np.repeat(np.arange(200), steps.size), ends.reshape(-1), num_nodes=200)

    assert [regularisation(regular(degree)) for degree in (2, 4, 16, 120)] == pytest.approx([0.5, 0.5, 2, 10])
    assert regularisation(regular(16).replace(weights=np.full(3200, 9, np.float32))) == 2  # of the number of links


@pytest.mark.parametrize(("weighted", "dense"), [(False, False), (True, False), (False, True)])
def test_columns_are_eigenvectors_times_eigenvalues(weighted: bool, dense: bool) -> None:
    graph = blocks(nodes=100, degree=40) if dense else random_graph(weighted=weighted).without_self_loops()
    _, found = Positions.fit(graph, dim=200)
    a = graph.without_self_loops().adjacency().toarray().astype(np.float64)
    degree = a.sum(axis=1)
    tau = max(1, np.count_nonzero(a) / len(a) / 4) * degree.mean() / 2
    root = 1 / np.sqrt(degree + tau)
    values, vectors = np.linalg.eigh(root[:, None] * a * root)
    expected = unit(vectors * values)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)


def test_a_directed_graph_has_singular_vectors_of_both_directions() -> None:
    graph = blocks(nodes=60, directed=True).without_self_loops()
    _, found = Positions.fit(graph, dim=60)
    a = graph.adjacency().toarray().astype(np.float64)
    out, into = a.sum(axis=1), a.sum(axis=0)
    m = a / np.sqrt(np.outer(out + 0.5 * out.mean(), into + 0.5 * out.mean()))
    for columns, expected in ((found[:, :60], unit(m)), (found[:, 60:], unit(m.T))):
        np.testing.assert_allclose(columns @ columns.T, expected @ expected.T, atol=2e-3)


def test_stored_vectors_give_the_same_positions_in_any_order_and_those_of_new_nodes() -> None:
    graph = blocks()
    fitted, found = Positions.fit(graph, dim=8)
    again = Positions.from_arrays(fitted.arrays())
    np.testing.assert_allclose(again.apply(graph), found, atol=1e-5)
    start, end = np.triu(graph.adjacency().toarray()).nonzero()
    order = stream(0, "order").permutation(400)
    place = np.argsort(order)
    turned = Graph.from_edges(place[start], place[end], ids=order)
    np.testing.assert_allclose(again.apply(turned), found[order], atol=1e-5)
    friends = np.flatnonzero(graph.y == 2)[:6]  # a new node with six links into block 2
    more = Graph.from_edges([*start, *[400] * 6], [*end, *friends], num_nodes=401)
    added = fitted.apply(more)
    nearest = np.argsort(((found - added[400]) ** 2).sum(axis=1))[:20]
    assert (graph.y[nearest] == 2).mean() > 0.9


def test_text_ids_are_found_again() -> None:
    graph = graphs.path()
    fitted, found = Positions.fit(graph)
    np.testing.assert_allclose(fitted.apply(graph), found, atol=1e-6)
    stranger = Graph.from_edges([0], [1], ids=["p", "q"])
    assert fitted.apply(stranger).shape == (2, 4)


def test_positions_do_not_depend_on_the_order_of_the_nodes() -> None:
    graph = blocks(nodes=80)
    start, end = np.triu(graph.adjacency().toarray()).nonzero()
    order = stream(0, "order").permutation(80)
    turned = Graph.from_edges(np.argsort(order)[start], np.argsort(order)[end], num_nodes=80)
    one, other = (Positions.fit(g, dim=80)[1] for g in (graph, turned))
    np.testing.assert_allclose((one @ one.T)[np.ix_(order, order)], other @ other.T, atol=1e-3)


@pytest.mark.parametrize("graph", [graphs.no_edges(), graphs.isolated_node(), graphs.star(), graphs.directed()])
def test_small_graphs_have_finite_positions(graph: Graph) -> None:
    fitted, found = Positions.fit(graph)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(fitted.apply(graph), found, atol=1e-6)
    together, directions = link_reliability(graph)
    assert 0 <= together <= 1 and ((directions >= 0) & (directions <= 1)).all()


def test_reliability_is_high_for_blocks_and_low_for_chance() -> None:
    assert link_reliability(blocks(degree=30), dim=3)[0] > 0.8
    assert link_reliability(blocks(within=0.25), dim=32)[0] < 0.1
    assert link_reliability(graphs.no_edges())[0] == 0
    first, again = link_reliability(blocks()), link_reliability(blocks())
    assert first[0] == again[0] and np.array_equal(first[1], again[1])


def test_in_a_sparse_graph_the_directions_of_the_blocks_are_signal_and_the_others_noise() -> None:
    together, directions = link_reliability(blocks(nodes=2000, degree=10), dim=32)
    assert together < 0.4
    assert directions[:4].min() > 0.6 and directions[4:].max() < 0.2  # four blocks
    assert (np.diff(directions) <= 0).all()


@pytest.mark.parametrize("directed", [False, True])
def test_weighted_directions_have_a_total_variance_of_one_and_serve_other_graphs(directed: bool) -> None:
    plain = blocks(nodes=200)
    graph = Graph.from_edges(plain.sources(), plain.indices, directed=True) if directed else plain
    fitted, columns = Positions.fit(graph, dim=8)
    counts = np.array([2.0, 1.0, 0.5])  # the last one counts for the other five too
    weighted, found = Positions.fit(graph, dim=8, counts=counts)
    sides = 2 if directed else 1
    every = np.concatenate([counts, np.full(5, 0.5)])
    expected = columns.reshape(len(columns), sides, 8) * every
    sizes = np.sqrt(expected.var(axis=0).sum(axis=1))
    np.testing.assert_allclose(found, (expected / sizes[:, None]).reshape(columns.shape), atol=1e-4)
    assert weighted.size == pytest.approx(sizes[0], rel=1e-4) and fitted.size == 1
    np.testing.assert_array_equal(weighted.apply(graph), found)
