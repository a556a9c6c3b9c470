r"""Graph contrastive learning with augmentations (GraphCL), in its form for nodes.

You, Chen, Sui, Chen, Wang, Shen: *Graph Contrastive Learning with Augmentations*, NeurIPS 2020.

Two augmented views are compared. For whole graphs the paper contrasts a graph's two views with those of other graphs:

.. math::
    \ell_n = -\log \frac{\exp(\mathrm{sim}(z_{n,i}, z_{n,j}) / \tau)}
        {\sum_{n' \ne n} \exp(\mathrm{sim}(z_{n,i}, z_{n',j}) / \tau)} \tag{3}

For nodes of one graph its code takes DGI's discriminator, with the summaries of both views:

.. math::
    \mathcal{L} = -\frac{1}{2N} \sum_i \big( \log D(h_i) + \log(1 - D(\tilde h_i)) \big), \qquad
    D(h) = \sigma(h^\top W s_1 + h^\top W s_2 + 2 b)

with h the vectors of the graph itself, :math:`\tilde h` those under shuffled features, and s the sigmoid of the mean of
a view's vectors. ``objective="nt-xent"`` is Eq. 3 between nodes, through a projector of two layers.

The four augmentations: ``node`` (nodes lose links and features), ``link`` (links are replaced by random ones), ``mask``
(nodes lose their features) and ``subgraph`` (a connected part is kept). ``strength`` is the fraction of nodes that a
view changes, and a quarter of it the fraction of links that ``link`` replaces, as in the authors' code.

Where we differ: a node that a view drops stays as a row without links and features, so that views have the same rows;
nt-xent compares at most ``anchors`` nodes per step, so that no matrix has a row and a column for each node, and has the
positive pair in the denominator too, which keeps the loss at or above zero.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor, nn

from dssl.methods.base import EncoderMethod
from dssl.nn.augment import VIEWS, shuffle_features
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.heads import Bilinear
from dssl.nn.losses import info_nce, infomax

OF_LINKS = 0.25  # of the strength: the authors' code halves it twice for links


class GraphCL(EncoderMethod):
    """The loss of GraphCL around an encoder.

    Args:
        encoder: the encoder, whose output goes through a PReLU.
        objective: ``infomax`` or ``nt-xent``.
        first_view: augmentation of the first view, a name of `dssl.nn.augment.VIEWS`.
        second_view: that of the second.
        strength: fraction of nodes that a view changes; of links a quarter of it.
        temperature: τ of nt-xent.
        anchors: nodes that nt-xent compares in a step, at most.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        objective: Literal["infomax", "nt-xent"],
        first_view: str,
        second_view: str,
        strength: float,
        temperature: float,
        anchors: int,
    ) -> None:
        super().__init__(encoder)
        dim = encoder.dim
        self.objective, self.temperature, self.anchors = objective, temperature, anchors
        self.views = tuple(
            (VIEWS[name], strength * OF_LINKS if name == "link" else strength) for name in (first_view, second_view)
        )
        self.activation = nn.PReLU()
        self.discriminator = Bilinear(dim) if objective == "infomax" else None
        self.projector = nn.Sequential(Dense(dim, dim), nn.ReLU(), Dense(dim, dim)) if objective == "nt-xent" else None

    def finalize(self, h: Tensor) -> Tensor:
        """Return the encoder's output through the PReLU, shape ``(n, dim)``."""
        return cast(Tensor, self.activation(h))

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        count = batch.num_centres
        first, second = (self.vectors(view(batch, rate))[:count] for view, rate in self.views)
        if self.projector is not None:
            chosen = torch.randperm(count)[: self.anchors].to(batch.device)
            loss = info_nce(self.projector(first[chosen]), self.projector(second[chosen]), self.temperature)
            return self.note(count, loss, first)
        assert self.discriminator is not None
        h = self.vectors(batch)[:count]
        corrupted = self.vectors(shuffle_features(batch))[:count]
        summaries = [torch.sigmoid(view.mean(dim=0)) for view in (first, second)]
        positive, negative = (sum(self.discriminator(side, s) for s in summaries) for side in (h, corrupted))
        loss = infomax(positive, negative)
        return self.note(count, loss, h)
