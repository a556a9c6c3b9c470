"""Edges -> pairs of positions, block by block: a long list never lies in memory as text, or as 64-bit numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.config.schema import ReadOptions
from dssl.data import standard_input
from dssl.data.columns import Columns, choose_column, numbered, open_columns
from dssl.data.text import SOURCES, TARGETS, NotIntegers, TextColumns
from dssl.errors import GraphError
from dssl.graph.column_fit import is_text
from dssl.graph.features import INTEGER, as_integers
from dssl.graph.kinds import check_names, sorted_kinds

if TYPE_CHECKING:
    from dssl.data.times import Keep
    from dssl.kernels.id_table import IdTable

LARGEST = float(np.finfo(np.float32).max)  # weight
WEIGHTS = ("weight", "weights", "edge_weight", "w")
COLUMN_OPTIONS = ("source_column", "target_column", "weight_column", "kind_column", "time_column")


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """Names of the columns of an edge list; weight, kind and time may be missing."""

    source: str
    target: str
    weight: str | None
    kind: str | None = None
    time: str | None = None


def edge_columns(edges: Columns, options: ReadOptions) -> EdgeColumns:
    """Return the columns that the user names, or else those with a usual name, or else the first ones."""
    source, target, weight = options.source_column, options.target_column, options.weight_column
    kind, time = options.kind_column, options.time_column
    for option in COLUMN_OPTIONS:
        wanted = getattr(options, option)
        if wanted is not None:
            choose_column(edges, wanted, option)
    if len(edges.names) < 2:
        raise GraphError(
            f"{edges.title} has one column ({edges.names[0]!r}); an edge list needs two, source and target"
        )
    source = source or usual_column(edges, SOURCES, taken=(target, weight, kind, time))
    target = target or usual_column(edges, TARGETS, taken=(source, weight, kind, time))
    roles = {"source": source, "target": target, "weight": weight, "kind": kind, "time": time}
    for (one, name), (other, again) in combinations(roles.items(), 2):
        if name is not None and name == again:
            raise GraphError(f"{edges.title}: the column {name!r} cannot be both {one} and {other}; choose another")
    if weight is None:
        nameless = edges.names == ["1", "2", "3"] and (source, target) in (("1", "2"), ("2", "1"))
        free = [name for name in edges.names if name not in (source, target, kind, time)]
        third = "3" if nameless and "3" in free else None
        weight = third or next((name for name in free if name.lower() in WEIGHTS), None)
    return EdgeColumns(source, target, weight, kind, time)


def open_edges(options: ReadOptions) -> Columns:
    """Open the edge list that the options name: a file, or standard input."""
    wanted = [name for option in COLUMN_OPTIONS if (name := getattr(options, option)) is not None]
    if options.source == standard_input.STDIN:
        title = standard_input.TITLE
        copy = standard_input.copied()
        return TextColumns(copy, ".csv", header=options.header, wanted=wanted, edges=True, title=title)
    return open_columns(Path(options.source), header=options.header, wanted=wanted, edges=True)


def usual_column(table: Columns, usual: Sequence[str], *, taken: Sequence[str | None] = ()) -> str:
    """Return the column with a usual name, or else the first that is not taken."""
    free = [name for name in table.names if name not in taken]
    known = {name.lower(): name for name in reversed(free)}
    return next((known[name] for name in usual if name in known), free[0] if free else table.names[0])


@dataclass(frozen=True, slots=True)
class Links:
    """Edges as positions.

    Args:
        ids: the node ids; none if there are neither edges nor a node table.
        source: start of each edge, shape ``(E,)``.
        target: end of each edge, shape ``(E,)``.
        weights: weight of each edge, shape ``(E,)``, or none.
        kinds: code of the kind of each edge, −1 where it is missing, shape ``(E,)``, or none.
        kind_names: name of each code, or none.
    """

    ids: pa.Array | None
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weights: NDArray[np.float32] | None
    kinds: NDArray[np.int32] | None = None
    kind_names: tuple[str, ...] | None = None


def read_links(
    edges: Columns,
    columns: EdgeColumns,
    known: pa.Array | None = None,
    nodes: str = "",
    *,
    trim: bool = False,
    keep: Keep | None = None,
) -> Links:
    """Read edges as positions.

    Args:
        edges: the edge list.
        columns: its columns.
        known: ids of the node table; every other id is refused. Without it, ids are numbered in ascending order.
        nodes: what messages call the node table.
        trim: whether spaces around ids are removed.
        keep: chooses rows by the column of times and the number of its first row; by default all are read.
    """
    read = partial(_stream, edges, columns, known, nodes, keep, trim=trim)
    if trim or (known is not None and known.type == pa.string()):
        return read(integers=False)
    try:
        return read(integers=True)
    except NotIntegers:
        if known is not None:
            _refuse_text(edges, columns, nodes)
        return read(integers=False)


def _stream(
    edges: Columns,
    columns: EdgeColumns,
    known: pa.Array | None,
    nodes: str,
    keep: Keep | None,
    *,
    integers: bool,
    trim: bool,
) -> Links:
    ends = (columns.source, columns.target)
    positions = {name: _Growing(np.int32) for name in ends}
    weights, kinds = _Growing(np.float32), _Kinds(f"{edges.title}, column {columns.kind!r}")
    table: IdTable | None = None if known is None else table_of(known.type, known)
    kind = None if known is None else known.type
    numbers = [] if columns.weight is None else [columns.weight]
    texts = [name for name in (columns.kind, None if keep is None else columns.time) if name is not None]
    for row, block in numbered(edges.blocks(ends, numbers, texts, integers=integers)):
        chosen = None if keep is None else keep(block[columns.time], row)
        for name in ends:
            column = trimmed(block[name]) if trim else block[name]
            refuse_missing(edges, column, name, row)
            at = row
            for read in id_chunks(edges, column, name):
                chunk = as_integers(read) if trim and kind == pa.int64() and is_text(read.type) else read
                if table is None:
                    kind = chunk.type
                    table = table_of(kind)
                if chunk.type != kind:
                    _refuse_type(edges, name, chunk, nodes if known is not None else f"column {columns.source!r}")
                part = None if chosen is None else chosen[at - row : at - row + len(chunk)]
                found = table.add(chunk if part is None else chunk.filter(pa.array(part)))
                if known is not None and len(table) > len(known):
                    first = int(np.flatnonzero(found >= len(known))[0])
                    first = first if part is None else int(np.flatnonzero(part)[first])
                    _refuse_unknown(edges, chunk[first].as_py(), at + first, nodes)
                positions[name].extend(found)
                at += len(chunk)
        if columns.weight is not None:
            strength = _checked_weights(edges, block[columns.weight], columns.weight, row)
            weights.extend(strength if chosen is None else strength[chosen])
        if columns.kind is not None:
            kinds.extend(block[columns.kind] if chosen is None else block[columns.kind].filter(pa.array(chosen)))
    source, target = (positions[name].finish() for name in ends)
    strengths = None if columns.weight is None else weights.finish()
    codes, names = (None, None) if columns.kind is None else kinds.finish()
    if known is not None or table is None:
        return Links(known, source, target, strengths, codes, names)
    found_ids = table.ids()
    ids, rank = _sorted(as_integers(found_ids) if trim and is_text(found_ids.type) else found_ids)
    del table
    for end in (source, target):
        _renumber(end, rank)
    return Links(ids, source, target, strengths, codes, names)


def counted(links: Links, title: str) -> Links:
    """Return edges of weight 1, which add up where an edge is repeated."""
    if links.weights is not None:
        raise GraphError(f"{title} has weights, which add up already; leave out count_edges, or the weight column")
    return replace(links, weights=np.ones(links.source.size, np.float32))


class _Growing:
    """An array that grows at its end; the memory is moved by the system, not copied, where the system can do that."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._array: NDArray[Any] = np.empty(1 << 16, dtype)
        self._size = 0

    def extend(self, values: NDArray[Any]) -> None:
        end = self._size + values.size
        if end > self._array.size:
            self._array.resize(max(end, self._array.size * 3 // 2), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def finish(self) -> NDArray[Any]:
        self._array.resize(self._size, refcheck=False)
        return self._array


class _Kinds:
    """The kinds of the edges, as codes in the order in which they occur.

    Args:
        title: start of an error message.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._codes = _Growing(np.int32)
        self._code: dict[str, int] = {}

    def extend(self, column: pa.ChunkedArray) -> None:
        kind = _plain_type(column.type)
        if pa.types.is_nested(kind):
            raise GraphError(f"{self._title}: kinds are of type {kind}; turn them into text")
        for chunk in column.cast(kind).cast(pa.string()).dictionary_encode().chunks:
            names = chunk.dictionary.to_pylist()
            codes = np.array([self._code.setdefault(name, len(self._code)) if name else -1 for name in names] + [-1])
            self._codes.extend(codes[chunk.indices.fill_null(len(names)).to_numpy()])
            if self._code:
                check_names(tuple(self._code), self._title)

    def finish(self) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """Return the codes in the order of the names."""
        check_names(tuple(self._code), self._title)
        return sorted_kinds(self._codes.finish(), tuple(self._code))


def table_of(kind: pa.DataType, ids: pa.Array | None = None) -> IdTable:
    """Return a table for ids of a type, with the given ones in it."""
    from dssl.kernels.id_table import IntegerTable, TextTable  # Numba takes long to import: only once ids are read

    table = IntegerTable() if kind == pa.int64() else TextTable()
    if ids is not None:
        table.add(ids)
    return table


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def id_chunks(source: Columns, column: pa.ChunkedArray, name: str) -> Iterator[pa.Array]:
    """The parts of a column of ids, each int64 or string."""
    kind = _plain_type(column.type)
    if not pa.types.is_integer(kind) and not is_text(kind):
        raise GraphError(
            f"{source.title}: the ids in column {name!r} are of type {kind}; turn them into integers or text"
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    if source.typed and is_text(kind):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise GraphError(
                f"{source.title}: an id in column {name!r} is not UTF-8 text; write the file again as UTF-8"
            ) from None
    try:
        yield from column.cast(pa.int64() if pa.types.is_integer(kind) else pa.string()).chunks
    except pa.ArrowInvalid:
        raise GraphError(f"{source.title}: an id in column {name!r} is 2**63 or more; turn the ids into text") from None


def trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of ids without spaces around text; an id of spaces alone is missing."""
    kind = _plain_type(column.type)
    if not is_text(kind):
        return column
    text = pc.utf8_trim_whitespace(column.cast(kind))
    return pc.if_else(pc.equal(text, ""), None, text)


def refuse_missing(source: Columns, column: pa.ChunkedArray, name: str, row: int) -> None:
    """Refuse a missing id; ``row`` is the number of the first row of the column."""
    if column.null_count:
        at = row + pc.index(pc.is_null(column), True).as_py()
        raise GraphError(f"{source.title}, {source.place(at)}, column {name!r}: the id is missing; fill it in")


def _refuse_type(edges: Columns, name: str, chunk: pa.Array, others: str) -> NoReturn:
    here, there = ("text", "integers") if chunk.type == pa.string() else ("integers", "text")
    raise GraphError(
        f"{edges.title}: the ids in column {name!r} are {here} (such as {chunk[0].as_py()!r}), but those in {others} "
        f"are {there}; use one type"
    )


def _refuse_text(edges: Columns, columns: EdgeColumns, nodes: str) -> None:
    """Name the first id that is not written as an integer, where the node table has integers only."""
    ends = (columns.source, columns.target)
    for row, block in numbered(edges.blocks(ends, [], integers=False)):
        odd = {name: pc.index(pc.match_substring_regex(block[name], INTEGER), False).as_py() for name in ends}
        name = min(ends, key=lambda name: odd[name] if odd[name] >= 0 else block.num_rows)
        if odd[name] >= 0:
            _refuse_unknown(edges, block[name][odd[name]].as_py(), row + odd[name], f"{nodes}, which has integers only")


def _refuse_unknown(edges: Columns, value: object, row: int, nodes: str) -> NoReturn:
    raise GraphError(
        f"{edges.title}, {edges.place(row)}: the node {value!r} is not in {nodes}; add it there, or remove the edge"
    )


def _checked_weights(edges: Columns, column: pa.ChunkedArray, name: str, row: int) -> NDArray[np.float32]:
    try:
        if is_text(column.type) or pa.types.is_boolean(column.type):
            raise pa.ArrowInvalid
        values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise GraphError(
            f"{edges.title}: the weights in column {name!r} are of type {column.type}; turn them into numbers"
        ) from None
    if values.size and not (values.min() >= 0 and values.max() <= LARGEST):  # false for NaN, as a missing value is too
        at = row + int(np.flatnonzero(~((values >= 0) & (values <= LARGEST)))[0])
        raise GraphError(
            f"{edges.title}, {edges.place(at)}, column {name!r}: the weight {edges.shown(at, name)} is not allowed; "
            "weights are finite numbers of single precision, not negative"
        )
    return values.astype(np.float32)


def _sorted(ids: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return the ids in ascending order, and where each of the given ones is now."""
    order = np.argsort(ids.to_numpy()) if ids.type == pa.int64() else pc.array_sort_indices(ids).to_numpy()
    rank = np.empty(len(ids), np.int32)
    rank[order] = np.arange(len(ids), dtype=np.int32)
    return ids.take(pa.array(order)), rank


def _renumber(codes: NDArray[np.int32], rank: NDArray[np.int32]) -> None:
    for begin in range(0, codes.size, 1 << 20):  # in place
        part = codes[begin : begin + (1 << 20)]
        np.take(rank, part, out=part, mode="clip")  # without the check of each position, all of which are good


def has_text_ids(edges: Columns, columns: EdgeColumns) -> bool:
    """Whether the edges are typed and their ids are text: then ids of a text node table are too."""
    if not edges.typed:
        return False
    block = next(edges.blocks([columns.source], [], integers=True), None)
    return block is not None and is_text(_plain_type(block[columns.source].type))
