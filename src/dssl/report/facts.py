"""What a report says of a run: read from its folder, and put into plain sentences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dssl.config.methods import DSSLSettings
from dssl.config.schema import Config
from dssl.errors import DsslError
from dssl.graph.preparation import links
from dssl.runs import run_folder, workflow

if TYPE_CHECKING:
    from dssl.evaluation.projection import Map
    from dssl.graph import Graph
    from dssl.model.factors import Factors

LONGEST = 48  # characters of an id, a label or a name on a page
SETTLED = 0.01  # change of the loss, of all that it fell, over a tenth of the training


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What the files of a run hold.

    Args:
        folder: the run folder.
        config: its settings.
        summary: sizes and homophily of the graph.
        changes: what was done to the graph.
        warnings: what went wrong in training.
        records: a record per epoch; a value that was not finite is none.
        evaluation: content of ``evaluation.json``, empty if the run was not evaluated.
        environment: content of ``environment.json``.
    """

    folder: Path
    config: Config
    summary: dict[str, Any]
    changes: list[str]
    warnings: list[str]
    records: list[dict[str, float | None]]
    evaluation: dict[str, Any]
    environment: dict[str, Any]

    @property
    def name(self) -> str:
        """What the graph is called."""
        return short(self.summary.get("name", "graph"))

    @property
    def evaluate(self) -> str:
        """The command that evaluates the run."""
        return f"dssl evaluate {shlex.quote(str(self.folder))}"

    @property
    def last(self) -> dict[str, float | None]:
        """The record of the last epoch, empty if there was none."""
        return self.records[-1] if self.records else {}

    @property
    def num_factors(self) -> int:
        """Number of factors K; 0 of a method without."""
        return self.config.method.num_factors if isinstance(self.config.method, DSSLSettings) else 0


