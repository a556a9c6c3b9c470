"""The source of `dssl.model._keywords`, generated from the settings: ``python -m dssl.config.keywords`` prints it.

The keywords of the estimators are real arguments with types and defaults, for editors, type checkers and the API
reference. A test compares the file with this module; ``make generate`` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from textwrap import wrap
from typing import Literal, get_args, get_origin

from dssl.config.fields import Setting, settings_of
from dssl.config.registry import Scope
from dssl.config.schema import CUSTOM

WIDTH = 120
_START = '''\
"""The keyword arguments of the estimators, generated from the settings by ``make generate``; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn


class Keywords:
    """An estimator whose constructor takes keywords."""

    def _set_keywords(self, keywords: Mapping[str, Any]) -> None:
        raise NotImplementedError
'''
_EMBEDDER = [
    ("method", "str | None", "None", "Name of the method; by default the one of the recipe, or dssl."),
    ("settings", "Mapping[str, Any] | None", "None", 'Settings of the method by name, such as ``{"momentum": 0.9}``.'),
    ("preset", "str | None", "None", "Named settings to start from: default or paper."),
    ("recipe", "str | None", "None", "Published settings to start from: NAME, NAME:DATASET or a TOML file."),
]
_DIM = " By default the output width of a custom encoder, otherwise 64."


def keywords(method: str = "dssl") -> tuple[Setting, ...]:
    """Return the settings that are keywords of the estimators, those of the method first."""
    rows = [row for row in settings_of(method) if row.scope is not Scope.COMMAND and row.keyword != "method"]
    order = ("method", "encoder", "graph", "train", "")
    found = sorted(rows, key=lambda row: order.index(row.section))
    return tuple(row for row in found if row.path not in ("preset", "recipe"))


def source() -> str:
    """Return the source of `dssl.model._keywords`."""
    own = [_argument(row) for row in keywords()]
    shared = [_argument(row, optional=True) for row in keywords() if not row.method]
    return _START + _class("EmbedderKeywords", "Embedder", [*_EMBEDDER, *shared]) + _class("DSSLKeywords", "DSSL", own)


def _argument(row: Setting, *, optional: bool = False) -> tuple[str, str, str, str]:
    """Name, type, default and description of a keyword."""
    kind, default, text = _type(row), _literal(row.value), row.help
    if row.path == "encoder.name":
        kind, text = f"{kind} | nn.Module", f"{text.partition(';')[0]}, or a torch module."
    if optional or row.value is None or row.path == "encoder.dim":
        kind, default = f"{kind} | None", "None"
    if row.path == "encoder.dim":
        text += _DIM
    return row.keyword, kind, default, text


def _type(row: Setting) -> str:
    if get_origin(row.annotation) is Literal:
        return f"Literal[{', '.join(_literal(choice) for choice in get_args(row.annotation) if choice != CUSTOM)}]"
    if get_origin(row.annotation) is tuple:
        return f"Sequence[{get_args(row.annotation)[0].__name__}]"
    return str(row.annotation.__name__) + (f" | Literal[{_literal(row.word)}]" if row.word else "")


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _class(name: str, estimator: str, arguments: Iterable[tuple[str, str, str, str]]) -> str:
    lines = ["", "", f"class {name}(Keywords):", f'    """The constructor of `dssl.{estimator}`."""', ""]
    lines += ["    def __init__(", "        self,", "        *,"]
    lines += [f"        {key}: {kind} = {default}," for key, kind, default, _ in arguments]
    lines += ["    ) -> None:", '        """Set the parameters.', "", "        Args:"]
    for key, _, _, text in arguments:
        lines += wrap(f"{key}: {text}", WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 16)
    lines += ['        """', "        arguments = locals()", '        del arguments["self"]']
    lines += ["        self._set_keywords(arguments)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(source())
