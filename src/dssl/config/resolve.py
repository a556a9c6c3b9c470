"""How a configuration is put together from layers, later ones winning.

Defaults (those of the method), preset, recipe, configuration file, flags (or keywords in Python), ``--set``. A recipe
is a packaged TOML file with published settings and numbers: a ``[recipe]`` table, the sections of a configuration, and
``[datasets.NAME.…]`` tables with what differs for a graph. These are chosen by the name of the graph, or by
``--recipe RECIPE:NAME`` for any.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from dssl.config.fields import check, differences, every_setting, locate, parse_toml, sections_of, where
from dssl.config.methods import Section
from dssl.config.schema import METHODS, PRESETS, Config, EncoderSettings
from dssl.errors import ConfigError, nearest

# Settings that only a method with an encoder looks at.
OF_ENCODERS = (
    *(f"encoder.{name}" for name in EncoderSettings.model_fields if name != "dim" and not name.startswith("skip")),
    *(f"train.{name}" for name in ("learning_rate", "weight_decay", "batch_size", "fanout")),
)


class RecipeHeader(Section):
    """The ``[recipe]`` table of a recipe: what it is, where it comes from, and the published numbers."""

    title: str = Field(description="What the recipe is, in one sentence.")
    source: str = Field(default="", description="Where the settings come from.")
    notes: str = Field(default="", description="What to know before using it.")
    paper: dict[str, float] = Field(default_factory=dict, description="Published accuracy in percent by data set.")
    published: dict[str, float] = Field(
        default_factory=dict, description="Accuracy on the public split of a data set, from where the source says."
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """Published settings and numbers.

    Args:
        header: its ``[recipe]`` table.
        tables: settings for every graph, as the sections of a configuration.
        datasets: settings that differ for a graph, by its name.
    """

    header: RecipeHeader
    tables: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]

    @property
    def names(self) -> list[str]:
        """The data sets that it has settings or a published number for."""
        return list(dict.fromkeys([*self.header.paper, *self.datasets]))

    def layers(self, origin: str, dataset: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Return its settings for a data set, later ones winning, each with where it came from."""
        own = self.datasets.get(dataset)
        return [(origin, self.tables), *([] if own is None else [(f"{origin}, datasets.{dataset}", own)])]


def resolve(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    base: Mapping[str, Any] | None = None,
    settings: Sequence[str] = (),
) -> Config:
    """Put a configuration together.

    Args:
        flags: value by dotted path, unique last part, or section with a name; None stands for not given. ``preset``
            and ``recipe`` name what lies below the file; without them, those that the file names.
        file: a configuration file; flags win over it.
        base: complete settings by section, in place of preset, recipe and file.
        settings: ``key=value`` texts as given to ``--set``; they win over everything.

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
    """Whether a setting has any effect on a method: those of encoders have none on a method without.

    >>> uses("dgi", "encoder.layers"), uses("deepwalk", "encoder.layers"), uses("deepwalk", "encoder.dim")
    (True, False, True)
    """
    return METHODS[method].traits.encoder or path not in OF_ENCODERS


def unused(config: Config) -> list[str]:
    """Paths of settings that were changed, though the method does not look at them.

    >>> unused(resolve({"method": "line", "hidden_dim": 8, "dim": 8}))
    ['encoder.hidden_dim']
    """
    method = config.method.name
    return [path for path in differences(resolve({"method": method}), config) if not uses(method, path)]


def _layers(
    flat: Mapping[str, tuple[Any, str]], file: Path | None, problems: list[str]
) -> list[tuple[str, Mapping[str, Any]]]:
    """What lies below the flags: preset, recipe and file, each with its name."""
    layers: list[tuple[str, Mapping[str, Any]]] = []
    if file is not None:
        tables = read_toml(file)
        if isinstance(tables.get("recipe"), dict):  # a recipe file given as a configuration
            layers = _recipe(tables, str(file)).layers(str(file), _dataset(flat, [(str(file), tables)]))
        else:
            layers = [(str(file), tables)]
    if chosen := _chosen("recipe", flat, layers):
        name, dataset = split_recipe(str(chosen))
        recipe = read_recipe(name)
        _check_method(f"recipe {name}", recipe.tables, flat, problems)
        if dataset and dataset not in recipe.names:
            hint = nearest(dataset, recipe.names) or f"; it knows {', '.join(recipe.names) or 'none'}"
            raise ConfigError(f"recipe {name}: unknown data set {dataset!r}{hint}")
        layers = [*recipe.layers(f"recipe {name}", dataset or _dataset(flat, layers)), *layers]
    preset = _preset(_chosen("preset", flat, layers), problems)
    if "preset" in flat:
        _check_method(f"preset {flat['preset'][0]}", preset, flat, problems)
    return [("preset", preset), *layers]


def _check_method(
    origin: str, tables: Mapping[str, Any], flat: Mapping[str, tuple[Any, str]], problems: list[str]
) -> None:
    """Note where settings of one method were asked for together with another."""
    section = tables.get("method")
    if not isinstance(section, Mapping) or "method.name" not in flat:
        return
    asked, own = flat["method.name"][0], section.get("name", Config().method.name)
    if asked != own:
        problems.append(f"{origin} has settings of the method {own}, not of {asked}; leave out one of the two")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an unreadable one is one line that names it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a TOML file with settings") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file in UTF-8; give a TOML file with settings") from None
    return parse_toml(text, str(path))


def recipes() -> list[str]:
    """Return the names of the packaged recipes."""
    folder = resources.files("dssl") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def split_recipe(text: str) -> tuple[str, str]:
    """Return the name or file of a recipe, and the data set that it is asked for, which may be empty.

    >>> split_recipe("paper-terms:Cora"), split_recipe("mine.toml")
    (('paper-terms', 'cora'), ('mine.toml', ''))
    """
    name, colon, dataset = text.rpartition(":")
    if not colon or text.endswith(".toml"):
        return text, ""
    return name, _normalised(dataset)


def read_recipe(name: str) -> Recipe:
    """Read a packaged recipe by name, or a recipe file."""
    if name.endswith(".toml"):
        return _recipe(read_toml(Path(name)), f"recipe {name}")
    return _recipe(parse_toml(recipe_text(name), f"recipe {name}"), f"recipe {name}")


def recipe_text(name: str) -> str:
    """The file of a packaged recipe."""
    if name not in recipes():
        known = recipes()
        hint = nearest(name, known) or f"; known are {', '.join(known) or 'none'}, or give a .toml file"
        raise ConfigError(f"unknown recipe {name!r}{hint}")
    return (resources.files("dssl") / "recipes" / f"{name}.toml").read_text("utf-8")


def _recipe(tables: Mapping[str, Any], origin: str) -> Recipe:
    datasets = tables.get("datasets", {})
    if not isinstance(datasets, dict) or not all(isinstance(table, dict) for table in datasets.values()):
        raise ConfigError(f"{origin}: datasets must hold a table of sections for each graph: [datasets.NAME.train]")
    try:
        header = RecipeHeader.model_validate(tables.get("recipe"))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(["recipe", *map(str, first["loc"])])
        raise ConfigError(
            f"{origin}: {at}: {first['msg']}; [recipe] holds title, source, notes, paper and published, "
            "the last two by data set"
        ) from None
    common = {name: value for name, value in tables.items() if name not in ("recipe", "datasets")}
    return Recipe(header, common, {_normalised(name): table for name, table in datasets.items()})


def _dataset(flat: Mapping[str, tuple[Any, str]], layers: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The name of the graph as the given layers leave it."""
    if "graph.source" in flat:
        return _normalised(str(flat["graph.source"][0]))
    sections = [layer["graph"] for _, layer in layers if isinstance(layer.get("graph"), Mapping)]
    named = [section["source"] for section in sections if "source" in section]
    return _normalised(str(named[-1])) if named else ""


