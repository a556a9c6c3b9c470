"""The run folder: the names of its files, the readers of each, and the right to write them.

``config.toml`` and ``graph.json`` open a run, ``environment.json`` closes it: a folder without the last is unfinished,
and the same ``fit`` resumes it. Every file is written in one step, ``metrics.jsonl`` line by line. A run that replaces
a finished one is built in ``.new`` inside its folder, and its files take the place of the old ones when it is complete.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.config.fields import differences
from dssl.config.methods import DSSLSettings
from dssl.config.schema import Config
from dssl.config.toml import from_toml, to_toml
from dssl.errors import ConfigError, RunError
from dssl.model.storage import CONFIG, EMBEDDINGS, FEATURES, WEIGHTS
from dssl.runs import records
from dssl.runs.records import Environment, Evaluation, GraphRecord, InputRecord, Record
from dssl.runtime import files
from dssl.runtime.environment import version

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.graph.preparation import Inputs
    from dssl.model.embeddings import Embeddings
    from dssl.model.factors import Factors

METRICS = "metrics.jsonl"
GRAPH = "graph.json"
PACKED = "graph"
FACTORS, NODE_FACTORS = "factors.parquet", "node_factors.parquet"
LATER = "later_links.parquet"
EVALUATION = "evaluation.json"
SPLITS = "splits.npz"
MAP = "map.parquet"
PICTURE = "embedding.png"
REPORT = "report.html"
ENVIRONMENT = "environment.json"
CHECKPOINT = "checkpoint.safetensors"
FILES = {
    CONFIG: "every setting of the run",
    GRAPH: "sizes and homophily of the graph, preparation, warnings",
    PACKED: "the graph, packed",
    METRICS: "a record per epoch",
    WEIGHTS: "the trained network",
    FEATURES: "the feature columns that it expects",
    EMBEDDINGS: "id and vector of each node",
    LATER: "links after the cut by time",
    FACTORS: "ids and factor posterior of each link",
    NODE_FACTORS: "id and factor posterior of each node",
    EVALUATION: "results of the evaluation",
    SPLITS: "train, validation and test nodes of the probe",
    MAP: "id and coordinates of each node in the plane",
    PICTURE: "a map of the vectors",
    REPORT: "the report, a page for a browser",
    ENVIRONMENT: "versions, machine, command, time, memory",
    CHECKPOINT: "the state to resume an unfinished run from",
}
LOCK = ".lock"
NEW = ".new"  # a run that is to replace the one in the folder
MOVING = ".moving"  # in it: the files of the complete run, once they are being moved


def default_folder(source: str, *parts: str | int) -> Path:
    """Return ``runs/<graph>-<part>-…`` for a graph.

    >>> default_folder("data/my graph.csv", "dssl", 0).as_posix()
    'runs/my-graph-dssl-0'
    """
    name = source if re.match(r"\w+:", source) else Path(source).name.partition(".")[0]
    slug = re.sub(r"[^\w.=]+", "-", name).strip("-")[:60] or "graph"
    return Path("runs") / "-".join([slug, *map(str, parts)])


def num_factors(config: Config) -> int:
    """Return the number of factors K, 0 for a method without factors."""
    count = config.method.num_factors if isinstance(config.method, DSSLSettings) else 0
    return 0 if count == "auto" else count  # a run contains the number


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a complete run."""
    return (folder / ENVIRONMENT).exists()


def read_config(folder: Path, *, finished: bool = True) -> Config:
    """Read the configuration of a run; by default of a finished one."""
    try:
        return from_toml(_config_text(folder, finished=finished), str(folder / CONFIG))
    except ConfigError:
        made = read_environment(folder).packages.get("dssl") if is_finished(folder) else None
        if made in (None, version("dssl")):
            raise
        advice = "its vectors are readable (`dssl similar`, `dssl align`); for all else, fit again with --overwrite"
        raise RunError(f"{folder} was made by dssl {made}, which has other settings than this; {advice}") from None


def _config_text(folder: Path, *, finished: bool) -> str:
    _check_kinds(folder)
    if not (folder / CONFIG).is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no {CONFIG}; make one with `dssl fit GRAPH --out {folder}`"
        )
    if finished and not is_finished(folder):
        if (folder / WEIGHTS).is_file() and not (folder / GRAPH).exists():
            raise RunError(
                f"{folder} is a model that was saved from Python, not a run; use it with dssl.load_model, or fit with "
                "`dssl fit`"
            )
        raise RunError(f"{folder} is an unfinished run; run its `dssl fit` again to complete it")
    return files.read_text(folder / CONFIG, records.AGAIN)


