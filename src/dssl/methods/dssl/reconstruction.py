r"""Linear decoders of node targets from embeddings: leading components of the features, and of the links.

Both have the loss :math:`1 - \frac{1}{n} \sum_i \cos(W e_i + b,\; t_i)` for embeddings e and targets t, which are
computed once before training. `Decoder` is the loss for any targets; a subclass defines its targets in ``prepare``.
A warm start keeps the basis of the first fit, or rotates the new one to it, so that the decoder stays valid.
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
from dssl.graph.link_auc import link_auc
from dssl.graph.svd import components, most_columns, right_vectors, symmetric_components, truncated_svd
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense
from dssl.runtime import distributed, out_of_core
from dssl.runtime.scale import Scale


class Decoder(nn.Module):
    """A linear decoder of targets with a row per node, and its cosine loss.

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
        """Whether there are targets."""
        return self.targets is not None

    def targets_of(self, batch: Batch) -> Tensor:
        """Return the targets of the centres, shape ``(C, width)``; missing columns are zeros."""
        assert self.targets is not None
        found = torch.from_numpy(out_of_core.rows(self.targets, batch.nodes[: batch.num_centres])).to(batch.device)
        return F.pad(found, (0, self.width - found.shape[1]))

    def forward(self, embedding: Tensor, batch: Batch) -> Tensor:
        """Return one minus the mean cosine over the centres with a target; 0 if none has one."""
        targets = self.targets_of(batch)
        present = targets.square().sum(dim=1) > 0
        decoded = self.decoder(embedding[: batch.num_centres])
        cosines = F.cosine_similarity(decoded[present], targets[present], dim=1)
        total, number = distributed.total(torch.stack([cosines.sum(), present.sum().to(cosines.dtype)])).unbind()
        return 1 - total / number if number > 0 else embedding.new_zeros(())


class FeatureDecoder(Decoder):
    """Decodes the leading components of the features, always in the basis of the first fit.

    Args:
        dim: length of an embedding.
        width: components, at most as many as features.
        in_dim: number of features F.
    """

    def __init__(self, dim: int, width: int, *, in_dim: int) -> None:
        super().__init__(dim, min(width, in_dim))
        self.register_buffer("basis", torch.zeros(in_dim, self.width))  # zeros before the first fit
        self._ready = False

    def prepare(self, x: NDArray[np.float32] | sparse.csr_array, *, seed: int, scale: Scale) -> None:
        """Compute the targets X V from the features, shape ``(N, F)``; by blocks, each batch computes its own."""
        basis = cast(Tensor, self.basis)
        self.targets, self._ready = None, True
        if bool(basis.any()):
            self.targets = np.asarray(x @ basis.cpu().numpy(), np.float32) if scale.in_memory else None
            return
        if scale.in_memory:
            self.targets, vectors = components(x, self.width, seed=seed)
        else:
            vectors = right_vectors(x, self.width, scale=scale)
        basis[:, : vectors.shape[1]] = torch.from_numpy(vectors)

    @property
    def ready(self) -> bool:
        """Whether there are targets."""
        return self._ready

    def targets_of(self, batch: Batch) -> Tensor:
        """Return the targets of the centres, shape ``(C, width)``; missing columns are zeros."""
        if self.targets is not None:
            return super().targets_of(batch)
        x = batch.x[: batch.num_centres] if isinstance(batch.x, Tensor) else batch.x
        return (x @ cast(Tensor, self.basis))[: batch.num_centres]


class LinkDecoder(Decoder):
    """Decodes the leading components of D^−½ A D^−½, where links can be predicted from other links.

    Attributes:
        predictability: 2 AUC − 1 of held-out links, at least 0, found without labels (`link_auc`): the weight of the
            loss. Where links carry no pattern it is 0.
    """

    predictability = 0.0

    def prepare(self, graph: Graph, *, known: NDArray[np.float32] | None, seed: int, scale: Scale) -> None:
        """Compute the targets.

        Args:
            graph: the graph; without links there is nothing to decode.
            known: embeddings of its nodes before a warm start, shape ``(N, dim)``, or none. The components of a grown
                graph have other axes, which are rotated to the decoder's present output.
            seed: of the components.
            scale: whether the components are computed at once or by blocks.
        """
        self.targets, self.predictability = None, 0.0
        if not graph.num_arcs:
            return
        self.predictability = max(0.0, 2 * link_auc(graph, seed=seed, scale=scale) - 1)
        if scale.in_memory or graph.directed:
            values = truncated_svd(normalised_matrix(graph.adjacency()), self.width, seed=seed)
        else:
            width = min(self.width, most_columns(graph.num_nodes))
            sizes, values = symmetric_components(Averages(graph).normalised, graph.num_nodes, width, seed=seed)
            values *= sizes.astype(np.float32)
            values = out_of_core.put_away(values)  # a batch needs the rows of its centres
        if known is not None:
            values = self._rotated(np.pad(values, ((0, 0), (0, self.width - values.shape[1]))), known)
        self.targets = values

    def _rotated(self, values: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return values times the orthogonal matrix that brings them nearest to the decoder's output."""
        shared = np.zeros((self.width, self.width), np.float32)
        for begin, block in out_of_core.blocks(known):
            rows = torch.from_numpy(np.array(block)).to(self.decoder.weight.device)
            shared += values[begin : begin + len(block)].T @ self.decoder(rows).detach().cpu().numpy()
        left, _, right = np.linalg.svd(shared)
        return np.asarray(values @ (left @ right), np.float32)
