r"""Everything that is measured on an embedding: probe, clusters, label-free measures, sanity baselines.

`evaluate` returns the content of ``evaluation.json``. Parts that need labels are left out without them; labels that
do not allow a probe (one class, too few nodes) are named under ``skipped``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError
from dssl.evaluation.baselines import baseline_features
from dssl.evaluation.logistic import one_thread
from dssl.evaluation.probe import SCALINGS, SHARES, ProbeError, Scaling, Score, Split, linear_probe, random_splits
from dssl.graph import Graph, svd
from dssl.nn.health import effective_rank
from dssl.rng import integer, stream

UNIFORMITY_PAIRS = 100_000
CLUSTERS, CLUSTERED_NODES, CLUSTERED_COLUMNS = 8, 4096, 64  # of the clusters that stand in for unknown classes
TINY = np.finfo(np.float32).tiny  # leaves rows of zeros at zero

NAMES = {
    "majority": "the majority class",
    "raw": "the raw features",
    "smoothed": "the smoothed features S²X",
    "hops": "the features of the hops [X, PX, P²X]",
    "adjacency": "the SVD of the adjacency matrix",
    "random-encoder": "the encoder before training",
}


def evaluate(
    graph: Graph,
    values: NDArray[np.float32],
    *,
    seed: int = 0,
    splits: int | Sequence[Split] = 10,
    shares: tuple[float, float, float] = SHARES,
    scalings: Sequence[Scaling] = SCALINGS,
    sanity: bool = True,
    random_encoder: NDArray[np.float32] | None = None,
    factors: NDArray[np.float32] | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure an embedding of a graph.

    Args:
        graph: the graph, with or without labels.
        values: one row per node, shape ``(N, d)``.
        seed: of the random splits, k-means and sampled pairs.
        splits: how many random splits, or the splits themselves.
        shares: shares of train, validation and test in random splits.
        scalings: scalings that the probe chooses from on validation.
        sanity: whether to probe the training-free baselines, on the same splits.
        random_encoder: embedding by the encoder before training, shape ``(N, d)``, a further baseline.
        factors: how probable each factor is at each node, shape ``(N, K)``, for a label-free measure.
        on_stage: called with the name of each part before it starts.

    Returns:
        A dictionary of plain values: ``label_free``; with labels ``probe``, ``kmeans``, ``sanity`` and ``verdict``;
        ``skipped`` with a reason for what the labels do not allow.
    """
    values = _checked(graph, values)
    result: dict[str, Any] = {}
    with one_thread():
        on_stage("label-free measures")
        result["label_free"] = label_free(graph, values, seed=seed, factors=factors)
        if graph.y is None:
            return result
        labels = graph.y
        try:
            parts = random_splits(labels, count=splits, shares=shares, seed=seed) if isinstance(splits, int) else splits
            on_stage("linear probe")
            probe = linear_probe(values, labels, parts, scalings=scalings)
        except ProbeError as error:
            return result | {"skipped": {"probe": str(error)}}
        result["probe"] = probe.to_json()
        on_stage("k-means")
        result["kmeans"] = kmeans(values, labels, seed=seed)
        if sanity:
            scores = _sanity(graph, labels, parts, values.shape[1], scalings, random_encoder, on_stage)
            result["sanity"] = {
                name: {"dim": dim, "accuracy": score.to_json()} for name, (dim, score) in scores.items()
            }
            result["verdict"] = verdict(probe.accuracy, {name: score for name, (_, score) in scores.items()})
    return result


