"""Records of trainings: one line of JSON each, in ``FOLDER/GRAPH.jsonl``.

A record is written when its job ends: settings, seed, protocol, results per split, time, memory, versions. Lines are
only ever added; to repeat a job, delete its line. Tables and figures are made from records alone.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dssl.config.methods import METHODS
from dssl.runtime import files

log = logging.getLogger(__name__)
_reported: set[str] = set()  # lines that were named in a warning

View = Literal["embedding", "trained", "factorwise"]
LINK_AUC = {"link_auc": "probe_uniform_auc", "link_auc_degree": "probe_degree_auc"}


class ViewResult(BaseModel):
    """Results of one view of a model.

    Args:
        width: number of columns.
        label_free: measures that need no labels, by name; none where not defined.
        probe: values of each split, by measure: ``accuracy``, ``val_accuracy``, ``macro_f1``, ….
        kmeans: ``nmi``, ``ari`` and ``accuracy`` of k-means.
        links: AUC and average precision of held-out links, by scorer and kind of negatives.
        budgets: values of each split of the job's measure, by label budget.
    """

    model_config = ConfigDict(frozen=True)

    width: int
    label_free: dict[str, float | None] = {}
    probe: dict[str, list[float]] = {}
    kmeans: dict[str, float] = {}
    links: dict[str, float] = {}
    budgets: dict[str, list[float]] = {}

    def percent(self, measure: str) -> tuple[float, ...]:
        """A measure in percent: one of the probe or a label budget for each split, or ``nmi``, ``link_auc``, ….

        Empty if it was not measured.
        """
        if measure == "nmi":
            found = [self.kmeans["nmi"]] if self.kmeans else []
        elif measure in LINK_AUC:
            found = [self.links[LINK_AUC[measure]]] if self.links else []
        else:
            found = self.budgets.get(measure) or self.probe.get(measure, [])
        return tuple(100 * value for value in found)


class Record(BaseModel):
    """A job (its fields have the names of `dssl.studies.experiments.Job`) and its result.

    Args:
        views: results by view.
        resolved: every setting that decides the training, by dotted path; none for a baseline.
        revision: of the method's implementation, see `dssl.config.registry.Traits`.
        fit_seconds: time of the training alone.
        fit_memory_mb: memory of the training beyond the process with the graph in it.
        epochs: epochs trained.
        health: collapse statistics of the last epoch.
        warnings: sentences on problems in training.
        links_model: ranking of held-out links by the model's own likelihood.
        class_similarity: correlation of factors and classes over pairs of classes.
        seconds: time of training and evaluation.
        error: reason of a failure; such a record is returned, not stored.
        stored: whether it was read from a file.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    graph: str
    row: str
    settings: dict[str, Any] = {}
    seed: int = 0
    baseline: str = ""
    splits: int = 0
    split_seed: int = 0
    shares: list[float] = []
    protocol: str = "random"
    labels: str = ""
    measure: str = "accuracy"
    class_weight: str = "none"
    budgets: list[str] = []
    hide_links: bool = False
    clusters: bool = False
    read: dict[str, Any] = {}
    views: dict[View, ViewResult] = {}
    resolved: dict[str, Any] | None = None
    revision: int = 1
    fit_seconds: float | None = None
    fit_memory_mb: float | None = None
    epochs: int | None = None
    health: dict[str, float | None] = {}
    warnings: list[str] = []
    links_model: dict[str, float] = {}
    class_similarity: dict[str, float | None] = {}
    seconds: float = 0.0
    peak_memory_mb: float | None = None
    date: str = ""
    versions: dict[str, str | None] = {}
    machine: str = ""
    error: str = ""
    stored: bool = Field(default=False, exclude=True)

    @property
    def outdated(self) -> bool:
        """Whether the method's implementation has changed since; so may a preset of a record without its settings."""
        if self.resolved is None and "preset" in self.settings:
            return True
        name = (self.resolved or {}).get("method.name", self.row)  # the first records have no settings
        return name in METHODS and METHODS[name].traits.revision > self.revision

    def to_json(self) -> dict[str, Any]:
        """The fields that were set, as plain values."""
        return self.model_dump(exclude_unset=True)


def records(folder: Path) -> list[Record]:
    """Read every record of a folder; a line that cannot be read, as after a crash, is left out with a warning."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if not line.strip():
                continue
            try:
                found.append(Record(**json.loads(line), stored=True))
            except (ValueError, TypeError):  # no UTF-8, no JSON, or other fields
                if (place := f"{path}, line {number}") not in _reported:
                    _reported.add(place)
                    log.warning("%s is not a record and is left out; its job is trained again when it is needed", place)
    return found


def append(path: Path, record: Record) -> None:
    """Add a line to a file of records, in place of one that a crash cut off; it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with files.naming(path), path.open("ab+") as file:
        files.hold(file.fileno())
        file.seek(0)
        last = file.read().rpartition(b"\n")[2]
        if last and _is_json(last):
            line = b"\n" + line
        elif last:
            file.truncate(file.tell() - len(last))
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def slug(graph: str) -> str:
    """A file name for a graph.

    >>> slug("synthetic:h=0.25,nodes=100")
    'synthetic-h-0.25-nodes-100'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", graph).strip("-")
