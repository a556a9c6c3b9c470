"""The input that a fitted model expects: the preparation of links, and the feature columns.

The one place where a graph is made ready for an encoder, in training and ever after.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dssl.errors import GraphError
from dssl.graph import Graph, SelfLoops
from dssl.graph.adjacency import scaled
from dssl.graph.encoding import Encoding
from dssl.graph.link_features import INDUCTIVE, choose, structural_features
from dssl.runtime import out_of_core
from dssl.runtime.scale import IN_MEMORY, Scale

PREPARED = ("directed", "self_loops", "row_scale", "structure", "structure_dim")  # settings that `Inputs.fit` takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The preparation that was fitted on one graph, applied to others in the same way.

    Args:
        directed: whether the direction of links is kept.
        self_loops: whether links from a node to itself are removed or kept.
        row_scale: whether each node's features are divided by the sum of their sizes.
        num_features: number of feature columns F.
        feature_names: their names, or none.
        structure: kind of features made from the links, None if the nodes came with features, or ``none`` if nothing
            looks at features.
        seed: seed of the features made from the links.
        fingerprint: the graph that was fitted, where the features made from its links mean nothing elsewhere.
        encoding: how the columns of a node table became features, or none.
    """

    directed: bool
    self_loops: SelfLoops
    row_scale: bool = False
    num_features: int
    feature_names: tuple[str, ...] | None
    structure: str | None
    seed: int
    fingerprint: str | None
    encoding: Encoding | None

    @classmethod
    def fit(
        cls,
        graph: Graph,
        *,
        directed: bool,
        self_loops: SelfLoops,
        row_scale: bool = False,
        structure: Literal["auto", "degree", "svd", "identity", "none"],
        structure_dim: int,
        seed: int,
        scale: Scale = IN_MEMORY,
    ) -> tuple[Inputs, Graph]:
        """Prepare a graph and remember how.

        Args:
            graph: any graph.
            directed: keep the direction of links.
            self_loops: remove or keep links from a node to itself.
            row_scale: divide each node's features, if it has any, by the sum of their sizes.
            structure: features to make from the links if the nodes have none; ``none`` drops existing ones.
            structure_dim: number of their columns, where the kind leaves a choice.
            seed: seed of the features made from the links.
            scale: whether these are computed at once or by blocks.
        """
        linked = links(graph, directed=directed, self_loops=self_loops)
        kind: str | None = None
        if structure == "none":
            kind, ready = structure, linked.replace(x=None, feature_names=None)
        elif graph.x is None:
            kind = choose(linked, structure)
            ready = structural_features(linked, kind, dim=structure_dim, seed=seed, scale=scale)
        else:
            ready = scale_rows(linked) if row_scale else linked
        inputs = cls(
            directed=directed,
            self_loops=self_loops,
            row_scale=row_scale,
            num_features=ready.num_features,
            feature_names=ready.feature_names,
            structure=kind,
            seed=seed,
            fingerprint=linked.fingerprint() if kind not in (None, "none", *INDUCTIVE) else None,
            encoding=graph.encoding,
        )
        return inputs, ready

    def apply(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> Graph:
        """Prepare another graph in the same way; one without the same feature columns is refused."""
        linked = links(graph, directed=self.directed, self_loops=self.self_loops)
        if self.structure is None:
            self._check_columns(graph)
            return scale_rows(linked) if self.row_scale else linked
        if self.structure == "none":
            return linked.replace(x=None, feature_names=None)
        if graph.x is not None:
            raise GraphError(
                f"graph {graph.name!r} has {graph.num_features:,} feature columns, but the model was fitted on a graph "
                "without; fit it again on a graph with these columns"
            )
        if self.fingerprint is not None and linked.fingerprint() != self.fingerprint:
            raise GraphError(
                f"graph {graph.name!r} is not the one that the model was fitted on, whose {self.structure!r} features "
                "mean nothing elsewhere; fit again with structure=degree to embed new graphs"
            )
        return structural_features(linked, self.structure, dim=self.num_features, seed=self.seed, scale=scale)

    def _check_columns(self, graph: Graph) -> None:
        if graph.num_features != self.num_features:
            raise GraphError(
                f"graph {graph.name!r} has {graph.num_features:,} feature columns, but the model was fitted with "
                f"{self.num_features:,}; give the same columns"
            )
        if self.feature_names is None or graph.feature_names is None:
            return
        for number, (got, wanted) in enumerate(zip(graph.feature_names, self.feature_names, strict=True), start=1):
            if got != wanted:
                raise GraphError(
                    f"graph {graph.name!r}: feature column {number} is {got!r}, but was {wanted!r} when the model was "
                    "fitted; give the same columns in the same order"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the inputs as plain values for JSON."""
        return asdict(self) | {"encoding": None if self.encoding is None else self.encoding.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Inputs:
        """Rebuild inputs from what `to_json` returned."""
        names, encoding = value["feature_names"], value["encoding"]
        other = ("feature_names", "encoding", "weights", "homophily")
        rest = {key: part for key, part in value.items() if key not in other}
        return cls(
            feature_names=None if names is None else tuple(names),
            encoding=None if encoding is None else Encoding.from_json(encoding),
            **rest,
        )


def links(graph: Graph, *, directed: bool, self_loops: SelfLoops) -> Graph:
    """Return the graph with its links prepared; each step is recorded in its history."""
    ready = graph.without_self_loops() if self_loops == "remove" else graph
    return ready if directed else ready.undirected()


def scale_rows(graph: Graph) -> Graph:
    """Return the graph with each node's features divided by the sum of their sizes; a node without any keeps zeros.

    >>> scale_rows(Graph.from_edges([0], [1], x=[[1.0, -3.0], [0.0, 0.0]])).x.tolist()
    [[0.25, -0.75], [0.0, 0.0]]
    """
    x = graph.x
    if x is None:
        return graph
    if not isinstance(x, np.ndarray):
        totals = np.asarray(abs(x).sum(axis=1), np.float32).reshape(-1)
        return graph.replace(x=scaled(x, np.reciprocal(np.where(totals == 0, 1, totals).astype(np.float32)), None))
    out = out_of_core.matrix((x.shape[0], x.shape[1])) if out_of_core.is_mapped(x) else np.empty_like(x)
    for begin, rows in out_of_core.blocks(x):
        sizes = np.abs(rows).sum(axis=1, keepdims=True)
        out[begin : begin + len(rows)] = rows / np.where(sizes == 0, 1, sizes)
        out_of_core.drop(out)
    return graph.replace(x=out)
