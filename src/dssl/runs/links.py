"""The links of a run as its model uses them, without the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dssl.config.schema import GraphSettings
from dssl.errors import RunError
from dssl.graph import Graph
from dssl.graph.preparation import links

if TYPE_CHECKING:
    from dssl.model.factors import Factors


def model_links(graph: Graph, options: GraphSettings, factors: Factors | None) -> Graph:
    """Return the nodes and labels of a graph with the links that the model uses, without features.

    The links of the factors are these, in the same order; where a run has none, the links are prepared again.

    Args:
        graph: the graph that the run was fitted on.
        options: settings of the graph.
        factors: the factors of its links, or none.
    """
    if factors is None:
        bare = graph.replace(x=None, feature_names=None, encoding=None)
        return links(bare, directed=options.directed, self_loops=options.self_loops)
    if not factors.ids.equals(graph.ids) or (np.diff(factors.source) < 0).any():
        raise RunError("the factors are of another graph; fit the run again")
    return Graph(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(factors.source, minlength=graph.num_nodes))]),
        indices=factors.target,
        directed=options.directed,
        ids=graph.ids,
        y=graph.y,
        class_names=graph.class_names,
        name=graph.name,
    )
