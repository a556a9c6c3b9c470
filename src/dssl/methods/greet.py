r"""Representations by discriminating homophilic from heterophilic edges (GREET).

Liu, Zheng, Zhang, Lee, Pan: *Beyond Smoothing: Unsupervised Graph Representation Learning with Edge Heterophily
Discriminating*, AAAI 2023.

A discriminator gives each link a probability that its ends are similar. A low-pass filter smooths along similar links,
a high-pass filter sharpens along the others, and the two vectors of a node are contrasted. The vectors in turn train
the discriminator: an edge should count as similar if its ends are more similar than random pairs of nodes. The equation
numbers are those of this file:

.. math::
    \theta_{ij} &= u^\top (r_i + r_j) + c, \qquad r_i = \mathrm{ReLU}(R [x_i, s_i] + d) \tag{1} \\
    w_{ij} &= \sigma(\theta_{ij} + \log \delta - \log (1 - \delta)), \qquad \delta \sim U(0, 1) \tag{2} \\
    H^l &= (D_l^{-1/2} (A_l + I) D_l^{-1/2})^k F_l, \qquad A_l = w \odot A \tag{3} \\
    H^h &= (I - \alpha D_h^{-1/2} A_h D_h^{-1/2})^k F_h, \qquad A_h = (1 - w) \odot A \tag{4} \\
    \mathcal{L}_c &= -\frac{1}{2N} \sum_i \frac{1}{|P_i|} \sum_{j \in P_i} \Big(
        \log \frac{e^{\cos(p^l_i, p^h_j) / \tau}}{\sum_{k \notin P_i} e^{\cos(p^l_i, p^h_k) / \tau}} +
        \log \frac{e^{\cos(p^h_i, p^l_j) / \tau}}{\sum_{k \notin P_i} e^{\cos(p^h_i, p^l_k) / \tau}} \Big) \tag{5} \\
    \mathcal{L}_r &= \frac{1}{2E} \sum_{ij} \big( [w_{ij} - \tfrac12]_+ [m_l - c_{ij} + c_{i'j'}]_+
        + [\tfrac12 - w_{ij}]_+ [m_h - c_{i'j'} + c_{ij}]_+ \big), \quad c_{ij} = \cos(h_i, h_j) \tag{6}

:math:`[F_l, F_h] = \mathrm{ReLU}(f(X))` are the two halves of the encoder's output, D are the row sums of :math:`A_l +
I` and :math:`A_h + I`, p are projections of the two vectors, and :math:`P_i` is i with the nodes of the most similar
features. :math:`s_i` are the probabilities that a random walk is back at i after 1, 2, … steps. In Eq. 6 each edge has
a random pair (i', j'). The encoder makes ``contrast_steps`` steps on Eq. 5, with w given and with masked features and
dropped entries of the two matrices; then the discriminator makes one step on Eq. 6, with the encoder given. The
embedding is :math:`h = [h^l, h^h]`, with δ = ½.

==================================  =========================================
symbol                              name
==================================  =========================================
:math:`f`                           ``encoder``
:math:`R, d; u, c`                  ``hidden``, ``places``; ``score``
:math:`\dim s_i`                    ``encoding_dim``
:math:`k, \alpha`                   ``hops``, ``high_pass_weight``
:math:`|P_i| - 1, \tau`             ``positives``, ``temperature``
:math:`m_l, m_h`                    ``low_margin``, ``high_margin``
==================================  =========================================

Where we differ: the encoder's two halves take the place of two encoders, the same for a linear one. The authors draw δ
for the embedding too. At most ``anchors`` nodes are compared in a step on Eq. 5, and at most ``pairs`` edges in one on
Eq. 6; the authors take all, or parts of 5,000 nodes. They choose the epoch by labels of the split they test on; we keep
the last.

>>> from dssl import Embedder, Graph
>>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
>>> Embedder(method="greet", dim=4, epochs=2).fit_transform(graph).shape
(4, 4)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.methods._node_similarity import return_probabilities, similar_nodes
from dssl.methods.base import EncoderMethod
from dssl.nn import health
from dssl.nn.augment import mask_columns
from dssl.nn.batches import Batch, Sampling, full_batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.operators import weighted_sum
from dssl.runtime import distributed
from dssl.runtime.scale import IN_MEMORY, Scale

CERTAIN = 1e-4  # δ is drawn between this and 1 minus this, as by the authors


class Step(NamedTuple):
    """A batch, and the loss that is to be lowered on it."""

    loss: Literal["contrast", "ranking"]
    batch: Batch


class Discriminator(nn.Module):
    """Eq. 1: a score of each link, from the features and the encodings of its ends."""

    def __init__(self, in_dim: int, encoding_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.hidden = Dense(in_dim, hidden_dim)
        self.places = Dense(encoding_dim, hidden_dim, bias=False)
        self.score = Dense(hidden_dim, 1)

    def forward(self, batch: Batch, encodings: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return θ of the arcs, shape ``(A,)``."""
        r = torch.relu(self.hidden(batch.x) + self.places(encodings))
        each = (r @ self.score.weight).squeeze(1)  # uᵀ (r_i + r_j) = uᵀ r_i + uᵀ r_j
        return each.index_select(0, source) + each.index_select(0, target) + cast(Tensor, self.score.bias)


