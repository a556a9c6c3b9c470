"""The factors behind the links, with the user's ids: as arrays, as Arrow tables, and on disk as Parquet or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.errors import RunError
from dssl.graph import Graph
from dssl.model.embeddings import Layout, as_lists, check_ending, write_vectors
from dssl.runtime import notebook

if TYPE_CHECKING:
    from dssl.model.factor_names import FactorDescription

ENDINGS = (".parquet", ".csv")


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """How probable each factor is on each link, and at each node.

    An undirected link has a row for each direction: as seen from its other end it may have another factor.

    Args:
        ids: the user's node ids, shape ``(N,)``.
        source: position of the node i of each link, ascending, shape ``(A,)``.
        target: position of its neighbour j, shape ``(A,)``.
        links: q(k | v_i, z_j) of each link, shape ``(A, K)``; rows sum to 1.
        nodes: q(k | v_i), the mean over the links of each node, shape ``(N, K)``; zeros for a node without links.
        graph: the graph as it was given, for `describe`, or none.
        titles: a title of each factor, if it is stored; `dssl.model.factor_names.titles` computes it otherwise.

    >>> one = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    >>> found = Factors(pa.array(["a", "b"]), np.array([0, 1]), np.array([1, 0]), one, one)
    >>> found.links_table().select(["source", "target", "factor"]).to_pylist()
    [{'source': 'a', 'target': 'b', 'factor': 0}, {'source': 'b', 'target': 'a', 'factor': 1}]
    """

    ids: pa.Array
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    links: NDArray[np.float32]
    nodes: NDArray[np.float32]
    graph: Graph | None = None
    titles: tuple[str, ...] = ()

    @property
    def num_factors(self) -> int:
        """Number of factors K."""
        return int(self.links.shape[1])

    def __repr__(self) -> str:
        return f"Factors({len(self.links):,} links, {len(self.nodes):,} nodes, {self.num_factors} factors)"

    def _repr_html_(self) -> str:
        usage = self.nodes[self.nodes.any(axis=1)].mean(axis=0) if self.nodes.any() else []
        rows = [[at, f"{part:.1%}"] for at, part in enumerate(usage)]
        return notebook.grid(repr(self), ["factor", "mean over nodes"], rows)

    def describe(self, graph: Graph | None = None) -> list[FactorDescription]:
        """Describe each factor in words: its name, its number of links, the traits that stand out, and examples.

        Args:
            graph: the graph of the factors; by default the one that they were computed for.
        """
        from dssl.model.factor_names import describe

        of = graph or self.graph
        if of is None or not of.ids.equals(self.ids):
            raise RunError("factors are described with their graph; pass it: factors.describe(graph)")
        return describe(self, of)

    def links_table(self) -> pa.Table:
        """A row per link: source, target, the most probable factor (from 0), and the list of all K as ``q``."""
        return pa.table({**self._link_keys(), "q": as_lists(self.links)})

    def nodes_table(self) -> pa.Table:
        """A row per node: id, the most probable factor (from 0; none without links), and the list ``q``."""
        return pa.table({**self._node_keys(), "q": as_lists(self.nodes)})

    def kinds_table(self) -> pa.Table:
        """A row per link of the graph: source, target, kind, its probability, and whether the kind was known.

        For factors that were taught the kinds (``teach="kinds"``), of which factor k is kind k. A known kind has the
        probability 1.
        """
        from dssl.graph.kinds import given_arcs

        if self.graph is None or self.graph.kinds is None:
            raise RunError("predicted kinds need factors that were taught kinds; fit with teach=kinds")
        if (count := len(self.graph.kind_names or ())) > self.num_factors:
            raise RunError(
                f"the graph has {count} kinds of links, but the {self.num_factors} factors were taught fewer; leave "
                "out the kinds of new edges, or fit again with teach=kinds"
            )
        forth, _ = given_arcs(self.graph, self.source, self.target)
        own = forth >= 0 if self.graph.directed else (forth >= 0) & (self.source <= self.target)
        given, q = self.graph.kinds[forth[own]], self.links[own, :count]
        known = given >= 0
        names = pa.array(self.graph.kind_names).take(pa.array(np.where(known, given, q.argmax(axis=1))))
        probability = np.where(known, np.float32(1), q.max(axis=1))
        return pa.table({**self._ends(own), "kind": names, "probability": probability, "known": known})

    def save(self, links: str | Path, *, nodes: str | Path | None = None, layout: Layout = "list") -> None:
        """Write the table of links, and that of nodes if asked, each in one step.

        Args:
            links: ends with ``.parquet`` or ``.csv``.
            nodes: likewise, for the table of nodes.
            layout: of Parquet: one fixed-size list column ``q``, or a column for each factor, ``q0`` ….
        """
        targets = [Path(links), *([] if nodes is None else [Path(nodes)])]
        for path in targets:
            check_ending(path, ENDINGS)
        parts = [(self._link_keys, self.links), (self._node_keys, self.nodes)]
        for path, (keys, values) in zip(targets, parts, strict=False):
            write_vectors(path, keys(), values, name="q", letter="q", layout=layout)

    @classmethod
    def load(cls, links: str | Path, nodes: str | Path) -> Factors:
        """Read the two Parquet files that `save` wrote in the layout ``list``.

        Args:
            links: the table of links.
            nodes: the table of nodes.
        """
        at_nodes, on_links = _read(Path(nodes), ["id"]), _read(Path(links), ["source", "target"])
        ids = at_nodes[0]["id"]
        ends = {name: pc.index_in(column, value_set=ids) for name, column in on_links[0].items()}
        if any(column.null_count for column in ends.values()) or at_nodes[1].shape[1] != on_links[1].shape[1]:
            raise RunError(f"{links} and {nodes} are of different graphs or models; fit the run again")
        places = {name: np.asarray(column.to_numpy(zero_copy_only=False), np.int32) for name, column in ends.items()}
        return cls(ids, places["source"], places["target"], on_links[1], at_nodes[1])

    def _ends(self, which: slice | NDArray[np.bool_] = slice(None)) -> dict[str, pa.Array]:
        """The ids of both ends of links."""
        ends = {"source": self.source, "target": self.target}
        return {name: self.ids.take(pa.array(at[which])) for name, at in ends.items()}

    def _link_keys(self) -> dict[str, pa.Array]:
        return {**self._ends(), "factor": _best(self.links)}

    def _node_keys(self) -> dict[str, pa.Array]:
        return {"id": self.ids, "factor": _best(self.nodes)}


def _read(path: Path, keys: list[str]) -> tuple[dict[str, pa.Array], NDArray[np.float32]]:
    """The key columns of a table of factors, and q of each row, shape ``(n, K)``."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            table = file.read(columns=[*keys, "q"])
        kind = table.schema.field("q").type
        if table.column_names != [*keys, "q"] or not pa.types.is_fixed_size_list(kind):
            raise pa.ArrowInvalid(f"columns {table.column_names}")
        flat = table.column("q").combine_chunks().flatten()
        values = np.asarray(flat.to_numpy(zero_copy_only=False), np.float32)
        if values.size != table.num_rows * kind.list_size or not np.isfinite(values).all():
            raise pa.ArrowInvalid("a posterior is missing")
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:  # the last: a name that is not UTF-8
        reason = str(error).splitlines()[0][:80] if path.exists() else "no such file"
        raise RunError(f"{path} does not hold factors ({reason}); fit the run again") from None
    return {name: table.column(name).combine_chunks() for name in keys}, values.reshape(table.num_rows, kind.list_size)


def _best(q: NDArray[np.float32]) -> pa.Array:
    """The most probable factor of each row, none where nothing is known."""
    return pa.array(q.argmax(axis=1).astype(np.int32), mask=~q.any(axis=1))
