r"""Positions: where a node is, as the leading eigenvectors of the regularised adjacency matrix.

.. math:: M = (D + \tau I)^{-1/2} A (D + \tau I)^{-1/2}, \qquad M v = \lambda v

with τ half the mean degree or, in a dense graph, up to ten times the mean degree (`regularisation`; regularised
spectral clustering, Qin and Rohe 2013). The normalised matrix is ruled by hanging trees where links are few. Where they
are many, plain A is better: the position of a node with many links is more precise. Columns are λv for the
eigenvalues of largest size, so both ends of the spectrum are there. A directed graph has singular vectors instead:
columns Mv from its out-links and Mᵀu from its in-links.

λv is the sum of stored vectors over a node's links, since Mv = λv. So a new node gets its position from its links to
known nodes: :math:`(d_i + \tau)^{-1/2} \sum_j A_{ij} (d_j + \tau)^{-1/2} v_j`.

`link_reliability` measures without labels how far the columns can be trusted, together and one by one: eigenvectors of
one half of the links are evaluated on the other half (cross-validated eigenvalues, Chen, Roch and Rohe 2021). In a
sparse graph a few of the columns can be signal, and the others noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import Averages, degrees
from dssl.graph.eigenvectors import EXTRA, PRODUCTS, leading_eigenpairs
from dssl.graph.ids import id_keys
from dssl.graph.principal import moments
from dssl.graph.roles import reverse
from dssl.graph.svd import most_columns
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]

DIM = 64
REGULARISATION, SPARSE, MOST_REGULAR = 0.5, 4.0, 20.0  # see `regularisation`
ROUGH = 32  # products for the eigenvectors of half of the links
WORK, FEWEST = 3e10, 12  # multiplications for eigenvectors at most, and the fewest products on any graph


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Stored vectors of the fitted graph's nodes, found again by their ids.

    Args:
        tau: τ.
        keys: keys of the ids, ascending, int64, shape ``(N,)``; see `id_keys`.
        ends: for each node at the end of an out-link, the vector that it adds, float32, shape ``(N, k)``.
        starts: the same for in-links of a directed graph; shape ``(N, 0)`` for an undirected one.
        shift: mean of the columns, float32.
        scale: number that each centred column is multiplied by: the total variance of either direction becomes 1.
        size: size of the columns, relative to that without counts; not stored.
    """

    tau: float
    keys: NDArray[np.int64]
    ends: Floats
    starts: Floats
    shift: Floats
    scale: Floats
    size: float = 1.0

    @property
    def directed(self) -> bool:
        """Whether out-links and in-links have separate columns."""
        return bool(self.starts.shape[1])

    @classmethod
    def fit(
        cls,
        graph: Graph,
        *,
        dim: int = DIM,
        seed: int = 0,
        counts: NDArray[np.float64] | None = None,
        tau: float | None = None,
    ) -> tuple[Positions, Floats]:
        """Compute the positions of a graph's nodes.

        Args:
            graph: any graph; links of a node to itself are ignored.
            dim: columns of each direction; at most N, and fewer for large graphs (`most_columns`).
            seed: seed of the start of the iteration.
            counts: number that each direction is multiplied by, shape ``(k,)``; the last one also counts for further
                directions. By default all are 1.
            tau: τ over the mean degree, by default that of `regularisation`.

        Returns:
            The stored vectors, and the positions of shape ``(N, k)`` or, directed, ``(N, 2k)``.
        """
        plain = graph.without_self_loops()
        tau = (regularisation(plain) if tau is None else tau) * float(degrees(plain).mean())
        dim = min(dim, most_columns(plain.num_nodes))
        ends, starts = _directed(plain, tau, dim, seed) if graph.directed else _undirected(plain, tau, dim, seed)
        columns = _columns(plain, tau, ends, starts)
        mean, variance = moments(columns)
        shift, widths = mean.astype(np.float32), (ends.shape[1], starts.shape[1])
        counts = np.ones(1) if counts is None else counts[: widths[0]]
        counts = np.pad(counts, (0, widths[0] - len(counts)), mode="edge")
        sides = [side for side in np.split(variance, widths[:1]) if side.size]
        sizes = [float(np.sqrt(counts**2 @ side)) for side in sides]
        scale = np.concatenate([counts / size if size > 1e-12 else 0 * counts for size in sizes] or [np.zeros(0)])
        size = sizes[0] / float(np.sqrt(sides[0].sum())) if sizes and sizes[0] > 1e-12 else 0.0
        keys = id_keys(graph.ids)
        order = np.argsort(keys, kind="stable")
        found = cls(tau, keys[order], ends[order], starts[order], shift, scale.astype(np.float32), size)
        return found, found._scaled(columns)

    def apply(self, graph: Graph) -> Floats:
        """Return the positions of another graph's nodes, from their links to known nodes."""
        plain = graph.without_self_loops()
        plain = plain if self.directed else plain.undirected()
        at = np.clip(np.searchsorted(self.keys, keys := id_keys(graph.ids)), 0, max(len(self.keys) - 1, 0))
        known = (self.keys[at] == keys)[:, None]
        ends, starts = (np.where(known, side[at], np.float32(0)) for side in (self.ends, self.starts))
        return self._scaled(_columns(plain, self.tau, ends, starts))

    def _scaled(self, columns: Floats) -> Floats:
        return out_of_core.mapped(lambda block: (block - self.shift) * self.scale, columns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the stored vectors for a file of arrays."""
        names = ("keys", "ends", "starts", "shift", "scale")
        return {"tau": np.array([self.tau]), **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Positions:
        """Rebuild positions from the result of `arrays`."""
        keys, ends, starts, shift, scale = (arrays[name] for name in ("keys", "ends", "starts", "shift", "scale"))
        return cls(float(arrays["tau"][0]), keys, ends, starts, shift, scale)


def link_reliability(graph: Graph, *, dim: int = DIM, seed: int = 0) -> tuple[float, NDArray[np.float64]]:
    r"""Fraction of the links' leading structure that one half of the links predicts of the other, 0 to 1.

    With λ, v the leading eigenpairs of M made from one half, M' made from the other:
    :math:`r = \sum_k \lambda_k v_k^\top M' v_k / \sum_k \lambda_k^2`, and 2r/(1 + r) for the whole graph
    (Spearman-Brown). A direction has :math:`r_k = v_k^\top M' v_k / \lambda_k`, smoothed to decrease with k.

    Args:
        graph: any graph; direction, weights and links of a node to itself are ignored.
        dim: number of eigenpairs.
        seed: seed of the halves.

    Returns:
        The reliability of all directions together, and of each, shape ``(dim,)`` at most.
    """
    from scipy.optimize import isotonic_regression

    from dssl.kernels.csr import split_links

    plain = graph.without_self_loops().undirected()
    indptr, indices, start, end = split_links(
        plain.indptr, plain.indices, 0.5, rng.integer(seed, "link halves") & 0xFFFFFFFF
    )
    if not indices.size or not start.size:
        return 0.0, np.zeros(1)
    half = plain.replace(indptr=indptr, indices=indices, weights=None)
    times = regularisation(plain)
    tau = times * indices.size / plain.num_nodes
    dim = min(dim, most_columns(plain.num_nodes))
    allowed = min(ROUGH, _products(half, dim, WORK / 4))
    pairs = leading_eigenpairs(_regularised(half, tau), plain.num_nodes, dim, products=allowed, seed=seed)
    other = np.bincount(start, minlength=plain.num_nodes) + np.bincount(end, minlength=plain.num_nodes)
    root = (1 / np.sqrt(other + times * other.mean())).astype(np.float32)[:, None]
    scaled, found = pairs.vectors * root, np.zeros(len(pairs.values))
    for begin in range(0, start.size, 1 << 16):
        ends = slice(begin, begin + (1 << 16))
        found += 2 * (scaled[start[ends]] * scaled[end[ends]]).sum(axis=0, dtype=np.float64)
    values = pairs.values
    ratio = max(0.0, float(values @ found / max(float(values @ values), 1e-30)))
    ratios = np.divide(found, values, out=np.zeros_like(found), where=np.abs(values) > 1e-9 * np.abs(values).max())
    smooth = np.clip(isotonic_regression(np.clip(ratios, -1, 1), increasing=False).x, 0, 1)
    return min(1.0, 2 * ratio / (1 + ratio)), 2 * smooth / (1 + smooth)


def regularisation(graph: Graph) -> float:
    """τ over the mean degree: 1/2 for a mean degree of up to 4, then an eighth of the mean degree, 10 at most.

    >>> regularisation(Graph.from_edges([0, 1, 2], [1, 2, 3]))
    0.5
    """
    return REGULARISATION * float(np.clip(graph.indices.size / max(graph.num_nodes, 1) / SPARSE, 1, MOST_REGULAR))


def _root(graph: Graph, tau: float) -> Floats:
    """(D + τI)^−½ as a column; 0 for a node without links in a graph without any."""
    total = degrees(graph).astype(np.float64) + tau
    return np.divide(1, np.sqrt(total), out=np.zeros_like(total), where=total > 0).astype(np.float32)[:, None]


def _products(graph: Graph, dim: int, work: float) -> int:
    """Number of products with a block that the links of a graph allow: fewer for a large one."""
    each = max(graph.indices.size * (dim + EXTRA), 1)
    return int(np.clip(work / each, FEWEST, PRODUCTS))


def _regularised(graph: Graph, tau: float) -> Any:
    """The product with M of an undirected graph."""
    links, root = Averages(graph), _root(graph, tau)
    return lambda block: links.product(block, before=root, after=root)


def _undirected(plain: Graph, tau: float, dim: int, seed: int) -> tuple[Floats, Floats]:
    allowed = _products(plain, dim, WORK)
    found = leading_eigenpairs(_regularised(plain, tau), plain.num_nodes, dim, products=allowed, seed=seed)
    return _rows(found.vectors, _root(plain, tau)), np.zeros((plain.num_nodes, 0), np.float32)


def _directed(plain: Graph, tau: float, dim: int, seed: int) -> tuple[Floats, Floats]:
    back = reverse(plain)
    out, into = Averages(plain), Averages(back)
    left, right = _root(plain, tau), _root(back, tau)

    def times(block: Floats) -> Floats:  # MᵀM
        return into.product(out.product(block, before=right, after=left), before=left, after=right)

    allowed = _products(plain, dim, WORK / 2)  # each is with the matrix and its transpose
    found = leading_eigenpairs(times, plain.num_nodes, dim, positive=True, products=allowed, seed=seed)
    values = np.sqrt(np.maximum(found.values, 0))
    inverse = np.divide(1, values, out=np.zeros_like(values), where=values > 1e-6 * max(values[0], 1e-30))
    u = out.product(found.vectors, before=right, after=left**2)
    return _rows(found.vectors, right), _rows(u, inverse.astype(np.float32)[None])


def _columns(plain: Graph, tau: float, ends: Floats, starts: Floats) -> Floats:
    columns = Averages(plain).product(ends, after=_root(plain, tau))
    if not starts.shape[1]:
        return columns
    back = reverse(plain)
    return out_of_core.mapped(
        lambda one, other: np.hstack([one, other]), columns, Averages(back).product(starts, after=_root(back, tau))
    )


def _rows(columns: Floats, scales: Floats) -> Floats:
    """Columns times a column of row scales, shape ``(N, 1)``, or a row of column scales, shape ``(1, k)``."""
    if len(scales) == len(columns):
        return out_of_core.mapped(lambda block, scale: block * scale, columns, scales)
    return out_of_core.mapped(lambda block: block * scales, columns)
