r"""The spectrum of homophily: the similarity of linked nodes, direction by direction, without labels.

The noise of different nodes is independent, so the covariance of a node's words with its neighbours' words is a
covariance of *topics*. With the projected words b = (x − μ)V, the signal covariance T of `dssl.graph.word_covariance`,
and the mean over neighbours P:

.. math:: C = \tfrac1n \sum_{i\ \text{linked}} b_i\,(P b)_i^\top, \quad
          M = T_\tau^{-1/2}\, \tfrac{C + C^\top}{2}\, T_\tau^{-1/2}, \quad T_\tau = T + \tfrac12 \lambda_{\max}(T)\, I

Each eigenvector of M is a direction of meaning. Its eigenvalue measures how neighbours relate in it: near 1 similar, 0
unrelated, below 0 opposite. The same matrix with shuffled nodes gives the largest random eigenvalue, λ₀, and
:math:`\lambda_\text{eff} = \operatorname{sign}(\lambda) \sqrt{\max(0, \lambda^2 - \lambda_0^2)}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.errors import GraphError
from dssl.graph import Graph, svd
from dssl.graph.adjacency import Averages
from dssl.graph.word_covariance import WordCovariance
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

KEPT = 96  # leading directions of the signal that are analysed
REGULARISATION = 0.5  # of T, relative to its largest eigenvalue
SHUFFLES = 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HomophilySpectrum:
    """Directions of meaning, the most informative first, and the similarity of linked nodes in each.

    Args:
        values: eigenvalues λ by decreasing size, shape ``(k,)``.
        chance: largest size of an eigenvalue when the nodes are shuffled, λ₀.
        loadings: change of each feature column along a direction, float32, shape ``(F, k)``.
        analysis: projected words to scores of the directions, shape ``(width, k)``.
        synthesis: scores of the directions to projected words, shape ``(width, k)``.
    """

    values: Doubles
    chance: float
    loadings: Floats
    analysis: Doubles
    synthesis: Doubles

    def __repr__(self) -> str:
        """The directions above chance in one line, without the arrays."""
        least, most = self.extent["smallest"], self.extent["largest"]
        values = f", from {least:+.2f} to {most:+.2f}" if self.num_significant else ""
        return f"HomophilySpectrum({self.num_significant} directions above chance ({self.chance:.2f}){values})"

    @property
    def effective(self) -> Doubles:
        """Eigenvalues without the part that is due to chance, shape ``(k,)``; 0 for a direction within chance."""
        found: Doubles = np.sign(self.values) * np.sqrt(np.maximum(self.values**2 - self.chance**2, 0))
        return found

    @property
    def extent(self) -> dict[str, float]:
        """Number of directions above chance, and their smallest and largest eigenvalue; 0 if there is no such one."""
        above = self.values[self.effective != 0]
        ends = {"smallest": float(above.min(initial=0)), "largest": float(above.max(initial=0))}
        return {"directions": self.num_significant, **ends}

    @property
    def num_significant(self) -> int:
        """Number of directions above chance."""
        return int(np.count_nonzero(self.effective))

    def columns(self, direction: int, names: Sequence[str] | None = None, *, count: int = 8) -> list[tuple[str, float]]:
        """Feature columns that make up a direction, those that change most first, with their loadings.

        Args:
            direction: which, 0 for the most informative one.
            names: names of the feature columns; without them their numbers.
            count: number of columns.
        """
        loading = self.loadings[:, direction]
        order = np.argsort(-np.abs(loading), kind="stable")[:count]
        return [(str(at) if names is None else names[at], float(loading[at])) for at in order]

    def summary(self, names: Sequence[str] | None = None, *, count: int = 8) -> dict[str, Any]:
        """The level of chance, and the value and main columns of the first directions above it, as values of JSON."""
        first = [
            {
                "value": round(float(self.values[at]), 4),
                "columns": [name for name, _ in self.columns(at, names, count=5)],
            }
            for at in range(min(self.num_significant, count))
        ]
        return {"chance": round(self.chance, 4), "directions": self.num_significant, "first": first}


def homophily_spectrum(graph: Graph, *, seed: int = 0) -> HomophilySpectrum:
    """Measure the homophily of a graph with features, direction by direction, without labels.

    Args:
        graph: a graph with features; direction and links of a node to itself are ignored.
        seed: seed of the shuffles, and of the folds of `WordCovariance`.

    >>> x = np.repeat(np.eye(2, dtype=np.float32), 4, axis=0)
    >>> pairs = Graph.from_edges([0, 2, 4, 6], [1, 3, 5, 7], x=x)
    >>> found = homophily_spectrum(pairs)
    >>> found.values.round(2).tolist()  # linked nodes have the same features
    [0.67, 0.0]
    """
    if graph.x is None:
        raise GraphError(
            f"graph {graph.name!r} has no features; the spectrum of homophily compares those of neighbours"
        )
    words = WordCovariance.fit(graph.x, seed=seed)
    return measure(words, words.project(graph.x), graph, seed=seed)


def measure(words: WordCovariance, projected: Floats, graph: Graph, *, seed: int = 0) -> HomophilySpectrum:
    """Compute the spectrum from moments and projected words.

    Args:
        words: moments of the features.
        projected: (x − μ)V, shape ``(N, width)``.
        graph: the links.
        seed: seed of the shuffles.
    """
    plain = graph.without_self_loops().undirected()
    links, linked = Averages(plain), plain.degrees > 0
    values, vectors = np.linalg.eigh(words.signal)
    order = np.argsort(-values, kind="stable")[:KEPT]
    values, vectors = np.maximum(values[order], 1e-12), vectors[:, order]
    root = np.sqrt(values + REGULARISATION * values[0])
    columns = (vectors / root).astype(np.float32)
    scores = out_of_core.mapped(lambda block: block @ columns, projected)
    found, rotation = np.linalg.eigh(_alikeness(scores, links, linked))
    chance = 0.0
    for shuffle in range(SHUFFLES):
        order = rng.stream(seed, "homophily", shuffle).permutation(len(scores))
        chance += float(np.abs(np.linalg.eigvalsh(_alikeness(scores[order], links, linked))).max()) / SHUFFLES
    order = np.argsort(-np.abs(found), kind="stable")
    found, rotation = found[order], rotation[:, order]
    analysis, synthesis = vectors @ (rotation / root[:, None]), vectors @ (rotation * root[:, None])
    signs = svd.signs(words.basis @ synthesis)
    analysis, synthesis = analysis * signs, synthesis * signs
    return HomophilySpectrum(found, chance, (words.basis @ synthesis).astype(np.float32), analysis, synthesis)


def _alikeness(scores: Floats, links: Averages, linked: NDArray[np.bool_]) -> Doubles:
    """Covariance of the whitened scores of linked nodes, symmetrised, shape ``(k, k)``."""
    near = links.mean(scores)  # zero for nodes without links
    cross = out_of_core.added(lambda own, mean: own.astype(np.float64).T @ mean, scores, near)
    cross /= max(int(linked.sum()), 1)
    found: Doubles = (cross + cross.T) / 2
    return found
