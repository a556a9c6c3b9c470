"""Look-up and comparison of settings by their dotted path, such as ``encoder.dim``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
import tomli_w
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dssl.config.methods import METHODS
from dssl.config.registry import Marks, MethodSection, Scope, Search, Section, marks_of
from dssl.config.schema import Config
from dssl.errors import ConfigError, nearest

DEFAULT_METHOD = Config().method.name


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting with its default for a method.

    Args:
        path: dotted path, such as ``encoder.dim``.
        annotation: the declared type, without None.
        value: the default value.
        help: the help text.
        bounds: the bounds in words, such as ``of at least 1``, or empty.
        choices: the allowed texts, if there is a fixed list.
        scope: the part of the program that it belongs to.
        encoder_only: whether methods without an encoder ignore it.
        search: values that a search tries.
        method: the method that declares it, or empty.
        word: a text that is allowed in place of a number, or empty.
    """

    path: str
    annotation: Any
    value: Any
    help: str
    bounds: str
    choices: tuple[str, ...]
    scope: Scope
    encoder_only: bool
    search: Search | None
    method: str = ""
    word: str = ""

    @property
    def section(self) -> str:
        """The section, or empty at the top level."""
        return self.path.rpartition(".")[0]

    @property
    def leaf(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def keyword(self) -> str:
        """The keyword of the estimators: the last part of the path, or the section of a name."""
        return self.section if self.leaf == "name" else self.leaf

    @property
    def kind(self) -> str:
        """The type in words, such as ``an integer``."""
        return choice_list(self.choices) if self.choices else _KINDS[self.annotation]

    @property
    def is_text(self) -> bool:
        """Whether it takes any text."""
        return self.annotation is str and not self.choices

    @property
    def default(self) -> str:
        """The default as written in TOML, or ``not set``."""
        if self.value is None:
            return "not set"
        if isinstance(self.value, tuple):
            return str(list(self.value))
        return tomli_w.dumps({"v": self.value}).removeprefix("v = ").strip()

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"{self.kind} {self.bounds}".rstrip() + (f", or {self.word}" if self.word else "")

    def of(self, config: Config) -> Any:
        """Return the value in a configuration."""
        return getattr(getattr(config, self.section) if self.section else config, self.leaf)


_KINDS = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text",
    tuple[str, ...]: 'a list of texts such as ["age"]',
    tuple[int, ...]: "a list of integers such as [10, 5]",
}


def settings_of(method: str = DEFAULT_METHOD) -> tuple[Setting, ...]:
    """Return every setting of a configuration with a method, with its defaults, in the order of the sections.

    >>> next(row for row in settings_of() if row.path == "encoder.dim").allowed
    'an integer of at least 1'
    >>> [row.default for row in settings_of("dgi") if row.path == "encoder.name"]
    ['"gcn"']
    """
    return _settings_of(METHODS.get(method, METHODS[DEFAULT_METHOD]), tuple(METHODS))


def every_setting() -> tuple[Setting, ...]:
    """Return the settings with the default method, followed by those that only other methods have."""
    return _every_setting(tuple(METHODS))


def section_of(name: str) -> type[Section] | None:
    """Return the section that a field of `Config` contains, or None for a plain value."""
    field = Config.model_fields.get(name)
    declared = None if field is None else field.annotation
    return declared if isinstance(declared, type) and issubclass(declared, Section) else None


@cache
def _settings_of(method: type[MethodSection], names: tuple[str, ...]) -> tuple[Setting, ...]:
    found = []
    for name, field in Config.model_fields.items():
        section = section_of(name)
        if section is None:
            found.append(_setting(name, field, field.default, Config.scope))
            continue
        own = method.traits.defaults.get(name, {})
        declared = method if section is MethodSection else section
        for leaf, inner in declared.model_fields.items():
            default = own.get(leaf, inner.default)
            of = method.traits.name if section is MethodSection else ""
            row = _setting(f"{name}.{leaf}", inner, default, declared.scope, method=of)
            found.append(replace(row, value=DEFAULT_METHOD, choices=names) if row.path == "method.name" else row)
    return tuple(found)


