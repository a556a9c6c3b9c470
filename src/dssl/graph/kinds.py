"""Kinds of links: names and codes, and the kinds of given pairs of nodes.

A graph may have a kind on each link, such as *call* or *import*. Kinds are for evaluation and for the names of
factors. Training ignores them unless ``teach = "kinds"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import GraphError
from dssl.graph.change import Change

if TYPE_CHECKING:
    from dssl.graph.graph import Graph

Codes = NDArray[np.int32]

MOST = 256  # different kinds; more values are ids or numbers, not kinds


def kind_codes(values: Sequence[Any], title: str) -> tuple[Codes, tuple[str, ...]]:
    """Return the code of each value, −1 where it is missing (None, NaN or an empty text), and the sorted names.

    Args:
        values: a kind per edge: texts or integers.
        title: start of an error message.

    >>> kind_codes(["call", None, "import", "call"], "edges")
    (array([ 0, -1,  1,  0], dtype=int32), ('call', 'import'))
    """
    known = {value: None if value is None or value != value or value == "" else str(value) for value in set(values)}
    names = tuple({name for name in known.values() if name is not None})
    check_names(names, title)
    code = {name: number for number, name in enumerate(names)}
    codes = {value: -1 if name is None else code[name] for value, name in known.items()}
    return sorted_kinds(np.fromiter((codes[value] for value in values), np.int32, len(values)), names)


def sorted_kinds(codes: Codes, names: tuple[str, ...]) -> tuple[Codes, tuple[str, ...]]:
    """Return the codes and the names with the names in order: numbers by their size, then texts.

    >>> sorted_kinds(np.array([0, -1, 1], np.int32), ("10", "9"))
    (array([ 1, -1,  0], dtype=int32), ('9', '10'))
    """
    order = sorted(range(len(names)), key=lambda code: _numbers_first(names[code]))
    rank = np.append(np.argsort(order), -1).astype(np.int32)  # the last is the rank of −1
    return rank[codes], tuple(names[code] for code in order)


def check_names(names: Sequence[str], title: str) -> None:
    """Refuse an empty list of kinds, and one that is too long to be kinds."""
    if not names:
        raise GraphError(f"{title}: no edge has a kind; give some, or leave the kinds out")
    if len(names) > MOST:
        raise GraphError(
            f"{title}: {len(names):,} different kinds, such as {names[0]!r} and {names[1]!r}; a kind is one of at most "
            f"{MOST} categories"
        )


def _numbers_first(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() else (1 << 62, name)


def as_kinds(kinds: ArrayLike, names: Sequence[str] | None, edges: int, title: str) -> tuple[Codes, tuple[str, ...]]:
    """Return checked codes and names of kinds, as `Graph.from_edges` takes them.

    Args:
        kinds: code of each edge, −1 where it is unknown; or, without names, any values (see `kind_codes`).
        names: name of each code, or none.
        edges: number of edges.
        title: start of an error message.
    """
    values = np.asarray(kinds)
    if values.shape != (edges,):
        raise GraphError(f"{title}: kinds of shape {values.shape} for {edges} edges; give one per edge")
    if names is None:
        return kind_codes(values.tolist(), title)
    check_names(names, title)
    if values.size and (not np.issubdtype(values.dtype, np.integer) or values.min() < -1 or values.max() >= len(names)):
        raise GraphError(f"{title}: a code of a kind is outside the {len(names)} names; −1 is unknown")
    return values.astype(np.int32), tuple(names)


def check_kinds(graph: Graph) -> None:
    """Refuse kinds that do not fit the links of a graph."""
    if graph.kinds is None:
        return
    if graph.kind_names is None or graph.kinds.shape != graph.indices.shape:
        raise GraphError(f"graph {graph.name!r}: {graph.kinds.size} kinds for {graph.indices.size} links, with names")
    if graph.kinds.size and (graph.kinds.min() < -1 or graph.kinds.max() >= len(graph.kind_names)):
        raise GraphError(f"graph {graph.name!r}: a kind is outside the {len(graph.kind_names)} names of kinds")


def kinds_of_arcs(
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    codes: Codes,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    history: list[Change],
    *,
    both: bool,
) -> Codes:
    """Return the kind of each arc from those of edges; edges whose kind was not kept are added to the history.

    Args:
        source: position of the start of each edge, shape ``(E,)``.
        target: position of its end, shape ``(E,)``.
        codes: its kind, −1 where unknown, shape ``(E,)``.
        indptr: row pointers of the arcs.
        indices: their ends, shape ``(A,)``.
        history: changes to the graph so far.
        both: whether an edge gives its kind to both directions.
    """
    from dssl.kernels.arcs import first_kinds

    kinds, differing = first_kinds(indptr, indices, source, target, codes, both)
    if differing:
        history.append(Change("repeated edges of another kind, of which the first kind was kept", differing))
    return kinds


def given_arcs(graph: Graph, source: NDArray[Any], target: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the arcs from ``source`` to ``target``, and of those the other way; −1 where none is."""
    from dssl.kernels.arcs import places

    start, end = np.asarray(source, np.int64), np.asarray(target, np.int64)
    return places(graph.indptr, graph.indices, start, end), places(graph.indptr, graph.indices, end, start)
