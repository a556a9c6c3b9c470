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

from dssl.graph import Graph
from dssl.graph.adjacency import Averages, normalised_matrix
from dssl.graph.svd import components, right_vectors, symmetric_components, truncated_svd
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense
from dssl.nn.fixed_blocks import link_auc, most_columns
from dssl.runtime import distributed, out_of_core


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

    @property
    def ready(self) -> bool:
        """Whether there is something to decode."""
        return self.targets is not None

    def wanted(self, batch: Batch) -> Tensor:
        """Return the targets of the centres, shape ``(C, width)``; columns that there are not are zeros."""
        assert self.targets is not None
        found = torch.from_numpy(out_of_core.rows(self.targets, batch.nodes[: batch.num_centres])).to(batch.device)
        return F.pad(found, (0, self.width - found.shape[1]))

    def forward(self, embedding: Tensor, batch: Batch) -> Tensor:
        """One minus the mean cosine over the centres that have a target, which need not be any."""
        count = batch.num_centres
        wanted = self.wanted(batch)
        present = wanted.square().sum(dim=1) > 0
        cosines = F.cosine_similarity(self.decoder(embedding[:count])[present], wanted[present], dim=1)
        added, number = distributed.total(torch.stack([cosines.sum(), present.sum().to(cosines.dtype)])).unbind()
        return 1 - added / number if number > 0 else embedding.new_zeros(())


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
        self._prepared = False

    def prepare(self, x: NDArray[np.float32] | sparse.csr_array, *, seed: int) -> None:
        """Make the targets from the features, shape ``(N, F)``."""
        basis = cast(Tensor, self.basis)
        self._prepared = True
        self.targets = None  # where there are many nodes, each batch makes its own: X V
        large = x.shape[0] > out_of_core.LARGE
        if bool(basis.any()):
            self.targets = None if large else np.asarray(x @ basis.cpu().numpy(), np.float32)
            return
        values, vectors = (None, right_vectors(x, self.width)) if large else components(x, self.width, seed=seed)
        basis[:, : vectors.shape[1]] = torch.from_numpy(vectors)
        self.targets = values

    @property
    def ready(self) -> bool:
        """Whether there is something to decode."""
        return self._prepared

    def wanted(self, batch: Batch) -> Tensor:
        """Return the targets of the centres, shape ``(C, width)``; columns that there are not are zeros."""
        if self.targets is not None:
            return super().wanted(batch)
        return (batch.x @ cast(Tensor, self.basis))[: batch.num_centres]


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
        if graph.num_nodes > out_of_core.LARGE and not graph.directed:
            width = min(self.width, most_columns(graph.num_nodes))
            sizes, values = symmetric_components(Averages(graph).normalised, graph.num_nodes, width, seed=seed)
            values *= sizes.astype(np.float32)
            values = out_of_core.put_away(values)  # a batch needs the rows of its centres
        else:
            values = truncated_svd(normalised_matrix(graph.adjacency()), self.width, seed=seed)
        if known is not None:
            values = self._turned(np.pad(values, ((0, 0), (0, self.width - values.shape[1]))), known)
        self.targets = values

    def _turned(self, values: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.float32]:
        shared = np.zeros((self.width, self.width), np.float32)
        for begin, block in out_of_core.blocks(known):
            rows = torch.from_numpy(np.array(block)).to(self.decoder.weight.device)
            shared += values[begin : begin + len(block)].T @ self.decoder(rows).detach().cpu().numpy()
        left, _, right = np.linalg.svd(shared)
        return np.asarray(values @ (left @ right), np.float32)
