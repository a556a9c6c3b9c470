"""Many trainings, each done once: jobs, and the processes that do them.

A job whose record is stored (see `dssl.studies.records`) is not done again, so that an interrupted study resumes where
it stopped. A record also serves other jobs with the same training of which less is measured (`Job.covers`), so that
tables share trainings. A record has every setting of its training: if one of them has another default today, the job is
done again; so it is if the method has a newer implementation.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from dssl.config.recipes import read_recipe, split_recipe
from dssl.errors import RunError
from dssl.evaluation.metrics import Measure
from dssl.evaluation.probe import ClassWeight
from dssl.runtime.processes import pool
from dssl.studies import judge
from dssl.studies.records import Record, View, append, records, slug


@dataclass(frozen=True, slots=True)
class Job:
    """One training, or one training-free baseline, and how it is evaluated.

    Args:
        graph: a source that `dssl.load` takes.
        row: its name in tables.
        settings: settings as keywords of the estimator; also ``preset`` and ``recipe``.
        seed: of the training.
        baseline: a training-free baseline instead of a training, see `dssl.evaluation.baselines`.
        splits: number of random splits of the labelled nodes.
        split_seed: their seed.
        shares: fractions of train, validation and test in random splits.
        protocol: ``random``, ``balanced``, ``one-per-group``, or the name of published splits.
        hide_links: train without some links, and rank those.
        views: views of the model that are evaluated: the whole ``embedding``, its ``trained`` columns, or
            ``factorwise``, the trained columns and the mean of the neighbours' for each factor.
        clusters: whether k-means is run.
        read: options to read the files of the graph, and ``stamp``, which changes when they do; ``directed`` also
            for a data set, whose links count both ways without it.
        labels: number of training labels, ``20/class`` or ``1%``, in place of the first fraction.
        measure: measure by which the probe chooses its settings on validation.
        class_weight: weights of the classes in the probe.
        budgets: further label budgets that the same vectors are evaluated with.
    """

    graph: str
    row: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    baseline: str = ""
    splits: int = 10
    split_seed: int = 0
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    protocol: str = "random"
    hide_links: bool = False
    views: tuple[View, ...] = ("embedding",)
    clusters: bool = False
    read: Mapping[str, Any] = field(default_factory=dict)
    labels: str = ""
    measure: Measure = "accuracy"
    class_weight: ClassWeight = "none"
    budgets: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A name that changes with everything that changes the result."""
        usual = asdict(Job("", ""))
        changed = {name: value for name, value in asdict(self).items() if value != usual[name]}
        text = json.dumps(changed, sort_keys=True) + _recipe(self.settings)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def covers(self, other: Job) -> bool:
        """Whether its record has every result of another job: the same training and splits, and no less measured."""
        alike = replace(other, row=self.row, views=self.views, clusters=self.clusters, budgets=self.budgets)
        return (
            self == alike
            and set(self.views) >= set(other.views)
            and set(self.budgets) >= set(other.budgets)
            and self.clusters >= other.clusters
        )


def _recipe(settings: Mapping[str, Any]) -> str:
    """The content of a job's recipe, so that another recipe of the same name is another job."""
    if "recipe" not in settings:
        return ""
    name, dataset = split_recipe(settings["recipe"])
    return json.dumps(read_recipe(name).layers(name, dataset), sort_keys=True)


def run(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int = 0,
    fresh: bool = False,
    stored: bool = False,
    on_record: Callable[[Job, Record], None] = lambda _job, _record: None,
) -> list[Record]:
    """Do the jobs whose records are missing, and return the records of all jobs, in their order.

    The record of a job that fails has an error and is not stored: the job is tried again the next time.

    Args:
        jobs: the jobs; those with the same key are done once.
        folder: folder of the records.
        workers: processes, each with one thread; 0 takes one per core, and 1 does everything in this process.
        fresh: a process for each job, so that its memory is its own; a single worker then has all threads.
        stored: do nothing: take stored records, also those with other settings than today's, and fail the other jobs.
        on_record: called with each job and its record, stored ones first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):  # a folder that cannot be written to is reported before anything is trained
        pass
    known = {record.key: record for record in records(folder)}
    others: dict[str, list[tuple[Job, Record]]] = {}
    for record in known.values():
        others.setdefault(record.graph, []).append((_job_of(record), record))
    found: dict[str, Record] = {}
    missing: list[Job] = []
    for job in jobs_by_key(jobs).values():
        same = [known[job.key]] if job.key in known else []
        same += [record for other, record in others.get(job.graph, ()) if other.covers(job) and other.key == record.key]
        current = [record for record in same if not record.outdated and judge.holds(record, job)]
        kept = current or (same if stored else [])
        if kept:
            found[job.key] = kept[0]
            on_record(job, kept[0])
        elif stored:
            found[job.key] = judge.failed(job, RunError("no stored record"))
        else:
            missing.append(job)

    def done(job: Job, record: Record) -> None:
        found[job.key] = record
        if not record.error:
            append(folder / f"{slug(job.graph)}.jsonl", record)
        on_record(job, record)

    workers = min(workers or os.cpu_count() or 1, len(missing))
    if workers <= 1 and not fresh:
        for job in missing:
            done(job, judge.perform(job))
    elif missing:
        with pool(workers, fresh=fresh) as submit:
            waiting = {submit(judge.perform_alone if fresh else judge.perform, job): job for job in missing}
            for future in as_completed(waiting):
                job = waiting[future]
                try:
                    record = future.result()
                except RunError as error:
                    if not fresh:  # the others have lost their processes too
                        raise
                    record = judge.failed(job, error)
                done(job, record)
    return [found[job.key] for job in jobs]


def _job_of(record: Record) -> Job:
    """The job of a record."""
    given: dict[str, Any] = {}
    for one in fields(Job):
        value = tuple(record.views) if one.name == "views" else getattr(record, one.name)
        given[one.name] = tuple(value) if isinstance(value, list) else value
    if not given["shares"]:  # the first records have none
        del given["shares"]
    return Job(**given)


def jobs_by_key(jobs: Iterable[Job]) -> dict[str, Job]:
    """Jobs that differ, by their key."""
    return {job.key: job for job in jobs}
