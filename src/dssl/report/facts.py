"""The content of a report: the files of a run, read from its folder alone, and verdicts on them in plain sentences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dssl.config.schema import Config
from dssl.errors import DsslError
from dssl.runs import run_folder
from dssl.runs.links import model_links
from dssl.runs.records import Environment, Evaluation, InputRecord, Limits, Record, Summary

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.model.factors import Factors
    from dssl.runs.node_map import Map

LONGEST = 48  # characters of an id, a label or a name on a page
SETTLED = 0.01  # fraction of the whole decrease of the loss, over a tenth of the training


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The small files of a run.

    Args:
        folder: the run folder.
        config: its settings.
        summary: sizes and homophily of the graph.
        changes: steps of preparation of the graph.
        warnings: sentences about the training.
        limits: by recorded number, the value below or above which it shows a collapse.
        records: a record per epoch; a value that was not finite is none.
        evaluation: results of the evaluation, empty if the run was not evaluated.
        environment: versions, machine, time and memory.
        input: parts of the input of the encoder, and the spectrum of homophily.
    """

    folder: Path
    config: Config
    summary: Summary
    changes: list[str]
    warnings: list[str]
    limits: Limits
    records: list[Record]
    evaluation: Evaluation
    environment: Environment
    input: InputRecord

    @property
    def name(self) -> str:
        """Name of the graph."""
        return short(self.summary.get("name", "graph"))

    @property
    def evaluate(self) -> str:
        """The command that evaluates the run."""
        return f"dssl evaluate {shlex.quote(str(self.folder))}"

    @property
    def last(self) -> Record:
        """The record of the last epoch, empty if there was none."""
        return self.records[-1] if self.records else {}

    def collapsed(self, *names: str) -> bool:
        """Whether the last record is beyond the limit of any of these numbers."""
        for name in names:
            value, limit = self.last.get(name), self.limits.get(name, {})
            if value is not None and not limit.get("below", value) <= value <= limit.get("above", value):
                return True
        return False

    @property
    def num_factors(self) -> int:
        """Number of factors K; 0 for a method without factors."""
        return run_folder.num_factors(self.config)


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """The large files of a run.

    Args:
        places: the nodes in the plane.
        graph: the graph with labels and features, none if the run does not hold it.
        links: its links as the model uses them, likewise.
        factors: the factors of these links, none without.
        notes: sentences on missing parts.
    """

    places: Map
    graph: Graph | None
    links: Graph | None
    factors: Factors | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict in words.

    Args:
        about: its subject.
        state: good, neutral, or worth a look.
        head: the verdict in a few words.
        words: the reason, one or two sentences.
        command: the next command, if there is one.
    """

    about: str
    state: Literal["good", "look", "plain"]
    head: str
    words: str
    command: str = ""


def read(folder: Path) -> Facts:
    """Read the small files of a finished run."""
    config = run_folder.read_config(folder)
    described = run_folder.read_graph_record(folder)
    return Facts(
        folder=folder,
        config=config,
        summary=described.summary,
        changes=described.changes,
        warnings=described.warnings,
        limits=described.limits,
        records=run_folder.read_metrics(folder),
        evaluation=run_folder.read_evaluation(folder),
        environment=run_folder.read_environment(folder),
        input=run_folder.read_input_record(folder),
    )


def read_arrays(facts: Facts, *, on_stage: Callable[[str], None] = lambda _: None) -> Arrays:
    """Read the map, the graph and the factors of a run.

    A run without its graph or factors still has a report, which has fewer sections and names the reason.

    Args:
        facts: the small files of the run.
        on_stage: called with the name of each part before it starts.
    """
    from dssl.runs.node_map import map_of

    on_stage("map of the embeddings")
    places = map_of(facts.folder)
    on_stage("graph and factors")
    try:
        graph = run_folder.read_graph(facts.folder, "dssl report")
        if graph.num_nodes != len(places.points):
            raise DsslError(f"the graph has {graph.num_nodes:,} nodes and the embeddings {len(places.points):,}")
    except DsslError as error:
        return Arrays(places, None, None, None, [f"No labels, links and factors here: {error}."])
    factors, notes = None, []
    if facts.num_factors:
        try:
            factors = run_folder.read_factors(facts.folder, "dssl report")
        except DsslError as error:
            notes.append(f"No factors here: {error}.")
    return Arrays(places, graph, model_links(graph, facts.config.graph, factors), factors, notes)


def verdicts(facts: Facts) -> list[Verdict]:
    """Return verdicts on the training, on a collapse, and on the accuracy."""
    found = [_training(facts), _representation(facts), _factors(facts), _labels(facts)]
    return [verdict for verdict in found if verdict is not None]


def _training(facts: Facts) -> Verdict:
    if not facts.records:
        return Verdict(
            "Training", "plain", "No training", "No epoch was trained: the vectors are those of the initial weights."
        )
    losses = [record.get("loss") for record in facts.records]
    epochs = f"{int(facts.last['epoch'] or 0):,} epochs"
    if losses[-1] is None:
        words = f"After {epochs} the loss was no longer a number. Lower train.learning_rate."
        return Verdict("Training", "look", "Diverged", words)
    numbers = [loss for loss in losses if loss is not None]
    words = f"In {epochs} the loss went from {numbers[0]:.4g} to {numbers[-1]:.4g}."
    tenth = len(numbers) // 10
    if tenth < 2:
        return Verdict("Training", "plain", "Trained", words)
    late, before = (math.fsum(part) / tenth for part in (numbers[-tenth:], numbers[-2 * tenth : -tenth]))
    spread = max(numbers) - min(numbers)
    if before - late <= SETTLED * spread:
        return Verdict("Training", "good", "The loss has settled", words)
    share = (before - late) / spread
    words += f" The last tenth of the training added {share:.0%} of the whole decrease: more epochs may help."
    return Verdict("Training", "plain", "The loss was still falling", words)


def _representation(facts: Facts) -> Verdict | None:
    rank, dim = facts.last.get("effective_rank"), facts.config.encoder.dim
    if rank is None:
        return None
    if facts.collapsed("effective_rank"):
        words = f"The effective rank of the trained vectors is {rank:.1f} of {dim}."
        return Verdict("Representation", "look", "Collapsed", _advice(facts, "the representation", words))
    words = f"The trained vectors have an effective rank of {rank:.1f} of {dim}: they differ in many directions."
    if facts.input.shares:
        parts = sorted(facts.input.shares.items(), key=lambda part: -part[1])
        words += f" The input consists of {', '.join(f'{name} ({share:.0%})' for name, share in parts)}."
    return Verdict("Representation", "good", "Not collapsed", words)


def _factors(facts: Facts) -> Verdict | None:
    usage, information = facts.last.get("factor_usage_max"), facts.last.get("factor_information")
    if facts.num_factors == 1:
        return Verdict("Factors", "plain", "One factor", "With a single factor all links have the same posterior.")
    if not facts.num_factors or usage is None or information is None:
        return None
    if facts.collapsed("factor_usage_max"):
        words = f"One factor takes {usage:.0%} of the links."
        return Verdict("Factors", "look", "Collapsed", _advice(facts, "one factor", words))
    if facts.collapsed("factor_information"):
        words = "Every link has nearly the same posterior."
        return Verdict("Factors", "look", "Collapsed", _advice(facts, "every link", words))
    words = (
        f"The most used of the {facts.num_factors} factors takes {usage:.0%} of the links. A link gives "
        f"{information:.0%} of the information that it could give about its factor."
    )
    return Verdict("Factors", "good", "The factors are used", words)


def _labels(facts: Facts) -> Verdict:
    result = facts.evaluation
    if not result:
        words = "The vectors have not been evaluated."
        return Verdict("Labels", "plain", "Not evaluated", words, facts.evaluate)
    if "probe" not in result:
        reason = result.get("skipped", {}).get("probe")
        words = f"No probe: {reason}." if reason else "The graph has no labels; only label-free measures apply."
        return Verdict("Labels", "plain", "No labels to test on", words)
    words = str(result.get("verdict", ""))
    if "does not beat" in words:
        return Verdict("Labels", "look", "Below the best baseline", words)
    if "within the noise" in words:
        return Verdict("Labels", "plain", "Level with the best baseline", words)
    return Verdict("Labels", "good", "Above all baselines", words)


def short(text: object, length: int = LONGEST) -> str:
    r"""Return a text that fits on a page: one line of printable characters, cut in the middle with an ellipsis.

    >>> short("user-0001234", 8), short("x\u202ey"), short(7)
    ('user…234', 'x·y', '7')
    """
    whole, tail = str(text), (length - 1) // 2
    if len(whole) > length:
        whole = f"{whole[: length - 1 - tail]}…{whole[len(whole) - tail :]}"
    return "".join(sign if sign.isprintable() else "·" for sign in whole)


def number(value: float | int | None) -> str:
    """Return a formatted number: thousands separated, four significant digits, a dash for an unknown one.

    >>> number(12345), number(0.123456), number(None), number(1234567.8)
    ('12,345', '0.1235', '–', '1,234,568')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, int) or abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(score: Mapping[str, Any] | None) -> str:
    """Return the mean of a score in percent with its interval.

    >>> percent({"mean": 0.8777, "interval": [0.85, 0.9]}), percent({"mean": 0.5, "interval": None}), percent(None)
    ('87.8% (85.0–90.0)', '50.0%', '–')
    """
    if score is None or score.get("mean") is None:
        return "–"
    interval = score.get("interval")
    tail = f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else ""
    return f"{100 * score['mean']:.1f}%{tail}"


def duration(seconds: float | None) -> str:
    """Return a formatted time.

    >>> duration(9.44), duration(125), duration(7260), duration(None)
    ('9.4 s', '2 min 5 s', '2 h 1 min', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _advice(facts: Facts, start: str, words: str) -> str:
    """The warning of the training that begins so, which has a remedy; without one, these words."""
    found = next((sentence for sentence in facts.warnings if sentence.startswith(start)), "")
    return f"{found[:1].upper()}{found[1:]}." if found else words
