"""The charts of a report as plain values, which ``templates/report.js`` draws with Plotly."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl.evaluation.factor_analysis import class_similarity, similarity_correlation
from dssl.graph.features import decode, years
from dssl.graph.statistics import neighborhood_similarity
from dssl.model.factor_names import titles
from dssl.report.facts import Arrays, Facts, short
from dssl.runs.records import Record

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.graph.encoding import Column
    from dssl.model.factors import Factors

Chart = dict[str, Any]

MOST_POINTS = 400  # of a curve
MOST_CLASSES = 24  # with a colour and shape of their own on a map: eight colours times three shapes
MOST_ROWS = 14  # of a matrix of classes
MOST_FACTORS = 12  # with a matrix
MOST_COLUMNS = 16  # of a node table, to colour by
MOST_CELLS = 1_000_000  # of the posteriors of nodes, to colour by each factor
OTHER, NONE = 254, 255  # codes of classes without a separate colour, and of unknown ones

# By number of a record: a title, a description, and the group of the chart.
CURVES = {
    "loss": ("Loss", "weighted sum of the terms, which training minimises", "terms"),
    "local": ("Local term", "distance of a neighbour from the node plus the shift of the link's factor", "terms"),
    "global": ("Global term", "distance of nodes from the prototypes of their links' factors", "terms"),
    "entropy": ("Entropy term", "entropy of the posterior of a link", "terms"),
    "reconstruction": ("Reconstruction", "error of the input predicted from the vectors", "terms"),
    "links": ("Links", "error of the links predicted from the vectors", "terms"),
    "distillation": ("Distillation", "error of the factors against the groups of similar links", "terms"),
    "negative": ("Negatives", "similarity of random pairs of nodes", "terms"),
    "divergence": ("Divergence", "divergence of the distribution of vectors from the prior", "terms"),
    "invariance": ("Invariance", "distance of the two views of a node", "terms"),
    "decorrelation": ("Decorrelation", "correlation of the columns", "terms"),
    "effective_rank": ("Effective rank", "number of directions in which the trained vectors differ", "health"),
    "posterior_entropy": ("Posterior entropy", "0 for a single factor per link, 1 for a uniform posterior", "health"),
    "factor_usage_max": ("Largest usage", "fraction of the links that the most used factor takes", "health"),
    "factor_information": ("Factor information", "information of a link about its factor, from 0 to 1", "health"),
}


def curves(facts: Facts) -> list[Chart]:
    """A chart for each number that was recorded, terms of the loss first, then the signs of a collapse."""
    found = []
    for name, title, words, about in recorded(facts.records):
        chart = lines({"": facts.records}, name)
        if chart is not None:
            side, limit = next(iter(facts.limits.get(name, {}).items()), ("", None))
            found.append(chart | {"title": title, "words": words, "about": about, "limit": limit, "side": side})
    return found


def recorded(records: Iterable[Record]) -> list[tuple[str, str, str, str]]:
    """Name, title, description and group of each recorded number; those of `CURVES` first, in its order."""
    names = dict.fromkeys(key for record in records for key in record if key != "epoch")
    every = [*(name for name in CURVES if name in names), *(name for name in names if name not in CURVES)]
    return [(name, *CURVES.get(name, (short(name.replace("_", " ").capitalize()), "", "terms"))) for name in every]


def lines(runs: Mapping[str, Sequence[Mapping[str, float | None]]], name: str) -> Chart | None:
    """Curves of a number over the epochs, one for each training; none if it was not recorded."""
    found = []
    for at, (title, records) in enumerate(runs.items()):
        points = [(record["epoch"], record.get(name)) for record in records if record.get(name) is not None]
        step = math.ceil(len(points) / MOST_POINTS) or 1
        kept = [*points[: len(points) - 1 : step], *points[-1:]]
        if kept:
            x, y = [int(x or 0) for x, _ in kept], [rounded(y) for _, y in kept]
            found.append({"name": title, "look": at, "x": x, "y": y})
    return {"kind": "lines", "lines": found} if found else None


def intervals(rows: Mapping[str, Mapping[str, Any]], looks: Mapping[str, int]) -> Chart:
    """Means with their intervals and the value of each split, in percent.

    Args:
        rows: scores as in ``evaluation.json``, by name, from the top.
        looks: number of the colour of highlighted rows.
    """
    found = []
    for name, score in rows.items():
        low, high = score.get("interval") or (score["mean"], score["mean"])
        splits = [rounded(100 * value) for value in score.get("splits", []) if value is not None]
        numbers = {"mean": score["mean"], "low": low, "high": high}
        values = {key: rounded(100 * value) for key, value in numbers.items()}
        found.append({"name": short(name), "look": looks.get(name), "splits": splits[:100], **values})
    return {"kind": "intervals", "rows": found}


def matrix(values: NDArray[np.float64], names: Sequence[str], *, most: float | None = None, unit: str = "") -> Chart:
    """A square of numbers, rows from the top; values that are not finite stay empty.

    Args:
        values: shape ``(C, C)``.
        names: of rows and columns.
        most: the value of the strongest colour, by default the largest.
        unit: ``"%"`` for percentages.
    """
    finite = np.where(np.isfinite(values), values, 0)
    cells = [[rounded(value) for value in row] for row in values.tolist()]
    largest = float(finite.max(initial=0)) if most is None else most
    return {"kind": "matrix", "names": list(names), "values": cells, "most": rounded(largest), "unit": unit}


def class_names(graph: Graph) -> list[str]:
    """A short name for each class."""
    named = graph.class_names or [str(label) for label in range(graph.num_classes)]
    return [short(name, 28) for name in named]


def similarity(graph: Graph, factors: Factors) -> dict[str, Any] | None:
    """The paper's case study: similarity of the neighbourhoods of classes, and similarity of their factors."""
    if graph.y is None or graph.num_classes < 2 or factors.num_factors < 2:
        return None
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
    shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_ROWS])
    names = class_names(graph)
    true, learnt = neighborhood_similarity(graph), class_similarity(graph, factors.nodes)
    cut = np.ix_(shown, shown)
    if not np.isfinite(true[cut]).any() or not np.isfinite(learnt[cut]).any():
        return None
    titles = [names[at] for at in shown]
    return {
        "true": matrix(true[cut], titles, most=1),
        "learnt": matrix(learnt[cut], titles, most=1),
        "correlation": _known(similarity_correlation(graph, factors.nodes)),
        "off_diagonal": _known(similarity_correlation(graph, factors.nodes, diagonal=False)),
        "left_out": graph.num_classes - len(shown),
    }


