"""How the columns of a node table become features: plain values that are saved with a model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dssl.errors import GraphError, nearest

Kind = Literal["number", "flag", "category", "text", "date", "vector", "ignore"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Cycles of a date that become features, with their lengths in seconds.
CYCLES = {"day": 86_400.0, "week": 7 * 86_400.0, "year": 365.2425 * 86_400.0}


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of a table becomes features.

    Args:
        name: name of the column.
        kind: number (standardised), flag (0 or 1), category (one-hot), text (hashed words), date (a number and its
            cycles), vector (unchanged) or ignore (no feature).
        mean: mean of a number or date column when it was fitted, after the logarithm if it is taken.
        std: standard deviation, likewise.
        log: whether log(1 + x) of a number is taken: for long tails.
        missing: whether a feature marks missing values, because the fitted table had some.
        categories: values of a category column, sorted, one feature each.
        length: numbers in each row of a vector column, or hashed words of a text column.
        cycles: cycles of a date column, two features each.
        note: why a column is ignored.
    """

    name: str
    kind: Kind
    mean: float = 0.0
    std: float = 1.0
    log: bool = False
    missing: bool = False
    categories: tuple[str, ...] = ()
    length: int = 1
    cycles: tuple[str, ...] = ()
    note: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the features that the column becomes."""
        if self.kind == "ignore":
            return []
        if self.kind == "category":
            return [f"{self.name}={category}" for category in self.categories]
        if self.kind in ("vector", "text"):
            return [f"{self.name}[{i}]" for i in range(self.length)]
        cycles = [f"{self.name}, {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos")]
        return [self.name, *cycles, *([f"{self.name} is missing"] if self.missing else [])]

    @property
    def summary(self) -> str:
        """The encoding in a few words, for a table of columns."""
        if self.kind == "ignore":
            return f"left out: {self.note}" if self.note else "left out"
        words = {
            "number": "log(1 + x), standardised" if self.log else "standardised",
            "flag": "0 or 1",
            "category": f"{len(self.categories)} categories, one-hot",
            "text": f"words, hashed to {self.length} columns",
            "date": " and ".join(["standardised", *(f"{cycle} cycle" for cycle in self.cycles)]),
            "vector": f"{self.length} numbers, unchanged",
        }[self.kind]
        return words + (", missing values marked" if self.missing else "")


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

    @property
    def tokens(self) -> NDArray[np.bool_]:
        """Whether each feature counts a token (a category or a word) or is a measurement, shape ``(F,)``."""
        return np.array([c.kind in ("category", "text") for c in self.columns for _ in c.names], bool)

    @property
    def ignored(self) -> tuple[Column, ...]:
        """Columns that become no feature."""
        return tuple(column for column in self.columns if column.kind == "ignore")

    def to_json(self) -> dict[str, Any]:
        """Return the encoding as plain values for JSON."""
        lists = ("categories", "cycles")
        return {"columns": [{**asdict(c), **{name: list(getattr(c, name)) for name in lists}} for c in self.columns]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Encoding:
        """Rebuild an encoding from the values of `to_json`."""
        try:
            columns = [
                Column(**{**column, **{name: tuple(column.get(name, ())) for name in ("categories", "cycles")}})
                for column in value["columns"]
            ]
            wrong = next((column.kind for column in columns if column.kind not in KINDS), None)
            if wrong is not None:
                raise TypeError(f"unknown kind {wrong!r}")
            return cls(tuple(columns))
        except (KeyError, TypeError, AttributeError) as error:
            raise GraphError(f"the feature encoding is damaged ({error}); save the model again") from None


def check_kind(name: str, kind: str) -> Kind:
    """Return a kind that a user chose for a column, or refuse it."""
    for known in KINDS:
        if kind == known:
            return known
    raise GraphError(
        f"column {name!r}: {kind!r} is not a type of column; use one of {', '.join(KINDS)}{nearest(kind, KINDS)}"
    )
