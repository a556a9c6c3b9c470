"""The registry of methods: a section of settings for each, with its traits.

A new method is a class here and its name in `METHODS`; docs/methods/adding.md is a worked example. Methods that train
a vector per node instead of an encoder are in `dssl.config.table_methods`.
"""

from __future__ import annotations

from typing import Any, Literal

from dssl.config.plugins import Methods
from dssl.config.registry import Count, MethodSection, Range, Traits, encoder_traits, setting
from dssl.config.table_methods import DeepWalkSettings, LINESettings, Node2VecSettings, Struc2VecSettings

FRACTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # search values of augmentations


def _fraction(default: float, help: str) -> Any:
    """The setting of an augmentation that drops or masks a fraction of the input."""
    return setting(default, help, ge=0, le=1, search=FRACTIONS)


def _momentum(default: float, help: str) -> Any:
    """The setting of a target encoder that follows the trained one."""
    return setting(default, help, ge=0, le=1, search=(0.9, 0.95, 0.99, 0.999))


class DSSLSettings(MethodSection):
    """Decoupled self-supervised learning; the paper's symbols are in brackets."""

    traits = Traits(
        "dssl",
        "dssl.methods.dssl.model:DSSLModel",
        "Xiao et al., NeurIPS 2022",
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales="links; mini-batches",
    )
    num_factors: Count | Literal["auto"] = setting(8, "Number of factors [K], or auto.", search=(2, 4, 6, 8, 16, 32))
    shift_scale: float = setting(0.6, "Scale of the shift of a factor [beta].", ge=0, search=Range(0.1, 2.0))
    prototype_variance: float = setting(
        0.2, "Variance of nodes around prototypes [sigma1^2].", gt=0, search=Range(0.05, 1.0)
    )
    link_variance: float = setting(
        0.1, "Variance of a neighbour around its prediction [sigma2^2].", gt=0, search=Range(0.02, 1.0)
    )
    momentum: float = _momentum(0.99, "Fraction of the target encoder kept in each step [tau].")
    estimator: Literal["exact", "gumbel"] = setting(
        "exact", "Expectation over the factors: exact, or one Gumbel-softmax draw per link [Eq. 7]."
    )
    temperature: float = setting(0.5, "Temperature of the Gumbel-softmax [gamma].", gt=0, search=Range(0.1, 1.0))
    inference: Literal["amortised", "uniform"] = setting("amortised", "Posterior of a link: a network, or uniform.")
    head: Literal["concat", "product"] = setting("concat", "Combination of two nodes in the inference network.")
    head_scale: bool = setting(True, "Whether the input of the inference network is scaled to entries of order one.")
    local_weight: float = setting(1.0, "Weight of predicting the neighbours.", ge=0, search=Range(0.1, 10.0))
    global_weight: float = setting(1.0, "Weight of agreeing with the prototypes.", ge=0, search=Range(0.1, 10.0))
    entropy_weight: float = setting(0.1, "Weight of the entropy of each posterior.", ge=0, search=Range(0.01, 1.0))
    balance_weight: float = setting(
        0.2, "Weight of the entropy of the mean posterior.", ge=0, search=(0.0, 0.1, 0.2, 0.5, 1.0)
    )
    prototype_update: bool = setting(True, "Whether each epoch sets the prototypes from all nodes [Eq. 8].")
    prototype_pass: bool = setting(
        False, "Whether Eq. 8 uses all nodes after the epoch, instead of the nodes in their batches."
    )
    center: bool = setting(True, "Whether the mean is subtracted before normalisation.", search=(True, False))
    projector: bool = setting(
        True, "Whether the loss uses a projection; the embedding is taken before it.", search=(True, False)
    )
    reconstruction_weight: float = setting(
        5.0, "Weight of reconstructing the features.", ge=0, search=(0.0, 1.0, 2.0, 5.0, 10.0)
    )
    reconstruction_dim: int = setting(256, "Number of principal components of the features to reconstruct.", ge=1)
    link_reconstruction_weight: float = setting(
        5.0, "Weight of reconstructing the links, if they are predictable.", ge=0, search=(0.0, 1.0, 2.0, 5.0, 10.0)
    )
    link_reconstruction_dim: int = setting(128, "Number of components of the links to reconstruct.", ge=1)
    distillation_weight: float = setting(
        8.0, "Weight of distilling groups of similar links into the factors.", ge=0, search=(0.0, 1.0, 2.0, 8.0)
    )
    teach: Literal["similar", "kinds"] = setting(
        "similar", "Targets of the factors: groups of similar links, or the known kinds of links."
    )


