r"""Sparse graph diffusion: where a walk from a node is likely to end, kept to the largest entries of each node.

.. math:: S = \sum_k \theta_k T^k

with :math:`T = A D^{-1}` of the links with self loops, and :math:`\theta_k = \alpha (1 - \alpha)^k` (personalised
PageRank) or :math:`e^{-t} t^k / k!` (heat kernel). The mass spreads from one node at a time and goes no further where
it is below ``precision`` per link, so that a step of it looks at no more than 1/precision links whatever the graph is.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dssl.graph import Graph
from dssl.kernels.compile import compiled

MISSED = 1e-2  # fraction of the coefficients that the series may leave out


def coefficients(kind: Literal["ppr", "heat"], *, teleport: float, heat_time: float) -> NDArray[np.float64]:
    """θ₀, θ₁, … until nearly all of their sum of one is there.

    >>> coefficients("ppr", teleport=0.5, heat_time=1.0)[:3].tolist()
    [0.5, 0.25, 0.125]
    """
    found: list[float] = []
    while sum(found) < 1 - MISSED:
        k = len(found)
        if kind == "ppr":
            found.append(teleport * (1 - teleport) ** k)
        else:
            found.append(math.exp(-heat_time + k * math.log(heat_time) - math.lgamma(k + 1)))
    return np.array(found)


def diffuse(
    graph: Graph,
    theta: NDArray[np.float64],
    *,
    neighbours: int,
    precision: float,
    threshold: float = 0.0,
    by_column: bool = False,
) -> Graph:
    """Return the diffusion as a graph with the same nodes and weighted arcs, self loops left out.

    The weights are those of :math:`D^{-1/2} S D^{1/2}`, the diffusion of the symmetric matrix, over the mean of its
    diagonal: an encoder gives each node a loop of weight one, and so about the same weight of itself as S.

    Args:
        graph: the graph.
        theta: coefficients of the series.
        neighbours: largest entries that are kept of each node.
        precision: mass per link below which it spreads no further.
        threshold: entries of the symmetric matrix below it are left out.
        by_column: whether an entry is divided by the diagonal entry of its own column, not by the mean.
    """
    weights = np.ones(graph.num_arcs, np.float32) if graph.weights is None else graph.weights
    adjacency = graph.adjacency()
    totals = np.asarray(adjacency.sum(axis=1), np.float64).reshape(-1) + 1
    counts, columns, values, own = _spread(graph.indptr, graph.indices, weights, totals, theta, neighbours, precision)
    kept = np.arange(columns.shape[1]) < counts[:, None]
    start = np.nonzero(kept)[0]
    end, mass = columns[kept].astype(np.int64), values[kept]
    mass *= np.sqrt(totals[start] / totals[end])
    large = mass >= threshold
    start, end, mass = start[large], end[large], mass[large]
    mass = (mass / (own[end] if by_column else own.mean())).astype(np.float32)
    made = Graph.from_edges(start, end, num_nodes=graph.num_nodes, weights=mass, directed=True, ids=graph.ids)
    return made.replace(x=graph.x, feature_names=graph.feature_names, name=graph.name)


@compiled
def _spread(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    totals: NDArray[np.float64],
    theta: NDArray[np.float64],
    neighbours: int,
    precision: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """The largest entries of each column of S but the diagonal: how many, where, how large; and the diagonal."""
    n = indptr.shape[0] - 1
    width = min(neighbours, n)
    counts = np.zeros(n, np.int64)
    columns = np.zeros((n, width), np.int32)
    values = np.zeros((n, width), np.float64)
    own = np.zeros(n)
    mass, following, total = np.zeros(n), np.zeros(n), np.zeros(n)
    seen = np.empty(n, np.int64)
    here, there = np.empty(n, np.int64), np.empty(n, np.int64)
    for source in range(n):
        here[0], mass[source], number, found = source, 1.0, 1, 0
        for k in range(theta.shape[0]):
            ahead = 0
            for a in range(number):
                node = here[a]
                amount = mass[node]
                mass[node] = 0.0
                if total[node] == 0.0:
                    seen[found] = node
                    found += 1
                total[node] += theta[k] * amount
                if amount < precision * totals[node] or k + 1 == theta.shape[0]:
                    continue
                share = amount / totals[node]
                if following[node] == 0.0:
                    there[ahead] = node
                    ahead += 1
                following[node] += share  # the self loop
                for e in range(indptr[node], indptr[node + 1]):
                    other, part = indices[e], share * weights[e]
                    if part <= 0.0:  # a link that weighs nothing leads nowhere
                        continue
                    if following[other] == 0.0:
                        there[ahead] = other
                        ahead += 1
                    following[other] += part
            here, there = there, here
            mass, following = following, mass
            number = ahead
        for a in range(number):
            mass[here[a]] = 0.0
        own[source] = total[source]
        total[source] = 0.0
        others = seen[:found]
        others = others[others != source]
        order = np.argsort(-total[others], kind="mergesort")
        counts[source] = min(width, others.shape[0])
        for a in range(counts[source]):
            columns[source, a] = others[order[a]]
            values[source, a] = total[others[order[a]]]
        for a in range(found):
            total[seen[a]] = 0.0
    return counts, columns, values, own
