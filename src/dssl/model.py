"""The estimator in the manner of scikit-learn: ``DSSL(num_factors=8).fit(graph).transform(graph)``.

The command line uses the same class. Its keywords are the settings of `dssl.config`, by the last part of their path.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dssl import config as configuration
from dssl import files, rng
from dssl.errors import ConfigError, DsslError, GraphError, RunError
from dssl.graph import Graph
from dssl.inputs import Inputs
from dssl.resolve import resolve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from dssl.embeddings import Embeddings
    from dssl.methods import Method
    from dssl.readout import Readout

    EpochCallback = Callable[[dict[str, float]], None]

CONFIG, WEIGHTS, FEATURES = "config.toml", "weights.safetensors", "features.json"
# Settings that say how a file is read or how a result is judged: nothing that an estimator could use.
_NOT_KEYWORDS = ("graph.source", "graph.nodes", "graph.header", "_column", "evaluate.")
_READOUT = "readout."  # how the tensors of the fixed blocks are told from the method's
_Class = TypeVar("_Class", bound=type)


@cache
def _keywords() -> dict[str, configuration.Setting]:
    """The settings that the estimator takes, by keyword."""
    found = {}
    for row in configuration.settings():
        if not any(part in row.path for part in _NOT_KEYWORDS):
            section, _, leaf = row.path.rpartition(".")
            found[section if leaf == "name" else leaf] = row
    return found


def _documented(cls: _Class) -> _Class:
    """Give the class the signature and the list of arguments that follow from the configuration."""
    rows = _keywords()
    lines = [f"        {name}: {row.help} {row.allowed.capitalize()}; {row.default}." for name, row in rows.items()]
    cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nArgs:\n" + "\n".join(line[4:] for line in lines) + "\n"
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=row.value) for name, row in rows.items()
    ]
    type.__setattr__(cls, "__signature__", inspect.Signature(parameters))
    return cls


@_documented
class DSSL:
    """Node embeddings by decoupled self-supervised learning.

    After `fit`: ``embeddings_`` (an `Embeddings` of the fitted graph), ``metrics_`` (a record per epoch), ``epochs_``
    (how many ran), ``warnings_`` (sentences on a collapse, if there was one) and ``changes_`` (what was done to the
    graph first).

    >>> from dssl.graph import Graph
    >>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
    >>> model = DSSL(num_factors=2, dim=4, epochs=2, seed=1).fit(graph)
    >>> model.transform(graph).shape
    (4, 16)
    """

    embeddings_: Embeddings
    metrics_: list[dict[str, float]]
    epochs_: int
    warnings_: list[str]
    changes_: list[str]

    def __init__(self, **settings: Any) -> None:
        self._given = {name: value for name, value in settings.items() if value is not None}
        unusable = [name for name in self._given if name not in _keywords() and _known(name) not in _paths()]
        if unusable:
            raise ConfigError(f"setting {unusable[0]!r} is not one of the model: give it to dssl.load or dssl.evaluate")
        self.config = resolve({name: _plain(value) for name, value in self._given.items()})
        self._method: nn.Module | None = None
        self._inputs: Inputs | None = None
        self._readout: Readout | None = None

    @classmethod
    def from_config(cls, config: configuration.Config) -> DSSL:
        """Make an unfitted model with a complete configuration."""
        model = cls()
        model.config = config
        model._given = {
            name: value for name, row in _keywords().items() if (value := _value(config, row.path)) != row.value
        }
        return model

    def fit(self, graph: Graph, *, on_epoch: EpochCallback | None = None, checkpoint: Path | None = None) -> DSSL:
        """Train on a graph, from the start, or from a checkpoint of the same training.

        Args:
            graph: the graph; its labels are never looked at.
            on_epoch: called with the record of each epoch.
            checkpoint: file to resume from if it exists, and to write the state of training to.
        """
        from dssl import train

        _check_graph(graph)
        options, settings = self.config.graph, self.config.train
        self._inputs, ready = Inputs.fit(
            graph,
            directed=options.directed,
            self_loops=options.self_loops,
            structure=options.structure,
            structure_dim=options.structure_dim,
            seed=self.config.seed,
        )
        self.changes_ = [str(change) for change in ready.history]
        self._method = self._build(self._inputs.num_features)
        self.metrics_ = []

        def note(epoch: int, record: dict[str, float]) -> None:
            self.metrics_.append({"epoch": epoch, **record})
            if on_epoch is not None:
                on_epoch(self.metrics_[-1])

        with _threads(settings.threads):
            self.epochs_ = train.train(
                self._method,
                ready,
                epochs=settings.epochs,
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                batch_size=settings.batch_size,
                fanout=settings.fanout,
                seed=self.config.seed,
                device=train.device(settings.device),
                checkpoint=checkpoint,
                checkpoint_every=settings.checkpoint_every,
                patience=settings.patience,
                on_epoch=note,
            )
            method = cast("Method", self._method)
            self.warnings_ = method.warnings()
            values = method.embed(ready)
            self._readout = self._build_readout()
            if self._readout is not None:
                self._readout.fit(ready, values, seed=self.config.seed)
                values = self._readout.join(ready, values)
            self.embeddings_ = _embeddings(graph, values)
        return self

    def transform(self, graph: Graph) -> NDArray[np.float32]:
        """Return one vector per node: ``dim`` trained columns, and those of the fixed blocks unless ``skip=False``.

        The graph may be the fitted one, a grown one, or a new one with the same feature columns.
        """
        method, inputs = self._fitted()
        _check_graph(graph)
        ready = inputs.apply(graph)
        with _threads(self.config.train.threads):
            values = cast("Method", method).embed(ready)
            return values if self._readout is None else self._readout.join(ready, values)

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
        files.write_text(folder / CONFIG, configuration.to_toml(self.config))
        files.write_json(folder / FEATURES, inputs.to_json())
        with files.replacing(folder / WEIGHTS) as path:
            save_file({name: value.detach().cpu().contiguous() for name, value in self._state().items()}, path)

    @classmethod
    def load(cls, folder: str | Path) -> DSSL:
        """Read a fitted model from a folder that `save` or ``dssl fit`` wrote."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from dssl import train

        folder = Path(folder)
        model = cls.from_config(configuration.from_toml(_read(folder / CONFIG), str(folder / CONFIG)))
        try:
            model._inputs = Inputs.from_json(json.loads(_read(folder / FEATURES)))
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
        values = {name: _value(self.config, row.path) for name, row in _keywords().items()}
        return {**values, **self._given}

    def set_params(self, **settings: Any) -> DSSL:
        """Change settings of the model, which is then unfitted."""
        type(self).__init__(self, **{**self._given, **settings})
        return self

    def __sklearn_clone__(self) -> DSSL:
        return type(self)(**self._given)

    def __repr__(self) -> str:
        return f"DSSL({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def _build(self, in_dim: int) -> nn.Module:
        from dssl import encoders, methods

        options = self.config.encoder
        with rng.seeded(self.config.seed, "init"):
            encoder = encoders.build(
                options.name,
                in_dim=in_dim,
                dim=options.dim,
                hidden_dim=options.hidden_dim,
                layers=options.layers,
                dropout=options.dropout,
                batch_norm=options.batch_norm,
            )
            return methods.build(self.config.method, encoder=encoder, in_dim=in_dim)

    def _build_readout(self) -> Readout | None:
        from dssl.readout import Readout

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


