r"""Link prediction: hold out links, train on the rest, and rank the held-out ones against pairs without a link.

An embedding scores a pair in two ways: by the cosine of the two centred rows, and by a logistic regression on
:math:`[a \odot b,\; |a - b|]`. The second can use pairs that are linked *because* they differ. Its examples are either
the links that were not hidden, or hidden validation links: vectors remember the links of their own graph, so that these
can look unlike new ones, but there are more of them. The better of the two on the validation links is taken, each of
which is scored by a regression without it. Pairs without a link are drawn in two ways: uniformly, and with
both ends in proportion to their degree, so that knowing the degrees alone is of no use.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dssl.errors import GraphError
from dssl.graph import Change, Graph
from dssl.rng import stream

Pairs = NDArray[np.int64]
Negatives = Literal["uniform", "degree"]
Scores = dict[str, tuple[NDArray[Any], NDArray[Any]]]  # of the tested links, and of the pairs without one
KINDS: tuple[Negatives, ...] = ("uniform", "degree")
STRENGTHS = (0.001, 0.01, 0.1, 1.0)
FOLDS = 5  # of the validation links, if the regression learns from them
DEGREE_ROUNDS = 20
BASELINES = {
    "degrees": "the product of degrees",
    "neighbours": "common neighbours",
    "paths": "paths of length three",
}
HIDDEN = (0.05, 0.1)  # fractions of the links that validation and test hide
MOST_PAIRS = 10_000  # links that a part of the task holds at most


@dataclass(frozen=True, slots=True, eq=False)
class LinkTask:
    """A graph without the hidden links, and pairs with and without a link; pairs are positions of shape ``(M, 2)``.

    Args:
        graph: undirected, without the links of validation and test.
        train: links of ``graph`` that a scorer may learn from.
        val: hidden links that choose its settings, and that it may learn from.
        test: hidden links for the evaluation.
        apart: as many pairs without a link for each of the three, by how they were drawn.
    """

    graph: Graph
    train: Pairs
    val: Pairs
    test: Pairs
    apart: dict[Negatives, tuple[Pairs, Pairs, Pairs]]


def hold_out(graph: Graph, *, seed: int) -> LinkTask:
    """Hide a random fraction of the links; directions and self loops are dropped first."""
    plain, links = _links(graph)
    rng = stream(seed, "hidden links")
    hidden = [max(round(share * len(links)), 1) for share in HIDDEN]
    if len(links) < sum(hidden) + 2:
        raise GraphError(f"graph {graph.name!r} has {len(links)} links; too few to hide some of them")
    order = rng.permutation(len(links))
    val, test, rest = np.split(links[order], np.cumsum(hidden))
    left = _without(plain, val, test)
    rest, val, test = (part[:MOST_PAIRS] for part in (rest, val, test))
    apart = {kind: _apart(plain, [len(rest), len(val), len(test)], kind, rng) for kind in KINDS}
    return LinkTask(left, rest, val, test, apart)


def after(graph: Graph, later: Pairs, *, seed: int) -> LinkTask:
    """Return the task to predict links that appear later than all links of a graph.

    The first third of the later links chooses the settings of a scorer, and the others are tested.

    Args:
        graph: the graph before; directions and self loops are dropped.
        later: pairs without a link in the graph, in the order of their time, shape ``(M, 2)``.
        seed: seed of the links that a scorer learns from, and of the pairs without a link.
    """
    if len(later) < 3:
        raise GraphError(f"graph {graph.name!r} has {len(later)} new links after the cut; too few to test")
    plain, links = _links(graph)
    rng = stream(seed, "hidden links")
    val, test = (rng.permutation(part)[:MOST_PAIRS] for part in np.split(later, [len(later) // 3]))
    train = rng.permutation(links)[:MOST_PAIRS]
    ends = np.concatenate([links, later])
    whole = Graph.from_edges(ends[:, 0], ends[:, 1], num_nodes=graph.num_nodes, name=graph.name)
    counts = [len(train), len(val), len(test)]
    return LinkTask(plain, train, val, test, {kind: _apart(whole, counts, kind, rng) for kind in KINDS})


def _links(graph: Graph) -> tuple[Graph, Pairs]:
    """The undirected graph without self loops, and its links, each once."""
    plain = graph.undirected().without_self_loops()
    arcs = np.stack([plain.sources(), plain.indices], axis=1).astype(np.int64)
    return plain, arcs[arcs[:, 0] < arcs[:, 1]]


def _without(graph: Graph, *hidden: Pairs) -> Graph:
    """The undirected graph without some links, in both directions."""
    size = graph.num_nodes
    gone = np.concatenate(hidden)
    gone = np.concatenate([gone[:, 0] * size + gone[:, 1], gone[:, 1] * size + gone[:, 0]])
    start = graph.sources().astype(np.int64)
    kept = ~np.isin(start * size + graph.indices, gone)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(start[kept], minlength=size))]).astype(np.int64)
    return graph.replace(
        indptr=indptr,
        indices=graph.indices[kept],
        weights=None if graph.weights is None else graph.weights[kept],
        history=(*graph.history, Change("links hidden for link prediction", len(gone) // 2)),
    )


def _apart(graph: Graph, counts: list[int], kind: Negatives, rng: np.random.Generator) -> tuple[Pairs, Pairs, Pairs]:
    """Distinct pairs without a link in the whole graph, as many as requested."""
    size = graph.num_nodes
    linked = np.sort(graph.sources().astype(np.int64) * size + graph.indices)
    wanted = sum(counts)
    if wanted > (size * (size - 1) - graph.num_arcs) // 2:
        raise GraphError(f"graph {graph.name!r} is too dense: it has fewer pairs without a link than {wanted}")
    found = np.zeros(0, np.int64)
    rounds = 0
    while found.size < wanted:
        shape = (2 * wanted, 2)
        # After many rounds, as in a star, there are too few pairs without a link among nodes of high degree.
        by_degree = kind == "degree" and rounds < DEGREE_ROUNDS
        ends = graph.indices[rng.integers(graph.num_arcs, size=shape)] if by_degree else rng.integers(size, size=shape)
        low, high = ends.min(axis=1).astype(np.int64), ends.max(axis=1).astype(np.int64)
        keys = low * size + high
        place = np.minimum(np.searchsorted(linked, keys), linked.size - 1)
        found = np.concatenate([found, keys[(low != high) & (linked[place] != keys)]])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
        rounds += 1
    pairs = np.stack(np.divmod(found[:wanted], size), axis=1)
    train, val, test = np.split(pairs, np.cumsum(counts)[:-1])
    return train, val, test


def score_embedding(task: LinkTask, values: NDArray[np.float32]) -> Scores:
    """Scores by the cosine and by the logistic regression, for both kinds of negatives."""
    centred = values - values.mean(axis=0)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    scaled = standardised(values)
    result: Scores = {}
    for kind, (train, val, test) in task.apart.items():
        result[f"cosine_{kind}"] = _cosine(unit, task.test), _cosine(unit, test)
        learnt = learn(scaled, (task.train, train), (task.val, val))
        result[f"probe_{kind}"] = learnt(task.test), learnt(test)
    return result


def standardised(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns with mean 0 and standard deviation 1, shape ``(N, d)``."""
    centred = values - values.mean(axis=0)
    return np.asarray(centred / np.maximum(centred.std(axis=0), 1e-12), np.float32)


