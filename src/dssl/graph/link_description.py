"""The description of a link: columns that show why its two ends are linked, from links and features alone.

Four blocks of columns for the link from i to j:

- *pair*: common neighbours (number, weighted by 1/degree, and as a fraction), ranks of the ends among each other's
  neighbours by degree; in a directed graph also the paths i → w → j and j → w → i, common out- and in-neighbours, and
  whether the link goes both ways;
- *roles* of i and of j (`dssl.graph.roles`), in a directed graph with means over out- and in-neighbours;
- *overlap* of the features: cosine, fraction of common columns, and the number of columns of i and of j;
- *components*: leading principal components of the features of i and of j, centred and scaled to length one.

Columns have mean 0 and variance 1 (components keep their proportions), and then each block gets a total variance of 1.
Time is linear in links: the cost of a pair is bounded (`dssl.kernels.pairs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.roles import NAMES, Roles, reverse
from dssl.graph.svd import truncated_svd
from dssl.runtime import out_of_core
from dssl.runtime.scale import IN_MEMORY, Scale

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

COMPONENTS = 64
BLOCK = 1 << 15  # links that are treated at once
CLIP = 5.0  # deviations
VARIATES, RIDGE, SPREAD = 32, 0.3, 2.0  # of canonical variates
PAIR = (
    "log common neighbours",
    "log common neighbours over degree",
    "fraction of common neighbours",
    "rank of the target among neighbours of the source",
    "rank of the source among neighbours of the target",
)
DIRECTED_PAIR = (
    "log paths source to target",
    "log paths target to source",
    "log common targets",
    "log common sources",
    "link in both directions",
)
DIRECTED_ROLES = (
    "mean log out-degree of out-neighbours",
    "mean log in-degree of in-neighbours",
    "fraction of out-neighbours without out-links",
    "fraction of in-neighbours without in-links",
    "mean clustering of out-neighbours",
    "mean clustering of in-neighbours",
)
OVERLAP = ("cosine of features", "fraction of common columns", "log columns of the source", "log columns of the target")


class Links:
    """The links of a graph, each once, with a number: of an undirected graph those from i to j with i < j.

    Args:
        graph: a graph without self loops.
    """

    def __init__(self, graph: Graph) -> None:
        self.indptr, self.indices = graph.indptr, graph.indices
        if graph.directed:
            return
        kept = [(start[upper := start < end], end[upper]) for start, end in graph.row_blocks()]
        counts = sum(np.bincount(start, minlength=graph.num_nodes) for start, _ in kept)
        self.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.indices = np.concatenate([end for _, end in kept])

    def __len__(self) -> int:
        return self.indices.size

    def ends(self, numbers: Places) -> tuple[Places, Places]:
        """Return the two ends of links."""
        return np.searchsorted(self.indptr, numbers, side="right") - 1, self.indices[numbers].astype(np.int64)

    def numbers(self, start: Places, end: Places) -> Places:
        """Return the numbers of the links between positions, either way; −1 where there is none, shape ``(M,)``."""
        from dssl.kernels.arcs import places

        forth = places(self.indptr, self.indices, start, end)
        return np.where(forth >= 0, forth, places(self.indptr, self.indices, end, start))

    def blocks(self) -> Iterator[Places]:
        """Give the numbers of all links, `BLOCK` of them at a time."""
        for begin in range(0, len(self), BLOCK):
            yield np.arange(begin, min(begin + BLOCK, len(self)))


class LinkDescription:
    """Describes links of one graph.

    Args:
        graph: any graph, directed or not; weights and self loops are ignored.
        seed: seed of samples and of the principal components.
        scale: whether principal components are computed at once or by blocks.

    Attributes:
        links: the graph without weights and self loops.
        blocks: names of the columns of each block; removing an entry leaves the block out.
    """

    def __init__(self, graph: Graph, *, seed: int = 0, scale: Scale = IN_MEMORY) -> None:
        self.links = graph.replace(weights=None, x=None, feature_names=None).without_self_loops()
        self._plain = self.links.undirected()
        self._back = reverse(self.links) if graph.directed else self.links
        self._degrees = self._plain.degrees.astype(np.float32)
        self._near = (1 / np.maximum(self._degrees, 1)).astype(np.float32)
        self._one = np.ones(graph.num_nodes, np.float32)
        roles, self._roles = Roles.fit(self.links, seed=seed)
        names = roles.names
        if graph.directed:
            names += DIRECTED_ROLES
            self._roles = np.hstack([self._roles, self._directed_roles()])
        self._x = _sorted_rows(graph.x)
        self._components: Floats | None = None
        self.blocks: dict[str, tuple[str, ...]] = {"pair": PAIR + (DIRECTED_PAIR if graph.directed else ())}
        self.blocks["roles"] = tuple(f"{name} of the {end}" for end in ("source", "target") for name in names)
        if self._x is not None:
            self._lengths, self._columns = _row_sizes(self._x)
            self._components = directions(truncated_svd(self._x, COMPONENTS, seed=seed, scale=scale))
            self.blocks["overlap"] = OVERLAP
            numbers = range(self._components.shape[1])
            self.blocks["components"] = tuple(
                f"component {n} of the {end}" for end in ("source", "target") for n in numbers
            )

    def columns(self, start: Places, end: Places, *, pair: Floats | None = None) -> Floats:
        """Return the columns of links before scaling, shape ``(M, D)``.

        Args:
            start: first ends.
            end: second ends.
            pair: result of `pair` for these links, if it is known.
        """
        parts: list[Floats] = []
        for name in self.blocks:
            if name == "pair":
                parts.append(self.pair(start, end) if pair is None else pair)
            elif name == "overlap":
                parts.append(self._overlap(start, end))
            else:
                values = self._roles if name == "roles" else self._components
                assert values is not None
                parts += [out_of_core.rows(values, side) for side in (start, end)]
        return np.hstack(parts)

    def _directed_roles(self) -> Floats:
        out, into = Averages(self.links), Averages(self._back)
        many, few = (np.log1p(side.degrees).astype(np.float32) for side in (self.links, self._back))
        closed = self._roles[:, NAMES.index("clustering")]
        columns = [out.mean(many[:, None]), into.mean(few[:, None])]
        columns += [
            out.mean((many == 0)[:, None].astype(np.float32)),
            into.mean((few == 0)[:, None].astype(np.float32)),
        ]
        columns += [side.mean(np.ascontiguousarray(closed[:, None])) for side in (out, into)]
        return np.hstack(columns)

    def pair(self, start: Places, end: Places) -> Floats:
        """Return the columns of the block ``pair``; with the ends exchanged, an undirected graph's are `turned`."""
        from dssl.kernels.pairs import common_neighbours, rank_among_neighbours

        both, out, back = ((graph.indptr, graph.indices) for graph in (self._plain, self.links, self._back))
        common = common_neighbours(*both, *both, self._one, start, end)
        near = common_neighbours(*both, *both, self._near, start, end)
        either = np.maximum(self._degrees[start] + self._degrees[end] - common, 1)
        found = [np.log1p(common), np.log1p(near), common / either]
        found += [rank_among_neighbours(*both, self._degrees, *ends) for ends in ((start, end), (end, start))]
        if self.links.directed:
            sides = ((out, back), (back, out), (out, out), (back, back))
            found += [np.log1p(common_neighbours(*one, *other, self._one, start, end)) for one, other in sides]
            found.append(self._mutual(start, end))
        return np.stack(found, axis=1).astype(np.float32)

    @staticmethod
    def turned(pair: Floats) -> Floats:
        """The columns ``pair`` of the links of an undirected graph, read from the other end."""
        return pair[:, [0, 1, 2, 4, 3]]

    def _mutual(self, start: Places, end: Places) -> Floats:
        from dssl.kernels.arcs import places

        return (places(self.links.indptr, self.links.indices, end, start) >= 0).astype(np.float32)

    def _overlap(self, start: Places, end: Places) -> Floats:
        from dssl.kernels.pairs import row_overlaps

        shared: NDArray[np.floating[Any]]
        if isinstance(self._x, sparse.csr_array):
            shared = row_overlaps(self._x.indptr, self._x.indices, self._x.data, start, end)
        else:
            shared, step = np.empty((len(start), 2)), out_of_core.rows_at_once(self._x)
            for begin in range(0, len(start), step):
                part = slice(begin, begin + step)
                a, b = (out_of_core.rows(self._x, side[part]) for side in (start, end))
                shared[part] = np.stack([np.einsum("ij,ij->i", a, b), ((a != 0) & (b != 0)).sum(axis=1)], axis=1)
        cosine = shared[:, 0] / np.maximum(self._lengths[start] * self._lengths[end], 1e-12)
        first, second = self._columns[start], self._columns[end]
        fraction = shared[:, 1] / np.maximum(first + second - shared[:, 1], 1)
        return np.stack([cosine, fraction, np.log1p(first), np.log1p(second)], axis=1).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Means and deviations of the columns; blocks of a total variance of 1.

    Args:
        mean: shape ``(D,)``.
        factor: by which centred columns are multiplied, 0 for constant ones, shape ``(D,)``.
        limit: largest size of a scaled value, shape ``(D,)``.
    """

    mean: Floats
    factor: Floats
    limit: Floats

    @classmethod
    def fit(
        cls, columns: Floats, widths: dict[str, int], weights: Mapping[str, float] = MappingProxyType({})
    ) -> Scaling:
        """Fit the scaling of blocks, side by side in this order.

        Args:
            columns: columns of links, shape ``(M, D)``.
            widths: number of columns of each block.
            weights: square root of the total variance of a block; 1 where it is not given.
        """
        mean = columns.mean(axis=0, dtype=np.float64)
        deviation = columns.std(axis=0, dtype=np.float64)
        constant = deviation <= 1e-6 * np.abs(columns).max(axis=0, initial=1e-30)
        factor, limit = np.zeros_like(mean), np.full_like(mean, np.inf)
        begin = 0
        for name, width in widths.items():
            part = slice(begin, begin + width)
            if name == "components":  # of which the first are the largest
                factor[part] = 1 / max(np.sqrt((deviation[part] ** 2).sum()), 1e-12)
            else:
                factor[part] = 1 / np.sqrt(width) / np.where(constant[part], 1, deviation[part])
                limit[part] = CLIP / np.sqrt(width)
            weight = weights.get(name, 1.0)
            factor[part], limit[part] = weight * factor[part], weight * limit[part]
            begin += width
        factor[constant] = 0
        return cls(*(np.asarray(part, np.float32) for part in (mean, factor, limit)))

    def __call__(self, columns: Floats) -> Floats:
        """Return scaled columns."""
        found: Floats = np.clip((columns - self.mean) * self.factor, -self.limit, self.limit)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Canonical:
    """Directions in which the links (pair, roles) and the features (overlap, components) of a description agree.

    Canonical variates of both sides, with ridge, each multiplied by its correlation: topics that have no relation to
    the place of a link in the graph count for little. They have a total variance of `SPREAD` squared.

    Args:
        scaling: of the columns.
        matrix: from columns to variates of both sides, shape ``(D, 2 d)``.
    """

    scaling: Scaling
    matrix: Floats

    @classmethod
    def fit(cls, columns: Floats, widths: dict[str, int]) -> Canonical:
        """Fit the variates of four blocks, of which the first two are of the links; see `Scaling.fit`."""
        scaling = Scaling.fit(columns, widths, {name: float(np.sqrt(width)) for name, width in widths.items()})
        values = scaling(columns).astype(np.float64)
        values -= values.mean(axis=0)
        split = widths["pair"] + widths["roles"]
        joint = values.T @ values / max(len(values), 1)
        left, right = (_inverse_root(joint[side, side]) for side in (slice(split), slice(split, None)))
        first, correlation, second = np.linalg.svd(left @ joint[:split, split:] @ right, full_matrices=False)
        number = min(VARIATES, correlation.size)
        matrix = np.zeros((len(joint), 2 * number))
        matrix[:split, :number] = left @ first[:, :number] * correlation[:number]
        matrix[split:, number:] = right @ second[:number].T * correlation[:number]
        spread = np.sqrt(np.einsum("ij,ik,kj->", matrix, joint, matrix))
        return cls(scaling, np.asarray(SPREAD / max(spread, 1e-12) * matrix, np.float32))

    def __call__(self, columns: Floats) -> Floats:
        """Return the variates of both sides."""
        found: Floats = self.scaling(columns) @ self.matrix
        return found


def _inverse_root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse root of a covariance matrix to whose diagonal `RIDGE` of its mean was added."""
    ridge = max(RIDGE * float(np.trace(covariance)) / len(covariance), 1e-12)
    value, vector = np.linalg.eigh(covariance + ridge * np.eye(len(covariance)))
    return np.asarray(vector / np.sqrt(value) @ vector.T)


