from __future__ import annotations

import numpy as np
import pytest

from dssl.graph import Graph
from dssl.graph.link_auc import link_auc
from dssl.rng import stream
from dssl.runtime.scale import BY_BLOCKS, IN_MEMORY, Scale


def test_links_are_worth_what_they_predict() -> None:
    draw = np.random.default_rng(0)
    n = 400
    blocks = draw.random((n, n)) < np.where(np.arange(n)[:, None] % 4 == np.arange(n) % 4, 0.2, 0.005)
    patterned = Graph.from_edges(*np.argwhere(np.triu(blocks, 1)).T, num_nodes=n)
    chance = Graph.from_edges(*draw.integers(n, size=(2, 4000)), num_nodes=n)
    assert link_auc(patterned, seed=0) > 0.7  # a quarter of the pairs of other links are like links
    assert abs(link_auc(chance, seed=0) - 0.5) < 0.08
    assert link_auc(Graph.from_edges([0], [1]), seed=0) == 0.5


def test_a_large_graph_has_the_same_predictability() -> None:
    draw = stream(3, "large")
    same = np.arange(400)[:, None] % 4 == np.arange(400) % 4
    graph = Graph.from_edges(*np.argwhere(np.triu(draw.random((400, 400)) < np.where(same, 0.2, 0.005), 1)).T)
    assert link_auc(graph, seed=0, scale=BY_BLOCKS) == pytest.approx(link_auc(graph, seed=0), abs=0.05)


@pytest.mark.parametrize("scale", [IN_MEMORY, BY_BLOCKS], ids=["in memory", "by blocks"])
def test_degrees_alone_predict_no_link(scale: Scale) -> None:
    """Nearly all links are among 60 nodes: with random pairs of nodes, their degrees would separate links."""
    draw = np.random.default_rng(1)
    order = draw.permutation(600)
    core = (order[:, None] < 60) & (order < 60)
    links = np.triu(draw.random((600, 600)) < np.where(core, 0.8, 0.0005), 1)
    graph = Graph.from_edges(*np.argwhere(links).T, num_nodes=600)
    assert link_auc(graph, seed=0, scale=scale) < 0.55
