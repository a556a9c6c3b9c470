"""Text in columns: its layout seen from the first lines, read in blocks, and its faults named by their line.

Blocks are parsed (Arrow) in another thread while the last one is used. What Arrow refuses is read again line by line.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from dssl.errors import GraphError

BLOCK = 1 << 21  # bytes of text parsed at a time
SAMPLE = 1 << 17  # bytes from which the layout of a file is seen
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MAGIC = {b"PAR1": "Parquet", b"PK\x03\x04": "zip or npz", b"\x1f\x8b": "gzip", b"\x89HDF": "HDF5", b"ARRO": "Arrow"}
MARK = b"\xef\xbb\xbf"  # which some programs put before UTF-8 text

SOURCES = ("source", "src", "from", "source_id", "from_id", "from_node", "node1", "node_1", "id1", "id_1", "start", "u")
TARGETS = (
    "target",
    "dst",
    "to",
    "target_id",
    "to_id",
    "to_node",
    "node2",
    "node_2",
    "id2",
    "id_2",
    "end",
    "v",
    "tgt",
    "dest",
    "destination",
)


class NotIntegers(Exception):
    """Ids that were taken for integers are not; the reader starts again and takes them as text."""


class TextColumns:
    """Comma-, tab-, semicolon- or space-separated text, perhaps compressed.

    Args:
        path: the file.
        kind: its ending.
        header: whether the first line names the columns; none means to see for oneself.
        wanted: columns that the user names.
        edges: whether it is an edge list.
        title: what messages call it; by default its path.
    """

    typed = False

    def __init__(
        self, path: Path, kind: str, *, header: bool | None, wanted: Sequence[str], edges: bool, title: str = ""
    ) -> None:
        self.title = title or str(path)
        self._path = path
        self._compressed = kind.endswith(".gz")
        sample = self._sample()
        # Leading lines such as "# Nodes: 10" are comments; "#python,#rust" is an edge.
        self._skip = 0
        while self._skip < len(sample) and re.match(r"[#%](\s|$)", sample[self._skip]):
            self._skip += 1
        lines = [line for line in sample[self._skip :] if line.strip()]
        if not lines:
            raise GraphError(f"{self.title} holds no rows; give a file with at least one")
        self._delimiter = _delimiter(lines[0], kind)
        rows = [fields for _, fields in self._fields(lines)]
        if header is None:
            header = see_header(rows, wanted, self.title)
        if not edges and all(NUMBER.fullmatch(field.strip()) for field in rows[0]):
            raise GraphError(
                f"{self.title} has no header; add a first line with the names of the columns, such as id,label"
            )
        self._only_header = header and len(lines) == 1
        if header:
            self._skip += next(number for number, line in enumerate(sample[self._skip :], 1) if line.strip())
            self.names = [name.strip() for name in rows[0]]
        else:
            self.names = [str(number) for number in range(1, len(rows[0]) + 1)]
        refuse_repeats(self.names, self.title)

    def _sample(self) -> list[str]:
        with self._opened() as handle:
            head = handle.read(SAMPLE)
            whole = len(head) < SAMPLE
        for magic, what in MAGIC.items():
            if head.startswith(magic):
                raise GraphError(f"{self.title} is not text but a {what} file; use the extension of its real format")
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise GraphError(f"{self.title} is UTF-16 text; save it as UTF-8")
        if b"\0" in head:
            raise GraphError(f"{self.title} is not text but binary; use the extension of its real format")
        if not whole:  # the last line may be cut, and with it a letter
            head = head[: head.rfind(b"\n") + 1] or head
        lines = head.removeprefix(MARK).split(b"\n")
        return [self._decode(line, number) for number, line in enumerate(lines, 1)]

    def _decode(self, line: bytes, number: int) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            wrong = line[error.start : error.start + 1].hex()
            raise GraphError(
                f"{self.title}, line {number}: the byte 0x{wrong} is not UTF-8 text; save the file as UTF-8"
            ) from None

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes] | gzip.GzipFile]:
        """Open the file; its faults, such as a torn archive, come out as one line."""
        try:
            with gzip.GzipFile(self._path) if self._compressed else self._path.open("rb") as handle:
                yield handle
        except (OSError, EOFError, zlib.error) as error:
            raise GraphError(
                f"{self._path} cannot be read ({one_line(error)}); does its extension match its format?"
            ) from None

    def blocks(
        self, ids: Sequence[str], numbers: Sequence[str], texts: Sequence[str] = (), *, integers: bool
    ) -> Iterator[pa.Table]:
        """Give the rows in blocks; ids that are not integers, where these are requested, raise `NotIntegers`."""
        types = {**dict.fromkeys(ids, pa.int64() if integers else pa.string()), **dict.fromkeys(numbers, pa.float64())}
        types |= dict.fromkeys(texts, pa.string())
        others = [*numbers, *texts]

        def parse(text: bytes) -> pa.Table:
            plain = self._plain_integers(text, ids) if integers else None
            if plain is not None and not others:
                return plain
            if plain is not None:
                rest = self._parse(text, types, others)
                return pa.table([*plain.columns, *rest.columns], names=[*ids, *others])
            if integers and self._padded(text, ids):
                raise NotIntegers
            return self._parse(text, types, [*ids, *others])

        with ThreadPoolExecutor(1) as pool:
            ahead: Future[pa.Table] | None = None
            for text in self._texts():
                following = pool.submit(parse, text)
                if ahead is not None:
                    yield self._result(ahead, types, integers)
                ahead = following
            if ahead is not None:
                yield self._result(ahead, types, integers)

    def _result(self, parsed: Future[pa.Table], types: Mapping[str, pa.DataType], integers: bool) -> pa.Table:
        try:
            return parsed.result()
        except pa.ArrowInvalid as error:
            if integers and "conversion error to int64" in str(error):
                raise NotIntegers from None
            self._explain(types, error)

    def _texts(self) -> Iterator[bytes]:
        """The lines below the header in blocks of whole lines."""
        with self._opened() as handle:
            for _ in range(self._skip):
                handle.readline()
            first = handle.read(BLOCK)
            text = first if self._skip else first.removeprefix(MARK)
            while text:
                text += handle.readline()
                if text.strip():
                    yield text
                text = handle.read(BLOCK)

    def _parse(self, text: bytes, types: Mapping[str, pa.DataType], columns: Sequence[str]) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(column_names=self.names, block_size=BLOCK // 2),
            arrow_csv.ParseOptions(delimiter=self._delimiter),
            arrow_csv.ConvertOptions(
                column_types=types, include_columns=columns, null_values=[""], strings_can_be_null=True
            ),
        )

    def _plain_integers(self, text: bytes, ids: Sequence[str]) -> pa.Table | None:
        """Parse a block in the fast way, if it holds nothing but plain integers in two columns of ids."""
        from dssl.kernels.id_table import parse_integers  # Numba takes long to import

        if len(ids) != 2:
            return None
        text = text if text.endswith(b"\n") else text + b"\n"
        out = np.empty((2, text.count(b"\n")), np.int64)
        first, second = (self.names.index(name) for name in ids)
        codes = np.frombuffer(text, np.uint8)
        rows = parse_integers(codes, ord(self._delimiter), len(self.names), (first, second), out)
        return None if rows < 0 else pa.table([out[0, :rows], out[1, :rows]], names=list(ids))

    def _padded(self, text: bytes, ids: Sequence[str]) -> bool:
        table = self._parse(text, dict.fromkeys(ids, pa.string()), ids)
        return any(pc.any(pc.match_substring_regex(table[name], r"^[+-]?0[0-9]")).as_py() for name in ids)

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Give the whole table; columns without a given type get the one that their text looks like."""
        if self._only_header:
            raise GraphError(f"{self.title} has a header but no rows; give at least one")
        try:
            with self._opened() as handle:
                return arrow_csv.read_csv(
                    pa.PythonFile(handle, mode="r"),
                    arrow_csv.ReadOptions(column_names=self.names, skip_rows=self._skip),
                    arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(column_types=types),
                )
        except pa.ArrowInvalid as error:
            self._explain(types, error)

    def _explain(self, types: Mapping[str, pa.DataType], error: Exception) -> NoReturn:
        """Read line by line to name the line, the column and the value that Arrow has refused."""
        numbers = [name for name, kind in types.items() if kind == pa.float64()]
        for line, fields in self._records():
            if len(fields) != len(self.names):
                what = f"{len(fields)} value{'s' if len(fields) > 1 else ''} instead of {len(self.names)}"
                shown = self._delimiter.join(fields)[:60]
                raise GraphError(
                    f"{self.title}, line {line}: {what} ({shown!r}); give every line as many, and quote values that "
                    f"hold {self._delimiter!r}"
                )
            for name in numbers:
                value = fields[self.names.index(name)].strip()
                if value and not NUMBER.fullmatch(value):
                    raise GraphError(
                        f"{self.title}, line {line}, column {name!r}: {value!r} is not a number; correct the value, "
                        "or choose another column"
                    )
        raise GraphError(f"{self.title} cannot be read as text in columns ({one_line(error)}); correct the file")

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The rows with the number of the line on which each ends, read slowly."""
        with self._opened() as handle:
            for _ in range(self._skip):
                handle.readline()
            lines = (self._decode(line, number) for number, line in enumerate(handle, self._skip + 1))
            yield from self._fields(lines)

    def _fields(self, lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(lines, delimiter=self._delimiter)
        try:
            for fields in reader:
                if fields:
                    yield self._skip + reader.line_num, fields
        except csv.Error as error:
            line = self._skip + reader.line_num
            raise GraphError(f"{self.title}, line {line} cannot be read ({one_line(error)}); correct it") from None

    def place(self, row: int) -> str:
        """The line of a row, empty lines counted."""
        return next(f"line {line}" for number, (line, _) in enumerate(self._records()) if number == row)

    def shown(self, row: int, column: str) -> str:
        """A value as it is written."""
        fields = next(fields for number, (_, fields) in enumerate(self._records()) if number == row)
        return repr(fields[self.names.index(column)])


def see_header(rows: Sequence[Sequence[str]], wanted: Sequence[str], title: str) -> bool:
    """Whether the first row of an edge list names the columns.

    It does if the user names columns (by names, not numbers), or if it holds a usual name for the source and one for
    the target, or a word above a column of numbers. It does not if it holds a number, or if a value of its first two
    columns comes again further down. Otherwise it is ambiguous and refused.

    >>> see_header([["person", "knows"], ["7", "9"]], [], "edges.csv")
    True
    >>> see_header([["ann", "bob"], ["bob", "eve"]], [], "edges.csv")
    False
    """
    first, rest = [field.strip() for field in rows[0]], rows[1:]
    lower = {field.lower() for field in first}
    if wanted:
        return not all(name.isdecimal() for name in wanted)
    if lower & set(SOURCES) and lower & set(TARGETS):
        return True
    if any(NUMBER.fullmatch(field) for field in first):
        return False
    for column in range(len(first)):
        below = [row[column].strip() for row in rest if len(row) > column]
        if below and all(NUMBER.fullmatch(field) for field in below):
            return True
    if set(first[:2]) & {field.strip() for row in rest for field in row[:2]}:
        return False
    raise GraphError(
        f"{title}: it is unclear whether the first line ({', '.join(first)[:60]!r}) names the columns; "
        "say so with header (--header or --no-header)"
    )


def _delimiter(line: str, kind: str) -> str:
    order = "\t, ;" if kind.startswith(".tsv") else ",\t; "
    return next((delimiter for delimiter in order if delimiter in line.strip()), order[0])


def refuse_repeats(names: Sequence[str], title: str) -> None:
    """Refuse a table with two columns of one name."""
    for name in names:
        if names.count(name) > 1:
            raise GraphError(f"{title} has two columns with the name {name!r}; rename one")


def one_line(error: str | BaseException) -> str:
    """The text of an error, in one short line."""
    return " ".join(str(error).split())[:160] or type(error).__name__
