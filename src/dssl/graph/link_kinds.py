"""Kinds of links predicted from their descriptions: the links of a known kind teach a logistic regression.

A link of a known kind keeps it. The others get a probability of each kind. A link of an undirected graph is read from
both ends, and the probabilities are averaged. Two rounds of *context* follow: for either end, whether its other links
have each kind, known or predicted (the sum of their probabilities, at most 1; in a directed graph apart for links that
leave and reach it). The regression is fitted again with these columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.kinds import given_arcs
from dssl.graph.link_description import Floats, LinkDescription, Links, Places, Scaling
from dssl.graph.link_mixture import SAMPLE
from dssl.runtime.scale import IN_MEMORY, Scale

STRENGTH = 30.0  # inverse of the penalty; columns of a block have a total variance of 1
ROUNDS = 2  # of context


class LinkKinds:
    """Probabilities of the kinds of all links of a graph.

    Args:
        graph: a graph with kinds on some links, of at least two different kinds.
        size: number of columns of the result, at least the number of kinds.
        seed: seed of samples.
        scale: whether principal components are computed at once or by blocks.

    Attributes:
        links: the links of the graph without self loops, L of them.
        posteriors: probability of each kind, a row per link, shape ``(L, size)``; columns beyond the number of kinds
            are 0.
        known: whether the kind of each link is known, shape ``(L,)``.
    """

    def __init__(self, graph: Graph, size: int, *, seed: int = 0, scale: Scale = IN_MEMORY) -> None:
        names = graph.kind_names or ()
        if graph.kinds is None:
            raise GraphError(f"graph {graph.name!r} has no kinds of links to teach; read them with kind_column")
        if len(names) > size:
            raise GraphError(
                f"graph {graph.name!r} has {len(names)} kinds of links, but there are {size} factors; "
                f"set num_factors to {len(names)} or more"
            )
        self._description = LinkDescription(graph, seed=seed, scale=scale)
        self.links = Links(self._description.links)
        count = len(self.links)
        kinds = graph.kinds[given_arcs(graph, *self.links.ends(np.arange(count)))[0]]
        self.known = kinds >= 0
        taught = np.flatnonzero(self.known)
        if np.unique(kinds[taught]).size < 2:
            raise GraphError(
                f"graph {graph.name!r}: {np.unique(kinds[taught]).size} kind of links is known; teaching needs two"
            )
        if taught.size > SAMPLE:
            taught = np.sort(rng.stream(seed, "taught kinds").choice(taught, SAMPLE, replace=False))
        self._readings = 1 if graph.directed else 2
        self.posteriors = np.zeros((count, size), np.float32)
        self._sums: tuple[Floats, Floats] | None = None
        for _ in range(ROUNDS + 1):
            self._fit(taught, kinds[taught])
            found = np.zeros_like(self.posteriors)
            for links in self.links.blocks():
                found[links[:, None], self._classes] = self._predicted(links)
            found[self.known] = np.eye(size, dtype=np.float32)[kinds[self.known]]
            self.posteriors = found
            self._sums = self._summed()

    def _columns(self, links: Places) -> list[Floats]:
        start, end = self.links.ends(links)
        found = [self._description.columns(*ends) for ends in ((start, end), (end, start))[: self._readings]]
        if self._sums is None:
            return found
        return [np.hstack(each) for each in zip(found, self.context(links), strict=True)]

    def context(self, links: Places) -> list[Floats]:
        """Return the sums of the probabilities over the other links of both ends, at most 1, for each reading."""
        assert self._sums is not None
        leaving, reaching = self._sums
        (start, end), own = self.links.ends(links), self.posteriors[links]
        if self._readings == 2:
            both = leaving + reaching
            sides = [both[start] - own, both[end] - own]
            return [np.clip(np.hstack(order), 0, 1) for order in (sides, sides[::-1])]
        sides = [leaving[start] - own, reaching[start], leaving[end], reaching[end] - own]
        return [np.clip(np.hstack(sides), 0, 1)]

    def _summed(self) -> tuple[Floats, Floats]:
        """Sums by node of the probabilities of the links that leave and that reach it."""
        from dssl.kernels.arcs import add_rows

        sums = [np.zeros((self._description.links.num_nodes, self.posteriors.shape[1]), np.float32) for _ in range(2)]
        for links in self.links.blocks():
            for out, nodes in zip(sums, self.links.ends(links), strict=True):
                add_rows(out, nodes, self.posteriors[links])
        return sums[0], sums[1]

    def _fit(self, links: Places, kinds: NDArray[np.int32]) -> None:
        from sklearn.linear_model import LogisticRegression

        columns = np.concatenate(self._columns(links))
        widths = {name: len(block) for name, block in self._description.blocks.items()}
        widths |= {"context": columns.shape[1] - sum(widths.values())} if self._sums else {}
        self._scaling = Scaling.fit(columns, widths)
        self._model = LogisticRegression(C=STRENGTH, max_iter=500)
        self._model.fit(self._scaling(columns), np.tile(kinds, self._readings))
        self._classes = np.asarray(self._model.classes_, np.int64)

    def _predicted(self, links: Places) -> Floats:
        parts = [self._model.predict_proba(self._scaling(columns)) for columns in self._columns(links)]
        return np.asarray(np.mean(parts, axis=0), np.float32)
