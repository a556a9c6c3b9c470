"""Columns of a node table -> feature matrix: numeric ones scaled, categorical ones encoded, vectors as they are.

What was learnt from the first table (means, categories, lengths) is an `Encoding`, plain values that are saved with
a model, so that next week's table becomes the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError, nearest

Kind = Literal["number", "flag", "category", "vector"]
MOST_CATEGORIES = 10_000
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # as one would write it: not 007, not +7


class BadCell(GraphError):
    """A value of a node table cannot become a feature; whoever knows the file adds its name and line.

    Args:
        column: name of the column.
        row: row, counted from 0.
        value: the value as a user would write it.
        advice: what is wrong with it, and what to do.
    """

    def __init__(self, column: str, row: int, value: object, advice: str) -> None:
        super().__init__(f"column {column!r}, row {row} (counted from 0): {value} {advice}")
        self.column, self.row, self.value, self.advice = column, row, value, advice


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of a table becomes features.

    Args:
        name: name of the column.
        kind: number (standardised), flag (0 or 1), category (one-hot) or vector (as it is).
        mean: mean of a number column when it was fitted.
        std: standard deviation of a number column when it was fitted.
        categories: values of a category column, sorted, one feature each.
        length: how many numbers each row of a vector column holds.
    """

    name: str
    kind: Kind
    mean: float = 0.0
    std: float = 1.0
    categories: tuple[str, ...] = ()
    length: int = 1

    @property
    def names(self) -> list[str]:
        """Names of the features that the column becomes."""
        if self.kind == "category":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind == "vector":
            return [f"{self.name}[{i}]" for i in range(self.length)]
        return [self.name]


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the columns of a node table become features.

    Args:
        columns: each column in the order of its features.
    """

    columns: tuple[Column, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all features."""
        return tuple(name for column in self.columns for name in column.names)

    def to_json(self) -> dict[str, Any]:
        """Return the encoding as plain values for JSON."""
        return {"columns": [{**asdict(column), "categories": list(column.categories)} for column in self.columns]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Encoding:
        """Rebuild an encoding from what `to_json` returned."""
        try:
            return cls(
                tuple(Column(**{**column, "categories": tuple(column["categories"])}) for column in value["columns"])
            )
        except (KeyError, TypeError) as error:
            raise GraphError(f"the feature encoding is damaged ({error}); save the model again") from None


@dataclass(frozen=True, slots=True)
class _Block:
    """Features of one column: dense values ``(N, width)``, or the position of the one 1 in each row (−1: none)."""

    width: int
    dense: NDArray[Any] | None = None
    hot: NDArray[np.int32] | None = None

    def nonzero(self) -> int:
        if self.hot is not None:
            return int((self.hot >= 0).sum())
        return 0 if self.dense is None else int(np.count_nonzero(self.dense))


def encode(
    table: pa.Table, columns: Sequence[str] | None = None, encoding: Encoding | None = None
) -> tuple[NDArray[np.float32] | sparse.csr_array | None, tuple[str, ...], Encoding]:
    """Turn columns of a table into a feature matrix.

    Numbers are standardised (a constant column becomes 0), true/false becomes 1/0, text and dictionaries become one
    column per category (none of them for a missing value, or for one that the encoding has not seen), and lists of
    numbers are taken as they are. A missing, NaN or infinite number is refused.

    Args:
        table: a row per node, N rows.
        columns: which columns, in which order; all of them by default. Not used with an encoding.
        encoding: how an earlier table was encoded; this one is treated alike, and its other columns are ignored.

    Returns:
        Features ``(N, F)``, dense or CSR, whichever is smaller (none if F is 0); their names; and the encoding.

    >>> table = pa.table({"age": [20.0, 40.0], "city": ["Rome", "Oslo"]})
    >>> x, names, encoding = encode(table)
    >>> x, names
    (array([[-1.,  0.,  1.],
           [ 1.,  1.,  0.]], dtype=float32), ('age', 'city=Oslo', 'city=Rome'))
    >>> encode(pa.table({"city": ["Bonn"], "age": [50.0]}), encoding=encoding)[0]
    array([[2., 0., 0.]], dtype=float32)
    """
    if encoding is not None:
        columns = [column.name for column in encoding.columns]
    chosen = table.column_names if columns is None else list(columns)
    for name in chosen:
        if name not in table.column_names:
            raise GraphError(
                f"the node table has no column {name!r}, which the features need; it has "
                f"{', '.join(map(repr, table.column_names))}{nearest(name, table.column_names)}"
            )
    values = {name: plain(table[name]) for name in chosen}
    fitted = encoding or Encoding(tuple(fit_column(name, values[name]) for name in chosen))
    blocks = [_transform(column, values[column.name]) for column in fitted.columns]
    return _join(blocks, table.num_rows), fitted.names, fitted


def decode(
    x: NDArray[np.float32] | sparse.csr_array, encoding: Encoding
) -> Iterator[tuple[Column, NDArray[np.float32] | NDArray[np.int32]]]:
    """Give back the columns that features were made of, one by one; lists of numbers are left out.

    Args:
        x: features, as `encode` made them, shape ``(N, F)``.
        encoding: how they were made.

    Yields:
        A column, and its values, shape ``(N,)``: numbers, or the place in ``categories``, −1 for none of them. True
        and false are 1 and 0.

    >>> x, _, encoding = encode(pa.table({"age": [20.0, 40.0], "city": ["Rome", None]}))
    >>> [(column.name, values.tolist()) for column, values in decode(x, encoding)]
    [('age', [20.0, 40.0]), ('city', [0, -1])]
    """
    begin = 0
    for column in encoding.columns:
        width = len(column.names)
        part = x[:, begin : begin + width]
        begin += width
        if column.kind == "category":
            code = np.full(x.shape[0], -1, np.int32)
            rows, places = part.nonzero()
            code[rows] = places
            yield column, code
        elif column.kind != "vector":
            values = np.asarray(part.toarray() if isinstance(part, sparse.sparray) else part)[:, 0]
            scaled = values * np.float64(column.std) + column.mean if column.kind == "number" else values
            yield column, np.asarray(scaled, np.float32)


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, dictionaries as the values that they stand for."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # more than one array can hold, or none at all
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of string."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is a kind of number."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def fit_column(name: str, values: pa.Array) -> Column:
    """Learn how a column becomes features."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return Column(name, "flag")
    if is_number(kind):
        numbers = numbers_of(name, values)
        largest = np.abs(numbers).max(initial=0)
        if largest > 1e100:  # whose squares are too large for a standard deviation
            raise GraphError(f"column {name!r} holds numbers up to {largest}; scale it down first, or drop it")
        mean = float(numbers.mean()) if numbers.size else 0.0
        std = float(numbers.std()) if numbers.size else 1.0
        # A constant column has a standard deviation of rounding errors only.
        return Column(name, "number", mean, std if std > 1e-12 * abs(mean) else 0.0)
    if is_text(kind):
        return Column(name, "category", categories=categories_of(name, pc.unique(values), len(values)))
    if _is_list(kind) and (is_number(kind.value_type) or pa.types.is_boolean(kind.value_type)):
        return Column(name, "vector", length=_length(values))
    if pa.types.is_null(kind):
        raise GraphError(f"column {name!r} is empty; drop it, or leave it out of the feature columns")
    raise GraphError(
        f"column {name!r} is of type {kind}, which has no meaning as a feature; turn it into numbers, text or lists "
        "of numbers, or drop it"
    )


def categories_of(name: str, found: pa.Array, rows: int) -> tuple[str, ...]:
    """Return the different values of a column of text, sorted, or refuse it if they are too many for its rows."""
    most = min(max(10, rows // 2), MOST_CATEGORIES)
    if len(found) > most:
        raise GraphError(
            f"column {name!r} is text with {len(found):,} different values in {rows:,} rows (such as "
            f"{found[0].as_py()!r}), too many for categories; drop it, or turn it into numbers or a few categories"
        )
    return tuple(sorted(text for text in found.to_pylist() if text))  # neither null nor ''


def numbers_of(name: str, values: pa.Array) -> NDArray[np.float64]:
    """Return numbers as float64, refusing what is missing, NaN or infinite."""
    if not is_number(values.type) and not pa.types.is_null(values.type):
        raise GraphError(f"column {name!r} is of type {values.type}, but was a column of numbers before; mend it")
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        row = int(wrong[0])
        value = "a missing value" if values[row].as_py() is None else str(values[row].as_py())
        raise BadCell(name, row, value, "cannot be a feature; fill it in, or drop the row or the column")
    return numbers


def _length(values: pa.Array) -> int:
    if pa.types.is_fixed_size_list(values.type):
        return int(values.type.list_size)
    return int(pc.list_value_length(values)[0].as_py() or 0) if len(values) else 0


def _transform(column: Column, values: pa.Array) -> _Block:
    if column.kind == "number":
        numbers = numbers_of(column.name, values)
        scaled = (numbers - column.mean) / column.std if column.std else np.zeros_like(numbers)
        return _Block(1, dense=scaled[:, None])
    if column.kind == "flag":
        return _Block(1, dense=_flags(column.name, values)[:, None])
    if column.kind == "category":
        known = pa.array(column.categories, pa.string())
        hot = pc.index_in(values.cast(pa.string()), value_set=known).fill_null(-1)
        return _Block(len(known), hot=hot.to_numpy())
    return _Block(column.length, dense=_vectors(column, values))


def _flags(name: str, values: pa.Array) -> NDArray[np.float32]:
    if not pa.types.is_boolean(values.type):
        raise GraphError(f"column {name!r} is of type {values.type}, but was true/false before; mend it")
    if values.null_count:
        row = pc.index(pc.is_null(values), True).as_py()
        raise BadCell(name, row, "a missing value", "is neither true nor false; fill it in, or drop the column")
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float32)


def _vectors(column: Column, values: pa.Array) -> NDArray[np.float32]:
    if not _is_list(values.type):
        raise GraphError(f"column {column.name!r} is of type {values.type}, but was a list of numbers before; mend it")
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != column.length)
    if wrong.size:
        row = int(wrong[0])
        value = "a missing value" if lengths[row] < 0 else f"a list of {lengths[row]}"
        raise BadCell(column.name, row, value, f"is not a list of {column.length} numbers; give every row as many")
    flat = pc.list_flatten(values)
    numbers: NDArray[np.float32] = (
        flat.cast(pa.float32()).to_numpy(zero_copy_only=False).reshape(len(values), column.length)
    )
    if not np.isfinite(numbers).all():
        row, at = map(int, np.argwhere(~np.isfinite(numbers))[0])
        value = flat[row * column.length + at].as_py()
        shown = "a missing value" if value is None else value
        raise BadCell(column.name, row, shown, f"at place {at} cannot be a feature; fill it in, or drop the column")
    return numbers


def _join(blocks: list[_Block], num_rows: int) -> NDArray[np.float32] | sparse.csr_array | None:
    width = sum(block.width for block in blocks)
    if not width:
        return None
    nonzero = sum(block.nonzero() for block in blocks)
    # CSR holds a value and a column number (4 bytes each) per entry, and a pointer per row.
    if 8 * nonzero + 4 * (num_rows + 1) < 4 * num_rows * width:
        parts = [_sparse(block, num_rows) for block in blocks]
        return sparse.csr_array(sparse.hstack(parts, format="csr", dtype=np.float32))
    x = np.zeros((num_rows, width), np.float32)
    for part, block in zip(_slices(x, blocks), blocks, strict=True):
        if block.hot is not None:
            rows = np.flatnonzero(block.hot >= 0)
            part[rows, block.hot[rows]] = 1
        else:
            part[:] = block.dense
    return x


def _sparse(block: _Block, num_rows: int) -> sparse.csr_array:
    if block.hot is None:
        return sparse.csr_array(block.dense, dtype=np.float32)
    rows = np.flatnonzero(block.hot >= 0)
    ones = np.ones(rows.size, np.float32)
    return sparse.csr_array((ones, (rows, block.hot[rows])), shape=(num_rows, block.width))


def _slices(x: NDArray[np.float32], blocks: list[_Block]) -> Iterator[NDArray[np.float32]]:
    begin = 0
    for block in blocks:
        yield x[:, begin : begin + block.width]
        begin += block.width


def encode_labels(values: pa.ChunkedArray | pa.Array, column: str) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """Turn labels into classes, numbered in the order of their values; a missing label or '' is −1.

    Args:
        values: text, integers, whole decimals (which missing values make of integers) or true/false, N rows.
        column: what messages call them.

    Returns:
        Classes ``(N,)`` and their names; none if no node has a label.

    >>> encode_labels(pa.array(["10", "9", "", "9"]), "label")
    (array([ 1,  0, -1,  0]), ('9', '10'))
    """
    labels = plain(values)
    if pa.types.is_floating(labels.type):
        labels = pc.if_else(pc.is_nan(labels), None, labels)
        fraction = pc.index(pc.not_equal(labels, pc.floor(labels)), True).as_py()
        if fraction >= 0:
            raise BadCell(column, fraction, labels[fraction].as_py(), "is no class; labels are text or whole numbers")
        labels = labels.cast(pa.int64())
    elif is_text(labels.type):
        text = labels.cast(pa.string())
        labels = as_integers(pc.if_else(pc.equal(text, ""), None, text))
    elif pa.types.is_boolean(labels.type):
        labels = labels.cast(pa.string())
    elif not pa.types.is_integer(labels.type) and not pa.types.is_null(labels.type):
        raise GraphError(f"the label column {column!r} is of type {labels.type}; labels are text or whole numbers")
    classes = pc.unique(labels.drop_null())
    if not len(classes):
        return None, ()
    classes = classes.take(pc.array_sort_indices(classes))
    y = pc.index_in(labels, value_set=classes).fill_null(-1).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return y, tuple(map(str, classes.to_pylist()))


def as_integers(values: pa.Array) -> pa.Array:
    """Return text as integers if every value is written as one would write an integer, so that nothing gets lost.

    >>> as_integers(pa.array(["10", "-3"])).type, as_integers(pa.array(["10", "007"])).type
    (DataType(int64), DataType(string))
    """
    written = pc.match_substring_regex(values, INTEGER)
    return values.cast(pa.int64()) if pc.all(written, min_count=1).as_py() else values
