r"""Graph autoencoders: GAE and VGAE.

Kipf, Welling: *Variational Graph Auto-Encoders*, NeurIPS workshop on Bayesian Deep Learning 2016.

The links are predicted from the vectors of their ends:

.. math::
    q(z_i \mid X, A) &= \mathcal{N}(z_i;\; \mu_i, \mathrm{diag}(\sigma_i^2)) \tag{1} \\
    p(A_{ij} = 1 \mid z_i, z_j) &= \sigma(z_i^\top z_j) \tag{2} \\
    \mathcal{L} &= \mathbb{E}_q \log p(A \mid Z) - \mathrm{KL}\big(q(Z \mid X, A) \,\|\, p(Z)\big) \tag{3} \\
    \hat A &= \sigma(Z Z^\top), \quad Z = \mathrm{GCN}(X, A) \tag{4}

Eq. 4 is GAE: vectors without noise, and no KL. The embedding is Z, or μ.

Where we differ: the sum over all N² pairs, with links weighted as much as all others together, becomes the mean over
links plus the mean over as many random pairs, over two: the authors' weighted sum, in the mean and but for the few
links among these, without a matrix of pairs. μ and log σ are linear functions of the encoder's output: for a GCN that
is the paper's pair of last layers on a shared hidden one. In mini-batches the random pairs are among the centres, and
the links those that were sampled.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dssl.graph import Graph
from dssl.methods.base import EncoderMethod, sampled_links
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.runtime.scale import IN_MEMORY, Scale

MOST_LOG_STD = 10.0  # PyG's bound, which keeps exp finite


class GAE(EncoderMethod):
    """The graph autoencoder.

    Args:
        encoder: the encoder.
        pairs: links, and random pairs, that a step looks at, at most.
    """

    augments = False

    def __init__(self, encoder: Encoder, *, pairs: int) -> None:
        super().__init__(encoder)
        self.pairs = pairs

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch: Eq. 2 for Z of Eq. 4."""
        z = self.encoder(batch)
        return self.note(batch.num_centres, reconstruction(z, *self.draw(batch)), z)

    def draw(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Positions of the ends of links and of as many random pairs, shapes ``(2, m)``."""
        start, end, _ = sampled_links(batch, self.pairs)
        others = torch.randint(batch.num_centres, (2, len(start)))
        return torch.stack([start, end]), others.to(batch.device)


class VGAE(GAE):
    """The variational graph autoencoder.

    Args:
        encoder: the encoder.
        pairs: links, and random pairs, that a step looks at, at most.
        divergence_weight: weight of the KL; 1 is Eq. 3.
    """

    def __init__(self, encoder: Encoder, *, pairs: int, divergence_weight: float) -> None:
        super().__init__(encoder, pairs=pairs)
        self.mean = Dense(encoder.dim, encoder.dim)
        self.log_std = Dense(encoder.dim, encoder.dim)
        self.divergence_weight = divergence_weight
        self._num_nodes = 1

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:  # noqa: ARG002
        """Note the number of nodes, which the two terms of Eq. 3 are divided by."""
        self._num_nodes = graph.num_nodes

    def finalize(self, h: Tensor) -> Tensor:
        """Return μ, shape ``(n, dim)``."""
        mean: Tensor = self.mean(h)
        return mean

    def forward(self, batch: Batch) -> Tensor:
        """Return the negative of Eq. 3 per pair of nodes: divided by N²."""
        h = self.encoder(batch)
        mean, log_std = self.mean(h), self.log_std(h).clamp_max(MOST_LOG_STD)
        z = mean + torch.randn_like(mean) * log_std.exp()
        found = reconstruction(z, *self.draw(batch))
        count = batch.num_centres
        kl = divergence(mean[:count], log_std[:count])
        loss = found + self.divergence_weight / self._num_nodes * kl
        return self.note(count, loss, mean, reconstruction=found, divergence=kl)


def reconstruction(z: Tensor, links: Tensor, others: Tensor) -> Tensor:
    """−log p(A_ij), half of its means over links and over other pairs, given as positions, shapes ``(2, m)``."""
    if not links.shape[1]:
        return 0 * z.sum()
    yes, no = ((z.index_select(0, i) * z.index_select(0, j)).sum(dim=1) for i, j in (links, others))
    return (F.softplus(-yes).mean() + F.softplus(no).mean()) / 2


def divergence(mean: Tensor, log_std: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)), the mean over nodes, for shapes ``(n, dim)``."""
    return 0.5 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).sum(dim=1).mean()
