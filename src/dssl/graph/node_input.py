r"""The input of a node: what it is about, where it is, and the part it plays, each with a weight found without labels.

========== ============================================================ ==================
part       columns                                                      weight
========== ============================================================ ==================
topics     denoised tokens (`dssl.graph.topics`)                        1
words      leading components of the tokens                             ρ of the words
context    S² of the words: two steps of smoothing over links           0.5 ρ of the context
measures   the other features, their means one and two links away       1 each
positions  eigenvectors of the links (`dssl.graph.positions`)           ρ of the links; in-links half of it
roles      degrees, clustering, PageRank, … (`dssl.graph.roles`)        0.3 √ρ of the roles
========== ============================================================ ==================

ρ is a reliability: a part is computed twice, from either half of the links (or of the words), and the two versions are
correlated, column by column (Spearman–Brown). What cannot be measured twice is noise. Every part has a total variance
of 1 before its weight. Tokens are categories, words and vectors; with at most 64 columns they count as measures, since
a handful of columns has no replicates to denoise it with.

The input is the leading principal components of all parts side by side, in order: no training, and every map is stored,
so that new nodes get theirs. Its first columns are the *closed form* of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.homophily_spectrum import HomophilySpectrum
from dssl.graph.positions import Positions, link_reliability
from dssl.graph.roles import Roles
from dssl.graph.topics import Topics
from dssl.graph.word_covariance import Features, WordCovariance, project
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
FEW = 64  # columns up to which tokens count as measures
TOPICS, WORDS, POSITIONS = 96, 128, 64  # columns of the parts, at least
CONTEXT_WEIGHT, IN_WEIGHT, ROLE_WEIGHT = 0.5, 0.5, 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of the input.

    Args:
        name: name of the part.
        width: number of its columns.
        reliability: ρ, or none where the weight is fixed.
        weight: factor of its columns, whose total variance is 1 before.
    """

    name: str
    width: int
    reliability: float | None
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class NodeInput:
    """The fitted maps of all parts.

    Args:
        tokens: which feature columns are tokens, bool, shape ``(F,)``.
        parts: the parts in the order of their columns.
        topics: maps of the topics, or none without tokens.
        words: scaled tokens to components, float32, shape ``(tokens, k)``, or none.
        word_offset: components of the mean node, float32, shape ``(k,)``.
        positions: stored eigenvectors, or none without links.
        roles: stored scaling of the roles, or none without links.
        shifts: mean of each column before it is centred, float32, shape ``(columns,)``.
        scales: factor of each column, its part's weight included, float32, shape ``(columns,)``.
        axes: weighted columns to principal components, float32, shape ``(columns, width)``.
    """

    tokens: NDArray[np.bool_]
    parts: tuple[Part, ...]
    topics: Topics | None
    words: Floats | None
    word_offset: Floats
    positions: Positions | None
    roles: Roles | None
    shifts: Floats
    scales: Floats
    axes: Floats

    @classmethod
    def fit(cls, graph: Graph, *, width: int, seed: int) -> tuple[NodeInput, Floats, HomophilySpectrum | None]:
        """Compute the input of a graph's nodes.

        Args:
            graph: a graph without self loops; its direction is used, features are optional.
            width: number of columns; words and positions have at least a quarter as many.
            seed: seed of halves, folds and starts.

        Returns:
            The fitted maps, the input of shape ``(N, width)``, and the spectrum of homophily if there are tokens.
        """
        tokens = token_columns(graph)
        about = _select(graph, tokens)
        topics = words = spectrum = positions = roles = None
        offset, reliability = np.zeros(0, np.float32), {}
        if about is not None:
            topics, found, spectrum = Topics.fit(about, count=TOPICS, seed=seed)
            words, offset = _word_axes(about, max(WORDS, width // 4), seed)
            reliability["words"] = _word_reliability(about, topics, words, seed)
            reliability["context"] = _by_halves(about, lambda half: Averages(half).mean(found), seed)
        if graph.num_arcs:
            positions, _ = Positions.fit(graph, dim=max(POSITIONS, width // 4), seed=seed)
            roles, _ = Roles.fit(graph, seed=seed)
            reliability["positions"] = link_reliability(graph, seed=seed)
            reliability["roles"] = _by_halves(graph, lambda half: Roles.fit(half, seed=seed)[1], seed)
        empty = np.zeros(0, np.float32)
        bare = cls(tokens, (), topics, words, offset, positions, roles, empty, empty, np.zeros((0, 0), np.float32))
        blocks = bare._blocks(graph)
        parts, shifts, scales = [], [], []
        for name, block in blocks:
            rho = reliability.get(name.partition(" ")[0])
            weight = _weight(name, rho)
            shift = block.mean(axis=0, dtype=np.float64)
            size = np.sqrt(np.square(block - shift, dtype=np.float64).sum() / max(len(block), 1))
            parts.append(Part(name, block.shape[1], rho, weight if size > 1e-12 else 0.0))
            shifts.append(shift)
            scales.append(np.full(block.shape[1], weight / size if size > 1e-12 else 0.0))
        shift, scale = (np.concatenate([empty, *values]).astype(np.float32) for values in (shifts, scales))
        columns = _joined(blocks, shift, scale, graph.num_nodes)
        axes = principal_axes(columns, width)
        fitted = cls(tokens, tuple(parts), topics, words, offset, positions, roles, shift, scale, axes)
        return fitted, product(columns, axes), spectrum

    def apply(self, graph: Graph) -> Floats:
        """Return the input of another graph's nodes, with the same feature columns, shape ``(N, width)``."""
        return product(_joined(self._blocks(graph), self.shifts, self.scales, graph.num_nodes), self.axes)

    @property
    def fractions(self) -> dict[str, float]:
        """Fraction of the input's variance of each kind: about (features), position and role."""
        kinds = {"positions": "position", "roles": "role"}
        total = sum(part.weight**2 for part in self.parts) or 1.0
        found = dict.fromkeys(("about", "position", "role"), 0.0)
        for part in self.parts:
            found[kinds.get(part.name.partition(" ")[0], "about")] += part.weight**2 / total
        return found

    def _blocks(self, graph: Graph) -> list[tuple[str, Floats]]:
        """The columns of each part before they are centred and weighted."""
        plain = graph.undirected()
        links = Averages(plain)
        found: list[tuple[str, Floats]] = []
        about = _select(graph, self.tokens)
        if about is not None and self.topics is not None and self.words is not None:
            assert about.x is not None
            words = project(about.x, self.topics.row_size, self.words, self.word_offset)
            found += [("topics", self.topics.apply(about)), ("words", words)]
            found += [("context", links.smooth(links.smooth(words)))]
        measures = _measures(graph, self.tokens)
        if measures is not None:
            near = links.mean(measures)
            found += [("measures", measures), ("measures of neighbours", near)]
            found += [("measures two links away", links.mean(near))]
        if self.positions is not None:
            columns = self.positions.apply(graph)
            width = self.positions.ends.shape[1]
            found.append(("positions", np.ascontiguousarray(columns[:, :width])))
            if self.positions.directed:
                found.append(("positions by in-links", np.ascontiguousarray(columns[:, width:])))
        if self.roles is not None:
            found.append(("roles", self.roles.apply(graph)))
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted maps for a file of arrays; `to_json` has the rest."""
        found: dict[str, NDArray[Any]] = {
            "tokens": self.tokens,
            "shifts": self.shifts,
            "scales": self.scales,
            "axes": self.axes,
        }
        if self.words is not None:
            found |= {"words": self.words, "word_offset": self.word_offset}
        for name in ("topics", "positions", "roles"):
            part = getattr(self, name)
            if part is not None:
                found |= {f"{name}.{key}": value for key, value in part.arrays().items()}
        return found

    def to_json(self) -> list[dict[str, Any]]:
        """Return the parts as plain values."""
        return [{name: getattr(part, name) for name in Part.__slots__} for part in self.parts]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], parts: list[dict[str, Any]]) -> NodeInput:
        """Rebuild the fitted maps from the results of `arrays` and `to_json`."""

        def of(name: str) -> dict[str, NDArray[Any]]:
            return {key.partition(".")[2]: value for key, value in arrays.items() if key.startswith(f"{name}.")}

        return cls(
            arrays["tokens"],
            tuple(Part(**part) for part in parts),
            Topics.from_arrays(kept) if (kept := of("topics")) else None,
            arrays.get("words"),
            arrays.get("word_offset", np.zeros(0, np.float32)),
            Positions.from_arrays(kept) if (kept := of("positions")) else None,
            Roles.from_arrays(kept) if (kept := of("roles")) else None,
            arrays["shifts"],
            arrays["scales"],
            arrays["axes"],
        )


def principal_axes(columns: Floats, width: int) -> Floats:
    """Map from centred columns to their leading principal components, padded with zeros to ``width`` columns."""
    products = np.zeros((columns.shape[1], columns.shape[1]))
    for _, block in out_of_core.blocks(columns, at_once=1 << 21):
        products += block.T @ block
    values, vectors = np.linalg.eigh(products)
    order = np.argsort(-values, kind="stable")[:width]
    kept = vectors[:, order] * (values[order] > 1e-10 * max(float(values.max(initial=0)), 1e-300))
    if kept.size:
        largest = kept[np.abs(kept).argmax(axis=0), np.arange(kept.shape[1])]
        kept = kept * np.where(largest < 0, -1, 1)
    return np.pad(kept, ((0, 0), (0, width - kept.shape[1]))).astype(np.float32)


def product(columns: Floats, axes: Floats) -> Floats:
    """Return columns times axes, by blocks of rows, in a scratch file where it is large."""
    out = out_of_core.matrix((len(columns), axes.shape[1]))
    for begin, block in out_of_core.blocks(columns):
        out[begin : begin + len(block)] = block @ axes
    return out


def _joined(blocks: list[tuple[str, Floats]], shifts: Floats, scales: Floats, num_nodes: int) -> Floats:
    """The parts side by side, centred and weighted, shape ``(N, columns)``."""
    out = out_of_core.matrix((num_nodes, len(scales)))
    begin = 0
    for _, block in blocks:
        where = slice(begin, begin + block.shape[1])
        for row, part in out_of_core.blocks(block):
            out[row : row + len(part), where] = (part - shifts[where]) * scales[where]
        begin += block.shape[1]
    return out


def token_columns(graph: Graph) -> NDArray[np.bool_]:
    """Whether each feature column counts tokens: by the types of the node table, or all of many columns."""
    tokens = np.ones(graph.num_features, bool)
    if graph.encoding is not None and len(graph.encoding.names) == graph.num_features:
        tokens = np.array([c.kind not in ("number", "date", "flag") for c in graph.encoding.columns for _ in c.names])
    return tokens if tokens.sum() > FEW else np.zeros(graph.num_features, bool)


def _select(graph: Graph, tokens: NDArray[np.bool_]) -> Graph | None:
    """The graph with its tokens alone, or none if it has none."""
    if not tokens.any() or graph.x is None:
        return None
    if tokens.all():
        return graph
    chosen = graph.x[:, np.flatnonzero(tokens)]
    return graph.replace(x=chosen, feature_names=None, encoding=None)


def _measures(graph: Graph, tokens: NDArray[np.bool_]) -> Floats | None:
    if graph.x is None or tokens.all() or not graph.num_features:
        return None
    chosen = graph.x if not tokens.any() else graph.x[:, np.flatnonzero(~tokens)]
    dense = chosen.toarray() if isinstance(chosen, sparse.csr_array) else np.asarray(chosen)
    return np.ascontiguousarray(dense, dtype=np.float32)


def _weight(name: str, rho: float | None) -> float:
    if rho is None:
        return 1.0
    factors = {"words": rho, "context": CONTEXT_WEIGHT * rho, "roles": ROLE_WEIGHT * rho**0.5}
    return float(factors.get(name, rho * (IN_WEIGHT if name == "positions by in-links" else 1.0)))


def _word_axes(about: Graph, count: int, seed: int) -> tuple[Floats, Floats]:
    """Map from scaled tokens to their leading principal components, and the components of the mean."""
    assert about.x is not None
    covariance = WordCovariance.fit(about.x, seed=seed)
    values, vectors = np.linalg.eigh(covariance.total)
    order = np.argsort(-values, kind="stable")[:count]
    axes = (covariance.basis @ vectors[:, order]).astype(np.float32)
    return axes, (covariance.mean @ axes).astype(np.float32)


def _word_reliability(about: Graph, topics: Topics, words: Floats, seed: int) -> float:
    """Agreement of the components computed from either half of the entries of the token matrix."""
    x = about.x
    draw = rng.stream(seed, "word halves")
    halves: list[Features]
    if isinstance(x, sparse.csr_array):
        chosen = draw.random(x.nnz) < 0.5
        halves = [sparse.csr_array((x.data * half, x.indices, x.indptr), shape=x.shape) for half in (chosen, ~chosen)]
    else:
        assert x is not None
        chosen = draw.random(x.shape) < 0.5
        halves = [np.where(half, x, np.float32(0)) for half in (chosen, ~chosen)]
    zero = np.zeros(words.shape[1], np.float32)
    made = [project(half, topics.row_size, words, zero) for half in halves]
    return _agreement(made[0], made[1], project(x, topics.row_size, words, zero).var(axis=0))


def _by_halves(graph: Graph, part: Callable[[Graph], Floats], seed: int) -> float:
    """Agreement of a part computed from either half of the links."""
    from dssl.kernels.csr import split_links

    plain = graph.undirected()
    if not plain.num_arcs:
        return 0.0
    seed = rng.integer(seed, "link halves") & 0xFFFFFFFF
    indptr, indices, start, end = split_links(plain.indptr, plain.indices, 0.5, seed)
    first = plain.replace(indptr=indptr, indices=indices, weights=None)
    second = Graph.from_edges(start, end, num_nodes=plain.num_nodes, ids=plain.ids, x=plain.x)
    if not first.num_arcs or not second.num_arcs:
        return 0.0
    return _agreement(part(first), part(second), part(plain).var(axis=0))


def _agreement(first: Floats, second: Floats, variance: NDArray[np.floating]) -> float:
    """Correlation of two versions of each column, stepped up by Spearman–Brown and weighted by variance."""
    one, two = (half - half.mean(axis=0, dtype=np.float64) for half in (first, second))
    norms = np.sqrt(np.square(one).sum(axis=0) * np.square(two).sum(axis=0))
    r = np.clip(np.divide((one * two).sum(axis=0), norms, out=np.zeros_like(norms), where=norms > 1e-30), 0, 1)
    total = float(variance.sum())
    return float(((2 * r / (1 + r)) * variance).sum() / total) if total > 0 else 0.0