class DGISettings(MethodSection):
    """Deep graph infomax."""

    traits = encoder_traits(
        "dgi",
        "dssl.methods.dgi:DGI",
        "Veličković et al., ICLR 2019",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
        revision=2,
    )


class GAESettings(MethodSection):
    """Graph autoencoder."""

    traits = encoder_traits(
        "gae",
        "dssl.methods.gae:GAE",
        "Kipf & Welling, NeurIPS workshop 2016",
        train={"epochs": 200, "learning_rate": 0.01},
    )
    pairs: int = setting(65536, "Maximum number of links per step; as many random pairs are added.", ge=1)


class VGAESettings(MethodSection):
    """Variational graph autoencoder."""

    traits = encoder_traits(
        "vgae",
        "dssl.methods.gae:VGAE",
        "Kipf & Welling, NeurIPS workshop 2016",
        train={"epochs": 200, "learning_rate": 0.01},
        revision=2,
    )
    pairs: int = setting(65536, "Maximum number of links per step; as many random pairs are added.", ge=1)
    divergence_weight: float = setting(
        1.0, "Weight of the KL divergence from the prior; 1 gives the ELBO.", ge=0, search=Range(0.01, 1.0)
    )


View = Literal["none", "node", "link", "mask", "subgraph"]


class GraphCLSettings(MethodSection):
    """Graph contrastive learning with augmentations, in its form for nodes."""

    traits = encoder_traits(
        "graphcl",
        "dssl.methods.graphcl:GraphCL",
        "You et al., NeurIPS 2020",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
        revision=2,
    )
    objective: Literal["infomax", "nt-xent"] = setting(
        "infomax",
        "Contrast of view summaries with corrupted nodes, or of nodes with each other.",
        search=("infomax", "nt-xent"),
    )
    first_view: View = setting("link", "Augmentation of view 1.")
    second_view: View = setting("mask", "Augmentation of view 2.")
    strength: float = setting(
        0.2,
        "Fraction of nodes that an augmentation changes; of links a quarter of it.",
        ge=0,
        le=1,
        search=(0.1, 0.2, 0.3, 0.5),
    )
    temperature: float = setting(0.5, "Temperature of nt-xent [tau].", gt=0, search=Range(0.1, 1.0))
    anchors: int = setting(1024, "Maximum number of nodes that nt-xent contrasts per step.", ge=2)


class MVGRLSettings(MethodSection):
    """Contrastive multi-view representation learning: the links and their diffusion."""

    traits = encoder_traits(
        "mvgrl",
        "dssl.methods.mvgrl:MVGRL",
        "Hassani & Khasahmadi, ICML 2020",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
        scales="links and N·neighbours; mini-batches",
        revision=2,
    )
    diffusion: Literal["ppr", "heat"] = setting(
        "ppr", "Diffusion of view 2: personalised PageRank or the heat kernel.", search=("ppr", "heat")
    )
    teleport: float = setting(0.2, "Restart probability of ppr [alpha].", gt=0, lt=1, search=(0.05, 0.1, 0.2, 0.4))
    heat_time: float = setting(5.0, "Diffusion time of heat [t].", gt=0)
    neighbours: int = setting(64, "Largest diffusion entries kept per node.", ge=1)
    precision: float = setting(1e-4, "Residual mass per link at which the diffusion stops.", gt=0, lt=1)
    threshold: float = setting(0.0, "Diffusion entries below this are dropped.", ge=0, lt=1)
    column_scale: bool = setting(False, "Whether diffusion columns are divided by their diagonal, not normalised.")
    loop_weight: float = setting(2.0, "Weight of self-loops in the GCN of view 1; a plain GCN has 1.", ge=0)


class BGRLSettings(MethodSection):
    """Bootstrapped graph latents."""

    traits = encoder_traits(
        "bgrl",
        "dssl.methods.bgrl:BGRL",
        "Thakoor et al., ICLR 2022",
        encoder={"batch_norm": True},
        train={"epochs": 200, "learning_rate": 0.005, "weight_decay": 1e-5},
        revision=2,
    )
    momentum: float = _momentum(0.9, "Fraction of the target encoder kept in the first step; it rises to 1 [tau].")
    predictor_dim: int = setting(256, "Width of the hidden layer of the predictor.", ge=1)
    link_drop_1: float = _fraction(0.5, "Fraction of links dropped in view 1.")
    link_drop_2: float = _fraction(0.5, "Fraction of links dropped in view 2.")
    feature_mask_1: float = _fraction(0.5, "Fraction of features masked in view 1.")
    feature_mask_2: float = _fraction(0.5, "Fraction of features masked in view 2.")
    norm_momentum: float = setting(
        0.99, "Fraction of a step's statistics in the running statistics of batch normalisation.", gt=0, le=1
    )