def score_pairs(task: LinkTask, name: str, score: Any) -> Scores:
    """Scores by a function of pairs, for both kinds of negatives."""
    links = score(task.test)
    return {f"{name}_{kind}": (links, score(test)) for kind, (_, _, test) in task.apart.items()}


def score_baselines(task: LinkTask) -> Scores:
    """Training-free scores of pairs, for both kinds of negatives.

    ``degrees`` is the product of the two degrees, ``neighbours`` the common neighbours weighted by 1 / log degree
    (Adamic and Adar, 2003), ``paths`` the number of paths of length three divided by the degrees of the inner nodes.
    """
    adjacency = task.graph.replace(weights=None).adjacency()
    degree = np.asarray(adjacency.sum(axis=1), np.float64)
    rare = 1 / np.log(np.maximum(degree, 2))
    weighted = (adjacency * rare).tocsr()
    root = 1 / np.sqrt(np.maximum(degree, 1))
    middle = (adjacency.multiply(root[:, None]) * root).tocsr()

    def common(pairs: Pairs) -> NDArray[np.float64]:
        return np.asarray(weighted[pairs[:, 0]].multiply(adjacency[pairs[:, 1]]).sum(axis=1), np.float64)

    def paths(pairs: Pairs) -> NDArray[np.float64]:
        parts = np.array_split(pairs, max(len(pairs) // 256, 1))
        found = [(adjacency[part[:, 0]] @ middle).multiply(adjacency[part[:, 1]]).sum(axis=1) for part in parts]
        return np.asarray(np.concatenate(found), np.float64)

    def product(pairs: Pairs) -> NDArray[np.float64]:
        return degree[pairs[:, 0]] * degree[pairs[:, 1]]

    scores = {"degrees": product, "neighbours": common, "paths": paths}
    return {key: value for name, score in scores.items() for key, value in score_pairs(task, name, score).items()}


def ranked(scores: Scores) -> dict[str, float]:
    """AUC and average precision by scorer and kind of negatives, such as ``probe_degree_auc``."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    found = {}
    for name, (links, apart) in scores.items():
        truth, score = np.arange(len(links) + len(apart)) < len(links), np.concatenate([links, apart])
        found[f"{name}_auc"] = float(roc_auc_score(truth, score))
        found[f"{name}_ap"] = float(average_precision_score(truth, score))
    return found


def verdict(scores: Scores, which: str = "Links") -> str:
    """State whether an embedding ranks links better than training-free scores, on negatives of the same degrees.

    Args:
        scores: the results of `score_embedding`, `score_pairs` and `score_baselines` together.
        which: the links that were ranked.
    """
    by = {name.removesuffix("_degree"): both for name, both in scores.items() if name.endswith("_degree")}
    auc = {name: float(_placements(*both)[0].mean()) for name, both in by.items()}
    own = max((name for name in auc if name not in BASELINES), key=lambda name: auc[name])
    other = max((name for name in auc if name in BASELINES), key=lambda name: auc[name])
    low, high = difference(by[own], by[other])
    how = "beats" if low > 0 else "is above" if auc[own] > auc[other] else "does not beat"
    noise = ", within the noise of the pairs" if how == "is above" else ""
    text = (
        f"{which}: AUC {auc[own]:.2f} of the embedding ({own}) {how} the best training-free score, "
        f"{BASELINES[other]} ({auc[other]:.2f}), on pairs of the same degrees{noise}; "
        f"difference {low:+.2f} to {high:+.2f} (95%)."
    )
    if auc.get("cosine", 1) < 0.5:
        text += " A cosine AUC below 0.5 shows that linked nodes are less similar than others; use the probe."
    return text


def difference(one: tuple[NDArray[Any], NDArray[Any]], other: tuple[NDArray[Any], NDArray[Any]]) -> tuple[float, float]:
    """95% interval of the difference of two AUCs on the same pairs (DeLong, DeLong and Clarke-Pearson, 1988).

    Args:
        one: scores of the links, shape ``(M,)``, and of the pairs without one, by the first scorer.
        other: likewise by the second.
    """
    links, apart = (a - b for a, b in zip(_placements(*one), _placements(*other), strict=True))
    variance = sum(part.var(ddof=1) / part.size if part.size > 1 else math.inf for part in (links, apart))
    half = 1.96 * math.sqrt(variance)
    return max(float(links.mean()) - half, -1.0), min(float(links.mean()) + half, 1.0)


def _placements(links: NDArray[Any], apart: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each link the fraction of the other pairs below it, and for each of these that of the links above."""

    def below(values: NDArray[Any], among: NDArray[Any]) -> NDArray[np.float64]:
        ordered = np.sort(among)
        lower, upper = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
        return (lower + upper) / (2 * len(among))

    return below(links, apart), 1 - below(apart, links)


def _cosine(unit: NDArray[np.float32], pairs: Pairs) -> NDArray[np.float32]:
    return cast("NDArray[np.float32]", np.einsum("md,md->m", unit[pairs[:, 0]], unit[pairs[:, 1]]))


def learn(
    values: NDArray[np.float32], train: tuple[Pairs, Pairs], val: tuple[Pairs, Pairs]
) -> Callable[[Pairs], NDArray[Any]]:
    """Return a logistic regression on pairs as a function; the best on the validation pairs is taken.

    Args:
        values: vectors, shape ``(N, d)``.
        train: pairs with and without a link; the vectors may contain these links.
        val: likewise, not contained in the vectors: they choose the strength, and can be the examples, by folds.
    """
    from sklearn.metrics import roc_auc_score

    def examples(pairs: tuple[Pairs, Pairs]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        return features(np.concatenate(pairs)), np.arange(sum(map(len, pairs))) < len(pairs[0])

    def features(pairs: Pairs) -> NDArray[np.float32]:
        a, b = values[pairs[:, 0]], values[pairs[:, 1]]
        return np.hstack([a * b, np.abs(a - b)])

    x, y = examples(val)
    found = [(x @ weights, weights) for weights in _regressions(*examples(train))]
    if min(map(len, val)) >= 2 * FOLDS:
        fold = np.concatenate([np.arange(len(part)) % FOLDS for part in val])  # links are in random order
        scores = np.zeros((len(STRENGTHS), len(y)))
        for one in range(FOLDS):
            rest = fold != one
            scores[:, ~rest] = _regressions(x[rest], y[rest]) @ x[~rest].T
        hidden = zip(scores, _regressions(x, y), strict=True)
        found = [each for pair in zip(found, hidden, strict=True) for each in pair]  # the smallest strength of equals
    best = max(found, key=lambda each: float(roc_auc_score(y, each[0])))[1]
    return lambda pairs: features(pairs) @ best


def _regressions(x: NDArray[np.float32], y: NDArray[np.bool_]) -> NDArray[Any]:
    """Weights of a regression for each strength, shape ``(strengths, d)``; intercepts do not change a ranking."""
    from scipy.linalg import LinAlgWarning
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model, found = LogisticRegression(solver="newton-cholesky", warm_start=True), []
    with warnings.catch_warnings():
        # An ill-conditioned Hessian, as of columns that are nearly equal, makes the solver fall back to L-BFGS.
        for kind in (LinAlgWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", kind)
        for strength in STRENGTHS:  # upwards, each from the result of the one before
            found.append(model.set_params(C=strength).fit(x, y).coef_[0])
    return np.stack(found)
