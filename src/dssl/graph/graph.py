"""The one immutable `Graph` value that every stage shares: ids, links in CSR, features, labels, and its history.

Positions (0 … N−1) are internal. The user's ids, strings or integers, stay with the graph from the file to the
output. Nothing is repaired silently: each change to the links is a step in ``history``.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph.arrays import as_classes, as_features, as_positions, as_weights, refuse_bad_weights
from dssl.graph.change import Change
from dssl.graph.encoding import Encoding
from dssl.graph.ids import as_ids, id_bytes
from dssl.graph.kinds import as_kinds, check_kinds, kinds_of_arcs
from dssl.runtime import notebook, out_of_core

SelfLoops = Literal["remove", "keep"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Graph:
    """A graph with N nodes whose rows of neighbours are stored as CSR.

    Build one with `from_edges`, or with `dssl.load` and the converters; the constructor checks the parts.

    Args:
        indptr: row pointers, int64, shape ``(N+1,)``.
        indices: neighbours of each node, ascending and without repeats in a row, int32, shape ``(A,)``. An
            undirected graph holds both directions of each link.
        weights: positive weight of each arc, float32, shape ``(A,)``, or none.
        directed: whether the direction of links is kept; if not, the rows are symmetric.
        ids: the user's node ids, int64 or string, unique, shape ``(N,)``.
        x: features, float32, dense or CSR, shape ``(N, F)``, or none.
        feature_names: a name for each column of ``x``, or none.
        y: class of each node, int64, −1 where unknown, shape ``(N,)``, or none.
        class_names: a name for each class, or none.
        kinds: kind of each arc, int32, −1 where unknown, shape ``(A,)``, or none. Training ignores it unless asked.
        kind_names: a name for each kind, or none.
        encoding: how the columns of a node table became ``x``, to encode next week's table in the same way, or none.
        name: what reports call the graph.
        history: steps applied to the links since they were read.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    ids: pa.Array
    weights: NDArray[np.float32] | None = None
    directed: bool = False
    x: NDArray[np.float32] | sparse.csr_array | None = None
    feature_names: tuple[str, ...] | None = None
    y: NDArray[np.int64] | None = None
    class_names: tuple[str, ...] | None = None
    kinds: NDArray[np.int32] | None = None
    kind_names: tuple[str, ...] | None = None
    encoding: Encoding | None = None
    name: str = "graph"
    history: tuple[Change, ...] = ()

    def __post_init__(self) -> None:
        n = self.indptr.shape[0] - 1
        if n < 1:
            raise GraphError(f"graph {self.name!r} has no nodes; give at least one edge or a node table")
        if self.indptr[0] != 0 or self.indptr[-1] != self.indices.shape[0]:
            raise GraphError(f"graph {self.name!r}: the row pointers do not fit {self.indices.shape[0]} neighbours")
        if self.indices.size and (self.indices.min() < 0 or self.indices.max() >= n):
            raise GraphError(f"graph {self.name!r}: a neighbour is outside the {n} nodes")
        if len(self.ids) != n:
            raise GraphError(f"graph {self.name!r}: {len(self.ids)} ids for {n} nodes; give one id per node")
        self._check_weights()
        self._check_features(n)
        self._check_labels(n)
        check_kinds(self)
        for array in (self.indptr, self.indices, self.weights, self.y, self.kinds, *_parts(self.x)):
            if array is not None:
                array.flags.writeable = False

    def _check_weights(self) -> None:
        if self.weights is None:
            return
        if self.weights.shape != self.indices.shape:
            raise GraphError(f"graph {self.name!r}: {self.weights.size} weights for {self.indices.size} links")
        refuse_bad_weights(self.weights, self.name)

    def _check_features(self, n: int) -> None:
        if self.x is None:
            return
        if self.x.ndim != 2 or self.x.shape[0] != n:
            raise GraphError(
                f"graph {self.name!r}: features of shape {self.x.shape}; give one row for each of the {n} nodes"
            )
        if self.feature_names is not None and len(self.feature_names) != self.x.shape[1]:
            raise GraphError(
                f"graph {self.name!r}: {len(self.feature_names)} feature names for {self.x.shape[1]} columns"
            )
        values = self.x.data[:, None] if isinstance(self.x, sparse.csr_array) else self.x
        if not all(np.isfinite(block).all() for _, block in out_of_core.blocks(values)):
            row, column = self._first_not_finite()
            column_name = self.feature_names[column] if self.feature_names else str(column)
            raise GraphError(
                f"graph {self.name!r}: feature {column_name!r} of node {self.ids[row].as_py()!r} is NaN or infinite; "
                "fill in or drop such values first"
            )

    def _first_not_finite(self) -> tuple[int, int]:
        if isinstance(self.x, sparse.csr_array):
            at = int(np.flatnonzero(~np.isfinite(self.x.data))[0])
            return int(np.searchsorted(self.x.indptr, at, side="right") - 1), int(self.x.indices[at])
        row, column = np.argwhere(~np.isfinite(np.asarray(self.x)))[0]
        return int(row), int(column)

    def _check_labels(self, n: int) -> None:
        if self.y is None:
            return
        if self.y.shape != (n,):
            raise GraphError(f"graph {self.name!r}: labels of shape {self.y.shape} for {n} nodes; give one per node")
        if self.y.min() < -1:
            raise GraphError(f"graph {self.name!r}: a label is {self.y.min()}; classes are 0, 1, …, and −1 is unknown")
        if self.class_names is not None and self.y.max() >= len(self.class_names):
            raise GraphError(
                f"graph {self.name!r}: label {self.y.max()} is outside the {len(self.class_names)} class names"
            )

    @classmethod
    def from_edges(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        *,
        num_nodes: int | None = None,
        weights: ArrayLike | None = None,
        directed: bool = False,
        self_loops: SelfLoops = "remove",
        ids: pa.Array | Sequence[int] | Sequence[str] | NDArray[Any] | None = None,
        x: ArrayLike | sparse.sparray | sparse.spmatrix | None = None,
        feature_names: Sequence[str] | None = None,
        y: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        kinds: ArrayLike | None = None,
        kind_names: Sequence[str] | None = None,
        encoding: Encoding | None = None,
        name: str = "graph",
    ) -> Graph:
        """Build a graph from pairs of positions.

        Repeated edges are merged: their weights are added, and the first known kind is kept. This and the removal of
        self loops go to ``history``.

        Args:
            source: position of the start of each edge, shape ``(E,)``.
            target: position of the end of each edge, shape ``(E,)``.
            num_nodes: number of nodes; without it, as many as ids, feature rows, labels or positions call for.
            weights: weight of each edge, shape ``(E,)``.
            directed: keep the direction; otherwise each edge counts both ways.
            self_loops: whether edges from a node to itself are removed or kept.
            ids: the user's ids, unique, shape ``(N,)``; without them 0 … N−1.
            x: features, shape ``(N, F)``, dense or SciPy sparse.
            feature_names: a name for each feature column.
            y: class of each node, −1 where unknown, shape ``(N,)``.
            class_names: a name for each class.
            kinds: kind of each edge, shape ``(E,)``: codes if there are names, −1 where unknown, and else any values.
            kind_names: a name for each code of a kind.
            encoding: how the columns of a node table became ``x``.
            name: what reports call the graph.

        >>> g = Graph.from_edges([0, 1, 1, 2], [1, 0, 1, 2], num_nodes=4)
        >>> g.num_edges, [str(change) for change in g.history]
        (1, ['2 self loops removed', '1 repeated edges merged'])
        """
        start, end = as_positions(source, name), as_positions(target, name)
        if start.shape != end.shape:
            raise GraphError(f"graph {name!r}: {start.size} sources for {end.size} targets; give as many of both")
        strengths = None if weights is None else as_weights(weights, name)
        if strengths is not None and strengths.shape != start.shape:
            raise GraphError(f"graph {name!r}: {strengths.size} weights for {start.size} edges; give one per edge")
        codes, kind_names = (
            (None, None) if kinds is None else as_kinds(kinds, kind_names, start.size, f"graph {name!r}")
        )
        features = as_features(x, name)
        if strengths is not None:
            refuse_bad_weights(strengths, name)  # before repeated edges are added up, which would hide them
        classes = None if y is None else as_classes(y, name)
        keys = None if ids is None else as_ids(ids, name)
        for part in (keys, features, classes):
            if num_nodes is None and part is not None:
                num_nodes = len(part) if not hasattr(part, "shape") else part.shape[0]
        if num_nodes is not None and (isinstance(num_nodes, bool) or not isinstance(num_nodes, int | np.integer)):
            raise GraphError(f"graph {name!r}: num_nodes is {num_nodes!r}; give a whole number")
        top = int(max(start.max(), end.max())) + 1 if start.size else 0
        if num_nodes is None:
            num_nodes = top
        if top > num_nodes:
            raise GraphError(f"graph {name!r}: an edge names position {top - 1}, but there are {num_nodes} nodes")
        history = []
        loops = int((start == end).sum())
        keep_loops = self_loops == "keep"
        if loops and not keep_loops:
            history.append(Change("self loops removed", loops))
        indptr, indices, merged = _rows(start, end, strengths, num_nodes, both=not directed, loops=keep_loops)
        given = start.size if keep_loops else start.size - loops
        kept = indices.size
        if not directed:
            kept = (kept + (_count_loops(indptr, indices) if loops and keep_loops else 0)) // 2
        if given > kept:
            history.append(Change("repeated edges merged", given - kept))
        if codes is not None:
            codes = kinds_of_arcs(start, end, codes, indptr, indices, history, both=not directed)
        return cls(
            indptr=indptr,
            indices=indices,
            weights=merged,
            directed=directed,
            ids=pa.array(np.arange(num_nodes, dtype=np.int64)) if keys is None else keys,
            x=features,
            feature_names=None if feature_names is None else tuple(feature_names),
            y=classes,
            class_names=None if class_names is None else tuple(class_names),
            kinds=codes,
            kind_names=None if kind_names is None else tuple(kind_names),
            encoding=encoding,
            name=name,
            history=tuple(history),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes N."""
        return int(self.indptr.shape[0]) - 1

    @property
    def num_arcs(self) -> int:
        """Number of stored neighbours: an undirected link between two nodes counts twice."""
        return int(self.indices.shape[0])

    @property
    def num_self_loops(self) -> int:
        """Number of links from a node to itself."""
        return _count_loops(self.indptr, self.indices)

    @property
    def num_edges(self) -> int:
        """Number of links as a user counts them: an undirected link counts once."""
        return self.num_arcs if self.directed else (self.num_arcs + self.num_self_loops) // 2

    @property
    def num_features(self) -> int:
        """Number of feature columns F, 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        """Number of classes, 0 without labels."""
        if self.class_names is not None:
            return len(self.class_names)
        return 0 if self.y is None else int(self.y.max(initial=-1)) + 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node (out-neighbours in a directed graph), shape ``(N,)``."""
        return np.diff(self.indptr)

    def sources(self) -> NDArray[np.int32]:
        """Start of each arc, shape ``(A,)``; ``indices`` is its end."""
        return np.repeat(np.arange(self.num_nodes, dtype=np.int32), self.degrees)

    def row_blocks(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Start and end of the arcs, by ranges of rows: an array as long as the links would be large."""
        return _row_blocks(self.indptr, self.indices)

    def adjacency(self) -> sparse.csr_array:
        """The adjacency matrix as a SciPy CSR array of float32, shape ``(N, N)``, weighted if the graph is."""
        values = np.ones(self.num_arcs, np.float32) if self.weights is None else self.weights
        return sparse.csr_array((values, self.indices, self.indptr), shape=(self.num_nodes, self.num_nodes))

    def without_self_loops(self) -> Graph:
        """The same graph without self loops; the step is recorded."""
        if not self.num_self_loops:
            return self
        start = self.sources()
        keep = start != self.indices
        weights = None if self.weights is None else self.weights[keep]
        indptr, indices, weights = _rows(start[keep], self.indices[keep], weights, self.num_nodes, both=False)
        kinds = None if self.kinds is None else self.kinds[keep]
        history = (*self.history, Change("self loops removed", int((~keep).sum())))
        return self.replace(indptr=indptr, indices=indices, weights=weights, kinds=kinds, history=history)

    def undirected(self) -> Graph:
        """The same graph with each link in both directions; the step is recorded.

        The weights of a pair of opposite arcs are added, and the first of their kinds is kept.
        """
        if not self.directed:
            return self
        arcs = self.sources(), self.indices
        indptr, indices, weights = _rows(*arcs, self.weights, self.num_nodes, both=True)
        history = [*self.history, Change("arcs added to make the links undirected", indices.size - self.num_arcs)]
        kinds = None if self.kinds is None else kinds_of_arcs(*arcs, self.kinds, indptr, indices, history, both=True)
        changes: dict[str, Any] = {"weights": weights, "kinds": kinds, "history": tuple(history)}
        return self.replace(indptr=indptr, indices=indices, directed=False, **changes)

    def replace(self, **changes: Any) -> Graph:
        """Return a copy with some fields changed, checked again; features become float32, new links have no kinds."""
        x = changes.get("x")
        if "indices" in changes:
            changes.setdefault("kinds", None)
        if isinstance(x, np.ndarray) and x.dtype != np.float32:
            changes["x"] = as_features(x, self.name)
        return dataclasses.replace(self, **changes)

    def positions(self, ids: pa.Array | Sequence[int] | Sequence[str]) -> NDArray[np.int64]:
        """Positions of the given ids; an unknown id is an error that names it."""
        wanted = as_ids(ids, self.name, unique=False)
        if len(wanted) and wanted.type != self.ids.type:
            given, own = ("text", "integers") if wanted.type == pa.string() else ("integers", "text")
            raise GraphError(f"graph {self.name!r}: its node ids are {own}, not {given} such as {wanted[0].as_py()!r}")
        found = pc.index_in(wanted.cast(self.ids.type), value_set=self.ids)
        if found.null_count:
            missing = wanted.filter(pc.is_null(found))[0].as_py()
            raise GraphError(f"graph {self.name!r} has no node with the id {missing!r}")
        return np.asarray(found.to_numpy(), dtype=np.int64)

    def fingerprint(self) -> str:
        """A hash of ids, links, kinds, features and labels: the same for the same graph on any machine."""
        state = hashlib.blake2b(digest_size=16)
        state.update(f"{self.directed}|{self.ids.type}|{self.num_features}".encode())
        for array in (self.indptr, self.indices, self.weights, self.y, *_parts(self.x)):
            if array is not None and array is not self.indices and array.dtype == np.int32:
                array = array.astype(np.int64)  # SciPy's choice for the rows of sparse features
            if array is None:
                state.update(b"-")
                continue
            for _, block in out_of_core.blocks(array):
                state.update(np.ascontiguousarray(block).data)
        kinds = [] if self.kinds is None else [self.kinds, *id_bytes(pa.array(self.kind_names))]
        for array in (*id_bytes(self.ids), *kinds):
            state.update(np.ascontiguousarray(array).data)
        return state.hexdigest()

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {self.num_nodes:,} nodes, {self.num_edges:,} {_direction(self)} edges, "
            f"{self.num_features:,} features, {self.num_classes} classes)"
        )

    def _repr_html_(self) -> str:
        rows = {"nodes": f"{self.num_nodes:,}", "edges": f"{self.num_edges:,}, {_direction(self)}"}
        rows |= {"features": f"{self.num_features:,}", "classes": f"{self.num_classes:,}"}
        rows |= {"ids": ", ".join(map(str, [*self.ids[:3].to_pylist(), "…"]))}
        return notebook.pairs(
            f"Graph {self.name}", rows | {"history": "; ".join(map(str, self.history)) or "unchanged"}
        )


def _direction(graph: Graph) -> str:
    return "directed" if graph.directed else "undirected"


def _rows(
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    weights: NDArray[np.float32] | None,
    num_nodes: int,
    *,
    both: bool,
    loops: bool = True,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None]:
    from dssl.kernels.csr import rows_from_arcs  # Numba takes long to import: only once links are built

    return rows_from_arcs(source, target, weights, num_nodes, both=both, loops=loops)


def _row_blocks(
    indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    for low in range(0, indptr.shape[0] - 1, 1 << 16):
        part = indptr[low : low + (1 << 16) + 1]
        rows = np.repeat(np.arange(low, low + part.size - 1, dtype=np.int32), np.diff(part))
        yield rows, indices[part[0] : part[-1]]


def _count_loops(indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> int:
    return sum(int((start == end).sum()) for start, end in _row_blocks(indptr, indices))


def _parts(x: NDArray[np.float32] | sparse.csr_array | None) -> tuple[NDArray[Any] | None, ...]:
    return (x.data, x.indices, x.indptr) if isinstance(x, sparse.csr_array) else (x,)
