"""Reproduce the paper's tables and figures from stored runs: ``dssl reproduce table1``.

A study is a plan (entries: jobs with their place in a table) and a function that writes its results. Records are in
``OUT/runs``, shared by all studies, so that a training is done once. A table is ``OUT/NAME.md``, ``OUT/NAME.csv`` and a
picture; the paper's number stands next to ours where it has one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from dssl.data.catalogue import DATASETS
from dssl.data.datasets import available
from dssl.errors import ConfigError, RunError, nearest, require
from dssl.runtime import files
from dssl.studies import charts, experiments, regret
from dssl.studies.entries import Entry, Results
from dssl.studies.experiments import Job
from dssl.studies.paper import figures, kinds, plans, tables
from dssl.studies.paper.plans import Options
from dssl.studies.records import Record, records

QUICK_NOTE = (
    "**Made with `--quick`**: ten epochs, three splits, one seed, small graphs. It shows that everything works; the "
    "numbers mean nothing, including the remarks below."
)
OnRecord = Callable[[Job, Record], None]


@dataclass(frozen=True, slots=True)
class Made:
    """The results of a plan.

    Args:
        name: of the study.
        options: the selection.
        out: folder to write to.
        planned: all entries.
        results: entries with their records, those that failed left out.
        records: every record once.
        failed: sentences on the jobs that failed.
        on_record: called with each further model that is fitted.
        stored: whether stored records alone are taken.
    """

    name: str
    options: Options
    out: Path
    planned: Sequence[Entry]
    results: Results
    records: Sequence[Record]
    failed: Sequence[str]
    on_record: OnRecord
    stored: bool = False

    def of(self, results: Results) -> Made:
        """The same with fewer results."""
        return replace(self, results=results, records=list({record.key: record for _, record in results}.values()))

    def write(self, page: str, csv: str) -> list[Path]:
        """Write a table as Markdown and CSV."""
        written = [self.out / f"{self.name}.md", self.out / f"{self.name}.csv"]
        for path, text in zip(written, (page, csv), strict=True):
            files.write_text(path, text)
        return written


@dataclass(frozen=True, slots=True)
class Study:
    """A table, or a page of figures.

    Args:
        plan: the entries for a selection; none without trainings in ``OUT/runs``.
        write: writes the results, and returns the paths.
        fits: jobs of models that `write` fits itself, to draw them.
        stored_seeds: seeds of a cell, at most, where stored records alone are taken; 0 for the usual number.
    """

    plan: Callable[[Options], list[Entry]] | None
    write: Callable[[Made], list[Path]]
    fits: Callable[[Options], Sequence[Job]] = lambda _: ()
    stored_seeds: int = 0


def reproduce(
    name: str,
    options: Options,
    out: Path,
    *,
    workers: int = 0,
    stored: bool = False,
    on_plan: Callable[[int], None] = lambda _: None,
    on_record: OnRecord = lambda _job, _record: None,
) -> list[Path]:
    """Reproduce a table or the figures, and return the paths of the files.

    Args:
        name: a key of `STUDIES`.
        options: the selection of graphs, methods and seeds.
        out: the folder; records go to ``out/runs``.
        workers: processes; 0 takes one per core.
        stored: train nothing, and leave out jobs without a record.
        on_plan: called with the number of jobs.
        on_record: called with each job and its record.
    """
    if name not in STUDIES:
        raise ConfigError(f"unknown table {name!r}{nearest(name, STUDIES) or '; use ' + ', '.join(STUDIES)}")
    require("matplotlib", extra="plots")
    study = STUDIES[name]
    if stored and options.seeds is None and study.stored_seeds:
        options = replace(options, seeds=study.stored_seeds)
    entries = study.plan(options) if study.plan else []
    if not entries and study.plan:
        raise ConfigError(
            f"{name} has none of the methods, or none of the graphs that are here, among the requested ones; "
            "docs/reproduce.md lists the content of each table"
        )
    jobs = experiments.jobs_by_key(entry.job for entry in entries)
    on_plan(len(jobs) + len(study.fits(options)))
    done = experiments.run(list(jobs.values()), out / "runs", workers=workers, stored=stored, on_record=on_record)
    records = dict(zip(jobs, done, strict=True))
    failed = [f"{record.row} on {record.graph}: {record.error}" for record in done if record.error]
    if done and len(failed) == len(done):
        raise RunError(f"{name}: every training failed; {failed[0]}")
    results = [(entry, records[entry.job.key]) for entry in entries if not records[entry.job.key].error]
    if stored:  # a table of stored records has fewer cells
        failed, done = [], [record for record in done if not record.error]
    return study.write(Made(name, options, out, entries, results, done, failed, on_record, stored))


def write_table(build: tables.Build, made: Made) -> list[Path]:
    """Write a table as Markdown and CSV, and draw it if it has values."""
    if made.stored:
        made = made.of(current(made.results))
    table = build(made.options, made.results)
    notes = [QUICK_NOTE, "", *table.notes] if made.options.quick and made.records else table.notes
    coverage = _coverage(made) if made.records and not made.options.quick else []
    notes = [*notes, "", f"Written by `dssl reproduce {made.name}`."]
    table = replace(table, notes=notes, remarks=[*table.remarks, *made.failed, *coverage, *_time(made.records)])
    written = made.write(table.markdown(), table.csv())
    if table.cells:
        points = {
            key: (cell.mean, cell.over_splits, None if cell.printed is None else cell.printed[0])
            for key, cell in table.cells.items()
        }
        written.append(made.out / f"{made.name}.svg")
        charts.dots(table.title, table.rows, table.columns, points, written[-1])
    return written


def plan_regret(options: Options) -> list[Entry]:
    """The entries of the table of regret."""
    for budget in options.budgets:
        if budget not in regret.MEASURES:
            raise ConfigError(f"unknown budget {budget!r}; use {', '.join(regret.MEASURES)}")
    wanted = list(options.datasets) or plans.graphs_of(options, regret.graphs())
    return regret.plan(wanted, options.rows, seeds=options.seeds, quick=options.quick)


def write_regret(made: Made) -> list[Path]:
    """Write the table of regret as Markdown and CSV."""
    own = {entry.column for entry, _ in made.results if entry.row.startswith("dssl")} if made.stored else set()
    if own:  # a graph without the default would change the best row, and the graphs that rows are compared on
        made = made.of([(entry, record) for entry, record in made.results if entry.column in own])
    scores = regret.Scores.of(made.results)
    trained = sum(not record.baseline for record in made.records)
    notes = [
        "Mean / largest number of points behind the best row, over graphs. Linear probe (strength and scaling by "
        "validation), random splits with the given training labels and 20% validation; links are ranked by a logistic "
        f"regression on pairs against degree-matched negatives (the mean of {regret.DRAWS} draws of held-out links on "
        f"graphs with fewer than {regret.FEW_LINKS:,} links), clusters by k-means. Records: `runs/`; every value, with "
        "its number of trainings: `regret.csv`. Written by `dssl reproduce regret`.",
        "",
        f"{len(made.records)} records, {trained} of them trainings.",
    ]
    notes = [QUICK_NOTE, "", *notes] if made.options.quick else notes
    absent = [] if made.options.datasets else [name for name in DATASETS if not available(name)]
    here = [f"Left out, since their files are not on this machine: {', '.join(absent)}."] if absent else []
    remarks = [*dict.fromkeys(made.failed), *here, *_time(made.records), *_left(made)]
    page = regret.markdown(scores, notes=notes, remarks=remarks, measures=made.options.budgets)
    return made.write(page, regret.csv(scores))


def current(results: Results) -> list[tuple[Entry, Record]]:
    """Leave out records of an earlier implementation in cells that have one of today's."""
    fresh = {(entry.row, entry.column) for entry, record in results if not record.outdated}
    return [
        (entry, record) for entry, record in results if not record.outdated or (entry.row, entry.column) not in fresh
    ]


