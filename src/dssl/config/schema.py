"""Every setting once: its name, default, bounds and help sentence, as frozen models.

`dssl.config.fields` finds, reads, writes and compares them; `dssl.config.resolve` puts a configuration together.
Nothing below `dssl.model` takes a configuration: classes take plain values.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from dssl.config import methods as of
from dssl.config.methods import MethodSection, Section, Traits


class ReadOptions(Section):
    """Which graph is read, and how its files are read; the one list of these options."""

    source: str = Field(
        default="", description="Data set name, python: or synthetic: spec, edge file, or packed graph folder."
    )
    nodes: str | None = Field(default=None, description="Node table: id, label and feature columns.")
    source_column: str | None = Field(default=None, description="Edge file column with the source node.")
    target_column: str | None = Field(default=None, description="Edge file column with the target node.")
    weight_column: str | None = Field(default=None, description="Edge file column with the edge weight.")
    id_column: str | None = Field(default=None, description="Node table column with the node id.")
    label_column: str | None = Field(default=None, description="Node table column with the class label.")
    feature_columns: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Node table columns used as features; default: all other columns."
    )
    header: bool | None = Field(
        default=None, description="First line of the edge file holds column names; default: detected."
    )
    directed: bool = Field(default=False, description="Keep edge directions; otherwise every edge counts both ways.")
    self_loops: Literal["remove", "keep"] = Field(default="remove", description="Treatment of self loops.")


class GraphSettings(ReadOptions):
    """The graph and its preparation."""

    row_scale: bool = Field(
        default=False, description="Divide the features of each node by the sum of their sizes, as for counts of words."
    )
    structure: Literal["auto", "degree", "svd", "identity"] = Field(
        default="auto", description="Features made from the links when the nodes have none."
    )
    structure_dim: int = Field(default=64, ge=1, description="Number of columns of the features made from the links.")


class EncoderSettings(Section):
    """The network that turns features and links into vectors."""

    name: Literal["gcn", "gat", "sage", "gin", "mlp", "hops", "custom"] = Field(
        default="hops", description="Kind of encoder; custom is a torch module of yours, given in Python."
    )
    dim: int = Field(default=64, ge=1, description="Length of the trained vector of a node.")
    hidden_dim: int = Field(default=64, ge=1, description="Width of the hidden layers.")
    layers: int = Field(default=2, ge=1, le=16, description="Number of layers: how many links away a node sees.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Share of hidden values dropped in training.")
    batch_norm: bool | None = Field(
        default=None,
        description="Normalise each hidden value over the nodes; by default with hops on fewer features than dim / 4.",
    )
    high_pass: bool = Field(
        default=False, description="Of hops: also how a node's features differ from the mean of its neighbours'."
    )
    skip: bool = Field(
        default=True, description="Put principal components of features and links beside the trained vector."
    )
    skip_dim: int = Field(
        default=64,
        ge=1,
        description="Components of the features and of each of their averages; twice of smoothed ones.",
    )
    skip_link_dim: int = Field(default=256, ge=1, description="Components of the links.")

    @model_validator(mode="after")
    def _keep_high_pass_to_hops(self) -> EncoderSettings:
        if self.high_pass and self.name != "hops":
            raise ValueError(f"high_pass is of the encoder 'hops', not of {self.name!r}")
        return self


class DSSLSettings(MethodSection):
    """Decoupled self-supervised learning; the paper's symbols in brackets."""

    traits = Traits(
        "dssl.model:DSSLModel",
        "Xiao et al., NeurIPS 2022",
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales="links; mini-batches",
    )
    name: Literal["dssl"] = Field(default="dssl", description="Method that trains the encoder.")
    num_factors: int = Field(default=8, ge=1, le=1024, description="Number of latent factors behind the links [K].")
    relation: Literal["shift", "map"] = Field(
        default="shift", description="How a factor leads from a node to its neighbour: by a shift, or by a matrix."
    )
    shift_scale: float = Field(default=0.6, ge=0, description="Strength of the shift or the matrix of a factor [beta].")
    prototype_variance: float = Field(default=0.2, gt=0, description="Variance of nodes around prototypes [sigma1^2].")
    link_variance: float = Field(
        default=0.1, gt=0, description="Variance of a neighbour around its prediction [sigma2^2]."
    )
    momentum: float = Field(
        default=0.99, ge=0, le=1, description="Share of the target encoder kept in each step [tau]."
    )
    estimator: Literal["exact", "gumbel", "gumbel-soft"] = Field(
        default="exact", description="How the expectation over the factors is taken."
    )
    temperature: float = Field(default=0.5, gt=0, description="Temperature of the Gumbel estimators [gamma].")
    inference: Literal["amortised", "exact", "uniform"] = Field(
        default="amortised",
        description="Where the posterior of a link comes from: a network, the closed form, or nowhere.",
    )
    head: Literal["concat", "product"] = Field(
        default="concat", description="How the inference network joins two nodes."
    )
    local_weight: float = Field(default=1.0, ge=0, description="Weight of predicting the neighbours.")
    global_weight: float = Field(default=1.0, ge=0, description="Weight of agreeing with the prototypes.")
    entropy_weight: float = Field(default=0.1, ge=0, description="Weight of the entropy of each link's posterior.")
    balance_weight: float = Field(default=0.2, ge=0, description="Weight of the entropy of the mean posterior.")
    prototype_update: bool = Field(
        default=True, description="Set the prototypes from all nodes after each epoch [Eq. 8]."
    )
    center: bool = Field(default=True, description="Subtract the mean before vectors are scaled to length one.")
    projector: bool = Field(default=True, description="Train through a projection that the embedding is taken before.")
    reconstruction_weight: float = Field(default=5.0, ge=0, description="Weight of reconstructing the features.")
    reconstruction_dim: int = Field(default=256, ge=1, description="Components of the features that are reconstructed.")
    link_reconstruction_weight: float = Field(
        default=5.0, ge=0, description="Weight of reconstructing the links, where they can be foretold."
    )
    link_reconstruction_dim: int = Field(
        default=128, ge=1, description="Components of the links that are reconstructed."
    )
    negatives: int = Field(default=0, ge=0, description="Random nodes per node that it is pushed away from.")
    distillation_weight: float = Field(
        default=1.0, ge=0, description="Weight of teaching the factors the clusters of linked pairs of nodes."
    )
    factor_readout: bool = Field(
        default=False, description="Put the mean of the neighbours' vectors for each factor beside a node's own."
    )


