"""The estimators in the manner of scikit-learn: ``DSSL(num_factors=8).fit(graph).transform(graph)``.

`Embedder` takes any method, `DSSL` is the one of DSSL. The command line uses the same classes. Their keywords are the
settings of `dssl.config.schema`, by the last part of their path.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dssl import rng
from dssl.config.fields import Setting, differences, locate, scope_of, settings_of
from dssl.config.methods import METHODS
from dssl.config.registry import Scope
from dssl.config.resolve import resolve, unused
from dssl.config.schema import Config, TrainSettings
from dssl.config.toml import from_toml, to_toml
from dssl.errors import ConfigError, DsslError, GraphError, RunError
from dssl.graph import Graph
from dssl.graph.preparation import Inputs
from dssl.runtime import environment, files
from dssl.runtime.processes import threads
from dssl.runtime.scale import Scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from dssl.methods import Method
    from dssl.model.embeddings import Embeddings
    from dssl.model.factors import Factors
    from dssl.nn.encoders import Encoder
    from dssl.nn.fixed_blocks import Readout

    EpochCallback = Callable[[dict[str, float]], None]

CONFIG, WEIGHTS, FEATURES = "config.toml", "weights.safetensors", "features.json"
CUSTOM = "custom"  # the name of an encoder that the user gave as a module
NO_LINKS = "the graph has no links, which are what is learnt from: its vectors tell no more than the features do"
_READOUT = "readout."  # how the tensors of the fixed blocks are told from the method's
_Class = TypeVar("_Class", bound=type)


@cache
def _keywords(method: str) -> dict[str, Setting]:
    """The settings that the estimator of a method takes, by keyword."""
    return {row.keyword: row for row in settings_of(method) if row.scope is not Scope.COMMAND}


def _documented(cls: _Class) -> _Class:
    """Give the class the signature and the list of arguments that follow from the configuration."""
    rows = _keywords("dssl")
    lines = [f"        {name}: {row.help} {row.allowed.capitalize()}; {row.default}." for name, row in rows.items()]
    cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nArgs:\n" + "\n".join(line[4:] for line in lines) + "\n"
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=row.value) for name, row in rows.items()
    ]
    type.__setattr__(cls, "__signature__", inspect.Signature(parameters))
    return cls


class Embedder:
    """Node embeddings by any method: ``Embedder(method="dgi")``; ``dssl methods`` lists them.

    Keywords are the settings of docs/configuration.md: those of the method, of the encoder, the training and so on.

    After `fit`: ``embeddings_`` (an `Embeddings` of the fitted graph), ``metrics_`` (a record per epoch), ``epochs_``
    (how many ran), ``warnings_`` (sentences on a collapse, if there was one) and ``changes_`` (what was done to the
    graph first).

    ``encoder`` may also be a torch module with ``forward(x, edge_index)``, as PyG's models have; ``dim`` is then the
    length of its vectors, by default its attribute ``out_channels`` or ``dim``. `fit` trains a copy of it.

    >>> from dssl.graph import Graph
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
    >>> Embedder(method="dgi", dim=3, epochs=2, seed=1).fit_transform(graph).shape
    (4, 3)
    """

    embeddings_: Embeddings
    metrics_: list[dict[str, float]]
    epochs_: int
    warnings_: list[str]
    health_limits_: dict[str, dict[str, float]]
    changes_: list[str]

    def __init__(self, **settings: Any) -> None:
        self._given = {name: value for name, value in settings.items() if value is not None}
        unusable = [name for name in self._given if _known(name) not in _paths()]
        if unusable:
            raise ConfigError(
                f"setting {unusable[0]!r} is not one of the model: give it to dssl.load or dssl.evaluation.evaluate"
            )
        plain = {name: _plain(value) for name, value in self._given.items()}
        self._module = _module(plain.get("encoder"))
        if self._module is not None:
            plain["encoder"] = CUSTOM
            if "dim" not in plain and "encoder.dim" not in plain:
                from dssl.nn.encoders import width

                plain["dim"] = width(self._module)
        self.config = resolve(plain)
        self._check_method()
        _check_encoder(self.config, self._module)
        self._method: nn.Module | None = None
        self._inputs: Inputs | None = None
        self._readout: Readout | None = None

    @staticmethod
    def from_config(config: Config, *, encoder: nn.Module | None = None) -> Embedder:
        """Make an unfitted model with a complete configuration, and the module that it calls custom."""
        _check_encoder(config, encoder)
        model = DSSL() if config.method.name == "dssl" else Embedder()
        model._module = encoder
        model._configure(config)
        return model

    def _configure(self, config: Config) -> None:
        self.config = config
        self._given = {
            name: value
            for name, row in _keywords(config.method.name).items()
            if (value := _value(config, row.path)) != row.value
        }
        if self._module is not None:
            self._given["encoder"] = self._module

    def _check_method(self) -> None:
        """Refuse a method that the class is not for."""

    def continue_with(self, config: Config) -> Embedder:
        """Change the settings of a fitted model before a warm start; those that its weights depend on are refused."""
        self._fitted()
        if different := _differences(self.config, config):
            raise ConfigError(
                f"a warm start keeps the encoder and the method ({', '.join(different)}); "
                "leave these settings as they were, or fit anew"
            )
        self._configure(config)
        return self

    def fit(
        self,
        graph: Graph,
        *,
        warm: bool = False,
        on_epoch: EpochCallback | None = None,
        checkpoint: Path | None = None,
    ) -> Embedder:
        """Train on a graph, from the start, from the fitted weights, or from a checkpoint of the same training.

        A warm start goes on from the fitted weights with a new optimiser, on a graph with the same feature columns,
        such as the fitted one with more nodes. The fixed blocks beside the trained vector keep their axes, so that
        new vectors can be compared with old ones.

        In a process group of torch.distributed the processes share the work of each batch, and the first one alone
        makes the vectors: it has the complete model (see docs/distributed.md).

        Args:
            graph: the graph; its labels are never looked at.
            warm: start from the fitted weights.
            on_epoch: called with the record of each epoch.
            checkpoint: file to resume from if it exists, and to write the state of training to.
        """
        from dssl import train
        from dssl.runtime import distributed

        _check_graph(graph)
        if distributed.world() > 1 and not self.config.method.traits.encoder:
            raise ConfigError(
                f"the method {self.config.method.name} changes rows of one table in place, which several processes "
                "cannot share; run it as one process, without torchrun"
            )
        ready = self._fitted()[1].apply(graph) if warm else self._start(graph)
        settings = self.schedule(graph)
        scale = self.scale(graph)
        self.changes_ = [str(change) for change in ready.history]
        self.metrics_ = []

        def note(epoch: int, record: dict[str, float]) -> None:
            self.metrics_.append({"epoch": epoch, **record})
            if on_epoch is not None:
                on_epoch(self.metrics_[-1])

        with threads(settings.threads):
            self.epochs_ = train.train(
                self._fitted()[0],
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
                on_epoch=note,
            )
            method = cast("Method", self._method)
            self.health_limits_ = method.health_limits()
            self.warnings_ = [*self._unused(), *(method.warnings() if ready.num_arcs else [NO_LINKS])]
            if distributed.rank():
                return self
            if not scale.in_memory:
                environment.give_back()  # the last batches
            values = method.embed(ready, scale=scale)
            if not warm:
                self._readout = self._build_readout()
                if self._readout is not None:
                    self._readout.fit(ready, values, seed=self.config.seed)
            if self._readout is not None:
                values = self._readout.join(ready, values)
            self.embeddings_ = _embeddings(graph, values)
        return self

    def schedule(self, graph: Graph) -> TrainSettings:
        """Return the settings of training with what the size of the graph decides."""
        return self.config.train.for_graph(graph.num_nodes, encoder=self.config.method.traits.encoder)

    def scale(self, graph: Graph) -> Scale:
        """Return whether a graph is computed at once in memory, or by blocks."""
        return Scale.of(graph.num_nodes, self.config.train.in_memory_nodes)

    def transform(self, graph: Graph) -> NDArray[np.float32]:
        """Return one vector per node: ``dim`` trained columns, and those of the fixed blocks unless ``skip=False``.

        The graph may be the fitted one, a grown one, or a new one with the same feature columns.
        """
        method, inputs = self._fitted()
        _check_graph(graph)
        ready = inputs.apply(graph)
        with threads(self.config.train.threads):
            values = cast("Method", method).embed(ready, scale=self.scale(graph))
            return values if self._readout is None else self._readout.join(ready, values)

    def factors(self, graph: Graph) -> Factors:
        """Return how probable each factor is on each link and at each node, with the node ids.

        The links are those that the model sees: by default in both directions and without self loops. The graph may
        be any that `transform` takes.
        """
        from dssl.model.factors import Factors

        method, inputs = self._fitted()
        _check_graph(graph)
        find = getattr(method, "factors", None)
        if find is None:
            raise RunError(f"the method {self.config.method.name!r} has no factors; fit with method='dssl'")
        ready = inputs.apply(graph)
        with threads(self.config.train.threads):
            links, nodes = find(ready)
        return Factors(graph.ids, ready.sources(), ready.indices, links, nodes)

    def link_scores(self, graph: Graph, pairs: Any) -> NDArray[np.float32]:
        """Return how well the model explains links between pairs of nodes, whether they are linked or not.

        The score is log p(z_j | v_i) of the method (Eq. 1) up to a constant; where links have no direction, the mean
        of both. The graph may be any that `transform` takes.

        Args:
            graph: the graph that the vectors are made from.
            pairs: positions of the two nodes of each pair, integers of shape ``(M, 2)``.

        Returns:
            A score per pair, shape ``(M,)``; higher is likelier.
        """
        method, inputs = self._fitted()
        _check_graph(graph)
        find = getattr(method, "link_scores", None)
        if find is None:
            raise RunError(f"the method {self.config.method.name!r} scores no links; fit with method='dssl'")
        places = _pairs(pairs, graph)
        ready = inputs.apply(graph)
        with threads(self.config.train.threads):
            return cast("NDArray[np.float32]", find(ready, places))

    def fit_transform(self, graph: Graph) -> NDArray[np.float32]:
        """Train on a graph and return its vectors, as `transform` does."""
        return self.fit(graph).embeddings_.values

    def embed(self, graph: Graph) -> Embeddings:
        """Return the vectors of a graph with its node ids."""
        return _embeddings(graph, self.transform(graph))

    @property
    def inputs(self) -> Inputs:
        """What the fitted model expects of a graph."""
        return self._fitted()[1]

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder: settings, weights and feature columns, no pickles."""
        from safetensors.torch import save_file

        _, inputs = self._fitted()
        folder = Path(folder)
        files.write_text(folder / CONFIG, to_toml(self.config))
        files.write_json(folder / FEATURES, inputs.to_json())
        with files.replacing(folder / WEIGHTS) as path:
            # Copies, since a module of the user's may hold a tensor twice, which the format refuses.
            save_file({name: value.detach().cpu().contiguous().clone() for name, value in self._state().items()}, path)

    @staticmethod
    def load(folder: str | Path, *, encoder: nn.Module | None = None) -> Embedder:
        """Read a fitted model, of whatever method it is, from a folder that `save` or ``dssl fit`` wrote.

        Args:
            folder: the folder.
            encoder: the module that the model was given as its encoder, if it was; its weights come from the folder.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from dssl import train

        folder = Path(folder)
        config = from_toml(
            files.read_text(folder / CONFIG, "give a folder that `dssl fit` wrote"), str(folder / CONFIG)
        )
        if config.encoder.name == CUSTOM and encoder is None:
            raise RunError(
                f"the model in {folder} has an encoder of its own, whose code is not stored; "
                "give it again: dssl.load_model(folder, encoder=module)"
            )
        model = Embedder.from_config(config, encoder=_module(encoder))
        try:
            model._inputs = Inputs.from_json(json.loads(files.read_text(folder / FEATURES, "fit the model again")))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, DsslError):
                raise
            raise RunError(f"{folder / FEATURES} is damaged ({error!r:.80}); fit the model again") from None
        path = folder / WEIGHTS
        method = model._build(model._inputs.num_features)
        model._readout = model._build_readout()
        try:
            tensors = load_file(path)
            method.load_state_dict({name: value for name, value in tensors.items() if not name.startswith(_READOUT)})
            if model._readout is not None:
                own = {
                    name.removeprefix(_READOUT): value for name, value in tensors.items() if name.startswith(_READOUT)
                }
                model._readout.load_state_dict(own)
        except (SafetensorError, RuntimeError, OSError):
            reason = "is damaged or of another model" if path.exists() else "is missing"
            raise RunError(f"{path} {reason}; fit the model again") from None
        model._method = method.to(train.device(model.config.train.device))
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return every keyword with its value; ``deep`` is there for scikit-learn."""
        values = {name: _value(self.config, row.path) for name, row in _keywords(self.config.method.name).items()}
        return {**values, **self._given}

    def set_params(self, **settings: Any) -> Embedder:
        """Change settings of the model; unless they are only of training, the model is then unfitted."""
        before, fitted = self.config, (self._method, self._inputs, self._readout)
        type(self).__init__(self, **{**self._given, **settings})
        if "encoder" not in settings and not _differences(before, self.config):
            self._method, self._inputs, self._readout = fitted
        return self

    def __sklearn_clone__(self) -> Embedder:
        return type(self)(**self._given)

    def __repr__(self) -> str:
        shown = {
            name: f"{type(value).__name__}(…)" if value is self._module else repr(value)
            for name, value in self._given.items()
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def _start(self, graph: Graph) -> Graph:
        """Make the graph ready and the method anew."""
        options = self.config.graph
        inputs, ready = Inputs.fit(
            graph,
            directed=options.directed,
            self_loops=options.self_loops,
            row_scale=options.row_scale,
            structure=options.structure if self._looks_at_features else "none",
            structure_dim=options.structure_dim,
            seed=self.config.seed,
        )
        self._method = self._build(inputs.num_features)
        self._inputs = inputs
        return ready

    def _unused(self) -> list[str]:
        """Say which settings have no effect on the method."""
        if found := unused(self.config):
            name = self.config.method.name
            return [f"{', '.join(found)}: without effect, since the method {name} trains no encoder"]
        return []

    @property
    def _looks_at_features(self) -> bool:
        return self.config.method.traits.features or self.config.encoder.skip

    def _build(self, in_dim: int) -> nn.Module:
        from dssl.model import build
        from dssl.nn import encoders

        options = self.config.encoder
        with rng.seeded(self.config.seed, "init"):
            encoder: Encoder | None
            if not self.config.method.traits.encoder:
                encoder = None
            elif self._module is not None:
                encoder = encoders.wrapped(self._module, in_dim=in_dim, dim=options.dim, hops=options.layers)
            else:
                encoder = encoders.build(
                    options.name,
                    in_dim=in_dim,
                    dim=options.dim,
                    hidden_dim=options.hidden_dim,
                    layers=options.layers,
                    dropout=options.dropout,
                    batch_norm=options.batch_norm,
                    high_pass=options.high_pass,
                )
            return build.build(self.config.method, encoder=encoder, dim=options.dim, in_dim=in_dim)

    def _build_readout(self) -> Readout | None:
        from dssl.nn.fixed_blocks import Readout

        options = self.config.encoder
        return Readout(dim=options.skip_dim, link_dim=options.skip_link_dim) if options.skip else None

    def _state(self) -> dict[str, Tensor]:
        """All tensors of the fitted model, by name."""
        tensors: dict[str, Tensor] = dict(self._fitted()[0].state_dict())
        if self._readout is not None:
            tensors |= {f"{_READOUT}{name}": value for name, value in self._readout.state_dict().items()}
        return tensors

    def _fitted(self) -> tuple[nn.Module, Inputs]:
        if self._method is None or self._inputs is None:
            raise RunError(
                "the model is not fitted yet; call fit(graph) first, or load one with dssl.load_model(folder)"
            )
        return self._method, self._inputs


@_documented
class DSSL(Embedder):
    """Node embeddings by decoupled self-supervised learning.

    After `fit`: ``embeddings_`` (an `Embeddings` of the fitted graph), ``metrics_`` (a record per epoch), ``epochs_``
    (how many ran), ``warnings_`` (sentences on a collapse, if there was one) and ``changes_`` (what was done to the
    graph first).

    ``encoder`` may also be a torch module with ``forward(x, edge_index)``, as PyG's models have; ``dim`` is then the
    length of its vectors, by default its attribute ``out_channels`` or ``dim``. `fit` trains a copy of it.

    >>> from dssl.graph import Graph
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
    >>> model = DSSL(num_factors=2, dim=4, epochs=2, seed=1).fit(graph)
    >>> model.transform(graph).shape
    (4, 16)
    """

    def _check_method(self) -> None:
        if (name := self.config.method.name) != "dssl":
            raise ConfigError(f"DSSL is the estimator of the method dssl, not of {name}; use Embedder(method={name!r})")


def load_model(folder: str | Path, *, encoder: nn.Module | None = None) -> Embedder:
    """Read a fitted model from a folder that its `save` or ``dssl fit`` wrote; see `Embedder.load`."""
    return Embedder.load(folder, encoder=encoder)


def _differences(old: Config, new: Config) -> list[str]:
    """What differs of the settings that weights depend on, in words."""
    found = differences(old, new)
    return [text for path, text in found.items() if scope_of(path) is Scope.MODEL]


def _module(encoder: Any) -> nn.Module | None:
    """The module of the user's, or none for an encoder by name."""
    if encoder is None or isinstance(encoder, str):
        return None
    from torch import nn

    if isinstance(encoder, nn.Module):
        return encoder
    raise ConfigError(
        f"encoder is of type {type(encoder).__name__}; give a name, or a torch.nn.Module with forward(x, edge_index)"
    )


def _check_encoder(config: Config, module: nn.Module | None) -> None:
    if config.encoder.name == CUSTOM and not config.method.traits.encoder:
        raise ConfigError(f"the method {config.method.name} trains no encoder; leave out encoder")
    if config.encoder.name == CUSTOM and module is None:
        raise ConfigError(
            "the encoder 'custom' is a torch module of your own: give the module itself, in Python, as "
            "DSSL(encoder=module)"
        )
    if config.encoder.name != CUSTOM and module is not None:
        raise ConfigError(f"the model was fitted with the encoder {config.encoder.name!r}; load it without a module")


def _check_graph(graph: Graph) -> None:
    if not isinstance(graph, Graph):
        kind = f"{type(graph).__module__.partition('.')[0]}.{type(graph).__name__}"
        raise GraphError(
            f"the model takes a dssl.Graph, not {kind}; make one with dssl.load, dssl.from_pyg, dssl.from_networkx, "
            "dssl.from_scipy or dssl.from_tables"
        )


def _pairs(pairs: Any, graph: Graph) -> NDArray[np.int64]:
    import numpy as np

    places = np.asarray(pairs)
    if places.shape[1:] != (2,) or (places.size and not np.issubdtype(places.dtype, np.integer)):
        raise GraphError(f"pairs must be integers of shape (M, 2), not {places.dtype} of shape {places.shape}")
    if places.size and (places.min() < 0 or places.max() >= graph.num_nodes):
        raise GraphError(
            f"pairs hold positions from {places.min()} to {places.max()}; graph {graph.name!r} has 0 to "
            f"{graph.num_nodes - 1}"
        )
    return places.astype(np.int64)


def _embeddings(graph: Graph, values: NDArray[np.float32]) -> Embeddings:
    from dssl.model.embeddings import Embeddings

    return Embeddings(graph.ids, values)


def _paths() -> set[str]:
    return {row.path for method in METHODS for row in _keywords(method).values()}


def _known(name: str) -> str:
    """The path of a keyword; a wrong one is left to `resolve`, which reports all of them."""
    try:
        return locate(name)
    except ConfigError:
        return next(iter(_paths()))


def _value(config: Config, path: str) -> Any:
    section, _, leaf = path.rpartition(".")
    return getattr(getattr(config, section) if section else config, leaf)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, which is what the configuration takes; lists stay lists."""
    return value.item() if hasattr(value, "item") else value
