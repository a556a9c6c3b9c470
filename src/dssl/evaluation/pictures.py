"""Pictures of a run: a map of the embedding, and the curves of the training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError, require
from dssl.rng import stream
from dssl.runtime.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours (without black), which are distinct for any colour vision, with a darker yellow.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#b8a600", "#555555")
MARKERS = ("o", "^", "s")
UNLABELLED = "#c8c8c8"
RARE = 0.1  # fraction of the labelled nodes below which a class is drawn last and larger


def embedding_map(
    points: NDArray[np.floating[Any]],
    path: str | Path,
    *,
    labels: ArrayLike | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "Map of the embedding",
    note: str = "",
) -> None:
    """Draw the nodes in the plane, coloured by class, as a PNG.

    Args:
        points: place of each node, as `dssl.evaluation.projection` finds it, shape ``(N, 2)``.
        path: where to write.
        labels: class of each node, −1 where unknown, shape ``(N,)``.
        class_names: a name for each class.
        title: text above the map.
        note: text below it.
    """
    places: NDArray[np.float64] = np.asarray(points, dtype=np.float64)
    n = len(places)
    if places.shape != (n, 2) or not n or not np.isfinite(places).all():
        raise DsslError(f"a map needs finite places in the plane of at least one node, not shape {places.shape}")
    classes = np.full(n, -1) if labels is None else np.asarray(labels)
    if classes.shape != (n,):
        raise DsslError(f"{classes.size} labels for a map of {n} nodes; give one label per node")
    figure, axes = new_figure(8.6, 6.4)
    handles = _scatter(axes, places, classes, class_names)
    axes.set_title(title, loc="left", fontsize=13)
    axes.set_xlabel(note, loc="left", fontsize=9, color="#666666")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[:].set_color("#dddddd")
    if labels is not None:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    save(figure, Path(path))


def _scatter(
    axes: Axes, points: NDArray[np.float64], classes: NDArray[np.integer[Any]], class_names: Sequence[str] | None
) -> list[Any]:
    size = float(np.clip(600 / math.sqrt(len(points)), 1, 40))
    known, counts = np.unique(classes[classes >= 0], return_counts=True)
    shown = np.sort(known[np.argsort(-counts, kind="stable")[: len(COLOURS) * len(MARKERS)]])
    rest = ~np.isin(classes, shown)
    _dots(axes, points[rest], UNLABELLED, "o", size, "")
    # Points of all classes in one random order: no class hides another because it comes later.
    order = stream(0, "drawing order").permutation(np.flatnonzero(~rest))
    # A rare class comes last and larger, since it would be invisible otherwise.
    rare = np.isin(shown, known[counts < RARE * counts.sum()])
    for part in np.array_split(order, max(1, min(20, order.size // 200))):
        for at in np.flatnonzero(~rare).tolist():
            here = part[classes[part] == shown[at]]
            _dots(axes, points[here], *look(at), size, "")
    for at in np.flatnonzero(rare).tolist():
        _dots(axes, points[classes == shown[at]], *look(at), 2 * size, "")
    handles = []
    for at, label in enumerate(shown):
        name = str(label) if class_names is None else str(class_names[label])
        handles.append(_dots(axes, points[:0], *look(at), 36, name if len(name) <= 28 else f"{name[:14]}…{name[-13:]}"))
    if rest.any():
        name = "other or no label" if known.size > shown.size else "no label"
        handles.append(_dots(axes, points[:0], UNLABELLED, "o", 36, name))
    return handles


def look(at: int) -> tuple[str, str]:
    """Colour and marker of the class, column or line at this place."""
    return COLOURS[at % len(COLOURS)], MARKERS[at // len(COLOURS) % len(MARKERS)]


def _dots(axes: Axes, points: NDArray[np.float64], colour: str, marker: str, size: float, name: str) -> Any:
    name = name.replace("$", r"\$")  # no formulas in class names
    return axes.scatter(
        points[:, 0], points[:, 1], s=size, c=colour, marker=marker, alpha=0.75, linewidths=0, label=name
    )


def new_figure(width: float, height: float, *, panels: bool = True) -> tuple[Figure, Any]:
    """A figure that belongs to no window system and to no global state."""
    require("matplotlib", extra="plots")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot() if panels else None


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format of its ending, with no date in it: the same picture is the same file."""
    from matplotlib import rc_context

    ending = path.suffix.removeprefix(".")
    with replacing(path) as temporary, rc_context({"svg.hashsalt": "dssl"}):
        notes = {"Date": None} if ending == "svg" else {"Software": None}
        figure.savefig(temporary, dpi=150, format=ending, metadata=notes)