def label_free(
    graph: Graph, values: NDArray[np.float32], *, seed: int = 0, factors: NDArray[np.float32] | None = None
) -> dict[str, float | None]:
    """Measures that need no labels.

    ``effective_rank`` (RankMe): exp of the entropy of the singular values, 1 … d. ``alignment``: mean squared distance
    of linked unit rows, small if neighbours are alike. ``uniformity``: log of the mean of exp(−2 squared distance)
    over random pairs of unit rows, 0 if all rows point the same way and about −4 if they spread over the sphere.
    ``mean_direction``: squared norm of the mean unit row, 1 for a collapsed embedding. The rest is
    `calinski_harabasz` of three groupings of the nodes: ``calinski_harabasz``, eight clusters of the embedding;
    ``calinski_harabasz_features``, eight clusters of the features; ``calinski_harabasz_factors``, the most probable
    factor of each node, if ``factors`` of shape ``(N, K)`` are given.
    """
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    unit: NDArray[np.float32] = values / np.maximum(norms, TINY)
    rng = stream(seed, "uniformity")
    pairs = rng.integers(graph.num_nodes, size=(2, UNIFORMITY_PAIRS)) if graph.num_nodes > 1 else np.zeros((2, 0), int)
    pairs = pairs[:, pairs[0] != pairs[1]]
    arcs = np.arange(graph.num_arcs)
    if arcs.size > 10 * UNIFORMITY_PAIRS:
        arcs = np.sort(rng.integers(graph.num_arcs, size=10 * UNIFORMITY_PAIRS))
    linked = _squared_distances(unit, np.stack([graph.sources()[arcs], graph.indices[arcs]]))
    apart = _squared_distances(unit, pairs)
    return {
        "effective_rank": effective_rank(torch.from_numpy(values)),
        "alignment": float(linked.mean()) if linked.size else None,
        "uniformity": float(np.log(np.exp(-2 * apart).mean())) if apart.size else None,
        "mean_direction": float(np.square(unit.mean(axis=0, dtype=np.float64)).sum()),
        **_separation(graph, values, factors, seed=seed),
    }


def _separation(
    graph: Graph, values: NDArray[np.float32], factors: NDArray[np.float32] | None, *, seed: int
) -> dict[str, float | None]:
    """The Calinski–Harabasz index of groups that stand in for unknown classes, over a sample of the nodes."""
    nodes = np.arange(graph.num_nodes)
    if nodes.size > CLUSTERED_NODES:
        nodes = np.sort(stream(seed, "clustered nodes").permutation(nodes)[:CLUSTERED_NODES])
    rows = values[nodes]
    found = {"calinski_harabasz": calinski_harabasz(rows, clusters(rows, CLUSTERS, seed=seed))}
    if graph.x is not None:
        x = svd.truncated_svd(graph.x[nodes], min(CLUSTERED_COLUMNS, graph.x.shape[1]))
        found["calinski_harabasz_features"] = calinski_harabasz(rows, clusters(x, CLUSTERS, seed=seed))
    if factors is not None:
        known = factors[nodes].any(axis=1)  # a node without links has no factor
        found["calinski_harabasz_factors"] = calinski_harabasz(rows[known], factors[nodes][known].argmax(axis=1))
    return found


def calinski_harabasz(values: NDArray[np.float32], groups: NDArray[np.integer[Any]]) -> float | None:
    """Variance between the groups over variance within: how well they are told apart, above 0; none for one group.

    It grows with the number of rows and depends on the number of groups: compare it on one graph, with one number.
    """
    from sklearn.metrics import calinski_harabasz_score

    if not 1 < np.unique(groups).size < len(groups):
        return None
    return float(calinski_harabasz_score(values, groups))


def clusters(values: NDArray[np.float32], count: int, *, seed: int = 0, starts: int = 3) -> NDArray[np.int32]:
    """Clusters of the rows by k-means, the best of several starts, shape ``(N,)``."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    count = min(count, np.unique(values, axis=0).shape[0])
    model = KMeans(n_clusters=count, n_init=starts, random_state=integer(seed, "kmeans") % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ by rounding make fewer clusters
        found: NDArray[np.int32] = model.fit_predict(values)
    return found


def kmeans(values: NDArray[np.float32], y: ArrayLike, *, seed: int = 0) -> dict[str, float]:
    """Cluster all nodes into as many clusters as classes occur, and compare with the labels where there are some."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    labels = np.asarray(y)
    known = labels >= 0
    found = clusters(values, np.unique(labels[known]).size, seed=seed, starts=10)[known]
    truth = labels[known]
    return {
        "nmi": float(normalized_mutual_info_score(truth, found)),
        "ari": float(adjusted_rand_score(truth, found)),
        "accuracy": matched_accuracy(truth, found),
    }


