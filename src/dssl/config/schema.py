"""The sections of a configuration: every setting with its default, bounds and help text, as frozen models.

The section of the method is one of `dssl.config.methods`. `dssl.config.fields` looks settings up and compares them;
`dssl.config.resolve` combines layers. Nothing below `dssl.model` takes a configuration: classes take plain values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator
from pydantic_core import PydanticCustomError

from dssl.config.methods import METHODS, DSSLSettings
from dssl.config.registry import MethodSection, Range, Scope, Section, setting

CUSTOM = "custom"  # the name of an encoder that the user passes as a module


class ReadOptions(Section):
    """The graph to read, and how its files are read; the one list of these options."""

    source: str = setting("", "Data set name, python: or synthetic: spec, edge file, or packed graph folder.")
    nodes: str | None = setting(None, "Node table: id, label and feature columns.")
    source_column: str | None = setting(None, "Edge file column with the source node.")
    target_column: str | None = setting(None, "Edge file column with the target node.")
    weight_column: str | None = setting(None, "Edge file column with the edge weight.")
    kind_column: str | None = setting(None, "Edge file column with the kind of the edge; it keeps the direction too.")
    time_column: str | None = setting(
        None, "Edge file column with the time of the edge; edges from the time until on are held out."
    )
    until: str | None = setting(
        None, "First time that is held out: a date, a number, or a percentage of the edges; default: 85%."
    )
    id_column: str | None = setting(None, "Node table column with the node id.")
    label_column: str | None = setting(None, "Node table column with the class label.")
    feature_columns: tuple[str, ...] | None = setting(
        None, "Node table columns used as features; default: all other columns.", strict=False
    )
    column_types: tuple[str, ...] | None = setting(
        None,
        "Types of node table columns, each name=type: number, flag, category, text, date, vector or ignore.",
        strict=False,
    )
    header: bool | None = setting(
        None, "Whether the first line of the edge file holds column names; default: detected."
    )
    count_edges: bool | None = setting(
        None, "Whether the weight of an edge is the number of its rows; default: repeated edges count once."
    )
    trim: bool | None = setting(None, "Whether spaces around node ids are removed; default: they are part of the id.")
    directed: bool = setting(
        False, "Whether edge directions are kept; otherwise every edge counts both ways.", scope=Scope.MODEL
    )
    self_loops: Literal["remove", "keep"] = setting("remove", "Treatment of self loops.", scope=Scope.MODEL)


class GraphSettings(ReadOptions):
    """The graph and its preparation."""

    features: Literal["topics", "raw"] = setting(
        "topics",
        "Input of the encoder: topics, positions and roles of the nodes, or the features as they are.",
        scope=Scope.MODEL,
        search=("topics", "raw"),
    )
    row_scale: bool = setting(
        False, "Whether each row of features is divided by its L1 norm, as for word counts.", scope=Scope.MODEL
    )
    structure: Literal["auto", "degree", "svd", "identity"] = setting(
        "auto", "Features computed from the edges if the nodes have none and features = raw.", scope=Scope.MODEL
    )
    structure_dim: int = setting(64, "Number of features computed from the edges.", ge=1, scope=Scope.MODEL)


class EncoderSettings(Section):
    """The network that maps features and links to vectors."""

    scope: ClassVar[Scope] = Scope.MODEL
    name: Literal["gcn", "gat", "sage", "gin", "mlp", "hops", "custom"] = setting(
        "hops",
        "Encoder architecture; custom is a torch module passed in Python.",
        encoder_only=True,
        search=("hops", "gcn", "sage", "gin", "mlp"),
    )
    dim: int = setting(64, "Length of the vector of a node.", ge=1, search=(16, 32, 64, 128, 256))
    hidden_dim: int = setting(64, "Width of the hidden layers.", ge=1, encoder_only=True, search=(32, 64, 128, 256))
    layers: int = setting(
        2,
        "Number of layers; a node's vector depends on this many hops.",
        ge=1,
        le=16,
        encoder_only=True,
        search=(1, 2, 3),
    )
    dropout: float = setting(
        0.0, "Fraction of hidden values dropped in training.", ge=0, lt=1, encoder_only=True, search=(0.0, 0.2, 0.5)
    )
    batch_norm: bool | None = setting(
        None,
        "Whether hidden values are batch-normalised; by default for hops with fewer than dim / 4 features.",
        encoder_only=True,
        search=(False, True),
    )
    high_pass: bool = setting(
        False,
        "Whether hops also uses the difference between a node and the mean of its neighbours.",
        encoder_only=True,
        search=(False, True),
    )

    @model_validator(mode="after")
    def _keep_high_pass_to_hops(self) -> EncoderSettings:
        if self.high_pass and self.name != "hops":
            raise ValueError(f"high_pass requires the encoder 'hops', not {self.name!r}")
        return self


LARGE_BATCH = 4096  # batch size of larger graphs by default: neighbours of several centres are encoded once
LIMIT, POWER = 20_000, 0.82  # at most 100 epochs for so many nodes; for more, the limit falls with this power


class TrainSettings(Section):
    """The training loop."""

    scope: ClassVar[Scope] = Scope.TRAINING
    epochs: int = setting(
        100, "Passes over all nodes; 0 leaves the encoder as initialised.", ge=0, search=(25, 50, 100, 200, 400)
    )
    learning_rate: float = setting(0.005, "Step size of Adam.", gt=0, encoder_only=True, search=Range(0.0005, 0.02))
    weight_decay: float = setting(
        0.0, "L2 penalty of Adam.", ge=0, encoder_only=True, search=(0.0, 1e-6, 1e-5, 1e-4, 1e-3)
    )
    batch_size: int | None = setting(
        None,
        "Centre nodes per step; 0 is full batch. Default: full batch up to in_memory_nodes; above that 4,096, "
        "with at most 100 epochs at 20,000 nodes, 47 at 50,000 and 4 at a million.",
        ge=0,
        encoder_only=True,
    )
    in_memory_nodes: int = setting(
        20_000,
        "Largest graph, in nodes, that is computed at once in memory; larger ones are computed by blocks, with large "
        "matrices in scratch files.",
        ge=0,
    )
    fanout: tuple[Annotated[int, Field(ge=1)], ...] = setting(
        (10, 10), "Neighbours sampled per layer in mini-batches.", min_length=1, strict=False, encoder_only=True
    )
    device: str = setting("auto", "auto, cpu, or a torch device such as cuda:0.")
    threads: int = setting(0, "CPU threads; 0: one up to 20,000 nodes, then the choice of torch.", ge=0)
    log_every: int = setting(1, "Epochs between two lines of metrics.jsonl.", ge=1, scope=Scope.COMMAND)
    checkpoint_every: int = setting(10, "Epochs between two checkpoints.", ge=1)
    patience: int = setting(0, "Epochs over which the loss is averaged for early stopping; 0 disables it.", ge=0)
    tolerance: float = setting(
        0.01, "Fraction of the total decrease of the loss that patience epochs must add.", ge=0, lt=1
    )
    start_from: str = setting("", "Run whose weights initialise the training (--from).", scope=Scope.COMMAND)

    def for_graph(self, num_nodes: int, *, encoder: bool = True) -> TrainSettings:
        """Return the settings with the batch size and epochs that depend on the size of the graph.

        Args:
            num_nodes: number of nodes.
            encoder: whether the method trains an encoder; only these use mini-batches.

        >>> chosen = TrainSettings().for_graph(1_000_000)
        >>> chosen.batch_size, chosen.epochs
        (4096, 4)
        >>> [TrainSettings().for_graph(nodes).epochs for nodes in (20_000, 20_001, 50_000, 50_001)]
        [100, 100, 47, 47]
        >>> TrainSettings(epochs=7).for_graph(20_000).batch_size
        0
        """
        if self.batch_size is not None:
            return self
        if num_nodes <= self.in_memory_nodes or not encoder:
            return self.model_copy(update={"batch_size": 0})
        epochs = min(self.epochs, max(round(100 * (LIMIT / num_nodes) ** POWER), 1))
        return self.model_copy(update={"batch_size": LARGE_BATCH, "epochs": epochs, "checkpoint_every": 1})

    def threads_for(self, num_nodes: int) -> int:
        """Return the number of threads for a graph; 0 leaves the choice to torch.

        The threads of torch wait for each other at each operation. On a small graph, two gain 10 to 20% on free cores,
        and are several times slower on a busy machine.

        >>> [TrainSettings().threads_for(nodes) for nodes in (20_000, 20_001)], TrainSettings(threads=2).threads_for(9)
        ([1, 0], 2)
        """
        return self.threads or (1 if num_nodes <= LIMIT else 0)


class EvaluateSettings(Section):
    """The evaluation of embeddings."""

    protocol: Literal["random", "balanced", "one-per-group", "geom-gcn", "linkx", "heterophilous", "public"] = setting(
        "random",
        "Splits of the labelled nodes: random, random with as many training nodes per class, random with one node per "
        "group of nodes with the same links and label, or published with a data set.",
    )
    labels: str = setting(
        "",
        "Number of training labels in random splits, such as 20/class or 1%, in place of train_share.",
    )
    splits: int = setting(10, "Number of random splits; published splits are all used.", ge=1, le=1000)
    split_seed: int = setting(0, "Seed of the splits, independent of the seed of training.", ge=0, lt=2**32)
    train_share: float = setting(0.6, "Fraction of labelled nodes that train the linear probe.", gt=0, lt=1)
    validation_share: float = setting(0.2, "Fraction of labelled nodes that select its settings.", gt=0, lt=1)
    scaling: Literal["chosen", "global", "columns", "plain"] = setting(
        "chosen", "Column scaling before the probe; chosen picks global or columns on the validation split."
    )
    measure: Literal["auto", "accuracy", "balanced_accuracy", "macro_f1", "average_precision", "roc_auc"] = setting(
        "auto",
        "Measure of the probe; auto is accuracy, unless one class has three quarters of the labels: then average "
        "precision for two classes, and balanced accuracy for more.",
    )
    class_weight: Literal["none", "balanced"] = setting(
        "none", "Weights of the classes in the probe; balanced weighs nodes by the inverse frequency of their class."
    )
    links: bool = setting(False, "Whether to report link prediction: hold out 15% of the edges, retrain and rank them.")

    @property
    def shares(self) -> tuple[float, float, float]:
        """Fractions of train, validation and test nodes in random splits."""
        return (self.train_share, self.validation_share, 1 - self.train_share - self.validation_share)

    @model_validator(mode="after")
    def _leave_a_test_part(self) -> EvaluateSettings:
        if self.train_share + self.validation_share >= 1:
            raise ValueError("train_share and validation_share must sum to less than 1, to leave nodes for testing")
        if not re.fullmatch(r"([1-9]\d*/class|\d{1,2}(\.\d+)?%)?", self.labels):
            raise ValueError("labels must be a number per class (20/class) or a percentage below 100 (1%)")
        return self


class RunSettings(Section):
    """Optional parts of the run folder."""

    keep_graph: bool = setting(
        True, "Whether the run folder stores the graph, for evaluate, report, explore and factors."
    )
    keep_factors: bool | None = setting(
        None, "Whether it stores the factors of links and nodes, for report and explore. Default: up to 256 MB."
    )


def _method_section(value: Any) -> Any:
    """Validate the table of a method by the section that its name selects."""
    if not isinstance(value, Mapping):
        return value
    name = value.get("name", DSSLSettings.traits.name)
    if not isinstance(name, str) or name not in METHODS:
        raise PydanticCustomError("unknown_method", "unknown method")
    return METHODS[name].model_validate(value)


class Config(Section):
    """A complete configuration.

    >>> Config(seed=3, encoder=EncoderSettings(dim=32)).encoder.dim
    32
    """

    scope: ClassVar[Scope] = Scope.TRAINING
    seed: int = setting(0, "Random seed; the same seed gives the same result.", ge=0, lt=2**32)
    preset: str = setting("default", "Named settings to start from: default or paper.")
    recipe: str = setting("", "Published settings to start from: NAME, NAME:DATASET or a TOML file.")
    graph: GraphSettings = GraphSettings()
    encoder: EncoderSettings = EncoderSettings()
    method: Annotated[SerializeAsAny[MethodSection], BeforeValidator(_method_section)] = DSSLSettings()
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    run: RunSettings = RunSettings()


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    # Algorithm 1 of the paper within its grid, including the collapse shown in docs/methods/dssl.md. Batch size, fanout
    # and epochs are not stated there.
    "paper": {
        "graph": {"features": "raw"},
        "encoder": {"name": "gcn", "layers": 2, "dim": 64, "hidden_dim": 64},
        "method": {
            "num_factors": 8,
            "shift_scale": 0.6,
            "prototype_variance": 0.6,
            "link_variance": 0.2,
            "momentum": 0.9,
            "estimator": "gumbel",
            "temperature": 0.6,
            "head": "product",
            "head_scale": False,
            "entropy_weight": 1.0,
            "balance_weight": 0.0,
            "prototype_pass": True,
            "center": False,
            "projector": False,
            "reconstruction_weight": 0.0,
            "link_reconstruction_weight": 0.0,
            "distillation_weight": 0.0,
        },
        "train": {"learning_rate": 0.005, "weight_decay": 5e-6, "batch_size": 128, "fanout": (5, 5)},
    },
}
