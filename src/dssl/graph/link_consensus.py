"""One grouping of the links of a directed graph from several: fine groups by consensus, joined by their surroundings.

Mixtures from different starts agree on some links only. Links that all of them group in the same way form fine groups:
2K clusters of the posteriors, side by side. Then pairs of fine groups are joined until K are left. The *surroundings*
of a link are the groups of the other links of its ends, in four places: links that leave or reach its source or its
target. In each place the groups that occur share a weight of 1, or *none* has it. A pair costs

    (n_a + n_b)^½ · Σ_places JS(surroundings of a, surroundings of b),

with the Jensen–Shannon divergence JS, weighted by the numbers of links n. The cheapest pair is joined first. So links
between different topics can be one group, if they have the same place in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dssl import rng

FINE = 2  # fine groups per group
STARTS = 3  # of k-means

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


def consensus(members: Sequence[Floats], start: Places, end: Places, *, nodes: int, seed: int) -> Floats:
    """Return the probability of each of K groups of each link, shape ``(L, K)``.

    Half of it is the link's own group. The other half is the mean over the members of the groups that links of the
    same member's groups have: a link on which the members disagree is less certain.

    Args:
        members: posteriors of the same links by several mixtures, each of shape ``(L, K)``.
        start: source of each link, shape ``(L,)``.
        end: target, shape ``(L,)``.
        nodes: number of nodes.
        seed: seed of k-means.
    """
    size = members[0].shape[1]
    label = joined(_fine_groups(members, FINE * size, seed=seed), start, end, nodes=nodes, size=size)
    own = np.eye(size, dtype=np.float32)[label]
    soft = np.zeros_like(own)
    for q in members:
        soft += q @ (q.T @ own / np.maximum(q.sum(axis=0), 1e-9)[:, None])
    return np.asarray((own + soft / len(members)) / 2, np.float32)


def joined(label: Places, start: Places, end: Places, *, nodes: int, size: int) -> Places:
    """Join fine groups until at most ``size`` are left, and return the group of each link, shape ``(L,)``."""
    while (count := int(label.max()) + 1) > size:
        cost = costs(*_profiles(start, end, label, nodes))
        a, b = sorted(divmod(int(cost.argmin()), count))
        label = np.where(label == b, a, label - (label > b))
    return label


def costs(profiles: NDArray[np.float64], number: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cost of joining each pair of groups, infinite for a group and itself, shape ``(C, C)``.

    Args:
        profiles: mean surroundings of the links of each group, shape ``(C, 4, C + 1)``.
        number: links of each group, shape ``(C,)``.
    """
    own = _entropy(profiles)
    part = number[:, None] / (number[:, None] + number)  # of the first group in the pair
    mixed = part[..., None, None] * profiles[:, None] + (1 - part)[..., None, None] * profiles
    found = np.sqrt(number[:, None] + number) * (_entropy(mixed) - part * own[:, None] - (1 - part) * own)
    np.fill_diagonal(found, np.inf)
    return np.asarray(found)


def _profiles(start: Places, end: Places, label: Places, nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean surroundings of the links of each group, ``(C, 4, C + 1)``, and the number of links of each, ``(C,)``."""
    count = int(label.max()) + 1
    leaving, reaching = (
        np.bincount(side * count + label, minlength=nodes * count).reshape(nodes, count) for side in (start, end)
    )
    own = np.eye(count, dtype=np.int64)
    number = np.bincount(label, minlength=count).astype(np.float64)
    sums = np.zeros((count, 4, count + 1))
    for group in range(count):
        links = np.flatnonzero(label == group)
        first, last = start[links], end[links]
        places = leaving[first] - own[group], reaching[first], leaving[last], reaching[last] - own[group]
        for place, others in enumerate(places):
            there = (others > 0).astype(np.float64)
            total = there.sum(axis=1)
            sums[group, place, :count] = (there / np.maximum(total, 1)[:, None]).sum(axis=0)
            sums[group, place, count] = (total == 0).sum()
    return sums / np.maximum(number, 1)[:, None, None], number


def _entropy(profiles: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-xlogy(profiles, profiles).sum(axis=(-1, -2)))


def _fine_groups(members: Sequence[Floats], count: int, *, seed: int) -> Places:
    from sklearn.cluster import KMeans

    values = np.hstack(members).round(3)
    count = min(count, len(np.unique(values, axis=0)))
    state = int(rng.stream(seed, "consensus of groups").integers(1 << 31))
    label = KMeans(count, n_init=STARTS, random_state=state).fit_predict(values)
    return np.unique(label, return_inverse=True)[1].astype(np.int64)
