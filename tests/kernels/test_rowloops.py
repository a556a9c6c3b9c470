from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from dssl.graph import Graph
from dssl.kernels import rowloops
from dssl.rng import stream


def random_graph(*, weighted: bool = False, directed: bool = False, nodes: int = 200, edges: int = 170) -> Graph:
    draw = stream(1, "test")
    ends = draw.integers(nodes, size=(2, edges))
    weights = draw.random(edges) + 0.1 if weighted else None
    return Graph.from_edges(*ends, num_nodes=nodes, weights=weights, directed=directed, self_loops="keep")


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_neighbours_are_a_product_with_the_adjacency(weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    x = stream(0, "x").normal(size=(200, 3)).astype(np.float32)
    found = rowloops.sum_neighbours(graph.indptr, graph.indices, graph.weights, x)
    np.testing.assert_allclose(found, graph.adjacency().toarray() @ x, atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
def test_component_sizes(directed: bool) -> None:
    graph = random_graph(directed=directed)
    wanted = np.bincount(connected_components(graph.adjacency(), connection="weak")[1])
    assert 20 < len(wanted) < 200
    assert sorted(rowloops.component_sizes(graph.indptr, graph.indices)) == sorted(wanted)


def test_links_are_held_out_both_ways_or_not_at_all() -> None:
    graph = random_graph(edges=3000)
    assert graph.num_self_loops
    indptr, indices, start, end = rowloops.split_links(graph.indptr, graph.indices, 0.2, 7)
    kept = {(i, int(j)) for i in range(200) for j in indices[indptr[i] : indptr[i + 1]]}
    held = set(zip(start.tolist(), end.tolist(), strict=True))
    assert all(i < j for i, j in held)
    assert kept == {(j, i) for i, j in kept}
    assert not held & kept
    every = {(int(i), int(j)) for i, j in zip(graph.sources(), graph.indices, strict=True) if i != j}
    assert kept | held | {(j, i) for i, j in held} == every
    assert 0.15 < len(held) / (len(every) / 2) < 0.25
    again = rowloops.split_links(graph.indptr, graph.indices, 0.2, 8)
    assert set(zip(again[2].tolist(), again[3].tolist(), strict=True)) != held
