r"""The parts of a node's input, each with a weight that is found without labels.

==============  ===================================================  =====================
part            columns                                              weight
==============  ===================================================  =====================
topics          subject of the node (`dssl.graph.topics`)            ρ/(1 − ρ) of topics, 1 at most
words           principal components of its features                 1.5 ρ/(1 − ρ) of words
smoothed words  :math:`S^2` of them, S = D̂^−½ (A + I) D̂^−½          ρ of contexts
amount          logarithm of the sum of its words                    0.35 √ρ of amounts
hops            measurements, their means one and two links away     1.5; 1.2 if denoised
positions       place in the graph (`dssl.graph.positions`)          their size, times 1 − t/2
roles           pattern of its links (`dssl.graph.roles`)            0.7 √ρ of roles
==============  ===================================================  =====================

Each part has a total variance of 1 before it is weighted. ρ is a reliability: the part is made twice, from either half
of the words or of the links, and the two versions are correlated column by column. Columns count by their variance, and
2r/(1 + r) corrects for the halves (Spearman-Brown). Contexts are means of topics over neighbours.
*A part counts as much as it can be measured twice.* ρ/(1 − ρ), 2 at most, is the ratio of signal to noise: long texts
need no denoising, and their words count more than their topics. Each direction of the positions counts by its own
ρ/(1 − ρ), and at least by that of all directions together: a few directions can be signal in a sparse graph, and the
others noise. The more the topics say (t is their weight), the less positions count; those by in-links count half.

Rows are long for nodes with many words or links, and a few long rows would rule the components. So a row of length l
of topics, words, smoothed words or positions gets the length √l, times a number that keeps the size of the part
(`damped`). The amount restores the sum of a row, which the scaling of rows removes.

Topics, words and amount need features that are tokens (words, counts, categories): more than 64 columns, none negative,
most entries zero. Other features are measurements and have hops instead. Up to 64 of them are a handful: all components
of their hops get the same variance, so that none is lost. More than 64 are *denoised*: each principal component of the
hops counts by the fraction of its variance that is above that of the median component. Means over neighbours keep their
own size, which is small where neighbours differ, or get up to the size of the measurements, if they are as
reliable: by 2ρ/(1 − ρ) of the means, from halves of the links, over that of the measurements. Theirs has as ρ the
fraction of their variance beyond the largest component of noise alone (Marchenko and Pastur 1967).

The *closed form* is the leading principal components of the weighted parts. It is also the input of training, with at
least 128 columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.homophily_spectrum import HomophilySpectrum
from dssl.graph.positions import Positions, link_reliability
from dssl.graph.principal import Principal, moments
from dssl.graph.reliability import context_ratio, halves, reliability, signal_to_noise, word_reliability
from dssl.graph.roles import Roles
from dssl.graph.topics import Topics
from dssl.graph.word_covariance import (
    REPLICATES,
    Features,
    WordCovariance,
    project,
    row_sizes,
    scaled_blocks,
    word_basis,
)
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]

WIDTH, WORDS = 256, 128  # columns of the basis of the features, and principal components that are kept
ROLES, AMOUNT, HOPS, WIDE_HOPS, IN_LINKS = 0.7, 0.35, 1.5, 1.2, 0.5
BESIDE_TOPICS = 0.5  # fraction of the positions that reliable topics replace
KEPT = ("amount", "hops", "roles")  # parts whose rows are not damped
SHORTEST = 1e-3  # length up to which a row is not made longer
WORD_SIGNAL = 1.5  # weight of words over ρ/(1 − ρ)


@dataclass(frozen=True, slots=True, eq=False)
class NodeParts:
    """Stored maps of all parts.

    Args:
        weights: weight of each part by its name; shown to the user.
        lengths: mean length of the rows of each part, by its name.
        row_size: see `dssl.graph.word_covariance.project`; none where features are left alone.
        basis: features to projections, float32, shape ``(F, k)``; no rows without features.
        words: projections to words, or hops of projections to their components.
        shift: means of smoothed words and amount, float32; empty without tokens.
        scales: numbers that make the total variance of smoothed words and of the amount 1, float32, shape ``(2,)``.
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
    scales: Floats
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
        parts: dict[str, Floats] = {}
        weights: dict[str, float] = {}
        topics = spectrum = row_size = None
        basis, words = np.zeros((0, 0), np.float32), Principal.fit(np.zeros((1, 0), np.float32), 0)
        shift, scales = np.zeros(0, np.float32), np.zeros(2, np.float32)
        if graph.x is not None and are_tokens(graph.x):
            covariance = WordCovariance.fit(graph.x, width=WIDTH, seed=seed)
            row_size, basis = covariance.row_size, covariance.basis
            projected = covariance.project(graph.x)
            topics, parts["topics"], spectrum = Topics.fit(links, words=covariance, projected=projected, seed=seed)
            words = Principal.fit(projected, min(WORDS, basis.shape[1]))
            parts["words"] = words.apply(projected)
            words = Principal((words.mean + covariance.mean @ basis).astype(np.float32), words.axes)  # not yet centred
            near, amount = _smoothed(parts["words"], links), amounts(graph.x)
            found = [moments(part) for part in (near, amount)]
            shift = np.concatenate([mean for mean, _ in found]).astype(np.float32)
            sizes = np.sqrt([variance.sum() for _, variance in found])
            scales = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 1e-9).astype(np.float32)
            parts["smoothed words"] = _scaled(near, shift[:-1], scales[0])
            parts["amount"] = _scaled(amount, shift[-1:], scales[1])
            about, said, much = word_reliability(
                graph.x, (basis @ covariance.weights).astype(np.float32), basis @ words.axes, seed=seed
            )
            weights["topics"] = min(1.0, signal_to_noise(about))
            weights["words"] = WORD_SIGNAL * signal_to_noise(said)
            weights["smoothed words"] = reliability(*(Averages(half).mean(parts["topics"]) for half in (first, second)))
            weights["amount"] = AMOUNT * float(np.sqrt(much))
        elif graph.x is not None:
            handful = graph.x.shape[1] <= REPLICATES
            basis = np.eye(graph.x.shape[1], dtype=np.float32)
            basis = basis if handful else word_basis(graph.x, None, min(WORDS, *graph.x.shape), seed)
            own = _projected(graph.x, None, basis)
            hops = _hops(own, links)
            if handful:
                words = Principal.fit(hops, hops.shape[1], equal=True)
            else:
                scale = context_scales(hops, context_ratio(own, first, second))
                words = Principal.fit(hops, basis.shape[1], scale=scale, denoise=True)
            parts["hops"], weights["hops"] = words.apply(hops), HOPS if handful else WIDE_HOPS
        together, directions = link_reliability(links, seed=seed)
        counts = np.array([max(signal_to_noise(rho), signal_to_noise(together)) for rho in directions])
        positions, parts["positions"] = Positions.fit(plain, seed=seed, counts=counts)
        weights["positions"] = positions.size * (1 - BESIDE_TOPICS * weights.get("topics", 0.0))
        roles, parts["roles"] = Roles.fit(plain, seed=seed)
        twice = [Roles.fit(half, seed=seed)[1] for half in (first, second)]
        weights["roles"] = ROLES * float(np.sqrt(reliability(*twice)))
        lengths = {name: _mean_length(part) for name, part in parts.items()}
        joined, ordered = _joined(parts, weights, lengths, positions)
        closed = Principal.fit(out_of_core.mapped(joined, *ordered), dim)
        made = cls(weights, lengths, row_size, basis, words, shift, scales, topics, positions, roles, closed)
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
            assert graph.x is not None
            parts["words"] = self.words.apply(_projected(graph.x, self.row_size, self.basis))
            parts["smoothed words"] = _scaled(_smoothed(parts["words"], links), self.shift[:-1], self.scales[0])
            parts["amount"] = _scaled(amounts(graph.x), self.shift[-1:], self.scales[1])
        elif len(self.basis) and graph.x is not None:
            parts["hops"] = self.words.apply(_hops(_projected(graph.x, None, self.basis), links))
        parts["positions"] = self.positions.apply(plain)
        parts["roles"] = self.roles.apply(plain, seed=seed)
        return parts

    def closed_form(self, parts: Mapping[str, Floats]) -> Floats:
        """Return the leading principal components of the weighted parts, shape ``(N, dim)``."""
        joined, ordered = _joined(parts, self.weights, self.lengths, self.positions)
        return out_of_core.mapped(lambda *blocks: self.closed.of_block(joined(*blocks)), *ordered)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the stored maps for a file of arrays; weights are values of JSON."""
        groups: dict[str, Principal | Positions | Roles | Topics] = {"words": self.words, "closed": self.closed}
        groups |= {"positions": self.positions, "roles": self.roles}
        groups |= {} if self.topics is None else {"topics": self.topics}
        found = {f"{group}.{name}": value for group, maps in groups.items() for name, value in maps.arrays().items()}
        size = np.nan if self.row_size is None else self.row_size
        lengths = np.array([self.lengths[name] for name in sorted(self.lengths)])
        numbers = {"row_size": np.array([size]), "scales": self.scales, "lengths": lengths}
        return {**found, "basis": self.basis, "shift": self.shift, **numbers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], weights: Mapping[str, float]) -> NodeParts:
        """Rebuild the parts from the result of `arrays` and the weights, a finite number for each part."""

        def group(name: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(f"{name}."): value for key, value in arrays.items() if key.startswith(f"{name}.")}

        names, tokens = {"positions", "roles"}, bool(group("topics"))
        names |= {"topics", "words", "smoothed words", "amount"} if tokens else set()
        names |= {"hops"} if len(arrays["basis"]) and not tokens else set()
        if set(weights) != names or not all(np.isfinite(value) for value in weights.values()):
            raise ValueError(f"weights of {', '.join(sorted(weights))}, not of {', '.join(sorted(names))}")
        return cls(
            weights=dict(weights),
            lengths=dict(zip(sorted(names), map(float, arrays["lengths"]), strict=True)),
            row_size=float(arrays["row_size"][0]) if tokens else None,
            basis=arrays["basis"],
            words=Principal.from_arrays(group("words")),
            shift=arrays["shift"],
            scales=arrays["scales"],
            topics=Topics.from_arrays(group("topics")) if tokens else None,
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


def context_scales(hops: Floats, ratio: float) -> NDArray[np.float64]:
    """Factors of measurements and their means one and two links away, which leave a mean between its size and 1.

    >>> hops = np.array([[2, 1, 1], [-2, -1, 1]], np.float32)
    >>> context_scales(hops, 0.75).tolist(), context_scales(hops, 0.1).tolist()  # the mean has half the size
    ([1.0, 1.5, 1.0], [1.0, 1.0, 1.0])
    """
    sizes = np.sqrt(moments(hops)[1].reshape(3, -1).sum(axis=1))
    relative = sizes / max(float(sizes[0]), 1e-30)
    factors = np.divide(min(ratio, 1.0), relative, out=np.ones(3), where=relative > 1e-9)
    return np.repeat(np.maximum(factors, 1), hops.shape[1] // 3)


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


def amounts(x: Features) -> Floats:
    """Logarithm of one plus the sum of each row, shape ``(N, 1)``.

    >>> amounts(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32)).astype(float).round(2).tolist()
    [[0.69], [0.0]]
    """
    out = out_of_core.matrix((x.shape[0], 1))
    for begin, block in scaled_blocks(x, None):
        out[begin : begin + block.shape[0], 0] = np.log1p(row_sizes(block))
    return out


def _projected(x: Features, row_size: float | None, basis: Floats) -> Floats:
    return project(x, row_size, basis, np.zeros(basis.shape[1], np.float32))


def _smoothed(words: Floats, links: Graph) -> Floats:
    averages = Averages(links)
    return averages.smooth(averages.smooth(words))


def _hops(own: Floats, links: Graph) -> Floats:
    """Columns, then their means one link and two links away."""
    averages = Averages(links)
    near = averages.mean(own)
    return out_of_core.mapped(lambda *blocks: np.hstack(blocks), own, near, averages.mean(near))


def _joined(
    parts: Mapping[str, Floats], weights: Mapping[str, float], lengths: Mapping[str, float], positions: Positions
) -> tuple[Callable[..., Floats], list[Floats]]:
    """Blocks of parts to weighted parts side by side, and the parts in the order in which it takes them.

    Rows are damped but for amount, hops and roles; in-links count half.
    """
    factors = [np.full(part.shape[1], weights[name], np.float32) for name, part in parts.items()]
    if positions.directed:
        factors[list(parts).index("positions")][positions.ends.shape[1] :] *= np.float32(IN_LINKS)
    every = np.concatenate(factors)
    order = sorted(parts, key=lambda name: -parts[name].shape[1])  # the widest first: it sets the size of a block

    def joined(*blocks: Floats) -> Floats:
        by_name = {
            name: block if name in KEPT else damped(block, lengths[name])
            for name, block in zip(order, blocks, strict=True)
        }
        return np.hstack([by_name[name] for name in parts]) * every

    return joined, [parts[name] for name in order]


def _scaled(rows: Floats, shift: Floats, scale: float) -> Floats:
    return out_of_core.mapped(lambda block: (block - shift) * np.float32(scale), rows)
