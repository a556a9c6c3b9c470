"""Places in the plane: what is near stays near, any input gets finite ones, a stored map serves its own run only."""

from __future__ import annotations

import numpy as np
import pytest

import dssl.evaluation.projection
from dssl.errors import DsslError
from dssl.evaluation.projection import project


def clusters(count: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(count) % 3
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, 10)) + 8 * np.eye(10)[y]).astype(np.float32), y


def nearest_centre(points: np.ndarray, y: np.ndarray) -> np.ndarray:
    centres = np.stack([points[y == k].mean(axis=0) for k in range(3)])
    return np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)


@pytest.mark.parametrize("kind", ["auto", "tsne", "pca"])
@pytest.mark.parametrize(
    "values",
    [
        np.empty((0, 4)),
        np.empty((3, 0)),
        np.ones((1, 3)),
        np.array([[0.0, 1], [1, 0]]),
        np.ones((40, 5)),
        np.arange(40.0)[:, None],
        np.repeat(np.eye(4), 10, axis=0),
        np.full((30, 3), 1e30) * np.arange(30)[:, None],
        np.eye(12),
    ],
)
def test_any_vectors_get_finite_places(values: np.ndarray, kind: str) -> None:
    points = project(values.astype(np.float32), kind=kind)
    assert points.shape == (len(values), 2)
    assert points.dtype == np.float32
    assert np.isfinite(points).all()


@pytest.mark.parametrize("kind", ["tsne", "pca"])
def test_planted_clusters_stay_apart(kind: str) -> None:
    values, y = clusters(150)
    points = project(values, kind=kind)
    np.testing.assert_array_equal(nearest_centre(points, y), y)
    np.testing.assert_array_equal(points, project(values, kind=kind))


def test_principal_components_are_the_best_plane() -> None:
    values = (np.random.default_rng(0).normal(size=(60, 5)) * [9, 5, 1, 1, 0]).astype(np.float32)
    points = project(values, kind="pca")
    distances = [np.linalg.norm(a[:, None] - a, axis=2).ravel() for a in (points, values[:, :2])]
    assert np.corrcoef(*distances)[0, 1] > 0.97


def test_rows_outside_the_sample_are_placed_in_their_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dssl.evaluation.projection, "SAMPLE", 120)
    values, y = clusters(600)
    points = project(values)
    np.testing.assert_array_equal(nearest_centre(points, y), y)
    assert len(np.unique(points, axis=0)) > 500


def test_auto_takes_components_of_very_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dssl.evaluation.projection, "MOST_PLACED", 100)
    values, _ = clusters(150)
    np.testing.assert_array_equal(project(values), project(values, kind="pca"))


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(DsslError, match="finite"):
        project(np.array([[np.nan, 1]], np.float32))
    with pytest.raises(DsslError, match="unknown layout 'umap'"):
        project(np.ones((2, 2), np.float32), kind="umap")  # type: ignore[arg-type]
