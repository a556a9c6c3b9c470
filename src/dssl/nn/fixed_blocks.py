r"""What a vector holds besides the trained part: principal components that need no training.

A trained encoder of a few dozen columns forgets things that a linear classifier could have used. So the embedding is
the trained part beside fixed blocks, each a linear function of features and links:

- ego and averages: :math:`[X V \mid P X V \mid P^2 X V]`, V the leading right singular vectors of X;
- smoothed: :math:`r\,S^2 X V'`, V' those of :math:`S^2 X`;
- links: :math:`w\,A U`, U the leading singular vectors of the adjacency A.

The trained part and the first block count alike; the last two only where links are worth it, which is read off without
labels. Smoothing helps where neighbours have like features: r is twice the correlation of a node's features with the
mean of its neighbours', within 0 and 1. The links help where they follow a pattern:
:math:`w = \max(0, 2\,\mathrm{AUC} - 1)`, where AUC is how well the leading singular vectors of nine tenths of the links
tell the other tenth from pairs of the same degrees.

Every block is a product with a stored matrix, so that new nodes get vectors too: V and V' belong to the feature
columns; U to the nodes of the fitted graph, found again by their ids, so that a new node is described by its links to
known ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import Averages, columns_at_once, gcn_matrix, mean_matrix, smooth_features
from dssl.graph.ids import id_keys
from dssl.graph.svd import right_vectors, smoothed, symmetric_components
from dssl.runtime import out_of_core
from dssl.runtime.scale import BY_BLOCKS, IN_MEMORY, Scale

Floats = NDArray[np.float32]
ENTRIES, LEAST = 6_400_000, 32  # of a block over all nodes: large graphs get fewer columns, but at least so many
TRIED = 200_000  # links of a large graph that `link_auc` looks at


class Readout(nn.Module):
    """The fixed blocks, fitted on one graph and applied to others.

    Args:
        dim: columns of each of the three parts of the first block; the smoothed block has twice as many.
        link_dim: columns of the links block. Both of the last two blocks have fewer in graphs of over 25,000 nodes, and
            the first in graphs of over 100,000.
    """

    def __init__(self, *, dim: int, link_dim: int) -> None:
        super().__init__()
        self.dim, self.link_dim = dim, link_dim
        empty = {"features": (0, 0), "smoothed": (0, 0), "links": (0, 0), "scales": (4,), "shift": (0,)}
        for name, shape in empty.items():
            self.register_buffer(name, torch.zeros(shape))
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))

    def fit(self, graph: Graph, trained: Floats, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Find the bases, the weights and the scales of the blocks.

        Args:
            graph: a graph with features.
            trained: the trained part, shape ``(N, d)``.
            seed: seed of the decompositions and of the links held out.
            scale: whether the blocks are computed at once or by blocks of rows and columns.
        """
        assert graph.x is not None
        keys = id_keys(graph.ids)
        order = np.argsort(keys, kind="stable")
        self.keys = torch.from_numpy(keys[order])
        most = most_columns(graph.num_nodes)
        self.features = torch.from_numpy(right_vectors(graph.x, min(self.dim, most), seed=seed, scale=scale))
        if not scale.in_memory:
            return self._fit_large(graph.undirected(), trained, order, seed=seed)
        adjacency = graph.undirected().adjacency()
        product = smoothed(graph.x, gcn_matrix(adjacency))
        self.smoothed = torch.from_numpy(right_vectors(product, min(2 * self.dim, most), seed=seed))
        self.links = torch.from_numpy(right_vectors(adjacency, min(self.link_dim, most), seed=seed)[order])
        blocks = self._blocks(graph, trained)
        self.shift = torch.from_numpy(np.concatenate([block.mean(axis=0) for block in blocks]))
        sizes = [float(np.sqrt(np.square(block - block.mean(axis=0)).sum(axis=1).mean())) for block in blocks]
        alike = min(1.0, max(0.0, 2 * feature_correlation(graph, blocks[1][:, : self.features.shape[1]])))
        weights = (1.0, 1.0, alike, max(0.0, 2 * link_auc(graph, seed=seed) - 1))
        self.scales = torch.tensor([w / size if size > 1e-9 else 0.0 for w, size in zip(weights, sizes, strict=True)])

    def _fit_large(self, graph: Graph, trained: Floats, order: NDArray[np.int64], *, seed: int) -> None:
        """The same by blocks of rows and columns, for an undirected graph."""
        told = max(0.0, 2 * link_auc(graph, seed=seed, scale=BY_BLOCKS) - 1)  # first: it needs memory of its own
        most = most_columns(graph.num_nodes)
        links = Averages(graph)
        if isinstance(graph.x, np.ndarray):
            basis = right_vectors(smooth_features(graph), min(2 * self.dim, most), seed=seed, scale=BY_BLOCKS)
        else:
            basis = right_vectors(smoothed(graph.x, gcn_matrix(graph.adjacency())), min(2 * self.dim, most), seed=seed)
        self.smoothed = torch.from_numpy(basis)
        u = symmetric_components(links.plain, graph.num_nodes, min(self.link_dim, most), seed=seed)[1]
        self.links = torch.from_numpy(u[order])
        del u
        values, widths = self._filled(graph, trained)
        sums, squares = np.zeros(values.shape[1]), np.zeros(values.shape[1])
        inside = np.zeros(2)  # of the ego features: with their averages, and with themselves
        ego, mean = widths[0], widths[0] + self.features.shape[1]
        for _, block in out_of_core.blocks(values):
            sums += block.sum(axis=0, dtype=np.float64)
            squares += np.square(block, dtype=np.float64).sum(axis=0)
            own, others = block[:, ego:mean], block[:, mean : 2 * mean - ego]
            inside += [np.einsum("nd,nd->", own, others, dtype=np.float64), np.square(own, dtype=np.float64).sum()]
        means = sums / graph.num_nodes
        self.shift = torch.from_numpy(means.astype(np.float32))
        spread = np.maximum(squares / graph.num_nodes - means**2, 0)
        at = np.cumsum([0, *widths])
        sizes = [float(np.sqrt(spread[a:b].sum())) for a, b in itertools.pairwise(at)]
        # The covariance of centred features with their averages, over their variance: `feature_correlation`, but for
        # nodes without links, whose average is 0 there and here the mean.
        centre, around = means[ego:mean], means[mean : 2 * mean - ego]
        total = inside[1] - graph.num_nodes * float(centre @ centre)
        shared = inside[0] - graph.num_nodes * float(centre @ around)
        alike = min(1.0, max(0.0, 2 * shared / total if total > 0 else 0.0))
        weights = (1.0, 1.0, alike, told)
        self.scales = torch.tensor([w / size if size > 1e-9 else 0.0 for w, size in zip(weights, sizes, strict=True)])

    def join(self, graph: Graph, trained: Floats, *, scale: Scale = IN_MEMORY) -> Floats:
        """Return the trained part and the blocks of a graph side by side, shape ``(N, d + width)``."""
        if not scale.in_memory:
            return self._join_large(graph.undirected(), trained)
        blocks = self._blocks(graph, trained)
        out: Floats = np.hstack(blocks) - self.shift.cpu().numpy()
        at = 0
        for block, weight in zip(blocks, self.scales.tolist(), strict=True):
            out[:, at : at + block.shape[1]] *= weight
            at += block.shape[1]
        return out

    def _join_large(self, graph: Graph, trained: Floats) -> Floats:
        out, widths = self._filled(graph, trained)
        shift, scales = self.shift.cpu().numpy(), np.repeat(self.scales.cpu().numpy(), widths)
        step = out_of_core.rows_at_once(out)
        for begin in range(0, len(out), step):
            part = out[begin : begin + step]
            part -= shift
            part *= scales
            out_of_core.drop(out)
        return out

    def _blocks(self, graph: Graph, trained: Floats) -> list[Floats]:
        adjacency = graph.undirected().adjacency()
        mean, smoothing = mean_matrix(adjacency), gcn_matrix(adjacency)
        ego = np.asarray(graph.x @ self.features.cpu().numpy(), np.float32)
        first = mean @ ego
        smooth = smoothing @ (smoothing @ np.asarray(graph.x @ self.smoothed.cpu().numpy(), np.float32))
        return [trained, np.hstack([ego, first, mean @ first]), smooth, adjacency @ self._rows(graph.ids)]

    def _filled(self, graph: Graph, trained: Floats) -> tuple[Floats, list[int]]:
        """The trained part and the blocks of an undirected graph side by side, and their widths, before scaling."""
        links = Averages(graph)
        features, smooth = self.features.cpu().numpy(), self.smoothed.cpu().numpy()
        widths = [trained.shape[1], 3 * features.shape[1], smooth.shape[1], self.links.shape[1]]
        out = out_of_core.matrix((graph.num_nodes, sum(widths)))
        for begin, block in out_of_core.blocks(trained):
            out[begin : begin + len(block), : widths[0]] = block
            out_of_core.drop(out)
        ego, step = widths[0], columns_at_once(graph.num_nodes)
        for left in range(0, features.shape[1], step):
            part = _product(graph, features[:, left : left + step])
            for turn in range(3):
                part = links.mean(part) if turn else part
                out_of_core.put_columns(out, ego + turn * features.shape[1] + left, part)
        at = ego + widths[1]
        for left in range(0, smooth.shape[1], step):
            part = _product(graph, smooth[:, left : left + step])
            out_of_core.put_columns(out, at + left, links.smooth(links.smooth(part)))
        at += widths[2]
        for left in range(0, self.links.shape[1], step):
            part = self._rows(graph.ids, left, left + step)
            out_of_core.put_columns(out, at + left, links.plain(part))
        return out, widths

    def _rows(self, ids: pa.Array, begin: int = 0, end: int | None = None) -> Floats:
        """Rows of U, or of some of its columns, for the nodes of a graph; zeros for nodes that the fitted one lacks."""
        known, table, wanted = self.keys.cpu().numpy(), self.links.cpu().numpy()[:, begin:end], id_keys(ids)
        at = np.searchsorted(known, wanted).clip(max=len(known) - 1)
        found: Floats = table[at]
        found[known[at] != wanted] = 0
        return found

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        # The sizes of the buffers are those of the fitted graph, which a new module does not know.
        for name, value in self._buffers.items():
            stored = state_dict.get(prefix + name)
            if isinstance(stored, Tensor) and value is not None and stored.shape != value.shape:
                setattr(self, name, torch.empty_like(stored))
        super()._load_from_state_dict(state_dict, prefix, *args)


