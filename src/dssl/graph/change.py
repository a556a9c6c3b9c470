"""One change to a graph, as its history records it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One change to a graph while it was read or prepared.

    Args:
        what: in the words of a report, such as ``self loops removed``.
        count: number of edges, or columns, that it concerned.
    """

    what: str
    count: int

    def __str__(self) -> str:
        return f"{self.count:,} {self.what}"