def directions(components: Floats) -> Floats:
    """Centre principal components of the features and scale them to unit rows, shape ``(N, d)``.

    Otherwise groups follow the number of words of a node.
    """
    values = components - components.mean(axis=0)
    values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return np.asarray(values, np.float32)


def _sorted_rows(x: Any) -> Any:
    """The features; sparse ones with ascending columns in each row and 64-bit row pointers."""
    if not isinstance(x, sparse.csr_array):
        return x
    if not x.has_sorted_indices:
        x = x.sorted_indices()
    out = sparse.csr_array(x.shape, dtype=x.dtype)
    out.data, out.indices, out.indptr = x.data, x.indices.astype(np.int32, copy=False), x.indptr.astype(np.int64)
    return out


def _row_sizes(x: Any) -> tuple[Floats, Floats]:
    """Euclidean length of each row, and its number of columns that are not 0."""
    if isinstance(x, sparse.csr_array):
        length = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).reshape(-1))
        return length.astype(np.float32), np.diff(x.indptr).astype(np.float32)
    parts = [(np.linalg.norm(rows, axis=1), (rows != 0).sum(axis=1)) for _, rows in out_of_core.blocks(x)]
    return tuple(np.concatenate(side).astype(np.float32) for side in zip(*parts, strict=True))  # type: ignore[return-value]
