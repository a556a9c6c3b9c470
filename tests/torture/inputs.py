"""Inputs for campaign (c): nearly right tables, arrays, headers and settings, by Hypothesis, and damaged bytes."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import parquet

Draw = Any  # Hypothesis' function that draws a value from a strategy

ODD_TEXT = (
    "",
    " ",
    "n1",
    "n1 ",
    " n1",
    "1",
    "01",
    "1.0",
    "-1",
    "1e3",
    "nan",
    "NaN",
    "inf",
    "null",
    "true",
    "9007199254740993",
)
ODD_TEXT += (
    "99999999999999999999",
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "ä",
    "日本",
    "\u202e",
    "\x00",
    '"',
    '""',
    "'",
    "a,b",
    "a\tb",
)
ODD_TEXT += ("a\nb", "\r", "#x", "[1, 2]", "{}", "=1+1", "<b>", "x" * 300)
ODD_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    2**31 - 1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    0.5,
    1e-320,
    1e308,
    float("inf"),
    float("nan"),
)
NAMES = ("source", "target", "weight", "id", "label", "a", "b", "c", "", "source", "x" * 50)

cells = st.one_of(
    st.sampled_from(ODD_TEXT), st.sampled_from(ODD_NUMBERS).map(str), st.integers(0, 5).map(lambda i: f"n{i}")
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.sampled_from(ODD_NUMBERS[:10]), st.floats(), st.sampled_from(ODD_TEXT)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from((*NAMES, "name", "bytes")), inner, max_size=3)
    ),
    max_leaves=5,
)


def table_text(draw: Draw, *, columns: int, ids_only: bool = False) -> bytes:
    """A text table: any delimiter, line end, header, quoting, encoding; some rows of another length."""
    delimiter = draw(st.sampled_from([",", ",", "\t", ";", " ", "|"]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r", ""]))
    simple = st.integers(0, 9).map(lambda i: f"n{i}")
    cell = draw(st.sampled_from([simple, simple, st.integers(0, 9).map(str), cells] if ids_only else [simple, cells]))
    rows = []
    if draw(st.booleans()):
        rows.append([draw(st.sampled_from(NAMES)) for _ in range(columns)])
    for _ in range(draw(st.integers(0, 8))):
        width = max(columns + draw(st.sampled_from([0] * 12 + [-1, 1])), 0)
        rows.append([draw(cell) for _ in range(width)])
    quote = draw(st.sampled_from([False, False, True]))
    shown = (delimiter.join(f'"{c}"' if quote else c for c in row) for row in rows)
    text = draw(st.sampled_from(["", "", "", "\ufeff", "# note\n", "\n\n"])) + "".join(line + end for line in shown)
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"])), "replace")


def arrow_table(draw: Draw, names: list[str]) -> pa.Table:
    """A table of columns of any Arrow type, nearly an edge list or a node table."""
    size = draw(st.integers(0, 6))
    ids = [pa.array([f"n{i % 4}" for i in range(size)]), pa.array([i % 4 for i in range(size)], pa.int64())]
    kinds: list[Any] = [*ids, *ids, *ids]
    for kind in (
        pa.int8(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
    ):
        values = [draw(st.sampled_from([0, 1, 2, None])) for _ in range(size)]
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
        kinds.append(
            pa.array(
                [None if v is None else str(v) if text else v for v in values],
                None if pa.types.is_binary(kind) else kind,
            )
        )
    kinds.append(pa.array([i % 2 == 0 for i in range(size)]))
    kinds.append(pa.array([b"\xff\xfe"] * size, pa.binary()))
    kinds.append(pa.array([2**53 + i for i in range(size)], pa.int64()))
    kinds.append(pa.array([f"n{i}" for i in range(size)]).dictionary_encode())
    kinds.append(pa.array([10**18 + i for i in range(size)], pa.timestamp("ns")))
    kinds.append(
        pa.array([[1.0, float(i)] for i in range(size)], pa.list_(pa.float32(), draw(st.sampled_from([2, 2, -1]))))
    )
    kinds.append(pa.array([[1.0] * (i % 3) for i in range(size)]))
    kinds.append(pa.array([{"a": 1}] * size, pa.struct([("a", pa.int64())])))
    kinds.append(pa.nulls(size))
    kinds.append(pa.array(range(size), pa.int64()).cast(pa.decimal128(25, 2)))
    chosen = [draw(st.sampled_from(kinds)) for _ in names]
    return pa.table(chosen, names=names)


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file."""
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def npz_bytes(draw: Draw) -> bytes:
    """An archive that is nearly a sparse or dense matrix of SciPy's or ours."""
    arrays: dict[str, Any] = {
        "format": np.array(draw(st.sampled_from([b"csr", b"csr", b"csc", b"coo", b"dia", b"bsr", b"xyz", b""]))),
        "shape": np.array(draw(st.sampled_from([(4, 4), (4, 4), (4, 5), (0, 0), (-1, 4), (4,), (2**40, 2**40), 4]))),
        "data": np.ones(5, draw(st.sampled_from(["f4", "f8", "i8", "?", "c8", "U3", "O", "M8[s]"]))),
        "indices": np.array(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, -1, 2**31]), min_size=4, max_size=6))),
        "indptr": np.array(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 9, -1]), min_size=4, max_size=6))),
    }
    if draw(st.booleans()):
        arrays |= {"indices": np.array([1, 2, 3, 0, 1]), "indptr": np.array([0, 2, 3, 4, 5])}
    if draw(st.sampled_from([False, False, True])):
        arrays[draw(st.sampled_from(["row", "col", "x", "ids", "values", "parts", "origin"]))] = np.arange(5)
    if draw(st.sampled_from([False, False, False, True])):
        arrays.pop(draw(st.sampled_from(sorted(arrays))))
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Bytes with a mistake: flipped, cut, doubled, overwritten or empty."""
    kind = rng.randrange(7)
    data = bytearray(content)
    at = rng.randrange(len(data)) if data else 0
    if kind == 0 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = data[max(at - 20, 0) : at]
    elif kind == 3:
        data[at : at + 8] = rng.choice([b"\xff" * 8, b"\0" * 8, rng.randbytes(8)])
    elif kind == 4:
        for _ in range(rng.randrange(1, 20)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 5:
        del data[at : at + rng.randrange(1, 40)]
    else:
        data = bytearray(
            rng.choice([b"", b"\0", b"{}", b"[]", b"null", b"PK\x03\x04", b"PAR1", b"\xef\xbb\xbf", rng.randbytes(64)])
        )
    return bytes(data)


def other_json(draw: Draw, content: bytes, rng: random.Random) -> bytes:
    """A JSON text with one value, anywhere inside, of another kind, or one key less or more."""
    value = json.loads(content)
    node, trail = value, []
    while isinstance(node, dict | list) and node and rng.random() < 0.8:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        trail.append((node, key))
        node = node[key]
    if not trail:
        return json.dumps(draw(json_values)).encode()
    holder, key = trail[-1]
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = draw(json_values)
    return json.dumps(value).encode()


def written(path: Path, content: bytes) -> Path:
    """A file with this content, compressed if its name says so."""
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
