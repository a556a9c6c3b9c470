"""The packed graph: the one format of a graph on disk, a folder of plain arrays that are read as they are needed.

``dssl pack`` writes it, a run folder holds one, and the cache keeps its graphs in it. Each array is a file of
little-endian numbers and the ids are an Arrow file. ``header.json`` has the sizes, and a checksum of each 64 MB.
Nothing is unpickled. Opening checks the header, the sizes of the files and every row pointer and neighbour, since
compiled loops use these as addresses. Other damage is found by `check`, and by `read_graph`, which reads everything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Change, Graph
from dssl.graph.encoding import Encoding
from dssl.runtime import files, out_of_core

HEADER: Final = "header.json"
IDS: Final = "ids.arrow"
FORMAT: Final = "dssl graph"
VERSION = 1
CHUNK = 1 << 26  # bytes per checksum

Size = Annotated[int, Field(ge=0, lt=1 << 48)]
Name = Literal["indptr", "indices", "weights", "kinds", "y", "x", "x_data", "x_indices", "x_indptr", "ids.arrow"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class File(_Part):
    """A file of a packed graph: number of bytes, checksums, and for an array its type and shape."""

    bytes: Size
    sums: list[str]
    dtype: Literal["<i4", "<i8", "<f4"] = "<i8"
    shape: list[Size] = []


class Header(_Part):
    """The content of ``header.json``."""

    format: Literal["dssl graph"]
    version: int
    name: str
    nodes: Size
    arcs: Size
    directed: bool
    fingerprint: str
    feature_names: tuple[str, ...] | None
    class_names: tuple[str, ...] | None
    kind_names: tuple[str, ...] | None = None
    x_shape: list[Size] | None
    history: list[tuple[str, int]] = Field(strict=False)
    encoding: Any
    files: dict[Name, File]
    key: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class StoredGraph(Graph):
    """A graph whose arrays are files.

    Args:
        stamp: the fingerprint of the graph when it was packed.
        folder: the packed graph.
    """

    stamp: str
    folder: Path

    def __post_init__(self) -> None:
        """Leave the checks of values to `check_values`; `open_graph` has checked the structure."""

    def check_values(self) -> None:
        """Refuse features and weights that are not finite; reads these files once."""
        self._check_features(self.num_nodes)
        self._check_weights()

    def fingerprint(self) -> str:
        """Return the fingerprint of the graph that was packed."""
        return self.stamp

    def replace(self, **changes: Any) -> Graph:
        """Return a plain graph with some fields changed, checked again."""
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(Graph)}
        if "indices" in changes:
            kept["kinds"] = None
        return Graph(**{**kept, **changes})


def is_store(path: str | Path) -> bool:
    """Whether a path is a folder that `pack` wrote."""
    try:
        return (Path(path) / HEADER).is_file()
    except OSError:  # too long for a path
        return False


def pack(graph: Graph, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a graph to a folder in one step.

    Args:
        graph: any graph.
        folder: the folder to write; its parent is created if needed.
        overwrite: replace a packed graph that exists already; another folder is refused.
    """
    folder = Path(folder)
    if folder.exists() and not (is_store(folder) and overwrite):
        advice = "replace it with --overwrite, or choose another" if is_store(folder) else "choose another folder"
        raise GraphError(f"{folder} exists already; {advice}")
    write(graph, folder)


def write(graph: Graph, folder: Path, *, key: str = "") -> None:
    """Write a graph to a folder of our own in one step, in place of its content.

    Args:
        graph: any graph.
        folder: the folder to write; its parent is created if needed.
        key: a text that is stored with the graph.
    """
    with files.replacing_folder(folder) as making:
        header = _write(graph, making, key)
        files.write_json(making / HEADER, header.model_dump())


def open_graph(folder: str | Path) -> Graph:
    """Open a packed graph; its arrays are read when they are needed."""
    folder = Path(folder)
    header = read_header(folder)
    arrays: dict[Name, NDArray[Any]] = {
        name: _mapped(folder / name, about) for name, about in header.files.items() if name != IDS
    }
    ids = _ids(folder, pa.memory_map(str(folder / IDS)), header)
    return StoredGraph(**_fields(folder, header, arrays, ids), stamp=header.fingerprint, folder=folder)


def read_graph(folder: str | Path) -> Graph:
    """Read a packed graph into memory, and compare the checksums."""
    folder = Path(folder)
    header = read_header(folder)
    content: dict[str, NDArray[np.uint8]] = {}
    for name, about in header.files.items():
        content[name] = np.fromfile(folder / name, np.uint8)
        _compare(folder, name, about, _sums_of(content[name]))
    arrays: dict[Name, NDArray[Any]] = {
        name: content[name].view(about.dtype).reshape(about.shape)
        for name, about in header.files.items()
        if name != IDS
    }
    return Graph(**_fields(folder, header, arrays, _ids(folder, pa.BufferReader(content[IDS]), header)))


