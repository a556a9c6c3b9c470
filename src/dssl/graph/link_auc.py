"""How far links are predictable from other links, without labels."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dssl import rng
from dssl.graph import Graph
from dssl.graph.svd import right_vectors, symmetric_components
from dssl.runtime.scale import IN_MEMORY, Scale

HELD_OUT = 0.1  # fraction of the links
DIM = 16  # singular vectors; many of them would fit the noise of a small graph
REPEATS, MANY = 5, 10_000  # draws to average, and links from which on one is enough
TRIED = 200_000  # held-out links of a large graph that are scored


def link_auc(graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> float:
    """Return how well the leading singular vectors of most links separate the others from pairs of the same degrees.

    Args:
        graph: a graph; its features and labels are not looked at.
        seed: chooses the links that are held out.
        scale: whether the vectors are computed at once or by blocks.

    Returns:
        The area under the ROC curve; 0.5 (chance) where there are too few links to try. The pairs may be links too, so
        in dense graphs it is smaller than against pairs without a link.
    """
    if not scale.in_memory:
        return _large_auc(graph.undirected(), seed)
    upper = sparse.triu(graph.undirected().adjacency(), 1).tocoo()
    if HELD_OUT * upper.nnz < 10:
        return 0.5
    draw = rng.stream(seed, "link auc")
    return float(np.mean([_held_out_auc(upper, draw) for _ in range(REPEATS if upper.nnz <= MANY else 1)]))


def _held_out_auc(upper: sparse.coo_array, draw: np.random.Generator) -> float:
    from sklearn.metrics import roc_auc_score

    held = np.zeros(upper.nnz, bool)
    held[draw.choice(upper.nnz, round(HELD_OUT * upper.nnz), replace=False)] = True
    kept = (np.ones((~held).sum(), np.float32), (upper.row[~held], upper.col[~held]))
    rest = sparse.csr_array(kept, shape=upper.shape)
    rest = sparse.csr_array(rest + rest.T)
    basis = right_vectors(rest, DIM)
    left = rest @ basis
    start, end = upper.row[held], upper.col[held]
    other = draw.permutation(end)  # ends of other links: the same degrees
    scores = [(left[start] * basis[stop]).sum(axis=1) for stop in (end, other)]
    return float(roc_auc_score(np.repeat([1, 0], held.sum()), np.concatenate(scores)))


def _large_auc(graph: Graph, seed: int) -> float:
    """The same for a large undirected graph, on up to `TRIED` of the links that are held out."""
    from dssl.kernels.csr import split_links, sum_neighbours

    indptr, indices, start, end = split_links(
        graph.indptr, graph.indices, HELD_OUT, rng.integer(seed, "link auc") & 0xFFFFFFFF
    )
    if start.size < 10:
        return 0.5
    values, vectors = symmetric_components(
        lambda q: sum_neighbours(indptr, indices, None, q), graph.num_nodes, DIM, seed=seed
    )
    draw = rng.stream(seed, "link auc")
    if start.size > TRIED:
        chosen = np.sort(draw.choice(start.size, TRIED, replace=False))
        start, end = start[chosen], end[chosen]
    left = vectors[start] * values.astype(np.float32)
    yes, no = (np.sort((left * vectors[stop]).sum(axis=1)) for stop in (end, draw.permutation(end)))
    below = sum(np.searchsorted(no, yes, side=side).sum(dtype=np.int64) for side in ("left", "right"))
    return float(below / (2 * yes.size * no.size))  # ties count half
