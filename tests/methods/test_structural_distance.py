"""Structural distances against plain sequences and plain dynamic time warping."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from dssl.graph import Graph
from dssl.methods._structural_distance import candidates, degree_sequences, distances
from tests import graphs
from tests.graphs import random_graph


def plain_rings(graph: Graph, source: int, layers: int) -> list[list[int]]:
    seen, ring, found = {source}, [source], []
    for _ in range(layers):
        found.append(sorted(int(graph.degrees[node]) for node in ring))
        ring = sorted({int(j) for i in ring for j in graph.indices[graph.indptr[i] : graph.indptr[i + 1]]} - seen)
        seen |= set(ring)
    return found


def warping(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> float:
    best = {(0, 0): 0.0}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            (x, m), (y, n) = a[i - 1], b[j - 1]
            cost = (max(x, y) / min(x, y) - 1) * max(m, n)
            before = min(best.get(at, math.inf) for at in ((i - 1, j - 1), (i - 1, j), (i, j - 1)))
            best[i, j] = cost + before
    return best[len(a), len(b)]


def compressed(sequence: list[int]) -> list[tuple[int, int]]:
    return [(value, sequence.count(value)) for value in sorted(set(sequence))]


def test_sequences_are_the_compressed_degrees_of_rings() -> None:
    graph = random_graph()
    pointers, degrees, counts = degree_sequences(graph, 3)
    for node in range(graph.num_nodes):
        for k, ring in enumerate(plain_rings(graph, node, 3)):
            at = slice(pointers[3 * node + k], pointers[3 * node + k + 1])
            assert list(zip(degrees[at].tolist(), counts[at].tolist(), strict=True)) == compressed(ring)


def test_distances_add_up_the_rings() -> None:
    graph = random_graph()
    nodes = np.flatnonzero(graph.degrees)[:12]
    first, second = (side.ravel() for side in np.meshgrid(nodes, nodes))
    found = distances(degree_sequences(graph, 3), 3, first, second)
    for e, (u, v) in enumerate(zip(first, second, strict=True)):
        total = 0.0
        for k, (a, b) in enumerate(zip(plain_rings(graph, u, 3), plain_rings(graph, v, 3), strict=True)):
            if not a or not b:
                assert np.isinf(found[e, k:]).all()
                break
            total += warping(compressed(a), compressed(b))
            assert math.isclose(found[e, k], total, abs_tol=1e-9)
    same = found[first == second]
    assert (same[np.isfinite(same)] == 0).all()


def test_nodes_in_the_same_place_have_no_distance() -> None:
    graph = graphs.star()
    found = distances(degree_sequences(graph, 2), 2, np.array([1, 0]), np.array([4, 1]))
    assert found[0].tolist() == [0, 0]
    assert found[1, 0] == 3  # degrees 4 and 1


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_candidates_are_near_in_degree_and_come_once(n: int) -> None:
    graph = random_graph(nodes=n) if n > 3 else Graph.from_edges([0], [n - 1], num_nodes=n)
    first, second = candidates(graph)
    pairs = {frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}
    assert len(pairs) == len(first)
    assert all(len(pair) == 2 for pair in pairs)
    assert len(first) <= n * (math.ceil(math.log2(max(n, 2))))
    if n > 1:
        assert set(first) | set(second) == set(range(n))
    if n > 3:
        every = np.abs(graph.degrees[:, None] - graph.degrees)
        assert np.abs(graph.degrees[first] - graph.degrees[second]).mean() < every.mean() / 2


def test_candidates_do_not_depend_on_the_numbers_of_nodes() -> None:
    graph = random_graph(nodes=200)
    new = np.random.default_rng(1).permutation(200)
    again = Graph.from_edges(new[graph.sources()], new[graph.indices], num_nodes=200)

    def places(graph: Graph) -> list[list[tuple[int, float]]]:
        means = [graph.degrees[graph.indices[a:b]].mean() if b > a else 0.0 for a, b in pairwise(graph.indptr)]
        own = [(int(degree), round(float(mean), 9)) for degree, mean in zip(graph.degrees, means, strict=True)]
        return sorted(sorted((own[i], own[j])) for i, j in zip(*candidates(graph), strict=True))

    assert places(graph) == places(again)
