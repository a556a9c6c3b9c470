"""The settings of the methods that DSSL is compared with: one section each, with what the method can do.

`dssl.config.schema` puts them together with DSSL's own; the sections there are the registry of methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen group of settings that refuses unknown names and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a method is, for the table of ``dssl methods`` and for those who build it.

    Args:
        home: module below ``dssl.methods`` and class, as ``module:Class``.
        citation: where it was published.
        inductive: whether a fitted model has vectors for nodes that it was not fitted on.
        features: whether it looks at features.
        directed: whether it can keep the direction of links.
        weighted: whether weights of links matter.
        scales: what a step costs, in a few words.
        encoder: whether it trains an encoder, or a table with a row per node.
        defaults: defaults of other sections that it has of its own.
    """

    home: str
    citation: str
    inductive: bool
    features: bool
    directed: bool
    weighted: bool
    scales: str
    encoder: bool = True
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class MethodSection(Section):
    """The settings of one method."""

    traits: ClassVar[Traits]


def _encoder_traits(home: str, citation: str, *, scales: str = "links; mini-batches", **changes: Any) -> Traits:
    """The traits of a method with an encoder; its vectors are its own, with no fixed blocks beside them."""
    encoder = {"name": "gcn", "skip": False, **changes.pop("encoder", {})}
    return Traits(
        home,
        citation,
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales=scales,
        defaults={"encoder": encoder, "train": changes.pop("train", {})},
        **changes,
    )


class DGISettings(MethodSection):
    """Deep graph infomax."""

    traits = _encoder_traits(
        "dgi:DGI",
        "Veličković et al., ICLR 2019",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
    )
    name: Literal["dgi"] = Field(default="dgi", description="Method that trains the encoder.")


class GAESettings(MethodSection):
    """Graph autoencoder."""

    traits = _encoder_traits(
        "gae:GAE", "Kipf & Welling, NeurIPS workshop 2016", train={"epochs": 200, "learning_rate": 0.01}
    )
    name: Literal["gae"] = Field(default="gae", description="Method that trains the encoder.")
    pairs: int = Field(default=65536, ge=1, description="Most links, and as many other pairs, that a step looks at.")


class VGAESettings(MethodSection):
    """Variational graph autoencoder."""

    traits = _encoder_traits(
        "gae:VGAE", "Kipf & Welling, NeurIPS workshop 2016", train={"epochs": 200, "learning_rate": 0.01}
    )
    name: Literal["vgae"] = Field(default="vgae", description="Method that trains the encoder.")
    pairs: int = Field(default=65536, ge=1, description="Most links, and as many other pairs, that a step looks at.")
    divergence_weight: float = Field(
        default=1.0, ge=0, description="Weight of the divergence from the prior; 1 is the bound on the likelihood."
    )


View = Literal["none", "node", "link", "mask", "subgraph"]


class GraphCLSettings(MethodSection):
    """Graph contrastive learning with augmentations, in its form for nodes."""

    traits = _encoder_traits(
        "graphcl:GraphCL",
        "You et al., NeurIPS 2020",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
    )
    name: Literal["graphcl"] = Field(default="graphcl", description="Method that trains the encoder.")
    objective: Literal["infomax", "nt-xent"] = Field(
        default="infomax", description="Tell summaries of views from corrupted nodes, or nodes from other nodes."
    )
    first_view: View = Field(default="link", description="Augmentation of the first view.")
    second_view: View = Field(default="mask", description="Augmentation of the second view.")
    strength: float = Field(default=0.2, ge=0, le=1, description="Share of nodes or links that a view changes.")
    temperature: float = Field(default=0.5, gt=0, description="Temperature of nt-xent [tau].")
    anchors: int = Field(default=1024, ge=2, description="Most nodes that nt-xent compares with each other in a step.")


class MVGRLSettings(MethodSection):
    """Contrastive multi-view representation learning: links against their diffusion."""

    traits = _encoder_traits(
        "mvgrl:MVGRL",
        "Hassani & Khasahmadi, ICML 2020",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
        scales="links and N·neighbours; mini-batches",
    )
    name: Literal["mvgrl"] = Field(default="mvgrl", description="Method that trains the encoder.")
    diffusion: Literal["ppr", "heat"] = Field(
        default="ppr", description="Kind of the second view: personalised PageRank, or the heat kernel."
    )
    teleport: float = Field(default=0.2, gt=0, lt=1, description="Chance of ppr to go back to the start [alpha].")
    heat_time: float = Field(default=5.0, gt=0, description="Time that heat spreads for [t].")
    neighbours: int = Field(default=64, ge=1, description="Entries of the diffusion that are kept of each node.")
    precision: float = Field(
        default=1e-4, gt=0, lt=1, description="Mass per link below which the diffusion goes no further."
    )


