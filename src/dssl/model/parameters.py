"""The parameters of the estimators, as in scikit-learn: keywords, and the configuration that they give."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from dssl.config.fields import differences, scope_of, settings_of
from dssl.config.registry import Scope
from dssl.config.resolve import resolve
from dssl.config.schema import CUSTOM, Config
from dssl.errors import ConfigError, nearest
from dssl.model._keywords import EmbedderKeywords

if TYPE_CHECKING:
    from torch import nn

_NESTED = "settings__"  # prefix by which `set_params` reaches a setting of the method, as in scikit-learn


class Parameters(EmbedderKeywords):
    """An object with the keywords of an estimator.

    Attributes:
        config: the complete settings.
    """

    config: Config
    _keywords: dict[str, Any]  # as passed to the constructor
    _module: nn.Module | None  # the user's encoder

    def _set_keywords(self, keywords: Mapping[str, Any]) -> None:
        module = as_module(keywords.get("encoder"))
        if module is not None:
            keywords = {**keywords, "features": "raw"}  # the module was made for the columns of the graph
        given = {name: _plain(value) for name, value in keywords.items() if value is not None and name != "settings"}
        chosen = keywords.get("settings") or {}
        if not isinstance(chosen, Mapping):
            raise ConfigError(f"settings is {chosen!r}, but must be a dictionary, such as {{'temperature': 0.5}}")
        own = {f"method.{name}": _plain(value) for name, value in chosen.items()}
        if module is not None:
            given["encoder"] = CUSTOM
        if module is not None and "dim" not in given:
            from dssl.nn.encoders import width

            given["dim"] = width(module)
        config = resolve({**given, **own})
        check_encoder(config, module)
        self.config, self._module, self._keywords = config, module, dict(keywords)

    def _set_config(self, config: Config, module: nn.Module | None) -> None:
        """Set a configuration and the keywords that give it; a keyword that may be None is set where it differs."""
        self.config, self._module = config, module
        rows = {row.keyword: row for row in settings_of(config.method.name)}
        optional = {name for name, parameter in self._signature().items() if parameter.default is None}
        changed = {name: row.of(config) for name, row in rows.items() if row.of(config) != row.value}
        found: dict[str, Any] = {"method": config.method.name, "preset": None, "recipe": None}
        found["settings"] = {name: value for name, value in changed.items() if rows[name].method and name != "method"}
        for name in set(self._signature()) - set(found):
            found[name] = changed.get(name) if name in optional else rows[name].of(config)
        found |= {} if module is None else {"encoder": module}
        self._keywords = {name: found[name] for name in self._signature()}

    @property
    def asks_for_count(self) -> bool:
        """Whether each fit from scratch chooses the number of factors."""
        return "auto" in (self._keywords.get("num_factors"), (self._keywords.get("settings") or {}).get("num_factors"))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return every keyword with its value.

        Args:
            deep: whether to include the settings of the method as ``settings__NAME``.
        """
        own = self._keywords.get("settings") or {}
        return self._keywords | ({f"{_NESTED}{name}": value for name, value in own.items()} if deep else {})

    def set_params(self, **params: Any) -> Self:
        """Change keywords; a setting of the method is ``settings__NAME``.

        The model stays fitted if its weights do not depend on the changes.
        """
        names = self._signature()
        own = {name: value for name, value in params.items() if name.startswith(_NESTED) and "settings" in names}
        if unknown := [name for name in params if name not in names and name not in own]:
            raise ConfigError(f"unknown parameter {unknown[0]!r}{nearest(unknown[0], names)}")
        before = self.config
        keywords = {**self._keywords, **{name: value for name, value in params.items() if name in names}}
        if own:
            nested = {name.removeprefix(_NESTED): value for name, value in own.items()}
            keywords["settings"] = {**(keywords["settings"] or {}), **nested}
        self._set_keywords(keywords)
        if "encoder" in params or model_differences(before, self.config):
            self._unfit()
        return self

    def __sklearn_clone__(self) -> Self:
        return type(self)(**self._keywords)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        target, kind = TargetTags(required=False), TransformerTags()
        graphs = InputTags(two_d_array=False)
        return Tags(estimator_type=None, target_tags=target, transformer_tags=kind, input_tags=graphs)

    @classmethod
    def _signature(cls) -> Mapping[str, inspect.Parameter]:
        """The keywords of the constructor."""
        return inspect.signature(cls).parameters

    def __repr__(self) -> str:
        known = self._signature()
        shown = {name: value for name, value in self._keywords.items() if value not in (None, {}, known[name].default)}
        texts = {
            name: f"{type(value).__name__}(…)" if value is self._module else repr(value)
            for name, value in shown.items()
        }
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in texts.items())})"

    def _unfit(self) -> None:
        """Discard the fitted parts."""
        raise NotImplementedError


def model_differences(old: Config, new: Config) -> list[str]:
    """Return the differences of settings that the weights depend on, in words."""
    return [text for path, text in differences(old, new).items() if scope_of(path) is Scope.MODEL]


def as_module(encoder: Any) -> nn.Module | None:
    """Return the user's module, or None for an encoder by name."""
    if encoder is None or isinstance(encoder, str):
        return None
    from torch import nn

    if isinstance(encoder, nn.Module):
        return encoder
    raise ConfigError(
        f"encoder is of type {type(encoder).__name__}; give a name, or a torch.nn.Module with forward(x, edge_index)"
    )


def check_encoder(config: Config, module: nn.Module | None) -> None:
    """Raise an error unless a module is passed exactly for the encoder ``custom``."""
    if config.encoder.name == CUSTOM and not config.method.traits.encoder:
        raise ConfigError(f"the method {config.method.name} trains no encoder; leave out encoder")
    if config.encoder.name == CUSTOM and module is None:
        raise ConfigError("the encoder 'custom' is a torch module: pass the module itself, as DSSL(encoder=module)")
    if config.encoder.name != CUSTOM and module is not None:
        raise ConfigError(f"the model was fitted with the encoder {config.encoder.name!r}; load it without a module")


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number; lists stay lists."""
    return value.item() if hasattr(value, "item") else value
