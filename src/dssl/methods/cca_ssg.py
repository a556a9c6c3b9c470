r"""From canonical correlation analysis to self-supervised graph neural networks (CCA-SSG).

Zhang, Wu, Yan, Wipf, Yu: *From Canonical Correlation Analysis to Self-supervised Graph Neural Networks*, NeurIPS 2021.

Two views of a node should have the same vector, and columns should be uncorrelated:

.. math::
    \mathcal{L} = \|\tilde Z_A - \tilde Z_B\|_F^2
        + \lambda \big( \|\tilde Z_A^\top \tilde Z_A - I\|_F^2 + \|\tilde Z_B^\top \tilde Z_B - I\|_F^2 \big)

where the columns of :math:`\tilde Z` have mean 0 and length 1. A view masks columns of the features and drops links. No
negatives, no second network; a step costs N·dim².

The authors' code has :math:`-\mathrm{tr}(\tilde Z_A^\top \tilde Z_B)` for the first term, which is half of it but for a
constant. We follow the code, so that λ weighs as much as in the authors' experiments.

Where we differ: 64 columns where the paper has 512, and 100 epochs. In mini-batches the columns are those of the
batch's centres.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dssl.methods.base import EncoderMethod
from dssl.nn.augment import drop_links, mask_columns
from dssl.nn.batches import Batch
from dssl.nn.encoders import Encoder


class CCASSG(EncoderMethod):
    """The loss of CCA-SSG around an encoder.

    Args:
        encoder: the encoder.
        decorrelation_weight: λ.
        link_drop: fraction of links that each view loses.
        feature_mask: fraction of feature columns masked in each view.
    """

    def __init__(self, encoder: Encoder, *, decorrelation_weight: float, link_drop: float, feature_mask: float) -> None:
        super().__init__(encoder)
        self.decorrelation_weight, self.link_drop, self.feature_mask = decorrelation_weight, link_drop, feature_mask

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        count = batch.num_centres
        first, second = (
            self.encoder(mask_columns(drop_links(batch, self.link_drop), self.feature_mask))[:count] for _ in range(2)
        )
        a, b = standardised(first), standardised(second)
        invariance = (a - b).square().sum() / 2
        decorrelation = off_identity(a) + off_identity(b)
        loss = invariance + self.decorrelation_weight * decorrelation
        return self.note(count, loss, first, invariance=invariance, decorrelation=decorrelation)


def standardised(z: Tensor) -> Tensor:
    """Columns with mean 0 and length 1, shape ``(n, dim)``; a constant column becomes zeros."""
    centred = z - z.mean(dim=0)
    return centred / (centred.square().sum(dim=0) + 1e-12).sqrt()


def off_identity(z: Tensor) -> Tensor:
    """‖ZᵀZ − I‖² for z of shape ``(n, dim)``."""
    return (z.T @ z - torch.eye(z.shape[1], device=z.device)).square().sum()
