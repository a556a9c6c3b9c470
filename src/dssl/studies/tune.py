r"""Search for settings: ``dssl tune GRAPH`` evaluates settings, and writes the best as a recipe.

Optuna proposes settings from a space, each is trained once, and a criterion ranks the vectors:

``validation``
    the measure of the linear probe on validation nodes: accuracy, or the one that suits the labels. The test part of
    the first split of the run's protocol is set aside before the search, and its labels are never used; the other
    labelled nodes are split again into train and validation, several times, in the same proportion. ``dssl evaluate RUN
    --set splits=1`` then tests on nodes that the search never used; other splits contain test nodes that it selected
    by, as in most papers.
``effective-rank``, ``calinski-harabasz``
    label-free measures of `dssl.evaluation.label_free.label_free`, the higher the better.
``loss``
    the training loss, the lower the better. Settings that weigh the terms of the loss also change its scale.

The folder holds ``study.db``, a study that Optuna's tools can read: the same command resumes where it stopped, also
after a kill, and several may run at once. With one worker, the trials depend on the seed alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import tomli_w
from numpy.typing import NDArray

from dssl.config.fields import graph_settings, values
from dssl.config.registry import Range, Scope
from dssl.config.resolve import resolve
from dssl.config.schema import Config, GraphSettings
from dssl.config.toml import to_toml
from dssl.data.load import read_graph, with_full_paths
from dssl.errors import ConfigError, DsslError, RunError, nearest, require
from dssl.evaluation.label_free import label_free
from dssl.evaluation.metrics import Measure, suitable_measure
from dssl.evaluation.probe import SCALINGS, linear_probe
from dssl.evaluation.splits import Protocol, Split
from dssl.graph import Graph
from dssl.graph.preparation import links
from dssl.model.estimator import Embedder
from dssl.rng import stream
from dssl.runtime import environment, files
from dssl.runtime.processes import pool
from dssl.studies.search_space import Space
from dssl.studies.trials import Proposal, Trials, number

Select = Literal["validation", "effective-rank", "calinski-harabasz", "loss"]
TRIALS, RECIPE = "trials.jsonl", "recipe.toml"
LAST_LOSSES = 10  # epochs that the loss is averaged over
# Settings of the training that say how, not what: they have no place in a recipe.
NOT_IN_RECIPES = ("device", "threads", "log_every", "checkpoint_every", "start_from")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a search.

    Args:
        folder: where the study and the recipe are.
        value: the criterion of the best trial.
        changes: its settings of the space, by dotted path.
        done: number of trials that ended well.
        failed: reasons of those that did not.
    """

    folder: Path
    value: float
    changes: dict[str, Any]
    done: int
    failed: list[str]

    @property
    def recipe(self) -> Path:
        """The file that ``dssl fit --recipe`` takes."""
        return self.folder / RECIPE


def search(
    config: Config,
    folder: Path,
    *,
    trials: int,
    varied: Space,
    select: str = "validation",
    workers: int = 1,
    command: str = "",
    on_trial: Callable[[int, float | None, float | None], None] = lambda *_: None,
) -> Outcome:
    """Try settings until there are as many trials as requested, those of earlier calls included; write the recipe.

    Args:
        config: settings that the search starts from; its graph, seed and protocol are those of every trial.
        folder: where the study is, or will be.
        trials: number of trials.
        varied: the searched settings, see `space`. Where it holds the settings of ``config``, these are tried first.
        select: the criterion.
        workers: processes, each with one thread; 1 does everything in this process.
        command: the command line of the user, for the recipe.
        on_trial: called after each trial with how many there are, its value (none if it failed) and the best so far.
    """
    require("optuna", extra="tune")
    choices = get_args(Select)
    if select not in choices:
        raise ConfigError(f"unknown criterion {select!r}{nearest(select, choices)}; use one of {', '.join(choices)}")
    if trials < 1 or workers < 1:
        raise ConfigError(f"{trials} trials by {workers} workers cannot be; give at least one of each")
    config = config.model_copy(update={"graph": with_full_paths(config.graph)})
    judge = Judge(config, select)
    asked = {"settings": to_toml(config), "select": select, "graph": judge.check().fingerprint()}
    here = {path: value for path, value in values(config).items() if path in varied}
    start = here if all(_holds(varied[path], value) for path, value in here.items()) else None
    known = Trials(folder, asked, varied=varied, start=start, seed=config.seed, minimize=select == "loss")
    running: dict[Future[dict[str, Any]], Proposal] = {}
    with pool(workers) as submit, known.proposals() as propose:
        while True:
            while len(running) < workers and (proposal := propose(trials)) is not None:
                running[submit(partial(judge, proposal.changes))] = proposal
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                found = future.result()
                known.add(running.pop(future), found)
                best = [trial.value for trial in known.complete()[:1]]
                on_trial(len(known.done()), found.get("value"), best[0] if best else None)
    return _finish(known, judge, command)


