r"""Statistics of a graph: sizes, measures of homophily, and similarity of the neighbourhoods of two classes.

With rows (arcs) :math:`i \to j`, classes :math:`y`, and unlabelled nodes left out everywhere:

* edge homophily, the fraction of rows inside a class, over all rows, self loops included:
  :math:`h = |\{i \to j : y_i = y_j\}| / A`;
* class-average homophily (Lim et al., 2021), over rows without self loops:
  :math:`\hat h = \frac{1}{C-1} \sum_k [h_k - |C_k|/N]_+`, where :math:`h_k` is the fraction of the rows out of class k
  that stay in it;
* node homophily (Pei et al., 2020): the mean over nodes of the fraction of neighbours in the node's own class;
* adjusted homophily (Platonov et al., 2023): :math:`(h - \sum_k p_k^2) / (1 - \sum_k p_k^2)` without self loops, where
  :math:`p_k = D_k / 2|E|` is the fraction of the ends of links in class k: 0 if links do not care about classes, 1 if
  none leaves its class.

Loops count in ``h`` and not in the others because only so do the published figures come out (Texas: h is 0.108 with
its 16 loops and 0.061 without). In an undirected graph each link is two rows; in a directed one the neighbours of a
node are those that it points to. Weights play no part.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.runtime import out_of_core


@dataclass(frozen=True, slots=True)
class Homophily:
    """How much links keep to classes; NaN where a measure is undefined (no labelled link, a single class).

    Args:
        edge: fraction of rows inside a class, self loops included.
        class_average: mean excess of the classes over the random value, in [0, 1].
        node: mean over nodes of the fraction of neighbours in the node's class.
        adjusted: edge homophily relative to chance given the degrees, at most 1, negative below chance.
    """

    edge: float
    class_average: float
    node: float
    adjusted: float


FEW_COLUMNS, FEW_ROWS = 4, 8


def few_features(graph: Graph) -> str:
    """Return a sentence if the features of a graph hold little, and replace features of the links; else an empty text.

    >>> few_features(Graph.from_edges([0, 1], [1, 2], x=[[0.0], [1.0], [1.0]]))
    'the nodes have 1 feature column with 2 distinct rows, in place of features from the links'
    """
    if graph.x is None or not graph.num_arcs:
        return ""
    sample = graph.x[: 1 << 14]
    rows = np.unique(sample if isinstance(sample, np.ndarray) else sample.toarray(), axis=0)
    if graph.num_features >= FEW_COLUMNS and len(rows) > FEW_ROWS:
        return ""
    columns = f"{graph.num_features} feature column{'' if graph.num_features == 1 else 's'}"
    distinct = f" with {len(rows)} distinct rows" if len(rows) <= FEW_ROWS else ""
    return f"the nodes have {columns}{distinct}, in place of features from the links"


def homophily(graph: Graph) -> Homophily:
    """Return the four measures; unlabelled nodes and their links are left out.

    >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3], y=[0, 0, 1, 1])
    >>> homophily(path)
    Homophily(edge=0.6666666666666666, class_average=0.33333333333333326, node=0.75, adjusted=0.33333333333333326)
    """
    y = _labels(graph)
    counted = _count(graph, y)
    return Homophily(
        edge=counted.same / counted.every if counted.every else math.nan,
        class_average=_class_average(y, counted),
        node=_node(counted),
        adjusted=_adjusted(counted),
    )


@dataclass(slots=True)
class _Counts:
    """Sums over the rows between labelled nodes for the measures; all but the first two without self loops.

    Args:
        every: rows.
        same: rows inside a class.
        out: rows out of each class, shape ``(C,)``.
        into: rows into each class.
        inside: rows inside each class.
        rows: rows of each node, shape ``(N,)``.
        own: those that stay in its class.
    """

    every: int
    same: int
    out: NDArray[np.int64]
    into: NDArray[np.int64]
    inside: NDArray[np.int64]
    rows: NDArray[np.int64]
    own: NDArray[np.int64]


def _count(graph: Graph, y: NDArray[np.int64]) -> _Counts:
    """Count by ranges of rows: nothing here is as long as the links."""
    classes = int(y.max(initial=-1)) + 1
    found = _Counts(0, 0, *(np.zeros(size, np.int64) for size in (classes,) * 3 + (graph.num_nodes,) * 2))
    for start, end in graph.row_blocks():
        known = (y[start] >= 0) & (y[end] >= 0)
        start, end = start[known], end[known]
        same = y[start] == y[end]
        found.every += same.size
        found.same += int(same.sum())
        plain = start != end
        start, end, same = start[plain], end[plain], same[plain]
        found.out += np.bincount(y[start], minlength=classes)
        found.into += np.bincount(y[end], minlength=classes)
        found.inside += np.bincount(y[start[same]], minlength=classes)
        low = int(start[0]) if start.size else 0
        for count, nodes in ((found.rows, start), (found.own, start[same])):
            part = np.bincount(nodes - low)
            count[low : low + part.size] += part
    return found


def neighborhood_similarity(graph: Graph) -> NDArray[np.float64]:
    r"""Cross-class neighbourhood similarity (Ma et al., 2022; the paper's appendix), shape ``(C, C)``.

    .. math:: s(c, c') = \frac{1}{|V_c||V_{c'}|} \sum_{i \in V_c, j \in V_{c'}} \cos(d(i), d(j))

    with the histogram :math:`d(i)` of the classes of node i's neighbours. The cosine is a product of normalised
    histograms, so the mean over pairs is the product of the class means: O(A + NC), not O(N²). Nodes without a
    labelled neighbour other than themselves have no histogram and are left out; a class of only such nodes is NaN.

    >>> neighborhood_similarity(Graph.from_edges([0, 1], [2, 3], y=[0, 0, 1, 1]))  # each class links to the other
    array([[1., 0.],
           [0., 1.]])
    """
    y = _labels(graph)
    start, end, classes = graph.sources(), graph.indices, graph.num_classes
    counted = (start != end) & (y[start] >= 0) & (y[end] >= 0)
    cells = start[counted].astype(np.int64) * classes + y[end[counted]]
    histograms = np.bincount(cells, minlength=graph.num_nodes * classes).reshape(-1, classes).astype(np.float64)  # N C
    lengths = np.linalg.norm(histograms, axis=1)
    known = np.flatnonzero(lengths)
    means = np.full((classes, classes), np.nan)
    unit = histograms[known] / lengths[known, None]
    for label in np.unique(y[known]):
        means[label] = unit[y[known] == label].mean(axis=0)
    similarity: NDArray[np.float64] = means @ means.T
    return similarity


def summary(graph: Graph) -> dict[str, Any]:
    """Return sizes, shape and homophily as plain JSON values; inapplicable ones are ``None``.

    ``edges`` counts links as a user does (an undirected one once, self loops included) and ``arcs`` the stored rows;
    components ignore direction; isolated nodes have no link but perhaps one to themselves.
    """
    from dssl.kernels.csr import component_sizes

    linked = np.zeros(graph.num_nodes, bool)
    for start, end in graph.row_blocks():
        plain = start != end
        linked[start[plain]] = True
        linked[end[plain]] = True
    components = component_sizes(graph.indptr, graph.indices)
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "arcs": graph.num_arcs,
        "directed": graph.directed,
        "weighted": graph.weights is not None,
        "self_loops": graph.num_self_loops,
        "isolated_nodes": int((~linked).sum()),
        "components": int(components.size),
        "largest_component": int(components.max()),
        "mean_degree": graph.num_arcs / graph.num_nodes,
        "max_degree": int(graph.degrees.max()),
        **_feature_summary(graph),
        **_label_summary(graph),
        "history": [str(change) for change in graph.history],
    }


def _feature_summary(graph: Graph) -> dict[str, Any]:
    x = graph.x
    if x is None:
        return {"features": 0, "feature_storage": None, "feature_density": None, "nodes_without_features": None}
    if isinstance(x, sparse.csr_array):
        per_node = np.bincount(x.tocoo().row[x.data != 0], minlength=graph.num_nodes)
    else:
        per_node = np.concatenate([np.count_nonzero(block, axis=1) for _, block in out_of_core.blocks(x)])
    return {
        "features": graph.num_features,
        "feature_storage": "sparse" if isinstance(x, sparse.csr_array) else "dense",
        "feature_density": float(per_node.sum() / (graph.num_nodes * graph.num_features)),
        "nodes_without_features": int((per_node == 0).sum()),
    }


def _label_summary(graph: Graph) -> dict[str, Any]:
    if graph.y is None or graph.y.max() < 0:
        unknown = dict.fromkeys(f"{field.name}_homophily" for field in fields(Homophily))
        return {"classes": 0, "labelled_nodes": 0, "class_sizes": None, **unknown}
    measured = asdict(homophily(graph))
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
    return {
        "classes": graph.num_classes,
        "labelled_nodes": int(sizes.sum()),
        "class_sizes": sizes.tolist(),
        **{f"{name}_homophily": None if math.isnan(value) else value for name, value in measured.items()},
    }


def _labels(graph: Graph) -> NDArray[np.int64]:
    if graph.y is None:
        raise GraphError(
            f"graph {graph.name!r} has no labels; homophily is a matter of classes, so give a label column"
        )
    return graph.y


def _class_average(y: NDArray[np.int64], counted: _Counts) -> float:
    sizes = np.bincount(y[y >= 0], minlength=counted.out.size)
    present = sizes > 0
    if present.sum() < 2 or not counted.out.any():
        return math.nan
    excess = counted.inside / np.maximum(counted.out, 1) - sizes / sizes.sum()
    return float(np.maximum(excess, 0).sum() / (present.sum() - 1))


def _node(counted: _Counts) -> float:
    known = counted.rows > 0
    return float((counted.own[known] / counted.rows[known]).mean()) if known.any() else math.nan


def _adjusted(counted: _Counts) -> float:
    total = counted.out.sum()
    if not total:
        return math.nan
    ends = counted.out + counted.into
    chance = float(((ends / ends.sum()) ** 2).sum())
    return math.nan if chance == 1 else (float(counted.inside.sum() / total) - chance) / (1 - chance)
