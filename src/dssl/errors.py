"""The errors that a user can cause, each one sentence: the input, the allowed values, the actual value, the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class DsslError(ValueError):
    """Something in the input is wrong; the command line prints it as one line and exits with code 2."""


class GraphError(DsslError):
    """A graph, or a file it is read from, is malformed."""


class ConfigError(DsslError):
    """A setting is unknown, of the wrong type or out of bounds."""


class DatasetError(DsslError):
    """A data set is unknown, or neither on this machine nor to be downloaded."""


class RunError(DsslError):
    """A run folder is missing, incomplete or does not fit the request."""


class LostError(RunError):
    """One of several processes that train together was lost or stopped."""


class ProbeError(DsslError):
    """Labels, splits or embeddings do not allow a probe."""


class MissingExtraError(DsslError):
    """An optional library is not installed."""


def require(module: str, *, extra: str) -> None:
    """Refuse to continue without an optional library, and name the extra that installs it.

    >>> require("no_such_library", extra="tune")
    Traceback (most recent call last):
        ...
    dssl.errors.MissingExtraError: no_such_library is not installed; run: pip install 'dssl[tune]'
    """
    if find_spec(module) is None:
        raise MissingExtraError(f"{module} is not installed; run: pip install 'dssl[{extra}]'")


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return ``", did you mean 'x'?"`` for the closest of the choices, or an empty string.

    >>> nearest("texsa", ["texas", "cora"])
    ", did you mean 'texas'?"
    """
    found = difflib.get_close_matches(word, list(choices), n=1)
    return f", did you mean {found[0]!r}?" if found else ""