@dataclass(frozen=True)
class Judge:
    """Trains with some settings and evaluates the vectors; sent to worker processes unchanged.

    Args:
        config: settings that are not varied.
        select: the criterion.
    """

    config: Config
    select: str

    def check(self) -> Graph:
        """Read the graph, and see before the search that the criterion can be had."""
        graph = _graph(self.config.graph)
        if self.select == "validation":
            if graph.y is None:
                raise DsslError(
                    f"graph {self.config.graph.source!r} has no labels to select by; "
                    "give some with --nodes, or use --select calinski-harabasz"
                )
            self.parts(graph)
        return graph

    def measure(self, y: NDArray[np.int64]) -> Measure:
        """The measure of the validation nodes: as set, or the one that suits the labels."""
        asked = self.config.evaluate.measure
        return suitable_measure(y)[0] if asked == "auto" else asked

    def parts(self, graph: Graph) -> tuple[NDArray[np.int64], list[Split]]:
        """The labels that the search may use, −1 elsewhere, and splits of them with an empty test part."""
        assert graph.y is not None
        y = graph.y
        options = self.config.evaluate
        protocol = Protocol(
            name=options.protocol,
            source=self.config.graph.source,
            count=1,
            shares=options.shares,
            seed=options.split_seed,
            labels=options.labels,
        )
        first = protocol.splits(graph)[0]
        rest = np.concatenate([first.train, first.val])
        seen = np.full_like(y, -1)
        seen[rest] = y[rest]
        orders = [stream(options.split_seed, "tune", i).permutation(np.sort(rest)) for i in range(options.splits)]
        size, none = first.train.size, np.zeros(0, np.int64)
        return seen, [Split(np.sort(order[:size]), np.sort(order[size:]), none) for order in orders]

    def __call__(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Train and evaluate; an error that settings can cause is a result too."""
        begun = time.perf_counter()
        try:
            measures = self._measures(changes)
            value = measures[self.select]
            if value is None:
                raise DsslError(f"{self.select} is not defined: nothing was trained, or all vectors are equal")
        except DsslError as error:
            return {"error": str(error)}
        return {"value": value, "measures": measures, "seconds": round(time.perf_counter() - begun, 2)}

    def _measures(self, changes: Mapping[str, Any]) -> dict[str, float | None]:
        graph = _graph(self.config.graph)
        config = changed(self.config, changes)
        model = Embedder.from_config(config).fit(graph.replace(y=None))
        vectors = model.embeddings_.values
        if not np.isfinite(vectors).all():
            raise DsslError("the training diverged: a vector is NaN or infinite")
        plain = links(graph, directed=config.graph.directed, self_loops=config.graph.self_loops)
        found: dict[str, float | None] = {
            name.replace("_", "-"): value for name, value in label_free(plain, vectors).items()
        }
        losses = [record["loss"] for record in model.metrics_[-LAST_LOSSES:]]
        found["loss"] = sum(losses) / len(losses) if losses else None
        if self.select == "validation":
            assert graph.y is not None, "seen by check"
            scaling = config.evaluate.scaling
            scalings = SCALINGS if scaling == "chosen" else (scaling,)
            seen, splits = self.parts(graph)
            found["validation"] = linear_probe(
                vectors,
                seen,
                splits,
                measure=self.measure(seen),
                class_weight=config.evaluate.class_weight,
                scalings=scalings,
                tested=False,
            ).validation.mean
        return found


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """Return a configuration with other values for some dotted paths."""
    return resolve(changes, base=config.model_dump(exclude_none=True))


@lru_cache(maxsize=1)
def _graph(options: GraphSettings) -> Graph:
    return read_graph(options)


def _holds(part: tuple[Any, ...] | Range, value: Any) -> bool:
    return part.low <= value <= part.high if isinstance(part, Range) else value in part


def _finish(known: Trials, judge: Judge, command: str) -> Outcome:
    """Write the trials and the recipe of the best one."""
    done, folder = known.done(), known.folder
    lines = [{"number": number(t), "value": t.value, **t.user_attrs} for t in done]
    files.write_text(folder / TRIALS, "".join(json.dumps(line) + "\n" for line in lines))
    failed = [str(trial.user_attrs["error"]) for trial in done if "error" in trial.user_attrs]
    if not done:
        raise RunError(f"all trials of {folder} are under way in other processes; wait for their end")
    if len(failed) == len(done):
        raise RunError(f"all {len(done)} trials failed, the first with: {failed[0]}")
    best = known.complete()[0]
    value, changes = float(best.value or 0.0), dict(best.user_attrs["changes"])
    name = _graph(judge.config.graph).name
    header = {
        "title": f"{judge.config.method.name} on {name}: the best of {len(done)} trials by {judge.select}",
        "source": f"{command or 'dssl tune'}, dssl {environment.version('dssl')}: {judge.select} {value:.4g}",
        "notes": f"Varied: {', '.join(known.varied)}. The rest is as it was when the search began.",
    }
    files.write_text(folder / RECIPE, recipe(changed(judge.config, changes), header))
    return Outcome(folder, value, changes, len(done) - len(failed), failed)


def recipe(config: Config, header: Mapping[str, str]) -> str:
    """Return the text of a recipe that gives a configuration's model and training on any graph.

    Args:
        config: the settings; they are written in full, so that later defaults do not change them.
        header: title, source and notes.
    """
    sections = config.model_dump(exclude_none=True)
    train = {name: value for name, value in sections["train"].items() if name not in NOT_IN_RECIPES}
    graph = {name: sections["graph"][name] for name in graph_settings(Scope.MODEL)}
    tables = {"recipe": dict(header), "graph": graph, "encoder": sections["encoder"], "method": sections["method"]}
    return tomli_w.dumps({**tables, "train": train})
