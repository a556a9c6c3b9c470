"""A graph in a folder of plain arrays, which is opened in no time and of which only what is touched is in memory.

``dssl pack`` writes it. Each array is a file of little-endian numbers, the ids are an Arrow file, and ``header.json``
says what they are: sizes, and a checksum of each 64 MB, so that damage can be found and named. Nothing is unpickled.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Change, Graph
from dssl.graph.features import Encoding
from dssl.runtime import files, out_of_core

HEADER, IDS = "header.json", "ids.arrow"
FORMAT, VERSION = "dssl graph", 1
CHUNK = 1 << 26  # bytes that have a checksum of their own


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StoredGraph(Graph):
    """A graph whose arrays are files; it was checked when it was packed.

    Args:
        stamp: the fingerprint that it had then.
    """

    stamp: str

    def __post_init__(self) -> None:
        """Look at nothing: that would read the files."""

    def fingerprint(self) -> str:
        """Return the fingerprint of the graph that was packed."""
        return self.stamp

    def replace(self, **changes: Any) -> Graph:
        """Return a plain graph with some fields changed, checked again."""
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(Graph)}
        return Graph(**{**kept, **changes})


def is_store(path: str | Path) -> bool:
    """Whether a path is a folder that `pack` wrote."""
    try:
        return (Path(path) / HEADER).is_file()
    except OSError:  # too long for a path
        return False


def pack(graph: Graph, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a graph to a folder, in one step: before it is complete, it has another name.

    Args:
        graph: any graph.
        folder: where to; its parent is made if needed.
        overwrite: replace a packed graph that is there already.
    """
    folder = Path(folder)
    if folder.exists() and not (is_store(folder) and overwrite):
        advice = "replace it with --overwrite, or choose another" if is_store(folder) else "choose another folder"
        raise GraphError(f"{folder} exists already; {advice}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    try:
        header = _write(graph, making)
        files.write_json(making / HEADER, header)
        if folder.exists():
            old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
            folder.rename(old)
            making.rename(folder)
            shutil.rmtree(old)
        else:
            making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def open_graph(folder: str | Path) -> Graph:
    """Open a packed graph; its arrays are read when they are needed."""
    folder = Path(folder)
    header = _header(folder)
    for name, about in header["files"].items():
        size = (folder / name).stat().st_size if (folder / name).is_file() else -1
        if size != about["bytes"]:
            found = f"has {size:,} bytes instead of {about['bytes']:,}" if size >= 0 else "is missing"
            raise GraphError(f"{folder}: {name} {found}; pack the graph again")
    arrays = {name: _mapped(folder / name, about) for name, about in header["files"].items() if name != IDS}
    x: Any = arrays.get("x")
    if "x_data" in arrays:
        parts = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
        x = sparse.csr_array(parts, shape=tuple(header["x_shape"]), copy=False)
    try:
        ids = pa.ipc.open_file(pa.memory_map(str(folder / IDS))).read_all().column("id")
        ids = ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()
    except pa.ArrowException as error:
        raise GraphError(f"{folder}: {IDS} is damaged ({str(error)[:80]}); pack the graph again") from None
    names = header["feature_names"], header["class_names"]
    return StoredGraph(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        weights=arrays.get("weights"),
        directed=header["directed"],
        ids=ids,
        x=x,
        feature_names=None if names[0] is None else tuple(names[0]),
        y=arrays.get("y"),
        class_names=None if names[1] is None else tuple(names[1]),
        encoding=None if header["encoding"] is None else Encoding.from_json(header["encoding"]),
        name=header["name"],
        history=tuple(Change(what, count) for what, count in header["history"]),
        stamp=header["fingerprint"],
    )


def check(folder: str | Path) -> int:
    """Read every file of a packed graph and compare the checksums; return the number of bytes, or name the damage."""
    folder = Path(folder)
    open_graph(folder)
    total = 0
    for name, about in _header(folder)["files"].items():
        for number, found in enumerate(_sums(folder / name)):
            if found != about["sums"][number]:
                low = number * CHUNK
                raise GraphError(
                    f"{folder}: {name} is damaged between byte {low:,} and {min(low + CHUNK, about['bytes']):,}; "
                    "pack the graph again, or restore the file"
                )
        total += about["bytes"]
    return total


def _write(graph: Graph, folder: Path) -> dict[str, Any]:
    """Write the files of a graph and return what the header says."""
    arrays: dict[str, NDArray[Any] | None] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "weights": graph.weights,
        "y": graph.y,
    }
    if isinstance(graph.x, sparse.csr_array):
        arrays |= {"x_data": graph.x.data, "x_indices": graph.x.indices, "x_indptr": graph.x.indptr}
    else:
        arrays["x"] = graph.x
    written: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        if array is None:
            continue
        little = array.dtype.newbyteorder("<")
        with (folder / name).open("wb") as file:
            for _, block in out_of_core.blocks(array):
                file.write(np.ascontiguousarray(block, little).data)
            file.flush()
            os.fsync(file.fileno())
        written[name] = {"dtype": little.str, "shape": list(array.shape)}
    table = pa.table({"id": graph.ids})
    with pa.OSFile(str(folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written[IDS] = {}
    for name, about in written.items():
        about |= {"bytes": (folder / name).stat().st_size, "sums": list(_sums(folder / name))}
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "nodes": graph.num_nodes,
        "arcs": graph.num_arcs,
        "directed": graph.directed,
        "fingerprint": graph.fingerprint(),
        "feature_names": graph.feature_names,
        "class_names": graph.class_names,
        "x_shape": None if graph.x is None else list(map(int, graph.x.shape)),
        "history": [[change.what, change.count] for change in graph.history],
        "encoding": None if graph.encoding is None else graph.encoding.to_json(),
        "files": written,
    }


def _header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        known = header["format"] == FORMAT and header["version"]
        wanted = {"files", "name", "directed", "fingerprint", "feature_names", "class_names", "history", "encoding"}
        complete = wanted <= header.keys() and {"indptr", "indices", IDS} <= header["files"].keys()
    except OSError as error:
        raise GraphError(f"{folder} is no packed graph: {path.name} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise GraphError(f"{path} is damaged; pack the graph again") from None
    if not known or not complete:
        raise GraphError(f"{path} is damaged or of something else; pack the graph again")
    if header["version"] != VERSION:
        raise GraphError(f"{folder} has version {header['version']} of the layout, and this dssl reads {VERSION}")
    return dict(header)


def _mapped(path: Path, about: dict[str, Any]) -> NDArray[Any]:
    shape, dtype = tuple(about["shape"]), np.dtype(about["dtype"])
    if not np.prod(shape):
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, "r", shape=shape)


def _sums(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield hashlib.blake2b(chunk, digest_size=16).hexdigest()
