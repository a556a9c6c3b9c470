r"""Large-scale information network embedding (LINE).

Tang, Qu, Wang, Zhang, Yan, Mei: *LINE: Large-scale Information Network Embedding*, WWW 2015.

First-order proximity: linked nodes are similar. Second-order: nodes with the same neighbours are similar.

.. math::
    p_1(v_i, v_j) &= \sigma(u_i^\top u_j) \tag{1} \\
    O_1 &= -\sum_{(i,j)} w_{ij} \log p_1(v_i, v_j) \tag{3} \\
    p_2(v_j \mid v_i) &= \frac{\exp(u_j'^\top u_i)}{\sum_k \exp(u_k'^\top u_i)} \tag{4} \\
    O_2 &= -\sum_{(i,j)} w_{ij} \log p_2(v_j \mid v_i) \tag{6} \\
    \log p &\to \log \sigma(u_j'^\top u_i)
        + \sum_{n=1}^{K} \mathbb{E}_{v_n \sim P_n} \log \sigma(-u_n'^\top u_i) \tag{7}

with P_n in proportion to degree^¾. Links are drawn in proportion to their weights (the paper's edge sampling). Both are
trained apart, half of the columns each, scaled to length one and put side by side.

Where we differ: an epoch draws as many links as there are; a direction of a link is drawn like any other link, which
the paper proposes for undirected links.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.methods._walks import Draws, draw, train_pairs
from dssl.methods.table import Starts, TableMethod
from dssl.runtime.scale import IN_MEMORY, Scale


class LINE(TableMethod):
    """Both orders of LINE.

    Args:
        dim: length of the vectors: of first and second order together.
        negatives: K.
        step_size: of the first epoch.
    """

    def __init__(self, dim: int, *, negatives: int, step_size: float) -> None:
        super().__init__(dim, step_size=step_size)
        self.negatives = negatives
        self.middle = dim // 2
        self._ends = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._links, self._others = Draws.of(np.ones(1)), Draws.of(np.ones(1))

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Make the tables, and those that links and negatives are drawn from."""
        super().prepare(graph, seed=seed, scale=scale)
        self._ends = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
        weights = np.ones(graph.num_arcs, np.float32) if graph.weights is None else graph.weights
        self._links = Draws.of(weights)
        self._others = Draws.of(np.bincount(self._ends[1], weights, minlength=graph.num_nodes) ** 0.75)

    def learn(self, batch: Starts, vectors: NDArray[np.float32], contexts: NDArray[np.float32]) -> tuple[float, int]:
        """Draw links in proportion to the nodes of the batch, and train both orders on them."""
        nodes, seed = batch
        count = round(len(self._ends[0]) * len(nodes) / max(len(vectors), 1))
        if not count:
            return 0.0, 0
        total = 0.0
        # The first node identifies the batch of an epoch.
        own = rng.integer(seed, "links", int(nodes[0]))
        places = draw(self._links, count, np.uint64(own))
        start, end = (side[places] for side in self._ends)
        first, second = (np.ascontiguousarray(vectors[:, part]) for part in self._columns())
        outputs = np.ascontiguousarray(contexts[:, self.middle :])
        for number, (table, other) in enumerate(((first, first), (second, outputs))):
            if table.shape[1]:
                drawn = np.uint64(rng.integer(own, "negatives", number))
                total += train_pairs(start, end, table, other, self._others, self.negatives, self.rate, drawn)
        vectors[:, : self.middle], vectors[:, self.middle :] = first, second
        contexts[:, self.middle :] = outputs
        return total, 2 * count

    def vectors(self) -> Tensor:
        """Return both orders, each of length one, side by side."""
        return torch.cat([F.normalize(self.table.detach()[:, part], dim=1) for part in self._columns()], dim=1)

    def _columns(self) -> tuple[slice, slice]:
        return slice(0, self.middle), slice(self.middle, self.dim)
