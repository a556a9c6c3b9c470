"""Vectors with their node ids: stored as Parquet, CSV or NPZ, looked up by id, and ranked by similarity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError, MissingExtraError, nearest, require
from dssl.graph import as_ids
from dssl.runtime import notebook, out_of_core
from dssl.runtime.files import replacing

Layout = Literal["list", "columns"]

ENDINGS = (".parquet", ".csv", ".npz")
ROWS_AT_ONCE = 1 << 14
SEARCHED = 10  # candidates of the index per requested neighbour


class EmbeddingsError(DsslError):
    """A file of embeddings is malformed, or a request cannot be answered."""


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """One vector per node.

    Iteration gives pairs of an id and its vector. NumPy functions take the matrix of all vectors.

    Args:
        ids: the user's node ids, int64 or string, unique, shape ``(N,)``.
        values: the vectors, float32, shape ``(N, d)``.

    >>> e = Embeddings(["a", "b", "c"], [[1, 0], [0.5, 0.5], [0, 1]])
    >>> e["b"].tolist(), e[["c", "a"]].tolist()
    ([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]])
    >>> e.most_similar("a", top=1)
    [('b', 0.7071067690849304)]
    >>> np.asarray(e).shape, len(e), "d" in e
    ((3, 2), 3, False)
    """

    ids: pa.Array
    values: NDArray[np.float32]
    _index: list[Any] = field(repr=False)  # at most one, from build_index

    def __init__(self, ids: Any, values: ArrayLike) -> None:
        object.__setattr__(self, "ids", as_ids(ids, "embeddings"))
        object.__setattr__(self, "values", np.asanyarray(values, dtype=np.float32))
        object.__setattr__(self, "_index", [])
        if self.values.ndim != 2 or self.values.shape[0] != len(self.ids):
            raise EmbeddingsError(f"{len(self.ids)} ids for vectors of shape {self.values.shape}; give one row per id")

    @property
    def dim(self) -> int:
        """Number of dimensions d."""
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Embeddings({len(self):,} vectors of {self.dim} dimensions)"

    def _repr_html_(self) -> str:
        shown = [f"z{i}" for i in range(min(self.dim, 6))]
        rows = [
            [str(node), *(f"{value:.3f}" for value in vector[:6]), *(["…"] if self.dim > 6 else [])]
            for node, vector in zip(self.ids[:5].to_pylist(), self.values[:5], strict=True)
        ]
        return notebook.grid(repr(self), ["id", *shown, *(["…"] if self.dim > 6 else [])], rows)

    def __iter__(self) -> Iterator[tuple[int | str, NDArray[np.float32]]]:
        return zip(self.ids.to_pylist(), self.values, strict=True)

    def __contains__(self, node: object) -> bool:
        return self._place(node) >= 0

    def __getitem__(self, nodes: Any) -> NDArray[np.float32]:
        """Return the vector of an id, shape ``(d,)``, or of a sequence of ids, shape ``(n, d)``."""
        if isinstance(nodes, int | str | np.integer):
            return self.vector(nodes)  # type: ignore[arg-type]
        wanted = as_ids(nodes, "request", unique=False)
        if len(wanted) and wanted.type != self.ids.type:
            self._position(wanted[0].as_py())
        found = pc.index_in(wanted.cast(self.ids.type), value_set=self.ids)
        if found.null_count:
            self._position(wanted[pc.index(pc.is_null(found), True).as_py()].as_py())
        rows: NDArray[np.float32] = self.values[found.to_numpy()]
        return rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def as_dict(self) -> dict[int | str, NDArray[np.float32]]:
        """Return the vector of each id."""
        return dict(self)

    def to_arrow(self) -> pa.Table:
        """Return a table with the columns ``id`` and ``embedding``."""
        return pa.table({"id": self.ids, "embedding": as_lists(self.values)})

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with the ids as index and the columns ``z0``, ``z1``, …; it needs pandas."""
        pandas = _library("pandas")
        index = pandas.Index(self.ids.to_pylist(), name="id")
        return pandas.DataFrame(self.values, index=index, columns=[f"z{i}" for i in range(self.dim)])

    def to_polars(self) -> Any:
        """Return a polars DataFrame with the columns ``id``, ``z0``, ``z1``, …; it needs polars."""
        columns = {f"z{i}": np.ascontiguousarray(column) for i, column in enumerate(self.values.T)}
        return _library("polars").DataFrame({"id": self.ids.to_pylist(), **columns})

    def vector(self, node: int | str) -> NDArray[np.float32]:
        """Return the vector of a node, shape ``(d,)``."""
        row: NDArray[np.float32] = self.values[self._position(node)]
        return row

    def build_index(self) -> None:
        """Build an approximate index, which makes many calls of `most_similar` faster; it needs ``dssl[index]``.

        It pays for thousands of queries on 100,000 vectors or more. Cosines stay exact, and a few of the nearest nodes
        may be missing (HNSW, Malkov and Yashunin, 2018, by the library usearch).
        """
        require("usearch", extra="index")
        from usearch.index import Index

        index = Index(ndim=self.dim, metric="cos", dtype="f32")
        index.add(np.arange(len(self)), np.ascontiguousarray(self.values))
        self._index[:] = [index]

    def most_similar(self, node: int | str, top: int = 10, *, exact: bool = False) -> list[tuple[int | str, float]]:
        """Return the other nodes with the largest cosine similarity to a node, best first.

        It compares the node with all others, or with the candidates of the index after `build_index`.

        Args:
            node: id of the node.
            top: number of nodes; all others if there are fewer.
            exact: compare with all nodes, also with an index.

        Returns:
            Pairs of id and similarity. A zero vector has similarity 0 to all others.
        """
        asked: Any = top
        if not isinstance(asked, int | np.integer) or asked < 1:
            raise EmbeddingsError(f"top is {top!r}, but must be a whole number of at least 1")
        at = self._position(node)
        others = np.arange(len(self))
        if self._index and not exact:
            candidates = self._index[0].search(self.values[at], min(SEARCHED * (top + 1), len(self))).keys
            others = np.sort(np.asarray(candidates, np.int64))
        compared = self.values if others.size == len(self) else self.values[others]
        norms = np.linalg.norm(compared, axis=1) * np.linalg.norm(self.values[at])
        cosine = (compared @ self.values[at]) / np.maximum(norms, np.finfo(np.float32).tiny)
        cosine[others == at] = -np.inf
        count = min(top, int((others != at).sum()))
        best = np.argpartition(-cosine, count - 1)[:count] if count else np.empty(0, np.int64)
        best = best[np.lexsort((best, -cosine[best]))]
        found = self.ids.take(pa.array(others[best]))
        return list(zip(found.to_pylist(), np.clip(cosine[best], -1, 1).tolist(), strict=True))

    def save(self, path: str | Path, *, layout: Layout = "list") -> None:
        """Write the vectors atomically; the extension of ``path`` determines the format.

        Args:
            path: ends with ``.parquet``, ``.csv`` or ``.npz``.
            layout: of Parquet: ``list`` has one fixed-size list column ``embedding``, ``columns`` has ``z0``, ``z1`` ….
        """
        path = Path(path)
        if check_ending(path) != ".npz" or layout not in get_args(Layout):
            write_vectors(path, {"id": self.ids}, self.values, name="embedding", letter="z", layout=layout)
            return
        with _writing(path) as temporary:
            np.savez(temporary, ids=_plain(self.ids), values=self.values)

    @classmethod
    def load(cls, path: str | Path) -> Embeddings:
        """Read a file that `save` wrote, in any of its formats."""
        path = Path(path)
        ending = check_ending(path)
        if not path.is_file():
            raise EmbeddingsError(f"{path} does not exist; give a file that ends with {', '.join(ENDINGS)}")
        try:
            return cls(*(_read_npz(path) if ending == ".npz" else _read_table(path, ending)))
        except EmbeddingsError:
            raise
        except Exception as error:  # a damaged archive raises almost anything
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise EmbeddingsError(f"{path} does not contain embeddings as {ending[1:]}: {reason}") from None

    def _place(self, node: object) -> int:
        """Position of a node, −1 if it has no vector."""
        wanted = (int, np.integer) if self.ids.type == pa.int64() else str
        if not isinstance(node, wanted) or isinstance(node, bool):
            return -1
        try:
            return int(pc.index(self.ids, pa.scalar(node, self.ids.type)).as_py())
        except (OverflowError, UnicodeError):  # a value that no id can have
            return -1

    def _position(self, node: int | str) -> int:
        if (at := self._place(node)) >= 0:
            return at
        integers = self.ids.type == pa.int64()
        hint = nearest(node, self.ids.to_pylist()) if not integers and isinstance(node, str) else ""
        kind = "integers" if integers else "strings"
        raise EmbeddingsError(f"no vector for the node {node!r}{hint or f'; ids are {kind}, {len(self):,} of them'}")


