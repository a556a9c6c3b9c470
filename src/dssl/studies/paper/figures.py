"""The paper's figures: ``dssl reproduce figures``.

Curves over epochs and settings come from the records of stored runs, as tables do (see `dssl.studies.paper.reproduce`).
Drawings of factors come from one fitted model per graph (see `dssl.studies.paper.factor_figures`). Each figure is an
SVG with a CSV of its numbers in ``OUT/figures``; ``OUT/figures.md`` shows all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dssl.config.fields import locate, values
from dssl.config.resolve import resolve
from dssl.data.datasets import available
from dssl.studies import charts
from dssl.studies.entries import PAPER_TERMS, Entry, Results
from dssl.studies.experiments import Job
from dssl.studies.judge import kept
from dssl.studies.paper import factor_figures
from dssl.studies.paper.plans import BASES, Options, for_graph, graphs_of, quick_settings, seeds_of, splits_of
from dssl.studies.records import Record
from dssl.studies.results_table import OUTDATED, Cell, Page

GRAPHS = ("texas", "cora")
GRID = (0.2, 0.4, 0.6, 0.8, 1.0)  # the paper's, for both variances and the temperature
NOTE = (
    "`paper-terms` is the recipe with a two-layer GCN of 64 columns, `as printed` is `preset = paper`. Accuracy of "
    "the linear probe in percent; bars are the standard deviation over splits, and the values on the horizontal "
    "axis stand at equal distances. The factors are those of the default preset. The numbers are in the CSV of the "
    "same name."
)


@dataclass(frozen=True, slots=True)
class Line:
    """One setting varied, the others held: a line of a figure.

    Args:
        name: its name in the legend.
        setting: the setting that is varied.
        values: its values; that of the base configuration is added.
        base: a key of `BASES`, the configuration that it starts from.
        changes: other settings that differ from it.
    """

    name: str
    setting: str
    values: tuple[float, ...]
    base: str = PAPER_TERMS
    changes: Mapping[str, Any] = field(default_factory=dict)


CURVES: dict[str, tuple[str, tuple[Line, ...]]] = {
    "global-update": (
        "Accuracy over epochs, with and without the global update of the prototypes (Eq. 8)",
        tuple(
            Line(f"{base}, {'with' if update else 'without'} Eq. 8", "epochs", (5, 10, 20, 50, 100, 200), base, changes)
            for base in (PAPER_TERMS, "as printed")
            for update, changes in ((True, {}), (False, {"prototype_update": False}))
        ),
    ),
    "tau": (
        "Accuracy over the momentum τ of the target encoder",
        tuple(Line(base, "momentum", (0.0, 0.5, 0.9, 0.99, 0.999, 1.0), base) for base in (PAPER_TERMS, "as printed")),
    ),
    "sweeps": (
        "Accuracy over σ1², σ2², γ (with Gumbel samples) and K",
        (
            Line(PAPER_TERMS, "prototype_variance", GRID),
            Line(PAPER_TERMS, "link_variance", GRID),
            Line(PAPER_TERMS, "temperature", GRID, changes={"estimator": "gumbel"}),
            Line(PAPER_TERMS, "num_factors", (2, 4, 6, 8, 16, 32)),
        ),
    ),
}


class Point(NamedTuple):
    """One training of a curve: the figure, its line, the value of the setting, and the job."""

    figure: str
    line: Line
    value: float
    job: Job


def points(options: Options) -> list[Point]:
    """All trainings of all curves, on the graphs of this machine."""
    return [
        Point(name, line, value, job)
        for name, (_, lines) in CURVES.items()
        for graph in _graphs(options)
        for line in lines
        for value, job in line_jobs(line, graph, options)
    ]


def plan(options: Options) -> list[Entry]:
    """The entries of all curves."""
    return [Entry(point.job, point.job.graph, point.line.name) for point in points(options)]


def study_jobs(options: Options) -> list[Job]:
    """A model per graph whose factors are drawn."""
    return [factor_figures.study_job(graph, options) for graph in _graphs(options)]


def write(
    options: Options,
    out: Path,
    results: Results,
    failed: Sequence[str],
    on_record: Callable[[Job, Record], None] = lambda _job, _record: None,
    *,
    stored: bool = False,
) -> list[Path]:
    """Write all figures and the page that shows them, and return the paths.

    Args:
        options: the selection of graphs and seeds; its methods are ignored.
        out: the folder.
        results: the entries of `plan` with their records.
        failed: sentences on the jobs that failed.
        on_record: called with each model whose factors are drawn.
        stored: whether factors are drawn from their files alone, also those of earlier settings.
    """
    page = Page(out, "figures", NOTE)
    asked = graphs_of(options, GRAPHS)
    page.left_out += [f"{graph}: its files are not on this machine" for graph in asked if not available(graph)]
    page.left_out += failed
    records = {entry.job.key: record for entry, record in results}
    every = [(point, records[point.job.key]) for point in points(options) if point.job.key in records]
    for name, (title, _) in CURVES.items():
        _write_curves(page, name, title, _panels(pair for pair in every if pair[0].figure == name))
    for job in study_jobs(options):
        study, record = kept(job, out / "figures" / f"factors-{job.graph}.json", factor_figures.study, any_key=stored)
        on_record(job, record)
        if study is None:
            page.left_out.append(f"{record.row} on {record.graph}: {record.error}")
        else:
            factor_figures.write(page, job.graph, study)
    return page.write()


def _graphs(options: Options) -> list[str]:
    return [graph for graph in graphs_of(options, GRAPHS) if available(graph)]


def line_jobs(line: Line, graph: str, options: Options) -> list[tuple[float, Job]]:
    """Value and training of each point of a line.

    The base configuration is the same job in all lines, and the full model of Table 2: it is trained once.
    """
    base = {**for_graph(BASES[line.base], graph), **quick_settings(options)}
    known = values(resolve(base))
    own = known[locate(line.setting)]
    tried = sorted({*line.values, own})
    if options.quick:
        tried = [value for value in tried if value <= own] if line.setting == "epochs" else [tried[0], tried[-1]]
    found = []
    for value in tried:
        wanted = {**line.changes, line.setting: value}
        changes = {name: to for name, to in wanted.items() if to != known[locate(name)]}
        row = ", ".join([*(f"{name}={to}" for name, to in changes.items()), line.base])
        row = row if changes else f"full, {line.base}"
        found += [
            (value, Job(graph, row, {**base, **changes}, seed=seed, splits=splits_of(options)))
            for seed in seeds_of(options, 3)
        ]
    return found


Panels = dict[tuple[str, str], dict[str, dict[float, Cell]]]


def _panels(found: Iterable[tuple[Point, Record]]) -> Panels:
    """Cells by graph and setting, line, and value."""
    panels: Panels = {}
    for point, record in found:
        if values := record.views["embedding"].percent("accuracy"):
            cells = panels.setdefault((point.job.graph, point.line.setting), {}).setdefault(point.line.name, {})
            cells[point.value] = cells.get(point.value, Cell(())).plus(values, outdated=record.outdated)
    return panels


def _write_curves(page: Page, name: str, title: str, panels: Panels) -> None:
    if not panels:
        return
    page.numbers(
        name,
        ["graph", "setting", "line", "value", "mean", "std_splits", "std_seeds", "seeds", "splits"],
        (
            [graph, setting, line, f"{value:g}", *cell.figures]
            for (graph, setting), lines in panels.items()
            for line, cells in lines.items()
            for value, cell in cells.items()
        ),
    )
    points = {
        panel: {
            line: [(value, cell.mean, cell.over_splits) for value, cell in cells.items()]
            for line, cells in lines.items()
        }
        for panel, lines in panels.items()
    }
    charts.curves(title, points, page.picture(name, title))
    for (graph, setting), lines in panels.items():
        for line, cells in lines.items():
            best, worst = (pick(cells, key=lambda value: cells[value].mean) for pick in (max, min))
            page.say(
                f"{graph}, {line}: best {cells[best].text} at {setting} {best:g}, "
                f"lowest {cells[worst].text} at {worst:g}."
            )
    every = [cell for lines in panels.values() for cells in lines.values() for cell in cells.values()]
    seeds = sorted(Counter(len(cell.values) for cell in every).items(), reverse=True)
    page.say(
        "Points: " + ", ".join(f"{points} of {count} seed{'s' if count > 1 else ''}" for count, points in seeds) + "."
    )
    if any(cell.outdated for cell in every):
        page.say(OUTDATED)
