"""Nodes with the same links, duplicates as far as the links go.

Some published graphs contain many of them (Platonov et al., ICLR 2023, on Chameleon and Squirrel). If duplicates with
one label are spread over train and test, a classifier that memorises neighbourhoods is rewarded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.graph.graph import Graph
from dssl.rng import stream


def duplicate_groups(graph: Graph) -> NDArray[np.int64]:
    """Number the nodes such that those with the same set of (outgoing) neighbours have the same number.

    Weights and self loops are ignored. A node without such links is a separate group. Sets are compared by two random
    sums of 64 bits over the neighbours, in time linear in the links.

    Args:
        graph: any graph, N nodes.

    Returns:
        Group of each node, from 0, shape ``(N,)``.

    >>> duplicate_groups(Graph.from_edges([0, 1, 0, 1], [2, 2, 3, 3], num_nodes=6)).tolist()
    [0, 0, 1, 1, 2, 3]
    """
    plain = graph.without_self_loops()
    size = plain.num_nodes
    draw, sums = stream(0, "duplicates").integers(np.iinfo(np.int64).max, size=(2, size, 2))
    linked = np.diff(plain.indptr) > 0  # the others keep their random numbers
    if plain.num_arcs:
        with np.errstate(over="ignore"):
            sums[linked] = np.add.reduceat(draw[plain.indices], plain.indptr[:-1][linked], axis=0)
    _, first, groups = np.unique(sums, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[groups.ravel()]
