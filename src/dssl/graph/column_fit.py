"""Decide the type of a column of a node table, and learn its encoding, block by block.

A column is a number, a flag, a category, text, a date or a list of numbers by its Arrow type and its values; a list of
strings is text. Columns without information for other nodes are left out, with a note: empty ones, constants and
identifiers.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.errors import GraphError
from dssl.graph.encoding import CYCLES, Column, Kind

MOST_CATEGORIES = 256  # a column of text with more different values is hashed, or left out
COUNTED = 10_000  # different values that are kept while counting them
HASHED = 512  # features of a text column
UNIQUE = 0.9  # fraction of different values from which single words are identifiers
LONG_TAIL = 1.5  # a standard deviation above so many means of values ≥ 0 is a long tail
IDENTIFIER = re.compile(r"(^|[_ .-])(id|ids|key|uuid|guid|hash|sha\d*|md5)$", re.IGNORECASE)


class BadCell(GraphError):
    """A value of a node table cannot become a feature; the reader of the file adds its name and line.

    Args:
        column: name of the column.
        row: row, counted from 0.
        value: the value as a user would write it.
        advice: the problem and the remedy.
    """

    def __init__(self, column: str, row: int, value: object, advice: str) -> None:
        super().__init__(f"column {column!r}, row {row} (counted from 0): {value} {advice}")
        self.column, self.row, self.value, self.advice = column, row, value, advice


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of string."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of number."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of list."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_words(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of list of strings, such as tags."""
    return is_list(kind) and is_text(kind.value_type)


