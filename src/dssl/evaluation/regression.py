"""Numeric targets: the ridge probe of an embedding compared with training-free baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.evaluation.baselines import baseline_features
from dssl.evaluation.evaluate import verdict
from dssl.evaluation.metrics import Score
from dssl.evaluation.ridge import ridge_probe
from dssl.evaluation.splits import SHARES, random_splits
from dssl.graph import Graph


def evaluate_target(
    graph: Graph,
    values: NDArray[np.float32],
    target: ArrayLike,
    *,
    splits: int = 10,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
    sanity: bool = True,
    on_stage: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure how well an embedding predicts a number per node.

    Args:
        graph: the graph.
        values: one row per node, shape ``(N, d)``.
        target: a number per node, NaN where unknown, shape ``(N,)``.
        splits: number of random splits.
        shares: fractions of train, validation and test.
        seed: seed of the splits.
        sanity: whether to probe the training-free baselines, on the same splits.
        on_stage: called with the name of each part before it starts.

    Returns:
        A dictionary of plain values: ``probe``, ``sanity`` and ``verdict``.
    """
    y = np.asarray(target, np.float64)
    parts = random_splits(np.where(np.isnan(y), -1, 0), count=splits, shares=shares, seed=seed)
    on_stage("ridge probe")
    probe = ridge_probe(values, y, parts)
    result: dict[str, Any] = {"probe": probe.to_json()}
    if not sanity:
        return result
    found = {}
    scores = {"constant": Score((0.0,) * len(parts))}
    for name, columns in baseline_features(graph, dim=values.shape[1]):
        on_stage(f"baseline {name}")
        scores[name] = ridge_probe(columns, y, parts).r2
        found[name] = {"dim": columns.shape[1], "r2": scores[name].to_json()}
    result["sanity"] = found
    result["verdict"] = verdict(probe.r2, scores, "r2")
    return result
