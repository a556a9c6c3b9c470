"""Names of factors: which kinds, classes, columns and roles stand out on the links of each factor.

A trait stands out on a side of a link if it is frequent there and more frequent than on all links: `FREQUENT` of the
factor's links, and `LIFT` times their fraction on all links. A role stands out if its mean differs from that of all
links by `APART` standard deviations. Names describe a fitted model; nothing here has an influence on training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.kinds import given_arcs
from dssl.graph.roles import Roles

if TYPE_CHECKING:
    from dssl.model.factors import Factors

FREQUENT, LIFT, APART = 0.5, 1.4, 0.7
EXAMPLES = 3
NOTHING, UNUSED = "nothing stands out", "no links"
WORDS = {  # of a role: high, low
    "log out-degree": ("many out-links", "few out-links"),
    "log in-degree": ("many in-links", "few in-links"),
    "log degree": ("many links", "few links"),
    "clustering": ("neighbours that are linked", "neighbours that are not linked"),
}
Side = Literal["link", "source", "target", "either end"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trait:
    """A trait that stands out on the links of a factor.

    Args:
        side: the end of the link that has it, or the link itself.
        kind: sort of trait: ``kind``, ``class``, ``column`` or ``role``.
        name: such as ``call``, ``city=Oslo`` or ``many in-links``.
        fraction: fraction of the factor's links that have it; for a role, None.
        lift: this fraction over that of all links; for a role, the distance of the means in standard deviations.
    """

    side: Side
    kind: str
    name: str
    fraction: float | None
    lift: float


@dataclass(frozen=True, slots=True)
class FactorDescription:
    """A factor in words.

    Args:
        number: of the factor, from 0.
        name: such as ``contain: class → method``, or *nothing stands out*.
        links: number of links whose most probable factor it is.
        fraction: of all links.
        certainty: mean probability of the factor on its links.
        traits: everything that stands out, the strongest of each side first.
        examples: ids of the two ends of the links with the largest probability.
    """

    number: int
    name: str
    links: int
    fraction: float
    certainty: float
    traits: tuple[Trait, ...]
    examples: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.number} · {self.name} ({self.links:,} links, {100 * self.fraction:.0f}%)"


def describe(factors: Factors, graph: Graph) -> list[FactorDescription]:
    """Describe the factors of a graph by the traits that stand out on their links.

    Links are read in the direction of the graph as it was given. Those of an undirected graph have no first end: then
    traits are those of either end.

    Args:
        factors: posteriors of the links.
        graph: the graph as it was given.
    """
    forth, _ = given_arcs(graph, factors.source, factors.target)
    own = np.flatnonzero(forth >= 0)
    start, end, q = factors.source[own], factors.target[own], factors.links[own]
    factor = q.argmax(axis=1)
    sides: tuple[tuple[Side, NDArray[np.int32]], ...] = (("source", start), ("target", end))
    if not graph.directed:  # both directions are there: the first ends are all ends
        sides = (("either end", start),)
    groups = sparse.csr_array(_one_hot(factor, q.shape[1]).T)
    sizes = np.bincount(factor, minlength=q.shape[1]).astype(np.float64)
    kinds = None if graph.kinds is None else _one_hot(graph.kinds[forth[own]], len(graph.kind_names or ()))
    traits: list[list[Trait]] = [[] for _ in sizes]
    if kinds is not None:
        _add(traits, "link", "kind", graph.kind_names or (), (groups @ kinds).toarray(), sizes)
    roles, columns = Roles.fit(graph.replace(x=None, feature_names=None))
    for side, nodes in sides:
        if graph.y is not None:
            named = graph.class_names or tuple(f"class {n}" for n in range(graph.num_classes))
            _add(traits, side, "class", named, (groups @ _one_hot(graph.y[nodes], len(named))).toarray(), sizes)
        if graph.x is not None and graph.feature_names is not None:
            shown = _with_meaning(graph)
            present = sparse.csr_array(graph.x[:, shown] != 0, dtype=np.float64)
            counts = np.zeros((len(sizes), graph.num_nodes))
            np.add.at(counts, (factor, nodes), 1)
            names = tuple(graph.feature_names[at] for at in shown)
            _add(traits, side, "column", names, (present.T @ counts.T).T, sizes)
        if len(own):
            _add_roles(traits, side, roles.names, columns[nodes], groups, sizes)
    total = max(len(own), 1)
    found = []
    for k, size in enumerate(sizes):
        best = own[factor == k][np.argsort(-q[factor == k, k], kind="stable")][:EXAMPLES]
        ids = [(str(factors.ids[factors.source[e]]), str(factors.ids[factors.target[e]])) for e in best.tolist()]
        certainty = float(q[factor == k, k].mean()) if size else 0.0
        name = _name(traits[k], directed=graph.directed) if size else UNUSED
        found.append(
            FactorDescription(k, name, int(size), float(size / total), certainty, tuple(traits[k]), tuple(ids))
        )
    return found


def titles(factors: Factors, graph: Graph) -> tuple[str, ...]:
    """Return a short title of each factor: ``factor 0 · call: method → function``, or ``factor 0`` without a name."""
    if factors.titles:
        return factors.titles
    found = describe(factors, graph)
    plain = (NOTHING, UNUSED)
    return tuple(f"factor {each.number}" + ("" if each.name in plain else f" · {each.name}") for each in found)


def _one_hot(codes: NDArray[np.int64] | NDArray[np.int32], width: int) -> sparse.csr_array:
    known = np.flatnonzero(codes >= 0)
    return sparse.csr_array((np.ones(known.size), (known, codes[known])), shape=(len(codes), width))


def _add(
    traits: list[list[Trait]], side: Side, kind: str, names: tuple[str, ...], counts: Floats, sizes: Floats
) -> None:
    """Add the traits that stand out, from the number of links of each factor that have each, shape ``(K, n)``."""
    everywhere = counts.sum(axis=0) / max(sizes.sum(), 1)
    for k, size in enumerate(sizes):
        fraction = counts[k] / max(size, 1)
        lift = fraction / np.maximum(everywhere, 1e-12)
        out = np.flatnonzero((fraction >= FREQUENT) & (lift >= LIFT))
        for at in sorted(out.tolist(), key=lambda at: -lift[at] * fraction[at])[:EXAMPLES]:
            traits[k].append(Trait(side, kind, names[at], float(fraction[at]), float(lift[at])))


def _with_meaning(graph: Graph) -> NDArray[np.int64]:
    """Positions of the features whose names have a meaning: a hashed word has only a number."""
    if graph.encoding is None:
        return np.arange(graph.num_features)
    hashed = np.concatenate([np.full(len(each.names), each.kind == "text") for each in graph.encoding.columns])
    return np.flatnonzero(~hashed)


def _add_roles(
    traits: list[list[Trait]],
    side: Side,
    names: tuple[str, ...],
    columns: NDArray[np.float32],
    groups: sparse.csr_array,
    sizes: Floats,
) -> None:
    spread = np.maximum(columns.std(axis=0), 1e-12)
    apart = (groups @ columns / np.maximum(sizes, 1)[:, None] - columns.mean(axis=0)) / spread
    used = [name for name in WORDS if name in names and ("log in-degree" not in names or name != "log degree")]
    for k in range(len(sizes)):
        by_name = {name: float(apart[k, names.index(name)]) for name in used}
        # Degrees first; of about equal ones, a high value before a low one.
        order = sorted(by_name.items(), key=lambda one: (one[0] == "clustering", -round(abs(one[1]), 1), one[1] < 0))
        for name, value in order:
            if abs(value) >= APART:
                traits[k].append(Trait(side, "role", WORDS[name][value < 0], None, abs(value)))


def _name(traits: list[Trait], *, directed: bool) -> str:
    """The kind of the link, and the first trait of each side: a class, else a column, else a role."""

    def first(side: Side) -> str | None:
        here = [trait for trait in traits if trait.side == side]
        return next((trait.name for kind in ("class", "column", "role") for trait in here if trait.kind == kind), None)

    kind = next((trait.name for trait in traits if trait.kind == "kind"), None)
    if directed:
        ends = [first("source"), first("target")]
        between = f"{ends[0] or 'any'} → {ends[1] or 'any'}" if any(ends) else None
    else:
        either = first("either end")
        between = None if either is None else f"between nodes with {either}"
    return ": ".join(part for part in (kind, between) if part) or NOTHING
