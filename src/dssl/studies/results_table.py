"""What a table of results is made of, and how it is written: the paper's number beside ours, with its spread."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dssl.runtime import files


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of one row on one graph, in percent.

    Args:
        values: by seed, the values of all splits.
        printed: the paper's mean and deviation, or none.
    """

    values: tuple[tuple[float, ...], ...]
    printed: tuple[float, float] | None = None

    @property
    def mean(self) -> float:
        """Mean over splits and seeds."""
        flat = [value for seed in self.values for value in seed]
        return math.fsum(flat) / len(flat)

    @property
    def over_splits(self) -> float:
        """Standard deviation over the splits of one seed, a mean over seeds."""
        return math.fsum(deviation(seed) for seed in self.values) / len(self.values)

    @property
    def over_seeds(self) -> float:
        """Standard deviation of the seeds' means; 0 for one seed."""
        return deviation([math.fsum(seed) / len(seed) for seed in self.values])

    @property
    def text(self) -> str:
        """Mean and deviation over splits, and over seeds where there are several.

        >>> Cell(((80.0, 82.0), (84.0, 86.0))).text
        '83.0 ± 1.4 (seeds 2.8)'
        """
        plain = f"{self.mean:.1f}"
        if max(map(len, self.values)) > 1:
            plain += f" ± {self.over_splits:.1f}"
        return plain + (f" (seeds {self.over_seeds:.1f})" if len(self.values) > 1 else "")

    @property
    def within_noise(self) -> bool | None:
        """Whether the paper's mean is nearer than both deviations together; none without one."""
        if self.printed is None:
            return None
        spread = math.hypot(self.printed[1], self.over_splits, self.over_seeds)
        return abs(self.mean - self.printed[0]) <= spread


@dataclass(frozen=True, slots=True)
class Table:
    """What is written.

    Args:
        title: its first line.
        rows: names of rows, in order.
        columns: names of columns, in order.
        cells: what was measured, by row and column.
        notes: sentences below the title.
        remarks: sentences below the table.
        corner: what the rows are.
        compares_rows: whether the best of a column is bold, and not the best of a row.
        missing: what stands in place of a row that could not be measured.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]
    notes: Sequence[str] = ()
    remarks: Sequence[str] = ()
    corner: str = "graph"
    compares_rows: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)

    def markdown(self) -> str:
        """The table, the comparison with the paper, and the remarks."""
        lines = [f"# {self.title}", "", *self.notes, "", f"| {self.corner} | " + " | ".join(self.columns) + " |"]
        lines.append("| --- " * (1 + len(self.columns)) + "|")
        for row in self.rows:
            found = [self.cells.get((row, column)) for column in self.columns]
            shown = [
                "–" if cell is None else _bold(cell.text, cell.mean == self._best(row, column))
                for column, cell in zip(self.columns, found, strict=True)
            ]
            if row in self.missing:
                shown = [self.missing[row], *[""] * (len(self.columns) - 1)]
            lines.append(f"| {row} | " + " | ".join(shown) + " |")
        compared = [(key, cell) for key, cell in self.cells.items() if cell.printed is not None]
        if compared:
            lines += ["", "## Beside the paper", "", f"| {self.corner} | | paper | ours | difference | |"]
            lines.append("| --- " * 6 + "|")
            for (row, column), cell in compared:
                assert cell.printed is not None
                there = f"{cell.printed[0]:.2f}" + (f" ± {cell.printed[1]:.2f}" if cell.printed[1] else "")
                differs = cell.mean - cell.printed[0]
                word = "within the noise" if cell.within_noise else "above" if differs > 0 else "below"
                lines.append(f"| {row} | {column} | {there} | {cell.text} | {differs:+.1f} | {word} |")
        if self.remarks:
            lines += ["", "## In words", "", *[f"- {remark}" for remark in self.remarks]]
        return "\n".join(lines) + "\n"

    def _best(self, row: str, column: str) -> float:
        """The largest mean of the row, or of the column where rows are what is compared."""
        return max(
            cell.mean
            for key, cell in self.cells.items()
            if key[self.compares_rows] == (row, column)[self.compares_rows]
        )

    def csv(self) -> str:
        """A line per cell."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [self.corner, "column", "mean", "std_splits", "std_seeds", "seeds", "splits", "paper", "paper_std"]
        )
        for (row, column), cell in self.cells.items():
            numbers = [f"{value:.4f}" for value in (cell.mean, cell.over_splits, cell.over_seeds)]
            printed = ["", ""] if cell.printed is None else list(cell.printed)
            writer.writerow([row, column, *numbers, len(cell.values), len(cell.values[0]), *printed])
        return out.getvalue()


class Figures(Table):
    """A table of plain figures: counts and shares, not percentages."""

    def markdown(self) -> str:
        """The figures with the paper's in brackets where they differ."""
        lines = [f"# {self.title}", "", *self.notes, "", f"| {self.corner} | " + " | ".join(self.columns) + " |"]
        lines.append("| --- " * (1 + len(self.columns)) + "|")
        for row in self.rows:
            shown = [_figure(self.cells.get((row, column))) for column in self.columns]
            lines.append(f"| {row} | " + " | ".join(shown) + " |")
        if self.remarks:
            lines += ["", "## In words", "", *[f"- {remark}" for remark in self.remarks]]
        return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Page:
    """A page of pictures, with the numbers of each in a file beside it.

    Args:
        out: the folder of the page; the files go to ``out/name``.
        name: of the page.
        note: sentences below the title.
        left_out: what is not on it, and why.
    """

    out: Path
    name: str
    note: str
    left_out: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def numbers(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write a CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        self.written.append(self.out / self.name / f"{name}.csv")
        files.write_text(self.written[-1], text.getvalue())

    def picture(self, name: str, title: str) -> Path:
        """Put a picture on the page, and say where it is to be drawn."""
        self.lines += ["", f"## {title}", "", f"![{title}]({self.name}/{name}.svg)", ""]
        self.written.append(self.out / self.name / f"{name}.svg")
        return self.written[-1]

    def say(self, words: str) -> None:
        """Put a sentence below the picture."""
        self.lines.append(f"- {words}")

    def write(self) -> list[Path]:
        """Write the page, and return all that was written."""
        last = ["", "## Left out", "", *(f"- {words}" for words in dict.fromkeys(self.left_out))]
        lines = [f"# {self.name.capitalize()}", "", self.note, *self.lines, *(last if self.left_out else [])]
        files.write_text(self.out / f"{self.name}.md", "\n".join(lines) + "\n")
        return [*self.written, self.out / f"{self.name}.md"]


def _figure(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    ours = f"{cell.mean:,.0f}" if cell.mean >= 2 else f"{cell.mean:.3f}"
    if cell.printed is None or abs(cell.printed[0] - cell.mean) < (0.5 if cell.mean >= 2 else 0.006):
        return ours
    return f"{ours} (paper {cell.printed[0]:,g})"


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 for one value."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _bold(text: str, best: bool) -> str:
    return f"**{text}**" if best else text
