"""Tables of results in Markdown and CSV: cells with their spread over splits and seeds, and the paper's numbers."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from dssl.runtime import files

OUTDATED = (
    "† measured with an earlier implementation of the method; `dssl reproduce` without `--stored` trains it again."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of one row on one graph, in percent.

    Args:
        values: by seed, the values of all splits.
        printed: the paper's mean and deviation, or none.
        outdated: whether the implementation of the method has changed since the measurement.
    """

    values: tuple[tuple[float, ...], ...]
    printed: tuple[float, float] | None = None
    outdated: bool = False

    def plus(self, values: tuple[float, ...], *, outdated: bool = False) -> Cell:
        """The cell with the values of one more seed."""
        return replace(self, values=(*self.values, values), outdated=self.outdated or outdated)

    @property
    def mean(self) -> float:
        """Mean over splits and seeds."""
        return statistics.fmean(chain(*self.values))

    @property
    def over_splits(self) -> float:
        """Standard deviation over the splits of one seed, a mean over seeds."""
        return statistics.fmean(map(deviation, self.values))

    @property
    def over_seeds(self) -> float:
        """Standard deviation of the seeds' means; 0 for one seed."""
        return deviation([statistics.fmean(seed) for seed in self.values])

    @property
    def text(self) -> str:
        """Mean and deviation over splits, and over seeds where there are several.

        >>> Cell(((80.0, 82.0), (84.0, 86.0))).text
        '83.0 ± 1.4 (seeds 2.8)'
        """
        plain = f"{self.mean:.1f}" + ("†" if self.outdated else "")
        if max(map(len, self.values)) > 1:
            plain += f" ± {self.over_splits:.1f}"
        return plain + (f" (seeds {self.over_seeds:.1f})" if len(self.values) > 1 else "")

    @property
    def figures(self) -> list[str | int]:
        """Mean, both deviations, and the numbers of seeds and splits, for a line of CSV."""
        numbers = [f"{value:.4f}" for value in (self.mean, self.over_splits, self.over_seeds)]
        return [*numbers, len(self.values), len(self.values[0])]

    @property
    def within_noise(self) -> bool | None:
        """Whether the paper's mean is nearer than both deviations together; none without one."""
        if self.printed is None:
            return None
        spread = math.hypot(self.printed[1], self.over_splits, self.over_seeds)
        return abs(self.mean - self.printed[0]) <= spread


