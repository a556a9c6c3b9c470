r"""The parts of a node's input, each with a weight that is found without labels.

==============  ===================================================  =====================
part            columns                                              weight
==============  ===================================================  =====================
topics          subject of the node (`dssl.graph.topics`)            1
words           principal components of its features                 1.5 ρ/(1 − ρ) of words
smoothed words  :math:`S^2` of them, S = D̂^−½ (A + I) D̂^−½          ρ of contexts
positions       place in the graph (`dssl.graph.positions`)          ρ/(1 − ρ) of links; half for in-links
roles           pattern of its links (`dssl.graph.roles`)            0.7 √ρ of roles
==============  ===================================================  =====================

Each part has a total variance of 1 before it is weighted. ρ is a reliability: the part is made twice, from either half
of the words or of the links, and the two versions are correlated column by column. Columns count by their variance, and
2r/(1 + r) corrects for the halves (Spearman-Brown). Contexts are means of topics over neighbours.
*A part counts as much as it can be measured twice.* ρ/(1 − ρ), 2 at most, is the ratio of signal to noise: long texts
need no denoising, and their words count more than their topics.

Rows are long for nodes with many words or links, and a few long rows would rule the components. So a row of length l
of topics, words, smoothed words or positions gets the length √l, times a number that keeps the size of the part
(`damped`). Measurements and roles are kept.

Topics need features that are tokens (words, counts, categories): more than 64 columns, none negative, most entries
zero. Other features, a handful or measurements, are left alone: words then have weight 1, and their means one and two
links away stand in place of the smoothed words, with weight 1 for a handful.

The *closed form* is the leading principal components of the weighted parts. It is also the input of training, with at
least 128 columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.homophily_spectrum import HomophilySpectrum
from dssl.graph.positions import Positions, link_reliability
from dssl.graph.principal import Principal, moments
from dssl.graph.roles import Roles
from dssl.graph.topics import Topics
from dssl.graph.word_covariance import REPLICATES, Features, WordCovariance, project, scaled_blocks, word_basis
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]

WIDTH, WORDS = 256, 128  # columns of the basis of the features, and principal components that are kept
ROLES, IN_LINKS = 0.7, 0.5
SHORTEST = 1e-3  # length up to which a row is not made longer
WORD_SIGNAL, LARGEST_SIGNAL = 1.5, 2.0  # weight of words over ρ/(1 − ρ), and the largest such ratio
SAMPLE = 50_000  # nodes on which the reliability of words is measured


@dataclass(frozen=True, slots=True, eq=False)
class NodeParts:
    """Stored maps of all parts.

    Args:
        weights: weight of each part by its name; shown to the user.
        lengths: mean length of the rows of each part, by its name.
        row_size: see `dssl.graph.word_covariance.project`; none where features are left alone.
        basis: features to projections, float32, shape ``(F, k)``; no rows without features.
        words: projections to words.
        shift: mean of the averages over neighbours, float32.
        scale: number that makes their total variance 1.
        topics: maps of the topics, or none.
        positions: stored vectors of the links.
        roles: scaling of the roles.
        closed: weighted parts to the closed form.
    """

    weights: dict[str, float]
    lengths: dict[str, float]
    row_size: float | None
    basis: Floats
    words: Principal
    shift: Floats
    scale: float
    topics: Topics | None
    positions: Positions
    roles: Roles
    closed: Principal

    @classmethod
    def fit(
        cls, graph: Graph, *, dim: int, seed: int = 0
    ) -> tuple[NodeParts, dict[str, Floats], HomophilySpectrum | None]:
        """Make all parts of a graph, their weights and the closed form.

        Args:
            graph: any graph; its direction, if it is kept, gives positions by out- and in-links.
            dim: columns of the closed form.
            seed: seed of folds, halves and starts.

        Returns:
            The stored maps, the parts without weights, and the spectrum of homophily if there are topics.
        """
        plain = graph.without_self_loops()
        links = plain.undirected()
        first, second = halves(links, seed=seed)
        parts, weights = {}, {}
        topics = spectrum = None
        tokens = graph.x is not None and are_tokens(graph.x)
        row_size, basis, words, shift, scale = None, np.zeros((0, 0), np.float32), None, np.zeros(0, np.float32), 0.0
        if graph.x is not None:
            if tokens:
                covariance = WordCovariance.fit(graph.x, width=WIDTH, seed=seed)
                topics, parts["topics"], spectrum = Topics.fit(links, words=covariance, seed=seed)
                weights["topics"], row_size, basis = 1.0, covariance.row_size, covariance.basis
            else:
                basis = word_basis(graph.x, None, min(WIDTH, *graph.x.shape), seed)
            projected = _projected(graph.x, row_size, basis)
            words = Principal.fit(projected, min(WORDS, basis.shape[1]))
            parts["words"] = words.apply(projected)
            handful = basis.shape[0] <= REPLICATES
            weights["words"] = 1.0
            if tokens:
                rho = word_reliability(graph.x, row_size, basis @ words.axes, seed=seed)
                weights["words"] = WORD_SIGNAL * signal_to_noise(rho)
            subject = parts.get("topics", parts["words"])
            context = reliability(*(Averages(half).mean(subject) for half in (first, second)))
            weights["smoothed words"] = 1.0 if handful else context
            near = _smoothed(parts["words"], links, tokens=tokens)
            mean, variance = moments(near)
            shift, size = mean.astype(np.float32), float(np.sqrt(variance.sum()))
            scale = 1 / size if size > 1e-9 else 0.0
            parts["smoothed words"] = _scaled(near, shift, scale)
        positions, parts["positions"] = Positions.fit(plain, seed=seed)
        weights["positions"] = signal_to_noise(link_reliability(links, seed=seed))
        roles, parts["roles"] = Roles.fit(plain, seed=seed)
        twice = [Roles.fit(half, seed=seed)[1] for half in (first, second)]
        weights["roles"] = ROLES * float(np.sqrt(reliability(*twice)))
        lengths = {name: _mean_length(part) for name, part in parts.items()}
        joined = _joined(parts, weights, lengths, positions)
        words = Principal.fit(np.zeros((1, 0), np.float32), 0) if words is None else words
        closed = Principal.fit(joined, dim)
        made = cls(weights, lengths, row_size, basis, words, shift, scale, topics, positions, roles, closed)
        return made, parts, spectrum

    def apply(self, graph: Graph, *, seed: int = 0) -> dict[str, Floats]:
        """Make the parts of another graph with the same feature columns.

        Args:
            graph: a graph; nodes with known ids and their neighbours have positions.
            seed: see `Roles.apply`.
        """
        plain = graph.without_self_loops()
        links, parts = plain.undirected(), {}
        if self.topics is not None:
            parts["topics"] = self.topics.apply(links)
        if len(self.basis) and graph.x is not None:
            parts["words"] = self.words.apply(_projected(graph.x, self.row_size, self.basis))
            near = _smoothed(parts["words"], links, tokens=self.row_size is not None)
            parts["smoothed words"] = _scaled(near, self.shift, self.scale)
        parts["positions"] = self.positions.apply(plain)
        parts["roles"] = self.roles.apply(plain, seed=seed)
        return parts

    def closed_form(self, parts: Mapping[str, Floats]) -> Floats:
        """Return the leading principal components of the weighted parts, shape ``(N, dim)``."""
        return self.closed.apply(_joined(parts, self.weights, self.lengths, self.positions))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the stored maps for a file of arrays; weights are values of JSON."""
        groups: dict[str, Principal | Positions | Roles | Topics] = {"words": self.words, "closed": self.closed}
        groups |= {"positions": self.positions, "roles": self.roles}
        groups |= {} if self.topics is None else {"topics": self.topics}
        found = {f"{group}.{name}": value for group, maps in groups.items() for name, value in maps.arrays().items()}
        size = np.nan if self.row_size is None else self.row_size
        lengths = np.array([self.lengths[name] for name in sorted(self.lengths)])
        numbers = {"numbers": np.array([size, self.scale]), "lengths": lengths}
        return {**found, "basis": self.basis, "shift": self.shift, **numbers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], weights: Mapping[str, float]) -> NodeParts:
        """Rebuild the parts from the result of `arrays` and the weights, a finite number for each part."""

        def group(name: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

        size, scale = (float(value) for value in arrays["numbers"])
        names = {"positions", "roles"} | ({"topics"} if group("topics") else set())
        names |= {"words", "smoothed words"} if len(arrays["basis"]) else set()
        if set(weights) != names or not all(np.isfinite(value) for value in weights.values()):
            raise ValueError(f"weights of {', '.join(sorted(weights))}, not of {', '.join(sorted(names))}")
        return cls(
            weights=dict(weights),
            lengths=dict(zip(sorted(names), map(float, arrays["lengths"]), strict=True)),
            row_size=None if np.isnan(size) else size,
            basis=arrays["basis"],
            words=Principal.from_arrays(group("words")),
            shift=arrays["shift"],
            scale=scale,
            topics=Topics.from_arrays(group("topics")) if group("topics") else None,
            positions=Positions.from_arrays(group("positions")),
            roles=Roles.from_arrays(group("roles")),
            closed=Principal.from_arrays(group("closed")),
        )


def are_tokens(x: Features) -> bool:
    """Whether features are tokens: more than 64 columns, no negative value, at least half of the entries zero.

    >>> are_tokens(np.eye(65, dtype=np.float32)), are_tokens(np.eye(64, dtype=np.float32))
    (True, False)
    """
    if x.shape[1] <= REPLICATES:
        return False
    nonzero = 0
    for _, block in scaled_blocks(x, None):
        values = block if isinstance(block, np.ndarray) else block.data
        if values.min(initial=0) < 0:
            return False
        nonzero += int(np.count_nonzero(values))
    return bool(2 * nonzero <= x.shape[0] * x.shape[1])


def reliability(first: Floats, second: Floats) -> float:
    """Correlation of two versions of a part, weighted by the variance of columns, after Spearman-Brown; 0 to 1."""
    means, sizes = zip(*(moments(part) for part in (first, second)), strict=True)
    shared = np.zeros(first.shape[1])
    for begin, block in out_of_core.blocks(first):
        shared += ((block - means[0]) * (second[begin : begin + len(block)] - means[1])).sum(axis=0) / len(first)
    variance, norms = sizes[0] + sizes[1], np.sqrt(sizes[0] * sizes[1])
    r = np.clip(np.divide(shared, norms, out=np.zeros_like(norms), where=norms > 1e-12), 0, 1)
    return float((2 * r / (1 + r)) @ variance / max(float(variance.sum()), 1e-30))


def signal_to_noise(rho: float) -> float:
    """ρ/(1 − ρ), at most 2."""
    return min(rho / max(1 - rho, 1e-9), LARGEST_SIGNAL)


def damped(rows: Floats, mean: float = 1.0) -> Floats:
    """Rows of length l with the length √(l/m), whose mean square is 1 for the mean length m.

    >>> damped(np.array([[4.0, 0.0], [0.0, 0.25]], np.float32)).tolist()
    [[2.0, 0.0], [0.0, 0.5]]
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.sqrt(np.maximum(lengths, SHORTEST) * max(mean, SHORTEST)), np.float32)


def _mean_length(rows: Floats) -> float:
    total = sum(float(np.linalg.norm(block, axis=1).sum(dtype=np.float64)) for _, block in out_of_core.blocks(rows))
    return total / max(len(rows), 1)


def word_reliability(x: Features, row_size: float | None, basis: Floats, *, seed: int = 0) -> float:
    """Reliability of projections that are made from either half of the entries of the features.

    Args:
        x: features, shape ``(N, F)``; a sample of the rows if there are many.
        row_size: see `dssl.graph.word_covariance.project`.
        basis: features to projections, shape ``(F, k)``.
        seed: seed of the halves.
    """
    draw = rng.stream(seed, "word halves")
    made: tuple[list[Floats], list[Floats]] = ([], [])
    for begin, block in scaled_blocks(x, row_size):
        if begin > SAMPLE:
            break
        whole = block @ basis
        half = block.copy()
        values = half if isinstance(half, np.ndarray) else half.data
        values *= draw.random(values.shape) < 0.5
        made[0].append(half @ basis)
        made[1].append(whole - made[0][-1])
    return reliability(np.concatenate(made[0]), np.concatenate(made[1]))


def halves(links: Graph, *, seed: int = 0) -> tuple[Graph, Graph]:
    """Split the links of an undirected graph in two random halves; weights are left out."""
    from dssl.kernels.csr import split_links

    indptr, indices, start, end = split_links(
        links.indptr, links.indices, 0.5, rng.integer(seed, "link halves") & 0xFFFFFFFF
    )
    bare = links.replace(x=None, feature_names=None, encoding=None, y=None, class_names=None, weights=None)
    other = Graph.from_edges(start, end, num_nodes=links.num_nodes)
    return bare.replace(indptr=indptr, indices=indices), bare.replace(indptr=other.indptr, indices=other.indices)


def _projected(x: Features, row_size: float | None, basis: Floats) -> Floats:
    return project(x, row_size, basis, np.zeros(basis.shape[1], np.float32))


def _smoothed(words: Floats, links: Graph, *, tokens: bool) -> Floats:
    """Smoothed words, or means one and two links away side by side."""
    averages = Averages(links)
    if tokens:
        return averages.smooth(averages.smooth(words))
    once = averages.mean(words)
    return out_of_core.mapped(lambda near, far: np.hstack([near, far]), once, averages.mean(once))


def _joined(
    parts: Mapping[str, Floats], weights: Mapping[str, float], lengths: Mapping[str, float], positions: Positions
) -> Floats:
    """Weighted parts side by side; rows are damped but for measurements and roles, in-links count half."""
    factors = [np.full(part.shape[1], weights[name], np.float32) for name, part in parts.items()]
    if positions.directed:
        factors[list(parts).index("positions")][positions.ends.shape[1] :] *= np.float32(IN_LINKS)
    every = np.concatenate(factors)
    order = sorted(parts, key=lambda name: -parts[name].shape[1])  # the widest first: it sets the size of a block
    kept = {"roles"} if "topics" in parts else {"roles", "words", "smoothed words"}

    def joined(*blocks: Floats) -> Floats:
        by_name = {
            name: block if name in kept else damped(block, lengths[name])
            for name, block in zip(order, blocks, strict=True)
        }
        return np.hstack([by_name[name] for name in parts]) * every

    return out_of_core.mapped(joined, *(parts[name] for name in order))


def _scaled(rows: Floats, shift: Floats, scale: float) -> Floats:
    return out_of_core.mapped(lambda block: (block - shift) * np.float32(scale), rows)
