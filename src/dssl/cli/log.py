"""Messages on standard error: text for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from datetime import UTC, datetime
from typing import Any

from dssl.errors import ConfigError

VARIABLE = "DSSL_LOG_FORMAT"  # of the environment, so that processes of a command share the choice
FORMATS = ("text", "json")


def choose(name: str) -> None:
    """Set the format of the messages of this process and those that it starts."""
    os.environ[VARIABLE] = name
    is_json()


def is_json() -> bool:
    """Whether messages are JSON."""
    name = os.environ.get(VARIABLE, "text")
    if name not in FORMATS:
        os.environ[VARIABLE] = "text"
        raise ConfigError(f"the log format is {name!r}, but must be one of {', '.join(FORMATS)}")
    return name == "json"


def finite(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite are null, also inside dicts and lists."""
    if isinstance(value, dict):
        return {str(name): finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def event(level: str, message: str, **fields: Any) -> None:
    """Write one JSON object: time, level, message, and further values; numbers that are not finite are null."""
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    sys.stderr.write(json.dumps({"time": when, "level": level, "message": message, **finite(fields)}) + "\n")
    sys.stderr.flush()
