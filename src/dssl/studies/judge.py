"""Train and evaluate one job, and return its record."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.config.fields import graph_settings, values
from dssl.config.registry import Scope
from dssl.config.resolve import resolve
from dssl.config.schema import Config, ReadOptions
from dssl.data.catalogue import DATASETS
from dssl.data.load import read_graph
from dssl.errors import DsslError, RunError
from dssl.evaluation import baselines, evaluate, factor_analysis, link_prediction, probe
from dssl.evaluation.label_free import label_free
from dssl.evaluation.link_prediction import LinkTask
from dssl.evaluation.splits import Protocol, Split
from dssl.graph import Graph
from dssl.graph.preparation import links
from dssl.model.estimator import Embedder
from dssl.runtime import environment, files
from dssl.studies.records import Record, View

if TYPE_CHECKING:
    from dssl.studies.experiments import Job

HEALTH = ("loss", "local", "global", "entropy", "effective_rank", "posterior_entropy", "factor_usage_max")
Content = dict[str, Any]  # of a JSON file
SMALL = "synthetic:nodes=60,classes=3,degree=4,features=8"  # the graph that a process compiles its code on
Result = dict[str, Any]


def perform(job: Job) -> Record:
    """Do a job and return its record; a failure that a user can cause is a record with an ``error``."""
    started, begun = datetime.now(UTC), time.perf_counter()
    environment.forget_peak()
    try:
        result = _baseline(job) if job.baseline else _train(job)
    except DsslError as error:
        return failed(job, error)
    place = environment.describe("", started=started, resumed_at=0)
    return Record(
        key=job.key,
        **plain({name: value for name, value in asdict(job).items() if name != "views"}),
        **plain(result),
        seconds=round(time.perf_counter() - begun, 2),
        peak_memory_mb=place["peak_memory_mb"],
        date=place["started"],
        versions={"python": place["python"], **place["packages"]},
        machine=f"{place['system']}, {place['processor']}, {place['cores']} cores",
    )


def failed(job: Job, error: DsslError) -> Record:
    """The record of a job that failed."""
    return Record(key=job.key, graph=job.graph, row=job.row, seed=job.seed, error=str(error))


def kept(
    job: Job, path: Path, measure: Callable[[Job], Content], *, any_key: bool = False
) -> tuple[Content | None, Record]:
    """Return the content that a job measures, from its file if that is of the same job, and a record.

    Args:
        job: the job.
        path: JSON file of the content, with the key, the settings and the seconds of the job.
        measure: returns the content; if it fails, there is none.
        any_key: whether the file may be that of other settings.
    """
    begun = time.perf_counter()
    stored = read_content(path, "" if any_key else job.key)
    content = stored
    if content is None:
        try:
            found = measure(job)
        except DsslError as error:
            return None, failed(job, error)
        content = {"key": job.key, "graph": job.graph, "settings": dict(job.settings), "seed": job.seed, **found}
        content["seconds"] = round(time.perf_counter() - begun, 2)
        files.write_text(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
    record = Record(
        key=job.key, graph=job.graph, row=job.row, seed=job.seed, seconds=content["seconds"], stored=stored is not None
    )
    return content, record


def read_content(path: Path, key: str) -> Content | None:
    """The stored content of the job with a key, or of any job without one; none if the file has no such content."""
    try:
        content: Content = json.loads(path.read_text(encoding="utf-8"))
        return content if "seconds" in content and key in ("", content["key"]) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def perform_alone(job: Job) -> Record:
    """Do a job in a new process, after a small one: imports and compilation are not counted as the method's."""
    small = replace(job, graph=SMALL, splits=2, read={}, protocol="random", hide_links=False, clusters=False)
    with suppress(DsslError):
        if job.baseline:
            _baseline(small)
        else:
            Embedder.from_config(resolve({**job.settings, "epochs": 1, "dim": 8})).fit(graph_of(small)[0])
    return perform(job)


def holds(record: Record, job: Job) -> bool:
    """Whether a training has the settings of the record today.

    Settings that did not exist then, or that do not exist any more, do not count; nor does the size above which graphs
    are computed by blocks, if a published graph is smaller than both values of it.
    """
    if record.resolved is None:
        return True
    now = plain(values(resolve({"seed": job.seed, **job.settings})))
    changed = {path for path, value in record.resolved.items() if path in now and now[path] != value}
    limit = "train.in_memory_nodes"
    nodes = DATASETS[job.graph].figures.nodes if job.graph in DATASETS else None
    if limit in changed and nodes and nodes <= min(now[limit], record.resolved[limit]):
        changed.discard(limit)
    return not changed


def splits_of(job: Job, labels: str | None = None) -> Sequence[Split]:
    """The splits that a job is evaluated on, from its graph as it is read; none without labels.

    Args:
        job: the job.
        labels: another label budget than the job's.
    """
    graph = _read(_options(job))
    if graph.y is None or not job.splits:
        return []
    protocol = Protocol(
        name=job.protocol,
        source=job.graph,
        count=job.splits,
        shares=job.shares,
        seed=job.split_seed,
        labels=job.labels if labels is None else labels,
    )
    return protocol.splits(graph)


def graph_of(job: Job) -> tuple[Graph, LinkTask | None]:
    """The graph that a job is trained on, as it is read but for self loops, and the held-out links if there are some.

    Links are held out without their direction, unless the job reads it.
    """
    options = _options(job)
    graph = _read(options)
    if not job.hide_links:
        return links(graph, directed=True, self_loops="remove"), None
    task = link_prediction.hold_out(links(graph, directed=options.directed, self_loops="remove"), seed=job.split_seed)
    return task.graph, task


