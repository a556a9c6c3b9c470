"""The terms of DSSL's loss that the paper does not have: two decoders, and a teacher of the posteriors."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.methods.dssl.reconstruction import FeatureDecoder, LinkDecoder
from dssl.methods.dssl.teacher import Logits, Teacher
from dssl.nn.batches import Batch
from dssl.nn.encoders import Encoder
from dssl.runtime.scale import Scale


class AdditionSettings(TypedDict):
    """The keywords of `Additions` that are settings of the method."""

    reconstruction_weight: float
    reconstruction_dim: int
    link_reconstruction_weight: float
    link_reconstruction_dim: int
    distillation_weight: float
    teach: NotRequired[Literal["similar", "kinds"]]


class Additions(nn.Module):
    """Decoders of the features and of the links, and the distillation of groups of links; a weight of 0 leaves out.

    Args:
        encoder: the encoder.
        num_factors: K.
        uniform: whether posteriors are uniform, so that they cannot be taught.
        reconstruction_weight: weight of the decoder of the features.
        reconstruction_dim: principal components of the features that are decoded; at most F.
        link_reconstruction_weight: weight of the decoder of the links, times `LinkDecoder.predictability`.
        link_reconstruction_dim: principal components of the normalised adjacency matrix that are decoded.
        distillation_weight: weight of the cross-entropy with the groups of links.
        teach: targets of the factors, ``similar`` links or known ``kinds``.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        num_factors: int,
        uniform: bool,
        reconstruction_weight: float,
        reconstruction_dim: int,
        link_reconstruction_weight: float,
        link_reconstruction_dim: int,
        distillation_weight: float,
        teach: Literal["similar", "kinds"] = "similar",
    ) -> None:
        super().__init__()
        dim, in_dim = encoder.dim, encoder.in_dim
        self.reconstruction_weight, self.link_reconstruction_weight = reconstruction_weight, link_reconstruction_weight
        self.distillation_weight = distillation_weight
        self.features = FeatureDecoder(dim, reconstruction_dim, in_dim=in_dim) if reconstruction_weight else None
        self.links = LinkDecoder(dim, link_reconstruction_dim) if link_reconstruction_weight else None
        self.teacher = Teacher(num_factors, teach) if distillation_weight and not uniform else None

    def prepare(
        self,
        graph: Graph,
        *,
        given: Graph,
        embedding: NDArray[np.float32] | None,
        posteriors: Logits | None,
        seed: int,
        scale: Scale,
    ) -> None:
        """Compute the targets of both decoders and of the posteriors.

        Args:
            graph: the graph as the encoder reads it.
            given: the graph as it was given; if it has no features, the teacher uses those of ``graph``.
            embedding: its embedding before a warm start, shape ``(N, dim)``, or none.
            posteriors: logits of its links before a warm start, or none.
            seed: seed of the run.
            scale: whether the targets are computed at once or by blocks.
        """
        if self.links is not None:
            self.links.prepare(graph, known=embedding, seed=seed, scale=scale)
        if self.features is not None and graph.x is not None:
            self.features.prepare(graph.x, seed=seed, scale=scale)
        if self.teacher is not None:
            given = given if given.x is not None else given.replace(x=graph.x)
            self.teacher.prepare(graph, given, posteriors, seed=seed, scale=scale)

    def forward(self, batch: Batch, embedding: Tensor, posteriors: Logits) -> dict[str, tuple[float, Tensor]]:
        """Return weight and value of each term, by its name in the record.

        Args:
            batch: the batch.
            embedding: of its centres first, shape ``(n, dim)``.
            posteriors: logits of the links from centres to nodes of the batch, given as positions in it.
        """
        found = {}
        if self.features is not None and self.features.ready:
            found["reconstruction"] = self.reconstruction_weight, self.features(embedding, batch)
        if self.links is not None and self.links.ready:
            weight = self.links.predictability * self.link_reconstruction_weight
            found["links"] = weight, self.links(embedding, batch)
        if self.teacher is not None and self.teacher.ready:
            found["distillation"] = self.distillation_weight, self.teacher.loss(batch, posteriors)
        return found
