"""The work of the commands that write a run folder: fit, evaluate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dssl.config.fields import differences, graph_settings
from dssl.config.registry import Scope
from dssl.config.resolve import resolve
from dssl.config.schema import CUSTOM, Config
from dssl.data.later_links import read_later as read_later_links
from dssl.data.load import is_file, read_graph, with_full_paths
from dssl.errors import ConfigError, RunError
from dssl.graph.preparation import PREPARED, Inputs
from dssl.model.estimator import Embedder
from dssl.model.factor_count import is_auto, with_count
from dssl.model.storage import EMBEDDINGS, WEIGHTS
from dssl.runs import records, run_folder
from dssl.runs.later import read_later, write_later
from dssl.runs.records import Environment, Evaluation, GraphRecord, Record, Summary
from dssl.runs.run_folder import read_config, read_embeddings
from dssl.runs.transform import COLUMNS
from dssl.runtime import environment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dssl.evaluation.link_prediction import LinkTask
    from dssl.evaluation.splits import Split
    from dssl.graph import Graph
    from dssl.model.factors import Factors

MOST_FACTOR_BYTES = 1 << 28  # of the posteriors of links that a run keeps unless the settings ask for more


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a training.

    Args:
        folder: the run folder.
        graph: summary of the graph.
        environment: versions, time and memory.
        record: the record of the last epoch, empty if there was none.
        changes: steps of preparation of the graph.
        warnings: sentences about the training.
    """

    folder: Path
    graph: Summary = field(default_factory=Summary)
    environment: Environment = field(default_factory=Environment)
    record: Record = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> Outcome:
        """Read the outcome of a finished run."""
        record = run_folder.read_graph_record(folder)
        return cls(
            folder,
            graph=record.summary,
            environment=run_folder.read_environment(folder),
            record=dict(*run_folder.read_metrics(folder)[-1:]),
            changes=record.changes,
            warnings=record.warnings,
        )


def continued(start: Path, flags: Mapping[str, Any], settings: Sequence[str] = ()) -> Config:
    """Return the settings of a run that starts from the weights of another: its own, except for the given ones.

    Args:
        start: folder of a fitted model.
        flags: value by dotted path, as for `dssl.config.resolve.resolve`. A new graph brings its own files, which are
            read by the columns of the first ones unless others are given.
        settings: ``key=value`` texts.
    """
    for name in ("preset", "recipe"):
        if flags.get(name) is not None:
            raise ConfigError(f"--from takes its settings from {start}; leave out --{name}")
    base = read_config(start, finished=False).model_dump(exclude_none=True)
    if (source := flags.get("graph.source")) is not None:
        alike = COLUMNS if is_file(source) and is_file(base["graph"]["source"]) else ()
        kept = [name for name in base["graph"] if name in (*graph_settings(Scope.MODEL), *alike)]
        base["graph"] = {name: base["graph"][name] for name in kept}
    base["train"]["start_from"] = str(start)
    return resolve(flags, base=base, settings=settings)