def check(folder: str | Path) -> int:
    """Read every file of a packed graph and compare the checksums; return the number of bytes, or name the damage."""
    folder = Path(folder)
    open_graph(folder)
    parts = read_header(folder).files
    for name, about in parts.items():
        _compare(folder, name, about, _sums(folder / name))
    return sum(about.bytes for about in parts.values())


def read_header(folder: Path) -> Header:
    """Read the header of a packed graph, and compare it with the sizes of the files."""
    path = folder / HEADER
    if not path.is_file():
        raise GraphError(f"{folder} is not a packed graph: it has no {HEADER}")
    try:
        header = Header.model_validate_json(path.read_bytes())
    except OSError as error:
        raise GraphError(f"{folder} is not a packed graph: {HEADER} cannot be read ({error.strerror})") from None
    except ValidationError:
        raise GraphError(f"{path} is damaged; pack the graph again") from None
    if header.version != VERSION:
        raise GraphError(f"{folder} has version {header.version} of the layout, and this dssl reads {VERSION}")
    for name, about in header.files.items():
        size = (folder / name).stat().st_size if (folder / name).is_file() else -1
        if size != about.bytes:
            found = f"has {size:,} bytes instead of {about.bytes:,}" if size >= 0 else "is missing"
            raise GraphError(f"{folder}: {name} {found}; pack the graph again")
    if not _fits(header):
        raise GraphError(f"{path} is damaged: its sizes do not fit each other; pack the graph again")
    return header


def _fits(header: Header) -> bool:
    """Whether each array has the shape and type that the sizes of the graph call for."""
    nodes, arcs = header.nodes, header.arcs
    wanted: dict[str, tuple[list[int], tuple[str, ...]]] = {
        "indptr": ([nodes + 1], ("<i8",)),
        "indices": ([arcs], ("<i4",)),
        "weights": ([arcs], ("<f4",)),
        "kinds": ([arcs], ("<i4",)),
        "y": ([nodes], ("<i8",)),
    }
    given = set(header.files)
    width = header.x_shape or [0, 0]
    if "x_data" in given:
        count = header.files["x_data"].shape
        wanted |= {"x_data": (count, ("<f4",)), "x_indices": (count, ("<i4", "<i8"))}
        wanted |= {"x_indptr": ([nodes + 1], ("<i4", "<i8"))}
        complete = given >= {"x_indices", "x_indptr"} and "x" not in given and len(count) == 1
    else:
        wanted["x"] = ([nodes, width[-1]], ("<f4",))
        complete = ("x" in given) == (header.x_shape is not None) and not given & {"x_indices", "x_indptr"}
    complete = complete and given >= {"indptr", "indices", IDS} and len(width) == 2
    complete = complete and width[0] == (nodes if header.x_shape else 0)
    return complete and all(
        about.shape == wanted[name][0]
        and about.dtype in wanted[name][1]
        and about.bytes == math.prod(about.shape) * int(about.dtype[-1])
        for name, about in header.files.items()
        if name != IDS
    )


def _fields(folder: Path, header: Header, arrays: dict[Name, NDArray[Any]], ids: pa.Array) -> dict[str, Any]:
    """The fields of the graph; row pointers and neighbours outside it are refused."""
    _check_rows(folder, "indices", arrays["indptr"], arrays["indices"], header.nodes)
    x: Any = arrays.get("x")
    if "x_data" in arrays:
        shape = tuple(header.x_shape or ())
        _check_rows(folder, "x_indices", arrays["x_indptr"], arrays["x_indices"], shape[1])
        parts = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
        x = sparse.csr_array(parts, shape=shape, copy=False)
    y = arrays.get("y")
    least, most = (-1, -1) if y is None else (int(y.min(initial=-1)), int(y.max(initial=-1)))
    if least < -1 or (header.class_names is not None and most >= len(header.class_names)):
        _refuse(folder, "y", "a class is outside the class names")
    kinds, named = arrays.get("kinds"), len(header.kind_names or ())
    for _, block in out_of_core.blocks(np.empty(0, np.int32) if kinds is None else kinds):
        if block.size and not -1 <= block.min() <= block.max() < named:
            _refuse(folder, "kinds", "a kind is outside the names of kinds")
    try:
        encoding = None if header.encoding is None else Encoding.from_json(header.encoding)
    except GraphError:
        _refuse(folder, HEADER, "the encoding of the columns is malformed")
    return {
        "indptr": arrays["indptr"],
        "indices": arrays["indices"],
        "weights": arrays.get("weights"),
        "directed": header.directed,
        "ids": ids,
        "x": x,
        "feature_names": header.feature_names,
        "y": y,
        "class_names": header.class_names,
        "kinds": kinds,
        "kind_names": header.kind_names,
        "encoding": encoding,
        "name": header.name,
        "history": tuple(Change(what, count) for what, count in header.history),
    }