def factor_cards(graph: Graph, factors: Factors, given: Graph | None = None) -> list[dict[str, Any]]:
    """For each factor its name, its fraction of the links, its pairs of classes, and its most certain links.

    Args:
        graph: the links as the model uses them.
        factors: the factors of its links.
        given: the graph as it was given, for the names of factors; by default the first.
    """
    if not len(factors.links):
        return []
    named = titles(factors, given or graph)
    shares = factors.links.mean(axis=0, dtype=np.float64)
    order = np.argsort(-shares, kind="stable")[:MOST_FACTORS]
    y, names = _rows(graph)
    start, end = factors.source, factors.target
    known = np.zeros(0, bool) if y is None else (y[start] >= 0) & (y[end] >= 0)
    cards = []
    for at in order:
        card: Chart = {
            "name": named[at][0].upper() + named[at][1:],
            "share": float(shares[at]),
            "links": _examples(factors, int(at)),
        }
        if y is not None and known.any() and len(names) > 1:
            cells = y[start[known]] * len(names) + y[end[known]]
            counts = [
                np.bincount(cells, weights=weights, minlength=len(names) ** 2)
                for weights in (factors.links[known, at].astype(np.float64), None)
            ]
            own, all_ = (count / max(count.sum(), 1e-300) for count in counts)
            card["chart"] = matrix(100 * own.reshape(len(names), -1), names, unit="%")
            card["pairs"] = _pairs(own, all_, names)
        cards.append(card)
    strongest = max((card["chart"]["most"] for card in cards if "chart" in card), default=0)
    for card in cards:
        if "chart" in card:
            card["chart"]["most"] = strongest  # one scale for all
    return cards