def fit(
    config: Config,
    folder: Path,
    *,
    overwrite: bool = False,
    command: str = "",
    on_graph: Callable[[Graph, int], None] | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Outcome:
    """Train a model in a run folder, or resume an unfinished training of the same settings and graph.

    In a process group every process calls this with the same settings. All read the graph and train. The first process
    alone uses the folder and computes the vectors; the outcome of the others is empty.

    Args:
        config: the complete configuration.
        folder: the run folder.
        overwrite: replace a run; a finished one stays until the new one is complete.
        command: the command line, for the record.
        on_graph: called with the graph once it is read, and the number of epochs.
        on_epoch: called with the record of each epoch.
    """
    from dssl.graph.statistics import summary
    from dssl.runtime import distributed

    started = datetime.now(UTC)
    if config.train.device not in ("auto", "cpu"):
        from dssl import train

        train.device(config.train.device)  # refuse a missing device before a large graph is read
    config = config.model_copy(update={"graph": with_full_paths(config.graph)})
    start = Path(config.train.start_from).resolve() if config.train.start_from else None
    if start is not None:
        config = config.model_copy(update={"train": config.train.model_copy(update={"start_from": str(start)})})
        if start == folder.resolve():
            raise RunError(f"{folder} is the run to start from; choose another folder with --out")
    if is_auto(config):
        config = with_count(config, read_graph(config.graph))
    first = distributed.rank() == 0
    place = folder
    with ExitStack() as stack:
        with distributed.together():
            if first:
                stack.enter_context(run_folder.alone(folder))
                place = run_folder.claim(folder, config, overwrite=overwrite)
        if distributed.count(int(first and run_folder.is_finished(place))):  # a kill came after the last epoch
            return _finish(place, folder) if first else Outcome(folder)
        with distributed.together():
            model = Embedder.from_config(config) if start is None else Embedder.load(start).continue_with(config)
            graph = read_graph(config.graph, encoding=None if start is None else model.inputs.encoding)
            record = GraphRecord(
                fingerprint=graph.fingerprint(),
                summary=cast("Summary", summary(graph) if first else {}),
                start=None if start is None else hashlib.sha256((start / WEIGHTS).read_bytes()).hexdigest(),
            )
            if first:
                run_folder.begin(place, config, record, overwrite=overwrite)
        with distributed.together():
            distributed.check_same(record.fingerprint, f"a graph {config.graph.source!r}")
        if not first:
            model.fit(graph, warm=start is not None, checkpoint=place / run_folder.CHECKPOINT)
            return Outcome(folder, record=dict(*model.metrics_[-1:]), changes=model.changes_, warnings=model.warnings_)
        later = read_later_links(config.graph, graph) if config.graph.time_column is not None else None
        epochs = model.schedule(graph).epochs
        if on_graph is not None:
            on_graph(graph, epochs)
        metrics = run_folder.Metrics(place / run_folder.METRICS, every=config.train.log_every, epochs=epochs)

        def note(values: dict[str, float]) -> None:
            metrics.add(values)
            if on_epoch is not None:
                on_epoch(values)

        model.fit(graph, warm=start is not None, on_epoch=note, checkpoint=place / run_folder.CHECKPOINT)
        metrics.close()
        _store(model, graph, place, record)
        if later is not None:
            write_later(place, later, graph)
        made = environment.describe(command, started=started, resumed_at=model.epochs_ - len(model.metrics_))
        records.write(place / run_folder.ENVIRONMENT, Environment, made)
        return _finish(place, folder)


def _finish(place: Path, folder: Path) -> Outcome:
    """Remove the checkpoint of a complete run, and let the run take the place of the old one."""
    (place / run_folder.CHECKPOINT).unlink(missing_ok=True)
    if place != folder:
        run_folder.install(folder)
    return Outcome.of(folder)


def _store(model: Embedder, graph: Graph, folder: Path, record: GraphRecord) -> None:
    """Write everything that the other commands read: model, vectors, factors, graph and its description."""
    from dssl.graph import packed
    from dssl.model.factor_names import titles

    config = model.config
    model.save(folder)
    left_out, titled = {}, []
    if count := run_folder.num_factors(config):
        both = graph.directed and not config.graph.directed
        size = 4 * count * graph.num_arcs * (1 + both)
        if config.run.keep_factors or (config.run.keep_factors is None and size <= MOST_FACTOR_BYTES):
            found = model.factors(graph)
            found.save(folder / run_folder.FACTORS, nodes=folder / run_folder.NODE_FACTORS)
            titled = list(titles(found, graph))
        else:
            small = config.run.keep_factors is False
            left_out["factors"] = "keep_factors is false" if small else f"they would take {size / 1e9:.1f} GB"
    if isinstance(graph, packed.StoredGraph):
        record = record.model_copy(update={"packed": str(graph.folder.resolve())})
    elif config.run.keep_graph:
        packed.write(graph, folder / run_folder.PACKED)
    else:
        left_out["graph"] = "keep_graph is false"
    changes = {
        "changes": model.changes_,
        "warnings": model.warnings_,
        "limits": model.health_limits_,
        "left_out": left_out,
        "factor_titles": titled,
    }
    records.write(folder / run_folder.GRAPH, GraphRecord, record.model_dump() | changes)


def evaluate(
    folder: Path,
    *,
    flags: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    on_stage: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Evaluate the embeddings of a run, write ``evaluation.json``, ``splits.npz`` and the map, return the first.

    Args:
        folder: the run folder.
        flags: settings of the section ``evaluate`` by dotted path, which replace the run's own.
        settings: the same as ``key=value`` texts.
        on_stage: called with the name of each part before it starts.
    """
    from dssl.errors import MissingExtraError, ProbeError
    from dssl.evaluation import evaluate as evaluation
    from dssl.evaluation import link_prediction, pictures, splits
    from dssl.evaluation.baselines import NAMES
    from dssl.evaluation.kind_agreement import kind_agreement
    from dssl.evaluation.probe import SCALINGS
    from dssl.graph.preparation import links
    from dssl.runs.node_map import map_of

    config = judged_by(read_config(folder), flags or {}, settings)
    vectors = read_embeddings(folder)
    graph = run_folder.read_graph(folder, "dssl evaluate")
    if not graph.ids.equals(vectors.ids):
        raise RunError(f"the ids of {folder / EMBEDDINGS} are not those of the graph; fit the run again")
    options = config.evaluate
    protocol = splits.Protocol(
        name=options.protocol,
        source=config.graph.source,
        count=options.splits,
        shares=options.shares,
        seed=options.split_seed,
        labels=options.labels,
    )
    described: dict[str, Any] = {}
    parts: list[Split] = []
    if graph.y is not None:
        try:
            parts = splits.kept(folder / run_folder.SPLITS, graph, protocol)
            described["splits"] = splits.summary(parts, graph.y, protocol)
        except ProbeError as error:  # too few labels to split
            described["skipped"] = {"probe": str(error)}
    factors = _factors(folder, graph) if run_folder.num_factors(config) else None
    judged = graph if parts else graph.replace(y=None)
    result = described | evaluation.evaluate(
        links(judged, directed=config.graph.directed, self_loops=config.graph.self_loops),
        vectors.values,
        splits=parts,
        scalings=SCALINGS if options.scaling == "chosen" else (options.scaling,),
        measure=None if options.measure == "auto" else options.measure,
        class_weight=options.class_weight,
        seed=options.split_seed,
        random_encoder=_untrained(config, graph) if parts and config.method.traits.encoder else None,
        factors=None if factors is None else factors.nodes,
        on_stage=on_stage,
    )
    if factors is not None and graph.kinds is not None:
        on_stage("factors and kinds of links")
        agreed = kind_agreement(graph, factors.source, factors.target, factors.links, seed=options.split_seed)
        if "skipped" in agreed:
            result.setdefault("skipped", {})["kinds"] = agreed["skipped"]
        else:
            result["kinds"] = agreed
    later = read_later(folder, graph)
    if later is not None:
        on_stage(f"link prediction: {len(later.pairs):,} links after the cut by time")
        task = link_prediction.after(graph, later.pairs, seed=options.split_seed)
        which = f"{len(later.pairs):,} new links from {later.moment} on"
        result |= _link_results(task, Embedder.load(folder), vectors.values, which)
    elif options.links:
        on_stage("link prediction: training without the held-out links")
        task = link_prediction.hold_out(graph, seed=options.split_seed)
        model = Embedder.from_config(config).fit(task.graph)
        result |= _link_results(task, model, model.embeddings_.values, "Links")
    for name, baseline in result.get("sanity", {}).items():
        baseline["title"] = NAMES.get(name, name)
    found = records.write(folder / run_folder.EVALUATION, Evaluation, result)
    on_stage("map")
    try:
        places = map_of(folder)
        pictures.embedding_map(
            places.points,
            folder / run_folder.PICTURE,
            labels=graph.y,
            class_names=graph.class_names,
            title=f"Map of {graph.name}",
            note=places.words,
        )
    except MissingExtraError as error:  # the evaluation itself needs no optional library
        found.setdefault("skipped", {})["map"] = str(error)
        records.write(folder / run_folder.EVALUATION, Evaluation, found)
    return found


def judged_by(config: Config, flags: Mapping[str, Any], settings: Sequence[str]) -> Config:
    """Return the settings of a run with others for its evaluation; what belongs to the training is refused."""
    changed = resolve(flags, base=config.model_dump(exclude_none=True), settings=settings)
    for path, words in differences(config, changed).items():
        if not path.startswith("evaluate."):
            raise ConfigError(
                f"{words}, but an evaluation can only change settings of [evaluate]; fit again for others"
            )
    return changed


def _untrained(config: Config, graph: Graph) -> NDArray[np.float32] | None:
    """The vectors of the encoder before training, shape ``(N, dim)``; none for an encoder of the user's own."""
    import torch

    from dssl.model.build import build_encoder
    from dssl.nn import layerwise

    if config.encoder.name == CUSTOM or config.graph.features == "topics":
        return None
    options = {name: getattr(config.graph, name) for name in PREPARED}
    _, ready = Inputs.fit(graph, **options, seed=config.seed, scale=Embedder.from_config(config).scale(graph))
    return layerwise.encoded(build_encoder(config, in_dim=ready.num_features), ready, torch.device("cpu"))


def _link_results(task: LinkTask, model: Embedder, values: NDArray[np.float32], which: str) -> dict[str, Any]:
    """Ranking of the links of a task by the vectors of its graph, by a factor model, and without training."""
    from dssl.evaluation import link_prediction

    found = link_prediction.score_embedding(task, values) | link_prediction.score_baselines(task)
    if model.config.method.name == "dssl":
        found |= link_prediction.score_pairs(task, "likelihood", lambda pairs: model.link_scores(task.graph, pairs))
    return {"links": link_prediction.ranked(found), "links_verdict": link_prediction.verdict(found, which)}


def _factors(folder: Path, graph: Graph) -> Factors:
    """The factors of the fitted graph, from the folder or, if they were left out of it, from the model."""
    if run_folder.has_factors(folder):
        return run_folder.read_factors(folder, "dssl evaluate")
    return Embedder.load(folder).factors(graph)
