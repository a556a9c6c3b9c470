"""What the commands do with a run folder: fit, evaluate, embed, factors."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.config.fields import differences
from dssl.config.methods import DSSLSettings
from dssl.config.resolve import resolve
from dssl.config.schema import Config, GraphSettings
from dssl.data.load import read_graph, with_full_paths
from dssl.errors import ConfigError, RunError
from dssl.graph.preparation import OF_MODEL, Inputs
from dssl.model.embeddings import EMBEDDINGS
from dssl.model.estimator import FEATURES, WEIGHTS, Embedder
from dssl.runs import run_folder
from dssl.runs.run_folder import (
    CHECKPOINT,
    ENVIRONMENT,
    EVALUATION,
    GRAPH,
    METRICS,
    PICTURE,
    SPLITS,
    Record,
    read_config,
    read_embeddings,
    read_json,
    read_metrics,
)
from dssl.runtime import environment, files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dssl.evaluation.splits import Split
    from dssl.graph import Graph
    from dssl.graph.encoding import Encoding
    from dssl.model.embeddings import Embeddings
    from dssl.model.factors import Factors


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a finished training has to say.

    Args:
        folder: the run folder.
        graph: summary of the graph.
        environment: the record of the run.
        record: the record of the last epoch, empty if there was none.
        changes: what was done to the graph before training.
        warnings: plain sentences on what went wrong in training.
    """

    folder: Path
    graph: dict[str, Any]
    environment: dict[str, Any]
    record: Record
    changes: list[str]
    warnings: list[str]


def default_folder(config: Config) -> Path:
    """Return ``runs/<graph>-<method>-<seed>``.

    >>> default_folder(Config(graph=GraphSettings(source="data/my graph.csv"))).as_posix()
    'runs/my-graph-dssl-0'
    """
    source = config.graph.source
    name = source if re.match(r"\w+:", source) else Path(source).name.partition(".")[0]
    slug = re.sub(r"[^\w.=]+", "-", name).strip("-")[:60] or "graph"
    return Path("runs") / f"{slug}-{config.method.name}-{config.seed}"


def continued(start: Path, flags: Mapping[str, Any], settings: Sequence[str] = ()) -> Config:
    """Return the settings of a run that starts from the weights of another: its own, but for what is given.

    Args:
        start: folder of a fitted model.
        flags: value by dotted path, as for `dssl.config.resolve.resolve`. A new graph brings its own files and columns.
        settings: ``key=value`` texts.
    """
    for name in ("preset", "recipe"):
        if flags.get(name) is not None:
            raise ConfigError(f"--from takes its settings from {start}; leave out --{name}")
    base = read_config(start, finished=False).model_dump(exclude_none=True)
    if flags.get("graph.source") is not None:
        base["graph"] = {name: base["graph"][name] for name in OF_MODEL}
    base["train"]["start_from"] = str(start)
    return resolve(flags, base=base, settings=settings)


def encoding_of(folder: Path) -> Encoding | None:
    """Return how the columns of a node table became the features of a run, or of a packed graph."""
    from dssl.graph import packed

    if packed.is_store(folder):
        return packed.open_graph(folder).encoding
    read_config(folder)
    return Inputs.from_json(read_json(folder / FEATURES)).encoding


