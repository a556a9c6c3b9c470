"""A mixture of Gaussians over the descriptions of links: groups of similar links, with rounds of context.

Component k has a weight, a mean and a variance of each column. A link of a directed graph is read from its source to
its target. A link of an undirected graph has no first end: both readings have the same prior probability,

    p(link from i to j) = Σ_k π_k ½ [N(d_ij; μ_k, σ_k²) + N(d_ji; μ_k, σ_k²)],

and expectation maximisation weights both. Otherwise a reason that joins two kinds of nodes would need two components.

A round of *context* adds columns: for either end, whether its other links have each group, as their first end and as
their second (the sum of their posteriors, at most 1), and fits again. The mixture is fitted to a sample of links, and
then applied to all links by blocks. The result is one posterior per link, the same for both directions of an undirected
one. Of directed graphs with at most `SEVERAL` links, it is the consensus of several mixtures of 2K components
(`dssl.graph.link_consensus`). Half of them use canonical variates of the description in place of its blocks.

Where the features alone form clear groups of pairs (K groups explain more than `CLEAR` of the variance of the
components), the other blocks are left out: they would only add noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dssl import rng
from dssl.graph import Graph
from dssl.graph.link_consensus import FINE, consensus
from dssl.graph.link_description import Canonical, Floats, LinkDescription, Links, Places, Scaling
from dssl.runtime import out_of_core
from dssl.runtime.scale import IN_MEMORY, Scale

SAMPLE = 30_000  # links that the mixture is fitted to
FLOOR = 0.01  # added to each variance; a block has a total variance of 1
STARTS, ITERATIONS, HARD = 4, 60, 8
TOLERANCE = 1e-4  # of the mean log-likelihood, where the iteration ends
CANDIDATES = 8  # links tried for each further centre: greedy k-means++
ROUNDS = 4
MEMBERS, SEVERAL = 8, 50_000  # mixtures of which the consensus is taken, in graphs with at most so many links
FEWER, FINER = 10_000, 2  # links that each of them is fitted to; its components per group
# Square roots of the total variances of blocks; chosen on six packages of Python code, as is the limit of the context.
WEIGHTS = {"pair": 1.4, "roles": 0.7, "overlap": 2.0}
SMALLEST = np.float32(-60)  # logarithm of a posterior
CLEAR = 0.45  # planted reasons that features show have 0.53 or more, real graphs 0.32 or less


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """Gaussians with diagonal covariance.

    Args:
        log_weight: shape ``(K,)``.
        mean: shape ``(K, D)``.
        variance: shape ``(K, D)``.
    """

    log_weight: Floats
    mean: Floats
    variance: Floats

    def joint(self, readings: Floats) -> Floats:
        """Log of π_k N(d; μ_k, σ_k²) / R for the R readings of each link, shape ``(R, M, K)``.

        Args:
            readings: descriptions, shape ``(R, M, D)``.
        """
        inverse = 1 / self.variance
        constant = self.log_weight - 0.5 * (
            np.log(self.variance).sum(axis=1)
            + (self.mean**2 * inverse).sum(axis=1)
            + self.mean.shape[1] * np.log(2 * np.pi)
        )
        count, links, width = readings.shape
        flat = readings.reshape(-1, width)
        found = flat @ (self.mean * inverse).T - 0.5 * (flat**2 @ inverse.T) + constant - np.log(count)
        return np.asarray(found.reshape(count, links, -1), np.float32)

    @classmethod
    def from_shares(cls, readings: Floats, shares: Floats, *, spherical: bool = False) -> Mixture:
        """Return the Gaussians of maximum likelihood for the posteriors of the readings, ``(R, M, K)``."""
        flat, weight = readings.reshape(-1, readings.shape[-1]), shares.reshape(-1, shares.shape[-1])
        size = np.maximum(weight.sum(axis=0, dtype=np.float64), 1e-3).astype(np.float32)
        mean = weight.T @ flat / size[:, None]
        variance = np.maximum(weight.T @ flat**2 / size[:, None] - mean**2, 0) + FLOOR
        if spherical:
            variance = np.full_like(variance, np.average(variance.mean(axis=1), weights=size))
        return cls(np.log(size / size.sum()), mean, variance)


def shares_of(joint: Floats) -> tuple[Floats, float]:
    """Return the posterior of reading and component, ``(R, M, K)``, and the mean log-likelihood of a link."""
    total = logsumexp(joint, axis=(0, 2))
    logs = joint - total[None, :, None]
    # Smaller posteriors are zero: denormal numbers make the products many times slower.
    return np.where(logs > SMALLEST, np.exp(np.maximum(logs, SMALLEST)), np.float32(0)), float(total.mean())


def fit(
    readings: Floats, size: int, *, seed: int, number: int = 0, shares: Floats | None = None
) -> tuple[Mixture, float]:
    """Fit a mixture of ``size`` components: the best of several starts, or from given posteriors.

    Args:
        readings: descriptions of links, shape ``(R, M, D)``.
        size: number of components K.
        seed: seed of the starts.
        number: number of the mixture; each has other starts.
        shares: posteriors to start from, shape ``(R, M, K)``.

    Returns:
        The mixture, and the mean log-likelihood of a link.
    """
    if shares is not None:
        return _maximise(readings, Mixture.from_shares(readings, shares))
    starts = (rng.stream(seed, "link mixture", number * STARTS + n) for n in range(STARTS))
    fits = (_maximise(readings, _start(readings, size, draw)) for draw in starts)
    return max(fits, key=lambda fit: fit[1])


def _maximise(readings: Floats, mixture: Mixture) -> tuple[Mixture, float]:
    before = -np.inf
    for _ in range(ITERATIONS):
        shares, likelihood = shares_of(mixture.joint(readings))
        if likelihood < before + TOLERANCE:
            break
        before = likelihood
        mixture = Mixture.from_shares(readings, shares)
    return mixture, before


def _start(readings: Floats, size: int, draw: np.random.Generator) -> Mixture:
    """Centres by greedy k-means++, and some iterations of k-means, where each link is read as is nearer."""
    first = readings[0]
    lengths = np.square(readings).sum(axis=2)  # (R, M)

    def distances(centres: Floats) -> Floats:
        found = lengths[:, :, None] - 2 * readings @ centres.T + np.square(centres).sum(axis=1)
        return np.asarray(np.maximum(found, 0), np.float32)

    chosen = [int(draw.integers(len(first)))]
    nearest = distances(first[chosen]).min(axis=(0, 2))
    while len(chosen) < size:
        sums = np.cumsum(nearest, dtype=np.float64)
        tried = np.searchsorted(sums, draw.random(CANDIDATES) * sums[-1]).clip(max=len(first) - 1).tolist()
        reached = np.minimum(nearest[:, None], distances(first[tried]).min(axis=0))
        least = int(reached.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(tried[least])
        nearest = reached[:, least]
    centres = first[chosen]
    for _ in range(HARD):
        found = distances(centres)
        shares = (found == found.min(axis=(0, 2), keepdims=True)).astype(np.float32)
        shares /= shares.sum(axis=(0, 2), keepdims=True)
        mixture = Mixture.from_shares(readings, shares, spherical=True)
        centres = mixture.mean
    return Mixture.from_shares(readings, shares)


class LinkGroups:
    """Groups of the links of a graph, by a mixture over their descriptions with rounds of context.

    Args:
        graph: any graph.
        size: number of groups K.
        seed: seed of samples and starts.
        rounds: rounds of context; by default 4, and none for graphs that are computed by blocks, since a round is a
            pass over all links.
        scale: whether principal components are computed at once or by blocks.

    Attributes:
        links: the links of the graph without self loops, L of them.
        posteriors: probability of each group, a row per link, shape ``(L, K)``.
        likelihood: mean log-likelihood of a link by the last mixture.
        blocks: names of the columns of each block that was used.
    """

    def __init__(
        self, graph: Graph, size: int, *, seed: int = 0, rounds: int | None = None, scale: Scale = IN_MEMORY
    ) -> None:
        rounds = (ROUNDS if scale.in_memory else 0) if rounds is None else rounds
        self._readings = 1 if graph.directed else 2
        self._description = LinkDescription(graph, seed=seed, scale=scale)
        self.links = Links(self._description.links)
        count = len(self.links)
        self._pairs = self._pair_columns()
        self._base: Floats | None = None
        self._context_scaling: Scaling | None = None
        draw = rng.stream(seed, "link sample")
        sample = _drawn(count, SAMPLE, draw)
        if count and "components" in self._description.blocks and self._explained(sample, size, seed) > CLEAR:
            rounds, self._description.blocks = 0, {"components": self._description.blocks["components"]}
        several = graph.directed and rounds > 0 and size > 1 and max(FINE) * size <= count <= SEVERAL
        self.blocks = self._description.blocks
        self._size = FINER * size if several else size
        self._shares = out_of_core.matrix((count, self._readings * self._size))
        if several:
            members = [
                self._member(_drawn(count, FEWER, draw), rounds, seed, number, held=True) for number in range(MEMBERS)
            ]
            ends = self.links.ends(np.arange(count))
            self.posteriors = consensus(members, *ends, nodes=graph.num_nodes, size=size, seed=seed)
        else:
            self.posteriors = self._member(sample, rounds, seed, 0) if count else np.zeros((0, size), np.float32)

    def _member(self, sample: Places, rounds: int, seed: int, number: int, *, held: bool = False) -> Floats:
        """Fit one mixture with rounds of context, and return its posteriors, ``(L, C)``; odd ones use variates.

        Args:
            sample: links that it is fitted to.
            rounds: rounds of context.
            seed: seed of the starts.
            number: number of the mixture.
            held: whether the descriptions of all links are held in memory.
        """
        widths = {name: len(names) for name, names in self.blocks.items()}
        self._base = None
        columns = self._columns(sample)
        variates = number % 2 and {"overlap", "components"} <= set(widths)
        flat = columns.reshape(-1, columns.shape[-1])
        self._scaling = Canonical.fit(flat, widths) if variates else Scaling.fit(flat, widths, WEIGHTS)
        if held:
            self._base = self._scaling(self._columns(np.arange(len(self.links))))
        for turn in range(rounds + 1):
            self._context_scaling = None
            known = None
            if turn:
                context = self._context(sample)
                flat = context.reshape(-1, context.shape[-1])
                self._context_scaling = Scaling.fit(flat, {"context": context.shape[-1]})
                known = self._shares_of(sample)
            mixture = fit(self._described(sample), self._size, seed=seed, number=number, shares=known)
            self._mixture, self.likelihood = mixture
            self._apply()
        return np.asarray(self._shares.reshape(-1, self._readings, self._size).sum(axis=1))

    def sample(self, count: int, draw: np.random.Generator) -> tuple[Floats, Places]:
        """Return scaled descriptions of at most so many links, ``(R, M, D)``, and their first ends, ``(M,)``."""
        links = _drawn(len(self.links), count, draw)
        return (self._described(links) if links.size else np.zeros((1, 0, 1), np.float32)), self.links.ends(links)[0]

    def _explained(self, links: Places, size: int, seed: int) -> float:
        """Fraction of the variance of the components of both ends that K groups by k-means explain."""
        width = len(self._description.blocks["components"])
        values = self._columns(links)[:, :, -width:]
        values -= values.mean(axis=(0, 1))
        lengths = np.square(values).sum(axis=2)
        if not lengths.any():
            return 0.0
        centres = _start(values, size, rng.stream(seed, "clear groups")).mean
        apart = lengths[:, :, None] - 2 * values @ centres.T + np.square(centres).sum(axis=1)
        return float(1 - apart.min(axis=(0, 2)).sum() / lengths[0].sum())

    def _columns(self, links: Places) -> Floats:
        """Descriptions of links before scaling, shape ``(R, M, D)``."""
        start, end = self.links.ends(links)
        pair = out_of_core.rows(self._pairs, links)
        found = [self._description.columns(start, end, pair=pair)]
        if self._readings == 2:
            found.append(self._description.columns(end, start, pair=self._description.turned(pair)))
        return np.stack(found)

    def _described(self, links: Places) -> Floats:
        """Scaled descriptions of links, with their context after the first round, shape ``(R, M, D)``."""
        base = self._scaling(self._columns(links)) if self._base is None else self._base[:, links]
        if self._context_scaling is None:
            return base
        return np.concatenate([base, self._context_scaling(self._context(links))], axis=2)

    def _pair_columns(self) -> Floats:
        """The columns of pairs of all links, by blocks: they cost most, and every round needs them."""
        out = out_of_core.matrix((len(self.links), len(self._description.blocks["pair"])))
        for links in self.links.blocks():
            out[links] = self._description.pair(*self.links.ends(links))
            out_of_core.drop(out)
        return out

    def _context(self, links: Places) -> Floats:
        """Sums of the posteriors over the other links of both ends, at most 1, shape ``(R, M, 4 K)``."""
        first, second = self._sums
        start, end = self.links.ends(links)
        own = self._shares_of(links)
        turned = own[1] if self._readings == 2 else np.zeros_like(own[0])
        at_start = [first[start] - own[0], second[start] - turned]
        at_end = [first[end] - turned, second[end] - own[0]]
        sides = [np.clip(np.hstack(side), 0, 1) for side in (at_start, at_end)]
        return np.stack([np.hstack(order) for order in (sides, sides[::-1])[: self._readings]])

    def _shares_of(self, links: Places) -> Floats:
        rows = out_of_core.rows(self._shares, links).reshape(-1, self._readings, self._size)
        return np.ascontiguousarray(rows.transpose(1, 0, 2))

    def _apply(self) -> None:
        """Compute the posteriors of all links by blocks, and their sums by node."""
        from dssl.kernels.arcs import add_rows

        nodes = self._description.links.num_nodes
        sums = [np.zeros((nodes, self._size), np.float32) for _ in range(2)]
        for links in self.links.blocks():
            shares, _ = shares_of(self._mixture.joint(self._described(links)))
            self._shares[links] = shares.transpose(1, 0, 2).reshape(links.size, -1)
            ends = self.links.ends(links)
            for reading, part in enumerate(shares):
                for side in range(2):
                    add_rows(sums[side ^ reading], ends[side], part)
            out_of_core.drop(self._shares)
        self._sums = sums[0], sums[1]


def _drawn(total: int, count: int, draw: np.random.Generator) -> Places:
    """At most so many numbers below ``total``, ascending."""
    return np.arange(total) if total <= count else np.sort(draw.choice(total, count, replace=False))
