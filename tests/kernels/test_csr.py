"""Loops over the rows of a graph against dictionaries, SciPy and plain Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from dssl.graph import Graph
from dssl.kernels import csr
from dssl.kernels.csr import rows_from_arcs
from dssl.rng import stream


def rows_by_hand(source, target, weights, num_nodes, both, loops):
    rows: list[defaultdict[int, float]] = [defaultdict(float) for _ in range(num_nodes)]
    for s, t, w in zip(source, target, weights, strict=True):
        if s == t and not loops:
            continue
        rows[s][t] += w
        if both and s != t:
            rows[t][s] += w
    return [sorted(row.items()) for row in rows]


arcs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), max_size=40)


@settings(deadline=None)  # the first call compiles
@given(arcs=arcs, both=st.booleans(), loops=st.booleans(), weighted=st.booleans())
def test_rows_equal_those_by_hand(arcs, both, loops, weighted):
    source, target, weights = np.array(arcs, np.int32).reshape(-1, 3).T.copy()
    strengths = weights.astype(np.float32) if weighted else None
    indptr, indices, values = rows_from_arcs(source, target, strengths, 7, both=both, loops=loops)
    expected = rows_by_hand(source.tolist(), target.tolist(), weights.tolist(), 7, both, loops)
    bounds = list(pairwise(indptr.tolist()))
    assert [indices[a:b].tolist() for a, b in bounds] == [[t for t, _ in row] for row in expected]
    if weighted:
        assert [values[a:b].tolist() for a, b in bounds] == [[w for _, w in row] for row in expected]
    else:
        assert values is None
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
    assert indptr[-1] == indices.size  # the room for the repeats is gone


@pytest.mark.parametrize("degree", [3, 64, 65, 300])
def test_short_and_long_rows_are_sorted(degree):
    target = np.random.default_rng(0).permutation(degree).astype(np.int32)
    indptr, indices, _ = rows_from_arcs(np.zeros(degree, np.int32), target, None, degree, both=False)
    assert indices.tolist() == list(range(degree))
    assert indptr.tolist() == [0, *[degree] * degree]


def test_the_arcs_are_left_alone():
    source, target = np.array([2, 0, 2], np.int32), np.array([1, 1, 0], np.int32)
    rows_from_arcs(source, target, None, 3, both=True)
    assert source.tolist() == [2, 0, 2]
    assert target.tolist() == [1, 1, 0]


def looped_graph(*, weighted: bool = False, directed: bool = False, nodes: int = 200, edges: int = 170) -> Graph:
    draw = stream(1, "test")
    ends = draw.integers(nodes, size=(2, edges))
    weights = draw.random(edges) + 0.1 if weighted else None
    return Graph.from_edges(*ends, num_nodes=nodes, weights=weights, directed=directed, self_loops="keep")


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_neighbours_are_a_product_with_the_adjacency(weighted: bool) -> None:
    graph = looped_graph(weighted=weighted)
    x = stream(0, "x").normal(size=(200, 3)).astype(np.float32)
    found = csr.sum_neighbours(graph.indptr, graph.indices, graph.weights, x)
    np.testing.assert_allclose(found, graph.adjacency().toarray() @ x, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_component_sizes(directed: bool) -> None:
    graph = looped_graph(directed=directed)
    wanted = np.bincount(connected_components(graph.adjacency(), connection="weak")[1])
    assert 20 < len(wanted) < 200
    assert sorted(csr.component_sizes(graph.indptr, graph.indices)) == sorted(wanted)


def test_links_are_held_out_both_ways_or_not_at_all() -> None:
    graph = looped_graph(edges=3000)
    assert graph.num_self_loops
    indptr, indices, start, end = csr.split_links(graph.indptr, graph.indices, 0.2, 7)
    kept = {(i, int(j)) for i in range(200) for j in indices[indptr[i] : indptr[i + 1]]}
    held = set(zip(start.tolist(), end.tolist(), strict=True))
    assert all(i < j for i, j in held)
    assert kept == {(j, i) for i, j in kept}
    assert not held & kept
    every = {(int(i), int(j)) for i, j in zip(graph.sources(), graph.indices, strict=True) if i != j}
    assert kept | held | {(j, i) for i, j in held} == every
    assert 0.15 < len(held) / (len(every) / 2) < 0.25
    again = csr.split_links(graph.indptr, graph.indices, 0.2, 8)
    assert set(zip(again[2].tolist(), again[3].tolist(), strict=True)) != held