def fit(
    config: Config,
    folder: Path,
    *,
    overwrite: bool = False,
    command: str = "",
    on_graph: Callable[[Graph, int], None] | None = None,
    on_epoch: Callable[[Record], None] | None = None,
) -> Outcome:
    """Train a model in a run folder, or go on with an unfinished training of the same settings and graph.

    In a process group every process calls this with the same settings. All read the graph and train; the first one
    alone looks at the folder, writes to it and makes the vectors, and the others' outcome says nothing of those.

    Args:
        config: the complete configuration.
        folder: the run folder.
        overwrite: remove the files of a run that is there already.
        command: what the user called, for the record.
        on_graph: called with the graph once it is read, and the number of epochs that it is trained for.
        on_epoch: called with the record of each epoch.
    """
    from dssl.graph.statistics import summary
    from dssl.runtime import distributed

    started = datetime.now(UTC)
    if config.train.device not in ("auto", "cpu"):
        from dssl import train

        train.device(config.train.device)  # one that is not there is known before a large graph is read
    config = config.model_copy(update={"graph": with_full_paths(config.graph)})
    start = Path(config.train.start_from).resolve() if config.train.start_from else None
    if start is not None:
        train_settings = config.train.model_copy(update={"start_from": str(start)})
        config = config.model_copy(update={"train": train_settings})
        if start == folder.resolve():
            raise RunError(f"{folder} is the run to start from; choose another folder with --out")
    first = distributed.rank() == 0
    with ExitStack() as stack:
        with distributed.together():
            if first:
                stack.enter_context(run_folder.alone(folder))
                run_folder.claim(folder, config, overwrite=overwrite)
            model = Embedder.from_config(config) if start is None else Embedder.load(start).continue_with(config)
            graph = read_graph(config.graph, encoding=None if start is None else model.inputs.encoding)
            described: dict[str, Any] = {"fingerprint": graph.fingerprint(), "summary": summary(graph) if first else {}}
            if start is not None:
                described["start"] = hashlib.sha256((start / WEIGHTS).read_bytes()).hexdigest()
            if first:
                run_folder.open(folder, config, described, overwrite=overwrite)
        with distributed.together():
            distributed.check_same(described["fingerprint"], f"a graph {config.graph.source!r}")
        if not first:
            model.fit(graph, warm=start is not None, checkpoint=folder / CHECKPOINT)
            last = model.metrics_[-1:] or [{}]
            return Outcome(folder, {}, {}, last[0], model.changes_, model.warnings_)
        if on_graph is not None:
            on_graph(graph, model.schedule(graph).epochs)
        metrics = run_folder.Metrics(
            folder / METRICS, every=config.train.log_every, epochs=model.schedule(graph).epochs
        )

        def note(record: Record) -> None:
            metrics.add(record)
            if on_epoch is not None:
                on_epoch(record)

        model.fit(graph, warm=start is not None, on_epoch=note, checkpoint=folder / CHECKPOINT)
        metrics.close()
        model.save(folder)
        model.embeddings_.save(folder / EMBEDDINGS)
        described |= {"changes": model.changes_, "warnings": model.warnings_}
        files.write_json(folder / GRAPH, described)
        record = environment.describe(command, started=started, resumed_at=model.epochs_ - len(model.metrics_))
        files.write_json(folder / ENVIRONMENT, record)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        last = read_metrics(folder)[-1:] or [{}]
        return Outcome(folder, described["summary"], record, last[0], model.changes_, model.warnings_)


