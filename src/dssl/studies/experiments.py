"""Many trainings, each done once: jobs, the processes that do them, and the records that tables are made of.

A record is one line of JSON in ``FOLDER/GRAPH.jsonl``, written when its job ends: settings, seed, protocol, results per
split, time, memory, versions. A job whose record is there is not done again, so that a run that was stopped goes on
where it was; to repeat one, delete its line. A record names every setting of its training: if one of them has another
default today, the job is done again. Tables are made from `records` alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Literal

from dssl.config.fields import values
from dssl.config.resolve import resolve
from dssl.errors import DsslError, RunError
from dssl.graph.preparation import OF_MODEL
from dssl.runtime import environment
from dssl.runtime.processes import pool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dssl.config.schema import Config
    from dssl.evaluation.link_prediction import LinkTask
    from dssl.evaluation.splits import Split
    from dssl.graph import Graph
    from dssl.model.estimator import Embedder

View = Literal["embedding", "trained", "factorwise"]
Record = dict[str, Any]
HEALTH = ("loss", "local", "global", "entropy", "effective_rank", "posterior_entropy", "factor_usage_max")


@dataclass(frozen=True, slots=True)
class Job:
    """One training, or one baseline without training, and how it is judged.

    Args:
        graph: what `dssl.load` takes.
        row: the name that tables know it by.
        settings: settings as keywords of the estimator; also ``preset`` and ``recipe``.
        seed: of the training.
        baseline: a sanity baseline instead of a training: ``majority``, ``raw``, ``smoothed``, ``hops``, ``adjacency``.
        splits: random splits of the labelled nodes.
        split_seed: their seed.
        shares: shares of train, validation and test in random splits.
        protocol: ``random``, or the name of published splits: ``geom-gcn``, ``linkx``, ``public``.
        hide_links: train without some links, and rank those.
        views: what of the model is judged: the whole ``embedding``, its ``trained`` columns, or ``factorwise``,
            the trained columns beside the mean of the neighbours' for each factor.
        clusters: whether k-means is run.
        read: how `dssl.load` reads the files of the graph, and ``stamp``, which changes when they do; ``directed`` also
            of a data set, whose links count both ways without it.
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

    @property
    def key(self) -> str:
        """A name that changes with everything that changes the result."""
        changed = {name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)}
        text = json.dumps(changed, sort_keys=True) + _recipe(self.settings)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _recipe(settings: Mapping[str, Any]) -> str:
    """What the recipe of a job says, so that another recipe of the same name is another job."""
    if "recipe" not in settings:
        return ""
    from dssl.config.recipes import read_recipe, split_recipe

    name, dataset = split_recipe(settings["recipe"])
    return json.dumps(read_recipe(name).layers(name, dataset), sort_keys=True)


_DEFAULTS = asdict(Job("", ""))


def run(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int = 0,
    fresh: bool = False,
    on_record: Callable[[Job, Record], None] | None = None,
) -> list[Record]:
    """Do the jobs whose records are missing, and return the records of all jobs, in their order.

    A job that fails leaves a line with its error in the result, not in the store: it is tried again the next time.

    Args:
        jobs: what to do.
        folder: where the records are and go.
        workers: processes, each with one thread; 0 takes one per core, and 1 does everything in this process.
        fresh: a process for each job, so that its memory is its own; a single worker then has all threads.
        on_record: called with each job and its record, stored ones first.
    """
    from concurrent.futures import as_completed

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):  # a folder that cannot be written to is told before anything is trained
        pass
    known = {record["key"]: record for record in records(folder)}
    told = on_record or (lambda _job, _record: None)
    found: dict[str, Record] = {}
    missing = []
    for job in jobs_by_key(jobs).values():
        record = known.get(job.key)
        if record is not None and _holds(record, job):
            found[job.key] = record
            told(job, {**record, "stored": True})
        else:
            missing.append(job)

    def done(job: Job, record: Record) -> None:
        found[job.key] = record
        if "error" not in record:
            append(folder / f"{slug(job.graph)}.jsonl", record)
        told(job, record)

    workers = min(workers or os.cpu_count() or 1, len(missing))
    if workers <= 1 and not fresh:
        for job in missing:
            done(job, perform(job))
    elif missing:
        with pool(workers, fresh=fresh) as submit:
            waiting = {submit(_perform_alone if fresh else perform, job): job for job in missing}
            for future in as_completed(waiting):
                job = waiting[future]
                try:
                    record = future.result()
                except RunError as error:
                    if not fresh:  # the others have lost their processes too
                        raise
                    record = _failed(job, error)
                done(job, record)
    return [found[job.key] for job in jobs]


