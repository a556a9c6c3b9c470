"""Inputs of GREET that depend on the graph alone: return probabilities of walks, and nodes with similar features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.adjacency import normalised_matrix

COLUMNS = 256  # nodes at a time whose walks are followed


def return_probabilities(graph: Graph, length: int) -> NDArray[np.float32]:
    """Return s: the probability that a walk is back after 1, 2, … steps, links taken both ways, ``(N, length)``.

    With S = D^−½ A D^−½ it is the diagonal of S^t, and for t = a + b the product of S^a e_i and S^b e_i: half of the
    steps are enough, and no power of S is held.

    >>> return_probabilities(Graph.from_edges([0, 1], [1, 2]), 4).round(3).tolist()
    [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 1.0], [0.0, 0.5, 0.0, 0.5]]
    """
    matrix = normalised_matrix(graph.undirected().adjacency())
    found = np.zeros((graph.num_nodes, length), np.float32)
    for begin in range(0, graph.num_nodes, COLUMNS):
        nodes = np.arange(begin, min(begin + COLUMNS, graph.num_nodes))
        before = np.zeros((graph.num_nodes, len(nodes)), np.float32)
        before[nodes, np.arange(len(nodes))] = 1
        for step in range(0, length, 2):
            now = matrix @ before
            found[nodes, step] = (before * now).sum(axis=0)
            if step + 1 < length:
                found[nodes, step + 1] = np.square(now).sum(axis=0)
            before = now
    return found


def similar_nodes(graph: Graph, count: int) -> sparse.csr_array:
    """Return ones at each node itself and at the nodes with the largest cosine of features, shape ``(N, N)``."""
    from sklearn.neighbors import kneighbors_graph

    own = sparse.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
    count = min(count, graph.num_nodes - 1)
    if not count:
        return own
    x: Any = graph.x
    return sparse.csr_array(own + kneighbors_graph(x, count, metric="cosine").astype(np.float32))
