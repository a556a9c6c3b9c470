r"""DeepWalk and node2vec: skip-gram on random walks.

Perozzi, Al-Rfou, Skiena: *DeepWalk: Online Learning of Social Representations*, KDD 2014.
Grover, Leskovec: *node2vec: Scalable Feature Learning for Networks*, KDD 2016.

Nodes along a walk are foretold from the node in their middle, with the softmax replaced by negative sampling:

.. math::
    \mathcal{L} = -\sum_{(u, v)} \Big( \log \sigma(f_u^\top c_v)
        + \sum_{n=1}^{K} \mathbb{E}_{v_n \sim P_n} \log \sigma(-f_u^\top c_{v_n}) \Big)

over pairs at most ``window`` steps apart, with P_n in proportion to degree^¾. node2vec walks from t to v and on to x
with a chance in proportion to the weight of (v, x) times

.. math::
    \alpha_{pq}(t, x) = 1/p \text{ if } x = t, \quad 1 \text{ if } (t, x) \text{ is a link}, \quad 1/q \text{ else.}

DeepWalk is the case p = q = 1. An epoch is one walk from each node: ``train.epochs`` is the number of walks per node.

Where we differ: negative sampling in place of DeepWalk's hierarchical softmax, as its successors have it; walks are
drawn anew in each epoch and never stored; biased steps are drawn by rejection, without a table for each pair of links.
DeepWalk follows the weights of links, if there are any.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.lookup import Lookup, Starts
from dssl.walks import Draws, train_walks, walks

AT_ONCE = 10_000  # walks that are held in memory


class Node2Vec(Lookup):
    """Skip-gram on walks of a graph.

    Args:
        dim: length of the vectors.
        walk_length: steps of a walk.
        window: largest distance of a pair along a walk.
        negatives: K.
        step_size: of the first epoch.
        epochs: walks per node.
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
        epochs: int,
        return_weight: float = 1.0,
        away_weight: float = 1.0,
    ) -> None:
        super().__init__(dim, step_size=step_size, epochs=epochs)
        self.walk_length, self.window, self.negatives = walk_length, window, negatives
        self.p, self.q = return_weight, away_weight
        self._graph: Graph | None = None
        self._others = Draws.of(np.ones(1))

    def prepare(self, graph: Graph, *, seed: int) -> None:
        """Make the tables, and that of the negatives."""
        super().prepare(graph, seed=seed)
        self._graph = graph
        degrees = np.bincount(graph.indices, minlength=graph.num_nodes)
        self._others = Draws.of(degrees.astype(np.float64) ** 0.75)

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Walk from the start nodes and go through the walks."""
        assert self._graph is not None
        starts, seed = batch
        total, count = 0.0, 0
        for begin in range(0, len(starts), AT_ONCE):
            part = starts[begin : begin + AT_ONCE]
            paths = walks(self._graph, part, self.walk_length, seed, p=self.p, q=self.q)
            loss, pairs = train_walks(
                paths,
                vectors,
                contexts,
                self._others.chance,
                self._others.alias,
                self.window,
                self.negatives,
                self.rate,
                np.uint64(seed),
            )
            total, count = total + loss, count + pairs
        return total, count
