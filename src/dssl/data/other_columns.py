"""Columns that may have another role than they get, each with the option that gives it to them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dssl.data.columns import Columns
from dssl.data.edge_list import EdgeColumns
from dssl.errors import GraphError
from dssl.graph import Change
from dssl.graph.column_fit import is_text, kind_of, plain

SAMPLE = 1000  # rows that decide the role of a column
MOST_SHOWN = 5
FEW_CLASSES = 20  # different values of a column up to which it may be the label
MARKS = ("na", "n/a", "nan", "null", "none", "-", "?", ".", "missing", "unknown")  # of missing numbers
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
    return (Change(f"edge column{'' if len(rest) == 1 else 's'} left out: {listed}", len(rest)),)


def possible_labels(table: pa.Table, names: Sequence[str]) -> tuple[Change, ...]:
    """Return a note for each feature column that may be the label: few different values, most rows without one."""
    found = []
    for name in names:
        if name not in table.column_names or pa.types.is_nested(table[name].type) or pa.types.is_null(table[name].type):
            continue
        values = plain(table[name], name)
        values = pc.if_else(pc.equal(values, ""), None, values) if is_text(values.type) else values
        if 2 * values.null_count > len(values) and 2 <= len(values.drop_null().unique()) <= FEW_CLASSES:
            option = f"--label-column {shlex.quote(name)}"
            found.append(Change(f"feature column may be the label: {name!r} ({option})", 1))
    return tuple(found)


def other_labels(names: Sequence[str]) -> tuple[Change, ...]:
    """Return a note for a feature column named label, where another column has the labels."""
    text = "feature column may be a label: {!r} (--feature-columns without it)"
    return tuple(Change(text.format(name), 1) for name in names if name.lower() == "label")


def possible_types(table: pa.Table, names: Sequence[str]) -> tuple[Change, ...]:
    """Return a note for each text column of dates, or of numbers and marks such as ?, by its first rows.

    pandas reads dates from CSV as text. Marks such as NA are empty cells in a CSV file, but others are not.
    """
    found = []
    for name in names:
        values = plain(table[name].slice(0, SAMPLE), name) if name in table.column_names else pa.nulls(0)
        if not is_text(values.type):
            continue
        known = pc.if_else(pc.equal(values, ""), None, values).drop_null()
        marked = pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(known)), pa.array(MARKS, known.type))
        if _role(known) == "time":
            option = f"--column {shlex.quote(name)}=date"
            found.append(Change(f"text column may hold dates: {name!r} ({option})", 1))
        elif pc.any(marked).as_py() and _role(known.filter(pc.invert(marked))) == "weight":
            mark = known.filter(marked)[0].as_py()
            found.append(Change(f"text column may hold numbers: {name!r} (leave cells empty in place of {mark!r})", 1))
    return tuple(found)


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
