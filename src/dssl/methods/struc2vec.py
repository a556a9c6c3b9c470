r"""struc2vec: nodes in like places get like vectors.

Ribeiro, Saverese, Figueiredo: *struc2vec: Learning Node Representations from Structural Identity*, KDD 2017.

Walks go through a graph of K layers in which nodes are linked by the similarity of their surroundings:

.. math::
    f_k(u, v) &= f_{k-1}(u, v) + g(s(R_k(u)), s(R_k(v))) \tag{1} \\
    w_k(u, v) &= e^{-f_k(u, v)} \\
    w(u_k, u_{k+1}) &= \log(\Gamma_k(u) + e), \qquad w(u_k, u_{k-1}) = 1

with R_k the ring of nodes k links away, s its ordered degrees, g their distance
(`dssl.methods._structural_distance`) and Γ_k(u) the number of u's links in layer k that weigh more than the mean.
A walk stays in its layer with the probability ``stay`` and then follows w_k; otherwise it changes layer. Skip-gram on
the walks gives the vectors.

All three of the paper's ways to save time are on: compressed sequences, nodes of like degree compared only, and few
layers. Where we differ: negative sampling in place of hierarchical softmax; an epoch is one walk from each node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Graph
from dssl.methods._structural_distance import candidates, degree_sequences, distances
from dssl.methods._walks import Draws, Links, layered_walks, running_sums
from dssl.methods.table import SkipGram
from dssl.runtime.scale import IN_MEMORY, Scale


class Struc2Vec(SkipGram):
    """Skip-gram on walks through the layers of structural likeness.

    Args:
        dim: length of the vectors.
        rings: K, the number of layers.
        stay: probability of a walk to stay in its layer.
        walk_length: steps of a walk.
        window: largest distance of a pair along a walk.
        negatives: draws per pair.
        step_size: of the first epoch.
    """

    def __init__(
        self,
        dim: int,
        *,
        rings: int,
        stay: float,
        walk_length: int,
        window: int,
        negatives: int,
        step_size: float,
    ) -> None:
        super().__init__(dim, walk_length=walk_length, window=window, negatives=negatives, step_size=step_size)
        self.layers, self.stay = rings, stay
        self._links = Links(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
        self._up = np.zeros((rings, 0))

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Make the tables and the layers."""
        super().prepare(graph, seed=seed, scale=scale)
        first, second = candidates(graph)
        found = distances(degree_sequences(graph, self.layers), self.layers, first, second)
        made = [layer(found[:, k], first, second, graph.num_nodes) for k in range(self.layers)]
        stacked = sparse.csr_array(sparse.vstack(made, format="csr"))
        indptr = stacked.indptr.astype(np.int64)
        heaps = running_sums(indptr, weights_in_rows(stacked))
        self._links = Links(indptr, stacked.indices.astype(np.int32), heaps)
        self._up = np.stack([upward(matrix) for matrix in made])
        self.others = Draws.of(np.ones(graph.num_nodes))

    def paths(self, starts: NDArray[np.int64], seed: int) -> NDArray[np.int32]:
        """Walk through the layers."""
        return layered_walks(self._links, self._up, starts, self.walk_length, self.stay, np.uint64(seed))


def layer(
    found: NDArray[np.float64], first: NDArray[np.int64], second: NDArray[np.int64], num_nodes: int
) -> sparse.csr_array:
    """The links of one layer in both directions, with f_k as values; pairs of infinite distance are not linked."""
    there = np.isfinite(found)
    start, end = first[there], second[there]
    both = (np.concatenate([start, end]), np.concatenate([end, start]))
    return sparse.csr_array((np.concatenate([found[there], found[there]]), both), shape=(num_nodes, num_nodes))


def weights_in_rows(matrix: sparse.csr_array) -> NDArray[np.float64]:
    """w_k up to a factor for each node, such that its nearest has weight one, whatever f_k is there, shape ``(A,)``."""
    counts = np.diff(matrix.indptr)
    least = np.zeros(len(counts))
    if matrix.nnz:
        least[counts > 0] = np.minimum.reduceat(matrix.data, matrix.indptr[:-1][counts > 0])
    weights: NDArray[np.float64] = np.exp(np.repeat(least, counts) - matrix.data)
    return weights


def upward(matrix: sparse.csr_array) -> NDArray[np.float64]:
    """The probability of each node to change to the layer above, not below, for f_k as values, shape ``(N,)``."""
    weights = np.exp(-matrix.data)
    heavy = weights > (weights.mean() if len(weights) else 0.0)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    gamma = np.bincount(rows[heavy], minlength=matrix.shape[0])
    weight = np.log(gamma + np.e)
    chances: NDArray[np.float64] = weight / (weight + 1)
    return chances
