"""Cells keep splits and seeds apart, and tables say what is within the noise."""

from __future__ import annotations

import csv
import io
import statistics

import pytest

from dssl.studies.results_table import Cell, PlainTable, Table


def test_the_spread_over_splits_and_over_seeds_are_kept_apart() -> None:
    cell = Cell(((70.0, 74.0, 72.0), (80.0, 86.0, 83.0)))
    assert cell.mean == statistics.fmean([70, 74, 72, 80, 86, 83])
    assert cell.over_splits == pytest.approx((statistics.stdev([70, 74, 72]) + statistics.stdev([80, 86, 83])) / 2)
    assert cell.over_seeds == pytest.approx(statistics.stdev([72, 83]))
    assert cell.text == f"77.5 ± {cell.over_splits:.1f} (seeds {cell.over_seeds:.1f})"


@pytest.mark.parametrize(("printed", "within"), [((81.0, 1.0), True), ((90.0, 1.0), False), (None, None)])
def test_noise_is_both_deviations_together(printed: tuple[float, float] | None, within: bool | None) -> None:
    assert Cell(((79.0, 81.0),), printed).within_noise is within


def table() -> Table:
    cells = {
        ("texas", "raw"): Cell(((80.0, 82.0),)),
        ("texas", "dssl"): Cell(((60.0, 62.0),), (62.11, 1.53)),
    }
    return Table("T", ["texas", "penn94"], ["raw", "dssl"], cells, ["note"], ["remark"], missing={"penn94": "not here"})


def test_markdown_has_the_best_in_bold_the_paper_beside_and_says_what_is_missing() -> None:
    lines = table().markdown().splitlines()
    assert lines[0] == "# T"
    assert "| texas | **81.0 ± 1.4** | 61.0 ± 1.4 |" in lines
    assert "| penn94 | not here |  |" in lines
    assert "| texas | dssl | 62.11 ± 1.53 | 61.0 ± 1.4 | -1.1 | within the noise |" in lines
    assert "- remark" in lines
    widths = {line.count("|") for line in lines if line.startswith(("| texas | *", "| penn94", "| graph | raw"))}
    assert widths == {4}


def test_csv_has_a_line_per_cell_that_reads_back() -> None:
    rows = list(csv.DictReader(io.StringIO(table().csv())))
    assert [(row["graph"], row["column"]) for row in rows] == [("texas", "raw"), ("texas", "dssl")]
    assert float(rows[1]["mean"]) == 61 and float(rows[1]["paper"]) == 62.11 and rows[0]["paper"] == ""


def test_figures_are_not_percentages() -> None:
    cells = {
        ("g", "nodes"): Cell(((2708.0,),), (2708.0, 0.0)),
        ("g", "features"): Cell(((1703.0,),), (1793.0, 0.0)),
        ("g", "h"): Cell(((0.8099,),), (0.81, 0.0)),
    }
    text = PlainTable("F", ["g"], ["nodes", "features", "h", "none"], cells).markdown()
    assert "| g | 2,708 | 1,703 (paper 1,793) | 0.810 | – |" in text


def test_where_rows_are_compared_the_best_of_a_column_is_bold() -> None:
    cells = {(row, column): Cell(((value,),)) for row, column, value in [("a", "x", 1), ("b", "x", 2), ("a", "y", 5)]}
    lines = Table("T", ["a", "b"], ["x", "y"], cells, compares_rows=True).markdown().splitlines()
    assert "| a | 1.0 | **5.0** |" in lines
    assert "| b | **2.0** | – |" in lines
