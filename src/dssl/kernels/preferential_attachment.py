"""Preferential attachment between classes, for synthetic graphs: one compiled loop over the arriving nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.kernels.compile import Indices, compiled


@compiled
def attach_preferentially(
    classes: NDArray[np.int64],
    compatibility: NDArray[np.float64],
    first: int,
    links: int,
    chain: bool,
    rng: np.random.Generator,
) -> tuple[Indices, Indices]:
    """Let nodes arrive one by one and draw neighbours by degree and compatibility of the classes.

    Node ``v`` holds ``max(degree(v), 1)`` tokens in the urn of its class. To draw a node with probability
    proportional to ``max(degree, 1) · H[i, class]`` is then to draw the class with weight ``H[i, c] · tokens(c)``
    and a token of its urn uniformly: constant time, no pass over the nodes. A node that was drawn already is
    rejected and the draw repeated. Given the set S drawn so far, the accepted node has the distribution
    ``p(v) / (1 − p(S))`` on the others: the sequential draw, renormalised after each node, that NumPy's
    ``choice(replace=False, p=p)`` makes. (NumPy draws a batch from p, keeps the first of equal ones, and
    continues with the weights of those set to zero: rejection within a batch, renormalisation between batches.)

    Args:
        classes: class of each node in the order of arrival, shape ``(N,)``.
        compatibility: matrix H, not negative, shape ``(C, C)``.
        first: how many nodes count as first: each but the first two brings one link at most.
        links: links of each later node; as many nodes of positive weight must be there when it arrives.
        chain: whether a first node is joined to the one before it instead of a drawn one.
        rng: source of chance.

    Returns:
        New node and the older node it chose, for each link, shapes ``(E,)``.
    """
    num_nodes, num_classes = classes.shape[0], compatibility.shape[0]
    source = np.empty(first + (num_nodes - first) * links, np.int32)
    target = np.empty(source.shape[0], np.int32)
    degree = np.zeros(num_nodes, np.int64)
    urns = np.empty((num_classes, 2 * links + 2), np.int32)
    tokens = np.zeros(num_classes, np.int64)
    largest = 0
    drawn = np.empty(links, np.int32)
    count = 0
    for v in range(num_nodes):
        row = compatibility[classes[v]]
        wanted = 0 if v < 2 else (1 if v < first else links)
        found = 0
        if chain and 2 <= v < first:
            drawn[0] = v - 1
            found = 1
        total = 0.0
        for c in range(num_classes):
            total += row[c] * tokens[c]
        while found < wanted and total > 0:
            left = rng.random() * total
            chosen = -1  # the last class of positive weight, should rounding leave a rest
            for c in range(num_classes):
                if row[c] > 0 and tokens[c] > 0:
                    chosen = c
                    if left < row[c] * tokens[c]:
                        break
                    left -= row[c] * tokens[c]
            at = min(np.int64(left / row[chosen]), tokens[chosen] - 1)
            node = urns[chosen, at]
            repeated = False
            for e in range(found):
                repeated = repeated or drawn[e] == node
            if not repeated:
                drawn[found] = node
                found += 1
        if largest + 2 * links + 2 > urns.shape[1]:
            wider = np.empty((num_classes, 2 * urns.shape[1]), np.int32)
            wider[:, : urns.shape[1]] = urns
            urns = wider
        for e in range(found):
            node = drawn[e]
            source[count], target[count] = v, node
            count += 1
            degree[node] += 1
            if degree[node] > 1:
                urns[classes[node], tokens[classes[node]]] = node
                tokens[classes[node]] += 1
                largest = max(largest, tokens[classes[node]])
        degree[v] = found
        for _ in range(max(found, 1)):
            urns[classes[v], tokens[classes[v]]] = v
            tokens[classes[v]] += 1
        largest = max(largest, tokens[classes[v]])
    return source[:count].copy(), target[:count].copy()
