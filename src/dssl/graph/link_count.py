"""The number of groups of links, by the likelihood of the descriptions of links that were held out.

Mixtures of 1 to `MOST` components are fitted to the links of most nodes, and evaluated on the links that start at
the others. The held-out likelihood rises steeply up to the number of groups, and then slowly, since groups are never
exact Gaussians. The result is the knee of this curve: the number where it is farthest above the straight line from its
first to its highest point, drawn to the last number.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from dssl import rng
from dssl.graph import Graph
from dssl.graph.link_mixture import LinkGroups, fit
from dssl.runtime.scale import IN_MEMORY, Scale

MOST = 16
LINKS = 10_000  # of a large graph that are used
HELD_OUT = 0.3  # fraction of first ends


def count_groups(graph: Graph, *, seed: int = 0, scale: Scale = IN_MEMORY) -> int:
    """Return the number of groups of similar links, from 1 to `MOST`.

    Args:
        graph: any graph; kinds and labels are ignored.
        seed: seed of samples and starts.
        scale: whether principal components are computed at once or by blocks.
    """
    return chosen(held_out_likelihoods(graph, seed=seed, scale=scale))


def held_out_likelihoods(graph: Graph, *, seed: int = 0, scale: Scale = IN_MEMORY) -> list[float]:
    """Return the mean log-likelihood of a held-out link by mixtures of 1, 2, … components; none without links."""
    draw = rng.stream(seed, "number of groups")
    readings, start = LinkGroups(graph, 8, seed=seed, rounds=0, scale=scale).sample(LINKS, draw)
    held = (draw.random(graph.num_nodes) < HELD_OUT)[start]
    if held.all() or not held.any():
        return []
    known, other = (np.ascontiguousarray(readings[:, part]) for part in (~held, held))
    most = min(MOST, known.shape[1])
    mixtures = (fit(known, size, seed=seed)[0] for size in range(1, most + 1))
    return [float(logsumexp(mixture.joint(other), axis=(0, 2)).mean()) for mixture in mixtures]


def chosen(likelihoods: list[float]) -> int:
    """Return the knee: the number k with the largest (l_k − l_1) / (max l − l_1) − (k − 1) / (n − 1).

    >>> chosen([10.0, 15.0, 19.8, 19.9, 20.0])
    3
    """
    rise = np.asarray(likelihoods) - likelihoods[0] if likelihoods else np.zeros(1)
    if rise.max() <= 0:
        return 1
    return 1 + int((rise / rise.max() - np.linspace(0, 1, rise.size)).argmax())
