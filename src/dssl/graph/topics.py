r"""Topics: the content of a node, from its own words and its neighbours', never letting a word explain itself.

A node's own topic is the linear guess of `dssl.graph.word_covariance`. The spectrum of homophily
(`dssl.graph.homophily_spectrum`) gives the directions in which neighbours add information. In each direction k above
chance the topic is regressed on three scores of the node, its own u, its neighbours' mean, and the mean two links away
without the paths that return to the node:

.. math:: Z_k = [\,u_k,\ (Pu)_k,\ (P^2u)_k - \operatorname{diag}(P^2)\,u_k\,], \qquad
          \beta_k = (Z_k^\top Z_k + 0.3 \operatorname{diag}(Z_k^\top Z_k))^{-1}\, c_k

The targets of c are the words themselves, except that the own score's entry comes from the signal covariance T, in
which no word meets itself. A direction within chance keeps its own score. Directions count as 0.3 + |λ_eff|, are
turned back to words, and the principal axes of the result are the topics.

All of it is linear: two stored matrices and three numbers for each direction give the topics of new nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import GraphError
from dssl.graph import Graph, svd
from dssl.graph.adjacency import Averages, degrees
from dssl.graph.homophily_spectrum import HomophilySpectrum, measure
from dssl.graph.word_covariance import WordCovariance, project
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

COUNT = 96  # topics at most
FLOOR = 0.3  # weight of a direction within the random range
RIDGE = 0.3  # of the regression in each direction, relative to its diagonal


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """Stored maps from features and links to topics.

    Args:
        row_size: sum of a row of features whose scale is 1.
        scores: scaled features to own scores, float32, shape ``(F, k)``.
        offset: own scores of the mean node, float32, shape ``(k,)``.
        filters: weights of own score, one and two links away, float32, shape ``(3, k)``.
        axes: filtered scores to topics, float32, shape ``(k, count)``.
        shift: mean of the topics before they are centred, float32, shape ``(count,)``.
    """

    row_size: float
    scores: Floats
    offset: Floats
    filters: Floats
    axes: Floats
    shift: Floats

    @classmethod
    def fit(
        cls,
        graph: Graph,
        *,
        words: WordCovariance | None = None,
        projected: Floats | None = None,
        count: int = COUNT,
        seed: int = 0,
    ) -> tuple[Topics, Floats, HomophilySpectrum]:
        """Compute the topics of a graph.

        Args:
            graph: a graph with features; direction and links of a node to itself are ignored.
            words: moments of the features, if they are known.
            projected: the features projected by them, if they are known.
            count: number of topics; fewer where the features have fewer directions.
            seed: see `WordCovariance.fit` and `dssl.graph.homophily_spectrum.measure`.

        Returns:
            The stored maps, the topics of the graph's nodes of shape ``(N, count)``, the largest variance first and
            with a total variance of 1, and the spectrum of homophily.
        """
        if graph.x is None:
            raise GraphError(f"graph {graph.name!r} has no features; topics are made from features")
        plain = graph.without_self_loops().undirected()
        words = WordCovariance.fit(graph.x, seed=seed) if words is None else words
        projected = words.project(graph.x) if projected is None else projected
        spectrum = measure(words, projected, plain, seed=seed)
        turn = words.weights @ spectrum.analysis  # projected words to own scores, (width, k)
        own = _product(projected, turn)
        known = np.einsum("wk,wv,vk->k", turn, words.signal, spectrum.analysis, optimize=True)
        hops = _hops(own, plain)
        filters = _filters(hops, _product(projected, spectrum.analysis), known, spectrum.effective)
        gains = (FLOOR + np.abs(spectrum.effective)) * spectrum.synthesis  # (width, k)
        mixed = _mixed(hops, filters)
        axes, shift = _principal_axes(mixed, gains, count)
        found = cls(
            words.row_size,
            (words.basis @ turn).astype(np.float32),
            (words.mean @ words.basis @ turn).astype(np.float32),
            filters.astype(np.float32),
            axes,
            shift,
        )
        return found, _product(mixed, axes, shift), spectrum

    def apply(self, graph: Graph) -> Floats:
        """Return the topics of another graph's nodes, with the same feature columns, shape ``(N, count)``."""
        if graph.x is None or graph.num_features != len(self.scores):
            raise GraphError(
                f"graph {graph.name!r} has {graph.num_features:,} feature columns, but the topics were fitted with "
                f"{len(self.scores):,}; give the same columns"
            )
        own = project(graph.x, self.row_size, self.scores, self.offset)
        hops = _hops(own, graph.without_self_loops().undirected())
        return _product(_mixed(hops, self.filters), self.axes, self.shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the stored maps for a file of arrays."""
        names = ("scores", "offset", "filters", "axes", "shift")
        return {"row_size": np.array([self.row_size]), **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Topics:
        """Rebuild topics from the result of `arrays`."""
        rest = {name: value for name, value in arrays.items() if name != "row_size"}
        return cls(float(arrays["row_size"][0]), **rest)


def returns(graph: Graph) -> Floats:
    """Probability that a random walk of two steps is back at its node, the diagonal of P², shape ``(N,)``."""
    from dssl.kernels.csr import sum_neighbours

    total = degrees(graph)
    inverse = np.divide(1, total, out=np.zeros_like(total), where=total > 0)
    squares = None if graph.weights is None else graph.weights**2
    found: Floats = inverse * sum_neighbours(graph.indptr, graph.indices, squares, inverse[:, None])[:, 0]
    return found


def _hops(own: Floats, plain: Graph) -> tuple[Floats, Floats, Floats]:
    links = Averages(plain)
    once = links.mean(own)
    back = returns(plain)[:, None]
    twice = out_of_core.mapped(lambda far, self, at: far - at * self, links.mean(once), own, back)
    return own, once, twice


def _filters(hops: tuple[Floats, ...], targets: Floats, known: Doubles, effective: Doubles) -> Doubles:
    """Weights of the three scores in each direction, shape ``(3, k)``."""
    count, width = len(targets), targets.shape[1]

    def sums(block: Floats, *scores: Floats) -> Doubles:  # (k, 3, 4): the last column is with the targets
        inputs = [score.astype(np.float64) for score in scores]
        columns = [*inputs, block.astype(np.float64)]
        return np.stack([[(one * other).sum(axis=0) for other in columns] for one in inputs]).transpose(2, 0, 1)

    every = out_of_core.added(sums, targets, *hops) / count
    gram, cross = every[:, :, :3], every[:, :, 3].copy()
    cross[:, 0] = known
    diagonal = np.einsum("kaa->ka", gram)
    penalty = RIDGE * diagonal + 1e-9 * max(float(diagonal.max()), 1e-300)
    found = np.zeros((3, width))
    found[0] = 1
    for k in np.flatnonzero(effective):
        found[:, k] = np.linalg.solve(gram[k] + np.diag(penalty[k]), cross[k])
    return found


def _mixed(hops: tuple[Floats, ...], filters: NDArray[Any]) -> Floats:
    weights = filters.astype(np.float32)
    return out_of_core.mapped(lambda *parts: sum(a * b for a, b in zip(parts, weights, strict=True)), *hops)


def _principal_axes(mixed: Floats, gains: Doubles, count: int) -> tuple[Floats, Floats]:
    """Map from filtered scores to principal components with a total variance of 1, and the components' means."""
    mean = mixed.mean(axis=0, dtype=np.float64)
    products = out_of_core.added(lambda block: (block - mean).T @ (block - mean), mixed)
    turned = gains @ (products / len(mixed)) @ gains.T
    values, vectors = np.linalg.eigh((turned + turned.T) / 2)
    order = np.argsort(-values, kind="stable")[:count]
    values, vectors = values[order], vectors[:, order]
    kept = values > 1e-10 * max(float(values[0]), 1e-300)
    axes = gains.T @ vectors[:, kept] / np.sqrt(values[kept].sum())
    axes *= svd.signs(axes)
    return axes.astype(np.float32), (mean @ axes).astype(np.float32)


def _product(rows: Floats, columns: NDArray[Any], shift: Floats | float = 0.0) -> Floats:
    narrow, less = columns.astype(np.float32), np.asarray(shift, np.float32)
    return out_of_core.mapped(lambda block: block @ narrow - less, rows)