def plain(column: pa.ChunkedArray | pa.Array, name: str = "") -> pa.Array:
    """Return a column as one array, dictionaries as their values; text that is not UTF-8 is refused."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if is_text(array.type):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise GraphError(f"column {name!r} holds text that is not UTF-8; write the file again as UTF-8") from None
    return array


def kind_of(values: pa.Array) -> Kind | None:
    """Return the kind of a column by its Arrow type alone; none if its values decide (text), or if it has no kind."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return "flag"
    if is_number(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return "number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    if is_list(kind) and (is_number(kind.value_type) or pa.types.is_boolean(kind.value_type)):
        return "vector"
    return "ignore" if pa.types.is_null(kind) else None


def numbers_of(name: str, values: pa.Array) -> NDArray[np.float64]:
    """Return numbers as float64, missing ones as NaN; infinite ones are refused."""
    kind = values.type
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        values = values.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    elif is_text(kind):
        values = _parsed(name, values, pa.float64(), "a number")
    elif not is_number(kind) and not pa.types.is_null(kind) and not pa.types.is_boolean(kind):
        raise GraphError(f"column {name!r} is of type {kind}, but was a column of numbers before; convert it")
    numbers: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(np.isinf(numbers))
    if wrong.size:
        raise BadCell(name, int(wrong[0]), numbers[wrong[0]], "cannot be a feature; replace it, or ignore the column")
    return numbers


def seconds_of(name: str, values: pa.Array) -> NDArray[np.float64]:
    """Return dates and times as seconds since 1970, missing ones as NaN."""
    if is_text(values.type):
        try:
            values = texts_of(name, values).cast(pa.timestamp("us", "UTC"))  # dates with a zone
        except pa.ArrowInvalid:
            values = _parsed(name, values, pa.timestamp("us"), "a date")
    elif not (pa.types.is_date(values.type) or pa.types.is_timestamp(values.type) or pa.types.is_null(values.type)):
        raise GraphError(f"column {name!r} is of type {values.type}, but was a column of dates before; convert it")
    ticks = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return np.asarray(ticks.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / 1e6


def texts_of(name: str, values: pa.Array) -> pa.Array:
    """Return a column of single values, or of lists of text as their words, as text; '' is missing."""
    if is_words(values.type):
        values = pc.binary_join(values.cast(pa.list_(pa.string())), " ")
    try:
        text = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise GraphError(f"column {name!r} is of type {values.type}, which cannot be text; use another type") from None
    return pc.if_else(pc.equal(text, ""), None, text)


def flags_of(name: str, values: pa.Array) -> NDArray[np.float64]:
    """Return true and false as 1 and 0, missing values as NaN."""
    if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
        raise GraphError(f"column {name!r} is of type {values.type}, but was true/false before; convert it")
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


def _parsed(name: str, values: pa.Array, kind: pa.DataType, word: str) -> pa.Array:
    text = texts_of(name, values)
    try:
        return text.cast(kind)
    except pa.ArrowInvalid:
        for row, value in enumerate(text):
            try:
                value.cast(kind)
            except pa.ArrowInvalid:
                raise BadCell(name, row, repr(value.as_py()), f"is not {word}; choose another type of column") from None
        raise


READ = {"number": numbers_of, "date": seconds_of, "flag": flags_of}  # columns that become numbers


class ColumnFit:
    """The statistics of one column so far.

    Args:
        name: name of the column.
        kind: its kind, if a user chose it.

    Attributes:
        rows: number of rows added.
        missing: number of missing values among them.
    """

    def __init__(self, name: str, kind: Kind | None = None) -> None:
        self.name, self.kind, self._chosen = name, kind, kind is not None
        self.rows = self.missing = self._words = self._length = 0
        self._raw, self._log = _Spread(), _Spread()
        self._least, self._most = np.inf, -np.inf
        self._values: pa.Array | None = None

    def add(self, values: pa.Array) -> None:
        """Learn from the next block of rows."""
        if self.kind in (None, "ignore") and not self._chosen:
            self._decide(values)
        self.rows += len(values)
        if self.kind in READ:
            self._add_numbers(READ[self.kind](self.name, values))
        elif self.kind == "vector":
            if kind_of(values) != "vector":
                raise GraphError(
                    f"column {self.name!r} is of type {values.type}, and a vector is a list of numbers, which Parquet "
                    "can hold; choose another type"
                )
            self._length = self._length or _length(values)
        elif self.kind == "ignore":
            self.missing += len(values)
        else:
            self._add_texts(texts_of(self.name, values))
        if self.kind == "number" and pa.types.is_integer(values.type) and IDENTIFIER.search(self.name):
            self._count(values.cast(pa.string()))

    def column(self) -> Column:
        """Return how the column becomes features."""
        if self._chosen and self.kind == "ignore":
            return Column(self.name, "ignore", note="as requested")
        if self.rows == self.missing and self.kind != "vector":
            return self._left_out("it is empty")
        if self.kind in ("number", "date"):
            return self._numeric()
        missing = self.missing > 0
        if self.kind == "flag":
            return self._constant() or Column(self.name, "flag", missing=missing)
        if self.kind == "vector":
            return Column(self.name, "vector", length=self._length)
        return self._textual()

    def _decide(self, values: pa.Array) -> None:
        self.kind = "text" if is_words(values.type) else kind_of(values)
        if self.kind is None and not is_text(values.type):
            raise GraphError(
                f"column {self.name!r} is of type {values.type}, which has no meaning as a feature; turn it into "
                f"numbers, text or lists of numbers, or ignore it with --column {self.name}=ignore"
            )

    def _add_numbers(self, numbers: NDArray[np.float64]) -> None:
        known = numbers[~np.isnan(numbers)]
        self.missing += numbers.size - known.size
        if not known.size:
            return
        self._least, self._most = min(self._least, float(known.min())), max(self._most, float(known.max()))
        if max(-self._least, self._most) > 1e100:  # whose squares are too large for a standard deviation
            raise GraphError(
                f"column {self.name!r} holds numbers up to {np.abs(known).max()}; scale it down, or ignore it"
            )
        self._raw.add(known)
        if self._least >= 0:
            self._log.add(np.log1p(known))

    def _add_texts(self, texts: pa.Array) -> None:
        known = texts.drop_null()
        self.missing += len(texts) - len(known)
        self._words += pc.sum(pc.count_substring_regex(known, r"\S+")).as_py() or 0
        self._count(known)

    def _count(self, known: pa.Array) -> None:
        if self._values is None or len(self._values) <= COUNTED:
            new = pc.unique(known)
            self._values = new if self._values is None else pc.unique(pa.concat_arrays([self._values, new]))

    def _numeric(self) -> Column:
        if constant := self._constant():
            return constant
        known = self.rows - self.missing
        if not self._chosen and self._values is not None and len(self._values) >= min(known, COUNTED):
            return self._left_out("it is an identifier: every row has another value")
        missing = self.missing > 0
        if self.kind == "date":
            span = self._most - self._least
            # A cycle is a feature if the dates cover it; days without hours have no cycle within a day.
            whole_days = self._least % 86_400 == 0 and self._most % 86_400 == 0
            cycles = tuple(
                name for name, length in CYCLES.items() if span >= length and not (name == "day" and whole_days)
            )
            return Column(self.name, "date", self._raw.mean, self._raw.std, missing=missing, cycles=cycles)
        log = bool(self._least >= 0 and self._raw.std > LONG_TAIL * self._raw.mean)
        spread = self._log if log else self._raw
        return Column(self.name, "number", spread.mean, spread.std, log=log, missing=missing)

    def _textual(self) -> Column:
        assert self._values is not None
        known, distinct = self.rows - self.missing, len(self._values)
        if self._chosen and self.kind == "category":
            return self._category()
        if self._chosen or self.kind == "text":
            return Column(self.name, "text", length=HASHED)
        if distinct == 1 and not self.missing:
            return self._left_out(f"it is constant: {self._values[0].as_py()!r}")
        if distinct <= min(MOST_CATEGORIES, max(20, known // 2)):
            return self._category()
        if self._words < 2 * known and distinct >= min(UNIQUE * known, COUNTED):
            number = f"more than {COUNTED:,}" if distinct > COUNTED else f"{distinct:,}"
            return self._left_out(f"it is an identifier: {number} different values in {known:,} rows")
        return Column(self.name, "text", length=HASHED)

    def _category(self) -> Column:
        assert self._values is not None
        if len(self._values) > COUNTED:
            raise GraphError(
                f"column {self.name!r} has more than {COUNTED:,} categories; use --column {self.name}=text"
            )
        return Column(self.name, "category", categories=tuple(sorted(self._values.to_pylist())))

    def _constant(self) -> Column | None:
        if self._least != self._most or self.missing or self._chosen:
            return None
        return self._left_out(f"it is constant: {self._least:g}")

    def _left_out(self, note: str) -> Column:
        return Column(self.name, "ignore", note=note)


def _length(values: pa.Array) -> int:
    if pa.types.is_fixed_size_list(values.type):
        return int(values.type.list_size)
    return int(pc.list_value_length(values)[0].as_py() or 0) if len(values) else 0


class _Spread:
    """Mean and sum of squared distances from it of the numbers so far (Chan, Golub & LeVeque 1979)."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, numbers: NDArray[np.float64]) -> None:
        mean = float(numbers.mean())
        total = self.count + numbers.size
        apart = mean - self.mean
        self.squares += float(np.square(numbers - mean).sum()) + apart**2 * self.count * numbers.size / total
        self.mean += apart * numbers.size / total
        self.count = total

    @property
    def std(self) -> float:
        std = float(np.sqrt(self.squares / max(self.count, 1)))
        # A constant column has a standard deviation of rounding errors only.
        return std if std > 1e-12 * abs(self.mean) else 0.0