@dataclass(frozen=True, slots=True, eq=False)
class Insides:
    """What is found by reading the graph and the model of a run again.

    Args:
        places: the nodes in the plane.
        graph: the graph as the model sees it, none if it cannot be read any more.
        factors: the factors of its links, none without.
        notes: sentences on what could not be had.
    """

    places: Map
    graph: Graph | None
    factors: Factors | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement in words.

    Args:
        about: what is judged.
        state: whether it is as it should be.
        head: the judgement in a few words.
        words: the reason, one or two sentences.
        command: what to do next, if anything.
    """

    about: str
    state: Literal["good", "look", "plain"]
    head: str
    words: str
    command: str = ""


def read(folder: Path) -> Facts:
    """Read the files of a finished run; nothing is computed."""
    config = run_folder.read_config(folder)
    described = run_folder.read_json(folder / run_folder.GRAPH)
    summary = described.get("summary")
    if not isinstance(summary, dict):
        raise DsslError(f"{folder / run_folder.GRAPH} is damaged: it has no summary of the graph; fit the run again")
    return Facts(
        folder=folder,
        config=config,
        summary=summary,
        changes=described.get("changes", []),
        warnings=described.get("warnings", []),
        records=[dict(record) for record in run_folder.read_metrics(folder)],
        evaluation=run_folder.read_json(folder / run_folder.EVALUATION)
        if (folder / run_folder.EVALUATION).exists()
        else {},
        environment=run_folder.read_json(folder / run_folder.ENVIRONMENT),
    )


def look_inside(facts: Facts, *, on_stage: Callable[[str], None] = lambda _: None) -> Insides:
    """Read the graph of a run again, find its factors, and lay its nodes out.

    A graph that is not as it was, or not there, is no reason to have no report: it then has less to show, and says so.

    Args:
        facts: what the files of the run hold.
        on_stage: called with the name of each part before it starts.
    """
    from dssl.evaluation import projection
    from dssl.model.estimator import Embedder

    on_stage("map of the embeddings")
    places = projection.map_of(facts.folder)
    on_stage("graph")
    settings = facts.config.graph
    try:
        fitted = workflow.fitted_graph(facts.folder)
        if fitted.num_nodes != len(places.points):
            raise DsslError(f"the graph has {fitted.num_nodes:,} nodes and the embeddings {len(places.points):,}")
    except DsslError as error:
        return Insides(places, None, None, [f"No labels, links and factors here: {error}."])
    graph = links(fitted, directed=settings.directed, self_loops=settings.self_loops)
    if not facts.num_factors:
        return Insides(places, graph, None, [])
    on_stage("factors")
    try:
        return Insides(places, graph, Embedder.load(facts.folder).factors(fitted), [])
    except DsslError as error:
        return Insides(places, graph, None, [f"No factors here: {error}."])


def verdicts(facts: Facts) -> list[Verdict]:
    """Say how the training went, whether anything collapsed, and what the labels say."""
    found = [_training(facts), _representation(facts), _factors(facts), _labels(facts)]
    return [verdict for verdict in found if verdict is not None]


def _training(facts: Facts) -> Verdict:
    if not facts.records:
        return Verdict("Training", "plain", "No training", "No epoch was trained: the vectors are those of the start.")
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
    words += f" The last tenth of the training still brought {share:.0%} of all that it fell: more epochs may help."
    return Verdict("Training", "plain", "The loss was still falling", words)


def _representation(facts: Facts) -> Verdict | None:
    rank, dim = facts.last.get("effective_rank"), facts.config.encoder.dim
    if rank is None:
        return None
    said = [sentence for sentence in facts.warnings if sentence.startswith("the representation")]
    if said:
        return Verdict("Representation", "look", "Collapsed", _sentence(said[0]))
    words = f"The trained vectors have an effective rank of {rank:.1f} of {dim}: they differ in many directions."
    return Verdict("Representation", "good", "Not collapsed", words)


def _factors(facts: Facts) -> Verdict | None:
    usage, told = facts.last.get("factor_usage_max"), facts.last.get("factor_information")
    if facts.num_factors == 1:
        return Verdict("Factors", "plain", "One factor", "With a single factor all links have the same reason.")
    if not facts.num_factors or usage is None or told is None:
        return None
    said = [sentence for sentence in facts.warnings if not sentence.startswith("the representation")]
    if said:
        return Verdict("Factors", "look", "Collapsed", _sentence(said[0]))
    words = (
        f"The most used of the {facts.num_factors} takes {usage:.0%} of the links, and knowing a link tells "
        f"{told:.0%} of what could be told about its factor."
    )
    return Verdict("Factors", "good", "The factors are used", words)


def _labels(facts: Facts) -> Verdict:
    result = facts.evaluation
    if not result:
        words = "How good the vectors are has not been measured."
        return Verdict("Labels", "plain", "Not evaluated", words, facts.evaluate)
    if "probe" not in result:
        reason = result.get("skipped", {}).get("probe")
        words = f"No probe: {reason}." if reason else "The graph has no labels; only label-free measures apply."
        return Verdict("Labels", "plain", "No labels to test on", words)
    words = str(result.get("verdict", ""))
    if "does not beat" in words:
        return Verdict("Labels", "look", "Below the best baseline", words)
    if "within the noise" in words:
        return Verdict("Labels", "plain", "Beside the best baseline", words)
    return Verdict("Labels", "good", "Above all baselines", words)


def short(text: object, length: int = LONGEST) -> str:
    r"""Return a text that fits on a page: one line, no signs that cannot be seen, cut with an ellipsis.

    >>> short("a" * 100, 5), short("x\u202ey"), short(7)
    ('aaaa…', 'x·y', '7')
    """
    plain = "".join(sign if sign.isprintable() else "·" for sign in str(text)[: length + 1])
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def number(value: float | int | None) -> str:
    """Return a figure for people: thousands separated, four significant digits, a dash for what is not known.

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
    """Return a time for people.

    >>> duration(9.44), duration(125), duration(7260), duration(None)
    ('9.4 s', '2 min 5 s', '2 h 1 min', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."
