"""Edges by time: those before a moment make the graph, and later ones are held out to evaluate link prediction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.data.columns import Columns, numbered
from dssl.errors import GraphError
from dssl.graph.column_fit import is_number, is_text, plain

UNTIL = "85%"  # of the edges, if the user gives no moment
Keep = Callable[[pa.ChunkedArray, int], NDArray[np.bool_]]
_KINDS = (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC"))


@dataclass(frozen=True, slots=True)
class Moment:
    """The first time that is held out.

    Args:
        value: a number, or seconds since 1970.
        words: the time as a user would write it.
        held_out: number of rows from then on.
    """

    value: float
    words: str
    held_out: int


class Times:
    """Reads the column with the time of each edge: numbers, or dates and times.

    Args:
        edges: the edge list.
        name: the column.
    """

    def __init__(self, edges: Columns, name: str) -> None:
        self._edges, self.name = edges, name
        self.numeric: bool | None = None

    def read(self, column: pa.ChunkedArray, row: int) -> NDArray[np.float64]:
        """Return numbers, or seconds since 1970; ``row`` is the number of the first row of the column."""
        values = plain(column, self.name)
        if values.null_count:
            at = row + pc.index(pc.is_null(values), True).as_py()
            raise GraphError(f"{self._where(at)}: the time is missing; fill it in, or remove the edge")
        if is_text(values.type):
            values = self._parsed(values, row)
        numeric = is_number(values.type)
        if not numeric and not (pa.types.is_timestamp(values.type) or pa.types.is_date(values.type)):
            raise GraphError(
                f"{self._edges.title}: the times in column {self.name!r} are of type {values.type}; "
                "turn them into dates or numbers"
            )
        if len(values) and self.numeric not in (None, numeric):
            raise GraphError(f"{self._where(row)}: the column mixes numbers with dates; use one of them")
        self.numeric = numeric if len(values) else self.numeric
        ticks = values if numeric else values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        found: NDArray[np.float64] = ticks.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(~np.isfinite(found))
        if wrong.size:
            raise GraphError(f"{self._where(row + int(wrong[0]))}: the time is not a finite number; correct it")
        return found if numeric else found / 1e6

    def _parsed(self, texts: pa.Array, row: int) -> pa.Array:
        for kind in _KINDS:
            try:
                return texts.cast(kind)
            except pa.ArrowInvalid:
                continue
        bad = next((at for at in range(len(texts)) if not any(_casts(texts[at], kind) for kind in _KINDS[1:])), None)
        if bad is None:
            raise GraphError(f"{self._where(row)}: the column mixes times with and without a zone; use one of them")
        raise GraphError(
            f"{self._where(row + bad)}: {texts[bad].as_py()!r} is not a time; write dates as 2024-03-01 or "
            "2024-03-01 12:30:00, or use numbers"
        )

    def _where(self, row: int) -> str:
        return f"{self._edges.title}, {self._edges.place(row)}, column {self.name!r}"

    def all(self) -> NDArray[np.float64]:
        """Return the time of every edge, shape ``(E,)``."""
        blocks = numbered(self._edges.blocks([], [], [self.name], integers=False))
        return np.concatenate([np.empty(0), *(self.read(block[self.name], row) for row, block in blocks)])

    def moment(self, until: str | None) -> Moment:
        """Return the first time that is held out.

        Args:
            until: a date, a number, or a percentage of the edges.
        """
        times = self.all()
        if not times.size:
            raise GraphError(f"{self._edges.title} holds no edges; give at least one")
        value = self._value(until or UNTIL, times)
        if not (times < value).any():
            raise GraphError(
                f"{self._edges.title}: no edge is before {self._words(value)}; the first is at "
                f"{self._words(times.min())}, the last at {self._words(times.max())}"
            )
        return Moment(value, self._words(value), int((times >= value).sum()))

    def _value(self, until: str, times: NDArray[np.float64]) -> float:
        if share := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", until.strip()):
            part = float(share[1]) / 100
            if not 0 < part < 1:
                raise GraphError(f"until is {until!r}, but a percentage of the edges is between 0% and 100%")
            return float(np.sort(times)[min(int(np.ceil(part * times.size)), times.size - 1)])
        scalar = pa.scalar(until.strip())
        for kind in _KINDS[:1] if self.numeric else _KINDS[1:]:
            if _casts(scalar, kind):
                found = scalar.cast(kind)
                return float(found.as_py() if self.numeric else found.cast(pa.int64()).as_py() / 1e6)
        allowed = "a number" if self.numeric else "a date such as 2024-03-01"
        raise GraphError(
            f"until is {until!r}, but the times in column {self.name!r} need {allowed}, or a percentage such as {UNTIL}"
        )

    def _words(self, value: float) -> str:
        if self.numeric:
            return f"{value:.15g}"
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")

    def before(self, moment: Moment) -> Keep:
        """Return a function that chooses the rows before a moment."""
        return lambda column, row: self.read(column, row) < moment.value

    def after(self, moment: Moment) -> Keep:
        """Return a function that chooses the rows from a moment on."""
        return lambda column, row: self.read(column, row) >= moment.value


def _casts(value: pa.Scalar, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
