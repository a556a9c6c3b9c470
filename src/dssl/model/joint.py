r"""Vectors of an exact width from the closed form and the trained vector together.

With ``features = "topics"`` the features of a node are the leading principal components of its parts: topics, words,
positions and roles (`dssl.graph.node_parts`). Their first ``dim`` columns c are the closed form of a vector. Training
gains on some graphs and loses on others, and no label-free rule is known to separate the two cases. So DSSL's vector is
made of both. Each is centred and scaled, the closed form to size 1 and the trained vector to size t = ½, or less where
there is little to learn from: t = ½ L/1000 for L < 1000 links. The first ``dim`` principal components of the two side
by side are the vector:

.. math:: y_i = [\,(c_i - \bar c)/s_c \;|\; t\, (h_i - \bar h)/s_h\,]\, A,\quad s^2 = \tfrac1N \sum_i \|\cdot\|^2.

Columns are in order of importance: the first k of them are a shorter vector. The standard deviations of the components
are raised to the power 1.5, so that a classifier without regularisation uses the first columns first. Their total
variance is 4: scikit-learn's ``LogisticRegression()`` with its usual strength is then close to the best one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.graph.node_parts import NodeParts
from dssl.graph.principal import Principal
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
WIDTH = 128  # columns of the input, at least
TRAINED, LINKS = 0.5, 1000  # size of the trained vector relative to the closed form, with so many links or more
DECAY = 1.5  # power of the standard deviations of the columns
SIZE = np.float32(2)  # root of their total variance


@dataclass(slots=True)
class Joint:
    """The input of the encoder, and the projection of closed form and trained vector.

    Args:
        parts: the fitted maps of the input.
        dim: length of a vector.
        scales: factor of each column of closed form and trained vector, float32, shape ``(dim + trained,)``; none
            before `finish`.
        projection: scaled columns to the vector.
        homophily: summary of the spectrum of homophily; none without topics.
    """

    parts: NodeParts
    dim: int
    scales: Floats | None = None
    projection: Principal | None = None
    homophily: dict[str, Any] | None = None

    @classmethod
    def start(cls, graph: Graph, *, dim: int, seed: int) -> tuple[Joint, Floats]:
        """Compute the input of a graph's nodes, shape ``(N, max(dim, 128))``.

        Args:
            graph: the graph as it was loaded; its direction is used.
            dim: length of a vector.
            seed: seed of halves, folds and starts.
        """
        fitted, parts, spectrum = NodeParts.fit(graph, dim=max(WIDTH, dim), seed=seed)
        homophily = None if spectrum is None else spectrum.summary(graph.feature_names)
        return cls(fitted, dim, homophily=homophily), fitted.closed_form(parts)

    def prepared(self, graph: Graph, ready: Graph) -> Graph:
        """Return another graph, whose links are prepared, with its input as features.

        Args:
            graph: the graph as it was loaded.
            ready: the graph with prepared links.
        """
        return with_input(ready, self.parts.closed_form(self.parts.apply(graph)))

    def finish(self, ready: Graph, trained: Floats) -> None:
        """Fit the projection.

        Args:
            ready: the prepared graph, with its input as features.
            trained: the trained vectors, shape ``(N, d)``; ``d = 0`` leaves the closed form alone.
        """
        sizes = np.sqrt([_total_variance(_input(ready), self.dim), _total_variance(trained, trained.shape[1])])
        size = TRAINED * min(1.0, ready.num_arcs / 2 / LINKS)
        factors = np.divide([1, size], sizes, out=np.zeros_like(sizes), where=sizes > 1e-12)
        self.scales = np.repeat(factors, [self.dim, trained.shape[1]]).astype(np.float32)
        fitted = Principal.fit(_joined(_input(ready), trained, self.scales), self.dim, power=DECAY)
        self.projection = Principal(fitted.mean, SIZE * fitted.axes)

    def join(self, ready: Graph, trained: Floats) -> Floats:
        """Return the vectors of a prepared graph, shape ``(N, dim)``; those of the method before `finish`."""
        if self.projection is None or self.scales is None:
            return trained
        used = trained[:, : len(self.scales) - self.dim]  # none without training
        return self.projection.apply(_joined(_input(ready), used, self.scales))

    def to_json(self) -> dict[str, Any]:
        """Return the weights of the parts and the summary of the spectrum of homophily."""
        return {"weights": self.parts.weights, "homophily": self.homophily}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the maps for a file of arrays; `to_json` returns the rest."""
        found = {f"parts.{name}": value for name, value in self.parts.arrays().items()}
        if self.projection is not None and self.scales is not None:
            found |= {"scales": self.scales, **self.projection.arrays()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], described: Mapping[str, Any], *, dim: int) -> Joint:
        """Rebuild from the results of `arrays` and `to_json`."""
        own = {name.removeprefix("parts."): value for name, value in arrays.items() if name.startswith("parts.")}
        projection = Principal.from_arrays(arrays) if "axes" in arrays else None
        parts = NodeParts.from_arrays(own, described["weights"])
        return cls(parts, dim, arrays.get("scales"), projection, described.get("homophily"))


def _input(ready: Graph) -> Floats:
    assert isinstance(ready.x, np.ndarray)
    return ready.x


def _total_variance(rows: Floats, count: int) -> float:
    """Sum of the variances of the first columns."""
    total, squares = np.zeros(count), np.zeros(count)
    for _, block in out_of_core.blocks(rows):
        total += block[:, :count].sum(axis=0, dtype=np.float64)
        squares += np.square(block[:, :count], dtype=np.float64).sum(axis=0)
    return float((squares / len(rows) - (total / len(rows)) ** 2).sum())


def _joined(x: Floats, trained: Floats, scales: Floats) -> Floats:
    """The first columns of the input, which are the closed form, and the trained vector, scaled, by blocks of rows."""
    dim = len(scales) - trained.shape[1]
    return out_of_core.mapped(lambda block, own: np.hstack([block[:, :dim], own]) * scales, x, trained)


def with_input(ready: Graph, x: Floats) -> Graph:
    """Return a prepared graph with another feature matrix."""
    return ready.replace(x=x, feature_names=None, encoding=None)
