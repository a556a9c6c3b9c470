"""Links that a split by time holds out: pairs that first appear after the graph was cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.config.schema import ReadOptions
from dssl.data.edge_list import edge_columns, open_edges, read_links
from dssl.data.times import Times
from dssl.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class LaterLinks:
    """New links after a moment.

    Args:
        pairs: positions of the two ends, the smaller one first, ordered by the time of the first edge, shape
            ``(M, 2)``. Self loops and pairs that are linked in the graph are left out.
        moment: the first time after the cut, as a user would write it.
        unknown: number of edges with a node that the graph does not have.
    """

    pairs: NDArray[np.int64]
    moment: str
    unknown: int


def read_later(options: ReadOptions, graph: Graph) -> LaterLinks:
    """Read the links that the edge list adds after the cut.

    Args:
        options: the edge list with its ``time_column``.
        graph: the graph of the edges before.
    """
    assert options.time_column is not None
    edges = open_edges(options)
    times = Times(edges, options.time_column)
    moment = times.moment(options.until)
    columns = edge_columns(edges, options)
    links = read_links(edges, columns, trim=bool(options.trim), keep=times.after(moment))
    when = times.all()
    order = np.argsort(when[when >= moment.value], kind="stable")
    ids, own = graph.ids if links.ids is None else links.ids, graph.ids
    if ids.type != own.type:  # later ids may turn a column of integers into text
        ids, own = ids.cast(pa.string()), own.cast(pa.string())
    place = np.asarray(pc.index_in(ids, value_set=own).fill_null(-1), np.int64)
    ends = place[np.stack([links.source, links.target], axis=1)][order]
    known = (ends >= 0).all(axis=1)
    pairs = np.sort(ends[known], axis=1)
    size = graph.num_nodes
    old = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
    linked = np.minimum(*old) * size + np.maximum(*old)
    keys = pairs[:, 0] * size + pairs[:, 1]
    new = (pairs[:, 0] != pairs[:, 1]) & ~np.isin(keys, linked)
    first = np.unique(keys[new], return_index=True)[1]
    return LaterLinks(pairs[new][np.sort(first)], moment.words, int((~known).sum()))