MethodSettings = Annotated[
    DSSLSettings
    | of.DGISettings
    | of.GAESettings
    | of.VGAESettings
    | of.GraphCLSettings
    | of.MVGRLSettings
    | of.BGRLSettings
    | of.GCASettings
    | of.SAGESettings
    | of.CCASSGSettings
    | of.GraphACLSettings
    | of.DeepWalkSettings
    | of.Node2VecSettings
    | of.LINESettings
    | of.Struc2VecSettings,
    Field(discriminator="name"),
]
METHODS: dict[str, type[MethodSection]] = {
    part.model_fields["name"].default: part for part in get_args(get_args(MethodSettings)[0])
}


FULL_BATCH_NODES = 50_000  # the largest graph that is trained full batch by default
LARGE_BATCH, LARGE_STEPS = 1024, 4000  # batch size and step limit of larger graphs by default


class TrainSettings(Section):
    """The training loop."""

    epochs: int = Field(default=100, ge=0, description="Passes over all nodes; 0 leaves the encoder as initialised.")
    learning_rate: float = Field(default=0.005, gt=0, description="Step size of Adam.")
    weight_decay: float = Field(default=0.0, ge=0, description="Pull of the weights towards zero.")
    batch_size: int | None = Field(
        default=None,
        ge=0,
        description="Centre nodes per step; 0 takes all at once. By default all of up to 50,000 nodes, and of more "
        "1,024, in as many epochs as make 4,000 steps, if these are fewer.",
    )
    fanout: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(10, 10), min_length=1, strict=False, description="Neighbours sampled per layer in mini-batches."
    )
    device: str = Field(default="auto", description="auto, cpu, or a torch device such as cuda:0.")
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 leaves the choice to torch.")
    log_every: int = Field(default=1, ge=1, description="Epochs between two lines of metrics.jsonl.")
    checkpoint_every: int = Field(default=10, ge=1, description="Epochs between two states to resume from.")
    patience: int = Field(
        default=0, ge=0, description="Epochs to average the loss over, to stop when it levels off; 0 never stops."
    )
    tolerance: float = Field(
        default=0.01, ge=0, lt=1, description="Share of the loss's decrease so far that patience epochs must add."
    )
    start_from: str = Field(default="", description="Run whose weights training starts from, as by --from.")

    def for_graph(self, num_nodes: int, *, encoder: bool = True) -> TrainSettings:
        """Return the settings with what the size of the graph decides; a method without an encoder has no batches.

        >>> chosen = TrainSettings().for_graph(1_000_000)
        >>> chosen.batch_size, chosen.epochs
        (1024, 4)
        >>> TrainSettings(epochs=7).for_graph(50_000).batch_size
        0
        """
        if self.batch_size is not None:
            return self
        if num_nodes <= FULL_BATCH_NODES or not encoder:
            return self.model_copy(update={"batch_size": 0})
        epochs = min(self.epochs, max(LARGE_STEPS * LARGE_BATCH // num_nodes, 1))
        return self.model_copy(update={"batch_size": LARGE_BATCH, "epochs": epochs, "checkpoint_every": 1})


class EvaluateSettings(Section):
    """How embeddings are judged."""

    protocol: Literal["random", "geom-gcn", "linkx", "heterophilous", "public"] = Field(
        default="random", description="Splits of the labelled nodes: random, or those published with a data set."
    )
    splits: int = Field(default=10, ge=1, le=1000, description="Number of random splits; published ones are all taken.")
    split_seed: int = Field(
        default=0, ge=0, lt=2**32, description="Seed of the splits: runs of other seeds are judged on the same ones."
    )
    train_share: float = Field(
        default=0.6, gt=0, lt=1, description="Share of labelled nodes that train the linear probe."
    )
    validation_share: float = Field(
        default=0.2, gt=0, lt=1, description="Share of labelled nodes that choose its settings."
    )
    scaling: Literal["chosen", "global", "columns", "plain"] = Field(
        default="chosen",
        description="Scaling of the columns for the probe: global or by columns as validation has it, or one of three.",
    )
    links: bool = Field(default=False, description="Train once more without some of the links, and rank those.")

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of train, validation and test in random splits."""
        return (self.train_share, self.validation_share, 1 - self.train_share - self.validation_share)

    @model_validator(mode="after")
    def _leave_a_test_part(self) -> EvaluateSettings:
        if self.train_share + self.validation_share >= 1:
            raise ValueError("train_share and validation_share must sum to less than 1, to leave nodes for testing")
        return self


class Config(Section):
    """A complete configuration.

    >>> Config(seed=3, encoder=EncoderSettings(dim=32)).encoder.dim
    32
    """

    seed: int = Field(default=0, ge=0, lt=2**32, description="Every use of chance follows from it.")
    preset: str = Field(default="default", description="Named settings to start from: default or paper.")
    recipe: str = Field(default="", description="Published settings to start from: NAME, NAME:DATASET or a TOML file.")
    graph: GraphSettings = GraphSettings()
    encoder: EncoderSettings = EncoderSettings()
    method: MethodSettings = DSSLSettings()
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    # The paper to the letter, with the collapse that docs/methods/dssl.md shows.
    "paper": {
        "encoder": {"name": "gcn", "skip": False},
        "method": {
            "estimator": "gumbel",
            "head": "product",
            "entropy_weight": 1.0,
            "balance_weight": 0.0,
            "center": False,
            "projector": False,
            "reconstruction_weight": 0.0,
            "link_reconstruction_weight": 0.0,
            "distillation_weight": 0.0,
        },
    },
}
