"""Every setting of a configuration by its name: looked up, compared, checked, and written to TOML and as a page."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import tomli_w
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dssl.config.methods import MethodSection, Section
from dssl.config.schema import METHODS, PRESETS, Config, DSSLSettings
from dssl.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table of settings.

    Args:
        path: dotted path, such as ``encoder.dim``.
        kind: what it holds, in words: ``an integer``.
        default: the default, as written in TOML; ``not set`` where leaving it out means something.
        bounds: such as ``at least 1``, or empty.
        help: one sentence.
        value: the default itself.
        method: the method that it is a setting of, or empty.
    """

    path: str
    kind: str
    default: str
    bounds: str
    help: str
    value: Any
    method: str = ""

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        return f"{self.kind} {self.bounds}".rstrip()


def settings_of(method: str = "dssl") -> Iterator[Setting]:
    """Yield every setting of a configuration with a method, with its defaults, in the order of the sections.

    >>> next(row for row in settings_of() if row.path == "encoder.dim").allowed
    'an integer of at least 1'
    >>> [row.default for row in settings_of("dgi") if row.path == "encoder.name"]
    ['"gcn"']
    """
    chosen = METHODS.get(method, DSSLSettings)
    own = chosen.traits.defaults
    for name, field in Config.model_fields.items():
        sections = sections_of(field.annotation)
        if not sections:
            yield _setting(name, field)
        for section in [chosen] if len(sections) > 1 else sections:
            for leaf, inner in section.model_fields.items():
                yield _setting(f"{name}.{leaf}", inner, own.get(name, {}), chosen if name == "method" else None)


def every_setting() -> Iterator[Setting]:
    """Yield the settings with the default method, and those that only other methods have."""
    for method in METHODS:
        yield from (
            row for row in settings_of(method) if method == "dssl" or (row.method and row.path != "method.name")
        )


def from_toml(text: str, origin: str) -> Config:
    """Read a configuration as it stands, without applying its preset; ``origin`` names the file in errors."""
    tables = parse_toml(text, origin)
    return check(tables, dict.fromkeys(tables, origin), [])


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML; what is malformed is one line that names ``origin``."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: is not valid TOML: {error}".replace("\n", " ")) from None


def to_toml(config: Config) -> str:
    """Write a configuration, every value included; what is not set is left out."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def locate(key: str) -> str:
    """Return the dotted path that a key stands for: a path, its last part if unique, or a section with a name.

    >>> locate("dim"), locate("train.epochs"), locate("encoder")
    ('encoder.dim', 'train.epochs', 'encoder.name')
    """
    paths = list(dict.fromkeys(row.path for row in every_setting()))
    if key in paths:
        return key
    if f"{key}.name" in paths:
        return f"{key}.name"
    ends = [path for path in paths if path.rpartition(".")[2] == key]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise ConfigError(f"setting {key!r} is ambiguous; write one of {', '.join(ends)}")
    raise ConfigError(f"unknown setting {key!r}{near(key)}")


def near(key: str) -> str:
    """Return a hint at the nearest setting or section, in the form that the key has, or an empty text."""
    paths = [row.path for row in every_setting()]
    leaves = [*(path.rpartition(".")[2] for path in paths), *Config.model_fields]
    return nearest(key, paths if "." in key else leaves) or nearest(key.rpartition(".")[2], leaves)


def reference() -> str:
    """Return the page docs/configuration.md: every setting with its values, default and meaning."""
    lines = [
        "# Configuration",
        "",
        "Every setting, as `dssl settings --markdown` writes it. Set one with `--set encoder.dim=32`, with its last "
        "part alone where that is unique (`--set dim=32`), in a TOML file (`--config my.toml`), or in Python: "
        "`dssl.DSSL(dim=32)`.",
        "",
        "Later ones win: defaults, `--preset`, `--recipe`, `--config`, flags, `--set`. A run folder holds the outcome "
        "as `config.toml`, which `--config` takes again.",
    ]
    heading = None
    for row in every_setting():
        section, _, leaf = row.path.rpartition(".")
        if (section, row.method) != heading:
            heading = (section, row.method)
            title = f"## `[{section}]`" + f' with `name = "{row.method}"`' * bool(row.method)
            lines += ["", title if section else "## Top level", ""]
            lines += ["| setting | value | default | meaning |", "| --- | --- | --- | --- |"]
        default = row.default if row.default == "not set" else f"`{row.default}`"
        lines.append(f"| `{leaf}` | {row.allowed} | {default} | {row.help} |")
    lines += ["", "## Presets", ""]
    lines += [f"- `{name}`: {_changes(tables) or 'the defaults above'}." for name, tables in PRESETS.items()]
    lines += ["", "## Defaults of the methods", ""]
    lines += [
        f"- `{name}`: {_changes(part.traits.defaults) or 'the defaults above'}." for name, part in METHODS.items()
    ]
    return "\n".join(lines) + "\n"


def _changes(tables: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"`{section}.{leaf} = {value!r}`" for section, table in tables.items() for leaf, value in table.items()
    )


def values(config: Config) -> dict[str, Any]:
    """Return every setting of a configuration by its dotted path.

    >>> values(Config(seed=3))["seed"], values(Config())["encoder.dim"]
    (3, 64)
    """
    tables = config.model_dump()
    parts = ((row.path, row.path.rpartition(".")) for row in settings_of(config.method.name))
    return {path: tables[section].get(leaf) if section else tables[leaf] for path, (section, _, leaf) in parts}


def changed(config: Config) -> dict[str, Any]:
    """Return the settings that are not as by default with the method, by their dotted path.

    >>> changed(Config(seed=3))
    {'seed': 3}
    """
    found = values(config)
    return {row.path: found[row.path] for row in settings_of(config.method.name) if found[row.path] != row.value}


def differences(old: Config, new: Config) -> dict[str, str]:
    """Return what differs between two configurations: a few words by dotted path.

    >>> differences(Config(), Config(seed=3))
    {'seed': 'seed was 0, is 3'}
    """
    before, after = old.model_dump(), new.model_dump()
    found = {}
    other = old.method.name != new.method.name
    for row in settings_of(new.method.name):
        section, _, leaf = row.path.rpartition(".")
        was, now = (table[section].get(leaf) if section else table[leaf] for table in (before, after))
        if was != now and not (other and row.method and leaf != "name"):
            found[row.path] = f"{row.path} was {was!r}, is {now!r}"
    return found


def sections_of(annotation: Any) -> list[type[Section]]:
    """The models that a field of `Config` may hold: none for a plain value, several for a union."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType, Annotated) else (annotation,)
    return [part for part in parts if isinstance(part, type) and issubclass(part, Section)]


