r"""All measures of an embedding: probe, clusters, label-free measures, training-free baselines.

`evaluate` returns the content of ``evaluation.json``. Parts that need labels are left out without them; labels that
do not allow a probe (one class, too few nodes) are named under ``skipped``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError, ProbeError
from dssl.evaluation.baselines import NAMES, baseline_features, majority
from dssl.evaluation.label_free import clusters, label_free
from dssl.evaluation.metrics import Measure, Score, matched_accuracy, suitable_measure
from dssl.evaluation.probe import SCALINGS, ClassWeight, ProbeResult, Scaling, linear_probe
from dssl.evaluation.splits import SHARES, Split, random_splits
from dssl.graph import Graph
from dssl.runtime.processes import one_thread


def evaluate(
    graph: Graph,
    values: NDArray[np.float32],
    *,
    seed: int = 0,
    splits: int | Sequence[Split] = 10,
    shares: tuple[float, float, float] = SHARES,
    scalings: Sequence[Scaling] = SCALINGS,
    measure: Measure | None = None,
    class_weight: ClassWeight = "none",
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
        shares: fractions of train, validation and test in random splits.
        scalings: scalings that the probe chooses from on validation.
        measure: measure of the probe and of the verdict; by default the one that suits the labels.
        class_weight: weights of the classes in the probe.
        sanity: whether to probe the training-free baselines, on the same splits.
        random_encoder: embedding by the encoder before training, shape ``(N, d)``, a further baseline.
        factors: probability of each factor at each node, shape ``(N, K)``, for a label-free measure.
        on_stage: called with the name of each part before it starts.

    Returns:
        A dictionary of plain values: ``label_free``; with labels ``probe``, ``kmeans``, ``sanity`` and ``verdict``;
        ``skipped`` with a reason for each part that the labels do not allow.
    """
    values = _checked(graph, values)
    result: dict[str, Any] = {}
    with one_thread():
        on_stage("label-free measures")
        result["label_free"] = label_free(graph, values, seed=seed, factors=factors)
        if graph.y is None:
            return result
        labels = graph.y
        suited, reason = suitable_measure(labels)
        by = measure or suited
        reason = reason if by == suited else "as requested"

        def probed(columns: NDArray[np.float32]) -> ProbeResult:
            return linear_probe(columns, labels, parts, measure=by, class_weight=class_weight, scalings=scalings)

        try:
            parts = random_splits(labels, count=splits, shares=shares, seed=seed) if isinstance(splits, int) else splits
            on_stage("linear probe")
            probe = probed(values)
        except ProbeError as error:
            return result | {"skipped": {"probe": str(error)}}
        result["probe"] = {**probe.to_json(), "reason": reason, "class_weight": class_weight}
        on_stage("k-means")
        result["kmeans"] = kmeans(values, labels, seed=seed)
        if not sanity:
            return result
        on_stage("training-free baselines")
        baselines = {"majority": (0, majority(labels, parts))}
        for name, columns in baseline_features(graph, dim=values.shape[1]):
            on_stage(f"baseline {name}")
            baselines[name] = (columns.shape[1], probed(columns).scores)
        if random_encoder is not None:
            on_stage("baseline random-encoder")
            baselines["random-encoder"] = (random_encoder.shape[1], probed(_checked(graph, random_encoder)).scores)
        shown: tuple[Measure, ...] = ("accuracy", by) if by != "accuracy" else (by,)
        result["sanity"] = {
            name: {"dim": dim, **{each: scores[each].to_json() for each in shown}}
            for name, (dim, scores) in baselines.items()
        }
        result["verdict"] = verdict(probe.score, {name: scores[by] for name, (_, scores) in baselines.items()}, by)
    return result


def kmeans(values: NDArray[np.float32], y: ArrayLike, *, seed: int = 0) -> dict[str, float]:
    """Cluster all nodes into as many clusters as classes occur, and compare with the known labels."""
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


def verdict(score: Score, baselines: Mapping[str, Score], measure: Measure | Literal["r2"] = "accuracy") -> str:
    """State in one sentence whether the probe beats the best training-free baseline, split by split."""
    name, best = max(baselines.items(), key=lambda item: item[1].mean)
    if measure == "r2":
        of, (here, there) = "R² ", (f"{each.mean:.2f}" for each in (score, best))
    else:
        of = "" if measure == "accuracy" else f"{measure.replace('_', ' ')} "
        here, there = (f"{100 * each.mean:.1f}%" for each in (score, best))
    how, noise = "does not beat", ""
    if score.mean > best.mean:
        interval = score.minus(best).interval
        clear = interval is not None and interval[0] > 0
        how, noise = ("beats", "") if clear else ("is above", ", within the noise of the splits")
    return f"The embedding ({of}{here}) {how} the best training-free baseline, {NAMES[name]} ({there}){noise}."


def _checked(graph: Graph, values: NDArray[Any]) -> NDArray[np.float32]:
    array = np.asarray(values, dtype=np.float32)
    if array.ndim != 2 or array.shape[0] != graph.num_nodes or not array.shape[1]:
        raise DsslError(f"embeddings of shape {array.shape} for the {graph.num_nodes} nodes of graph {graph.name!r}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise DsslError(f"the embedding of node {graph.ids[row].as_py()!r} is NaN or infinite; the training diverged")
    return array
