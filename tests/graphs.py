"""The tiny graphs written by hand that the tests share."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from dssl.graph import Graph
from dssl.rng import stream

CPU = torch.device("cpu")
ALL_NEIGHBOURS = (10_000,)


def path() -> Graph:
    """a - b - c - d."""
    return Graph.from_edges([0, 1, 2], [1, 2, 3], ids=["a", "b", "c", "d"], name="path")


def star() -> Graph:
    """Node 0 in the middle of four leaves."""
    return Graph.from_edges([0, 0, 0, 0], [1, 2, 3, 4], name="star")


def two_blocks() -> Graph:
    """Two triangles joined by one link, with features and labels that tell them apart."""
    x = np.array([[1, 0], [1, 0.1], [0.9, 0], [0, 1], [0.1, 1], [0, 0.9]])
    return Graph.from_edges(
        [0, 0, 1, 3, 3, 4, 2],
        [1, 2, 2, 4, 5, 5, 3],
        x=x,
        y=[0, 0, 0, 1, 1, 1],
        feature_names=["left", "right"],
        class_names=["left", "right"],
        name="two blocks",
    )


def disconnected() -> Graph:
    """A triangle and a separate pair, with weights."""
    return Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 4], weights=[1, 2, 3, 0.5], ids=[10, 20, 30, 40, 50], name="apart")


def isolated_node() -> Graph:
    """A pair and a node without links."""
    return Graph.from_edges([0], [1], num_nodes=3, ids=["x", "y", "alone"], name="isolated")


def directed() -> Graph:
    """0 -> 1 -> 2 -> 0 and 0 -> 2."""
    return Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2], directed=True, y=[0, -1, 1], name="directed")


def no_edges() -> Graph:
    """Three nodes, no link."""
    return Graph.from_edges([], [], num_nodes=3, name="no edges")


def no_features() -> Graph:
    """A ring of six nodes with labels and no features."""
    ring = np.arange(6)
    return Graph.from_edges(ring, (ring + 1) % 6, y=ring % 2, name="no features")


def one_node() -> Graph:
    """A single node."""
    return Graph.from_edges([], [], num_nodes=1, ids=["only"], name="one node")


ALL = (path, star, two_blocks, disconnected, isolated_node, directed, no_edges, no_features, one_node)


def random_graph(*, nodes: int = 40, weighted: bool = False, wide: bool = False, seed: int = 0) -> Graph:
    """Random links and features; the last two nodes have no links."""
    draw = stream(seed, "test")
    edges = draw.integers(nodes - 2, size=(2, 90))  # the last two nodes have no links
    x = draw.normal(size=(nodes, 7))
    return Graph.from_edges(
        *edges,
        num_nodes=nodes,
        weights=draw.random(90) + 0.1 if weighted else None,
        x=sparse.csr_array(np.where(x > 0.5, x, 0)) if wide else x,
    )
