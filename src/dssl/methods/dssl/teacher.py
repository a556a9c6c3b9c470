"""The teacher of the posteriors: groups of links that are similar in their description (`dssl.graph.link_mixture`).

The teacher uses the graph as it was given: its direction and its features, even if the encoder counts each link both
ways and reads other columns. A link that the encoder counts both ways has one target for both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from dssl.graph import Graph
from dssl.graph.link_kinds import LinkKinds
from dssl.graph.link_mixture import LinkGroups
from dssl.methods.dssl.posterior import sampled_rows
from dssl.nn.batches import Batch
from dssl.runtime import distributed
from dssl.runtime.scale import Scale

DISTILLED = 8192  # links per step whose posterior is compared with the targets
RARE = 0.5  # a link counts by the fraction of its kind to the power of minus this; otherwise rare kinds are not learned
SMOOTHING = 0.1  # of groups as targets; without it posteriors end with no entropy (Texas: 0.07 of ln K)

Floats = NDArray[np.float32]
Positions = NDArray[np.int64]
Logits = Callable[[Tensor, Tensor], Tensor]  # of the links between two arrays of positions, shape (A, K)


class Teacher:
    """Teaches the posteriors of links the groups of similar links, or the known kinds.

    Args:
        num_factors: K, the number of groups and of factors.
        teach: ``similar``, or ``kinds``: then factor k is kind k, and links of unknown kind have predicted ones.
    """

    def __init__(self, num_factors: int, teach: Literal["similar", "kinds"] = "similar") -> None:
        self.num_factors, self.teach = num_factors, teach
        self._groups: LinkGroups | LinkKinds | None = None
        self._make: Callable[[], LinkGroups | LinkKinds] | None = None
        self._order = np.arange(num_factors)
        self._weights = np.ones(num_factors, np.float32)  # of links whose target is each factor

    @property
    def ready(self) -> bool:
        """Whether there are targets."""
        return self._make is not None

    def prepare(self, graph: Graph, given: Graph, posteriors: Logits | None, *, seed: int, scale: Scale) -> None:
        """Set the graph whose links are grouped. The first use of the targets groups them: ``epochs=0`` has none.

        Args:
            graph: the graph as the encoder reads it.
            given: the graph as it was given, with the same nodes.
            posteriors: logits of the links by the present factors, before a warm start, or none. The groups then get
                the numbers of these factors.
            seed: seed of the run.
            scale: whether principal components are computed at once or by blocks.
        """
        self._order = np.arange(self.num_factors)
        make = LinkKinds if self.teach == "kinds" else LinkGroups
        self._groups = None
        self._make = partial(make, given, self.num_factors, seed=seed, scale=scale) if given.num_arcs else None
        if posteriors is None or self._make is None or self.teach == "kinds":
            return
        arcs = np.linspace(0, graph.num_arcs - 1, min(graph.num_arcs, DISTILLED)).astype(np.int64)
        start, end = graph.sources()[arcs].astype(np.int64), graph.indices[arcs].astype(np.int64)
        with torch.no_grad():
            q = torch.softmax(posteriors(torch.from_numpy(start), torch.from_numpy(end)), dim=1).cpu().numpy()
        targets, known = self.targets(start, end)
        self._order = linear_sum_assignment(q[known].T @ targets[known], maximize=True)[1]

    def _grouped(self) -> LinkGroups | LinkKinds:
        """The groups of the links, made once."""
        if self._groups is None:
            assert self._make is not None
            self._groups = self._make()
            if self.teach == "kinds":
                fraction = self._groups.posteriors.mean(axis=0, dtype=np.float64)
                self._weights = np.maximum(fraction, 1 / len(self._groups.posteriors)) ** -RARE
        return self._groups

    def targets(self, start: Positions, end: Positions) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the targets of links between positions, ``(A, K)``, and whether each has one; a self loop has none."""
        groups = self._grouped()
        numbers = groups.links.numbers(start, end)
        return groups.posteriors[numbers][:, self._order], numbers >= 0

    def loss(self, batch: Batch, posteriors: Logits) -> Tensor:
        """Return the cross-entropy of the posteriors with the targets, a mean over (a sample of) the links.

        With kinds it is a weighted mean: links of rare kinds count for more.

        Args:
            batch: the batch.
            posteriors: logits of the links from centres to nodes of the batch, given as positions in it.
        """
        start, end = sampled_rows(batch.links, DISTILLED)
        targets, known = self.targets(batch.nodes[start], batch.nodes[end])
        start, end, targets = start[known], end[known], targets[known]
        logits = posteriors(*(torch.from_numpy(side).to(batch.device) for side in (start, end)))
        wanted = torch.from_numpy(targets).to(batch.device)
        smoothing = 0.0 if self.teach == "kinds" else SMOOTHING  # kinds are known, or predicted with a probability
        weight = torch.from_numpy(np.asarray(targets @ self._weights, np.float32)).to(batch.device)
        summed = (weight * F.cross_entropy(logits, wanted, label_smoothing=smoothing, reduction="none")).sum()
        total, number = distributed.total(torch.stack([summed, weight.sum()])).unbind()
        return total / number.clamp_min(1)
