r"""Masked graph autoencoder (GraphMAE).

Hou, Liu, Cen, Dong, Yang, Wang, Tang: *GraphMAE: Self-Supervised Masked Graph Autoencoders*, KDD 2022.

The features of random nodes are hidden, and a decoder predicts them from the vectors of the other nodes. The equation
numbers are those of this file:

.. math::
    \tilde x_i &= \begin{cases} x_i & v_i \notin \tilde V \\
        x_j \text{ of a random } j & v_i \in \tilde V_r \subset \tilde V \\
        x_{[M]} & v_i \in \tilde V \setminus \tilde V_r \end{cases} \tag{1} \\
    H &= f_E(A, \tilde X), \qquad \tilde h_i = \begin{cases} 0 & v_i \in \tilde V \\ h_i B & v_i \notin \tilde V
        \end{cases} \tag{2} \\
    z_i &= \sum_{j \in N(i) \cup i} \alpha_{ij} \tilde h_j W + b \tag{3} \\
    \mathcal{L} &= \frac{1}{|\tilde V|} \sum_{v_i \in \tilde V}
        \Big( 1 - \frac{x_i^\top z_i}{\|x_i\| \|z_i\|} \Big)^\gamma \tag{4}

:math:`f_E` is the encoder followed by a PReLU. The weights α are those of a GAT layer with one head, a softmax over j
of :math:`\mathrm{LeakyReLU}(\tilde h_i W a + \tilde h_j W a')`, or with ``decoder="gcn"`` the entries of
:math:`D^{-1/2} (A + I) D^{-1/2}`. The embedding is H of the features as they are, with nothing hidden.

=============================  ====================
symbol                         name
=============================  ====================
:math:`|\tilde V| / N`          ``mask_rate``
:math:`|\tilde V_r|/|\tilde V|`  ``replace_rate``
:math:`\gamma`                 ``exponent``
:math:`x_{[M]}`                ``token``
:math:`B`                      ``bridge``
:math:`W, b`                   ``decoder``
:math:`a, a'`                  ``attention``
=============================  ====================

Where we differ: the authors decrease the learning rate along a cosine, our loop keeps it. They join the encoder's
attention heads, ours are averaged. Our dropout acts between the encoder's layers, theirs also on features and
attention. In mini-batches, nodes are hidden among all nodes of the batch, and the loss is that of the hidden centres.

>>> from dssl import Embedder, Graph
>>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
>>> Embedder(method="graphmae", encoder="gcn", dim=3, epochs=2).fit_transform(graph).shape
(4, 3)
"""

from __future__ import annotations

from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.methods.base import EncoderMethod
from dssl.nn.augment import drop_links, replace_rows
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.operators import Operator, attention

SLOPE = 0.2  # of the LeakyReLU of attention, as in GAT


class GraphMAE(EncoderMethod):
    """The networks and the loss of GraphMAE.

    Args:
        encoder: the encoder, whose output goes through a PReLU.
        mask_rate: fraction of nodes whose features are hidden.
        replace_rate: fraction of these that get the features of a random node in place of the token.
        exponent: γ.
        link_drop: fraction of links that encoder and decoder do without.
        decoder: kind of the decoder's layer.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        mask_rate: float,
        replace_rate: float,
        exponent: float,
        link_drop: float,
        decoder: Literal["gat", "gcn"],
    ) -> None:
        super().__init__(encoder)
        self.mask_rate, self.replace_rate, self.exponent, self.link_drop = mask_rate, replace_rate, exponent, link_drop
        self.activation = nn.PReLU()
        self.token = nn.Parameter(torch.zeros(encoder.in_dim))
        self.bridge = Dense(encoder.dim, encoder.dim, bias=False)
        self.decoder = Dense(encoder.dim, encoder.in_dim)
        self.attention = Dense(encoder.in_dim, 2, bias=False) if decoder == "gat" else None

    @property
    def reach(self) -> int:
        """The steps of the encoder and that of the decoder."""
        return self.encoder.hops + 1

    def finalize(self, h: Tensor) -> Tensor:
        """Return the encoder's output through the PReLU, shape ``(n, dim)``."""
        return cast(Tensor, self.activation(h))

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch (Eq. 4)."""
        n, count = len(batch.nodes), batch.num_centres
        hidden = torch.randperm(n)[: max(int(self.mask_rate * n), 1)]
        number = int(self.replace_rate * len(hidden))
        donors = torch.randperm(n)[:number]
        view = replace_rows(
            drop_links(batch, self.link_drop) if self.link_drop else batch,
            hidden=hidden[number:],
            token=self.token,
            swapped=hidden[:number],
            donors=donors,
        )
        h = self.vectors(view)
        seen = torch.ones(n, 1).index_fill(0, hidden, 0.0).to(batch.device)
        mixed = self.average(seen * self.bridge(h), view)
        at = hidden[hidden < count].to(batch.device)
        loss = scaled_cosine_error(rows(batch.x, at), self.decoder(mixed.index_select(0, at)), self.exponent)
        return self.note(count, loss, h)

    def average(self, h: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j α_ij h_j (Eq. 3), shape ``(n, dim)``: W is applied after it, to the hidden nodes alone."""
        if self.attention is None:
            return batch.gcn @ h
        own, other = (h @ (self.decoder.weight @ self.attention.weight)).chunk(2, dim=1)
        return attention(h[:, None], own, other, batch.edge_index, SLOPE)


def rows(x: Tensor | Operator, at: Tensor) -> Tensor:
    """Return some rows of the features with their zeros, shape ``(m, F)``."""
    return x.take_rows(at).dense() if isinstance(x, Operator) else x.index_select(0, at)


def scaled_cosine_error(x: Tensor, z: Tensor, exponent: float) -> Tensor:
    """Eq. 4 for features and predictions of the hidden nodes, shapes ``(m, F)``; 0 where there are none.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> scaled_cosine_error(x, torch.tensor([[3.0, 0.0], [1.0, 0.0]]), 2.0).item()
    0.5
    """
    if not len(x):
        return 0 * z.sum()
    return (1 - F.cosine_similarity(x, z, dim=1)).clamp_min(0).pow(exponent).mean()
