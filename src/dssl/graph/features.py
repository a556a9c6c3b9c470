"""Columns of a node table -> feature matrix, and back.

Numbers are standardised, long tails after a logarithm; dates become a number and their cycles, categories one column
each, free text hashed words, lists of numbers stay as they are. `dssl.graph.column_fit` decides the type of a column.
The parameters learned from the first table are an `Encoding`, so that next week's table becomes the same columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError, nearest
from dssl.graph.column_fit import (
    READ,
    BadCell,
    ColumnFit,
    is_list,
    is_text,
    plain,
    texts_of,
)
from dssl.graph.encoding import CYCLES, Column, Encoding, Kind

INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # as one would write it: not 007, not +7
MOST = 8.0  # standard deviations from the mean beyond which a number is cut
Features: TypeAlias = NDArray[np.float32] | sparse.csr_array


def encode(
    table: pa.Table,
    columns: Sequence[str] | None = None,
    encoding: Encoding | None = None,
    *,
    kinds: Mapping[str, Kind] | None = None,
) -> tuple[Features | None, tuple[str, ...], Encoding]:
    """Turn columns of a table into a feature matrix.

    A missing number, date or flag becomes 0, the mean; if the fitted table has missing values, another feature marks
    them. A category that the encoding does not know, or a missing one, has no 1 in any column. Infinite numbers and
    lists with missing numbers are refused.

    Args:
        table: a row per node, N rows.
        columns: the columns to use, in order; all of them by default. Not used with an encoding.
        encoding: encoding of an earlier table, to be applied to this one; other columns are ignored.
        kinds: kinds of columns, where they are not to be decided by their values.

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
    if encoding is None:
        chosen = table.column_names if columns is None else list(columns)
        refuse_absent(table.column_names, chosen)
        fits = [ColumnFit(name, (kinds or {}).get(name)) for name in chosen]
        for fit in fits:
            fit.add(plain(table[fit.name], fit.name))
        encoding = Encoding(tuple(fit.column() for fit in fits))
    used = [column for column in encoding.columns if column.kind != "ignore"]
    refuse_absent(table.column_names, [column.name for column in used])
    blocks = [_transform(column, plain(table[column.name], column.name)) for column in used]
    return _join(blocks, table.num_rows), encoding.names, encoding