def _normalised(name: str) -> str:
    """A data set as its readers know it: in small letters, with dashes."""
    return name.lower().replace("_", "-")


def _flatten(flags: Mapping[str, Any], settings: Sequence[str], problems: list[str]) -> dict[str, tuple[Any, str]]:
    """Value and origin by dotted path, the method's name first."""
    flat: dict[str, tuple[Any, str]] = {}
    given = [(key, value, "") for key, value in flags.items() if value is not None]
    for text in settings:
        key, equals, value = text.partition("=")
        if equals:
            given.append((key.strip(), value.strip(), "--set"))
        else:
            problems.append(f"--set: {text!r} is not of the form key=value")
    kinds = {row.path: row.kind for row in every_setting()}
    for key, value, origin in given:
        try:
            path = locate(key)
        except ConfigError as error:
            problems.append(where(str(error), origin))
        else:
            flat[path] = (_literal(value, text=kinds[path] == "a text") if origin else value, origin)
    return dict(sorted(flat.items(), key=lambda item: item[0] != "method.name"))


def parse(settings: Sequence[str]) -> dict[str, Any]:
    """Value by dotted path of ``key=value`` texts, as ``--set`` takes them.

    >>> parse(["dim=32", "encoder=gat"])
    {'encoder.dim': 32, 'encoder.name': 'gat'}
    """
    problems: list[str] = []
    found = _flatten({}, settings, problems)
    if problems:
        raise ConfigError(problems[0])
    return {path: value for path, (value, _) in found.items()}


def _chosen(name: str, flat: Mapping[str, tuple[Any, str]], layers: Sequence[tuple[str, Mapping[str, Any]]]) -> Any:
    """The value of a top-level setting as the given layers leave it."""
    if name in flat:
        return flat[name][0]
    named = [layer[name] for _, layer in layers if name in layer]
    return named[-1] if named else Config.model_fields[name].default


def _method_defaults(layers: Sequence[tuple[str, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """What the method that the layers end up with has of its own in place of the general defaults."""
    sections = [layer["method"] for _, layer in layers if isinstance(layer.get("method"), Mapping)]
    names = [section["name"] for section in sections if "name" in section]
    known = METHODS.get(str(names[-1])) if names else None
    return {} if known is None else known.traits.defaults


def _literal(value: str, *, text: bool) -> Any:
    """A TOML literal, or the text itself when it is none, or when the setting holds a text anyway."""
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
        holds_section = name in Config.model_fields and sections_of(Config.model_fields[name].annotation)
        if not holds_section:
            tables[name] = value
            origins[name] = origin
        elif isinstance(value, Mapping):
            known = tables.setdefault(name, {})
            current = known.get("name", Config().method.name)
            if name == "method" and value.get("name", current) != current:
                known.clear()  # the settings of another method mean nothing to this one
            known.update(value)
            origins.update({f"{name}.{leaf}": origin for leaf in value})
        else:
            problems.append(where(f"{name} is {value!r}, but must be a table of settings", origin))