def most_columns(num_nodes: int) -> int:
    """How many columns a fixed block may have.

    >>> most_columns(10_000), most_columns(100_000), most_columns(1_000_000)
    (640, 64, 32)
    """
    return max(ENTRIES // num_nodes, LEAST)


def _product(graph: Graph, basis: Floats) -> Floats:
    """X V, shape ``(N, d)``."""
    assert graph.x is not None
    if not isinstance(graph.x, np.ndarray):
        return np.asarray(graph.x @ basis, np.float32)
    out = np.empty((graph.num_nodes, basis.shape[1]), np.float32)
    for begin, block in out_of_core.blocks(graph.x):
        out[begin : begin + len(block)] = block @ basis
    return out


def feature_correlation(graph: Graph, x: Floats) -> float:
    """Correlation of the nodes' features with the means of their neighbours', over all columns together.

    Args:
        graph: the graph.
        x: features, shape ``(N, F)``; columns are centred here.

    >>> pairs = Graph.from_edges([0, 2], [1, 3])
    >>> feature_correlation(pairs, np.array([[1], [1], [-1], [-1]], np.float32))
    1.0
    """
    centred = x - x.mean(axis=0)
    total = float(np.square(centred).sum())
    means = mean_matrix(graph.undirected().adjacency()) @ centred
    return float((centred * means).sum()) / total if total > 0 else 0.0


def link_auc(
    graph: Graph, *, seed: int, scale: Scale = IN_MEMORY, share: float = 0.1, dim: int = 16, repeats: int = 5
) -> float:
    """Return how well the leading singular vectors of most links separate the others from pairs of the same degrees.

    Args:
        graph: a graph; its features and labels are not looked at.
        seed: chooses the links that are held out.
        scale: whether the vectors are computed at once or by blocks.
        share: share of the links that are held out.
        dim: number of singular vectors; with many, those of a small graph know the noise by heart.
        repeats: number of draws to average, for graphs of up to 10,000 links; one is enough for larger ones.

    Returns:
        The area under the ROC curve; 0.5 (nothing to tell) where there are too few links to try.
    """
    if not scale.in_memory:
        return _large_auc(graph.undirected(), seed=seed, share=share, dim=dim)
    upper = sparse.triu(graph.undirected().adjacency(), 1).tocoo()
    if share * upper.nnz < 10:
        return 0.5
    draw = rng.stream(seed, "link auc")
    return float(
        np.mean([_held_out_auc(upper, draw, share, dim) for _ in range(repeats if upper.nnz <= 10_000 else 1)])
    )


def _held_out_auc(upper: sparse.coo_array, draw: np.random.Generator, share: float, dim: int) -> float:
    from sklearn.metrics import roc_auc_score

    held = np.zeros(upper.nnz, bool)
    held[draw.choice(upper.nnz, round(share * upper.nnz), replace=False)] = True
    kept = (np.ones((~held).sum(), np.float32), (upper.row[~held], upper.col[~held]))
    rest = sparse.csr_array(kept, shape=upper.shape)
    rest = sparse.csr_array(rest + rest.T)
    basis = right_vectors(rest, dim)
    left = rest @ basis
    start, end = upper.row[held], upper.col[held]
    other = draw.permutation(end)  # ends of other links: the same degrees
    scores = [(left[start] * basis[stop]).sum(axis=1) for stop in (end, other)]
    return float(roc_auc_score(np.repeat([1, 0], held.sum()), np.concatenate(scores)))


def _large_auc(graph: Graph, *, seed: int, share: float, dim: int) -> float:
    """The same for a large undirected graph, on up to `TRIED` of the links that are held out."""
    from dssl.kernels.csr import split_links, sum_neighbours

    indptr, indices, start, end = split_links(
        graph.indptr, graph.indices, share, rng.integer(seed, "link auc") & 0xFFFFFFFF
    )
    if start.size < 10:
        return 0.5
    values, vectors = symmetric_components(
        lambda q: sum_neighbours(indptr, indices, None, q), graph.num_nodes, dim, seed=seed
    )
    draw = rng.stream(seed, "link auc")
    if start.size > TRIED:
        chosen = np.sort(draw.choice(start.size, TRIED, replace=False))
        start, end = start[chosen], end[chosen]
    left = vectors[start] * values.astype(np.float32)
    yes, no = (np.sort((left * vectors[stop]).sum(axis=1)) for stop in (end, draw.permutation(end)))
    below = sum(np.searchsorted(no, yes, side=side).sum(dtype=np.int64) for side in ("left", "right"))
    return float(below / (2 * yes.size * no.size))  # ties count half
