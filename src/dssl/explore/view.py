"""The content of the page of a run: coordinates, links, posteriors and columns of its nodes, as arrays.

The page computes its answers itself (`web/graph.js`), from arrays that it reads once. Only nearest neighbours in the
embedding are computed here, one node at a time, since the vectors are too large for a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dssl.errors import RunError
from dssl.evaluation.kind_agreement import known_links
from dssl.graph.features import decode, years
from dssl.model.factor_names import titles
from dssl.runs import run_folder
from dssl.runs.links import model_links
from dssl.runs.node_map import map_of

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.model.factors import Factors

NEAREST = 12  # nodes with the most similar vectors
MOST_COLUMNS = 24  # of a node table
MOST_BYTES = 1 << 30  # that a page is given to hold
ROWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A value per node, to colour the map by and to read.

    Args:
        name: its title.
        values: float32 of a number, NaN where there is none; int32 of a category, −1 where there is none; ``(N,)``.
        names: of the categories; none for a number.
        role: ``label``, ``factor`` or ``degree``; empty for a column of the node table.
    """

    name: str
    values: NDArray[np.float32] | NDArray[np.int32]
    names: tuple[str, ...] | None = None
    role: Literal["label", "factor", "degree", ""] = ""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Everything that the page of a run shows.

    Args:
        name: name of the graph.
        method: the method that trained the vectors.
        how: the projection of the map, in words.
        ids: the user's node ids, shape ``(N,)``.
        points: coordinates in the plane, float32, shape ``(N, 2)``.
        graph: the links, as the model uses them.
        unit: the embeddings, each of length 1 or 0, float32, shape ``(N, d)``.
        node_q: q(k | v_i), float32, shape ``(N, K)``; K is 0 without factors.
        link_q: q(k | v_i, z_j) of each link in 255ths, uint8, shape ``(A, K)``.
        columns: the columns to colour the map by, the initial one first.
        kinds: names of the kinds of links, and the number of links by most probable factor and kind, ``(K, kinds)``;
            none without factors or kinds.
    """

    name: str
    method: str
    how: str
    ids: pa.Array
    points: NDArray[np.float32]
    graph: Graph
    unit: NDArray[np.float32]
    node_q: NDArray[np.float32]
    link_q: NDArray[np.uint8]
    columns: tuple[Column, ...]
    kinds: tuple[tuple[str, ...], NDArray[np.int64]] | None = None

    @property
    def num_bytes(self) -> int:
        """Size of the arrays and ids in a page."""
        arrays = (self.points, self.graph.indices, self.node_q, self.link_q, *(each.values for each in self.columns))
        return sum(array.nbytes for array in arrays) + 4 * len(self.graph.indptr) + int(self.ids.nbytes)

    def nearest(self, start: int, stop: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the nodes with the largest cosine with each of some nodes, best first, and these cosines.

        Args:
            start: position of the first node.
            stop: one after the last.

        Returns:
            Positions and cosines, both of shape ``(stop − start, min(12, N − 1))``; of equals, the first.
        """
        count = len(self.ids)
        top = min(NEAREST, count - 1)
        places, cosines = np.zeros((stop - start, top), np.int32), np.zeros((stop - start, top), np.float32)
        if not top:
            return places, cosines
        blocks = np.arange(0, count, max(1, count // 256))
        for begin in range(start, stop, ROWS_AT_ONCE):
            rows = np.arange(begin, min(begin + ROWS_AT_ONCE, stop))
            cosine = self.unit[rows] @ self.unit.T
            cosine[np.arange(len(rows)), rows] = -np.inf
            # At least `top` blocks have a maximum this high, so the best nodes are among the few that reach it.
            least = np.partition(np.maximum.reduceat(cosine, blocks, axis=1), -top, axis=1)[:, -top]
            for row, values, enough in zip(rows - start, cosine, least, strict=True):
                able = np.flatnonzero(values >= enough)
                best = able[np.argsort(-values[able], kind="stable")[:top]]
                places[row], cosines[row] = best, np.clip(values[best], -1, 1)
        return places, cosines


def of_run(folder: Path, *, on_stage: Callable[[str], None] = lambda _: None) -> View:
    """Read everything that the page of a finished run shows, from its folder alone.

    Args:
        folder: the run folder.
        on_stage: called with the name of each part before it starts.
    """
    config = run_folder.read_config(folder)
    on_stage("reading vectors, graph and factors")
    vectors = run_folder.read_embeddings(folder)
    graph = run_folder.read_graph(folder, "dssl explore")
    factors = run_folder.read_factors(folder, "dssl explore") if run_folder.num_factors(config) else None
    if not graph.ids.equals(vectors.ids):
        raise RunError(f"the ids of the vectors and of the graph in {folder} differ; fit the run again")
    on_stage("computing the map, which the run stores")
    places = map_of(folder)
    made = view(
        graph,
        model_links(graph, config.graph, factors),
        vectors.values,
        points=places.points,
        factors=factors,
        method=config.method.name,
        how=places.words,
    )
    if (size := made.num_bytes) > MOST_BYTES:
        raise RunError(
            f"the page of {folder} would hold {size / 1e9:.1f} GB of links and ids, and the limit for a browser is "
            f"{MOST_BYTES / 1e9:.1f} GB; fit a part of the graph to explore it"
        )
    return made


def view(
    graph: Graph,
    links: Graph,
    vectors: NDArray[np.float32],
    *,
    points: NDArray[np.float32],
    factors: Factors | None = None,
    method: str = "",
    how: str = "",
) -> View:
    """Assemble the content of a page.

    Args:
        graph: the graph as it was read, with labels and features.
        links: the same nodes with the links that the model uses.
        vectors: the embeddings, shape ``(N, d)``.
        points: coordinates in the plane, shape ``(N, 2)``.
        factors: of the same links, or none.
        method: the method that trained the vectors.
        how: the projection of the map, in words.
    """
    size, arcs = links.num_nodes, links.num_arcs
    node_q = np.zeros((size, 0), np.float32) if factors is None else factors.nodes
    link_q = np.zeros((arcs, 0), np.float32) if factors is None else factors.links
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return View(
        name=graph.name,
        method=method,
        how=how,
        ids=graph.ids,
        points=np.asarray(points, np.float32),
        graph=links,
        unit=np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32),
        node_q=np.asarray(node_q, np.float32),
        link_q=np.asarray(np.rint(link_q * 255), np.uint8),
        columns=tuple(_columns(graph, links, factors)),
        kinds=_kinds(graph, factors),
    )


def _kinds(graph: Graph, factors: Factors | None) -> tuple[tuple[str, ...], NDArray[np.int64]] | None:
    if factors is None or graph.kinds is None or graph.kind_names is None:
        return None
    known, kinds = known_links(graph, factors.source, factors.target)
    table = np.zeros((factors.num_factors, len(graph.kind_names)), np.int64)
    np.add.at(table, (factors.links[known].argmax(axis=1), kinds), 1)
    return graph.kind_names, table


def _columns(graph: Graph, links: Graph, factors: Factors | None) -> Iterator[Column]:
    """The label, the main factor, the degree, and the columns of the node table."""
    if graph.y is not None:
        names = graph.class_names or tuple(str(label) for label in range(graph.num_classes))
        yield Column("label", graph.y.astype(np.int32), names, "label")
    if factors is not None:
        q = factors.nodes
        main = np.where(q.any(axis=1), q.argmax(axis=1), -1).astype(np.int32)
        yield Column("main factor", main, titles(factors, graph), "factor")
    degree = links.degrees
    if links.directed:
        degree = degree + np.bincount(links.indices, minlength=links.num_nodes)
    yield Column("degree", degree.astype(np.float32), role="degree")
    yield from islice(_table_columns(graph), MOST_COLUMNS)


def _table_columns(graph: Graph) -> Iterator[Column]:
    """The columns of the node table, decoded from the features."""
    if graph.x is None or graph.encoding is None:
        return
    for column, values in decode(graph.x, graph.encoding):
        if column.kind == "date":
            yield Column(f"{column.name}, year", years(values))
        else:
            yield Column(column.name, values, column.categories if column.kind == "category" else None)