class BGRLSettings(MethodSection):
    """Bootstrapped graph latents."""

    traits = _encoder_traits(
        "bgrl:BGRL",
        "Thakoor et al., ICLR 2022",
        encoder={"batch_norm": True},
        train={"epochs": 200, "learning_rate": 0.005, "weight_decay": 1e-5},
    )
    name: Literal["bgrl"] = Field(default="bgrl", description="Method that trains the encoder.")
    momentum: float = Field(
        default=0.9, ge=0, le=1, description="Share of the target encoder kept in the first step; it rises to 1 [tau]."
    )
    predictor_dim: int = Field(default=256, ge=1, description="Width of the hidden layer of the predictor.")
    link_drop_1: float = Field(default=0.5, ge=0, le=1, description="Share of links that the first view loses.")
    link_drop_2: float = Field(default=0.5, ge=0, le=1, description="Share of links that the second view loses.")
    feature_mask_1: float = Field(default=0.5, ge=0, le=1, description="Share of features masked in the first view.")
    feature_mask_2: float = Field(default=0.5, ge=0, le=1, description="Share of features masked in the second view.")


class GCASettings(MethodSection):
    """Graph contrastive learning with adaptive augmentation."""

    traits = _encoder_traits(
        "gca:GCA",
        "Zhu et al., WWW 2021",
        train={"epochs": 200, "learning_rate": 0.001, "weight_decay": 1e-5},
        scales="links and anchors²; mini-batches",
    )
    name: Literal["gca"] = Field(default="gca", description="Method that trains the encoder.")
    centrality: Literal["degree", "pagerank", "eigenvector"] = Field(
        default="degree", description="What makes a node, and so its links and features, worth keeping."
    )
    temperature: float = Field(default=0.4, gt=0, description="Temperature of the contrast [tau].")
    projector_dim: int = Field(default=128, ge=1, description="Width of the projector.")
    link_drop_1: float = Field(default=0.2, ge=0, le=1, description="Mean chance of a link to leave the first view.")
    link_drop_2: float = Field(default=0.4, ge=0, le=1, description="Mean chance of a link to leave the second view.")
    feature_mask_1: float = Field(default=0.3, ge=0, le=1, description="Mean chance of a feature in the first view.")
    feature_mask_2: float = Field(default=0.4, ge=0, le=1, description="Mean chance of a feature in the second view.")
    most_dropped: float = Field(default=0.7, ge=0, le=1, description="Largest of these chances [p_tau].")
    anchors: int = Field(default=1024, ge=2, description="Most nodes that are compared with each other in a step.")


class SAGESettings(MethodSection):
    """GraphSAGE without labels."""

    traits = _encoder_traits(
        "sage:UnsupervisedSAGE",
        "Hamilton et al., NeurIPS 2017",
        encoder={"name": "sage"},
        train={"epochs": 100, "learning_rate": 0.005},
    )
    name: Literal["sage"] = Field(default="sage", description="Method that trains the encoder.")
    walk_length: int = Field(default=5, ge=1, description="Steps of the walks that a node's partners are drawn from.")
    negatives: int = Field(default=20, ge=1, description="Random nodes per node that it is pushed away from [Q].")


class CCASSGSettings(MethodSection):
    """Canonical correlation analysis between two views."""

    traits = _encoder_traits(
        "cca_ssg:CCASSG",
        "Zhang et al., NeurIPS 2021",
        train={"epochs": 100, "learning_rate": 0.001},
    )
    name: Literal["cca-ssg"] = Field(default="cca-ssg", description="Method that trains the encoder.")
    decorrelation_weight: float = Field(default=1e-3, ge=0, description="Weight of decorrelating columns [lambda].")
    link_drop: float = Field(default=0.4, ge=0, le=1, description="Share of links that each view loses.")
    feature_mask: float = Field(default=0.1, ge=0, le=1, description="Share of features masked in each view.")