class GREET(EncoderMethod):
    """The networks and the two losses of GREET.

    Args:
        encoder: the encoder; one half of its output is filtered low, the other high.
        hops: k.
        high_pass_weight: α.
        temperature: τ.
        positives: nodes of similar features that count as the same node in the contrast.
        projector_dim: width of the projections.
        projector_layers: 1 or 2.
        feature_mask_1: fraction of feature columns masked for the low-pass view.
        feature_mask_2: for the high-pass view.
        link_drop_1: fraction of entries of the low-pass matrix that are dropped.
        link_drop_2: of the high-pass matrix.
        low_margin: m_l.
        high_margin: m_h.
        encoding_dim: number of entries of s, the longest walk.
        discriminator_dim: width of r.
        contrast_steps: steps on Eq. 5 before each on Eq. 6.
        anchors: nodes that are contrasted in a step, at most.
        pairs: edges that are ranked in a step, at most.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        hops: int,
        high_pass_weight: float,
        temperature: float,
        positives: int,
        projector_dim: int,
        projector_layers: int,
        feature_mask_1: float,
        feature_mask_2: float,
        link_drop_1: float,
        link_drop_2: float,
        low_margin: float,
        high_margin: float,
        encoding_dim: int,
        discriminator_dim: int,
        contrast_steps: int,
        anchors: int,
        pairs: int,
    ) -> None:
        super().__init__(encoder)
        if encoder.dim < 2:
            raise ConfigError("encoder.dim is 1, but the method greet splits the vector in two; use at least 2")
        self.hops, self.high_pass_weight = hops, high_pass_weight
        self.temperature, self.positives = temperature, positives
        self.rates = (feature_mask_1, link_drop_1), (feature_mask_2, link_drop_2)
        self.margins, self.encoding_dim, self.contrast_steps = (low_margin, high_margin), encoding_dim, contrast_steps
        self.anchors, self.pairs = anchors, pairs
        self.halves = encoder.dim // 2, encoder.dim - encoder.dim // 2
        self.projectors = nn.ModuleList(projector(half, projector_dim, projector_layers) for half in self.halves)
        self.discriminator = Discriminator(encoder.in_dim, encoding_dim, discriminator_dim)
        self._encodings: tuple[Graph, NDArray[np.float32]] | None = None
        self._alike = sparse.csr_array((0, 0))
        self._ranking = health.Meter()

    @property
    def reach(self) -> int:
        """The steps of the encoder and of the filters."""
        return self.encoder.hops + self.hops

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:  # noqa: ARG002
        """Find the return probabilities, and the nodes with the most similar features."""
        self._encodings = graph, return_probabilities(graph, self.encoding_dim)
        self._alike = similar_nodes(graph, self.positives)

    def batches(self, graph: Graph, sampling: Sampling) -> Iterator[Step]:
        """Give each batch several times: for the steps on Eq. 5, then for the one on Eq. 6."""
        for batch in super().batches(graph, sampling):
            for _ in range(self.contrast_steps):
                yield Step("contrast", batch)
            yield Step("ranking", batch)

    def forward(self, step: Step) -> Tensor:
        """Return the loss of a batch: Eq. 5 or Eq. 6."""
        return self.contrast(step.batch) if step.loss == "contrast" else self.ranking(step.batch)

    def contrast(self, batch: Batch) -> Tensor:
        """Return Eq. 5; the discriminator gets no gradient."""
        count = batch.num_centres
        with frozen(self.discriminator):
            weights = self.weights(batch, self.encodings(batch))
        views = [mask_columns(batch, mask) for mask, _ in self.rates]
        h = [side[:count] for side in self.filtered(views, weights, tuple(drop for _, drop in self.rates))]
        chosen = torch.randperm(count)[: self.anchors]
        nodes = batch.nodes[chosen.numpy()]
        alike = torch.from_numpy(self._alike[nodes][:, nodes].toarray()).to(batch.device)
        p = [net(side.index_select(0, chosen.to(batch.device))) for net, side in zip(self.projectors, h, strict=True)]
        loss = cross_view(p[0], p[1], alike, self.temperature)
        return self.note(count, loss, torch.cat(h, dim=1))

    def ranking(self, batch: Batch) -> Tensor:
        """Return Eq. 6; the encoder gets no gradient."""
        count = batch.num_centres
        weights = self.weights(batch, self.encodings(batch))
        with frozen(self.encoder):
            h = torch.cat(self.filtered([batch, batch], weights), dim=1)
        neighbour, centre = batch.edge_index
        arcs = torch.arange(int(batch.adjacency.indptr[count]))  # those of the centres come first
        if len(arcs) > self.pairs:
            arcs = torch.randperm(len(arcs))[: self.pairs]
        first = torch.randint(count, (len(arcs),))
        second = (first + torch.randint(1, max(count, 2), (len(arcs),))) % count
        arcs, pairs = arcs.to(batch.device), (first.to(batch.device), second.to(batch.device))
        linked = cosines(h, centre.index_select(0, arcs), neighbour.index_select(0, arcs))
        loss = pivot_ranking(weights.index_select(0, arcs), linked, cosines(h, *pairs), *self.margins)
        self._ranking.add(count, {"ranking": float(loss.detach())})
        return loss * distributed.share(count)

    def after_epoch(self) -> dict[str, float]:
        """Return the record of the epoch: the contrast is its loss."""
        return super().after_epoch() | self._ranking.read()

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:  # noqa: ARG002
        """Return both vectors of each node side by side, with δ = ½, shape ``(N, dim)``."""
        self.eval()
        batch = full_batch(graph, next(self.parameters()).device)
        known = self._encodings is not None and self._encodings[0] is graph
        encodings = self.encodings(batch) if known else torch.from_numpy(return_probabilities(graph, self.encoding_dim))
        with torch.no_grad():
            weights = self.weights(batch, encodings.to(batch.device))
            found = torch.cat(self.filtered([batch, batch], weights), dim=1)
        return cast("NDArray[np.float32]", found.cpu().numpy())

    def encodings(self, batch: Batch) -> Tensor:
        """Return s of the nodes of a batch, shape ``(n, encoding_dim)``."""
        assert self._encodings is not None
        return torch.from_numpy(self._encodings[1][batch.nodes]).to(batch.device)

    def weights(self, batch: Batch, encodings: Tensor) -> Tensor:
        """Return w of the arcs (Eq. 2), in training with noise, shape ``(A,)``."""
        neighbour, centre = batch.edge_index
        theta = self.discriminator(batch, encodings, neighbour, centre)
        if self.training:
            delta = CERTAIN + (1 - 2 * CERTAIN) * torch.rand(theta.shape).to(theta.device)
            theta = theta + torch.log(delta) - torch.log1p(-delta)
        return torch.sigmoid(theta)

    def filtered(self, views: list[Batch], weights: Tensor, drops: tuple[float, ...] = (0.0, 0.0)) -> list[Tensor]:
        """Return H of the low-pass and of the high-pass filter (Eq. 3, 4), shapes ``(n, dim / 2)``.

        Args:
            views: the batch as the one and as the other filter takes its features.
            weights: w, shape ``(A,)``.
            drops: probability that an entry of the one and of the other matrix is dropped.
        """
        batch = views[0]
        neighbour, centre = batch.edge_index
        n = len(batch.nodes)
        values = torch.tensor(batch.adjacency.data).to(batch.device)
        low = torch.relu(self.encoder(views[0]))[:, : self.halves[0]]
        high = torch.relu(self.encoder(views[1]))[:, self.halves[0] :]
        made = []
        for h, part, drop, sharp in ((low, weights, drops[0], False), (high, 1 - weights, drops[1], True)):
            strength = part * values
            root = (1 + h.new_zeros(n).index_add(0, centre, strength)).rsqrt()  # D^−½
            entries = strength * root.index_select(0, centre) * root.index_select(0, neighbour)
            diagonal = root.square()
            if sharp:
                entries, diagonal = -self.high_pass_weight * entries, torch.ones_like(root)
            entries, diagonal = F.dropout(entries, drop), F.dropout(diagonal, drop)
            for _ in range(self.hops):
                h = diagonal[:, None] * h + weighted_sum(entries, h, neighbour, centre, n)
            made.append(h)
        return made


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Use a module inside the block as outside training, and without gradients of its parameters."""
    training, learnt = module.training, [p for p in module.parameters() if p.requires_grad]
    module.eval()
    for parameter in learnt:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        module.train(training)
        for parameter in learnt:
            parameter.requires_grad_(True)