def _library(name: str) -> Any:
    """An optional library for tables."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"{name} is not installed; run: pip install {name}") from None


def check_ending(path: Path, endings: Sequence[str] = ENDINGS) -> str:
    """Return the extension of a file in lower case, or raise an error if it is not one of ``endings``."""
    if path.suffix.lower() not in endings:
        raise EmbeddingsError(f"{path} has an unknown extension {path.suffix!r}; use one of {', '.join(endings)}")
    return path.suffix.lower()


def as_lists(values: NDArray[np.float32]) -> pa.Array:
    """A matrix as an Arrow array with a list of fixed size per row."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table in one step, as Parquet or CSV, according to the extension of ``path``."""
    from pyarrow import csv, parquet

    write = parquet.write_table if check_ending(path, (".parquet", ".csv")) == ".parquet" else csv.write_csv
    with _writing(path) as temporary:
        write(table, temporary)


def write_vectors(
    path: Path,
    keys: Mapping[str, pa.Array],
    values: NDArray[np.float32],
    *,
    name: str,
    letter: str,
    layout: Layout = "list",
) -> None:
    """Write a row per vector atomically, as Parquet or CSV, according to the extension of ``path``.

    Rows are written in blocks, so that no second copy of the vectors is needed.

    Args:
        path: ends with ``.parquet`` or ``.csv``.
        keys: the columns before the vector, N values each.
        values: the vectors, shape ``(N, d)``.
        name: of the one column in Parquet's list layout.
        letter: prefix of the column names otherwise, followed by a number.
        layout: of Parquet: one fixed-size list column, or a column for each dimension.
    """
    from pyarrow import csv, parquet

    ending = check_ending(path, (".parquet", ".csv"))
    if layout not in get_args(Layout):
        raise EmbeddingsError(f"unknown layout {layout!r}; use one of {', '.join(get_args(Layout))}")
    count, dim = values.shape
    as_list = ending == ".parquet" and layout == "list"
    columns = [name] if as_list else [f"{letter}{i}" for i in range(dim)]
    kind = pa.list_(pa.float32(), dim) if as_list else pa.float32()
    schema = pa.schema([*((key, array.type) for key, array in keys.items()), *((column, kind) for column in columns)])
    opened = parquet.ParquetWriter if ending == ".parquet" else csv.CSVWriter
    with _writing(path) as temporary, opened(str(temporary), schema) as writer:
        for start in range(0, max(count, 1), ROWS_AT_ONCE):
            block = values[start : start + ROWS_AT_ONCE]
            arrays = [array.slice(start, ROWS_AT_ONCE) for array in keys.values()]
            if as_list:
                arrays.append(as_lists(block))
            else:
                arrays += [pa.array(np.ascontiguousarray(column)) for column in block.T]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            out_of_core.drop(values)


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise EmbeddingsError(f"cannot write {error.filename or path}: {error.strerror or error}") from None


