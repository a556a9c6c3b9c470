"""Configurations as TOML: read and written."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from dssl.config.fields import check
from dssl.config.schema import Config
from dssl.errors import ConfigError


def from_toml(text: str, origin: str) -> Config:
    """Read a complete configuration; its preset and recipe are not applied again.

    Args:
        text: the TOML text.
        origin: name of the file, for error messages.
    """
    tables = parse_toml(text, origin)
    return check(tables, dict.fromkeys(tables, origin), [])


def to_toml(config: Config) -> str:
    """Write a configuration with all its values; settings that are not set are left out."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; an unreadable file gives an error of one line that names it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); give a TOML file with settings") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file in UTF-8; give a TOML file with settings") from None
    return parse_toml(text, str(path))


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML; malformed text gives an error of one line that names ``origin``."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: is not valid TOML: {error}".replace("\n", " ")) from None
