"""The ids of nodes, as Arrow arrays of integers or text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.errors import GraphError
from dssl.graph.column_fit import is_text


def as_ids(ids: pa.Array | Sequence[int] | Sequence[str] | NDArray[Any], name: str, *, unique: bool = True) -> pa.Array:
    """Return ids as an Arrow array of int64 or string, refusing nulls, other types and, if asked, repeats."""
    try:
        array = ids if isinstance(ids, pa.Array) else pa.array(ids)
        if pa.types.is_integer(array.type):
            array = array.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise GraphError(
            f"graph {name!r}: node ids must be all strings or all integers below 2**63; change the others"
        ) from None
    if array.type == pa.int64():
        pass
    elif is_text(array.type):
        array = array.cast(pa.string())
    elif not len(array):
        array = array.cast(pa.int64())
    else:
        raise GraphError(f"graph {name!r}: node ids are of type {array.type}; use integers or strings")
    if array.null_count:
        raise GraphError(f"graph {name!r}: a node id is missing; give every node an id")
    # Ids in ascending order are unique; this is seen without the large table that counting needs.
    ascending = len(array) < 2 or pc.all(pc.less(array[:-1], array[1:])).as_py()
    if unique and not ascending and pc.count_distinct(array).as_py() != len(array):
        counts = pc.value_counts(array)
        repeated = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"].as_py()
        raise GraphError(f"graph {name!r}: the node id {repeated!r} occurs more than once; ids must be unique")
    return array


def id_bytes(ids: pa.Array) -> tuple[NDArray[Any], ...]:
    """The ids as arrays of numbers that do not depend on how Arrow keeps them."""
    if ids.type == pa.int64():
        return (ids.to_numpy(),)
    kept = ids.cast(pa.large_binary())
    offsets = np.frombuffer(kept.buffers()[1], np.int64)[kept.offset : kept.offset + len(kept) + 1]
    data = np.frombuffer(kept.buffers()[2] or b"", np.uint8)
    return np.diff(offsets), data[offsets[0] : offsets[-1]]


def id_keys(ids: pa.Array) -> NDArray[np.int64]:
    """Ids as int64: integers as they are, strings by a hash."""
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.to_numpy(), np.int64)
    keys = np.empty(len(ids), np.int64)
    for begin in range(0, len(ids), 1 << 16):
        texts = ids.slice(begin, 1 << 16).to_pylist()
        digests = b"".join(hashlib.blake2b(value.encode(), digest_size=8).digest() for value in texts)
        keys[begin : begin + len(texts)] = np.frombuffer(digests, np.int64)
    return keys