def evaluate(
    folder: Path,
    *,
    flags: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
    on_stage: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Judge the embeddings of a run, write ``evaluation.json``, ``splits.npz`` and the map, return the first.

    Args:
        folder: the run folder.
        flags: settings of the section evaluate by dotted path, in place of the run's own.
        settings: likewise, as ``key=value`` texts.
        on_stage: called with the name of each part before it starts.
    """
    from dssl.errors import MissingExtraError, ProbeError
    from dssl.evaluation import evaluate as evaluation
    from dssl.evaluation import pictures, projection, splits
    from dssl.evaluation.probe import SCALINGS
    from dssl.graph.preparation import links

    config = judged_by(read_config(folder), flags or {}, settings)
    vectors = read_embeddings(folder)
    graph = fitted_graph(folder)
    if not graph.ids.equals(vectors.ids):
        raise _changed(folder, config)
    options = config.evaluate
    protocol = splits.Protocol(
        name=options.protocol,
        source=config.graph.source,
        count=options.splits,
        shares=options.shares,
        seed=options.split_seed,
    )
    described: dict[str, Any] = {}
    parts: list[Split] = []
    if graph.y is not None:
        try:
            parts = splits.kept(folder / SPLITS, graph.y, protocol)
            described["splits"] = splits.summary(parts, graph.y, protocol)
        except ProbeError as error:  # too few labels to split
            described["skipped"] = {"probe": str(error)}
    judged = graph if parts else graph.replace(y=None)
    result = described | evaluation.evaluate(
        links(judged, directed=config.graph.directed, self_loops=config.graph.self_loops),
        vectors.values,
        splits=parts,
        scalings=SCALINGS if options.scaling == "chosen" else (options.scaling,),
        seed=options.split_seed,
        random_encoder=_untrained(config, graph) if parts and config.method.traits.encoder else None,
        factors=_node_factors(folder, graph),
        on_stage=on_stage,
    )
    if options.links:
        on_stage("links: training without some of them")
        result["links"] = _hidden_links(config, graph)
    files.write_json(folder / EVALUATION, result)
    on_stage("map")
    try:
        places = projection.map_of(folder)
        pictures.embedding_map(
            places.points,
            folder / PICTURE,
            labels=graph.y,
            class_names=graph.class_names,
            title=f"Map of {graph.name}",
            note=places.words,
        )
    except MissingExtraError as error:  # the evaluation itself needs no optional library
        result.setdefault("skipped", {})["map"] = str(error)
        files.write_json(folder / EVALUATION, result)
    return result


def judged_by(config: Config, flags: Mapping[str, Any], settings: Sequence[str]) -> Config:
    """Return the settings of a run with others for its evaluation; what belongs to the training is refused."""
    changed = resolve(flags, base=config.model_dump(exclude_none=True), settings=settings)
    for path, words in differences(config, changed).items():
        if not path.startswith("evaluate."):
            raise ConfigError(f"{words}, but an evaluation can only change settings of [evaluate]; fit anew for others")
    return changed


def fitted_graph(folder: Path) -> Graph:
    """Read the graph of a finished run again; one that has changed since is refused."""
    config = read_config(folder)
    # A warm start takes its feature columns as the first run of the chain encoded them.
    encoding = Inputs.from_json(read_json(folder / FEATURES)).encoding if config.train.start_from else None
    graph = read_graph(config.graph, encoding=encoding)
    if graph.fingerprint() != read_json(folder / GRAPH).get("fingerprint"):
        raise _changed(folder, config)
    return graph


def _changed(folder: Path, config: Config) -> RunError:
    return RunError(
        f"the graph {config.graph.source!r} is not as it was when {folder} was fitted; "
        "fit it again, or restore the files"
    )


def _untrained(config: Config, graph: Graph) -> NDArray[np.float32]:
    """The vectors that the encoder alone gives before it is trained: what the training has to beat."""
    train = config.train.model_copy(update={"epochs": 0})
    encoder = config.encoder.model_copy(update={"skip": False})
    method = DSSLSettings(reconstruction_weight=0.0)  # any will do, as nothing is trained
    changes = {"train": train, "encoder": encoder, "method": method}
    return Embedder.from_config(config.model_copy(update=changes)).fit_transform(graph)


def _hidden_links(config: Config, graph: Graph) -> dict[str, float]:
    """How well hidden links are ranked by a training like the run's that does not see them."""
    from dssl.evaluation import link_prediction

    task = link_prediction.hold_out(graph, seed=config.evaluate.split_seed)
    model = Embedder.from_config(config).fit(task.graph)
    found = link_prediction.score_embedding(task, model.embeddings_.values)
    if config.method.name == "dssl":
        found |= link_prediction.score_pairs(task, "likelihood", lambda pairs: model.link_scores(task.graph, pairs))
    return found


def _node_factors(folder: Path, graph: Graph) -> NDArray[np.float32] | None:
    """How probable each factor is at each node, shape ``(N, K)``; none for a method without factors."""
    model = Embedder.load(folder)
    try:
        return model.factors(graph).nodes
    except RunError:
        return None


def embed(folder: Path, options: GraphSettings | None = None) -> Embeddings:
    """Return the vectors of the fitted graph, or those that the model of a run gives to another graph."""
    if options is None:
        return read_embeddings(folder)
    read_config(folder)
    model = Embedder.load(folder)
    return model.embed(_load_alike(model, options))


def factors(folder: Path, options: GraphSettings | None = None) -> Factors:
    """Return the factors that the model of a run finds in the fitted graph, or in another."""
    read_config(folder)
    model = Embedder.load(folder)
    return model.factors(fitted_graph(folder) if options is None else _load_alike(model, options))


def _load_alike(model: Embedder, options: GraphSettings) -> Graph:
    """Read another graph for a fitted model, prepared as the fitted one was."""
    fitted = model.config.graph
    kept = options.model_copy(update={"directed": fitted.directed, "self_loops": fitted.self_loops})
    return read_graph(kept, encoding=model.inputs.encoding)