def _check_rows(folder: Path, name: str, indptr: NDArray[Any], indices: NDArray[Any], width: int) -> None:
    last, pointers = 0, name.replace("indices", "indptr")
    for begin, block in out_of_core.blocks(indptr):
        if block[0] < last or (not begin and block[0]) or (np.diff(block) < 0).any():
            _refuse(folder, pointers, "the row pointers do not increase from 0")
        last = block[-1]
    if last != indices.shape[0]:
        _refuse(folder, pointers, f"the row pointers do not fit {indices.shape[0]:,} entries")
    for _, block in out_of_core.blocks(indices):
        if block.size and not 0 <= block.min() <= block.max() < width:
            _refuse(folder, name, f"an entry is outside 0 to {width - 1:,}")


def _refuse(folder: Path, name: str, reason: str) -> NoReturn:
    raise GraphError(f"{folder}: {name} is damaged: {reason}; pack the graph again")


def _write(graph: Graph, folder: Path, key: str) -> Header:
    """Write the files of a graph and return the header."""
    arrays: dict[Name, NDArray[Any] | None] = {
        "indptr": graph.indptr,
        "indices": graph.indices,
        "weights": graph.weights,
        "kinds": graph.kinds,
        "y": graph.y,
    }
    if isinstance(graph.x, sparse.csr_array):
        arrays |= {"x_data": graph.x.data, "x_indices": graph.x.indices, "x_indptr": graph.x.indptr}
    else:
        arrays["x"] = graph.x
    written: dict[Name, File] = {}
    for name, array in arrays.items():
        if array is None:
            continue
        little = array.dtype.newbyteorder("<")
        with (folder / name).open("wb") as file:
            for _, block in out_of_core.blocks(array):
                file.write(np.ascontiguousarray(block, little).data)
        written[name] = _described(folder / name, dtype=little.str, shape=list(map(int, array.shape)))
    table = pa.table({"id": graph.ids})
    with pa.OSFile(str(folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written[IDS] = _described(folder / IDS)
    return Header(
        format=FORMAT,
        version=VERSION,
        name=graph.name,
        nodes=graph.num_nodes,
        arcs=graph.num_arcs,
        directed=graph.directed,
        fingerprint=graph.fingerprint(),
        feature_names=graph.feature_names,
        class_names=graph.class_names,
        kind_names=graph.kind_names,
        x_shape=None if graph.x is None else list(map(int, graph.x.shape)),
        history=[(change.what, change.count) for change in graph.history],
        encoding=None if graph.encoding is None else graph.encoding.to_json(),
        files=written,
        key=key,
    )


def _described(path: Path, **rest: Any) -> File:
    return File(bytes=path.stat().st_size, sums=list(_sums(path)), **rest)


def _ids(folder: Path, source: Any, header: Header) -> pa.Array:
    try:
        column = pa.ipc.open_file(source).read_all().column("id")
        ids = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        ids.validate(full=True)
    except (pa.ArrowException, KeyError, OSError) as error:
        _refuse(folder, IDS, str(error)[:80])
    if len(ids) != header.nodes or ids.null_count or ids.type not in (pa.int64(), pa.string()):
        _refuse(folder, IDS, f"{len(ids):,} ids of type {ids.type} for {header.nodes:,} nodes")
    return ids


def _mapped(path: Path, about: File) -> NDArray[Any]:
    shape, dtype = tuple(about.shape), np.dtype(about.dtype)
    if not math.prod(shape):
        return np.empty(shape, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, "r", shape=shape)


def _compare(folder: Path, name: str, about: File, found: Iterator[str]) -> None:
    sums = list(found)
    if len(sums) != len(about.sums):
        _refuse(folder, HEADER, f"{len(about.sums)} checksums for the {len(sums)} parts of {name}")
    for number, (own, wanted) in enumerate(zip(sums, about.sums, strict=True)):
        if own != wanted:
            low = number * CHUNK
            raise GraphError(
                f"{folder}: {name} is damaged between byte {low:,} and {min(low + CHUNK, about.bytes):,}; "
                "pack the graph again, or restore the file"
            )


def _sums(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield hashlib.blake2b(chunk, digest_size=16).hexdigest()


def _sums_of(content: NDArray[np.uint8]) -> Iterator[str]:
    for low in range(0, len(content), CHUNK):
        yield hashlib.blake2b(content[low : low + CHUNK].data, digest_size=16).hexdigest()
