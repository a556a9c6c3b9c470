"""Columns of an edge list or a node table, whatever holds them: text, Parquet, or a table in memory.

A source names its columns, hands out blocks of Arrow data, and can say where a row stands in the words of its user
(`place`, `shown`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dssl.data.text import TextColumns, one_line, refuse_repeats
from dssl.errors import GraphError, nearest

ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".npz", ".graphml")


class Columns(Protocol):
    """A table that is read column by column."""

    title: str
    names: list[str]
    typed: bool

    def blocks(
        self, ids: Sequence[str], numbers: Sequence[str], texts: Sequence[str] = (), *, integers: bool
    ) -> Iterator[pa.Table]:
        """Give the rows in blocks with the named columns; text has its ids read as integers or as text."""
        ...

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Give the whole table; the types are for text only, and for the columns whose type is known."""
        ...

    def place(self, row: int) -> str:
        """Where a row stands, such as ``line 7``."""
        ...

    def shown(self, row: int, column: str) -> str:
        """A value as it is written."""
        ...


def numbered(blocks: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    """Give each block with the number of its first row."""
    row = 0
    for block in blocks:
        yield row, block
        row += block.num_rows


def choose_column(source: Columns, wanted: str, option: str) -> str:
    """Return the requested column, or refuse with the existing names."""
    if wanted not in source.names:
        listed = ", ".join(map(repr, source.names[:20])) + (", …" if len(source.names) > 20 else "")
        raise GraphError(
            f"{source.title} has no column {wanted!r} ({option}); it has {listed}{nearest(wanted, source.names)}"
        )
    return wanted


def ending(path: Path) -> str:
    """Return the ending of a file that decides how it is read, in lower case; an unknown one is refused."""
    name = path.name.lower()
    found = [known for known in ENDINGS if name.endswith(known)]
    if path.is_dir():
        raise GraphError(f"{path} is a folder; name a file in it that ends with {', '.join(ENDINGS)}")
    if not found:
        raise GraphError(f"{path}: the ending {path.suffix!r} is not known; use one of {', '.join(ENDINGS)}")
    if not path.exists():
        near = nearest(path.name, [other.name for other in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise GraphError(f"{path} does not exist; check the name{near}")
    if not path.stat().st_size:
        raise GraphError(f"{path} is empty; give a file with at least one row")
    return max(found, key=len)


def open_columns(path: Path, *, header: bool | None = True, wanted: Sequence[str] = (), edges: bool = False) -> Columns:
    """Open a text or Parquet file.

    Args:
        path: file with the extension of its format.
        header: whether the first line names the columns; none means to see for oneself.
        wanted: columns that the user names, which a header must have.
        edges: whether it is an edge list, which may lack a header, or a node table, which may not.
    """
    kind = ending(path)
    if kind == ".parquet":
        return ParquetColumns(path)
    return TextColumns(path, kind, header=header, wanted=wanted, edges=edges)


def without_views(table: pa.Table) -> pa.Table:
    """Return a table whose string views, the text of polars, are plain text: Arrow computes little with views."""
    types = [_without_views(field.type) for field in table.schema]
    if types == table.schema.types:
        return table
    columns = [column.cast(kind) for column, kind in zip(table.columns, types, strict=True)]
    return pa.table(columns, names=table.column_names)


def _without_views(kind: pa.DataType) -> pa.DataType:
    if kind == pa.string_view():
        return pa.large_string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _without_views(kind.value_type)
        return kind if inner == kind.value_type else pa.large_list(inner)
    return kind


class _TypedColumns:
    """What tables with types have in common: ids are read as they are, and rows have a number but no line."""

    title: str
    typed = True

    def blocks(
        self,
        ids: Sequence[str],
        numbers: Sequence[str],
        texts: Sequence[str] = (),
        *,
        integers: bool,  # noqa: ARG002
    ) -> Iterator[pa.Table]:
        """Give the rows in blocks."""
        return self.parts([*ids, *numbers, *texts], 1 << 19)

    def parts(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Give some columns in blocks of so many rows."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Where a row stands."""
        return f"row {row} (counted from 0)"


class FrameColumns(_TypedColumns):
    """A table in memory.

    Args:
        value: pandas, polars, pyarrow, or a dict of columns.
        title: what messages call it.
    """

    def __init__(self, value: Any, title: str) -> None:
        self.title = title
        try:
            table = without_views(value if isinstance(value, pa.Table) else pa.table(value))
        except (TypeError, ValueError, pa.ArrowException) as error:
            text = one_line(error)
            raise GraphError(f"{title} ({type(value).__name__}) is not a table: {text}; give a DataFrame") from None
        # pandas hands over an index without a name as a column; it contains no data.
        self._table = table.select([name for name in table.column_names if not re.fullmatch(r"__index_\w+__", name)])
        self.names = self._table.column_names
        refuse_repeats(self.names, title)

    def parts(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Give some columns in blocks of so many rows."""
        table = self._table.select(list(columns))
        for begin in range(0, table.num_rows, rows):
            yield table.slice(begin, rows)

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:  # noqa: ARG002
        """Give the whole table."""
        return self._table

    def shown(self, row: int, column: str) -> str:
        """A value as Python shows it."""
        return repr(self._table[column][row].as_py())


class ParquetColumns(_TypedColumns):
    """A Parquet file, read by row groups.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.title = str(path)
        try:
            self._file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)  # or it keeps all that it read
            self.names = self._file.schema_arrow.names
        except (pa.ArrowException, OSError, ValueError) as error:  # the last: a name that is not UTF-8
            raise GraphError(
                f"{path} is not a Parquet file ({one_line(error)}); write it again, "
                "or use the extension of its real format"
            ) from None
        self.num_rows = int(self._file.metadata.num_rows)
        refuse_repeats(self.names, self.title)

    def parts(self, columns: Sequence[str], rows: int = 1 << 13) -> Iterator[pa.Table]:
        """Give some columns in blocks of so many rows."""
        with self._readable():
            for batch in self._file.iter_batches(batch_size=rows, columns=list(columns)):
                yield without_views(pa.Table.from_batches([batch]))

    def read(self, types: Mapping[str, pa.DataType], columns: Sequence[str] | None = None) -> pa.Table:  # noqa: ARG002
        """Give the whole table, or some of its columns."""
        with self._readable():
            return without_views(self._file.read(columns=None if columns is None else list(columns)))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise GraphError(f"{self.title} cannot be read ({one_line(error)}); write it again") from None

    def shown(self, row: int, column: str) -> str:
        """A value as Python shows it."""
        return repr(self._file.read(columns=[column])[column][row].as_py())