def projector(in_dim: int, dim: int, layers: int) -> nn.Module:
    """Make a projection of one or two layers."""
    rest: list[nn.Module] = [nn.ReLU(), Dense(dim, dim)] if layers == 2 else []
    return nn.Sequential(Dense(in_dim, dim), *rest)


def cross_view(first: Tensor, second: Tensor, alike: Tensor, temperature: float) -> Tensor:
    """Eq. 5 for projections of shape ``(n, d)``, with P as ones of a matrix; a node without negatives adds nothing."""
    similarity = F.normalize(first, dim=1) @ F.normalize(second, dim=1).T / temperature
    positive = alike.bool()
    counted = ~positive.all(dim=1)
    total = first.new_zeros(())
    if not counted.any():
        return 0 * similarity.sum()
    for scores in (similarity[counted], similarity.T[counted]):
        mask = positive[counted]
        pull = (scores * mask).sum(dim=1) / mask.sum(dim=1)
        total = total + (torch.logsumexp(scores.masked_fill(mask, -torch.inf), dim=1) - pull).sum() / (2 * len(first))
    return total


def pivot_ranking(weights: Tensor, linked: Tensor, random: Tensor, low_margin: float, high_margin: float) -> Tensor:
    """Eq. 6 for w, cosines of edges and cosines of random pairs, shapes ``(E,)``."""
    if not len(weights):
        return 0 * weights.sum()
    low = F.relu(weights - 0.5) * F.relu(low_margin - linked + random)
    high = F.relu(0.5 - weights) * F.relu(high_margin - random + linked)
    return (low + high).mean() / 2


def cosines(h: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the cosines of pairs of rows, shape ``(m,)``."""
    unit = F.normalize(h, dim=1)
    return (unit.index_select(0, first) * unit.index_select(0, second)).sum(dim=1)
