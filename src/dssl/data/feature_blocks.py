"""Feature columns of a long node table, block by block: the table never lies in memory, the features on disk.

Two passes: the first learns the encoding (means, spreads, categories), the second writes the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph.features import (
    BadCell,
    Column,
    Encoding,
    categories_of,
    encode,
    fit_column,
    is_number,
    numbers_of,
    plain,
)
from dssl.runtime import out_of_core

WIDEST = 1024  # columns of features that are written as they are; wider ones, of categories, are sparse
Blocks = Callable[[Sequence[str]], Iterator[pa.Table]]


def encode_blocks(
    blocks: Blocks, num_rows: int, columns: Sequence[str], encoding: Encoding | None = None
) -> tuple[NDArray[np.float32] | sparse.csr_array | None, tuple[str, ...], Encoding]:
    """Turn columns of a table into features as `dssl.graph.features.encode` does, up to rounding of means and spreads.

    Args:
        blocks: gives the rows of the named columns in order, as often as it is called.
        num_rows: N.
        columns: which columns, in which order. Not used with an encoding.
        encoding: how an earlier table was encoded.

    Returns:
        Features ``(N, F)``, dense (on disk where large) or CSR; their names; and the encoding.
    """
    fitted = _fit(blocks, columns) if encoding is None else encoding
    names = [column.name for column in fitted.columns]
    width = len(fitted.names)
    if not width:
        return None, (), fitted
    dense = out_of_core.matrix((num_rows, width)) if width <= WIDEST else None
    parts = []
    for row, block in _numbered(blocks(names)):
        with _at(row):
            found, _, _ = encode(block, names, fitted)
        if dense is None:
            parts.append(sparse.csr_array(found, dtype=np.float32))
        else:
            dense[row : row + len(block)] = found.toarray() if isinstance(found, sparse.csr_array) else found
            out_of_core.drop(dense)
    x = sparse.csr_array(sparse.vstack(parts, format="csr")) if dense is None else dense
    return x, fitted.names, fitted


@dataclass(slots=True)
class _Spread:
    """Mean and sum of squared distances from it of the numbers so far (Chan, Golub & LeVeque 1979)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    largest: float = 0.0

    def add(self, numbers: NDArray[np.float64]) -> None:
        if not numbers.size:
            return
        mean = float(numbers.mean())
        total = self.count + numbers.size
        apart = mean - self.mean
        self.squares += float(np.square(numbers - mean).sum()) + apart**2 * self.count * numbers.size / total
        self.mean += apart * numbers.size / total
        self.count = total
        self.largest = max(self.largest, float(np.abs(numbers).max()))


@dataclass(slots=True)
class _Learnt:
    """What was learnt of one column so far; the first block decides on its kind."""

    name: str
    first: Column | None = None
    spread: _Spread = field(default_factory=_Spread)
    texts: pa.Array | None = None
    rows: int = 0

    def add(self, values: pa.Array) -> None:
        if self.first is None:
            if is_number(values.type):
                self.first = Column(self.name, "number")
            elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                self.first = Column(self.name, "category")
            else:
                self.first = fit_column(self.name, values)
        self.rows += len(values)
        if self.first.kind == "number":
            numbers = numbers_of(self.name, values)
            if np.abs(numbers).max(initial=0) <= 1e100:  # or squares are too large; refused below
                self.spread.add(numbers)
            else:
                self.spread.largest = float(np.abs(numbers).max())
        elif self.first.kind == "category":
            new = pc.unique(values.cast(pa.string()))
            self.texts = new if self.texts is None else pc.unique(pa.concat_arrays([self.texts, new]))

    def column(self) -> Column:
        assert self.first is not None
        if self.first.kind == "number":
            if self.spread.largest > 1e100:
                raise GraphError(
                    f"column {self.name!r} holds numbers up to {self.spread.largest}; scale it down first, or drop it"
                )
            std = float(np.sqrt(self.spread.squares / max(self.spread.count, 1)))
            return Column(self.name, "number", self.spread.mean, std if std > 1e-12 * abs(self.spread.mean) else 0.0)
        if self.first.kind == "category":
            assert self.texts is not None
            return Column(self.name, "category", categories=categories_of(self.name, self.texts, self.rows))
        return self.first


def _fit(blocks: Blocks, columns: Sequence[str]) -> Encoding:
    learnt = [_Learnt(name) for name in columns]
    for row, block in _numbered(blocks(columns)):
        with _at(row):
            for part in learnt:
                part.add(plain(block[part.name]))
    return Encoding(tuple(part.column() for part in learnt))


def _numbered(blocks: Iterator[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    row = 0
    for block in blocks:
        yield row, block
        row += len(block)


@contextmanager
def _at(row: int) -> Iterator[None]:
    """Look at a block that begins at a row, and name rows of the table in what is wrong."""
    try:
        yield
    except BadCell as error:
        raise BadCell(error.column, row + error.row, error.value, error.advice) from None