def refuse_absent(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse columns that a table does not have."""
    for name in wanted:
        if name not in names:
            raise GraphError(
                f"the node table has no column {name!r}, which the features need; it has "
                f"{', '.join(map(repr, names))}{nearest(name, names)}"
            )


def decode(x: Features, encoding: Encoding) -> Iterator[tuple[Column, NDArray[np.float32] | NDArray[np.int32]]]:
    """Give back the columns that features were made of, one by one; text and lists of numbers are left out.

    Args:
        x: features, as `encode` made them, shape ``(N, F)``.
        encoding: how they were made.

    Yields:
        A column, and its values, shape ``(N,)``: numbers (dates as seconds since 1970), or the position in
        ``categories``, −1 for none of them. True and false are 1 and 0. Missing numbers are NaN where they are marked.

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
            rows, positions = part.nonzero()
            code[rows] = positions
            yield column, code
        elif column.kind in ("number", "date", "flag"):
            dense = np.asarray(part.toarray() if isinstance(part, sparse.sparray) else part)
            values = dense[:, 0].astype(np.float64)
            if column.kind != "flag":
                values = values * column.std + column.mean
            values = np.expm1(values) if column.log else values
            if column.missing:
                values = np.where(dense[:, -1] > 0, np.nan, values)
            yield column, values.astype(np.float32)


def years(seconds: NDArray[Any]) -> NDArray[np.float32]:
    """Dates in seconds since 1970 as years with a fraction.

    >>> years(np.array([0.0, 31_556_952.0], np.float32)).tolist()
    [1970.0, 1971.0]
    """
    return np.asarray(1970 + seconds / 31_556_952.0, np.float32)


def _transform(column: Column, values: pa.Array) -> Features:
    """The features of one column, shape ``(N, width)``."""
    if column.kind == "category":
        known = pa.array(column.categories, pa.string())
        code = pc.index_in(texts_of(column.name, values), value_set=known).fill_null(-1).to_numpy()
        rows = np.flatnonzero(code >= 0)
        return sparse.csr_array((np.ones(rows.size, np.float32), (rows, code[rows])), shape=(len(values), len(known)))
    if column.kind == "text":
        return _hashed(column, values)
    if column.kind == "vector":
        return _vectors(column, values)
    numbers = READ[column.kind](column.name, values)
    missing = np.isnan(numbers)
    features = [np.where(missing, 0, numbers if column.kind == "flag" else _scaled(column, numbers))]
    for cycle in column.cycles:
        angle = np.where(missing, 0, numbers) * (2 * np.pi / CYCLES[cycle])
        features += [np.where(missing, 0, wave(angle)) for wave in (np.sin, np.cos)]
    if column.missing:
        features.append(missing)
    return np.stack(features, axis=1).astype(np.float32)


def _scaled(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    if not column.std:
        return np.zeros_like(numbers)
    values = np.log1p(np.maximum(numbers, 0)) if column.log else numbers
    return np.clip((values - column.mean) / column.std, -MOST, MOST)


def _hashed(column: Column, values: pa.Array) -> sparse.csr_array:
    """Counts of words, each in the column that its hash names: nothing to learn, the same for every table."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=column.length, alternate_sign=False, norm=None, dtype=np.float32)
    texts = texts_of(column.name, values).fill_null("").to_pylist()
    if not texts:  # which the hashing refuses
        return sparse.csr_array((0, column.length), dtype=np.float32)
    counts = sparse.csr_array(hashing.transform(texts))
    counts.sum_duplicates()
    return counts


def _vectors(column: Column, values: pa.Array) -> NDArray[np.float32]:
    if not is_list(values.type):
        raise GraphError(f"column {column.name!r} is of type {values.type}, but was a list of numbers; convert it")
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != column.length)
    if wrong.size:
        row = int(wrong[0])
        value = "a missing value" if lengths[row] < 0 else f"a list of {lengths[row]}"
        raise BadCell(column.name, row, value, f"is not a list of {column.length} numbers; give every row as many")
    flat = pc.list_flatten(values)
    numbers: NDArray[np.float32] = (
        flat.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False).reshape(len(values), column.length)
    )
    if not np.isfinite(numbers).all():
        row, at = map(int, np.argwhere(~np.isfinite(numbers))[0])
        value = flat[row * column.length + at].as_py()
        shown = "a missing value" if value is None else value
        raise BadCell(
            column.name, row, shown, f"at position {at} cannot be a feature; replace it, or ignore the column"
        )
    return numbers


def _join(blocks: list[Features], num_rows: int) -> Features | None:
    width = sum(block.shape[1] for block in blocks)
    if not width:
        return None
    nonzero = sum(np.count_nonzero(block) if isinstance(block, np.ndarray) else block.nnz for block in blocks)
    # CSR holds a value and a column number (4 bytes each) per entry, and a pointer per row.
    if 8 * nonzero + 4 * (num_rows + 1) < 4 * num_rows * width:
        parts = [sparse.csr_array(block, dtype=np.float32) for block in blocks]
        return sparse.csr_array(sparse.hstack(parts, format="csr", dtype=np.float32))
    return np.hstack([block if isinstance(block, np.ndarray) else block.toarray() for block in blocks])


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
        labels = labels.cast(pa.float64())  # not all functions of Arrow take half precision
        labels = pc.if_else(pc.is_nan(labels), None, labels)
        whole = pc.and_(pc.equal(labels, pc.floor(labels)), pc.less(pc.abs(labels), 2.0**63))
        odd = pc.index(whole, False).as_py()
        if odd >= 0:
            advice = "is not a class; labels are text or whole numbers (for numbers see dssl evaluate --targets)"
            raise BadCell(column, odd, labels[odd].as_py(), advice)
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
