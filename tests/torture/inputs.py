"""Inputs for campaign (c): tables, arrays, headers and settings that are nearly right, and damaged bytes."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

ODD_TEXT = (
    *("", " ", "n1", "n1 ", " n1", "1", "01", "1.0", "-1", "1e3", "nan", "NaN", "inf", "-inf", "null", "true", "No"),
    *("9007199254740993", "99999999999999999999", "2024-01-01", "2024-01-01T00:00:00Z", "24:00", "0x10", "1_000"),
    *("ä", "日本", "\u202e", "\x00", '"', '""', "'", "a,b", "a\tb", "a\nb", "\r", "#x", "[1, 2]", "{}", "=1+1", "<b>"),
    "x" * 300,
)
ODD_NUMBERS = (
    *(0, 1, -1, 2, 3, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**64, -(2**63)),
    *(0.5, 1e-320, 1e308, float("inf"), float("nan")),
)
NAMES = ("source", "target", "weight", "id", "label", "a", "b", "c", "", "name", "bytes", "shape", "x" * 50)
Rng = random.Random


def cell(rng: Rng) -> str:
    """A value that some reader may stumble over."""
    return rng.choice(ODD_TEXT) if rng.random() < 0.7 else str(rng.choice(ODD_NUMBERS))


def json_value(rng: Rng, depth: int = 2) -> Any:
    """A JSON value of any kind."""
    kind = rng.randrange(7 if depth else 5)
    if kind == 5:
        return [json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind == 6:
        return {rng.choice(NAMES): json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    return rng.choice([None, True, False, rng.choice(ODD_NUMBERS), rng.choice(ODD_NUMBERS), rng.choice(ODD_TEXT)])


def table_text(rng: Rng, names: list[str], *, ids: int) -> bytes:
    """A text table whose first columns are ids; often one thing is odd: delimiter, line end, header, row, encoding.

    Args:
        rng: the generator.
        names: of the columns.
        ids: number of columns with ids.
    """
    delimiter = rng.choice([*[","] * 9, "\t", ";", " ", "|"])
    end = rng.choice([*["\n"] * 9, "\r\n", "\r", ""])
    word = rng.choice([*["n"] * 6, "", "node "])
    odd = rng.choice([0.0, 0.0, 0.0, 0.05, 0.5])
    rows = [names] if rng.random() < 0.9 else []
    if rows and rng.random() < 0.1:
        rows = [[rng.choice(NAMES) for _ in names]]
    for number in range(rng.choice([0, 1, 4, 8, 8, 8, 8, 8])):
        values = [f"{word}{(number + at) % 5 if ids > 1 else number}" for at in range(ids)]
        values += [f"{rng.random():.2f}" for _ in names[ids:]]
        values = [cell(rng) if rng.random() < odd else value for value in values]
        rows.append(values[:-1] if rng.random() < 0.01 else [*values, "1"] if rng.random() < 0.01 else values)
    quote = rng.random() < 0.2
    lines = (delimiter.join(f'"{value}"' if quote else value for value in row) + end for row in rows)
    text = rng.choice([*[""] * 9, "\ufeff", "# note\n", "\n\n"]) + "".join(lines)
    return text.encode(rng.choice(["utf-8"] * 18 + ["utf-16", "latin-1"]), "replace")


def arrow_table(rng: Rng, names: list[str], *, ids: int) -> pa.Table:
    """A table whose first columns are ids, and the others of any Arrow type; some ids are of another type too."""
    size = rng.choice([0, 1, 4, 6, 6, 6])
    columns = []
    text = rng.random() < 0.5
    for at, _ in enumerate(names):
        if at < ids and rng.random() < 0.95:
            values = [(row + at) % 5 if ids > 1 else row for row in range(size)]
            columns.append(pa.array([f"n{value}" for value in values] if text else values))
        else:
            columns.append(_arrow_column(rng, size))
    return pa.table(columns, names=names)


def _arrow_column(rng: Rng, size: int) -> pa.Array:
    some = [rng.choice([0, 1, 2, None]) for _ in range(size)]
    kinds = [
        lambda: pa.array(some, rng.choice([pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()])),
        lambda: pa.array(some, pa.int64()).cast(rng.choice([pa.string(), pa.large_string(), pa.timestamp("ns")])),
        lambda: pa.array([None if value is None else value > 0 for value in some], pa.bool_()),
        lambda: pa.array([rng.choice([b"\xff\xfe", b"a"]) for _ in range(size)], pa.binary()),
        lambda: pa.array([b"\xff\xfe"] * size, pa.binary()).view(pa.string()),
        lambda: pa.array([2**53 + row for row in range(size)], pa.int64()),
        lambda: pa.array([rng.choice(ODD_TEXT) for _ in range(size)]),
        lambda: pa.array([f"n{row}" for row in range(size)]).dictionary_encode(),
        lambda: pa.array([[1.0, float(row)] for row in range(size)], pa.list_(pa.float32(), rng.choice([2, -1]))),
        lambda: pa.array([[1.0] * (row % 3) for row in range(size)], pa.list_(pa.float64())),
        lambda: pa.array([[value] for value in some], pa.list_(pa.int64())),
        lambda: pa.array([{"a": 1}] * size, pa.struct([("a", pa.int64())])),
        lambda: pa.nulls(size),
        lambda: pa.array(range(size), pa.int64()).cast(pa.decimal128(25, 2)),
        lambda: pa.array(range(size), pa.int32()).cast(rng.choice([pa.date32(), pa.time32("s")])),
        lambda: pa.array(range(size), pa.int64()).cast(pa.duration("us")),
        lambda: pa.array([rng.choice([1e308, float("nan"), float("inf"), -0.0]) for _ in range(size)], pa.float64()),
    ]
    return rng.choice(kinds)()


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file."""
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def npz_bytes(rng: Rng) -> bytes:
    """An archive that is nearly a sparse matrix of SciPy's, or embeddings."""
    indices, indptr = [1, 2, 3, 0, 1], [0, 2, 3, 4, 5]
    arrays: dict[str, Any] = {"format": np.array(b"csr"), "shape": np.array([4, 4]), "data": np.ones(5)}
    arrays |= {"indices": np.array(indices), "indptr": np.array(indptr)}
    arrays |= {"ids": np.arange(4), "values": np.ones((4, 2), np.float32)} if rng.random() < 0.4 else {}
    for _ in range(rng.choice([0, 1, 1, 2])):
        kind = rng.randrange(8)
        if kind == 0:
            arrays["format"] = np.array(rng.choice([b"csc", b"coo", b"dia", b"bsr", b"xyz", b"", "csr", 3]))
        elif kind == 1:
            arrays["shape"] = np.array(rng.choice([(4, 5), (0, 0), (-1, 4), (4,), (2**40, 2**40), 4, (4.5, 4)]))
        elif kind == 2:
            arrays["data"] = np.ones(
                rng.choice([0, 4, 5]), rng.choice(["f4", "i8", "?", "c8", "U3", "O", "M8[s]", "f2"])
            )
        elif kind == 3:
            arrays["indices"] = np.array([rng.choice([0, 3, 4, -1, 2**31, 2**40]) for _ in range(5)])
        elif kind == 4:
            arrays["indptr"] = np.array([rng.choice([0, 1, 3, 5, 9, -1]) for _ in range(5)])
        elif kind == 5:
            arrays[rng.choice(["ids", "values", "row", "parts"])] = np.array(
                rng.choice([[1, 1], [[1.5]], 7, ["a"], []])
            )
        elif kind == 6:
            arrays[rng.choice(["indices", "indptr"])] = np.array(rng.choice([indices, indptr, [0.5], [[0]], ["a"]]))
        else:
            arrays.pop(rng.choice(sorted(arrays)))
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def damaged(content: bytes, rng: Rng) -> bytes:
    """Bytes with a mistake: flipped, cut, doubled, overwritten or replaced."""
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
        for _ in range(rng.randrange(1, 20) if data else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 5:
        del data[at : at + rng.randrange(1, 40)]
    else:
        data = bytearray(rng.choice([b"", b"\0", b"{}", b"[]", b"null", b"PK\x03\x04", b"PAR1", rng.randbytes(64)]))
    return bytes(data)


def other_json(content: bytes, rng: Rng) -> bytes:
    """A JSON text with one value, anywhere inside, of another kind, or one key less."""
    value = json.loads(content)
    node: Any = value
    trail: list[tuple[Any, Any]] = []
    while isinstance(node, dict | list) and node and rng.random() < 0.8:
        key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        trail.append((node, key))
        node = node[key]
    if not trail:
        return json.dumps(json_value(rng)).encode()
    holder, key = trail[-1]
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = json_value(rng)
    return json.dumps(value).encode()


def written(path: Path, content: bytes, rng: Rng) -> Path:
    """A file with this content, every third time damaged, and compressed if its name ends so."""
    content = damaged(content, rng) if rng.random() < 1 / 3 else content
    if path.suffix == ".gz":
        content = gzip.compress(content)
        content = damaged(content, rng) if rng.random() < 0.2 else content
    path.write_bytes(content)
    return path
