"""The keyword arguments of the estimators, generated from the settings by ``make generate``; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn


class Keywords:
    """An estimator whose constructor takes keywords."""

    def _set_keywords(self, keywords: Mapping[str, Any]) -> None:
        raise NotImplementedError


class EmbedderKeywords(Keywords):
    """The constructor of `dssl.Embedder`."""

    def __init__(
        self,
        *,
        method: str | None = None,
        settings: Mapping[str, Any] | None = None,
        preset: str | None = None,
        recipe: str | None = None,
        encoder: Literal["gcn", "gat", "sage", "gin", "mlp", "hops"] | nn.Module | None = None,
        dim: int | None = None,
        hidden_dim: int | None = None,
        layers: int | None = None,
        dropout: float | None = None,
        batch_norm: bool | None = None,
        high_pass: bool | None = None,
        directed: bool | None = None,
        self_loops: Literal["remove", "keep"] | None = None,
        features: Literal["topics", "raw"] | None = None,
        row_scale: bool | None = None,
        structure: Literal["auto", "degree", "svd", "identity"] | None = None,
        structure_dim: int | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        batch_size: int | None = None,
        in_memory_nodes: int | None = None,
        fanout: Sequence[int] | None = None,
        device: str | None = None,
        threads: int | None = None,
        checkpoint_every: int | None = None,
        patience: int | None = None,
        tolerance: float | None = None,
        seed: int | None = None,
    ) -> None:
        """Set the parameters.

        Args:
            method: Name of the method; by default the one of the recipe, or dssl.
            settings: Settings of the method by name, such as ``{"momentum": 0.9}``.
            preset: Named settings to start from: default or paper.
            recipe: Published settings to start from: NAME, NAME:DATASET or a TOML file.
            encoder: Encoder architecture, or a torch module.
            dim: Length of the vector of a node. By default the output width of a custom encoder, otherwise 64.
            hidden_dim: Width of the hidden layers.
            layers: Number of layers; a node's vector depends on this many hops.
            dropout: Fraction of hidden values dropped in training.
            batch_norm: Whether hidden values are batch-normalised; by default for hops with fewer than dim / 4
                features.
            high_pass: Whether hops also uses the difference between a node and the mean of its neighbours.
            directed: Whether edge directions are kept; otherwise every edge counts both ways.
            self_loops: Treatment of self loops.
            features: Input of the encoder: topics, positions and roles of the nodes, or the features as they are.
            row_scale: Whether each row of features is divided by its L1 norm, as for word counts.
            structure: Features computed from the edges if the nodes have none and features = raw.
            structure_dim: Number of features computed from the edges.
            epochs: Passes over all nodes; 0 leaves the encoder as initialised.
            learning_rate: Step size of Adam.
            weight_decay: L2 penalty of Adam.
            batch_size: Centre nodes per step; 0 is full batch. Default: full batch up to in_memory_nodes; above that
                4,096, with at most 100 epochs at 20,000 nodes, 47 at 50,000 and 4 at a million.
            in_memory_nodes: Largest graph, in nodes, that is computed at once in memory; larger ones are computed by
                blocks, with large matrices in scratch files.
            fanout: Neighbours sampled per layer in mini-batches.
            device: auto, cpu, or a torch device such as cuda:0.
            threads: CPU threads; 0: one up to 20,000 nodes, then the choice of torch.
            checkpoint_every: Epochs between two checkpoints.
            patience: Epochs over which the loss is averaged for early stopping; 0 disables it.
            tolerance: Fraction of the total decrease of the loss that patience epochs must add.
            seed: Random seed; the same seed gives the same result.
        """
        arguments = locals()
        del arguments["self"]
        self._set_keywords(arguments)


class DSSLKeywords(Keywords):
    """The constructor of `dssl.DSSL`."""

    def __init__(
        self,
        *,
        num_factors: int | Literal["auto"] = 8,
        shift_scale: float = 0.6,
        prototype_variance: float = 0.2,
        link_variance: float = 0.1,
        momentum: float = 0.99,
        estimator: Literal["exact", "gumbel"] = "exact",
        temperature: float = 0.5,
        inference: Literal["amortised", "uniform"] = "amortised",
        head: Literal["concat", "product"] = "concat",
        head_scale: bool = True,
        local_weight: float = 1.0,
        global_weight: float = 1.0,
        entropy_weight: float = 0.1,
        balance_weight: float = 0.2,
        prototype_update: bool = True,
        prototype_pass: bool = False,
        center: bool = True,
        projector: bool = True,
        reconstruction_weight: float = 5.0,
        reconstruction_dim: int = 256,
        link_reconstruction_weight: float = 5.0,
        link_reconstruction_dim: int = 128,
        distillation_weight: float = 8.0,
        teach: Literal["similar", "kinds"] = "similar",
        encoder: Literal["gcn", "gat", "sage", "gin", "mlp", "hops"] | nn.Module = "hops",
        dim: int | None = None,
        hidden_dim: int = 64,
        layers: int = 2,
        dropout: float = 0.0,
        batch_norm: bool | None = None,
        high_pass: bool = False,
        directed: bool = False,
        self_loops: Literal["remove", "keep"] = "remove",
        features: Literal["topics", "raw"] = "topics",
        row_scale: bool = False,
        structure: Literal["auto", "degree", "svd", "identity"] = "auto",
        structure_dim: int = 64,
        epochs: int = 100,
        learning_rate: float = 0.005,
        weight_decay: float = 0.0,
        batch_size: int | None = None,
        in_memory_nodes: int = 20000,
        fanout: Sequence[int] = (10, 10),
        device: str = "auto",
        threads: int = 0,
        checkpoint_every: int = 10,
        patience: int = 0,
        tolerance: float = 0.01,
        seed: int = 0,
    ) -> None:
        """Set the parameters.

        Args:
            num_factors: Number of factors [K], or auto.
            shift_scale: Scale of the shift of a factor [beta].
            prototype_variance: Variance of nodes around prototypes [sigma1^2].
            link_variance: Variance of a neighbour around its prediction [sigma2^2].
            momentum: Fraction of the target encoder kept in each step [tau].
            estimator: Expectation over the factors: exact, or one Gumbel-softmax draw per link [Eq. 7].
            temperature: Temperature of the Gumbel-softmax [gamma].
            inference: Posterior of a link: a network, or uniform.
            head: Combination of two nodes in the inference network.
            head_scale: Whether the input of the inference network is scaled to entries of order one.
            local_weight: Weight of predicting the neighbours.
            global_weight: Weight of agreeing with the prototypes.
            entropy_weight: Weight of the entropy of each posterior.
            balance_weight: Weight of the entropy of the mean posterior.
            prototype_update: Whether each epoch sets the prototypes from all nodes [Eq. 8].
            prototype_pass: Whether Eq. 8 uses all nodes after the epoch, instead of the nodes in their batches.
            center: Whether the mean is subtracted before normalisation.
            projector: Whether the loss uses a projection; the embedding is taken before it.
            reconstruction_weight: Weight of reconstructing the features.
            reconstruction_dim: Number of principal components of the features to reconstruct.
            link_reconstruction_weight: Weight of reconstructing the links, if they are predictable.
            link_reconstruction_dim: Number of components of the links to reconstruct.
            distillation_weight: Weight of distilling groups of similar links into the factors.
            teach: Targets of the factors: groups of similar links, or the known kinds of links.
            encoder: Encoder architecture, or a torch module.
            dim: Length of the vector of a node. By default the output width of a custom encoder, otherwise 64.
            hidden_dim: Width of the hidden layers.
            layers: Number of layers; a node's vector depends on this many hops.
            dropout: Fraction of hidden values dropped in training.
            batch_norm: Whether hidden values are batch-normalised; by default for hops with fewer than dim / 4
                features.
            high_pass: Whether hops also uses the difference between a node and the mean of its neighbours.
            directed: Whether edge directions are kept; otherwise every edge counts both ways.
            self_loops: Treatment of self loops.
            features: Input of the encoder: topics, positions and roles of the nodes, or the features as they are.
            row_scale: Whether each row of features is divided by its L1 norm, as for word counts.
            structure: Features computed from the edges if the nodes have none and features = raw.
            structure_dim: Number of features computed from the edges.
            epochs: Passes over all nodes; 0 leaves the encoder as initialised.
            learning_rate: Step size of Adam.
            weight_decay: L2 penalty of Adam.
            batch_size: Centre nodes per step; 0 is full batch. Default: full batch up to in_memory_nodes; above that
                4,096, with at most 100 epochs at 20,000 nodes, 47 at 50,000 and 4 at a million.
            in_memory_nodes: Largest graph, in nodes, that is computed at once in memory; larger ones are computed by
                blocks, with large matrices in scratch files.
            fanout: Neighbours sampled per layer in mini-batches.
            device: auto, cpu, or a torch device such as cuda:0.
            threads: CPU threads; 0: one up to 20,000 nodes, then the choice of torch.
            checkpoint_every: Epochs between two checkpoints.
            patience: Epochs over which the loss is averaged for early stopping; 0 disables it.
            tolerance: Fraction of the total decrease of the loss that patience epochs must add.
            seed: Random seed; the same seed gives the same result.
        """
        arguments = locals()
        del arguments["self"]
        self._set_keywords(arguments)
