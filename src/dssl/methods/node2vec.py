r"""DeepWalk and node2vec: skip-gram on random walks.

Perozzi, Al-Rfou, Skiena: *DeepWalk: Online Learning of Social Representations*, KDD 2014.
Grover, Leskovec: *node2vec: Scalable Feature Learning for Networks*, KDD 2016.

Nodes along a walk are predicted from the node in their middle, with the softmax replaced by negative sampling:

.. math::
    \mathcal{L} = -\sum_{(u, v)} \Big( \log \sigma(f_u^\top c_v)
        + \sum_{n=1}^{K} \mathbb{E}_{v_n \sim P_n} \log \sigma(-f_u^\top c_{v_n}) \Big)

over pairs at most ``window`` steps apart, with P_n in proportion to degree^¾. node2vec walks from t to v and on to x
with a chance in proportion to the weight of (v, x) times

.. math::
    \alpha_{pq}(t, x) = 1/p \text{ if } x = t, \quad 1 \text{ if } (t, x) \text{ is a link}, \quad 1/q \text{ else.}

DeepWalk is the case p = q = 1. An epoch is one walk from each node: ``train.epochs`` is the number of walks per node.

Where we differ: negative sampling in place of DeepWalk's hierarchical softmax, as its successors have it; walks are
new in each epoch and never stored; biased steps are drawn by rejection, without a table for each pair of links.
DeepWalk follows the weights of links, if there are any.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.methods._walks import Draws, walks
from dssl.methods.table import SkipGram
from dssl.runtime.scale import IN_MEMORY, Scale


class Node2Vec(SkipGram):
    """Skip-gram on walks of a graph.

    Args:
        dim: length of the vectors.
        walk_length: steps of a walk.
        window: largest distance of a pair along a walk.
        negatives: K.
        step_size: of the first epoch.
        return_weight: p.
        away_weight: q.
    """

    def __init__(
        self,
        dim: int,
        *,
        walk_length: int,
        window: int,
        negatives: int,
        step_size: float,
        return_weight: float = 1.0,
        away_weight: float = 1.0,
    ) -> None:
        super().__init__(dim, walk_length=walk_length, window=window, negatives=negatives, step_size=step_size)
        self.p, self.q = return_weight, away_weight
        self._graph: Graph | None = None

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Make the tables, and that of the negatives."""
        super().prepare(graph, seed=seed, scale=scale)
        self._graph = graph
        degrees = np.bincount(graph.indices, minlength=graph.num_nodes)
        self.others = Draws.of(degrees.astype(np.float64) ** 0.75)

    def paths(self, starts: NDArray[np.int64], seed: int) -> NDArray[np.int32]:
        """Walk along the links, biased by p and q."""
        assert self._graph is not None
        return walks(self._graph, starts, self.walk_length, seed, p=self.p, q=self.q)
