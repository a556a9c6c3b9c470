"""The estimators, with the interface of scikit-learn: ``DSSL(num_factors=8).fit(graph).transform(graph)``.

`Embedder` takes any method, `DSSL` the settings of DSSL. The command line uses the same classes. Their keywords are
generated from the settings (`dssl.model._keywords`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dssl.config.resolve import unused
from dssl.config.schema import CUSTOM, Config, TrainSettings
from dssl.errors import ConfigError, GraphError, RunError
from dssl.graph import Graph
from dssl.graph.preparation import Inputs
from dssl.model import storage
from dssl.model._keywords import DSSLKeywords
from dssl.model.checks import check_graph, check_pairs
from dssl.model.factor_count import with_count
from dssl.model.parameters import Parameters, as_module, check_encoder, model_differences
from dssl.runtime import environment, notebook
from dssl.runtime.processes import threads
from dssl.runtime.scale import Scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from dssl.model.build import FactorMethod, Parts
    from dssl.model.embeddings import Embeddings
    from dssl.model.factors import Factors

    EpochCallback = Callable[[dict[str, float]], None]

NO_EDGES = "the graph has no edges to learn from; its embeddings contain no more than the features"


class Embedder(Parameters):
    """Node embeddings by any method; ``dssl methods`` lists them.

    A keyword that is None takes the value of the recipe or preset, or the default of the method. The settings of the
    method itself are in ``settings``; docs/configuration.md lists them.

    ``encoder`` may be a torch module with ``forward(x, edge_index)``, like the models of PyG. `fit` trains a copy, on
    the features of the graph as they are (``features="raw"``).

    Attributes:
        config: the complete settings.
        embeddings_: vectors of the fitted graph with its node ids.
        metrics_: a record per epoch.
        epochs_: number of epochs that were run.
        warnings_: sentences about problems in training, such as a collapse.
        health_limits_: limits of a healthy training by name of the record.
        changes_: preparation steps that changed the graph.

    Example:
        >>> from dssl.graph import Graph
        >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
        >>> Embedder(method="bgrl", settings={"momentum": 0.95}, dim=3, epochs=2).fit_transform(graph).shape
        (4, 3)
    """

    embeddings_: Embeddings
    metrics_: list[dict[str, float]]
    epochs_: int
    warnings_: list[str]
    health_limits_: dict[str, dict[str, float]]
    changes_: list[str]

    _parts: Parts | None = None  # set by `fit`
    _folder: Path | None = None  # of a loaded model

    @staticmethod
    def from_config(config: Config, *, encoder: nn.Module | None = None) -> Embedder:
        """Return an unfitted model with a complete configuration.

        Args:
            config: the configuration.
            encoder: the module of the encoder ``custom``.
        """
        check_encoder(config, encoder)
        kind = DSSL if config.method.name == "dssl" else Embedder
        model = kind.__new__(kind)
        model._set_config(config, encoder)
        return model

    def continue_with(self, config: Config) -> Self:
        """Change the settings of a fitted model before a warm start; its weights must not depend on the changes."""
        self._fitted()
        if different := model_differences(self.config, config):
            raise ConfigError(
                f"a warm start keeps the encoder and the method ({', '.join(different)}); "
                "leave these settings as they were, or fit from scratch"
            )
        self._set_config(config, self._module)
        return self

    def fit(
        self,
        graph: Graph,
        y: object = None,  # noqa: ARG002
        *,
        warm: bool = False,
        on_epoch: EpochCallback | None = None,
        checkpoint: Path | None = None,
    ) -> Self:
        """Train on a graph: from scratch, from the fitted weights, or from a checkpoint of the same training.

        A warm start continues from the fitted weights with a new optimiser, on a graph with the same feature columns,
        such as the fitted graph with more nodes. Input and projection keep their axes, so that new vectors are
        comparable with old ones.

        In a process group of torch.distributed the processes share the work of each batch. Only the first one computes
        the vectors and has the complete model (see docs/distributed.md).

        Args:
            graph: the graph; its labels are not used.
            y: not used, for the pipelines of scikit-learn.
            warm: whether to start from the fitted weights.
            on_epoch: called with the record of each epoch.
            checkpoint: file for the state of training; if it exists, training resumes from it.
        """
        with self._threads(graph):
            self._fit(graph, warm=warm, on_epoch=on_epoch, checkpoint=checkpoint)
        return self

    def _threads(self, graph: Graph) -> AbstractContextManager[None]:
        """Check a graph, and set the threads of the work on it."""
        check_graph(graph)
        return threads(self.config.train.threads_for(graph.num_nodes))

    def _fit(self, graph: Graph, *, warm: bool, on_epoch: EpochCallback | None, checkpoint: Path | None) -> None:
        from dssl import train
        from dssl.model.build import FactorMethod
        from dssl.runtime import distributed

        if distributed.world() > 1 and not self.config.method.traits.encoder:
            raise ConfigError(
                f"the method {self.config.method.name} updates rows of one table in place, which several processes "
                "cannot share; run it as one process, without torchrun"
            )
        scale = self.scale(graph)
        if not warm and self.asks_for_count:
            self.config = with_count(self.config, graph)
        ready = self._prepared(graph)[1] if warm else self._start(graph)
        parts, settings = self._fitted(), self.schedule(graph)
        if isinstance(parts.module, FactorMethod):
            parts.module.observe(graph)
        self.changes_ = [str(change) for change in ready.history]
        self.metrics_ = []

        def record(epoch: int, values: dict[str, float]) -> None:
            self.metrics_.append({"epoch": epoch, **values})
            if on_epoch is not None:
                on_epoch(self.metrics_[-1])

        self.epochs_ = train.train(
            parts.module,
            ready,
            epochs=settings.epochs,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            batch_size=settings.batch_size or 0,
            fanout=settings.fanout,
            seed=self.config.seed,
            device=train.device(settings.device),
            scale=scale,
            checkpoint=checkpoint,
            checkpoint_every=settings.checkpoint_every,
            patience=settings.patience,
            tolerance=settings.tolerance,
            on_epoch=record,
        )
        self.health_limits_ = parts.method.health_limits()
        self.warnings_ = [*self._unused(), *(parts.method.warnings() if ready.num_arcs else [NO_EDGES])]
        if distributed.rank():
            return
        if not scale.in_memory:
            environment.give_back()  # the last batches
        values = parts.method.embed(ready, scale=scale)
        if not warm and parts.joint is not None and self.config.method.name == "dssl":
            parts.joint.finish(ready, values if self.epochs_ else values[:, :0])
        self.embeddings_ = _embeddings(graph, _vectors(parts, ready, values))

    def schedule(self, graph: Graph) -> TrainSettings:
        """Return the settings of training, with the defaults that depend on the size of the graph."""
        return self.config.train.for_graph(graph.num_nodes, encoder=self.config.method.traits.encoder)

    def scale(self, graph: Graph) -> Scale:
        """Return whether a graph is computed at once in memory, or by blocks."""
        return Scale.of(graph.num_nodes, self.config.train.in_memory_nodes)

    def transform(self, graph: Graph) -> NDArray[np.float32]:
        """Return a vector per node, shape ``(N, dim)``.

        Args:
            graph: the fitted graph, a grown one, or a new one with the same feature columns.
        """
        with self._threads(graph):
            parts, ready = self._prepared(graph)
            return _vectors(parts, ready, parts.method.embed(ready, scale=self.scale(graph)))

    def encode(self, graph: Graph) -> NDArray[np.float32]:
        """Return the trained vectors alone, before they are joined with the closed form, shape ``(N, dim)``.

        Args:
            graph: any graph that `transform` takes.
        """
        with self._threads(graph):
            parts, ready = self._prepared(graph)
            return parts.method.embed(ready, scale=self.scale(graph))

    def fit_transform(self, graph: Graph, y: object = None) -> NDArray[np.float32]:
        """Train on a graph and return its vectors, as `transform` does; ``y`` is not used."""
        return self.fit(graph, y).embeddings_.values

    def embed(self, graph: Graph) -> Embeddings:
        """Return the vectors of a graph with its node ids."""
        return _embeddings(graph, self.transform(graph))

    def factors(self, graph: Graph) -> Factors:
        """Return the probability of each factor on each link and at each node, with the node ids.

        The links are those of the prepared graph: by default in both directions and without self loops.

        Args:
            graph: any graph that `transform` takes.
        """
        from dssl.model.factors import Factors

        with self._threads(graph):
            method, ready = self._factor_method(graph)
            links, nodes = method.factors(ready, scale=self.scale(graph))
        return Factors(graph.ids, ready.sources(), ready.indices, links, nodes, graph)

    def link_scores(self, graph: Graph, pairs: Any) -> NDArray[np.float32]:
        """Return scores of pairs of nodes, whether they are linked or not.

        The score is log p(z_j | v_i) of the method (Eq. 1) up to a constant; in undirected graphs, the mean of both
        directions.

        Args:
            graph: any graph that `transform` takes.
            pairs: positions of the two nodes of each pair, integers of shape ``(M, 2)``.

        Returns:
            A score per pair, shape ``(M,)``; higher is more probable.
        """
        with self._threads(graph):
            method, ready = self._factor_method(graph)
            return method.link_scores(ready, check_pairs(pairs, graph), scale=self.scale(graph))

    @property
    def inputs(self) -> Inputs:
        """The preparation that the fitted model applies to a graph."""
        return self._fitted().inputs

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder: settings, weights, feature columns and vectors, without pickles."""
        storage.save_parts(Path(folder), self.config, self._fitted())
        if (vectors := getattr(self, "embeddings_", None)) is not None:
            vectors.save(Path(folder) / storage.EMBEDDINGS)

    @staticmethod
    def load(folder: str | Path, *, encoder: nn.Module | None = None) -> Embedder:
        """Read a fitted model of any method from a folder that `save` or ``dssl fit`` wrote.

        Args:
            folder: the folder.
            encoder: the custom encoder of the model, if it has one; its weights are read from the folder.
        """
        folder = Path(folder)
        config = storage.read_config(folder)
        if config.encoder.name == CUSTOM and encoder is None:
            raise RunError(
                f"the model in {folder} has a custom encoder, whose code is not stored; "
                "pass it: dssl.load_model(folder, encoder=module)"
            )
        model = Embedder.from_config(config, encoder=as_module(encoder))
        model._parts = storage.read_parts(folder, config, model._module)
        model._folder = folder
        return model

    def __getattr__(self, name: str) -> Any:
        # Only for attributes that are missing: the vectors of a loaded model are read when they are first used.
        path = None if self._folder is None else self._folder / storage.EMBEDDINGS
        if name != "embeddings_" or path is None or not path.is_file():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from dssl.model.embeddings import Embeddings

        self.embeddings_ = Embeddings.load(path)
        return self.embeddings_

    def __sklearn_is_fitted__(self) -> bool:
        return self._parts is not None

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {"method": self.config.method.name, "settings": repr(self)}
        if self._parts is None:
            return notebook.pairs("Not fitted", rows)
        rows |= {"vectors": repr(vectors)} if (vectors := getattr(self, "embeddings_", None)) is not None else {}
        rows |= {"epochs": self.epochs_} if "epochs_" in self.__dict__ else {}
        rows |= {"prepared": "; ".join(self.changes_) or "unchanged"} if "changes_" in self.__dict__ else {}
        rows |= {"warnings": "; ".join(self.warnings_) or "none"} if "warnings_" in self.__dict__ else {}
        return notebook.pairs("Fitted model", rows)

    def _start(self, graph: Graph) -> Graph:
        """Prepare a graph and build the method with new weights."""
        from dssl.model.build import Parts, build_method
        from dssl.model.joint import Joint, with_input

        options, method, joint = self.config.graph, self.config.method, None
        topics = options.features == "topics"
        if topics and not method.traits.features:
            raise ConfigError(f"the method {method.name} uses no features; leave out features=topics")
        inputs, ready = Inputs.fit(
            graph,
            directed=options.directed,
            self_loops=options.self_loops,
            row_scale=options.row_scale,
            structure="none" if not method.traits.features or (topics and graph.x is None) else options.structure,
            structure_dim=options.structure_dim,
            seed=self.config.seed,
            scale=self.scale(graph),
        )
        if topics:
            joint, x = Joint.start(graph, dim=self.config.encoder.dim, seed=self.config.seed)
            ready = with_input(ready, x)
        self._parts = Parts(build_method(self.config, self._module, in_dim=ready.num_features), inputs, joint)
        return ready

    def _prepared(self, graph: Graph) -> tuple[Parts, Graph]:
        """The parts of the fitted model, and a graph prepared for them."""
        parts = self._fitted()
        if graph.x is not None and self.config.method.traits.features and parts.inputs.structure == "none":
            raise GraphError(  # positions and roles of a graph without features
                f"graph {graph.name!r} has {graph.num_features:,} feature columns, but the model was fitted on a graph "
                "without; fit it again on a graph with these columns"
            )
        ready = parts.inputs.apply(graph, scale=self.scale(graph))
        return parts, ready if parts.joint is None else parts.joint.prepared(graph, ready)

    def _factor_method(self, graph: Graph) -> tuple[FactorMethod, Graph]:
        from dssl.model.build import FactorMethod

        parts, ready = self._prepared(graph)
        if not isinstance(parts.module, FactorMethod):
            raise RunError(f"the method {self.config.method.name!r} has no factors; fit with method='dssl'")
        return parts.module, ready

    def _unused(self) -> list[str]:
        """A warning about settings that the method ignores."""
        found, name = ", ".join(unused(self.config)), self.config.method.name
        return [f"{found}: no effect, because the method {name} trains no encoder"] if found else []

    def _unfit(self) -> None:
        self._parts = self._folder = None

    def _fitted(self) -> Parts:
        if self._parts is None:
            raise RunError(
                "the model is not fitted yet; call fit(graph) first, or load one with dssl.load_model(folder)"
            )
        return self._parts


class DSSL(DSSLKeywords, Embedder):
    """Node embeddings by decoupled self-supervised learning.

    ``encoder`` may be a torch module with ``forward(x, edge_index)``, like the models of PyG. `fit` trains a copy, on
    the features of the graph as they are (``features="raw"``). The attributes are those of `Embedder`.

    Example:
        >>> from dssl.graph import Graph
        >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
        >>> model = DSSL(num_factors=2, dim=4, epochs=2, seed=1).fit(graph)
        >>> model.transform(graph).shape
        (4, 4)
    """


def load_model(folder: str | Path, *, encoder: nn.Module | None = None) -> Embedder:
    """Read a fitted model from a folder that its `save` or ``dssl fit`` wrote; see `Embedder.load`."""
    return Embedder.load(folder, encoder=encoder)


def _vectors(parts: Parts, ready: Graph, trained: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors of a prepared graph, from the output of the method."""
    return trained if parts.joint is None else parts.joint.join(ready, trained)


def _embeddings(graph: Graph, values: NDArray[np.float32]) -> Embeddings:
    from dssl.model.embeddings import Embeddings

    return Embeddings(graph.ids, values)