class GraphACLSettings(MethodSection):
    """Asymmetric contrastive learning without augmentations."""

    traits = _encoder_traits(
        "graphacl:GraphACL",
        "Xiao et al., NeurIPS 2023",
        train={"epochs": 200, "learning_rate": 0.01},
        scales="links and N·negatives; mini-batches",
    )
    name: Literal["graphacl"] = Field(default="graphacl", description="Method that trains the encoder.")
    momentum: float = Field(
        default=0.95, ge=0, le=1, description="Share of the target encoder kept in each step [tau]."
    )
    temperature: float = Field(default=0.5, gt=0, description="Temperature of the contrast.")
    predictor_dim: int = Field(default=256, ge=1, description="Width of the hidden layer of the predictor.")
    negatives: int = Field(default=512, ge=1, description="Random nodes that all nodes are pushed away from in a step.")
    pairs: int = Field(default=65536, ge=1, description="Most links that a step looks at.")


def _table_traits(home: str, citation: str, *, scales: str, epochs: int, weighted: bool = True) -> Traits:
    """The traits of a method with a row per node: it knows the nodes that it was fitted on, and links alone."""
    return Traits(
        home,
        citation,
        inductive=False,
        features=False,
        directed=True,
        weighted=weighted,
        scales=scales,
        encoder=False,
        defaults={"encoder": {"skip": False}, "train": {"epochs": epochs}},
    )


class DeepWalkSettings(MethodSection):
    """Skip-gram on random walks; ``train.epochs`` is the number of walks per node."""

    traits = _table_traits(
        "node2vec:Node2Vec", "Perozzi et al., KDD 2014", scales="walks; one thread, no matrix", epochs=40
    )
    name: Literal["deepwalk"] = Field(default="deepwalk", description="Method that trains a vector per node.")
    walk_length: int = Field(default=40, ge=1, description="Steps of a walk [t].")
    window: int = Field(default=10, ge=1, description="Largest distance of two nodes along a walk [w].")
    negatives: int = Field(default=5, ge=1, description="Random nodes per pair that are pushed away.")
    step_size: float = Field(default=0.025, gt=0, description="Step of the first epoch; it falls to nearly nothing.")


class Node2VecSettings(MethodSection):
    """Skip-gram on biased walks; ``train.epochs`` is the number of walks per node."""

    traits = _table_traits(
        "node2vec:Node2Vec", "Grover & Leskovec, KDD 2016", scales="walks; one thread, no matrix", epochs=20
    )
    name: Literal["node2vec"] = Field(default="node2vec", description="Method that trains a vector per node.")
    return_weight: float = Field(default=1.0, gt=0, description="How much less likely a walk turns back [p].")
    away_weight: float = Field(default=0.5, gt=0, description="How much less likely a walk goes away [q].")
    walk_length: int = Field(default=80, ge=1, description="Steps of a walk [l].")
    window: int = Field(default=10, ge=1, description="Largest distance of two nodes along a walk [k].")
    negatives: int = Field(default=5, ge=1, description="Random nodes per pair that are pushed away.")
    step_size: float = Field(default=0.025, gt=0, description="Step of the first epoch; it falls to nearly nothing.")


class LINESettings(MethodSection):
    """First- and second-order proximity, side by side."""

    traits = _table_traits("line:LINE", "Tang et al., WWW 2015", scales="links; one thread, no matrix", epochs=500)
    name: Literal["line"] = Field(default="line", description="Method that trains a vector per node.")
    negatives: int = Field(default=5, ge=1, description="Random nodes per link that are pushed away [K].")
    step_size: float = Field(default=0.025, gt=0, description="Step of the first epoch; it falls to nearly nothing.")


class Struc2VecSettings(MethodSection):
    """Skip-gram on walks among nodes in like places; ``train.epochs`` is the number of walks per node."""

    traits = _table_traits(
        "struc2vec:Struc2Vec",
        "Ribeiro et al., KDD 2017",
        scales="N log N pairs, N rings",
        epochs=10,
        weighted=False,
    )
    name: Literal["struc2vec"] = Field(default="struc2vec", description="Method that trains a vector per node.")
    rings: int = Field(
        default=4, ge=1, le=16, description="Rings around a node that are compared, itself the first [K]."
    )
    stay: float = Field(default=0.3, gt=0, le=1, description="Chance of a walk to stay in its layer [q].")
    walk_length: int = Field(default=80, ge=1, description="Steps of a walk.")
    window: int = Field(default=10, ge=1, description="Largest distance of two nodes along a walk.")
    negatives: int = Field(default=5, ge=1, description="Random nodes per pair that are pushed away.")
    step_size: float = Field(default=0.025, gt=0, description="Step of the first epoch; it falls to nearly nothing.")