@cache
def _every_setting(names: tuple[str, ...]) -> tuple[Setting, ...]:
    others = [name for name in names if name != DEFAULT_METHOD]
    own = (row for name in others for row in settings_of(name) if row.method and row.leaf != "name")
    return (*settings_of(), *own)


@cache
def _paths(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Dotted paths by the keys that stand for them."""
    found: dict[str, list[str]] = {}
    for path in dict.fromkeys(row.path for row in _every_setting(names)):
        found.setdefault(path.rpartition(".")[2], []).append(path)
    for row in _every_setting(names):
        if row.leaf == "name":
            found[row.section] = [row.path]
        found[row.path] = [row.path]
    return found


def locate(key: str) -> str:
    """Return the dotted path that a key stands for: a path, its last part if unique, or a section with a name.

    >>> locate("dim"), locate("train.epochs"), locate("encoder")
    ('encoder.dim', 'train.epochs', 'encoder.name')
    """
    found = _paths(tuple(METHODS)).get(key)
    if found is None:
        raise ConfigError(f"unknown setting {key!r}{near(key)}")
    if len(found) > 1:
        raise ConfigError(f"setting {key!r} is ambiguous; write one of {', '.join(found)}")
    return found[0]


def near(key: str) -> str:
    """Return a hint at the nearest setting or section, as a path if the key is one, or an empty text.

    >>> near("epoch"), near("epochs")
    (", did you mean 'epochs'?", ", did you mean 'train.epochs'?")
    """
    rows = every_setting()
    if path := next((row.path for row in rows if row.leaf == key), ""):  # the right name in the wrong section
        return f", did you mean {path!r}?"
    leaves = [*(row.leaf for row in rows), *Config.model_fields]
    return nearest(key, (row.path for row in rows) if "." in key else leaves) or nearest(key.rpartition(".")[2], leaves)


def values(config: Config) -> dict[str, Any]:
    """Return every setting of a configuration by its dotted path.

    >>> values(Config(seed=3))["seed"], values(Config())["encoder.dim"]
    (3, 64)
    """
    return {row.path: row.of(config) for row in settings_of(config.method.name)}


def changed(config: Config) -> dict[str, Any]:
    """Return the settings that differ from the defaults of the method, by their dotted path.

    >>> changed(Config(seed=3))
    {'seed': 3}
    """
    return {row.path: row.of(config) for row in settings_of(config.method.name) if row.of(config) != row.value}


def differences(old: Config, new: Config) -> dict[str, str]:
    """Return the differences between two configurations: a few words by dotted path.

    Two methods differ in their name alone: their own settings are not compared.

    >>> differences(Config(), Config(seed=3))
    {'seed': 'seed was 0, is 3'}
    """
    same_method = old.method.name == new.method.name
    rows = [row for row in settings_of(new.method.name) if same_method or not row.method or row.leaf == "name"]
    pairs = {row.path: (row.of(old), row.of(new)) for row in rows}
    return {path: f"{path} was {was!r}, is {now!r}" for path, (was, now) in pairs.items() if was != now}


def scope_of(path: str) -> Scope:
    """Return the scope of a setting.

    >>> scope_of("encoder.dim").name, scope_of("train.epochs").name, scope_of("graph.nodes").name
    ('MODEL', 'TRAINING', 'COMMAND')
    """
    return next(row.scope for row in every_setting() if row.path == path)


def graph_settings(scope: Scope) -> tuple[str, ...]:
    """Return the names of the settings of the graph with a scope: those of `Scope.MODEL` belong to a fitted model.

    >>> graph_settings(Scope.MODEL)[:2]
    ('directed', 'self_loops')
    """
    rows = (row for row in every_setting() if row.path.startswith("graph.") and row.scope is scope)
    return tuple(row.path.removeprefix("graph.") for row in rows)


def _setting(path: str, field: FieldInfo, default: Any, scope: Scope, *, method: str = "") -> Setting:
    marks: Marks = marks_of(field)
    parts = [part for part in get_args(field.annotation) if part is not type(None)]
    choices: tuple[str, ...] = ()
    word, metadata = "", field.metadata
    annotation = parts[0] if type(None) in get_args(field.annotation) else field.annotation
    if get_origin(annotation) is Literal:
        choices = tuple(str(choice) for choice in get_args(annotation))
    elif len(parts) == 2 and get_origin(parts[0]) is Annotated and get_origin(parts[1]) is Literal:
        annotation, bounded = get_args(parts[0])
        word, metadata = str(get_args(parts[1])[0]), bounded.metadata
    elif get_origin(annotation) is tuple and get_args(annotation)[0] is not str:
        annotation = tuple[int, ...]
    return Setting(
        path,
        annotation,
        default,
        str(field.description),
        _bounds(metadata),
        choices,
        marks.scope or scope,
        marks.encoder_only,
        marks.search,
        method,
        word,
    )


def choice_list(names: Iterable[str]) -> str:
    """Return names as an enumeration in words.

    >>> choice_list(["a", "b", "c"])
    'a, b or c'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _bounds(metadata: Sequence[Any]) -> str:
    words = []
    for part in metadata:
        match part:
            case annotated_types.Ge(ge=low):
                words.append(f"of at least {low}")
            case annotated_types.Gt(gt=low):
                words.append(f"above {low}")
            case annotated_types.Le(le=high):
                words.append(f"at most {high}")
            case annotated_types.Lt(lt=high):
                words.append(f"below {high}")
    return " and ".join(words)


def with_origin(problem: str, origin: str) -> str:
    """Return a problem, preceded by its origin if that has a name."""
    return f"{origin}: {problem}" if origin else problem


def check(tables: Mapping[str, Any], origins: Mapping[str, str], problems: Sequence[str]) -> Config:
    """Build a configuration from nested tables, or raise one error that lists all problems.

    Args:
        tables: values by section and name.
        origins: origin of the value of a dotted path, for error messages.
        problems: problems found earlier, which are reported as well.
    """
    problems = list(problems)
    config = None
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        section = tables.get("method")
        method = str(section.get("name", DEFAULT_METHOD)) if isinstance(section, Mapping) else DEFAULT_METHOD
        rows = {row.path: row for row in settings_of(method)}
        for path, found in {_path(found["loc"]): found for found in error.errors()}.items():
            value = found["input"]
            if found["type"] == "unknown_method":
                path, value = "method.name", value["name"]
            origin = origins.get(path, origins.get(path.partition(".")[0], ""))
            problems.append(with_origin(_problem(path, value, found["type"], found["msg"], method, rows), origin))
    if problems or config is None:
        raise ConfigError("; ".join(problems))
    return config


def _problem(path: str, value: Any, kind: str, message: str, method: str, rows: Mapping[str, Setting]) -> str:
    """Return one validation error in words."""
    if kind == "extra_forbidden":
        owners = [row.method for row in every_setting() if row.path == path]
        if owners:
            return f"setting {path!r} is one of the method {choice_list(owners)}, not of {method}"
        return f"unknown setting {path!r}{near(path)}"
    if path not in rows:
        return f"{path}: {message.removeprefix('Value error, ')}"
    hint = nearest(value, rows[path].choices) if isinstance(value, str) else ""
    return f"{path} is {value!r}, but must be {rows[path].allowed}{hint}"


def _path(location: tuple[int | str, ...]) -> str:
    """The dotted path of a pydantic location, which continues with positions in lists."""
    return ".".join(part for part in location[:2] if isinstance(part, str))