def jobs_by_key(jobs: Iterable[Job]) -> dict[str, Job]:
    """Jobs that differ, by their key."""
    return {job.key: job for job in jobs}


def records(folder: Path) -> list[Record]:
    """Read every record of a folder; a line that a crash cut off is left out."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def append(path: Path, record: Record) -> None:
    """Add a line to a file of records, so that it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else "\n" + line  # after a line that was cut off
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def slug(graph: str) -> str:
    """A file name for a graph.

    >>> slug("synthetic:h=0.25,nodes=100")
    'synthetic-h-0.25-nodes-100'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", graph).strip("-")


def perform(job: Job) -> Record:
    """Do a job and return its record; what fails is a record with an ``error``."""
    started, begun = datetime.now(UTC), time.perf_counter()
    environment.forget_peak()
    try:
        result = _baseline(job) if job.baseline else _train(job)
    except DsslError as error:
        return _failed(job, error)
    place = environment.describe("", started=started, resumed_at=0)
    return {
        "key": job.key,
        **_plain({name: value for name, value in asdict(job).items() if name != "views"}),
        **_plain(result),
        "seconds": round(time.perf_counter() - begun, 2),
        "peak_memory_mb": place["peak_memory_mb"],
        "date": place["started"],
        "versions": {"python": place["python"], **place["packages"]},
        "machine": f"{place['system']}, {place['processor']}, {place['cores']} cores",
    }


def _failed(job: Job, error: DsslError) -> Record:
    return {"key": job.key, "graph": job.graph, "row": job.row, "seed": job.seed, "error": str(error)}


def _perform_alone(job: Job) -> Record:
    """Do a job in a process that has done none: what is imported and compiled first is not counted as the method's."""
    from dssl.model.estimator import Embedder

    small = Job("synthetic:nodes=60,classes=3,degree=4,features=8", "", baseline=job.baseline, splits=2)
    with suppress(DsslError):
        if job.baseline:
            _baseline(small)
        else:
            Embedder.from_config(resolve({**job.settings, "epochs": 1, "dim": 8})).fit(_graph(small)[0])
    return perform(job)


def _train(job: Job) -> Record:
    from dssl.model.estimator import Embedder

    graph, task = _graph(job)
    model = Embedder.from_config(resolve({"seed": job.seed, **job.settings}))
    with _Cost() as cost:
        model.fit(graph)
    result: Record = {"views": {}, "resolved": _resolved(model.config), **cost.figures, "epochs": model.epochs_}
    if model.metrics_:
        result["health"] = {name: model.metrics_[-1][name] for name in HEALTH if name in model.metrics_[-1]}
    if model.warnings_:
        result["warnings"] = model.warnings_
    splits = splits_of(job, graph)
    factors = model.factors(graph).nodes if model.config.method.name == "dssl" else None
    for view in job.views:
        ranked = None if view == "factorwise" else task  # which is for nodes: its many columns would take long on pairs
        result["views"][view] = _judge(job, graph, ranked, splits, _view(model, graph, view), factors)
    if factors is not None:
        if task is not None:
            result["links_model"] = _model_links(model, task)
        if graph.y is not None:
            result |= _meaning(factors, graph)
    return result


def _baseline(job: Job) -> Record:
    from dssl.evaluation import baselines

    graph, task = _graph(job)
    splits = splits_of(job, graph)
    if job.baseline == "majority":
        assert graph.y is not None
        accuracy = list(baselines.majority(graph.y, splits)["accuracy"].values)
        return {"views": {"embedding": {"width": 0, "probe": {"accuracy": accuracy}}}}
    dim = int(job.settings.get("dim", baselines.MOST))
    features = baselines.baseline_features(graph, dim=dim)
    while True:
        with _Cost() as cost:
            name, values = next(features, ("", None))
        if values is None:
            break
        if name == job.baseline:
            return {"views": {"embedding": _judge(job, graph, task, splits, values.copy())}, **cost.figures}
    raise RunError(f"graph {job.graph!r} has no baseline {job.baseline!r} (no features or no links)")


def _holds(record: Record, job: Job) -> bool:
    """Whether a training would have the settings of the record today.

    Settings that did not exist then, or that do not exist any more, do not count.
    """
    if "resolved" not in record:
        return True
    now = _plain(values(resolve({"seed": job.seed, **job.settings})))
    return all(now[path] == value for path, value in record["resolved"].items() if path in now)


def _resolved(config: Config) -> dict[str, Any]:
    """What decides a training, by dotted path."""
    own = ("method.", "encoder.", "train.", *(f"graph.{name}" for name in OF_MODEL))
    return {path: value for path, value in values(config).items() if path.startswith(own) and value is not None}


