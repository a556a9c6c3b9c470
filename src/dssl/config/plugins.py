"""The methods by name: those of this package, and those of installed packages that register one.

A package registers a method by an entry point of the group ``dssl.methods``: its name is the method's, its object the
section of settings. The package's module is imported at the first look-up of a setting or of a method, never by
``import dssl``; the class that the section names is imported when the method is built. See docs/methods/adding.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from dssl.config.registry import MethodSection, Traits
from dssl.errors import ConfigError

GROUP = "dssl.methods"
logger = logging.getLogger(__name__)


class Methods(Mapping[str, type[MethodSection]]):
    """The sections of all methods by name, first our own, then the registered ones.

    A registered method that cannot be imported, or is not a section, is left out with a warning. A broken package thus
    leaves the other methods usable. A look-up by its name raises the reason.

    Args:
        own: the sections of this package; a registered method cannot take one of their names.
    """

    def __init__(self, own: Iterable[type[MethodSection]]) -> None:
        self._own = {section.traits.name: section for section in own}
        self._loaded: dict[str, type[MethodSection] | ConfigError] = {}

    @cached_property
    def _registered(self) -> dict[str, EntryPoint]:
        found: dict[str, EntryPoint] = {}
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _package(entry))):
            if entry.name in self._own or entry.name in found:
                logger.warning("method %r of the package %s is ignored: the name is taken", entry.name, _package(entry))
            else:
                found[entry.name] = entry
        return found

    def __getitem__(self, name: str) -> type[MethodSection]:
        if name in self._own:
            return self._own[name]
        section = self._load(self._registered[name])
        if isinstance(section, ConfigError):
            raise section
        return section

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        for name, entry in self._registered.items():
            if not isinstance(self._load(entry), ConfigError):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _load(self, entry: EntryPoint) -> type[MethodSection] | ConfigError:
        """Return the section of an entry point, or the reason why there is none; each is imported once."""
        if entry.name not in self._loaded:
            try:
                self._loaded[entry.name] = _section(entry)
            except ConfigError as error:
                self._loaded[entry.name] = error
                logger.warning("%s", error)
        return self._loaded[entry.name]


def _section(entry: EntryPoint) -> type[MethodSection]:
    where = f"method {entry.name!r} of the package {_package(entry)}: {entry.value}"
    try:
        found = entry.load()
    except Exception as error:  # a package may fail in any way
        reason = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"{where} cannot be imported ({type(error).__name__}: {reason:.120}); update or remove the package"
        ) from error
    if not isinstance(found, type) or not issubclass(found, MethodSection):
        raise ConfigError(f"{where} must be a subclass of dssl.config.registry.MethodSection")
    traits = getattr(found, "traits", None)
    if not isinstance(traits, Traits) or traits.name != entry.name:
        raise ConfigError(f"{where} must have traits, whose name is that of the entry point")
    return found


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name
