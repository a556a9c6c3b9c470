"""The run folder: the files of a run, who may write them, and how they are read.

``config.toml`` and ``graph.json`` open a run, ``environment.json`` closes it: a folder without the last is unfinished,
and the same ``fit`` goes on where it stopped. Every file is written in one step, ``metrics.jsonl`` line by line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.config.fields import differences
from dssl.config.schema import Config
from dssl.config.toml import from_toml, to_toml
from dssl.errors import DsslError, RunError
from dssl.evaluation.projection import MAP
from dssl.model.embeddings import EMBEDDINGS
from dssl.model.estimator import CONFIG, FEATURES, WEIGHTS
from dssl.runtime import files

if TYPE_CHECKING:
    from dssl.model.embeddings import Embeddings

METRICS, GRAPH = "metrics.jsonl", "graph.json"
EVALUATION, SPLITS, ENVIRONMENT, PICTURE, REPORT, CHECKPOINT = (
    "evaluation.json",
    "splits.npz",
    "environment.json",
    "embedding.png",
    "report.html",
    "checkpoint.safetensors",
)
FILES = {
    CONFIG: "every setting of the run",
    GRAPH: "the graph: sizes, homophily, what was done to it",
    METRICS: "a record per epoch",
    WEIGHTS: "the trained network",
    FEATURES: "the feature columns that it expects",
    EMBEDDINGS: "id and vector of each node",
    EVALUATION: "how good the vectors are",
    SPLITS: "the nodes that trained, chose and tested the probe",
    MAP: "id and place in the plane of each node",
    PICTURE: "a map of the vectors",
    REPORT: "all of it as a page for a browser",
    ENVIRONMENT: "versions, machine, command, time, memory",
    CHECKPOINT: "the state to resume an unfinished run from",
}
LOCK = ".lock"
AGAIN = "fit or evaluate the run again"
Record = dict[str, float]


def read_config(folder: Path, *, finished: bool = True) -> Config:
    """Read the configuration of a run; by default of a finished one."""
    if not (folder / CONFIG).is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no {CONFIG}; make one with `dssl fit GRAPH --out {folder}`"
        )
    config = from_toml(files.read_text(folder / CONFIG, AGAIN), str(folder / CONFIG))
    if finished and not (folder / ENVIRONMENT).exists():
        raise RunError(f"{folder} is an unfinished run; run its `dssl fit` again to complete it")
    return config


def read_metrics(folder: Path) -> list[Record]:
    """Read the records of the epochs; a line that a kill cut short is left out."""
    path = folder / METRICS
    if not path.exists():
        return []
    lines = files.read_text(path, AGAIN).split("\n")
    try:
        return [json.loads(line) for line in lines[:-1]]
    except ValueError:
        raise RunError(f"{path} is damaged: a line is no JSON; fit again with --overwrite") from None


def read_embeddings(folder: Path) -> Embeddings:
    """Read the embeddings of a finished run."""
    from dssl.model.embeddings import Embeddings

    read_config(folder)
    return Embeddings.load(folder / EMBEDDINGS)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run."""
    try:
        value = json.loads(files.read_text(path, AGAIN))
    except ValueError as error:
        if isinstance(error, DsslError):
            raise
        raise RunError(f"{path} is damaged: no valid JSON; {AGAIN}") from None
    if not isinstance(value, dict):
        raise RunError(f"{path} is damaged: no JSON object; {AGAIN}")
    return value


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other trainings out of a run folder."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; choose a folder with --out")
    new = not folder.exists()
    with ExitStack() as stack:
        if new:
            stack.callback(_remove_empty, folder)
        try:
            stack.enter_context(files.locked(folder / LOCK))
        except BlockingIOError as error:
            raise RunError(
                f"{folder} is in use by another training (process {error}); wait for its end, or choose another folder "
                "with --out"
            ) from None
        yield


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def claim(folder: Path, config: Config, *, overwrite: bool) -> None:
    """See that the folder is new, or an unfinished run of the same settings, or may be written over."""
    if all(path.name.startswith(".") for path in folder.iterdir()):
        return
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} is not empty and no run folder; choose another with --out")
    if overwrite:
        return
    if (folder / ENVIRONMENT).exists():
        raise RunError(f"{folder} holds a finished run; replace it with --overwrite, or choose another with --out")
    different = differences(read_config(folder, finished=False), config).values()
    if different:
        raise RunError(
            f"{folder} holds an unfinished run with other settings ({', '.join(different)}); "
            "start anew with --overwrite, or choose another folder with --out"
        )


def open(folder: Path, config: Config, described: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write the files that open a run; one on another graph, or from other weights, is not gone on with."""
    if overwrite:
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    if (folder / GRAPH).exists():
        before = read_json(folder / GRAPH)
        kinds = {"fingerprint": f"graph {config.graph.source!r}", "start": f"weights in {config.train.start_from}"}
        for key, what in kinds.items():
            if before.get(key) != described.get(key):
                raise RunError(
                    f"{folder} holds an unfinished run on another state of the {what}; "
                    "start anew with --overwrite, or choose another folder with --out"
                )
    files.write_text(folder / CONFIG, to_toml(config))
    files.write_json(folder / GRAPH, described)


class Metrics:
    """``metrics.jsonl``: a line per logged epoch, and always the last one.

    The first record decides where it goes on: lines of that epoch and later ones were written after the checkpoint
    that training resumed from, and are written anew.
    """

    def __init__(self, path: Path, *, every: int, epochs: int) -> None:
        self.path, self.every, self.epochs = path, every, epochs
        self.started = False
        self.waiting: Record | None = None

    def add(self, record: Record) -> None:
        """Take the record of an epoch, and write it if it is one to be logged."""
        if not self.started:
            kept = [line for line in read_metrics(self.path.parent) if line["epoch"] < record["epoch"]]
            files.write_text(self.path, "".join(f"{json.dumps(line)}\n" for line in kept))
            self.started = True
        if record["epoch"] % self.every and record["epoch"] != self.epochs:
            self.waiting = record
        else:
            self._write(record)

    def close(self) -> None:
        """Write the last record if it was none of those to be logged: training ended early."""
        if self.waiting is not None:
            self._write(self.waiting)
        elif not self.started and not self.path.exists():
            files.write_text(self.path, "")

    def _write(self, record: Record) -> None:
        self.waiting = None
        finite = {name: value if math.isfinite(value) else None for name, value in record.items()}
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(finite) + "\n")