def matched_accuracy(truth: NDArray[np.integer[Any]], found: NDArray[np.integer[Any]]) -> float:
    """Accuracy under the best one-to-one matching of clusters to classes.

    >>> matched_accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]))
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((int(truth.max()) + 1, int(found.max()) + 1), dtype=np.int64)
    np.add.at(table, (truth, found), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / truth.size)


def majority(y: ArrayLike, splits: Sequence[Split]) -> Score:
    """Accuracy of the most frequent class of the training part (the first of equals)."""
    labels = np.asarray(y)
    return Score(tuple(float((labels[s.test] == np.bincount(labels[s.train]).argmax()).mean()) for s in splits))


def verdict(accuracy: Score, baselines: dict[str, Score]) -> str:
    """Say in words whether the probe beats the best sanity baseline, split by split."""
    name, best = max(baselines.items(), key=lambda item: item[1].mean)
    here, there = f"{100 * accuracy.mean:.1f}%", f"{NAMES[name]} ({100 * best.mean:.1f}%)"
    if accuracy.mean <= best.mean:
        return f"The embedding ({here}) does not beat the best sanity baseline, {there}."
    interval = Score(tuple(accuracy.values - best.values)).interval
    if interval is None or interval[0] <= 0:
        return f"The embedding ({here}) is above the best sanity baseline, {there}, but within the noise of the splits."
    return f"The embedding ({here}) beats the best sanity baseline, {there}."


def across_seeds(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The probe over several trainings of one configuration, the spread over seeds apart from that over splits.

    Args:
        results: content of ``evaluation.json``, one for each seed, on the same splits.

    Returns:
        For each measure its ``mean``; ``seeds``, the means over splits of each seed as one score; ``splits``, the means
        over seeds of each split as another. The first tells what another training would change, the second what other
        test nodes would.
    """
    if len({result["splits"]["origin"] for result in results}) != 1:
        raise DsslError("the runs were judged on different splits; evaluate them together")
    found = {}
    for name in ("accuracy", "macro_f1", "roc_auc"):
        if all(name in result["probe"] for result in results):
            values = np.array([result["probe"][name]["splits"] for result in results], dtype=np.float64)
            values = values[:, ~np.isnan(values).any(axis=0)]  # a split without both classes in its test part
            by_seed, by_split = Score(tuple(values.mean(axis=1))), Score(tuple(values.mean(axis=0)))
            found[name] = {"mean": by_seed.mean, "seeds": by_seed.to_json(), "splits": by_split.to_json()}
    return found


def _sanity(
    graph: Graph,
    labels: NDArray[np.int64],
    splits: Sequence[Split],
    dim: int,
    scalings: Sequence[Scaling],
    random_encoder: NDArray[np.float32] | None,
    on_stage: Callable[[str], None],
) -> dict[str, tuple[int, Score]]:
    scores = {"majority": (0, majority(labels, splits))}
    on_stage("sanity baselines")
    for name, features in baseline_features(graph, dim=dim):
        on_stage(f"sanity baseline {name}")
        scores[name] = (features.shape[1], linear_probe(features, labels, splits, scalings=scalings).accuracy)
    if random_encoder is not None:
        on_stage("sanity baseline random-encoder")
        features = _checked(graph, random_encoder)
        scores["random-encoder"] = (
            features.shape[1],
            linear_probe(features, labels, splits, scalings=scalings).accuracy,
        )
    return scores


def _squared_distances(unit: NDArray[np.float32], pairs: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    blocks = [
        unit[a] - unit[b] for a, b in zip(*(np.array_split(end, 1 + end.size // 65536) for end in pairs), strict=True)
    ]
    return np.concatenate([np.einsum("md,md->m", block, block) for block in blocks])


def _checked(graph: Graph, values: NDArray[Any]) -> NDArray[np.float32]:
    array = np.asarray(values, dtype=np.float32)
    if array.ndim != 2 or array.shape[0] != graph.num_nodes or not array.shape[1]:
        raise DsslError(f"embeddings of shape {array.shape} for the {graph.num_nodes} nodes of graph {graph.name!r}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise DsslError(f"the embedding of node {graph.ids[row].as_py()!r} is NaN or infinite; the training diverged")
    return array