def _setting(
    path: str, field: FieldInfo, own: Mapping[str, Any] | None = None, section: type[MethodSection] | None = None
) -> Setting:
    default = (own or {}).get(path.rpartition(".")[2], field.get_default(call_default_factory=True))
    method = "" if section is None else section.model_fields["name"].default
    kind = _kind(field.annotation)
    if path == "method.name":
        default, kind = "dssl", _choices(METHODS)
    written = "not set" if default is None else tomli_w.dumps({"v": default}).removeprefix("v = ").strip()
    if isinstance(default, tuple):
        written = str(list(default))
    return Setting(path, kind, written, _bounds(field.metadata), str(field.description), default, method)


def _choices(names: Iterable[Any]) -> str:
    *first, last = (str(name) for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def _kind(annotation: Any) -> str:
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    if annotation in names:
        return names[annotation]
    if get_origin(annotation) is Literal:
        return _choices(get_args(annotation))
    if get_origin(annotation) is tuple:
        of_texts = get_args(annotation)[0] is str
        return 'a list of texts such as ["age"]' if of_texts else "a list of integers such as [10, 5]"
    return _kind(next(part for part in get_args(annotation) if part is not type(None)))


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


def where(problem: str, origin: str) -> str:
    """Return a problem with the place that it came from, if that has a name."""
    return f"{origin}: {problem}" if origin else problem


def check(tables: Mapping[str, Any], origins: Mapping[str, str], problems: Sequence[str]) -> Config:
    """Make a configuration of nested tables, or raise one error with everything that is wrong.

    Args:
        tables: values by section and name.
        origins: where the value of a dotted path came from, to name it in errors.
        problems: what was found wrong before, to be reported together.
    """
    problems = list(problems)
    config = None
    if isinstance(tables.get("method"), Mapping):
        tables = {**tables, "method": {"name": "dssl", **tables["method"]}}
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        method = _named(tables)
        rows = {row.path: row for row in settings_of(method)}
        for path, found in {_path(found["loc"]): found for found in error.errors()}.items():
            origin, value = origins.get(path, origins.get(path.partition(".")[0], "")), found["input"]
            if found["type"] == "union_tag_invalid":
                path, value = "method.name", method
                origin = origins.get(path, origins.get("method", ""))
            if found["type"] == "extra_forbidden" and (owners := _owners(path)):
                problems.append(
                    where(f"setting {path!r} is one of the method {_choices(owners)}, not of {method}", origin)
                )
            elif found["type"] == "extra_forbidden":
                problems.append(where(f"unknown setting {path!r}{near(path)}", origin))
            elif path in rows:
                hint = (
                    nearest(value, rows[path].kind.replace(" or ", ", ").split(", ")) if isinstance(value, str) else ""
                )
                problems.append(where(f"{path} is {value!r}, but must be {rows[path].allowed}{hint}", origin))
            else:
                problems.append(where(f"{path}: {found['msg'].removeprefix('Value error, ')}", origin))
    if problems or config is None:
        raise ConfigError("; ".join(problems))
    return config


def _named(tables: Mapping[str, Any]) -> str:
    """The method that nested tables name."""
    section = tables.get("method")
    return str(section.get("name")) if isinstance(section, Mapping) else "dssl"


def _owners(path: str) -> list[str]:
    """The methods that have a setting."""
    section, _, leaf = path.rpartition(".")
    return [name for name, part in METHODS.items() if section == "method" and leaf in part.model_fields]


def _path(location: tuple[int | str, ...]) -> str:
    """The setting that a pydantic location lies in: without list positions and the tags of unions."""
    parts = [str(part) for part in location if isinstance(part, str)]
    return f"{parts[0]}.{parts[-1]}" if len(parts) > 2 else ".".join(parts)