def _coverage(made: Made) -> list[str]:
    """Sentences on the number of seeds of the cells, and on the cells without a training."""
    seeds = Counter((entry.row, entry.column) for entry, record in made.results if not record.baseline)
    cells = dict.fromkeys((entry.row, entry.column) for entry in made.planned if not entry.job.baseline)
    sentences = []
    if seeds:
        counts = sorted(Counter(seeds.values()).items(), reverse=True)
        number = ", ".join(f"{cells} with {count} seed{'' if count == 1 else 's'}" for count, cells in counts)
        old = len({(entry.row, entry.column) for entry, record in made.results if record.outdated})
        sentences.append(
            f"Cells of trainings: {number}{f'; {old} of them by an earlier implementation' if old else ''}."
        )
    absent: dict[str, list[str]] = {}
    for row, column in cells:
        if (row, column) not in seeds:
            absent.setdefault(row, []).append(column)
    if absent:
        alike: dict[str, list[str]] = {}
        for row, columns in absent.items():
            alike.setdefault(", ".join(f"`{column}`" for column in columns), []).append(row)
        where = "; ".join(f"{columns} on {', '.join(rows)}" for columns, rows in alike.items())
        sentences.append(
            f"Not trained, for want of time ({sum(map(len, absent.values()))} of {len(cells)} cells): {where}. "
            f"`dssl reproduce {made.name}` without `--stored` trains them."
        )
        jobs = {(entry.row, entry.column): (entry.job.graph, entry.job.row) for entry in made.planned}
        missing = [jobs[row, column] for row, columns in absent.items() for column in columns]
        seconds = expected_seconds(records(made.out / "runs"), missing)
        if seconds:
            sentences.append(
                f"They would take about {_duration(seconds)} with one seed, by the times of all stored trainings of "
                "their methods and on their graphs."
            )
    return sentences


