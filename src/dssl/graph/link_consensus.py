"""One grouping of the links of a directed graph from several: fine groups, joined by their surroundings, and a vote.

Mixtures from different starts agree on some links only. Links that several of them group in the same way form fine
groups: clusters of the posteriors, side by side. Then pairs of fine groups are joined until K are left. The
*surroundings* of a link are the groups of the other links of its ends, in four places: links that leave or reach its
source or its target. In each place the groups that occur share a weight of 1, or *none* has it. A pair costs

    (n_a n_b / (n_a + n_b))^p · Σ_places JS(surroundings of a, surroundings of b),

with the Jensen–Shannon divergence JS and the numbers of links n. The cheapest pair is joined first. So links between
different topics can be one group, if they have the same place in the graph, and a small group stays if its place is
different.

A single grouping depends on chance. So there are several candidates: from four sets of mixtures, with three numbers of
fine groups and two powers p. The central one, with the highest mean agreement with the others, gives the groups. Then
the candidates vote on each link: a candidate's group counts for the groups that its links have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from dssl import rng

FINE = (3, 4, 5)  # fine groups per group
POWERS = (0.0, 0.25)  # of the numbers of links
VOTES = 3
STARTS = 3  # of k-means
LINKS, COMPARED = 8_000, 3_000  # sampled for clusters and surroundings, and for the agreement of candidates

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


def consensus(members: Sequence[Floats], start: Places, end: Places, *, nodes: int, size: int, seed: int) -> Floats:
    """Return the probability of each of K groups of each link, shape ``(L, K)``.

    Half of it is the link's own group, the other half the last vote: a link on which the candidates disagree is less
    certain.

    Args:
        members: posteriors of the same links by several mixtures of different kinds in turn, each of shape ``(L, C)``.
        start: source of each link, shape ``(L,)``.
        end: target, shape ``(L,)``.
        nodes: number of nodes.
        size: number K of groups.
        seed: seed of k-means and of samples.
    """
    draw = rng.stream(seed, "consensus of groups")
    links = np.sort(draw.permutation(start.size)[:LINKS])
    half = (len(members) + 1) // 2
    candidates = []
    for chosen in (members[::2], members[1::2], members[:half], members[half:]):
        for number in FINE:
            fine = _fine_groups(chosen or members, number * size, links, draw)
            candidates += [joined(fine, start, end, links, nodes=nodes, size=size, power=power) for power in POWERS]
    compared = draw.permutation(start.size)[:COMPARED]
    label = candidates[central([each[compared] for each in candidates])]
    for _ in range(VOTES):
        vote = voted(candidates, label, size)
        label = vote.argmax(axis=1)
    return np.asarray((np.eye(size, dtype=np.float32)[label] + vote) / 2, np.float32)


def joined(label: Places, start: Places, end: Places, links: Places, *, nodes: int, size: int, power: float) -> Places:
    """Join fine groups until at most ``size`` are left, and return the group of each link, shape ``(L,)``."""
    while (count := int(label.max()) + 1) > size:
        cost = costs(*_profiles(start, end, label, links, nodes), power)
        a, b = sorted(divmod(int(cost.argmin()), count))
        label = np.where(label == b, a, label - (label > b))
    return label


def costs(profiles: NDArray[np.float64], number: NDArray[np.float64], power: float) -> NDArray[np.float64]:
    """Return the cost of joining each pair of groups, infinite for a group and itself, shape ``(C, C)``.

    Args:
        profiles: mean surroundings of the links of each group, shape ``(C, 4, C + 1)``.
        number: links of each group, shape ``(C,)``.
        power: of the numbers of links.
    """
    own = _entropy(profiles)
    apart = _entropy((profiles[:, None] + profiles) / 2) - (own[:, None] + own) / 2
    found = (number[:, None] * number / (number[:, None] + number)) ** power * apart
    np.fill_diagonal(found, np.inf)
    return np.asarray(found)


def central(candidates: Sequence[Places]) -> int:
    """Return the number of the grouping with the highest mean adjusted mutual information with the others."""
    from sklearn.metrics import adjusted_mutual_info_score

    agreement = np.zeros((len(candidates), len(candidates)))
    for a, first in enumerate(candidates):
        for b, second in enumerate(candidates[:a]):
            agreement[a, b] = agreement[b, a] = adjusted_mutual_info_score(first, second)
    return int(agreement.sum(axis=1).argmax())


def voted(candidates: Sequence[Places], label: Places, size: int) -> Floats:
    """Return the mean over candidates of the fractions of the groups ``label`` in the link's own group, ``(L, K)``."""
    out = np.zeros((label.size, size), np.float32)
    for each in candidates:
        table = np.bincount(each * size + label, minlength=(int(each.max()) + 1) * size).reshape(-1, size)
        out += (table / np.maximum(table.sum(axis=1, keepdims=True), 1)).astype(np.float32)[each]
    return out / np.float32(len(candidates))


def _profiles(
    start: Places, end: Places, label: Places, links: Places, nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean surroundings of the given links of each group, ``(C, 4, C + 1)``, and its number of links, ``(C,)``."""
    count = int(label.max()) + 1
    there = [np.bincount(side * count + label, minlength=nodes * count).reshape(nodes, count) for side in (start, end)]
    first, last, group = start[links], end[links], label[links]
    own = np.eye(count, dtype=np.int64)[group]
    places = there[0][first] - own, there[1][first], there[0][last], there[1][last] - own
    members = (np.arange(count)[:, None] == group).astype(np.float64)
    number = np.maximum(members.sum(axis=1), 1)[:, None]
    profiles = np.zeros((count, 4, count + 1))
    for place, others in enumerate(places):
        some = (others > 0).astype(np.float64)
        total = some.sum(axis=1)
        profiles[:, place, :count] = members @ (some / np.maximum(total, 1)[:, None]) / number
        profiles[:, place, count] = members @ (total == 0) / number[:, 0]
    return profiles, np.bincount(label, minlength=count).astype(np.float64)


def _entropy(profiles: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-xlogy(profiles, profiles).sum(axis=(-1, -2)))


def _fine_groups(members: Sequence[Floats], count: int, links: Places, draw: np.random.Generator) -> Places:
    from sklearn.cluster import KMeans

    values = np.hstack(members).round(3)
    count = min(count, len(np.unique(values[links], axis=0)))
    means = KMeans(count, n_init=STARTS, random_state=int(draw.integers(1 << 31))).fit(values[links])
    return np.unique(means.predict(values), return_inverse=True)[1].astype(np.int64)
