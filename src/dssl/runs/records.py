"""The JSON files of a run as typed values: one writer and one reader of all of them; an error names a damaged file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs this one below Python 3.12

from dssl.errors import RunError
from dssl.runtime import files

AGAIN = "fit or evaluate the run again"
_Value = TypeVar("_Value")

Record = dict[str, int | float | None]  # of an epoch; a value that was not finite is None


class Summary(TypedDict, total=False):
    """Sizes and homophily of a graph, as `dssl.graph.statistics.summary` returns them."""

    name: str
    nodes: int
    edges: int
    arcs: int
    directed: bool
    weighted: bool
    self_loops: int
    isolated_nodes: int
    components: int
    largest_component: int
    mean_degree: float
    max_degree: int
    features: int
    feature_storage: str | None
    feature_density: float | None
    nodes_without_features: int | None
    classes: int
    labelled_nodes: int
    class_sizes: list[int] | None
    edge_homophily: float | None
    class_average_homophily: float | None
    node_homophily: float | None
    adjusted_homophily: float | None
    history: list[str]


Limits = dict[str, dict[Literal["below", "above"], FiniteFloat]]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class GraphRecord(_Model):
    """``graph.json``: the graph of a run, its preparation, and the health of the training on it.

    Args:
        fingerprint: of the graph.
        summary: sizes and homophily.
        start: SHA-256 of the weights that a warm start began with.
        packed: folder of a packed graph of the user's that the run refers to, instead of a copy.
        left_out: parts that the folder does not hold, each with the reason.
        changes: steps of preparation, in words.
        warnings: sentences about the training.
        limits: by recorded number, the value ``below`` or ``above`` which it shows a collapse.
        factor_titles: a title of each factor, such as ``factor 0 · call: method → function``.
    """

    fingerprint: str
    summary: Summary
    start: str | None = None
    packed: str | None = None
    left_out: dict[str, str] = {}
    changes: list[str] = []
    warnings: list[str] = []
    limits: Limits = {}
    factor_titles: list[str] = []


class Environment(_Model):
    """``environment.json``: versions, machine, command, time and memory."""

    command: str = ""
    started: str = ""
    finished: str = ""
    seconds: float = 0.0
    resumed_at_epoch: int = 0
    peak_memory_mb: float = 0.0
    python: str = ""
    packages: dict[str, str] = {}
    torch_build: str = ""
    system: str = ""
    processor: str = ""
    cores: int | None = None


class ScoreRecord(TypedDict):
    """A measure over the splits."""

    mean: float
    std: float
    interval: tuple[float, float] | None
    splits: list[float | None]


class _Choice(TypedDict):
    scaling: str
    strength: float


class ProbeRecord(TypedDict, total=False):
    """The linear probe."""

    measure: str
    reason: str
    class_weight: str
    accuracy: ScoreRecord
    balanced_accuracy: ScoreRecord
    macro_f1: ScoreRecord
    average_precision: ScoreRecord
    roc_auc: ScoreRecord
    val_accuracy: ScoreRecord
    val_balanced_accuracy: ScoreRecord
    val_macro_f1: ScoreRecord
    val_average_precision: ScoreRecord
    val_roc_auc: ScoreRecord
    chosen: list[_Choice]


class BaselineRecord(TypedDict, total=False):
    """A training-free baseline: number of columns, accuracy and the probe's measure, and its name in words."""

    dim: int
    accuracy: ScoreRecord
    balanced_accuracy: ScoreRecord
    macro_f1: ScoreRecord
    average_precision: ScoreRecord
    roc_auc: ScoreRecord
    title: str


class SplitsRecord(TypedDict):
    """The splits of an evaluation."""

    protocol: str
    origin: str
    count: int
    labelled: int
    sizes: list[list[int]]
    left_out: list[int]


class KindsRecord(TypedDict):
    """Agreement of factors with kinds of links: scores by row, and number of links by factor and kind."""

    links: int
    rows: dict[str, dict[str, float]]
    table: list[list[int]]
    names: list[str]


class Evaluation(TypedDict, total=False):
    """``evaluation.json``."""

    splits: SplitsRecord
    skipped: dict[str, str]
    label_free: dict[str, float | None]
    probe: ProbeRecord
    kmeans: dict[str, float]
    sanity: dict[str, BaselineRecord]
    verdict: str
    links: dict[str, float]
    links_verdict: str
    kinds: KindsRecord


class Direction(_Model):
    """A direction of the spectrum of homophily.

    Args:
        value: its eigenvalue: near 1 neighbours are similar, below 0 opposite.
        columns: feature columns that make it up, the main ones first.
    """

    value: FiniteFloat
    columns: list[str]


class Homophily(_Model):
    """The spectrum of homophily.

    Args:
        chance: largest size of an eigenvalue of shuffled nodes.
        directions: number of directions above it.
        first: the first of these.
    """

    chance: FiniteFloat
    directions: int
    first: list[Direction]


class InputRecord(_Model):
    """``features.json``, apart from the feature columns: the input of an encoder on topics.

    Args:
        weights: weight of each part; empty for raw features.
        homophily: the spectrum of homophily, none without topics.
    """

    weights: dict[str, FiniteFloat] = {}
    homophily: Homophily | None = None

    @property
    def shares(self) -> dict[str, float]:
        """Fraction of each part in the input of the encoder (topics, positions, …)."""
        total = sum(value**2 for value in self.weights.values())
        return {name: value**2 / total for name, value in self.weights.items()} if total > 0 else {}


def read(path: Path, kind: type[_Value]) -> _Value:
    """Read a JSON file of a run.

    Args:
        path: the file.
        kind: type of the result, such as `GraphRecord`.
    """
    text = files.read_text(path, AGAIN)
    try:
        return TypeAdapter(kind).validate_python(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "content"
        raise RunError(f"{path} is damaged: {where}: {first['msg'][:1].lower()}{first['msg'][1:]}; {AGAIN}") from None
    except (ValueError, RecursionError):
        raise RunError(f"{path} is damaged: no valid JSON; {AGAIN}") from None


def read_epochs(path: Path) -> list[Record]:
    """Read ``metrics.jsonl``; a last line without its end, which a kill cut short, is left out."""
    lines = files.read_text(path, AGAIN).split("\n")[:-1]
    try:
        found = TypeAdapter(list[Record]).validate_python([json.loads(line) for line in lines])
    except (ValueError, RecursionError):
        raise RunError(f"{path} is damaged: a line is not a record of numbers; fit again with --overwrite") from None
    if not all(isinstance(record.get("epoch"), float | int) for record in found):
        raise RunError(f"{path} is damaged: a line has no epoch; fit again with --overwrite")
    return found


def write(path: Path, kind: type[_Value], value: Mapping[str, Any]) -> _Value:
    """Write a record in the form that `read` returns, and return it; an unknown key is a mistake of the program."""
    adapter = TypeAdapter(kind)
    record = adapter.validate_python(value, extra="forbid")
    files.write_json(path, adapter.dump_python(record, mode="json"))
    return record