def read_metrics(folder: Path) -> list[Record]:
    """Read the records of the epochs."""
    return records.read_epochs(folder / METRICS) if (folder / METRICS).exists() else []


def read_graph_record(folder: Path) -> GraphRecord:
    """Read the description of the graph."""
    return records.read(folder / GRAPH, GraphRecord)


def read_environment(folder: Path) -> Environment:
    """Read the record of versions, machine, time and memory."""
    return records.read(folder / ENVIRONMENT, Environment)


def read_evaluation(folder: Path) -> Evaluation:
    """Read the results of the evaluation; empty if the run was not evaluated."""
    return records.read(folder / EVALUATION, Evaluation) if (folder / EVALUATION).exists() else {}


def read_embeddings(folder: Path) -> Embeddings:
    """Read the embeddings of a finished run, of any version."""
    from dssl.model.embeddings import Embeddings

    _config_text(folder, finished=True)
    return Embeddings.load(folder / EMBEDDINGS)


def read_graph(folder: Path, command: str) -> Graph:
    """Read the graph that a run was fitted on, from its folder or from the packed graph that it refers to.

    Args:
        folder: the run folder.
        command: the command that needs the graph, for the error message.
    """
    from dssl.errors import GraphError
    from dssl.graph import packed

    record = read_graph_record(folder)
    if (folder / PACKED).exists():
        graph = packed.read_graph(folder / PACKED)
    elif record.packed is not None:
        try:
            graph = packed.open_graph(record.packed)
        except GraphError as error:
            raise RunError(f"{folder} refers to a packed graph, which `{command}` needs: {error}") from None
    else:
        raise RunError(_missing(folder, record, "graph", command))
    if graph.fingerprint() != record.fingerprint:
        where = record.packed or folder / PACKED
        raise RunError(f"the graph in {where} is not the one that {folder} was fitted on; fit it again")
    return graph


def read_inputs(folder: Path) -> Inputs:
    """Read the feature columns that the model of a run expects."""
    from dssl.graph.preparation import Inputs

    path = folder / FEATURES
    try:
        return Inputs.from_json(records.read(path, dict[str, Any]))
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged ({error!r:.80}); fit the run again") from None


def read_input_record(folder: Path) -> InputRecord:
    """Read the weights of the parts of the input, and the spectrum of homophily."""
    return records.read(folder / FEATURES, InputRecord) if (folder / FEATURES).exists() else InputRecord()


def read_factors(folder: Path, command: str) -> Factors:
    """Read the factors of the links and nodes of a run.

    Args:
        folder: the run folder.
        command: the command that needs them, for the error message.
    """
    from dssl.model.factors import Factors

    record = read_graph_record(folder)
    if not has_factors(folder):
        raise RunError(_missing(folder, record, "factors", command))
    found = Factors.load(folder / FACTORS, folder / NODE_FACTORS)
    titles = tuple(record.factor_titles)
    return replace(found, titles=titles) if len(titles) == found.num_factors else found


def has_factors(folder: Path) -> bool:
    """Whether the factors are in the folder."""
    return (folder / FACTORS).exists()


def _missing(folder: Path, record: GraphRecord, part: str, command: str) -> str:
    reason = record.left_out.get(part, "the files are gone")
    return f"{folder} has no {part} ({reason}), which `{command}` needs; fit again with --set keep_{part}=true"


def sizes(folder: Path) -> dict[str, int]:
    """Return the number of bytes of each file or folder of a run that is there."""
    found = {}
    for name in FILES:
        path = folder / name
        if path.is_dir():
            found[name] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        elif path.exists():
            found[name] = path.stat().st_size
    return found


def _check_kinds(folder: Path) -> None:
    """Refuse pipes and devices under the names of files: reading one might never end."""
    for name in FILES:
        files.check_regular(folder / name)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other trainings out of a run folder."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; choose a folder with --out")
    with ExitStack() as stack:
        if not folder.exists():
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


