"""Columns of an edge list that are not read, each with the option that would read it."""

from __future__ import annotations

import pyarrow as pa

from dssl.data.columns import Columns
from dssl.data.edge_list import EdgeColumns
from dssl.errors import GraphError
from dssl.graph import Change
from dssl.graph.column_fit import is_text, kind_of, plain

SAMPLE = 1000  # rows that decide the role of a column
MOST_SHOWN = 5
FEW = 50  # different values of a sample up to which a column may be the kind of edges


def unused_columns(edges: Columns, columns: EdgeColumns) -> tuple[Change, ...]:
    """Return a note about columns of the edge list that are not read: weights, times or kinds, by their first rows."""
    used = (columns.source, columns.target, columns.weight, columns.kind, columns.time)
    rest = [name for name in edges.names if name not in used]
    if not rest:
        return ()
    try:
        block = next(edges.blocks([], [], rest[:MOST_SHOWN], integers=False), None)
    except GraphError:  # a line that cannot be read, but none of its values is needed
        block = None
    free = {"weight": columns.weight is None, "time": columns.time is None, "kind": columns.kind is None}
    shown = []
    for name in rest[:MOST_SHOWN]:
        role = "" if block is None else _role(plain(block[name].slice(0, SAMPLE), name))
        shown.append(f"{name!r} (--{role}-column)" if free.get(role) else repr(name))
    listed = ", ".join(shown) + (", …" if len(rest) > MOST_SHOWN else "")
    return (Change(f"edge columns left out: {listed}", len(rest)),)


def _role(values: pa.Array) -> str:
    """The possible role of a column: weight, time, kind, or none."""
    known = values.drop_null()
    if not len(known):
        return ""
    found = kind_of(known)
    for role, kind in (("weight", pa.float64()), ("time", pa.timestamp("us")), ("time", pa.timestamp("us", "UTC"))):
        if is_text(known.type):
            try:
                known.cast(kind)
            except pa.ArrowInvalid:
                continue
            return role
    if is_text(known.type):
        return "kind" if len(known.unique()) <= min(FEW, max(len(known) // 2, 2)) else ""
    return {"number": "weight", "date": "time", "flag": "kind"}.get(found or "", "")
