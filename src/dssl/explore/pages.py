"""The files of the page of a run by name, for the server and for an export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dssl.errors import RunError
from dssl.explore.view import NEAREST, View
from dssl.runtime import files

PART = 8 << 20  # bytes of an array in one file
IDS_AT_ONCE = 1 << 14
NODES_AT_ONCE = 1000  # whose nearest nodes are in one file of an export
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".bin": "application/octet-stream",
}
Content = bytes | memoryview


def assets() -> dict[str, bytes]:
    """The page itself by file name: HTML, style and scripts, as they are installed with the package."""
    folder = resources.files("dssl.explore").joinpath("web")
    return {each.name: each.read_bytes() for each in folder.iterdir() if Path(each.name).suffix in TYPES}


def data_files(view: View, *, per: int) -> dict[str, Content]:
    """The data of the page by file name, all but the nearest nodes.

    Args:
        view: the content of the page.
        per: number of nodes whose nearest nodes are in one file.
    """
    arrays: dict[str, NDArray[Any]] = {
        "points": view.points,
        "indptr": view.graph.indptr.astype(np.uint32),
        "indices": view.graph.indices.astype(np.uint32),
    }
    if view.node_q.shape[1]:
        arrays |= {"node_q": view.node_q, "link_q": view.link_q}
    for number, column in enumerate(view.columns):
        arrays[f"column{number}"] = column.values
    found: dict[str, Content] = {}
    described = {}
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        content = plain.reshape(-1).view(np.uint8).data
        parts = {f"{name}-{at // PART}.bin": content[at : at + PART] for at in range(0, max(len(content), 1), PART)}
        described[name] = {"type": array.dtype.name, "parts": list(parts)}
        found |= parts
    ids = dict(_ids(view.ids))
    meta = {
        "name": view.name,
        "method": view.method,
        "how": view.how,
        "nodes": len(view.ids),
        "links": view.graph.num_edges,
        "directed": view.graph.directed,
        "factors": view.node_q.shape[1],
        "kinds": None if view.kinds is None else {"names": view.kinds[0], "table": view.kinds[1].tolist()},
        "columns": [
            {
                "name": column.name,
                "role": column.role,
                "kind": "number" if column.names is None else "category",
                "names": column.names,
                "array": f"column{number}",
            }
            for number, column in enumerate(view.columns)
        ],
        "arrays": described,
        "ids": list(ids),
        "nearest": {"per": per, "top": min(NEAREST, len(view.ids) - 1)},
    }
    return {"meta.json": _json(meta), **found, **ids}


def nearest_file(view: View, number: int, *, per: int) -> bytes:
    """The nearest nodes of a block of nodes: their positions as int32, then the cosines as float32."""
    places, cosines = view.nearest(number * per, min((number + 1) * per, len(view.ids)))
    return places.astype("<i4").tobytes() + cosines.astype("<f4").tobytes()


def export(view: View, folder: Path, *, on_part: Callable[[str], None] = lambda _: None) -> tuple[int, int]:
    """Write the page and its data to a new folder, for any web server.

    Args:
        view: the content of the page.
        folder: a missing or empty folder; it is written in one step.
        on_part: called with the progress.

    Returns:
        Number of files, and of bytes.
    """
    check_empty(folder)
    count = size = 0
    with files.replacing_folder(folder.resolve()) as making:
        for name, content in _all_files(view, on_part):
            path = making / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            count, size = count + 1, size + len(content)
    return count, size


def check_empty(folder: Path) -> None:
    """Refuse a folder with content: nothing is overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not empty; choose another folder for --export, or remove it first")


def _all_files(view: View, on_part: Callable[[str], None]) -> Iterator[tuple[str, Content]]:
    yield from assets().items()
    for name, content in data_files(view, per=NODES_AT_ONCE).items():
        yield f"data/{name}", content
    blocks = -(-len(view.ids) // NODES_AT_ONCE)
    for number in range(blocks):
        on_part(f"nearest nodes: {number * NODES_AT_ONCE:,} of {len(view.ids):,}")
        yield f"data/nearest/{number}.bin", nearest_file(view, number, per=NODES_AT_ONCE)


def _ids(ids: pa.Array) -> Iterator[tuple[str, bytes]]:
    """Ids as JSON, in parts; integers as text too, since JavaScript has no integers beyond 2**53."""
    for at in range(0, len(ids), IDS_AT_ONCE):
        texts = ids.slice(at, IDS_AT_ONCE).cast(pa.string()).to_pylist()
        yield f"ids-{at // IDS_AT_ONCE}.json", _json(texts)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
