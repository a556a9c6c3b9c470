"""The layers of a configuration: defaults of the method, preset, recipe, file, flags or keywords, ``--set``.

Later layers win.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dssl.config.fields import (
    DEFAULT_METHOD,
    changed,
    check,
    every_setting,
    locate,
    section_of,
    settings_of,
    with_origin,
)
from dssl.config.methods import METHODS
from dssl.config.recipes import as_recipe, dataset_name, read_recipe, split_recipe
from dssl.config.schema import PRESETS, Config
from dssl.config.toml import read_toml
from dssl.errors import ConfigError, nearest

Layer = tuple[str, Mapping[str, Any]]  # the origin, and values by section and name
Flat = Mapping[str, tuple[Any, str]]  # value and origin by dotted path


def resolve(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    base: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> Config:
    """Combine the layers of a configuration.

    Args:
        flags: value by dotted path, unique last part, or section with a name; None stands for not given. ``preset``
            and ``recipe`` select the layers below the file, by default those named in the file.
        file: a configuration file.
        base: complete settings by section, instead of preset, recipe and file.
        settings: ``key=value`` texts as given to ``--set``.

    >>> config = resolve({"source": "texas", "preset": "paper"}, settings=["dim=32", "encoder=gat"])
    >>> config.encoder.dim, config.encoder.name, config.method.estimator, config.graph.source
    (32, 'gat', 'gumbel', 'texas')
    """
    problems: list[str] = []
    flat = _flatten(flags or {}, settings, problems)
    layers = [("", base)] if base is not None else _layers(flat, file, problems)
    layers += [(origin, _nested(path, value)) for path, (value, origin) in flat.items()]
    if base is None:
        layers.insert(0, ("", _method_defaults(layers)))
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        _merge_into(merged, layer, origin, origins, problems)
    return check(merged, origins, problems)


def uses(method: str, path: str) -> bool:
    """Return whether a setting affects a method; without an encoder, the settings of encoders do not.

    >>> uses("dgi", "encoder.layers"), uses("deepwalk", "encoder.layers"), uses("deepwalk", "encoder.dim")
    (True, False, True)
    """
    return METHODS[method].traits.encoder or not any(
        row.encoder_only for row in settings_of(method) if row.path == path
    )


def unused(config: Config) -> list[str]:
    """Return the paths of changed settings that do not affect the method.

    >>> unused(resolve({"method": "line", "hidden_dim": 8, "dim": 8}))
    ['encoder.hidden_dim']
    """
    return [path for path in changed(config) if not uses(config.method.name, path)]


def parse(settings: Sequence[str]) -> dict[str, Any]:
    """Return value by dotted path of ``key=value`` texts, as ``--set`` takes them.

    >>> parse(["dim=32", "encoder=gat"])
    {'encoder.dim': 32, 'encoder.name': 'gat'}
    """
    problems: list[str] = []
    found = _flatten({}, settings, problems)
    if problems:
        raise ConfigError(problems[0])
    return {path: value for path, (value, _) in found.items()}


def _layers(flat: Flat, file: Path | None, problems: list[str]) -> list[Layer]:
    """The layers below the flags: preset, recipe and file."""
    layers: list[Layer] = []
    if file is not None:
        tables = read_toml(file)
        if isinstance(tables.get("recipe"), dict):  # a recipe file given as a configuration
            layers = as_recipe(tables, str(file)).layers(str(file), _dataset(flat, [(str(file), tables)]))
        else:
            layers = [(str(file), tables)]
    if chosen := _chosen("recipe", flat, layers):
        name, dataset = split_recipe(str(chosen))
        recipe = read_recipe(name)
        _check_method(f"recipe {name}", recipe.tables, flat, problems)
        if dataset and dataset not in recipe.names:
            hint = nearest(dataset, recipe.names) or f"; it contains {', '.join(recipe.names) or 'none'}"
            raise ConfigError(f"recipe {name}: unknown data set {dataset!r}{hint}")
        layers = [*recipe.layers(f"recipe {name}", dataset or _dataset(flat, layers)), *layers]
    preset = _preset(_chosen("preset", flat, layers), problems)
    if "preset" in flat:
        _check_method(f"preset {flat['preset'][0]}", preset, flat, problems)
    return [("preset", preset), *layers]


def _check_method(origin: str, tables: Mapping[str, Any], flat: Flat, problems: list[str]) -> None:
    """Report settings of one method that were requested together with another."""
    section = tables.get("method")
    if not isinstance(section, Mapping) or "method.name" not in flat:
        return
    asked, own = flat["method.name"][0], section.get("name", DEFAULT_METHOD)
    if asked != own:
        problems.append(f"{origin} has settings of the method {own}, not of {asked}; leave out one of the two")


def _dataset(flat: Flat, layers: Sequence[Layer]) -> str:
    """The name of the graph according to the layers."""
    source = flat["graph.source"][0] if "graph.source" in flat else _last(layers, "graph", "source")
    return "" if source is None else dataset_name(str(source))


def _flatten(flags: Mapping[str, Any], settings: Sequence[str], problems: list[str]) -> Flat:
    """Value and origin by dotted path, the name of the method first."""
    flat: dict[str, tuple[Any, str]] = {}
    given = [(key, value, "") for key, value in flags.items() if value is not None]
    for text in settings:
        key, equals, value = text.partition("=")
        if equals:
            given.append((key.strip(), value.strip(), "--set"))
        else:
            problems.append(f"--set: {text!r} is not of the form key=value")
    texts = {row.path for row in every_setting() if row.is_text}
    for key, value, origin in given:
        try:
            path = locate(key)
        except ConfigError as error:
            problems.append(with_origin(str(error), origin))
        else:
            flat[path] = (_literal(value, text=path in texts) if origin else value, origin)
    return dict(sorted(flat.items(), key=lambda item: item[0] != "method.name"))


def _chosen(name: str, flat: Flat, layers: Sequence[Layer]) -> Any:
    """The value of a top-level setting according to the layers."""
    if name in flat:
        return flat[name][0]
    named = [layer[name] for _, layer in layers if name in layer]
    return named[-1] if named else Config.model_fields[name].default


def _method_defaults(layers: Sequence[Layer]) -> Mapping[str, Any]:
    """The defaults of the method that the layers select."""
    name = _last(layers, "method", "name")
    known = None if name is None else METHODS.get(str(name))
    return {} if known is None else known.traits.defaults


def _last(layers: Sequence[Layer], section: str, leaf: str) -> Any:
    """The value of a setting in the last layer that has one; None without."""
    tables = [layer.get(section) for _, layer in layers]
    found = [table[leaf] for table in tables if isinstance(table, Mapping) and leaf in table]
    return found[-1] if found else None


def _literal(value: str, *, text: bool) -> Any:
    """The value of a TOML literal, or the text itself if it is none or the setting takes any text."""
    try:
        parsed = tomllib.loads(f"v = {value}")
    except tomllib.TOMLDecodeError:
        return value
    if parsed.keys() != {"v"} or (text and not isinstance(parsed["v"], str)):
        return value
    return parsed["v"]


def _preset(name: Any, problems: list[str]) -> Mapping[str, Any]:
    if not isinstance(name, str) or name not in PRESETS:
        hint = nearest(str(name), PRESETS) or f"; known are {', '.join(PRESETS)}"
        problems.append(f"unknown preset {name!r}{hint}")
        return {}
    return PRESETS[name]


def _nested(path: str, value: Any) -> dict[str, Any]:
    section, _, leaf = path.rpartition(".")
    return {section: {leaf: value}} if section else {leaf: value}


def _merge_into(
    tables: dict[str, Any], layer: Mapping[str, Any], origin: str, origins: dict[str, str], problems: list[str]
) -> None:
    for name, value in layer.items():
        if section_of(name) is None:
            tables[name] = value
            origins[name] = origin
        elif isinstance(value, Mapping):
            known = tables.setdefault(name, {})
            current = known.get("name", DEFAULT_METHOD)
            if name == "method" and value.get("name", current) != current:
                known.clear()  # the settings of another method do not apply
            known.update(value)
            origins.update({f"{name}.{leaf}": origin for leaf in value})
        else:
            problems.append(with_origin(f"{name} is {value!r}, but must be a table of settings", origin))