def _rows(graph: Graph) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Classes for the rows of a matrix: of too many, the largest, and the others together."""
    if graph.y is None or graph.y.max(initial=-1) < 0:
        return None, []
    names = class_names(graph)
    if len(names) <= MOST_ROWS:
        return graph.y, names
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=len(names))
    shown = np.sort(np.argsort(-sizes, kind="stable")[: MOST_ROWS - 1])
    place = np.full(len(names) + 1, MOST_ROWS - 1)
    place[shown] = np.arange(len(shown))
    place[-1] = -1  # of nodes without a label
    return place[graph.y], [*(names[at] for at in shown), f"{len(names) - len(shown)} other classes"]


def _pairs(own: NDArray[np.float64], all_: NDArray[np.float64], names: Sequence[str]) -> list[dict[str, Any]]:
    """The two pairs of classes that distinguish a factor's links best from all links."""
    lift = np.divide(own, all_, out=np.zeros_like(own), where=all_ > 0)
    told = own * np.log(np.maximum(lift, 1e-12))
    best = [at for at in np.argsort(-told, kind="stable")[:2] if own[at] >= 0.02 and lift[at] >= 1.1]
    return [
        {"from": names[at // len(names)], "to": names[at % len(names)], "share": own[at], "lift": lift[at]}
        for at in best
    ]


def _examples(factors: Factors, factor: int, count: int = 3) -> list[dict[str, Any]]:
    """The most certain links of a factor, no node twice."""
    q = factors.links[:, factor]
    candidates = np.argpartition(-q, min(200, len(q) - 1))[:200]
    seen: set[int] = set()
    found: list[dict[str, Any]] = []
    for at in candidates[np.lexsort((candidates, -q[candidates]))]:
        ends = int(factors.source[at]), int(factors.target[at])
        if len(found) < count and not seen & set(ends):
            seen |= set(ends)
            start, end = (short(factors.ids[place].as_py(), 40) for place in ends)
            found.append({"from": start, "to": end, "share": float(q[at])})
    return found


def node_map(arrays: Arrays) -> Chart:
    """The nodes in the plane, with the columns to colour them by."""
    points = arrays.places.points.astype(np.float64)
    points -= points.min(axis=0)
    points *= 32_000 / max(float(points.max(initial=0)), 1e-30)  # finer than any screen, in two bytes
    chart: Chart = {
        "kind": "map",
        "count": len(points),
        "x": packed(points[:, 0].round().astype(np.int16)),
        "y": packed(points[:, 1].round().astype(np.int16)),
        "ids": None,
        "columns": [],
    }
    graph, links, factors = arrays.graph, arrays.links, arrays.factors
    if graph is None or links is None:
        return chart
    ids = graph.ids.to_pylist()
    if ids != list(range(len(ids))):
        chart["ids"] = [short(node, 40) for node in ids]
    columns = chart["columns"]
    if graph.y is not None and graph.y.max(initial=-1) >= 0:
        columns.append(_classes("label", graph.y, class_names(graph), "no label"))
    if factors is not None and factors.num_factors > 1:
        best = np.where(factors.nodes.any(axis=1), factors.nodes.argmax(axis=1), -1)
        columns.append(_classes("factor", best, [f"factor {at}" for at in range(factors.num_factors)], "without links"))
    columns.append(_numbers("degree", links.degrees))
    columns += _table_columns(graph)
    if factors is not None and factors.num_factors > 1 and factors.nodes.size <= MOST_CELLS:
        for at in range(factors.num_factors):
            shares = np.round(100 * factors.nodes[:, at]).astype(np.uint8)
            columns.append(_numbers(f"factor {at}, % of a node's links", shares))
    return chart


def _classes(name: str, codes: NDArray[np.integer[Any]], names: Sequence[str], none: str) -> Chart:
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    shown = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLASSES])
    shown = shown[sizes[shown] > 0]
    place = np.full(len(names) + 1, OTHER, np.uint8)
    place[shown] = np.arange(len(shown))
    place[-1] = NONE
    others = int((sizes > 0).sum()) - len(shown)
    return {
        "name": short(name),
        "classes": [names[at] for at in shown],
        "other": f"{others} other classes",
        "none": none,
        "values": packed(place[codes]),
    }


def _numbers(name: str, values: NDArray[Any]) -> Chart:
    largest = values.max(initial=0)
    if np.issubdtype(values.dtype, np.integer) and values.min(initial=0) >= 0:
        kind: type[np.generic] = next(
            kind for kind in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(kind).max
        )
    else:
        kind = np.float32
    return {"name": short(name), "values": packed(values.astype(kind))}


def _table_columns(graph: Graph) -> list[Chart]:
    """The columns of the node table, decoded from the features."""
    if graph.x is None or graph.encoding is None:
        return []
    return [_table_column(column, values) for column, values in islice(decode(graph.x, graph.encoding), MOST_COLUMNS)]


def _table_column(column: Column, values: NDArray[Any]) -> Chart:
    if column.kind == "category":
        return _classes(column.name, values, [short(name, 28) for name in column.categories], "no value")
    if column.kind == "flag":
        codes = np.where(np.isnan(values), -1, values).astype(np.int64)
        return _classes(column.name, codes, ["false", "true"], "no value")
    if column.kind == "date":
        return _numbers(f"{column.name}, year", years(values))
    return _numbers(column.name, values)


def packed(values: NDArray[Any]) -> dict[str, str]:
    """Numbers as the browser's typed arrays take them: the type, and little-endian bytes in base 64."""
    kind = values.dtype.newbyteorder("<")
    return {"type": kind.str[1:], "data": base64.b64encode(values.astype(kind).tobytes()).decode("ascii")}


def rounded(value: float | None) -> float | None:
    """A number with as many digits as a chart can show; none if it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
