r"""Graph contrastive learning with adaptive augmentation (GCA).

Zhu, Xu, Yu, Liu, Wu, Wang: *Graph Contrastive Learning with Adaptive Augmentation*, WWW 2021.

The two views of a node are distinguished from all other nodes of both views:

.. math::
    \ell(u_i, v_i) &= \log \frac{e^{\theta(u_i, v_i)/\tau}}{e^{\theta(u_i, v_i)/\tau}
        + \sum_{k \ne i} e^{\theta(u_i, v_k)/\tau} + \sum_{k \ne i} e^{\theta(u_i, u_k)/\tau}} \tag{1} \\
    \mathcal{J} &= \frac{1}{2N} \sum_i \big( \ell(u_i, v_i) + \ell(v_i, u_i) \big) \tag{2}

with θ the cosine of projections. A view loses unimportant links and features rather than others: with φ the centrality
of a node, :math:`s_{uv} = \log \frac{\varphi_u + \varphi_v}{2}` and
:math:`s_f = \log \sum_u |x_{uf}| \varphi_u`, a link or a feature goes with the probability

.. math::
    p = \min\Big( \frac{s_{\max} - s}{s_{\max} - \bar s}\; p_e,\; p_\tau \Big)

Where we differ: at most ``anchors`` nodes are compared with each other in a step, so that no matrix has a row and a
column for each node (with ``anchors`` ≥ N it is the paper's sum).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.graph.adjacency import mean_matrix
from dssl.methods.base import EncoderMethod
from dssl.nn.augment import drop_links, mask_columns
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.losses import info_nce
from dssl.runtime.scale import IN_MEMORY, Scale

Centrality = Literal["degree", "pagerank", "eigenvector"]
Floats = NDArray[np.float64]


class GCA(EncoderMethod):
    """The networks and the loss of GCA.

    Args:
        encoder: the encoder.
        centrality: φ.
        temperature: τ.
        projector_dim: width of the projections.
        link_drop_1: mean probability of a link to leave the first view, p_e.
        link_drop_2: the second.
        feature_mask_1: mean probability of a feature to be masked in the first view.
        feature_mask_2: in the second.
        most_dropped: p_τ.
        anchors: nodes that are compared in a step, at most.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        centrality: Centrality,
        temperature: float,
        projector_dim: int,
        link_drop_1: float,
        link_drop_2: float,
        feature_mask_1: float,
        feature_mask_2: float,
        most_dropped: float,
        anchors: int,
    ) -> None:
        super().__init__(encoder)
        self.centrality, self.temperature, self.anchors = centrality, temperature, anchors
        self.rates = (link_drop_1, feature_mask_1), (link_drop_2, feature_mask_2)
        self.most_dropped = most_dropped
        self.projector = nn.Sequential(Dense(encoder.dim, projector_dim), nn.ELU(), Dense(projector_dim, encoder.dim))
        self._nodes: Floats = np.ones(0)
        self._links = (0.0, 0.0)  # largest s of a link, and its distance from the mean
        self._features: Floats = np.ones(0)

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:  # noqa: ARG002
        """Find how important nodes, links and features are."""
        self._nodes = node_centrality(graph, self.centrality)
        self._links = extent(link_scores(self._nodes, graph.sources(), graph.indices))
        assert graph.x is not None
        weights = np.asarray(np.abs(graph.x).T @ self._nodes, np.float64).reshape(-1)
        self._features = np.ones_like(weights)
        used = weights > 0  # a column of zeros has no s, and is the same masked or not
        self._features[used] = unimportance(np.log(weights[used]), extent(np.log(weights[used])))

    def forward(self, batch: Batch) -> Tensor:
        """Return the negative of Eq. 2 for a batch."""
        count = batch.num_centres
        chosen = torch.randperm(count)[: self.anchors].to(batch.device)
        links = unimportance(link_scores(self._nodes, *batch.ends), self._links)
        vectors = []
        for link_rate, feature_rate in self.rates:
            view = drop_links(batch, np.minimum(link_rate * links, self.most_dropped))
            masked = np.minimum(feature_rate * self._features, self.most_dropped)
            vectors.append(self.encoder(mask_columns(view, torch.from_numpy(masked)))[:count])
        first, second = (self.projector(h[chosen]) for h in vectors)
        return self.note(count, info_nce(first, second, self.temperature, within=True), vectors[0])


def node_centrality(graph: Graph, kind: Centrality) -> Floats:
    """φ of each node, positive, shape ``(N,)``."""
    degrees = np.asarray(graph.undirected().adjacency().sum(axis=1), np.float64).reshape(-1)
    if kind == "degree" or not graph.num_arcs:
        return np.maximum(degrees, 1e-3)
    n = graph.num_nodes
    values = np.full(n, 1 / n)
    if kind == "pagerank":
        walk = mean_matrix(graph.adjacency()).T.tocsr()
        dangling = graph.degrees == 0
        for _ in range(100):
            values = 0.85 * (walk @ values + values[dangling].sum() / n) + 0.15 / n
    else:
        matrix = graph.undirected().adjacency()
        for _ in range(100):
            # A + I has the leading vector of A, and no two eigenvalues of the same size that the powers swing between.
            values = matrix @ values + values
            values /= np.linalg.norm(values)
    positive: Floats = np.maximum(values, 1e-9)
    return positive


def link_scores(nodes: Floats, start: NDArray[np.integer], end: NDArray[np.integer]) -> Floats:
    """Return s of links from ``start`` to ``end``, shape ``(A,)``."""
    scores: Floats = np.log((nodes[start] + nodes[end]) / 2)
    return scores


def extent(scores: Floats) -> tuple[float, float]:
    """s_max, and s_max − mean s; zeros where there are none."""
    return (float(scores.max()), float(scores.max() - scores.mean())) if len(scores) else (0.0, 0.0)


def unimportance(scores: Floats, over: tuple[float, float]) -> Floats:
    """(s_max − s) / (s_max − mean s): 0 for the most important, 1 on the average; all 1 if all are equal.

    Args:
        scores: s of some links or features.
        over: `extent` of all of them.
    """
    top, spread = over
    found: Floats = (top - scores) / spread if spread > 1e-12 else np.ones_like(scores)
    return found
