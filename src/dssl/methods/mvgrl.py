r"""Contrastive multi-view representation learning on graphs (MVGRL).

Hassani, Khasahmadi: *Contrastive Multi-View Representation Learning on Graphs*, ICML 2020.

One view is the graph, the other its diffusion, each with a separate encoder:

.. math::
    S &= \sum_k \Theta_k T^k \tag{1} \\
    S^{\mathrm{heat}} &= \exp(t A D^{-1} - t) \tag{2} \\
    S^{\mathrm{PPR}} &= \alpha \big( I - (1 - \alpha) D^{-1/2} A D^{-1/2} \big)^{-1} \tag{3}

Vectors of nodes in one view go with the summary of the other and not those of nodes with shuffled features:

.. math::
    \mathcal{L} = -\frac{1}{4N} \sum_i \Big( \log D(h^A_i, s^S) + \log(1 - D(\tilde h^A_i, s^S))
        + \log D(h^S_i, s^A) + \log(1 - D(\tilde h^S_i, s^A)) \Big)

with s the sigmoid of the mean, D bilinear with a bias, and one slope for each view's PReLU. The embedding is
:math:`h^A + h^S`. The authors' code adds I to A twice, and so does ``loop_weight`` = 2.

Where we differ: S is kept to the ``neighbours`` largest entries of a node and found by spreading mass from each node
(`dssl.methods._diffusion`), where the paper inverts a matrix of N² entries; the encoder takes it as a graph with
weights, so that any encoder serves. The paper trains on samples of 2,000 nodes; here it is the whole
graph, or mini-batches. On CiteSeer the authors' code leaves out entries of S below a ``threshold``, divides each column
by its largest entry, which is its diagonal for nearly all nodes, and does not normalise it (``column_scale``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.methods._diffusion import coefficients, diffuse
from dssl.methods.base import EncoderMethod
from dssl.nn.augment import shuffle_features
from dssl.nn.batches import Batch, Sampling, full_batch, mini_batches
from dssl.nn.encoders import Encoder
from dssl.nn.heads import Bilinear
from dssl.nn.losses import infomax
from dssl.runtime.scale import IN_MEMORY, Scale

Views = tuple[Batch, Batch]


class MVGRL(EncoderMethod):
    """The networks and the loss of MVGRL.

    Args:
        encoder: the encoder of the graph; that of the diffusion has other weights of the same shape.
        diffusion: ``ppr`` or ``heat``.
        teleport: α.
        heat_time: t.
        neighbours: entries of S per node.
        precision: mass per link below which the diffusion goes no further.
        threshold: entries of S below it are left out.
        column_scale: whether each entry of S is divided by the diagonal entry of its column, and S not normalised.
        loop_weight: weight of a node's link to itself in the GCN of the graph.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        diffusion: Literal["ppr", "heat"],
        teleport: float,
        heat_time: float,
        neighbours: int,
        precision: float,
        threshold: float,
        column_scale: bool,
        loop_weight: float,
    ) -> None:
        super().__init__(encoder)
        self.theta = coefficients(diffusion, teleport=teleport, heat_time=heat_time)
        self.neighbours, self.precision, self.loop_weight = neighbours, precision, loop_weight
        self.threshold, self.column_scale = threshold, column_scale
        self.second = copy.deepcopy(encoder)
        self.second.reset_parameters()
        self.activations = nn.ModuleList([nn.PReLU(), nn.PReLU()])
        self.discriminator = Bilinear(encoder.dim)
        self._diffused: tuple[Graph, Graph] | None = None
        self._whole: tuple[Batch, Views] | None = None

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:  # noqa: ARG002
        """Find the diffusion of the graph."""
        self._diffusion(graph)

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Views]:
        """Give pairs of batches with the same centres: of the graph and of its diffusion."""
        diffusion = self._diffusion(graph)
        if not sampling.batch_size:
            (first,) = super().batches(graph, sampling)
            if self._whole is None or self._whole[0] is not first:
                self._whole = first, self._pair(first, full_batch(diffusion, sampling.device))
            yield self._whole[1]
            return
        both = (mini_batches(each, sampling, layers=self.encoder.hops) for each in (graph, diffusion))
        yield from map(self._pair, *both)

    def forward(self, views: Views) -> Tensor:
        """Return the loss of a pair of batches."""
        count = views[0].num_centres
        h = [side[:count] for side in self._vectors(views)]
        corrupted = [side[:count] for side in self._vectors((shuffle_features(views[0]), shuffle_features(views[1])))]
        summaries = [torch.sigmoid(side.mean(dim=0)) for side in h]
        loss = h[0].new_zeros(())
        for side, other in ((0, 1), (1, 0)):
            yes = self.discriminator(h[side], summaries[other])
            no = self.discriminator(corrupted[side], summaries[other])
            loss = loss + infomax(yes, no) / 2
        return self.note(count, loss, h[0] + h[1])

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:  # noqa: ARG002
        """Return the sum of both views' vectors, shape ``(N, dim)``."""
        device = next(self.parameters()).device
        self.eval()
        with torch.no_grad():
            first, other = self._vectors(self._pair(*(full_batch(g, device) for g in (graph, self._diffusion(graph)))))
        return cast("NDArray[np.float32]", (first + other).cpu().numpy())

    def _diffusion(self, graph: Graph) -> Graph:
        """The diffusion of a graph; that of the last one is kept."""
        if self._diffused is None or self._diffused[0] is not graph:
            diffused = diffuse(
                graph,
                self.theta,
                neighbours=self.neighbours,
                precision=self.precision,
                threshold=self.threshold,
                by_column=self.column_scale,
            )
            self._diffused = graph, diffused
        return self._diffused[1]

    def _pair(self, first: Batch, second: Batch) -> Views:
        """Both batches as the encoders take them; by degrees of 0 and a loop of 1, a GCN divides by nothing."""
        if self.column_scale:
            second = replace(second, degrees=np.zeros_like(second.degrees))
        return replace(first, loop=self.loop_weight), second

    def _vectors(self, views: Views) -> list[Tensor]:
        networks = (self.encoder, self.second)
        return [
            activation(network(view))
            for network, activation, view in zip(networks, self.activations, views, strict=True)
        ]
