r"""Linear decoders of what should not be forgotten: components of the features, and of the links.

Both have the loss :math:`1 - \frac{1}{n} \sum_i \cos(W e_i + b,\; t_i)` for embeddings e and targets t that are made
once before training. The targets of a warm start are those of the first fit, or turned to them: a decoder goes on.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from dssl import distributed
from dssl.encoders import Dense
from dssl.graph import Graph
from dssl.loader import Batch
from dssl.matrices import normalised_matrix
from dssl.readout import link_auc
from dssl.svd import components, truncated_svd


class Reconstruction(nn.Module):
    """A linear decoder of targets with a row per node.

    Args:
        dim: length of an embedding.
        width: columns of the targets.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.decoder = Dense(dim, width)
        self.width = width
        self.targets: NDArray[np.float32] | None = None

    def forward(self, embedding: Tensor, batch: Batch) -> Tensor:
        """One minus the mean cosine over the centres that have a target, which need not be any."""
        assert self.targets is not None
        count = batch.num_centres
        wanted = torch.from_numpy(self.targets[batch.nodes[:count]]).to(batch.device)
        present = wanted.square().sum(dim=1) > 0
        cosines = F.cosine_similarity(self.decoder(embedding[:count])[present], wanted[present], dim=1)
        added, number = distributed.total(torch.stack([cosines.sum(), present.sum().to(cosines.dtype)])).unbind()
        return 1 - added / number if number > 0 else embedding.new_zeros(())

    def _padded(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Columns of zeros where the matrix has fewer components."""
        return np.pad(values, ((0, 0), (0, self.width - values.shape[1])))


class FeatureReconstruction(Reconstruction):
    """Decodes the leading components of the features, always in the basis of the first fit.

    Args:
        dim: length of an embedding.
        width: components, at most as many as features.
        in_dim: number of features F.
    """

    def __init__(self, dim: int, width: int, *, in_dim: int) -> None:
        super().__init__(dim, min(width, in_dim))
        self.register_buffer("basis", torch.zeros(in_dim, self.width))  # zeros before the first fit

    def prepare(self, x: NDArray[np.float32] | sparse.csr_array, *, seed: int) -> None:
        """Make the targets from the features, shape ``(N, F)``."""
        basis = cast(Tensor, self.basis)
        if bool(basis.any()):
            self.targets = np.asarray(x @ basis.cpu().numpy(), np.float32)
            return
        values, vectors = components(x, self.width, seed=seed)
        basis[:, : vectors.shape[1]] = torch.from_numpy(vectors)
        self.targets = self._padded(values)


class LinkReconstruction(Reconstruction):
    """Decodes the leading components of D^−½ A D^−½, where links can be foretold from other links.

    ``share`` is how much better than chance they can, 0 to 1, found without labels: what the loss is to be weighted by.
    """

    share = 0.0

    def prepare(self, graph: Graph, *, known: NDArray[np.float32] | None, seed: int) -> None:
        """Make the targets.

        Args:
            graph: the graph; without links there is nothing to decode.
            known: embeddings of its nodes before a warm start, shape ``(N, dim)``, or none. The components of a grown
                graph have other axes; they are turned to fit what the decoder says of the graph already.
            seed: of the components.
        """
        self.targets, self.share = None, 0.0
        if not graph.num_arcs:
            return
        self.share = max(0.0, 2 * link_auc(graph, seed=seed) - 1)
        values = self._padded(truncated_svd(normalised_matrix(graph.adjacency()), self.width, seed=seed))
        if known is not None:
            told = self.decoder(torch.from_numpy(known).to(self.decoder.weight.device)).detach().cpu().numpy()
            left, _, right = np.linalg.svd(values.T @ told)
            values = np.asarray(values @ (left @ right), np.float32)
        self.targets = values
