"""Coordinates in the plane for each node: t-SNE or principal components."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dssl.errors import DsslError, require
from dssl.rng import integer, stream

Kind = Literal["auto", "tsne", "pca"]

SAMPLE = 10_000  # nodes that t-SNE itself places: about 1.6 s per thousand
NEIGHBOURS = 5  # the distance to the fifth is how far places are apart: no clumps are seen that are none
MOST_PLACED = 1_000_000  # half a second per 10,000, a minute in all; their principal components take a second


def project(values: NDArray[np.float32], *, kind: Kind = "auto", seed: int = 0) -> NDArray[np.float32]:
    """Lay rows out in the plane.

    t-SNE starts from the principal components. Of more than 10,000 rows it places a seeded sample, and each other
    row a position next to its nearest sampled row: 100,000 rows take half a minute, not four.

    Args:
        values: finite vectors, shape ``(N, d)``.
        kind: ``"tsne"``, ``"pca"``, or ``"auto"``: t-SNE, or PCA for fewer than ten distinct rows, for fewer
            than three dimensions and for more than a million rows.
        seed: of the sample and of t-SNE.

    Returns:
        Finite coordinates, shape ``(N, 2)``.

    >>> project(np.ones((2, 3), np.float32)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    values = checked(values)
    if kind_of(values, kind) == "pca":
        components = _principal_components(values, 2)
        plane = np.zeros((len(values), 2), np.float32)
        plane[:, : components.shape[1]] = components
        return plane
    components = _principal_components(values, 50)
    placed = np.sort(stream(seed, "map").permutation(len(values))[:SAMPLE])
    plane = np.empty((len(values), 2), np.float32)
    plane[placed] = _tsne(components[placed], seed)
    others = np.setdiff1d(np.arange(len(values)), placed)
    if others.size:
        plane[others] = _beside_nearest(components[placed], plane[placed], components[others], seed)
    return plane


def checked(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors as float32; an array that is not a finite matrix is refused."""
    values = np.asarray(values, dtype=np.float32)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise DsslError(f"a map needs finite vectors, one row per node, not an array of shape {values.shape}")
    return values


def kind_of(values: NDArray[np.float32], kind: Kind) -> str:
    """The kind of layout that rows get: t-SNE has nothing to do with fewer than ten distinct ones, or in two axes."""
    if kind not in get_args(Kind):
        raise DsslError(f"unknown layout {kind!r}; use one of {', '.join(get_args(Kind))}")
    if kind == "pca" or (kind == "auto" and len(values) > MOST_PLACED):
        return "pca"
    components = _principal_components(values[:SAMPLE], 3)
    distinct = len(np.unique(components[:1000], axis=0))
    return "tsne" if components.shape[1] == 3 and distinct >= 10 else "pca"


def _tsne(components: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    require("openTSNE", extra="report")
    from openTSNE import TSNE

    few = len(components) < 1000
    model = TSNE(
        perplexity=min(30, (len(components) - 1) / 3),
        initialization=components[:, :2] / components[:, 0].std() * 1e-4,
        early_exaggeration_iter=150,
        n_iter=250,
        neighbors="exact" if few else "annoy",
        negative_gradient_method="bh" if few else "fft",
        n_jobs=1,
        random_state=integer(seed, "t-sne") % 2**31,
    )
    return np.asarray(model.fit(components), dtype=np.float64)


def _beside_nearest(
    known: NDArray[np.float64], places: NDArray[np.float32], others: NDArray[np.float64], seed: int
) -> NDArray[np.float32]:
    """A position for each other row next to that of its nearest known row, at the typical distance of positions.

    A mean over several nearest would draw all rows to the middle of the map.
    """
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(known.astype(np.float32))
    at = near.kneighbors(others.astype(np.float32), return_distance=False)[:, 0]
    around = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(places) - 1)).fit(places)
    apart = np.median(around.kneighbors()[0][:, -1])
    return np.asarray(places[at] + apart * stream(seed, "beside").standard_normal((len(others), 2)), np.float32)


def _principal_components(values: NDArray[np.float32], count: int) -> NDArray[np.float64]:
    """Coordinates along the principal axes that have variance, the largest first, shape ``(N, at most count)``."""
    from sklearn.decomposition import PCA

    if not values.size:
        return np.zeros((len(values), 0))
    centred = values.astype(np.float64) / (float(np.abs(values).max()) or 1.0)
    centred -= centred.mean(axis=0)
    if not centred.any():
        return np.zeros((len(values), 0))
    model = PCA(min(count, *values.shape), svd_solver="covariance_eigh")
    return np.asarray(model.fit_transform(centred)[:, model.explained_variance_ > 1e-12])