class GCASettings(MethodSection):
    """Graph contrastive learning with adaptive augmentation."""

    traits = encoder_traits(
        "gca",
        "dssl.methods.gca:GCA",
        "Zhu et al., WWW 2021",
        encoder={"hidden_dim": 128},
        train={"epochs": 200, "learning_rate": 0.001, "weight_decay": 1e-5},
        scales="links and anchors²; mini-batches",
        revision=2,
    )
    centrality: Literal["degree", "pagerank", "eigenvector"] = setting(
        "degree",
        "Centrality by which links and features are kept.",
        search=("degree", "pagerank", "eigenvector"),
    )
    temperature: float = setting(0.4, "Temperature of the contrast [tau].", gt=0, search=Range(0.1, 1.0))
    projector_dim: int = setting(128, "Width of the projector.", ge=1)
    link_drop_1: float = _fraction(0.2, "Mean probability that a link is dropped in view 1.")
    link_drop_2: float = _fraction(0.4, "Mean probability that a link is dropped in view 2.")
    feature_mask_1: float = _fraction(0.3, "Mean probability that a feature is masked in view 1.")
    feature_mask_2: float = _fraction(0.4, "Mean probability that a feature is masked in view 2.")
    most_dropped: float = setting(0.7, "Maximum of these probabilities [p_tau].", ge=0, le=1)
    anchors: int = setting(1024, "Maximum number of nodes contrasted with each other per step.", ge=2)


class SAGESettings(MethodSection):
    """GraphSAGE without labels."""

    traits = encoder_traits(
        "sage",
        "dssl.methods.sage:UnsupervisedSAGE",
        "Hamilton et al., NeurIPS 2017",
        encoder={"name": "sage"},
        train={"epochs": 100, "learning_rate": 0.005},
    )
    walk_length: int = setting(
        5, "Steps of the random walks that draw positive pairs.", ge=1, search=(5, 10, 20, 40, 80)
    )
    negatives: int = setting(20, "Negative samples per node [Q].", ge=1)


class CCASSGSettings(MethodSection):
    """Canonical correlation analysis between two views."""

    traits = encoder_traits(
        "cca-ssg",
        "dssl.methods.cca_ssg:CCASSG",
        "Zhang et al., NeurIPS 2021",
        train={"epochs": 100, "learning_rate": 0.001},
        revision=2,
    )
    decorrelation_weight: float = setting(
        1e-3, "Weight of decorrelating the columns [lambda].", ge=0, search=Range(1e-4, 1e-2)
    )
    link_drop: float = _fraction(0.4, "Fraction of links dropped in each view.")
    feature_mask: float = _fraction(0.1, "Fraction of features masked in each view.")


class GraphACLSettings(MethodSection):
    """Asymmetric contrastive learning without augmentations."""

    traits = encoder_traits(
        "graphacl",
        "dssl.methods.graphacl:GraphACL",
        "Xiao et al., NeurIPS 2023",
        train={"epochs": 200, "learning_rate": 0.01, "weight_decay": 1e-6},
        scales="links and N·negatives; mini-batches",
        revision=3,
    )
    momentum: float = _momentum(0.95, "Fraction of the target encoder kept in each step [tau].")
    temperature: float = setting(0.5, "Temperature of the contrast.", gt=0, search=Range(0.1, 1.0))
    predictor_layers: int = setting(1, "Layers of the predictor; 1 is linear.", ge=1, le=8)
    own_neighbour: bool = setting(True, "Whether a node counts among its own neighbours.")
    negatives: int = setting(
        4096, "Maximum number of negative nodes per step; with more nodes, a sample scaled up to all.", ge=1
    )
    pairs: int = setting(65536, "Maximum number of links per step.", ge=1)


class GraphMAESettings(MethodSection):
    """Masked graph autoencoder."""

    traits = encoder_traits(
        "graphmae",
        "dssl.methods.graphmae:GraphMAE",
        "Hou et al., KDD 2022",
        encoder={"name": "gat", "dropout": 0.2},
        train={"epochs": 300, "learning_rate": 0.001, "weight_decay": 2e-4},
        scales="links and N·features; mini-batches",
    )
    mask_rate: float = setting(0.5, "Fraction of nodes with hidden features.", gt=0, lt=1, search=(0.25, 0.5, 0.75))
    replace_rate: float = setting(
        0.05, "Fraction of hidden nodes with the features of a random node.", ge=0, le=1, search=(0.0, 0.05, 0.1)
    )
    exponent: float = setting(3.0, "Exponent of the scaled cosine error [gamma].", ge=1, search=(1.0, 2.0, 3.0))
    link_drop: float = _fraction(0.0, "Fraction of links dropped in training.")
    decoder: Literal["gat", "gcn"] = setting("gat", "Layer of the decoder.", search=("gat", "gcn"))


