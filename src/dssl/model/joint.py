r"""Vectors of an exact width from the closed form and the trained vector together.

With ``features = "topics"`` a method is trained on `dssl.graph.node_input.NodeInput`, whose first ``dim`` columns c are
the closed form of a vector. Training gains on some graphs and loses on others, and no label-free rule is known that
tells them apart. So DSSL's vector is made of both: each is centred and scaled to size 1, and the first ``dim``
principal components of the two side by side are the vector,

.. math:: y_i = [\,(c_i - \bar c)/s_c \;|\; (h_i - \bar h)/s_h\,]\, A, \qquad s^2 = \tfrac1N \sum_i \|\cdot\|^2 .

Columns are in order of importance: the first k of them are a shorter vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.graph.node_input import NodeInput, principal_axes, product

Floats = NDArray[np.float32]
WIDTH = 128  # columns of the input, at least


@dataclass(slots=True)
class Joint:
    """The input of the encoder, and the projection of closed form and trained vector.

    Args:
        node_input: the fitted maps of the input.
        dim: length of a vector.
        shift: mean of closed form and trained vector, float32, shape ``(dim + trained,)``; none before `finish`.
        axes: centred columns to the vector, with their scales, float32, shape ``(dim + trained, dim)``.
    """

    node_input: NodeInput
    dim: int
    shift: Floats | None = None
    axes: Floats | None = None

    @classmethod
    def start(cls, graph: Graph, *, dim: int, seed: int) -> tuple[Joint, Floats]:
        """Compute the input of a graph's nodes, shape ``(N, max(dim, 128))``.

        Args:
            graph: the graph as it was loaded; its direction is used.
            dim: length of a vector.
            seed: seed of halves, folds and starts.
        """
        node_input, x, _ = NodeInput.fit(graph.without_self_loops(), width=max(WIDTH, dim), seed=seed)
        return cls(node_input, dim), x

    def prepared(self, graph: Graph, ready: Graph) -> Graph:
        """Return another graph, whose links are prepared, with its input as features.

        Args:
            graph: the graph as it was loaded.
            ready: the graph with prepared links.
        """
        return with_input(ready, self.node_input.apply(graph.without_self_loops()))

    def finish(self, ready: Graph, trained: Floats) -> None:
        """Fit the projection.

        Args:
            ready: the prepared graph, with its input as features.
            trained: the trained vectors, shape ``(N, d)``; ``d = 0`` leaves the closed form alone.
        """
        columns = self._columns(ready, trained)
        self.shift = columns.mean(axis=0, dtype=np.float64).astype(np.float32)
        columns -= self.shift
        sizes = np.sqrt([np.square(part, dtype=np.float64).sum() / max(len(part), 1) for part in self._split(columns)])
        scales = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 1e-12)
        factors = np.repeat(scales, [self.dim, trained.shape[1]]).astype(np.float32)
        columns *= factors
        self.axes = factors[:, None] * principal_axes(columns, self.dim)

    def join(self, ready: Graph, trained: Floats) -> Floats:
        """Return the vectors of a prepared graph, shape ``(N, dim)``."""
        assert self.axes is not None
        assert self.shift is not None
        used = trained[:, : len(self.axes) - self.dim]  # none without training
        return np.asarray(product(self._columns(ready, used) - self.shift, self.axes))

    def _columns(self, ready: Graph, trained: Floats) -> Floats:
        assert isinstance(ready.x, np.ndarray)
        return np.hstack([ready.x[:, : self.dim], trained])

    def _split(self, columns: Floats) -> tuple[Floats, Floats]:
        return columns[:, : self.dim], columns[:, self.dim :]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the maps for a file of arrays."""
        found = {f"input.{name}": value for name, value in self.node_input.arrays().items()}
        if self.axes is not None and self.shift is not None:
            found |= {"axes": self.axes, "shift": self.shift}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], parts: list[dict[str, Any]], *, dim: int) -> Joint:
        """Rebuild from the results of `arrays` and of the input's `to_json`."""
        own = {name.partition(".")[2]: value for name, value in arrays.items() if name.startswith("input.")}
        return cls(NodeInput.from_arrays(own, parts), dim, arrays.get("shift"), arrays.get("axes"))


def with_input(ready: Graph, x: Floats) -> Graph:
    """Return a prepared graph with another feature matrix."""
    return ready.replace(x=x, feature_names=None, encoding=None)
