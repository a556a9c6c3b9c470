"""`dssl.evaluate` and `dssl.link_predictor`: a model, or vectors from anywhere, on a graph in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError
from dssl.evaluation import evaluate as evaluation
from dssl.evaluation import link_prediction
from dssl.evaluation.metrics import Measure
from dssl.evaluation.probe import ClassWeight
from dssl.evaluation.regression import evaluate_target
from dssl.evaluation.splits import Budget, random_splits
from dssl.graph import Graph
from dssl.graph.preparation import links as prepare
from dssl.model.checks import check_graph
from dssl.model.embeddings import Embeddings
from dssl.model.estimator import Embedder
from dssl.runtime import notebook


class Results(dict[str, Any]):
    """The content of ``evaluation.json``, printed as a table with its verdict."""

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value and 95% interval of each measure, the baselines by the measure of the probe."""
        probe = self.get("probe", {})
        by = probe.get("measure", "accuracy")
        scores = {f"probe {name}": score for name, score in probe.items() if isinstance(score, Mapping)}
        scores |= {f"{by} of {name}": found[by] for name, found in self.get("sanity", {}).items()}
        found = [(name.replace("_", " "), f"{score['mean']:.3f}", _interval(score)) for name, score in scores.items()]
        for part in ("kmeans", "links", "label_free"):
            values = {name: value for name, value in self.get(part, {}).items() if value is not None}
            found += [(f"{part} {name}".replace("_", " "), f"{value:.3f}", "") for name, value in values.items()]
        return found

    def __repr__(self) -> str:
        rows = self.rows()
        width = max((len(name) for name, _, _ in rows), default=0)
        lines = [f"{name:<{width}}  {value:>7}  {interval}".rstrip() for name, value, interval in rows]
        verdicts = [self[name] for name in ("verdict", "links_verdict") if name in self]
        return "\n".join([*lines, *verdicts, *(f"no {part}: {why}" for part, why in self.get("skipped", {}).items())])

    def _repr_html_(self) -> str:
        return notebook.grid(self.get("verdict", "Evaluation"), ["measure", "value", "95% interval"], self.rows())


def _interval(score: Mapping[str, Any]) -> str:
    return "" if score.get("interval") is None else "{:.3f} to {:.3f}".format(*score["interval"])


def evaluate(
    vectors: Embedder | Embeddings | ArrayLike,
    graph: Graph,
    *,
    target: ArrayLike | None = None,
    splits: int = 10,
    labels: str = "",
    measure: Measure | None = None,
    class_weight: ClassWeight = "none",
    baselines: bool = True,
    links: bool | Sequence[tuple[Any, Any]] = False,
    seed: int = 0,
) -> Results:
    """Evaluate vectors of a graph: linear probe, clusters, label-free measures and training-free baselines.

    Args:
        vectors: a fitted model, embeddings with ids, or a matrix with one row per node, shape ``(N, d)``.
        graph: the graph; its labels are used if it has any.
        target: a number per node in place of the labels, NaN where unknown, shape ``(N,)``: a ridge probe and R².
        splits: number of random splits.
        labels: number of training labels, such as ``20/class`` or ``1%``; by default 60% of the labels.
        measure: measure of the probe and the verdict; by default the one that suits the labels.
        class_weight: weights of the classes in the probe.
        baselines: whether to include training-free baselines and the verdict.
        links: whether to add link prediction: a model is trained again without the held-out links. Or pairs of ids
            that are linked later than all edges of the graph, in the order of their time: no training is needed.
        seed: seed of the splits.

    Returns:
        A dictionary with the content of ``evaluation.json``, which prints as a table.
    """
    values = _matrix(vectors, graph)
    plain = prepare(graph, directed=False, self_loops="remove")
    if target is not None:
        y = np.asarray(target, np.float64)
        if y.shape != (graph.num_nodes,):
            raise DsslError(f"target of shape {y.shape} for {graph.num_nodes} nodes; give one number per node")
        return Results(evaluate_target(plain, values, y, splits=splits, seed=seed, sanity=baselines))
    drawn: int | Sequence[Any] = splits
    if labels and graph.y is not None:
        drawn = random_splits(graph.y, count=splits, seed=seed, budget=Budget.parse(labels))
    found = evaluation.evaluate(
        plain, values, splits=drawn, measure=measure, class_weight=class_weight, sanity=baselines, seed=seed
    )
    if links is not False:
        if links is not True:
            task = link_prediction.after(graph, _new_pairs(links, graph), seed=seed)
        elif isinstance(vectors, Embedder):
            task = link_prediction.hold_out(graph, seed=seed)
            values = Embedder.from_config(vectors.config, encoder=vectors._module).fit(task.graph).embeddings_.values
        else:
            raise DsslError("links needs a model, which is trained again without the held-out links")
        scores = link_prediction.score_embedding(task, values) | link_prediction.score_baselines(task)
        found["links"], found["links_verdict"] = link_prediction.ranked(scores), link_prediction.verdict(scores)
    return Results(found)


