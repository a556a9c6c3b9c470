"""Charts of studies: tables as dots, curves, trade-offs, heat maps, bars, and a neighbourhood with its factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.evaluation.pictures import COLOURS, UNLABELLED, look, new_figure, save

Points = Sequence[tuple[float, float, float]]  # value of the setting, mean, deviation
MAX_CELLS = 10  # classes up to which a heat map has its numbers written in


def dots(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    points: Mapping[tuple[str, str], tuple[float, float, float | None]],
    path: str | Path,
) -> None:
    """Draw a table as a row of dots per graph: ours with its deviation, the paper's as a hollow diamond.

    Args:
        title: above the picture.
        rows: names of the rows, drawn from top to bottom.
        columns: names of the columns, each a colour.
        points: mean, deviation and the paper's mean (or none) by row and column.
        path: where to write it, as SVG or PNG by its ending.
    """
    shown = [row for row in rows if any((row, column) in points for column in columns)]
    figure, axes = new_figure(8, 1.5 + 0.42 * len(shown))
    for at, column in enumerate(columns):
        colour, marker = look(at)
        here = [(place, points[row, column]) for place, row in enumerate(shown) if (row, column) in points]
        offset = 0.6 * (at / max(len(columns) - 1, 1) - 0.5)
        places = [place + offset for place, _ in here]
        axes.errorbar(
            [point[0] for _, point in here],
            places,
            xerr=[point[1] for _, point in here],
            fmt=marker,
            color=colour,
            markersize=4,
            linewidth=0.8,
            label=column,
        )
        printed = [(point[2], place) for place, (_, point) in zip(places, here, strict=True) if point[2] is not None]
        if printed:
            axes.plot(
                *zip(*printed, strict=True), linestyle="", marker="D", markersize=6, fillstyle="none", color=colour
            )
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.3)
    axes.set_title(f"{title}\n(hollow: as printed in the paper)", fontsize=9)
    axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, Path(path))


def trade_off(
    points: Mapping[str, tuple[float, float, float]],
    path: str | Path,
    *,
    title: str,
    measure: str,
    hollow: Sequence[str] = (),
) -> None:
    """Draw methods as named dots: the mean of a measure over the training time.

    Args:
        points: seconds, mean and deviation by name.
        path: where to write it, as SVG or PNG by its ending.
        title: above the picture.
        measure: the name of the measure.
        hollow: names of training-free methods.
    """
    figure, axes = new_figure(8, 4.5)
    for name, (seconds, mean, spread) in points.items():
        colour = look(0 if name in hollow else 1)[0]
        fill = "none" if name in hollow else "full"
        axes.errorbar(
            max(seconds, 0.01), mean, yerr=spread, fmt="o", color=colour, markersize=5, fillstyle=fill, linewidth=0.6
        )
        axes.annotate(
            name, (max(seconds, 0.01), mean), xytext=(5, 3), textcoords="offset points", fontsize=7, color=colour
        )
    axes.set_xscale("log")
    axes.set_xlabel("seconds of training (hollow: training-free)", fontsize=8)
    axes.set_ylabel(measure, fontsize=8)
    axes.grid(linewidth=0.3)
    axes.set_title(title, fontsize=9)
    save(figure, Path(path))


def curves(title: str, panels: Mapping[tuple[str, str], Mapping[str, Points]], path: str | Path) -> None:
    """Draw a measure over the values of a setting, in a panel for each graph and setting.

    The values stand at equal distances, since they are neither evenly nor logarithmically spaced.

    Args:
        title: above the picture.
        panels: by graph and setting, the points of each line by its name.
        path: where to write it, as SVG or PNG by its ending.
    """
    settings = list(dict.fromkeys(setting for _, setting in panels))
    columns = len(settings) if len(settings) > 1 else min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure, _ = new_figure(0.6 + 2.9 * columns, 0.6 + 2.4 * rows, panels=False)
    for at, ((graph, setting), lines) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, at + 1)
        ticks = sorted({point[0] for points in lines.values() for point in points})
        for number, (name, points) in enumerate(lines.items()):
            colour, marker = look(number)
            x = [ticks.index(value) for value, _, _ in points]
            means, spread = [mean for _, mean, _ in points], [deviation for _, _, deviation in points]
            axes.errorbar(x, means, yerr=spread, color=colour, marker=marker, ms=4, lw=1.2, elinewidth=0.6, label=name)
        axes.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        axes.set_title(graph, loc="left", fontsize=9)
        axes.set_xlabel(setting.replace("_", " "), fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(linewidth=0.3)
        if not at % columns:
            axes.set_ylabel("accuracy, %", fontsize=8)
        if not at and len(lines) > 1:
            axes.legend(fontsize=6)
    figure.suptitle(title, fontsize=10)
    save(figure, Path(path))


def heat_maps(
    title: str,
    maps: Mapping[str, NDArray[np.float64]],
    path: str | Path,
    *,
    names: Sequence[str] = (),
    edges: Sequence[int] = (),
) -> None:
    """Draw square matrices side by side, each with a separate scale; unknown cells stay white.

    Args:
        title: above the picture.
        maps: matrices by their titles, each of shape ``(n, n)``.
        path: where to write it, as SVG or PNG by its ending.
        names: of rows and columns, or of the blocks between ``edges``.
        edges: places where a block of rows and columns begins, from the second block on.
    """
    figure, _ = new_figure(0.4 + 4.2 * len(maps), 4.2, panels=False)
    for at, (words, matrix) in enumerate(maps.items()):
        axes = figure.add_subplot(1, len(maps), at + 1)
        image = axes.imshow(matrix, cmap="viridis", interpolation="nearest")
        figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=7)
        bounds = np.array([0, *edges, len(matrix)])
        places = (bounds[1:] + bounds[:-1] - 1) / 2 if len(edges) else np.arange(len(matrix))
        shown = [_short(name) for name in names] or [""] * len(places)
        axes.set_xticks(places, shown, rotation=60, ha="right", fontsize=6)
        axes.set_yticks(places, shown, fontsize=6)
        for edge in edges:
            axes.axhline(edge - 0.5, color="white", lw=0.6)
            axes.axvline(edge - 0.5, color="white", lw=0.6)
        if len(matrix) <= MAX_CELLS:
            middle = (np.nanmin(matrix) + np.nanmax(matrix)) / 2 if np.isfinite(matrix).any() else 0.0
            for (i, j), value in np.ndenumerate(matrix):
                if np.isfinite(value):
                    colour = "black" if value > middle else "white"
                    axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)
        axes.set_title(words, fontsize=8)
    figure.suptitle(title, fontsize=10)
    save(figure, Path(path))


def stacked(
    title: str, rows: Sequence[str], columns: Sequence[str], counts: NDArray[np.int64], path: str | Path
) -> None:
    """Draw a bar per row, made of the counts of its columns.

    Args:
        title: above the picture.
        rows: names of the bars, the first at the top.
        columns: names of the parts.
        counts: shape ``(rows, columns)``.
        path: where to write it, as SVG or PNG by its ending.
    """
    figure, axes = new_figure(8.6, 1.2 + 0.32 * len(rows))
    places = np.arange(len(rows))[::-1]
    left = np.zeros(len(rows))
    for at, name in enumerate(columns):
        axes.barh(places, counts[:, at], left=left, color=COLOURS[at % len(COLOURS)], label=_short(name))
        left = left + counts[:, at]
    axes.set_yticks(places, [_short(name, 44) for name in rows], fontsize=8)
    axes.set_xlabel("links", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle(title, fontsize=10)
    save(figure, Path(path))


def neighbourhood(
    title: str,
    links: NDArray[np.int64],
    q: NDArray[np.float64],
    labels: Sequence[int],
    class_names: Sequence[str],
    path: str | Path,
) -> None:
    """Draw a small connected graph around node 0, with classes as colours and a pie of the factors on each link.

    Args:
        title: above the picture.
        links: the two ends of each link, shape ``(L, 2)``.
        q: how probable each factor is on each link, shape ``(L, K)``.
        labels: class of each node, −1 where unknown.
        class_names: a name for each class.
        path: where to write it, as SVG or PNG by its ending.
    """
    from matplotlib import colormaps
    from matplotlib.patches import Wedge

    places = stress_layout(len(labels), links)
    colours = colormaps["hsv"](np.linspace(0, 1, q.shape[1], endpoint=False))
    figure, axes = new_figure(8.4, 6.4)
    for (i, j), shares in zip(links, q, strict=True):
        axes.plot(*places[[i, j]].T, color="#999999", lw=0.8, zorder=1)
        turns = 90 - 360 * np.concatenate([[0], np.cumsum(shares / shares.sum())])
        for k, (start, end) in enumerate(pairwise(turns)):
            if start > end:
                middle = (float(places[[i, j], 0].mean()), float(places[[i, j], 1].mean()))
                axes.add_patch(Wedge(middle, 0.09, end, start, facecolor=colours[k], linewidth=0, zorder=2))
    for label in sorted(set(labels)):
        here = places[[at for at, known in enumerate(labels) if known == label]]
        colour, marker = look(label) if label >= 0 else (UNLABELLED, "o")
        name = _short(class_names[label]) if label >= 0 else "no label"
        axes.scatter(*here.T, s=150, c=colour, marker=marker, edgecolors="white", zorder=3, label=name)
    axes.scatter(*places[:1].T, s=260, facecolors="none", edgecolors="black", linewidths=1.5, zorder=4)
    first = axes.legend(title="class", loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
    axes.add_artist(first)
    handles: list[Any] = [Wedge((0, 0), 1, 0, 360, facecolor=colour, label=str(k)) for k, colour in enumerate(colours)]
    axes.legend(
        handles=handles, title="factor", loc="lower left", bbox_to_anchor=(1.01, 0), frameon=False, fontsize=8, ncols=2
    )
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title(title, loc="left", fontsize=10)
    save(figure, Path(path))


def stress_layout(count: int, links: NDArray[np.int64], *, steps: int = 200) -> NDArray[np.float64]:
    """Places in the plane whose distances are near the numbers of links between the nodes.

    Majorisation of the stress Σ (|x_i − x_j| − d_ij)² / d_ij², from a circle; deterministic.

    Args:
        count: number of nodes; all must be reachable from each other.
        links: the two ends of each link, shape ``(L, 2)``.
        steps: how often all places are improved.

    Returns:
        Places, shape ``(count, 2)``.

    >>> path = stress_layout(3, np.array([[0, 1], [1, 2]]))
    >>> np.linalg.norm(path[[0, 1, 0]] - path[[1, 2, 2]], axis=1).round(1).tolist()
    [1.0, 1.0, 2.0]
    """
    from scipy import sparse
    from scipy.sparse.csgraph import shortest_path

    ones = np.ones(len(links))
    adjacency = sparse.csr_array((ones, (links[:, 0], links[:, 1])), shape=(count, count))
    wanted = shortest_path(adjacency, directed=False, unweighted=True)
    np.fill_diagonal(wanted, 1)
    weights = wanted**-2.0
    np.fill_diagonal(weights, 0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    angles = 2 * np.pi * np.arange(count) / count
    places = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for _ in range(steps):
        distances = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = -weights * wanted / np.maximum(distances, 1e-9)
        np.fill_diagonal(ratio, 0)
        np.fill_diagonal(ratio, -ratio.sum(axis=1))
        places = inverse @ ratio @ places
    return places


def _short(name: str, most: int = 20) -> str:
    """A name that fits next to a picture, without formulas."""
    name = str(name)
    return (name if len(name) <= most else name[: most - 1] + "…").replace("$", r"\$")