class _Cost:
    """Seconds of the lines below ``with``, and the most memory that they took beyond what the process had."""

    def __enter__(self) -> _Cost:
        environment.forget_peak()
        self.before, self.begun = environment.memory(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds, memory = time.perf_counter() - self.begun, environment.peak_memory() - self.before
        self.figures = {"fit_seconds": round(seconds, 2), "fit_memory_mb": round(max(memory, 0) / 2**20, 1)}


def _judge(
    job: Job,
    graph: Graph,
    task: LinkTask | None,
    splits: Sequence[Split],
    values: NDArray[np.float32],
    factors: NDArray[np.float32] | None = None,
) -> Record:
    from dssl.evaluation import evaluate, link_prediction, probe
    from dssl.evaluation.label_free import label_free
    from dssl.evaluation.metrics import Score

    free = label_free(graph, values, seed=job.split_seed, factors=factors)
    result: Record = {"width": values.shape[1], "label_free": free}
    if splits:
        assert graph.y is not None
        found = probe.linear_probe(values, graph.y, splits)
        scores: Mapping[str, Score] = dict(found.scores) | {"val_accuracy": found.validation}
        result["probe"] = {
            name: list(scores[name].values)
            for name in ("accuracy", "val_accuracy", "macro_f1", "roc_auc")
            if name in scores
        }
        if job.clusters:
            result["kmeans"] = evaluate.kmeans(values, graph.y, seed=job.split_seed)
    if task is not None:
        result["links"] = link_prediction.score_embedding(task, values)
    return result


def _view(model: Embedder, graph: Graph, view: View) -> NDArray[np.float32]:
    import numpy as np

    if view == "embedding":
        return model.embeddings_.values
    trained = np.ascontiguousarray(model.embeddings_.values[:, : model.config.encoder.dim])
    return trained if view == "trained" else factorwise(model, graph, trained)


def factorwise(model: Embedder, graph: Graph, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """[v_i | Σ_j w_ij q(k | i, j) v_j for each k]: the neighbours apart by the reason of the link, ``(N, (K+1) d)``."""
    import numpy as np
    from scipy import sparse

    from dssl.evaluation.factor_analysis import factor_means

    found = model.factors(graph)
    size = graph.num_nodes
    weights = 1 / np.maximum(np.bincount(found.source, minlength=size), 1)[found.source]
    links = sparse.csr_array((weights.astype(np.float32), (found.source, found.target)), shape=(size, size))
    return np.hstack([values, factor_means(links, found.links, values)])


def _model_links(model: Embedder, task: LinkTask) -> dict[str, float]:
    from dssl.evaluation import link_prediction

    return link_prediction.score_pairs(task, "model", lambda pairs: model.link_scores(task.graph, pairs))


def _meaning(nodes: NDArray[np.float32], graph: Graph) -> Record:
    """Whether classes that link alike have alike factors (section 4.4 of the paper), where it is defined."""
    import math

    from dssl.evaluation import factor_analysis

    both = {
        "with_diagonal": factor_analysis.similarity_correlation(graph, nodes),
        "without_diagonal": factor_analysis.similarity_correlation(graph, nodes, diagonal=False),
    }
    return {"class_similarity": {name: None if math.isnan(value) else value for name, value in both.items()}}


def _graph(job: Job) -> tuple[Graph, LinkTask | None]:
    graph = _load(job.graph, tuple((name, value) for name, value in job.read.items() if name != "stamp"))
    if not job.hide_links:
        return graph, None
    from dssl.evaluation import link_prediction

    task = link_prediction.hold_out(graph, seed=job.split_seed)
    return task.graph, task


@lru_cache(maxsize=2)
def _load(source: str, read: tuple[tuple[str, Any], ...]) -> Graph:
    from dssl.config.schema import ReadOptions
    from dssl.data.load import read_graph
    from dssl.graph.preparation import links

    options = ReadOptions(source=source, **dict(read))
    return links(read_graph(options), directed=options.directed, self_loops="remove")


def splits_of(job: Job, graph: Graph) -> Sequence[Split]:
    """The splits that a job is judged on; none without labels."""
    from dssl.evaluation.splits import Protocol

    if graph.y is None or not job.splits:
        return []
    protocol = Protocol(name=job.protocol, source=job.graph, count=job.splits, shares=job.shares, seed=job.split_seed)
    return protocol.splits(graph.y)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, rounded to what they mean, so that records stay small."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return round(value, 6) if isinstance(value, float) else value