def _plain(ids: pa.Array) -> NDArray[Any]:
    """The ids as an array that NumPy stores without pickling."""
    return ids.to_numpy() if ids.type == pa.int64() else np.array(ids.to_pylist(), dtype=np.str_)


def _read_npz(path: Path) -> tuple[NDArray[Any], NDArray[np.float32]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:  # NumPy leaves a damaged one open
        if not {"ids", "values"} <= set(stored.files):
            raise EmbeddingsError(
                f"{path} contains {', '.join(stored.files) or 'nothing'}; embeddings need ids and values"
            )
        return stored["ids"], stored["values"]


def _read_table(path: Path, ending: str) -> tuple[pa.Array, NDArray[np.float32]]:
    from pyarrow import parquet

    if ending == ".parquet" and parquet.read_schema(path).names == ["id", "embedding"]:
        return _read_lists(path)
    table = parquet.read_table(path) if ending == ".parquet" else _read_csv(path)
    names = table.column_names
    if not names or names[0] != "id":
        raise EmbeddingsError(f"the first column of {path} is {names[0] if names else None!r}; it must be 'id'")
    ids = table.column(0).combine_chunks()
    if len(names) < 2:
        raise EmbeddingsError(f"{path} has only the column 'id'; add 'embedding' or z0, z1, …")
    values = np.empty((table.num_rows, len(names) - 1), dtype=np.float32)
    for at, name in enumerate(names[1:]):
        column = table.column(name)
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        if column.null_count or not (numeric or not table.num_rows):
            raise EmbeddingsError(f"column {name!r} of {path} is not all numbers; dimensions are numeric columns")
        with np.errstate(over="raise"):  # a number that float32 cannot hold
            values[:, at] = column.to_numpy()
    return ids, values


def _read_csv(path: Path) -> pa.Table:
    from pyarrow import csv

    with path.open("rb") as handle:
        handle.readline()
        quoted = handle.read(1) == b'"'  # string ids are quoted, including those that look like numbers or dates
    types = {"id": pa.string()} if quoted else {}
    return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types))


def _read_lists(path: Path) -> tuple[pa.Array, NDArray[np.float32]]:
    """Read a column of lists block by block, into a scratch file if they are large."""
    from pyarrow import parquet

    with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        kinds = file.schema_arrow.types
        if not pa.types.is_fixed_size_list(kinds[1]):
            raise EmbeddingsError(
                f"column 'embedding' of {path} is {kinds[1]}; it must be a fixed-size list of numbers"
            )
        dim = kinds[1].list_size
        values = out_of_core.matrix((file.metadata.num_rows, dim))
        ids = []
        at = 0
        for block in file.iter_batches(batch_size=ROWS_AT_ONCE):
            flat = block.column(1).flatten().to_numpy(zero_copy_only=False)
            if flat.size != len(block) * dim:
                raise EmbeddingsError(f"column 'embedding' of {path} has missing vectors; every node needs one")
            values[at : at + len(block)] = flat.reshape(len(block), dim)
            out_of_core.drop(values)
            ids.append(block.column(0))
            at += len(block)
    return pa.concat_arrays(ids) if ids else pa.array([], kinds[0]), values