def _new_pairs(pairs: Sequence[tuple[Any, Any]], graph: Graph) -> NDArray[np.int64]:
    """Positions of pairs of ids, each once, without those that are linked in the graph, shape ``(M, 2)``."""
    ends = np.sort(_positions(pairs, graph), axis=1)
    old = np.sort(np.stack([graph.sources(), graph.indices], axis=1), axis=1).astype(np.int64)
    keys, linked = (part[:, 0] * graph.num_nodes + part[:, 1] for part in (ends, old))
    new = (ends[:, 0] != ends[:, 1]) & ~np.isin(keys, linked)
    return cast("NDArray[np.int64]", ends[new][np.sort(np.unique(keys[new], return_index=True)[1])])


def _positions(pairs: Sequence[tuple[Any, Any]], graph: Graph) -> NDArray[np.int64]:
    """Positions of the ends of pairs of ids, shape ``(M, 2)``."""
    given: Sequence[Any] = pairs
    if not all(isinstance(pair, (tuple, list, np.ndarray)) and len(pair) == 2 for pair in given):
        raise DsslError("pairs are not pairs of ids; give a list such as [(first, second)]")
    ends = [graph.positions(pa.array([pair[side] for pair in pairs])) for side in (0, 1)]
    return np.stack(ends, axis=1).astype(np.int64)


class LinkPredictor:
    """A logistic regression on pairs of vectors; `dssl.link_predictor` makes one."""

    def __init__(self, graph: Graph, score: Any) -> None:
        self._graph, self._score = graph, score

    def scores(self, pairs: Sequence[tuple[Any, Any]]) -> NDArray[np.float64]:
        """Return a score per pair of ids, above 0 for a probable link, shape ``(M,)``."""
        if not len(pairs):
            return np.zeros(0)
        return cast("NDArray[np.float64]", self._score(_positions(pairs, self._graph)))

    def probabilities(self, pairs: Sequence[tuple[Any, Any]]) -> NDArray[np.float64]:
        """Return the probability of a link per pair of ids, against as many pairs of the same degrees without one."""
        return 1 / (1 + np.exp(-self.scores(pairs)))


def link_predictor(
    vectors: Embedder | Embeddings | ArrayLike, graph: Graph, *, negatives: str = "degree", seed: int = 0
) -> LinkPredictor:
    """Train a predictor of links on the links of a graph and on pairs without a link.

    The vectors contain the links of their own graph. Use `dssl.evaluate` with ``links=True`` for the accuracy on links
    that are held out.

    Args:
        vectors: a fitted model, embeddings with ids, or a matrix with one row per node, shape ``(N, d)``.
        graph: the graph.
        negatives: pairs without a link: ``uniform``, or ``degree`` for ends in proportion to their degree.
        seed: seed of these pairs.
    """
    if negatives not in link_prediction.KINDS:
        raise DsslError(f"negatives is {negatives!r}; use one of {', '.join(link_prediction.KINDS)}")
    values = _matrix(vectors, graph)
    task = link_prediction.hold_out(graph, seed=seed)
    train, val, _ = task.apart[negatives]
    scaled = link_prediction.standardised(values)
    return LinkPredictor(graph, link_prediction.learn(scaled, (task.train, train), (task.val, val)))


def _matrix(vectors: Embedder | Embeddings | ArrayLike, graph: Graph) -> NDArray[np.float32]:
    """The vectors of the nodes of a graph, in its order, shape ``(N, d)``."""
    check_graph(graph)
    if isinstance(vectors, Embedder):
        fitted: Embeddings | None = getattr(vectors, "embeddings_", None)
        vectors = fitted if fitted is not None and fitted.ids.equals(graph.ids) else vectors.embed(graph)
    return vectors[graph.ids] if isinstance(vectors, Embeddings) else np.asarray(vectors, np.float32)
