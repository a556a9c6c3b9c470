r"""Bootstrapped graph latents (BGRL).

Thakoor, Tallec, Azar, Azabou, Dyer, Munos, Veličković, Valko: *Large-Scale Representation Learning on Graphs via
Bootstrapping*, ICLR 2022.

A predictor p on the online encoder's vectors of one view predicts the target encoder's vectors of the other, without
negatives:

.. math::
    \mathcal{L} = -\frac{2}{N} \sum_i \frac{\langle p(h_{1,i}),\, t_{2,i} \rangle}{\|p(h_{1,i})\| \|t_{2,i}\|} \tag{1}

and the same with the views exchanged; gradients stop at t. The target's parameters follow the online ones,
:math:`\phi \leftarrow \tau \phi + (1 - \tau) \theta`, with τ rising to 1 along a cosine. A view masks columns of the
features and drops links. As in the authors' code, the last layer too ends with batch normalisation and a PReLU, and
running means take 0.99 of each step: the embedding is normalised nearly as the last view was.

Where we differ: the loss is written as the sum of both directions of ``1 − cos``, which is Eq. 1 up to constants; 200
epochs where the paper trains for 10,000, hence a larger learning rate without warm-up, and a τ that starts at 0.9: a
target that keeps 0.99 in each of 200 steps moves little. Views lose half of the links and features,
where the paper chooses these shares, mostly smaller, for each of its graphs.
"""

from __future__ import annotations

import copy
import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.methods.base import EncoderMethod, follow
from dssl.nn.augment import drop_links, mask_columns
from dssl.nn.batches import Batch
from dssl.nn.encoders import BatchNorm, Dense, Encoder, Layers


class BGRL(EncoderMethod):
    """The networks and the loss of BGRL.

    Args:
        encoder: the online encoder.
        momentum: τ of the first epoch; it rises to 1 along the training.
        predictor_dim: width of the predictor.
        link_drop_1: fraction of links dropped in the first view.
        link_drop_2: in the second.
        feature_mask_1: fraction of feature columns masked in the first view.
        feature_mask_2: in the second.
        norm_momentum: fraction of a step's means and variances in the running ones.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        momentum: float,
        predictor_dim: int,
        link_drop_1: float,
        link_drop_2: float,
        feature_mask_1: float,
        feature_mask_2: float,
        norm_momentum: float,
    ) -> None:
        super().__init__(encoder)
        self.momentum = self.tau = momentum
        self.rates = (link_drop_1, feature_mask_1), (link_drop_2, feature_mask_2)
        self.predictor = nn.Sequential(Dense(encoder.dim, predictor_dim), nn.PReLU(), Dense(predictor_dim, encoder.dim))
        self.output = Layers(BatchNorm(encoder.dim), nn.PReLU())
        for part in (*encoder.modules(), *self.output):
            if isinstance(part, BatchNorm):
                part.momentum = norm_momentum
        self.target = nn.ModuleList([copy.deepcopy(encoder), copy.deepcopy(self.output)]).requires_grad_(False)

    def vectors(self, batch: Batch) -> Tensor:
        """Return the embedding of each node of a batch, shape ``(n, dim)``."""
        return cast(Tensor, self.output(self.encoder(batch), batch.num_centres))

    def finalize(self, h: Tensor) -> Tensor:
        """Return the encoder's output through the last normalisation, shape ``(n, dim)``."""
        return cast(Tensor, self.output(h))

    def before_epoch(self, epoch: int, epochs: int) -> None:
        """Set τ."""
        self.tau = rising(self.momentum, epoch / max(epochs, 1))

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch (Eq. 1 in both directions)."""
        count = batch.num_centres
        views = [mask_columns(drop_links(batch, link), mask) for link, mask in self.rates]
        online = [self.vectors(view)[:count] for view in views]
        encoder, output = self.target
        with torch.no_grad():
            target = [output(encoder(view), count)[:count] for view in views]
        loss = bootstrap(self.predictor(online[0]), target[1]) + bootstrap(self.predictor(online[1]), target[0])
        return self.note(count, loss, online[0])

    def after_step(self) -> None:
        """Let the target follow the online encoder."""
        follow(self.target, nn.ModuleList([self.encoder, self.output]), self.tau)


def bootstrap(predicted: Tensor, target: Tensor) -> Tensor:
    """1 − cos of predictions and targets, the mean over nodes, shapes ``(n, dim)``."""
    return 1 - F.cosine_similarity(predicted, target.detach(), dim=1).mean()


def rising(first: float, progress: float) -> float:
    """τ along a half cosine, from ``first`` to 1 as progress goes from 0 to 1.

    >>> rising(0.9, 0.0), round(rising(0.9, 0.5), 6), rising(0.9, 1.0)
    (0.9, 0.95, 1.0)
    """
    return 1 - (1 - first) * (math.cos(math.pi * min(progress, 1.0)) + 1) / 2