@dataclass(frozen=True, slots=True)
class Table:
    """A table of percentages.

    Args:
        title: its first line.
        rows: names of rows, in order.
        columns: names of columns, in order.
        cells: measured values, by row and column.
        notes: sentences below the title.
        remarks: sentences below the table.
        corner: heading of the first column.
        compares_rows: whether the best of a column is bold, and not the best of a row.
        missing: text in place of a row that could not be measured.
        sections: lines of further sections.
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
    sections: Sequence[str] = ()

    def markdown(self) -> str:
        """The table, the comparison with the paper, and the remarks."""
        return self._page(self._rows(), [*self._comparison(), *self.sections])

    def _page(self, rows: list[list[str]], comparison: list[str]) -> str:
        header = [self.corner, *self.columns]
        lines = [f"# {self.title}", "", *self.notes, "", *markdown_rows(header, rows), *comparison]
        remarks = [*([OUTDATED] if any(cell.outdated for cell in self.cells.values()) else []), *self.remarks]
        if remarks:
            lines += ["", "## In words", "", *[f"- {remark}" for remark in remarks]]
        return "\n".join(lines) + "\n"

    def _rows(self) -> list[list[str]]:
        found = []
        for row in self.rows:
            shown = [
                "–" if cell is None else bold(cell.text, best=cell.mean == self._best(row, column))
                for column in self.columns
                for cell in [self.cells.get((row, column))]
            ]
            if row in self.missing:
                shown = [self.missing[row], *[""] * (len(self.columns) - 1)]
            found.append([row, *shown])
        return found

    def _comparison(self) -> list[str]:
        rows = []
        for key, cell in self.cells.items():
            if cell.printed is not None:
                there = f"{cell.printed[0]:.2f}" + (f" ± {cell.printed[1]:.2f}" if cell.printed[1] else "")
                differs = cell.mean - cell.printed[0]
                word = "within the noise" if cell.within_noise else "above" if differs > 0 else "below"
                rows.append([*key, there, cell.text, f"{differs:+.1f}", word])
        if not rows:
            return []
        header = [self.corner, "", "paper", "ours", "difference", ""]
        return ["", "## Compared with the paper", "", *markdown_rows(header, rows)]

    def _best(self, row: str, column: str) -> float:
        """The largest mean of the row, or of the column where rows are compared."""
        return max(
            cell.mean
            for key, cell in self.cells.items()
            if key[self.compares_rows] == (row, column)[self.compares_rows]
        )

    def csv(self) -> str:
        """A line per cell."""
        header = [self.corner, "column", "mean", "std_splits", "std_seeds", "seeds", "splits", "paper", "paper_std"]
        cells = self.cells.items()
        return csv_text(header, ([*key, *cell.figures, *(cell.printed or ("", ""))] for key, cell in cells))


class PlainTable(Table):
    """A table of counts and fractions, not of percentages."""

    def markdown(self) -> str:
        """The figures with the paper's in brackets where they differ."""
        rows = [[row, *(_figure(self.cells.get((row, column))) for column in self.columns)] for row in self.rows]
        return self._page(rows, [])


def markdown_rows(header: Sequence[str], rows: Iterable[Sequence[str]], *, align: str = "l") -> list[str]:
    """A Markdown table, line by line.

    Args:
        header: names of the columns.
        rows: texts of the cells.
        align: ``l`` or ``r`` for each column; the last one also for the columns after it.

    >>> markdown_rows(["graph", ""], [["texas", "81.0"]], align="lr")
    ['| graph | |', '| --- | --: |', '| texas | 81.0 |']
    """
    sides = align.ljust(len(header), align[-1])
    marks = ["--:" if side == "r" else "---" for side in sides]
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, marks, *rows)]
    return [lines[0].replace("|  |", "| |"), *lines[1:]]


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def bold(text: str, *, best: bool) -> str:
    """The text, in bold if it is the best."""
    return f"**{text}**" if best else text


@dataclass(slots=True)
class Page:
    """A page of pictures, with the numbers of each in a CSV file.

    Args:
        out: the folder of the page; the files go to ``out/name``.
        name: of the page.
        note: sentences below the title.
        left_out: parts that are missing, each with its reason.
    """

    out: Path
    name: str
    note: str
    left_out: list[str] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def numbers(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write a CSV."""
        self.written.append(self.out / self.name / f"{name}.csv")
        files.write_text(self.written[-1], csv_text(header, rows))

    def picture(self, name: str, title: str) -> Path:
        """Put a picture on the page, and return the path to draw it to."""
        self.lines += ["", f"## {title}", "", f"![{title}]({self.name}/{name}.svg)", ""]
        self.written.append(self.out / self.name / f"{name}.svg")
        return self.written[-1]

    def say(self, words: str) -> None:
        """Put a sentence below the picture."""
        self.lines.append(f"- {words}")

    def write(self) -> list[Path]:
        """Write the page, and return the paths of all files."""
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


def mean_and_range(values: Sequence[float]) -> str:
    """Mean of some values with their range, if that is visible; a dash without values.

    >>> mean_and_range([0.5, 0.6]), mean_and_range([0.5]), mean_and_range([])
    ('0.55 (0.50 to 0.60)', '0.50', '–')
    """
    if not values:
        return "–"
    low, high, text = min(values), max(values), f"{statistics.fmean(values):.2f}"
    return text if high - low < 5e-3 else f"{text} ({low:.2f} to {high:.2f})"


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 for one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
