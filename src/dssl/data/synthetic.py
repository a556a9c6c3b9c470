"""Graphs made by rule: a dial for homophily, and links with known reasons.

`synthetic` follows the generator behind syn-cora and syn-products (Zhu et al., *Beyond Homophily in Graph Neural
Networks*, NeurIPS 2020). Nodes arrive one by one; a new node of class i draws m different older nodes v with weights
``max(degree(v), 1) · H[i, class(v)]``. On the diagonal H is h; off it, ``(1 − h) · w(d)`` with the circular distance
d of the classes and ``w(d)`` proportional to ``base^(D − d)``, D the largest distance.

>>> synthetic(h=0.25, nodes=1000, classes=5, degree=4, features=8)
Graph('synthetic:h=0.25,nodes=1000,classes=5,degree=4,seed=0,features=8': 1,000 nodes, 1,948 undirected edges, \
8 features, 5 classes)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl import rng
from dssl.errors import ConfigError, nearest
from dssl.graph import Graph

PREFIX = "synthetic:"
DEFAULT_SIGNAL = 2.0  # a linear probe on the features alone gets 42% of 10 classes right


def synthetic(
    *,
    h: float = 0.25,
    nodes: int = 10_000,
    classes: int = 10,
    degree: int = 12,
    seed: int = 0,
    first: int | None = None,
    base: float = 2.0,
    features: int | Graph = 100,
    signal: float | None = None,
) -> Graph:
    """Grow a graph by preferential attachment with a chosen share h of edges inside a class.

    It has ``(nodes − first) · degree / 2 + first − 2`` edges; at h = 0 and h = 1 a few first nodes find no
    neighbour. Classes are of equal size (to one node), node ids are the order of arrival.

    Args:
        h: expected fraction of edges inside a class, 0 to 1.
        nodes: number of nodes N.
        classes: number of classes C.
        degree: mean degree, even: each new node brings half as many links, m.
        seed: another seed is another graph.
        first: first nodes, which come with one link each, at least C·m; by default 70, less in a graph
            of fewer than 1,400 nodes, but never below C·m.
        base: how fast the compatibility of two different classes falls with their distance; 1 is uniform.
        features: number of Gaussian columns (0: no features), or a graph whose rows the nodes take: the classes are
            matched by size, and each node gets the row of a different, random node of the matched class.
        signal: distance between any two class means of the Gaussian features, in standard deviations of the noise; 2
            unless given.
    """
    spec = {
        "h": h,
        "nodes": nodes,
        "classes": classes,
        "degree": degree,
        "seed": seed,
        "first": first,
        "base": base,
        "features": features,
        "signal": signal,
    }
    _check(spec)
    links = degree // 2
    count = max(classes * links, min(70, nodes // 20)) if first is None else first
    y = arrivals(nodes, classes, links, seed)
    from dssl.kernels.preferential_attachment import attach_preferentially  # Numba takes long to import

    draw = rng.stream(seed, "synthetic links")
    source, target = attach_preferentially(y, compatibility(h, classes, base), count, links, 0 < h < 1, draw)
    if isinstance(features, Graph):
        x, names = borrowed_features(y, features, seed), features.feature_names
    else:
        x, names = gaussian_features(y, features, DEFAULT_SIGNAL if signal is None else signal, seed), None
    return Graph.from_edges(source, target, num_nodes=nodes, x=x, feature_names=names, y=y, name=_name(spec))


DEFAULTS = {key: argument.default for key, argument in inspect.signature(synthetic).parameters.items()}


def from_spec(text: str, *, load: Callable[[str], Graph] | None = None) -> Graph:
    """Make the graph of a spec such as ``synthetic:h=0.25,nodes=10000,classes=10,degree=12,seed=0``.

    Args:
        text: the keys of `synthetic` with their values; missing ones have their defaults.
        load: finds the data set that ``features=NAME`` names.

    >>> from_spec("synthetic:nodes=300,classes=3,degree=4,features=0").num_edges
    583
    """
    spec = parse_spec(text)
    if isinstance(spec.get("features"), str):
        if load is None:
            raise ConfigError(f"{text!r}: features={spec['features']} needs the data sets: use dssl.load")
        spec["features"] = load(spec["features"])
    return synthetic(**spec)


def planted_from_spec(text: str) -> Graph:
    """Make the graph of a spec such as ``planted:factors=4,nodes=1000,seed=0``, the keys of `planted_factors`.

    >>> planted_from_spec("planted:factors=2,nodes=50,dim=4").num_nodes
    50
    """
    return planted_factors(**parse_spec(text, PLANTED))[0]


def parse_spec(text: str, known: Mapping[str, Any] = DEFAULTS) -> dict[str, Any]:
    """Return the keys that a spec gives, of those ``known``; ``features`` is a number or the name of a data set."""
    spec: dict[str, Any] = {}
    for part in filter(None, text.partition(":")[2].split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            raise ConfigError(f"{text!r}: unknown key {key!r}{nearest(key, known) or '; use ' + ', '.join(known)}")
        if not equals or not value:
            raise ConfigError(f"{text!r}: {key} has no value; write {key}=VALUE")
        if key in spec:
            raise ConfigError(f"{text!r}: {key} is given twice")
        spec[key] = _value(key, value, text, known[key])
    return spec


def _value(key: str, value: str, text: str, default: Any) -> int | float | str:
    kind = float if isinstance(default, float) or key == "signal" else int
    try:
        return kind(value.replace("_", ""))
    except ValueError:
        if key == "features" and not value[0].isdigit() and value[0] not in "+-.":
            return value
        what = "a number" if kind is float else "a whole number"
        raise ConfigError(f"{text!r}: {key} must be {what}, got {value!r}") from None


def _check(spec: dict[str, Any]) -> None:
    """Refuse values out of bounds, each with one line that names key, bound and value."""

    def demand(key: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise ConfigError(f"synthetic graph: {key} must be {allowed}, got {spec[key]}")

    demand("h", 0 <= spec["h"] <= 1, "between 0 and 1")
    demand("classes", spec["classes"] >= 2, "at least 2")
    demand("degree", spec["degree"] >= 2 and spec["degree"] % 2 == 0, "an even number of at least 2")
    demand("seed", spec["seed"] >= 0, "0 or more")
    demand("base", 1 <= spec["base"] <= 100, "between 1 and 100")
    least = spec["classes"] * spec["degree"] // 2
    demand("nodes", least <= spec["nodes"] < 2**31, f"at least classes · degree / 2 = {least} and below 2^31")
    if spec["first"] is not None:
        demand("first", least <= spec["first"] <= spec["nodes"], f"from classes · degree / 2 = {least} to nodes")
    if isinstance(spec["features"], Graph):
        demand("signal", spec["signal"] is None, "left out when the features come from a data set")
        return
    enough = spec["features"] == 0 or spec["features"] >= spec["classes"]
    demand("features", enough, f"0 or at least classes = {spec['classes']}")
    if spec["signal"] is not None:
        demand("signal", spec["features"] > 0, "left out without features")
        demand("signal", math.isfinite(spec["signal"]) and spec["signal"] >= 0, "finite and not negative")


def _name(spec: dict[str, Any]) -> str:
    """The spec that regenerates the graph, with the five usual keys and those that are not at their defaults."""
    said = spec | ({"features": spec["features"].name} if isinstance(spec["features"], Graph) else {})
    shown = [key for i, key in enumerate(DEFAULTS) if i < 5 or said[key] != DEFAULTS[key]]
    return PREFIX + ",".join(f"{key}={said[key]:.15g}" if key == "h" else f"{key}={said[key]}" for key in shown)


def compatibility(h: float, classes: int, base: float = 2.0) -> NDArray[np.float64]:
    """Matrix H: row i is the distribution of the class of a neighbour of class i before degrees count, ``(C, C)``.

    >>> compatibility(0.4, 5).round(2)[0].tolist()
    [0.4, 0.2, 0.1, 0.1, 0.2]
    """
    step = np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
    distance = np.minimum(step, classes - step)
    weight: NDArray[np.float64] = np.where(distance > 0, base ** (1.0 - distance), 0.0)
    weight /= weight.sum(axis=1, keepdims=True)
    return (1 - h) * weight + h * np.eye(classes)


def arrivals(nodes: int, classes: int, links: int, seed: int) -> NDArray[np.int64]:
    """Class of each node in random order, ``(N,)``; the first ``links · classes`` hold each class ``links`` times."""
    draw = rng.stream(seed, "synthetic classes")
    ahead = np.repeat(np.arange(classes), links)
    rest = np.arange(nodes - ahead.size, dtype=np.int64) % classes
    return np.concatenate([draw.permutation(ahead), draw.permutation(rest)])


def gaussian_features(y: NDArray[np.int64], dim: int, signal: float, seed: int) -> NDArray[np.float32] | None:
    """Unit noise around class means that are orthogonal to each other and ``signal`` apart, shape ``(N, dim)``."""
    if dim == 0:
        return None
    draw = rng.stream(seed, "synthetic features")
    directions, _ = np.linalg.qr(draw.standard_normal((dim, int(y.max()) + 1)))
    x = draw.standard_normal((y.size, dim), dtype=np.float32)
    x += (signal / math.sqrt(2) * directions.T).astype(np.float32)[y]
    return x


def borrowed_features(y: NDArray[np.int64], donor: Graph, seed: int) -> NDArray[np.float32] | sparse.csr_array:
    """Rows of a labelled graph, ``(N, F)``: classes matched by size, each node with the row of another node."""
    if donor.x is None or donor.y is None:
        raise ConfigError(f"synthetic graph: features={donor.name} has no features or no labels to draw rows by")
    sizes, stock = np.bincount(y), np.bincount(donor.y[donor.y >= 0])
    ours, theirs = np.argsort(-sizes, kind="stable"), np.argsort(-stock, kind="stable")
    if ours.size > theirs.size:
        raise ConfigError(
            f"synthetic graph: classes must be at most {theirs.size}, as in {donor.name}, got {ours.size}"
        )
    draw = rng.stream(seed, "synthetic features")
    rows = np.empty(y.size, np.int64)
    for mine, other in zip(ours, theirs, strict=False):
        if stock[other] < sizes[mine]:
            raise ConfigError(
                f"synthetic graph: a class of {sizes[mine]} nodes needs as many rows, but the matching class of "
                f"{donor.name} has {stock[other]}; make nodes at most {stock[theirs[ours.size - 1]] * ours.size}"
            )
        rows[y == mine] = draw.choice(np.flatnonzero(donor.y == other), sizes[mine], replace=False)
    return donor.x[rows]


def planted_factors(
    *,
    factors: int = 4,
    nodes: int = 1000,
    degree: int = 12,
    dim: int = 16,
    kind_signal: float = 8.0,
    class_signal: float = 2.0,
    seed: int = 0,
) -> tuple[Graph, NDArray[np.int64]]:
    """A graph whose links have K known reasons, which are visible in the pair of end nodes.

    Each node has a kind t and a class y, both of K values and independent. A link between i and j has the reason
    ``k = (t_i + t_j) mod K``, and exists only if ``(y_i + y_j) mod K = k`` too. So the kinds of the two ends, which
    their features show clearly, give the reason, and the reason determines the class of the neighbour: y_i = k − y_j.
    Over all reasons the class of a neighbour is uniform: a plain mean of the neighbours has little information on
    the class.

    Args:
        factors: number K of reasons, of kinds and of classes.
        nodes: number of nodes N.
        degree: mean degree, before repeated links are merged.
        dim: number of feature columns, at least 2·K.
        kind_signal: distance between the feature means of two kinds, in standard deviations of the noise.
        class_signal: distance between the feature means of two classes.
        seed: another seed is another graph.

    Returns:
        The graph, and the reason of each arc (in the order of ``graph.indices``), shape ``(A,)``.

    >>> graph, reason = planted_factors(factors=2, nodes=50, dim=4)
    >>> bool(((graph.y[graph.sources()] + graph.y[graph.indices]) % 2 == reason).all())
    True
    """
    if factors < 2 or dim < 2 * factors or nodes < factors**2 or min(degree, seed) < 0:
        raise ConfigError(
            "planted factors: factors must be at least 2, dim at least 2 · factors, nodes at least factors², degree "
            f"and seed 0 or more, got factors={factors}, dim={dim}, nodes={nodes}, degree={degree}, seed={seed}"
        )
    draw = rng.stream(seed, "planted factors")
    cell = draw.permutation(np.arange(nodes) % factors**2)  # every pair of kind and class occurs
    kind, y = np.divmod(cell, factors)
    source = draw.integers(nodes, size=nodes * degree // 2)
    reason = draw.integers(factors, size=source.size)
    target = _members(cell, (reason - kind[source]) % factors * factors + (reason - y[source]) % factors, draw)
    directions, _ = np.linalg.qr(draw.standard_normal((dim, 2 * factors)))
    means = np.concatenate([kind_signal * directions.T[:factors], class_signal * directions.T[factors:]]) / math.sqrt(2)
    x = draw.standard_normal((nodes, dim)) + means[kind] + means[factors + y]
    graph = Graph.from_edges(source, target, num_nodes=nodes, x=x, y=y, name=f"planted:factors={factors},seed={seed}")
    return graph, (kind[graph.sources()] + kind[graph.indices]) % factors


def _members(group: NDArray[np.int64], wanted: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.int64]:
    """A random node of each wanted group; every group has nodes."""
    nodes, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    begins = np.cumsum(sizes) - sizes
    chosen: NDArray[np.int64] = nodes[begins[wanted] + draw.integers(sizes[wanted])]
    return chosen


def planted_pairs(
    *,
    kinds: int = 3,
    nodes: int = 1000,
    degree: int = 12,
    dim: int = 16,
    signal: float = 8.0,
    directed: bool = False,
    seed: int = 0,
) -> tuple[Graph, NDArray[np.int64]]:
    """A graph whose links have one reason for each unordered pair of kinds, so K = T (T + 1) / 2 in equal shares.

    Half of the difficulty of `planted_factors`: the reason *is* the pair of kinds, which the features show. Some
    reasons link equal kinds, the others do not. A node takes part in T of them, so one end alone does not determine
    the reason. In a directed graph links go from the lower kind to the higher one, and the pairs [x_i, x_j] form K
    clusters. In an undirected one, which has each link in both directions, they form T² clusters, of which two have
    the same reason unless the kinds are equal.

    Args:
        kinds: number T of kinds, which are the classes of the graph.
        nodes: number of nodes N.
        degree: mean degree, before repeated links are merged.
        dim: number of feature columns, at least T.
        signal: distance between the feature means of two kinds, in standard deviations of the noise.
        directed: whether links go one way only.
        seed: another seed is another graph.

    Returns:
        The graph, and the reason of each arc (in the order of ``graph.indices``), shape ``(A,)``.

    >>> graph, reason = planted_pairs(kinds=2, nodes=50, dim=4)
    >>> bool(((graph.y[graph.sources()] + graph.y[graph.indices]) == reason).all())
    True
    """
    if kinds < 2 or dim < kinds or nodes < kinds or min(degree, seed) < 0:
        raise ConfigError(
            f"planted pairs: kinds must be at least 2, dim and nodes at least kinds, degree and seed 0 or more, got "
            f"kinds={kinds}, dim={dim}, nodes={nodes}, degree={degree}, seed={seed}"
        )
    draw = rng.stream(seed, "planted pairs")
    kind = draw.permutation(np.arange(nodes) % kinds)
    low, high = np.triu_indices(kinds)
    reason = draw.integers(low.size, size=nodes * degree // 2)
    source, target = (_members(kind, end, draw) for end in (low[reason], high[reason]))
    directions, _ = np.linalg.qr(draw.standard_normal((dim, kinds)))
    x = draw.standard_normal((nodes, dim)) + signal / math.sqrt(2) * directions.T[kind]
    name = f"planted:kinds={kinds},seed={seed}"
    graph = Graph.from_edges(source, target, num_nodes=nodes, x=x, y=kind, directed=directed, name=name)
    number = np.zeros((kinds, kinds), np.int64)
    number[low, high] = number[high, low] = np.arange(low.size)
    return graph, number[kind[graph.sources()], kind[graph.indices]]


PLANTED = {key: argument.default for key, argument in inspect.signature(planted_factors).parameters.items()}
