"""Settings from environment variables: ``DSSL_TRAIN_EPOCHS=50`` is ``train.epochs = 50``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dssl.config.fields import every_setting, section_of
from dssl.config.resolve import parse
from dssl.config.schema import Config
from dssl.errors import ConfigError, nearest

PREFIX = "DSSL_"


def variable(path: str) -> str:
    """Return the name of the variable of a setting.

    >>> variable("train.epochs"), variable("seed")
    ('DSSL_TRAIN_EPOCHS', 'DSSL_SEED')
    """
    return PREFIX + path.upper().replace(".", "_")


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return value by dotted path of the settings in an environment; a misspelt name of a section is refused.

    >>> from_environment({"DSSL_TRAIN_EPOCHS": "5", "DSSL_ENCODER_NAME": "gat", "DSSL_DATA": "/data"})
    {'encoder.name': 'gat', 'train.epochs': 5}
    """
    known = {variable(row.path): row.path for row in every_setting()}
    sections = tuple(variable(name) + "_" for name in Config.model_fields if section_of(name) is not None)
    found = []
    for name, value in sorted(environment.items()):
        if name in known:
            found.append(f"{known[name]}={value}")
        elif name.startswith(sections):
            raise ConfigError(f"unknown environment variable {name}{nearest(name, known)}; `dssl settings` lists them")
    return parse(found)
