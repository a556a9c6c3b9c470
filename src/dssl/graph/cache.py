"""Built graphs kept on disk as packed graphs, in the user's cache folder, so that the next run reads them from there.

A graph that is damaged, old or of another key is rebuilt; a folder that cannot be written to only costs time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

from dssl.graph import Graph, packed

log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Folder for cached graphs: ``$DSSL_CACHE``, or the operating system's folder for such files."""
    chosen = os.environ.get("DSSL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("dssl")


def cached_graph(key: str, build: Callable[[], Graph], *, slot: str | None = None) -> Graph:
    """Return the graph stored under ``key``, or build and store it.

    Args:
        key: everything that the graph depends on, the version of the builder included.
        build: builds the graph if it is not stored.
        slot: name of the folder, for graphs that replace an older one when their key changes; by default the key.
    """
    name = key if slot is None else slot
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60].strip("-.")
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    folder = cache_dir() / "graphs" / f"{readable}-{digest}"
    try:
        if packed.is_store(folder) and packed.read_header(folder).key == key:
            return packed.read_graph(folder)
    except (OSError, ValueError) as error:
        log.info("cached graph %s is rebuilt: %s", folder.name, error)
    graph = build()
    try:
        packed.write(graph, folder, key=key)
    except OSError as error:
        log.info("graph %r is not cached: %s", graph.name, error)
    return graph