def _options(job: Job) -> ReadOptions:
    return ReadOptions(source=job.graph, **{name: value for name, value in job.read.items() if name != "stamp"})


_read = lru_cache(maxsize=2)(read_graph)


def _train(job: Job) -> Result:
    graph, task = graph_of(job)
    model = Embedder.from_config(resolve({"seed": job.seed, **job.settings}))
    with _Cost() as cost:
        model.fit(graph)
    result: Result = {
        "views": {},
        "resolved": _resolved(model.config),
        "revision": model.config.method.traits.revision,
        **cost.figures,
        "epochs": model.epochs_,
    }
    if model.metrics_:
        result["health"] = {name: model.metrics_[-1][name] for name in HEALTH if name in model.metrics_[-1]}
    if model.warnings_:
        result["warnings"] = model.warnings_
    splits = splits_of(job)
    factors = model.factors(graph).nodes if model.config.method.name == "dssl" else None
    for view in job.views:
        ranked = None if view == "factorwise" else task  # its many columns would take long on pairs
        result["views"][view] = _measured(job, graph, ranked, splits, _view(model, graph, view), factors)
    if factors is not None:
        if task is not None:
            held_out = task
            scores = link_prediction.score_pairs(
                held_out, "model", lambda pairs: model.link_scores(held_out.graph, pairs)
            )
            result["links_model"] = link_prediction.ranked(scores)
        if graph.y is not None:
            result["class_similarity"] = _class_similarity(factors, graph)
    return result


def _baseline(job: Job) -> Result:
    graph, task = graph_of(job)
    splits = splits_of(job)
    if job.baseline == "majority":
        assert graph.y is not None
        scores = baselines.majority(graph.y, splits)
        return {"views": {"embedding": {"width": 0, "probe": {name: list(scores[name].values) for name in scores}}}}
    with _Cost() as cost:
        columns = baselines.baseline(job.baseline, graph, dim=int(job.settings.get("dim", baselines.MOST)))
        if columns is None:
            raise RunError(f"graph {job.graph!r} has no baseline {job.baseline!r} (no features or no links)")
        columns = baselines.narrowed(columns, int(job.settings.get("width", columns.shape[1])))
    return {"views": {"embedding": _measured(job, graph, task, splits, columns.copy())}, **cost.figures}


class _Cost:
    """Seconds of the lines below ``with``, and the most memory that they took beyond the process before."""

    def __enter__(self) -> _Cost:
        environment.forget_peak()
        self.before, self.begun = environment.memory(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds, memory = time.perf_counter() - self.begun, environment.peak_memory() - self.before
        self.figures = {"fit_seconds": round(seconds, 2), "fit_memory_mb": round(max(memory, 0) / 2**20, 1)}


def _measured(
    job: Job,
    graph: Graph,
    task: LinkTask | None,
    splits: Sequence[Split],
    columns: NDArray[np.float32],
    factors: NDArray[np.float32] | None = None,
) -> Result:
    """The content of a `dssl.studies.records.ViewResult`."""
    free = label_free(graph, columns, seed=job.split_seed, factors=factors)
    result: Result = {"width": columns.shape[1], "label_free": free}
    if splits:
        assert graph.y is not None
        fit = partial(probe.linear_probe, columns, graph.y, measure=job.measure, class_weight=job.class_weight)
        found = fit(splits)
        result["probe"] = {name: list(score.values) for name, score in found.scores.items()}
        result["probe"][f"val_{job.measure}"] = list(found.validation.values)
        usual = f"{100 * job.shares[0]:g}%" if job.protocol == "random" and not job.labels else ""  # the same splits
        for budget in job.budgets:
            own = found if budget == usual else fit(splits_of(job, budget))
            result.setdefault("budgets", {})[budget] = list(own.scores[job.measure].values)
        if job.clusters:
            result["kmeans"] = evaluate.kmeans(columns, graph.y, seed=job.split_seed)
    if task is not None:
        result["links"] = link_prediction.ranked(link_prediction.score_embedding(task, columns))
    return result


def _view(model: Embedder, graph: Graph, view: View) -> NDArray[np.float32]:
    if view == "embedding":
        return model.embeddings_.values
    trained = model.encode(graph)
    return trained if view == "trained" else factorwise(model, graph, trained)


def factorwise(model: Embedder, graph: Graph, columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """[v_i | Σ_j w_ij q(k | i, j) v_j for each k]: the neighbours by the factor of the link, ``(N, (K+1) d)``."""
    found = model.factors(graph)
    size = graph.num_nodes
    weights = 1 / np.maximum(np.bincount(found.source, minlength=size), 1)[found.source]
    means = sparse.csr_array((weights.astype(np.float32), (found.source, found.target)), shape=(size, size))
    return np.hstack([columns, factor_analysis.factor_means(means, found.links, columns)])


def _class_similarity(nodes: NDArray[np.float32], graph: Graph) -> dict[str, float]:
    """Whether classes that link in similar ways have similar factors (section 4.4 of the paper); NaN if not defined."""
    return {
        "with_diagonal": factor_analysis.similarity_correlation(graph, nodes),
        "without_diagonal": factor_analysis.similarity_correlation(graph, nodes, diagonal=False),
    }


def _resolved(config: Config) -> dict[str, Any]:
    """The settings that decide a training, by dotted path."""
    own = ("method.", "encoder.", "train.", *(f"graph.{name}" for name in graph_settings(Scope.MODEL)))
    return {path: value for path, value in values(config).items() if path.startswith(own) and value is not None}


def plain(value: Any) -> Any:
    """Values as JSON has them: numbers rounded to six digits, so that records stay small, none if not finite."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