class PolyGCLSettings(MethodSection):
    """Contrast of a low-pass and a high-pass polynomial filter."""

    traits = encoder_traits(
        "polygcl",
        "dssl.methods.polygcl:PolyGCL",
        "Chen et al., ICLR 2024",
        encoder={"name": "mlp", "layers": 1},
        train={"epochs": 200, "learning_rate": 0.001},
        scales="links·degree; mini-batches of as many rings",
    )
    degree: int = setting(10, "Degree of the polynomial filters [K].", ge=1, le=64, search=(2, 5, 10))
    feature_dropout: float = setting(0.4, "Dropout of the features per view.", ge=0, lt=1, search=(0.0, 0.4, 0.8))
    filtered_dropout: float = setting(
        0.0, "Dropout of the filtered features; above 0 all features are filtered.", ge=0, lt=1, search=(0.0, 0.3, 0.5)
    )
    normalise: bool = setting(False, "Whether filtered features are batch-normalised; they are all filtered then.")
    activation: Literal["relu", "prelu"] = setting("relu", "Activation after the filters.", search=("relu", "prelu"))
    filter_rate: float = setting(
        1.0, "Learning rate of the filters as a multiple of train.learning_rate.", gt=0, search=Range(0.1, 10.0)
    )


class GREETSettings(MethodSection):
    """Edge heterophily discriminating."""

    traits = encoder_traits(
        "greet",
        "dssl.methods.greet:GREET",
        "Liu et al., AAAI 2023",
        encoder={"name": "mlp", "layers": 1},
        train={"epochs": 400, "learning_rate": 0.001},
        scales="links and anchors²; mini-batches; N·links and N² once",
    )
    hops: int = setting(2, "Applications of each filter [k].", ge=1, le=16, search=(1, 2, 3))
    high_pass_weight: float = setting(
        0.5, "Strength of the high-pass filter [alpha].", ge=0, search=(0.1, 0.3, 0.5, 0.8)
    )
    temperature: float = setting(0.2, "Temperature of the contrast [tau].", gt=0, search=Range(0.1, 1.0))
    positives: int = setting(20, "Nodes of similar features among the positives of a node.", ge=0, search=(0, 20, 30))
    projector_dim: int = setting(128, "Width of the projectors.", ge=1)
    projector_layers: int = setting(2, "Number of layers of the projectors.", ge=1, le=2)
    feature_mask_1: float = _fraction(0.5, "Fraction of features masked in the low-pass view.")
    feature_mask_2: float = _fraction(0.1, "Fraction of features masked in the high-pass view.")
    link_drop_1: float = setting(
        0.1, "Fraction of entries of the low-pass filter dropped.", ge=0, lt=1, search=FRACTIONS
    )
    link_drop_2: float = setting(
        0.1, "Fraction of entries of the high-pass filter dropped.", ge=0, lt=1, search=FRACTIONS
    )
    low_margin: float = setting(0.5, "Margin of similar edges over random pairs.", ge=0, search=(0.1, 0.3, 0.5))
    high_margin: float = setting(0.5, "Margin of random pairs over dissimilar edges.", ge=0, search=(0.1, 0.3, 0.5))
    encoding_dim: int = setting(16, "Steps of the walks whose return probabilities encode a node.", ge=1, le=256)
    discriminator_dim: int = setting(128, "Hidden width of the edge discriminator.", ge=1)
    contrast_steps: int = setting(2, "Steps of the encoder per step of the edge discriminator.", ge=1)
    anchors: int = setting(1024, "Maximum number of nodes contrasted with each other per step.", ge=2)
    pairs: int = setting(65536, "Maximum number of edges ranked per step.", ge=1)


METHODS = Methods(
    (
        DSSLSettings,
        DGISettings,
        GAESettings,
        VGAESettings,
        GraphCLSettings,
        MVGRLSettings,
        BGRLSettings,
        GCASettings,
        SAGESettings,
        CCASSGSettings,
        GraphACLSettings,
        GraphMAESettings,
        PolyGCLSettings,
        GREETSettings,
        DeepWalkSettings,
        Node2VecSettings,
        LINESettings,
        Struc2VecSettings,
    )
)
