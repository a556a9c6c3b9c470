"""Feature columns of a long node table, block by block: the table never lies in memory, the features on disk.

Two passes: the first learns the encoding (means, spreads, categories), the second writes the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dssl.data.columns import numbered
from dssl.graph.column_fit import BadCell, ColumnFit, plain
from dssl.graph.encoding import Encoding, Kind
from dssl.graph.features import encode
from dssl.runtime import out_of_core

LONG = 50_000  # rows of a Parquet table from which on it is encoded by blocks
WIDEST = 1024  # columns of features that are written as they are; wider ones, of categories, are sparse
Blocks = Callable[[Sequence[str]], Iterator[pa.Table]]


def encode_blocks(
    blocks: Blocks,
    num_rows: int,
    columns: Sequence[str],
    encoding: Encoding | None = None,
    *,
    kinds: Mapping[str, Kind] | None = None,
) -> tuple[NDArray[np.float32] | sparse.csr_array | None, tuple[str, ...], Encoding]:
    """Turn columns of a table into features as `dssl.graph.features.encode` does, up to rounding of means and spreads.

    Args:
        blocks: gives the rows of the named columns in order, as often as it is called.
        num_rows: N.
        columns: which columns, in which order. Not used with an encoding.
        encoding: encoding of an earlier table.
        kinds: kinds of columns, where they are not to be decided by their values.

    Returns:
        Features ``(N, F)``, dense (on disk where large) or CSR; their names; and the encoding.
    """
    fitted = _fit(blocks, columns, kinds) if encoding is None else encoding
    names = [column.name for column in fitted.columns if column.kind != "ignore"]
    width = len(fitted.names)
    if not width:
        return None, (), fitted
    dense = out_of_core.matrix((num_rows, width)) if width <= WIDEST else None
    parts = []
    for row, block in numbered(blocks(names)):
        with _at(row):
            found, _, _ = encode(block, encoding=fitted)
        if dense is None:
            parts.append(sparse.csr_array(found, dtype=np.float32))
        else:
            dense[row : row + len(block)] = found.toarray() if isinstance(found, sparse.csr_array) else found
            out_of_core.drop(dense)
    x = sparse.csr_array(sparse.vstack(parts, format="csr")) if dense is None else dense
    return x, fitted.names, fitted


def _fit(blocks: Blocks, columns: Sequence[str], kinds: Mapping[str, Kind] | None) -> Encoding:
    fits = [ColumnFit(name, (kinds or {}).get(name)) for name in columns]
    for row, block in numbered(blocks(columns)):
        with _at(row):
            for fit in fits:
                fit.add(plain(block[fit.name], fit.name))
    return Encoding(tuple(fit.column() for fit in fits))


@contextmanager
def _at(row: int) -> Iterator[None]:
    """Look at a block that begins at a row, and name rows of the table in errors."""
    try:
        yield
    except BadCell as error:
        raise BadCell(error.column, row + error.row, error.value, error.advice) from None
