"""The similarity of classes by their factors, against loops."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.data.synthetic import planted_pairs
from dssl.errors import GraphError
from dssl.evaluation.factor_analysis import class_similarity, similarity_correlation
from dssl.graph import Graph
from dssl.graph.statistics import neighborhood_similarity


def test_class_similarity_is_the_cosine_of_class_means() -> None:
    draw = np.random.default_rng(0)
    graph = Graph.from_edges(*draw.integers(30, size=(2, 60)), num_nodes=31, y=[*draw.integers(-1, 3, size=30), 2])
    q = draw.random((31, 4)).astype(np.float32)
    q[30] = 0  # without links
    found = class_similarity(graph, q)
    for a in range(3):
        for b in range(3):
            first, second = (sum(q[i] for i in range(30) if graph.y[i] == c) for c in (a, b))
            cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            assert found[a, b] == pytest.approx(cosine, rel=1e-5)


def test_correlation_counts_each_pair_of_classes_once() -> None:
    draw = np.random.default_rng(1)
    graph = Graph.from_edges(*draw.integers(40, size=(2, 90)), y=draw.integers(4, size=40), num_nodes=40)
    q = draw.random((40, 3)).astype(np.float32)
    ours, true = class_similarity(graph, q), neighborhood_similarity(graph)
    for diagonal in (True, False):
        cells = [(a, b) for a in range(4) for b in range(a if diagonal else a + 1, 4)]
        wanted = np.corrcoef([ours[cell] for cell in cells], [true[cell] for cell in cells])[0, 1]
        assert similarity_correlation(graph, q, diagonal=diagonal) == pytest.approx(wanted)


def test_correlation_of_the_histograms_themselves_is_near_one_and_of_a_constant_undefined() -> None:
    graph, _ = planted_pairs(kinds=4, nodes=400)
    histogram = np.zeros((400, 4), np.float32)
    np.add.at(histogram, (graph.sources(), graph.y[graph.indices]), 1)
    assert similarity_correlation(graph, histogram / np.maximum(histogram.sum(axis=1, keepdims=True), 1)) > 0.9
    assert np.isnan(similarity_correlation(graph, np.ones((400, 3), np.float32)))
    with pytest.raises(GraphError, match="has no labels"):
        class_similarity(graph.replace(y=None), histogram)
