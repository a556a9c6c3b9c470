"""Pictures: they are drawn for any embedding, show what they should, and come out the same twice."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import dssl.plots
from dssl.errors import DsslError
from dssl.plots import COLOURS, embedding_map, layout_plane, training_curves


def has_colour(path, colour: str) -> bool:
    picture = matplotlib.image.imread(path)[:, :, :3]
    blended = 0.75 * np.array(to_rgb(colour)) + 0.25  # drawn with alpha 0.75 on white
    return bool((np.abs(picture - blended).max(axis=2) < 0.02).any())


@pytest.mark.parametrize(
    "values",
    [
        np.ones((1, 3)),
        np.array([[0.0, 1], [1, 0]]),
        np.ones((40, 5)),
        np.arange(40.0)[:, None],
        np.repeat(np.eye(4), 10, axis=0),
        np.full((30, 3), 1e30) * np.arange(30)[:, None],
    ],
)
def test_degenerate_embeddings_are_drawn(tmp_path, values):
    assert embedding_map(values, tmp_path / "map.png", labels=np.arange(len(values)) % 2) == "PCA"
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_map_shows_classes_unlabelled_nodes_and_is_the_same_twice(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    values = rng.normal(size=(120, 8)) + 6 * np.eye(8)[y]
    labels = np.where(np.arange(120) < 12, -1, y)
    for name in ("a.png", "b.png"):
        layout = embedding_map(values, tmp_path / name, labels=labels, class_names=["x", "y_$1$", "z" * 60])
        assert layout == "t-SNE"
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert all(has_colour(tmp_path / "a.png", colour) for colour in (*COLOURS[:3], dssl.plots.UNLABELLED))
    assert not has_colour(tmp_path / "a.png", COLOURS[5])


def test_tsne_keeps_planted_clusters_apart():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    points, layout = layout_plane((rng.normal(size=(150, 10)) + 8 * np.eye(10)[y]).astype(np.float32))
    centres = np.stack([points[y == k].mean(axis=0) for k in range(3)])
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
    assert layout == "t-SNE"
    np.testing.assert_array_equal(nearest, y)


def test_many_nodes_are_sampled_and_many_classes_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(dssl.plots, "MAX_POINTS", 50)
    seen = []
    monkeypatch.setattr(dssl.plots, "layout_plane", lambda v, seed: (seen.append(v.shape), (v[:, :2], "PCA"))[1])
    embedding_map(np.random.default_rng(0).normal(size=(400, 4)), tmp_path / "m.png", labels=np.arange(400) % 40)
    assert seen == [(50, 4)]


def test_curves(tmp_path):
    records = [{"epoch": i, "loss": 1 / (i + 1), "note": "text", "nan": float("nan")} for i in range(5)]
    training_curves(records, tmp_path / "one.png")
    training_curves([*records, {"epoch": 5, "entropy": 2.0}], tmp_path / "two.png")
    one, two = (matplotlib.image.imread(tmp_path / name).shape for name in ("one.png", "two.png"))
    assert two[1] == 2 * one[1]  # a panel more


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(DsslError, match="no numbers to draw"):
        training_curves([{"epoch": 1}], tmp_path / "c.png")
    with pytest.raises(DsslError, match="finite"):
        embedding_map(np.array([[np.nan]]), tmp_path / "m.png")
    with pytest.raises(DsslError, match="3 labels for a map of 2 nodes"):
        embedding_map(np.ones((2, 2)), tmp_path / "m.png", labels=[0, 1, 2])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_tables_and_trainings_are_drawn_the_same_each_time(tmp_path: Path, ending: str) -> None:
    points = {
        ("texas", "dssl"): (61.0, 2.0, 62.1),
        ("cora", "dssl"): (85.0, 0.5, None),
        ("cora", "raw"): (70.0, 1.0, None),
    }
    runs = {name: [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}] for name in ("a", "b")}
    drawn = []
    for at in range(2):
        table, curves = tmp_path / f"table{at}.{ending}", tmp_path / f"curves{at}.{ending}"
        dssl.plots.dots("Table", ["texas", "cora", "nothing"], ["dssl", "raw"], points, table)
        dssl.plots.comparison(runs, {"loss": "the loss"}, curves, title="Two trainings")
        drawn.append((table.read_bytes(), curves.read_bytes()))
    assert drawn[0] == drawn[1]
    start = b"<?xml" if ending == "svg" else b"\x89PNG"
    assert all(picture.startswith(start) and len(picture) > 1000 for picture in drawn[0])
