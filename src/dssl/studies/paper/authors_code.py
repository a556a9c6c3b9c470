"""Sections of a table that compare ours with the authors' code, by the same splits and the same probe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeVar

from dssl.studies.results_table import Cell, markdown_rows

SPREAD = 0.5  # points between two runs of the same code, about the deviation of our seeds
Cells = Mapping[tuple[str, str], Cell]  # by graph and method
_Figures = TypeVar("_Figures")


def on_public_splits(figures: Mapping[tuple[str, str], tuple[float, float]], cells: Cells) -> list[str]:
    """The lines of the section on the public splits.

    Args:
        figures: accuracy of the authors' code with its own probe and with ours, by graph and method.
        cells: ours.
    """
    rows = []
    for graph, method, (own, ours), cell in _with_ours(figures, cells):
        gap = cell.mean - ours
        printed, there = (
            ("", "") if cell.printed is None else (f"{cell.printed[0]:.1f}", f"{own - cell.printed[0]:+.1f}")
        )
        word = verdict(gap, max(cell.over_seeds, SPREAD))
        rows.append([graph, method, printed, f"{own:.1f}", there, f"{ours:.1f}", cell.text, f"{gap:+.1f}", word])
    header = ["graph", "", "published", "authors' code", "minus published", "with our probe", "ours", "gap", ""]
    note = (
        "The authors' code was run on one core with the public splits. Its vectors were evaluated by its own probe "
        "and by ours. *Minus published* is not a matter of this package: the authors' "
        "code does not reach the published number here, or exceeds it. *Gap* compares both implementations by the "
        f"same probe; up to {SPREAD:g} points, or the deviation over seeds, count as level."
    )
    return _section("Authors' code", note, header, rows)


def on_random_splits(figures: Mapping[tuple[str, str], tuple[int, float]], cells: Cells) -> list[str]:
    """The lines of the section on ten random splits.

    Args:
        figures: columns of the authors' code, and its accuracy with our probe, by graph and method.
        cells: ours.
    """
    rows = []
    for graph, method, (columns, theirs), cell in _with_ours(figures, cells):
        gap, error = cell.mean - theirs, cell.over_splits / math.sqrt(len(cell.values[0]))
        word = verdict(gap, max(math.hypot(cell.over_seeds, error), SPREAD))
        rows.append([graph, method, str(columns), f"{theirs:.1f}", cell.text, f"{gap:+.1f}", word])
    header = ["graph", "", "columns", "authors' code", "ours", "gap", ""]
    note = (
        "Ten random 60/20/20 splits, the probe of this package for both, and as many columns as the authors have. "
        "The authors' code was run once. The deviation of ours over seeds and the standard error over splits "
        "count as level."
    )
    return _section("Authors' code on random splits", note, header, rows)


def _with_ours(figures: Mapping[tuple[str, str], _Figures], cells: Cells) -> Iterator[tuple[str, str, _Figures, Cell]]:
    for (graph, method), found in figures.items():
        if (cell := cells.get((graph, method))) is not None:
            yield graph, method, found, cell


def _section(title: str, note: str, header: list[str], rows: list[list[str]]) -> list[str]:
    return ["", f"## {title}", "", note, "", *markdown_rows(header, rows)] if rows else []


def verdict(gap: float, spread: float) -> str:
    """Whether ours is level with the authors' code, above or below, in words.

    >>> verdict(-0.4, 0.5), verdict(0.6, 0.5), verdict(-0.6, 0.5)
    ('level', 'above', 'ours is below')
    """
    return "level" if abs(gap) <= spread else "above" if gap > 0 else "ours is below"