def claim(folder: Path, config: Config, *, overwrite: bool) -> Path:
    """Return the folder to build a run in: a new one, that of an unfinished run of the same settings, or ``.new``.

    A finished run is only replaced with ``overwrite``. If all of the new run is there already, since a kill came before
    or while it took the place of the old one, the rest of that is done, and the finished folder is returned.
    """
    _check_kinds(folder)
    new = folder / NEW
    if is_finished(new) and (not is_finished(folder) or (overwrite and _same(new, config))):
        install(folder)
        if _same(folder, config):
            return folder
    if all(path.name.startswith(".") for path in folder.iterdir()):
        return folder
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} is not empty and no run folder; choose another with --out")
    if is_finished(folder):
        if not overwrite:
            if (folder / CHECKPOINT).exists() and _same(folder, config):  # a kill came after the end marker
                return folder
            raise RunError(f"{folder} holds a finished run; replace it with --overwrite, or choose another with --out")
        if new.exists() and not ((new / CONFIG).exists() and _same(new, config)):
            shutil.rmtree(new)
        new.mkdir(exist_ok=True)
        return new
    if different := [] if overwrite else differences(read_config(folder, finished=False), config).values():
        raise RunError(
            f"{folder} holds an unfinished run with other settings ({', '.join(different)}); "
            "replace it with --overwrite, or choose another folder with --out"
        )
    if overwrite and not _same(folder, config):
        clear(folder)
    return folder


def _same(folder: Path, config: Config) -> bool:
    try:
        return not differences(read_config(folder, finished=False), config)
    except ValueError:  # the settings are damaged, and so others
        return False


def begin(folder: Path, config: Config, record: GraphRecord, *, overwrite: bool) -> None:
    """Write the files that open a run; an unfinished one on another graph, or from other weights, is not resumed."""
    if (folder / GRAPH).exists():
        kinds = {"fingerprint": f"graph {config.graph.source!r}", "start": f"weights in {config.train.start_from}"}
        try:
            before = read_graph_record(folder)
        except RunError:
            if not overwrite:
                raise
            before = None
        for key, what in kinds.items():
            if before is not None and getattr(before, key) == getattr(record, key):
                continue
            if overwrite:
                clear(folder)
                break
            raise RunError(
                f"{folder} holds an unfinished run on another state of the {what}; "
                "replace it with --overwrite, or choose another folder with --out"
            )
    files.write_text(folder / CONFIG, to_toml(config))
    records.write(folder / GRAPH, GraphRecord, record.model_dump())


def clear(folder: Path) -> None:
    """Remove the files of a run, the settings last: until then the folder is a run folder."""
    for name in [*(name for name in FILES if name != CONFIG), CONFIG]:
        files.remove(folder / name)


def install(folder: Path) -> None:
    """Let the complete run in ``.new`` take the place of the one in the folder; files of the user's stay.

    The old end marker goes first and the new one comes last: a kill in between leaves an unfinished run, which `claim`
    completes by a second call.
    """
    new = folder / NEW
    if not (new / MOVING).exists():
        files.write_text(new / MOVING, "\n".join(name for name in FILES if (new / name).exists()))
    complete = files.read_text(new / MOVING, "fit again with --overwrite").split("\n")
    files.remove(folder / ENVIRONMENT)
    for name in FILES:
        if name not in complete:
            files.remove(folder / name)
        elif name != ENVIRONMENT and (new / name).exists():
            if (new / name).is_dir():
                files.remove(folder / name)
            (new / name).replace(folder / name)
    (new / ENVIRONMENT).replace(folder / ENVIRONMENT)
    shutil.rmtree(new)


class Metrics:
    """``metrics.jsonl``: a line per logged epoch, and always the last one.

    The first record decides where the file continues: lines of that epoch and later ones were written after the
    checkpoint that training resumed from, and are written again.
    """

    def __init__(self, path: Path, *, every: int, epochs: int) -> None:
        self.path, self.every, self.epochs = path, every, epochs
        self.started = False
        self.waiting: dict[str, float] | None = None

    def add(self, record: dict[str, float]) -> None:
        """Take the record of an epoch, and write it if the epoch is to be logged."""
        if not self.started:
            kept = [line for line in read_metrics(self.path.parent) if (line["epoch"] or 0) < record["epoch"]]
            files.write_text(self.path, "".join(f"{json.dumps(line)}\n" for line in kept))
            self.started = True
        if record["epoch"] % self.every and record["epoch"] != self.epochs:
            self.waiting = record
        else:
            self._write(record)

    def close(self) -> None:
        """Write the last record if it was not logged because training ended early."""
        if self.waiting is not None:
            self._write(self.waiting)
        elif not self.started and not self.path.exists():
            files.write_text(self.path, "")

    def _write(self, record: dict[str, float]) -> None:
        self.waiting = None
        finite = {name: value if math.isfinite(value) else None for name, value in record.items()}
        with files.naming(self.path), self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(finite) + "\n")
