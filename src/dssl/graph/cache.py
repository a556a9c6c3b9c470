"""Built graphs kept on disk, in the user's cache folder, so that the second run need not build them again.

A cached graph is one ``.npz`` file without pickles. A file that is damaged, old or of another graph is built
anew; a folder that cannot be written to only costs time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssl.graph import Change, Graph
from dssl.graph.features import Encoding
from dssl.runtime.files import replacing

FORMAT = 1  # raise it when the layout of the files changes: older files are then built anew

log = logging.getLogger(__name__)


def cache_dir() -> Path:
    """Folder for cached graphs: ``$DSSL_CACHE``, or the place that the operating system has for such files."""
    chosen = os.environ.get("DSSL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("dssl")


def cached_graph(key: str, build: Callable[[], Graph], *, slot: str | None = None) -> Graph:
    """Return the graph stored under ``key``, or build and store it.

    Args:
        key: all that the graph depends on (version of the builder included); another key is another graph.
        build: makes the graph if it is not stored.
        slot: place of the file, for graphs that replace an older one when their key changes; by default each
            key has a place of its own.
    """
    place = key if slot is None else slot
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", place)[:60].strip("-.")
    digest = hashlib.blake2b(place.encode(), digest_size=8).hexdigest()
    path = cache_dir() / "graphs" / f"{readable}-{digest}.npz"
    found = _stored(path, key)
    if found is not None:
        return found
    graph = build()
    try:
        save_graph(graph, path, key=key)
    except OSError as error:
        log.info("graph %r is not cached: %s", graph.name, error)
    return graph


def _stored(path: Path, key: str) -> Graph | None:
    try:
        return load_graph(path, key=key)
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever is wrong with the file, building the graph anew is the remedy
        log.info("cached graph %s is built anew: %s", path.name, error)
        return None


def save_graph(graph: Graph, path: Path, *, key: str = "") -> None:
    """Write every field of the graph to an ``.npz`` file, in one step."""
    about = {
        "format": FORMAT,
        "key": key,
        "name": graph.name,
        "directed": graph.directed,
        "feature_names": graph.feature_names,
        "class_names": graph.class_names,
        "history": [[change.what, change.count] for change in graph.history],
        "encoding": None if graph.encoding is None else graph.encoding.to_json(),
    }
    arrays: dict[str, NDArray[Any]] = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "ids": _arrow_bytes(graph.ids),
        "indptr": graph.indptr,
        "indices": graph.indices,
    }
    for name, array in (("weights", graph.weights), ("y", graph.y)):
        if array is not None:
            arrays[name] = array
    if isinstance(graph.x, sparse.csr_array):
        arrays |= {"x_data": graph.x.data, "x_indices": graph.x.indices, "x_indptr": graph.x.indptr}
        arrays["x_shape"] = np.array(graph.x.shape, np.int64)
    elif graph.x is not None:
        arrays["x"] = graph.x
    with replacing(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def load_graph(path: Path, *, key: str = "") -> Graph:
    """Read a graph that `save_graph` wrote; a file with another key or layout is a ``ValueError``."""
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    about = json.loads(arrays["about"].tobytes())
    if (about["format"], about["key"]) != (FORMAT, key):
        raise ValueError(f"{path} holds another graph")
    x: NDArray[np.float32] | sparse.csr_array | None = arrays.get("x")
    if "x_data" in arrays:
        parts = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
        x = sparse.csr_array(parts, shape=tuple(arrays["x_shape"].tolist()))
    return Graph(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        weights=arrays.get("weights"),
        directed=about["directed"],
        ids=pa.ipc.open_stream(arrays["ids"].tobytes()).read_all().column("id").combine_chunks(),
        x=x,
        feature_names=_tuple(about["feature_names"]),
        y=arrays.get("y"),
        class_names=_tuple(about["class_names"]),
        encoding=None if about["encoding"] is None else Encoding.from_json(about["encoding"]),
        name=about["name"],
        history=tuple(Change(what, count) for what, count in about["history"]),
    )


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _arrow_bytes(ids: pa.Array) -> NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    table = pa.table({"id": ids})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)
