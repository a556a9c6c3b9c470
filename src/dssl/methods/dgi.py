r"""Deep graph infomax (DGI).

Veličković, Fedus, Hamilton, Liò, Bengio, Hjelm: *Deep Graph Infomax*, ICLR 2019.

A node's vector should distinguish the summary of its own graph from that of a graph with shuffled features:

.. math::
    \mathcal{L} &= -\frac{1}{2N} \sum_i \Big( \log D(h_i, s) + \log (1 - D(\tilde h_i, s)) \Big) \tag{1} \\
    s &= \sigma\Big(\frac{1}{N} \sum_i h_i\Big) \\
    D(h, s) &= \sigma(h^\top W s + b)

with h the vectors of the graph and :math:`\tilde h` those of the same links under features in another order. h is the
encoder's output through a PReLU with one slope; one layer of GCN is the paper's choice for citation graphs. The bias b
and the single slope are those of the authors' code.

Where we differ: in mini-batches the summary is that of the batch's centres (the paper does so on Reddit and PPI); 64
columns where the paper has 512; training does not stop early unless ``train.patience`` is set.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dssl.methods.base import EncoderMethod
from dssl.nn.augment import shuffle_features
from dssl.nn.batches import Batch
from dssl.nn.encoders import Encoder
from dssl.nn.heads import Bilinear
from dssl.nn.losses import infomax


class DGI(EncoderMethod):
    """The loss of DGI around an encoder.

    Args:
        encoder: the encoder, whose output goes through a PReLU.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.activation = nn.PReLU()
        self.discriminator = Bilinear(encoder.dim)

    def finalize(self, h: Tensor) -> Tensor:
        """Return the encoder's output through the PReLU, shape ``(n, dim)``."""
        return cast(Tensor, self.activation(h))

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch (Eq. 1)."""
        count = batch.num_centres
        h = self.vectors(batch)[:count]
        corrupted = self.vectors(shuffle_features(batch))[:count]
        s = torch.sigmoid(h.mean(dim=0))
        loss = infomax(self.discriminator(h, s), self.discriminator(corrupted, s))
        return self.note(count, loss, h)
