"""Pictures: they are drawn for any embedding, show what they should, and come out the same twice."""

from __future__ import annotations

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import dssl.evaluation.pictures
from dssl.errors import DsslError
from dssl.evaluation.pictures import COLOURS, embedding_map


def has_colour(path, colour: str) -> bool:
    picture = matplotlib.image.imread(path)[:, :, :3]
    blended = 0.75 * np.array(to_rgb(colour)) + 0.25  # drawn with alpha 0.75 on white
    return bool((np.abs(picture - blended).max(axis=2) < 0.02).any())


@pytest.mark.parametrize("points", [np.ones((1, 2)), np.zeros((40, 2)), np.full((30, 2), 1e30), np.eye(2)])
def test_degenerate_maps_are_drawn(tmp_path, points):
    embedding_map(points, tmp_path / "map.png", labels=np.arange(len(points)) % 2)
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_map_shows_classes_unlabelled_nodes_and_is_the_same_twice(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    points = rng.normal(size=(120, 2)) + 6 * np.eye(3)[y, :2]
    labels = np.where(np.arange(120) < 12, -1, y)
    for name in ("a.png", "b.png"):
        embedding_map(points, tmp_path / name, labels=labels, class_names=["x", "y_$1$", "z" * 60])
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert all(has_colour(tmp_path / "a.png", colour) for colour in (*COLOURS[:3], dssl.evaluation.pictures.UNLABELLED))
    assert not has_colour(tmp_path / "a.png", COLOURS[5])


def test_more_classes_than_looks_are_drawn_grey(tmp_path):
    points = np.random.default_rng(0).normal(size=(400, 2))
    embedding_map(points, tmp_path / "m.png", labels=np.arange(400) % 40)
    assert has_colour(tmp_path / "m.png", dssl.evaluation.pictures.UNLABELLED)


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(DsslError, match="finite"):
        embedding_map(np.array([[np.nan, 0]]), tmp_path / "m.png")
    with pytest.raises(DsslError, match="3 labels for a map of 2 nodes"):
        embedding_map(np.ones((2, 2)), tmp_path / "m.png", labels=[0, 1, 2])
    assert not list(tmp_path.iterdir())


def test_a_rare_class_is_drawn_on_top(tmp_path):
    labels = np.r_[np.zeros(2000, int), 1, np.zeros(2000, int)]
    embedding_map(np.zeros((4001, 2)), tmp_path / "map.png", labels=labels)
    picture = matplotlib.image.imread(tmp_path / "map.png")[:, :, :3]
    blue, orange = (np.array(to_rgb(colour)) for colour in COLOURS[:2])
    on_top = 0.75 * orange + 0.25 * blue
    assert (np.abs(picture - on_top).max(axis=2) < 0.02).any()