def load_model(folder: str | Path) -> DSSL:
    """Read a fitted model from a folder that `DSSL.save` or ``dssl fit`` wrote."""
    return DSSL.load(folder)


def _check_graph(graph: Graph) -> None:
    if not isinstance(graph, Graph):
        kind = f"{type(graph).__module__.partition('.')[0]}.{type(graph).__name__}"
        raise GraphError(
            f"the model takes a dssl.Graph, not {kind}; make one with dssl.load, dssl.from_pyg, dssl.from_networkx, "
            "dssl.from_scipy or dssl.from_tables"
        )


def _embeddings(graph: Graph, values: NDArray[np.float32]) -> Embeddings:
    from dssl.embeddings import Embeddings

    return Embeddings(graph.ids, values)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); give a folder that `dssl fit` wrote") from None
    except UnicodeDecodeError:
        raise RunError(f"{path} is damaged: not UTF-8 text; fit the model again") from None


def _paths() -> set[str]:
    return {row.path for row in _keywords().values()}


def _known(name: str) -> str:
    """The path of a keyword; a wrong one is left to `resolve`, which reports all of them."""
    try:
        return configuration.locate(name)
    except ConfigError:
        return next(iter(_paths()))


def _value(config: configuration.Config, path: str) -> Any:
    section, _, leaf = path.rpartition(".")
    return getattr(getattr(config, section) if section else config, leaf)


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, which is what the configuration takes; lists stay lists."""
    return value.item() if hasattr(value, "item") else value


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Let torch use this many threads inside the block; 0 leaves it alone."""
    import torch

    before = torch.get_num_threads()
    if number:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
