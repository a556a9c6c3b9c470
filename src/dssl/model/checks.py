"""Checks of the arguments of the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.packed import StoredGraph


def check_graph(graph: Graph) -> None:
    """Refuse anything else than a graph, and name the functions that make one; check the values of a packed graph."""
    if not isinstance(graph, Graph):
        kind = f"{type(graph).__module__.partition('.')[0]}.{type(graph).__name__}"
        raise GraphError(
            f"the model takes a dssl.Graph, not {kind}; make one with dssl.load, dssl.from_pyg, dssl.from_networkx, "
            "dssl.from_scipy or dssl.from_tables"
        )
    if isinstance(graph, StoredGraph):
        graph.check_values()


def check_pairs(pairs: Any, graph: Graph) -> NDArray[np.int64]:
    """Return pairs of positions, or refuse those that the graph does not have."""
    positions = np.asarray(pairs)
    if positions.shape[1:] != (2,) or (positions.size and not np.issubdtype(positions.dtype, np.integer)):
        raise GraphError(f"pairs must be integers of shape (M, 2), not {positions.dtype} of shape {positions.shape}")
    if positions.size and (positions.min() < 0 or positions.max() >= graph.num_nodes):
        raise GraphError(
            f"pairs contain positions from {positions.min()} to {positions.max()}; graph {graph.name!r} has 0 to "
            f"{graph.num_nodes - 1}"
        )
    return positions.astype(np.int64)
