"""Reliability: how far a part of a node's input can be measured twice, from halves of its words or of the links.

Both versions are correlated column by column, the columns count by their variance, and 2r/(1 + r) corrects the
correlation r for the halves (Spearman-Brown). ρ/(1 − ρ) is the ratio of signal to noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.principal import means, middle, moments
from dssl.graph.word_covariance import Features, row_sizes, scaled_blocks
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]

LARGEST_SIGNAL = 2.0  # ratio of signal to noise, at most
SAMPLE = 50_000  # nodes on which the reliability of words is measured


def reliability(first: Floats, second: Floats) -> float:
    """Correlation of two versions of a part, weighted by the variance of columns, after Spearman-Brown; 0 to 1."""
    centres, sizes = zip(*(moments(part) for part in (first, second)), strict=True)
    shared = np.zeros(first.shape[1])
    for begin, block in out_of_core.blocks(first):
        shared += ((block - centres[0]) * (second[begin : begin + len(block)] - centres[1])).sum(axis=0) / len(first)
    variance, norms = sizes[0] + sizes[1], np.sqrt(sizes[0] * sizes[1])
    r = np.clip(np.divide(shared, norms, out=np.zeros_like(norms), where=norms > 1e-12), 0, 1)
    return float((2 * r / (1 + r)) @ variance / max(float(variance.sum()), 1e-30))


def signal_to_noise(rho: float) -> float:
    """ρ/(1 − ρ), at most 2."""
    return min(rho / max(1 - rho, 1e-9), LARGEST_SIGNAL)


def word_reliability(x: Features, *maps: Floats, seed: int = 0) -> tuple[float, ...]:
    """Reliability of projections made from either half of the entries of the features.

    Rows of a half are divided by their sum: more entries in one half are fewer in the other.

    Args:
        x: features, shape ``(N, F)``; a sample of the rows if there are many.
        maps: features to projections, each of shape ``(F, k)``.
        seed: seed of the halves.

    Returns:
        Reliability of each projection, then that of the amounts.
    """
    draw = rng.stream(seed, "word halves")
    made: tuple[list[list[Floats]], ...] = tuple([[] for _ in (*maps, None)] for _ in range(2))
    for begin, block in scaled_blocks(x, None):
        if begin > SAMPLE:
            break
        one = block.copy()
        values = one if isinstance(one, np.ndarray) else one.data
        values *= draw.random(values.shape) < 0.5
        for half, into in zip((one, block - one), made, strict=True):
            sizes = row_sizes(half)
            inverse = np.divide(1, sizes, out=np.zeros_like(sizes), where=sizes > 0)[:, None]
            for projection, rows in zip(maps, into, strict=False):
                rows.append(np.asarray((half @ projection) * inverse, np.float32))
            into[-1].append(np.log1p(sizes)[:, None].astype(np.float32))
    return tuple(reliability(*map(np.concatenate, pair)) for pair in zip(*made, strict=True))


def context_ratio(own: Floats, first: Graph, second: Graph) -> float:
    """2ρ/(1 − ρ) of the means over neighbours, over ρ/(1 − ρ) of the measurements.

    Args:
        own: measurements, or their projections, shape ``(N, k)``.
        first: one half of the links, see `halves`.
        second: the other half.
    """
    mean = means(own)
    products = out_of_core.added(lambda block: (block - mean).T @ (block - mean), own, at_once=1 << 21) / len(own)
    variances = np.linalg.eigvalsh(products).astype(np.float64)
    noise = middle(variances)
    largest = noise * (1 + np.sqrt(own.shape[1] / len(own))) ** 2  # of noise alone
    signal = np.sum(variances[variances > largest] - noise) / max(float(variances.sum()), 1e-30)
    one, other = (Averages(half).mean(own) for half in (first, second))
    centres, sizes = zip(*(moments(part) for part in (one, other)), strict=True)
    shared = out_of_core.added(lambda a, b: ((a - centres[0]) * (b - centres[1])).sum(dtype=np.float64), one, other)
    r = max(float(shared) / len(own) / max(float(np.sqrt(sizes[0].sum() * sizes[1].sum())), 1e-30), 0.0)
    return 2 * signal_to_noise(2 * r / (1 + r)) / max(signal_to_noise(float(signal)), 1e-9)


def halves(links: Graph, *, seed: int = 0) -> tuple[Graph, Graph]:
    """Split the links of an undirected graph in two random halves; weights are left out."""
    from dssl.kernels.csr import split_links

    indptr, indices, start, end = split_links(
        links.indptr, links.indices, 0.5, rng.integer(seed, "link halves") & 0xFFFFFFFF
    )
    bare = links.replace(x=None, feature_names=None, encoding=None, y=None, class_names=None, weights=None)
    other = Graph.from_edges(start, end, num_nodes=links.num_nodes)
    return bare.replace(indptr=indptr, indices=indices), bare.replace(indptr=other.indptr, indices=other.indices)
