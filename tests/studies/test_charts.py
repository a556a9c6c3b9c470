"""Drawings of experiments are the same each time, and a neighbourhood is laid out by its distances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dssl.studies import charts


def test_leaves_of_a_star_surround_its_middle() -> None:
    places = charts.stress_layout(6, np.array([[0, leaf] for leaf in range(1, 6)]))
    spokes = places[1:] - places[0]
    np.testing.assert_allclose(np.linalg.norm(spokes, axis=1), np.linalg.norm(spokes[0]), rtol=0.05)
    np.testing.assert_allclose(spokes.sum(axis=0), 0, atol=0.05)


def test_a_layout_improves_on_the_circle_it_starts_from() -> None:
    draw = np.random.default_rng(0)
    links = np.array([[int(draw.integers(at)), at] for at in range(1, 20)])  # a tree

    def stress(places: np.ndarray) -> float:
        lengths = np.linalg.norm(places[links[:, 0]] - places[links[:, 1]], axis=1)
        return float(((lengths - 1) ** 2).sum())

    first, last = (charts.stress_layout(20, links, steps=steps) for steps in (0, 200))
    assert stress(last) < 0.2 * stress(first)
    np.testing.assert_array_equal(last, charts.stress_layout(20, links))


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_drawings_are_the_same_each_time(tmp_path: Path, ending: str) -> None:
    unknown = np.array([[1.0, 0.2, np.nan], [0.2, 0.5, np.nan], [np.nan] * 3])
    drawn = []
    for at in range(2):
        paths = [tmp_path / f"{name}{at}.{ending}" for name in ("curves", "maps", "blocks", "ego")]
        panels = {("texas", "epochs"): {"a": [(5.0, 60.0, 1.0), (100.0, 62.0, 2.0)], "b": [(100.0, 50.0, 0.0)]}}
        charts.curves("Curves", panels, paths[0])
        charts.heat_maps("Maps", {"true": unknown, "learnt": unknown}, paths[1], names=["a", "b_$x$", "c" * 60])
        charts.heat_maps("Blocks", {"": np.eye(30)}, paths[2], names=["a", "b"], edges=[10])
        q = np.array([[0.7, 0.3], [1.0, 0.0]])
        charts.neighbourhood("Ego", np.array([[0, 1], [0, 2]]), q, [0, 1, -1], ["a", "b"], paths[3])
        drawn.append([path.read_bytes() for path in paths])
    assert drawn[0] == drawn[1]
    start = b"<?xml" if ending == "svg" else b"\x89PNG"
    assert all(picture.startswith(start) and len(picture) > 1000 for picture in drawn[0])


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_tables_are_drawn_the_same_each_time(tmp_path: Path, ending: str) -> None:
    points = {
        ("texas", "dssl"): (61.0, 2.0, 62.1),
        ("cora", "dssl"): (85.0, 0.5, None),
        ("cora", "raw"): (70.0, 1.0, None),
    }
    drawn = []
    for at in range(2):
        table = tmp_path / f"table{at}.{ending}"
        charts.dots("Table", ["texas", "cora", "nothing"], ["dssl", "raw"], points, table)
        drawn.append(table.read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"<?xml" if ending == "svg" else b"\x89PNG")
    assert len(drawn[0]) > 1000