def _left(made: Made) -> list[str]:
    """A sentence on the planned trainings without a record, and the time that they would take."""
    done = {record.key for record in made.records}
    jobs = [job for job in experiments.jobs_by_key(e.job for e in made.planned).values() if not job.baseline]
    missing = [(job.graph, job.row) for job in jobs if job.key not in done]
    if not missing:
        return []
    seconds = expected_seconds(made.records, missing) or expected_seconds(records(made.out / "runs"), missing)
    time = f"; they would take about {_duration(seconds)} one after the other, by the times of the stored ones"
    return [f"{len(missing):,} of the table's {len(jobs):,} trainings have no record{time if seconds else ''}."]


def expected_seconds(known: Sequence[Record], cells: Sequence[tuple[str, str]]) -> float:
    """Seconds that cells, a graph and a row each, are expected to take, from records of others.

    Log seconds are the sum of a graph's and a row's part, by least squares.
    """
    known = [record for record in known if record.seconds > 0 and not record.baseline and not record.hide_links]
    if not known:
        return 0.0
    pairs = [(record.graph, record.row) for record in known]
    names = {name: at for at, name in enumerate(dict.fromkeys(part for pair in pairs for part in enumerate(pair)))}
    design = np.zeros((len(pairs), len(names)))
    for at, pair in enumerate(pairs):
        design[at, [names[part] for part in enumerate(pair)]] = 1
    logs = np.log([record.seconds for record in known])
    parts = np.linalg.lstsq(design, logs - logs.mean(), rcond=None)[0]
    return float(
        sum(
            np.exp(logs.mean() + sum(parts[names[part]] for part in enumerate(cell) if part in names)) for cell in cells
        )
    )


def _time(records: Sequence[Record]) -> list[str]:
    """A sentence on the time of all records of a table."""
    seconds = sum(record.seconds for record in records)
    if not seconds:
        return []
    time = _duration(seconds)
    return [f"The {len(records)} records of this table took {time} one after the other: training and evaluation."]


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{minutes} minute{'' if minutes == 1 else 's'}"


def _table(plan: Callable[[Options], list[Entry]] | None, build: tables.Build) -> Study:
    return Study(plan, partial(write_table, build), stored_seeds=3)


STUDIES: dict[str, Study] = {
    "table1": _table(plans.classification, tables.classification),
    "table2": _table(plans.ablations, tables.ablations),
    "table3": _table(plans.gat, tables.gat),
    "table4": _table(None, tables.statistics),
    "table5": _table(plans.classification, tables.clustering),
    "table6": _table(None, tables.synthetic_statistics),
    "table7": _table(plans.synthetic, tables.synthetic_results),
    "published": _table(plans.published, tables.published),
    "factors": _table(plans.factors, tables.factors),
    "summary": _table(plans.summary, tables.summary),
    "regret": Study(plan_regret, write_regret),
    "kinds": Study(
        None,
        lambda made: kinds.write(made.options, made.out, made.on_record, stored=made.stored),
        kinds.jobs,
    ),
    "figures": Study(
        figures.plan,
        lambda made: figures.write(
            made.options, made.out, made.results, made.failed, made.on_record, stored=made.stored
        ),
        figures.study_jobs,
        stored_seeds=3,
    ),
}
