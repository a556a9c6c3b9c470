"""Roles: the part a node plays, from its links alone and whatever the node is called.

Degree, clustering, triangles, PageRank, and the degrees of the neighbours (mean, spread, largest, fraction of leaves),
then means of these over the neighbours. A directed graph adds degrees by direction. Columns are logarithms or
fractions, standardised with stored means and deviations, clipped at five deviations, and have a total variance of
about 1. Time is linear in links but for clustering, whose cost at a node is bounded (`dssl.kernels.triangles`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.graph.adjacency import Averages

Floats = NDArray[np.float32]

DAMPING, STEPS, CHANGE = 0.85, 40, 1e-3  # of PageRank: at most so many steps, until no rank changes by more
CLIP = 5.0  # deviations
NAMES = (
    "log degree",
    "clustering",
    "log triangles",
    "log PageRank",
    "mean of neighbours' log degrees",
    "spread of neighbours' log degrees",
    "largest of neighbours' log degrees",
    "fraction of neighbours that are leaves",
    "mean log degree two links away",
    "mean clustering of neighbours",
    "mean fraction of leaves of neighbours",
)
DIRECTED = (
    "log out-degree",
    "log in-degree",
    "mean log in-degree of out-neighbours",
    "mean log out-degree of in-neighbours",
)


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """Stored means and deviations of the columns, so that new graphs are scaled in the same way.

    Args:
        directed: whether the columns of `DIRECTED` are there.
        mean: mean of each column, float64, shape ``(k,)``.
        deviation: standard deviation of each column, 1 where it is constant, float64, shape ``(k,)``.
    """

    directed: bool
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return NAMES + DIRECTED if self.directed else NAMES

    @classmethod
    def fit(cls, graph: Graph, *, seed: int = 0) -> tuple[Roles, Floats]:
        """Compute the roles of a graph.

        Args:
            graph: any graph; weights and links of a node to itself are ignored.
            seed: seed of the pairs of neighbours that are looked at where a node has many.

        Returns:
            The stored scaling and the roles of the graph's nodes, shape ``(N, k)``.
        """
        columns = role_columns(graph, seed=seed)
        mean, deviation = columns.mean(axis=0, dtype=np.float64), columns.std(axis=0, dtype=np.float64)
        constant = deviation <= 1e-6 * np.abs(columns).max(axis=0, initial=1e-30)
        found = cls(graph.directed, mean, np.where(constant, 1, deviation))
        return found, found._scaled(columns)

    def apply(self, graph: Graph, *, seed: int = 0) -> Floats:
        """Return the roles of another graph's nodes, shape ``(N, k)``; a directed graph may lose its direction."""
        return self._scaled(role_columns(graph if self.directed else graph.undirected(), seed=seed))

    def _scaled(self, columns: Floats) -> Floats:
        scaled = np.clip((columns - self.mean) / self.deviation, -CLIP, CLIP)
        return np.asarray(scaled / np.sqrt(len(self.mean)), np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the scaling for a file of arrays."""
        return {"directed": np.array([self.directed]), "mean": self.mean, "deviation": self.deviation}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Roles:
        """Rebuild roles from the result of `arrays`."""
        return cls(bool(arrays["directed"][0]), arrays["mean"], arrays["deviation"])


def roles(graph: Graph, *, seed: int = 0) -> Floats:
    """Return the roles of the nodes of a graph: standardised columns, shape ``(N, k)``.

    Args:
        graph: any graph; a directed one has further columns. Weights and links of a node to itself are ignored.
        seed: seed of the pairs of neighbours that are looked at where a node has many.

    >>> roles(Graph.from_edges([0, 0, 0], [1, 2, 3])).shape
    (4, 11)
    """
    return Roles.fit(graph, seed=seed)[1]


def role_columns(graph: Graph, *, seed: int = 0) -> Floats:
    """Return the columns as they are, in the order of `NAMES` and `DIRECTED`, shape ``(N, k)``."""
    from dssl.kernels.triangles import clustering, largest_neighbour

    bare = graph.replace(weights=None).without_self_loops()
    plain = bare.undirected()
    links, degree = Averages(plain), plain.degrees
    own = np.log1p(degree).astype(np.float32)
    closed = clustering(plain.indptr, plain.indices, seed & 0xFFFFFFFF)
    triangles = np.log1p(closed * degree * (degree - 1) / 2)
    near = links.mean(np.stack([own, own**2, degree == 1, closed], axis=1).astype(np.float32))
    spread = np.sqrt(np.maximum(near[:, 1] - near[:, 0] ** 2, 0))
    further = links.mean(np.ascontiguousarray(near[:, [0, 2]]))
    largest = largest_neighbour(plain.indptr, plain.indices, own)
    columns = [own, closed, triangles, _log_pagerank(plain), near[:, 0], spread, largest, near[:, 2]]
    columns += [further[:, 0], near[:, 3], further[:, 1]]
    if graph.directed:
        columns += _directed(bare)
    return np.stack(columns, axis=1).astype(np.float32)


def _directed(bare: Graph) -> list[Floats]:
    back = reverse(bare)
    out, into = (np.log1p(side.degrees).astype(np.float32) for side in (bare, back))
    return [out, into, Averages(bare).mean(into[:, None])[:, 0], Averages(back).mean(out[:, None])[:, 0]]


def reverse(graph: Graph) -> Graph:
    """The same graph with each arc turned round."""
    from dssl.kernels.csr import rows_from_arcs

    indptr, indices, weights = rows_from_arcs(
        graph.indices, graph.sources(), graph.weights, graph.num_nodes, both=False, loops=True
    )
    return graph.replace(indptr=indptr, indices=indices, weights=weights)


def _log_pagerank(plain: Graph) -> Floats:
    """Logarithm of PageRank times N: 0 for a node of average rank. Nodes without links keep the restart probability."""
    from dssl.kernels.csr import sum_neighbours

    inverse = (1 / np.maximum(plain.degrees, 1)).astype(np.float32)
    rank = np.ones(plain.num_nodes, np.float32)
    for _ in range(STEPS):
        near = sum_neighbours(plain.indptr, plain.indices, None, (rank * inverse)[:, None])[:, 0]
        before, rank = rank, 1 - DAMPING + DAMPING * near
        if np.abs(rank / before - 1).max(initial=0) < CHANGE:
            break
    return np.log(rank)
