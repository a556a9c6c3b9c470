r"""Contrast of a low-pass and a high-pass polynomial filter (PolyGCL).

Chen, Lei, Wei: *PolyGCL: Graph Contrastive Learning via Learnable Spectral Polynomial Filters*, ICLR 2024.

Two learnable filters of the graph's spectrum, one that decreases and one that increases, give each node a smooth and a
sharp vector. A discriminator compares both with a summary of the graph. The equation numbers are those of this file:

.. math::
    g(\hat L) &= \frac{w_0}{2} I + \sum_{k=1}^K w_k T_k(\hat L), \qquad
        w_k = \frac{2}{K+1} \sum_{j=0}^K \gamma_j T_k(x_j), \quad
        x_j = \cos\Big( \frac{K - j + 1/2}{K + 1} \pi \Big) \tag{1} \\
    \gamma^L_j &= 2 - \sum_{i=1}^j \max(\theta^L_i, 0), \qquad
        \gamma^H_j = \sum_{i=1}^j \max(\theta^H_i, 0) \tag{2} \\
    Z^L &= \sigma(g^L(\hat L) X W + b), \qquad Z^H = \sigma(g^H(\hat L) X W + b) \tag{3} \\
    s &= \mathrm{ReLU}\Big( \frac{1}{N} \sum_i z_i \Big), \qquad Z = \alpha Z^H + \beta Z^L \tag{4} \\
    \mathcal{L} &= -\frac{1}{4N} \sum_i \sum_{P \in \{L, H\}}
        \Big( \log D(z^P_i, s) + \log (1 - D(\tilde z^P_i, s)) \Big) \tag{5}

:math:`\hat L = -D^{-1/2} A D^{-1/2}` is the Laplacian with its spectrum moved to [−1, 1], :math:`T_k` are the Chebyshev
polynomials, and :math:`\gamma_j` is the value of the filter at the frequency :math:`1 + x_j`. The tilde marks shuffled
features, and :math:`D(z, s) = \mathrm{sigmoid}(z^\top M s + c)`. The embedding is Z.

==============================  =======================
symbol                          name
==============================  =======================
:math:`K`                       ``degree``
:math:`\theta^L, \theta^H`      ``low``, ``high``
:math:`\alpha, \beta`           ``mixture``
:math:`X W`                     ``encoder``
:math:`b`                       ``bias``
:math:`M, c`                    ``discriminator``
:math:`\sigma`                  ``activation``
==============================  =======================

The authors train θ, α and β with a separate learning rate. Here θ = 2/K + η p, α = 1/2 + η p' and β = 1/2 + η p'',
where η is ``filter_rate`` and the optimiser moves p. Adam's steps do not depend on the size of a gradient, so this is
Adam with η times the learning rate.

With ``filtered_dropout`` or ``normalise``, the features are filtered first, as by the authors, and entries of the
filtered features are dropped, or their columns normalised over the nodes. Otherwise we filter X W: for a linear encoder
both are the same, and X W has N·dim numbers in place of N·F.

Where we differ: any encoder may take the place of X W. We keep the weights of the last epoch; the authors keep those of
the smallest loss, and stop after 20 epochs without a smaller one. The slope of the PReLU is learnt; the authors'
optimiser leaves it out. In mini-batches the degrees are those of the sampled links, which keeps the norm of the matrix
at 1 and its polynomials bounded.

>>> from dssl import Embedder, Graph
>>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
>>> Embedder(method="polygcl", dim=3, epochs=2).fit_transform(graph).shape
(4, 3)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.methods.base import EncoderMethod
from dssl.nn import layerwise
from dssl.nn.augment import drop_features, shuffle_features, with_features
from dssl.nn.batches import Batch, full_batch
from dssl.nn.encoders import BatchNorm, Dense, Encoder, Hops, Stack
from dssl.nn.heads import Bilinear, draw_as_torch
from dssl.nn.losses import infomax
from dssl.nn.operators import Operator
from dssl.runtime.scale import IN_MEMORY, Scale

NORM_MOMENTUM = 0.01  # fraction of a step in the running statistics, as by the authors


class PolyGCL(EncoderMethod):
    """The filters and the loss of PolyGCL around an encoder.

    Args:
        encoder: the encoder that the filters are applied to; a linear one is the paper's.
        degree: K.
        feature_dropout: probability that an entry of the features is dropped, in each view by itself.
        filtered_dropout: probability that an entry of the filtered features is dropped.
        normalise: whether the columns of the filtered features are normalised over the nodes.
        activation: σ.
        filter_rate: learning rate of the filters and of the mixture, as a multiple of the training's.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        degree: int,
        feature_dropout: float,
        filtered_dropout: float,
        normalise: bool,
        activation: Literal["relu", "prelu"],
        filter_rate: float,
    ) -> None:
        super().__init__(encoder)
        self.degree, self.filter_rate = degree, filter_rate
        self.feature_dropout, self.filtered_dropout = feature_dropout, filtered_dropout
        self.norm = BatchNorm(encoder.in_dim, momentum=NORM_MOMENTUM).requires_grad_(False) if normalise else None
        self.low, self.high = nn.Parameter(torch.zeros(degree)), nn.Parameter(torch.zeros(degree))
        self.mixture = nn.Parameter(torch.zeros(2))
        self.bias = nn.Parameter(torch.empty(encoder.dim))
        self.activation = nn.PReLU() if activation == "prelu" else nn.ReLU()
        self.discriminator = Bilinear(encoder.dim)
        self.register_buffer("interpolation", interpolation(degree), persistent=False)
        self._start()

    def _start(self) -> None:
        """Draw W, b and M as torch's own layers do; take its bias from the encoder's last layer.

        With Glorot's larger weights and a bias of zero, vectors of row-scaled features start otherwise, and Texas ends
        six points lower. Before the filter a bias would add vectors of degrees.
        """
        encoder = self.encoder
        last = encoder.out if isinstance(encoder, Hops) else encoder.layers[-1] if isinstance(encoder, Stack) else None
        inputs = encoder.dim
        if isinstance(last, Dense):
            last.bias, inputs = None, len(last.weight)
            draw_as_torch(last)
        nn.init.uniform_(self.bias, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))
        nn.init.uniform_(self.discriminator.weight, -1 / math.sqrt(encoder.dim), 1 / math.sqrt(encoder.dim))

    @property
    def reach(self) -> int:
        """The steps of the encoder and of the filters."""
        return self.encoder.hops + self.degree

    def weights(self, kind: Literal["low", "high"]) -> Tensor:
        """Return w of a filter, its first halved as in Eq. 1, shape ``(K + 1,)``."""
        steps = F.relu(2 / self.degree + self.filter_rate * getattr(self, kind))
        sums = F.pad(steps.cumsum(dim=0), (1, 0))
        return cast(Tensor, self.interpolation) @ (2 - sums if kind == "low" else sums)

    @property
    def features_first(self) -> bool:
        """Whether the filters are applied to X, not to X W."""
        return self.filtered_dropout > 0 or self.norm is not None

    def filtered(self, batch: Batch, kind: Literal["low", "high"]) -> Tensor:
        """Return Z^L or Z^H (Eq. 3), shape ``(n, dim)``."""
        if not self.features_first:
            return self.after_filter(self.encoder(batch), batch, kind)
        x = batch.x.dense() if isinstance(batch.x, Operator) else batch.x
        x = chebyshev(batch.normalised, x, self.weights(kind))
        x = F.dropout(x, self.filtered_dropout, self.training)
        if self.norm is not None:
            x = self.norm(x, batch.num_centres)
        return cast(Tensor, self.activation(self.encoder(with_features(batch, x)) + self.bias))

    def after_filter(self, h: Tensor, batch: Batch, kind: Literal["low", "high"]) -> Tensor:
        """Return Z^L or Z^H for h = X W (Eq. 3), shape ``(n, dim)``."""
        return cast(Tensor, self.activation(chebyshev(batch.normalised, h, self.weights(kind)) + self.bias))

    def views(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return Z^H and Z^L of the centres, each with a separate dropout, shapes ``(C, dim)``."""
        made = []
        for kind in ("high", "low"):
            dropped = drop_features(batch, self.feature_dropout) if self.training and self.feature_dropout else batch
            made.append(self.filtered(dropped, kind)[: batch.num_centres])
        return made[0], made[1]

    def joined(self, high: Tensor, low: Tensor) -> Tensor:
        """Return Z (Eq. 4), shape ``(n, dim)``."""
        alpha, beta = (0.5 + self.filter_rate * self.mixture).unbind()
        return alpha * high + beta * low

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch (Eq. 5)."""
        true, shuffled = self.views(batch), self.views(shuffle_features(batch))
        z = self.joined(*true)
        s = F.relu(z.mean(dim=0))
        loss = z.new_zeros(())
        for good, bad in zip(true, shuffled, strict=True):
            logits = (self.discriminator(view, s) for view in (good, bad))
            loss = loss + infomax(*logits) / 2
        return self.note(batch.num_centres, loss, z)

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:
        """Return Z, shape ``(N, dim)``; the encoder's part of a large graph layer by layer."""
        self.eval()
        device = next(self.parameters()).device
        with torch.no_grad():
            if scale.in_memory or self.features_first:
                z = self.joined(*self.views(full_batch(graph, device)))
            else:
                batch = full_batch(graph.replace(x=layerwise.encoded(self.encoder, graph, device)), device)
                h = cast(Tensor, batch.x)
                z = self.joined(self.after_filter(h, batch, "high"), self.after_filter(h, batch, "low"))
        return cast("NDArray[np.float32]", z.cpu().numpy())


def interpolation(degree: int) -> Tensor:
    """Return the matrix that makes w of γ (Eq. 1), the first row halved, shape ``(K + 1, K + 1)``.

    >>> line = 1 + torch.cos((3 - torch.arange(4) + 0.5) * torch.pi / 4)  # the filter that is the frequency itself
    >>> [round(float(weight), 5) + 0.0 for weight in interpolation(3) @ line]
    [1.0, 1.0, 0.0, 0.0]
    """
    angles = (degree - np.arange(degree + 1) + 0.5) * np.pi / (degree + 1)
    matrix = 2 / (degree + 1) * np.cos(np.arange(degree + 1)[:, None] * angles)
    matrix[0] /= 2
    return torch.from_numpy(matrix.astype(np.float32))


def chebyshev(normalised: Operator, h: Tensor, weights: Tensor) -> Tensor:
    """Return Σ_k w_k T_k(−D^−½ A D^−½) h, for h of shape ``(n, dim)`` and w of shape ``(K + 1,)``."""
    if not h.requires_grad:
        return cast(Tensor, _OfConstant.apply(weights, h, normalised))  # type: ignore[no-untyped-call]
    terms = polynomials(normalised, h, len(weights))
    total = weights[0] * next(terms)
    for weight, term in zip(weights[1:], terms, strict=True):
        total = total + weight * term
    return total


def polynomials(normalised: Operator, h: Tensor, count: int) -> Iterator[Tensor]:
    """Yield T_0 h, T_1 h, … of −D^−½ A D^−½, ``count`` of them."""
    before, now = h, -(normalised @ h)
    yield from (before, now)
    for _ in range(count - 2):
        before, now = now, torch.add(normalised @ now, before, alpha=0.5).mul_(-2)
        yield now


class _OfConstant(torch.autograd.Function):
    """The polynomial of constant features, with the gradient of w alone: T_k h are made once, in place."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, h: Tensor, normalised: Operator) -> Tensor:
        ctx.terms = list(polynomials(normalised, h, len(weights)))
        total = torch.zeros_like(h)
        for weight, term in zip(weights.tolist(), ctx.terms, strict=True):
            total.add_(term, alpha=weight)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].flatten()
        return torch.stack([torch.dot(grad, term.flatten()) for term in ctx.terms]), None, None
