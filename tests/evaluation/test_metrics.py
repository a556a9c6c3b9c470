"""Scores over splits, the measure that suits the labels, and measures where they are not defined."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from dssl.errors import DsslError
from dssl.evaluation.metrics import Score, across_seeds, matched_accuracy, measured, rarer_class, suitable_measure


def test_scores() -> None:
    score = Score((0.5, 0.7, None, 0.9))
    assert score.mean == pytest.approx(0.7)
    assert score.std == pytest.approx(0.2)
    half = 4.302652729911275 * 0.2 / np.sqrt(3)  # Student's t with 2 degrees of freedom
    assert score.interval == pytest.approx((0.7 - half, 0.7 + half))
    assert Score((0.5,)).interval is None
    assert np.isnan(Score((None,)).mean)


@pytest.mark.parametrize(
    ("counts", "measure"),
    [
        ((50, 50), "accuracy"),
        ((74, 26), "accuracy"),
        ((75, 25), "average_precision"),
        ((3, 97), "average_precision"),
        ((74, 20, 6), "accuracy"),
        ((80, 15, 5), "balanced_accuracy"),
        ((90, 0, 10), "balanced_accuracy"),
        ((10, 0), "accuracy"),
    ],
)
def test_the_measure_follows_the_largest_class(counts: tuple[int, ...], measure: str) -> None:
    y = np.concatenate([[-1] * 500, np.repeat(np.arange(len(counts)), counts)])
    found, reason = suitable_measure(y)
    assert found == measure
    assert measure == "accuracy" or f"{max(counts)}.0% of the labelled nodes" in reason


def test_the_ranked_measures_look_for_the_rarer_class_and_need_both() -> None:
    y = np.array([0, 1, 1, 1, -1, 1])
    assert rarer_class(y) == 0
    assert rarer_class([0, 1]) == 1
    p = np.array([0.9, 0.4, 0.1, 0.6, 0.3])
    log_p = np.log(np.stack([p, 1 - p], axis=1))
    truth = y[y >= 0]
    expected = average_precision_score(truth == 0, p)
    assert measured("average_precision", truth, log_p, positive=0) == pytest.approx(expected)
    assert measured("roc_auc", truth[1:], log_p[1:], positive=0) is None
    assert measured("roc_auc", truth, np.log(np.full((5, 3), 1 / 3)), positive=0) is None


def test_matched_accuracy_against_all_permutations():
    rng = np.random.default_rng(0)
    for _ in range(20):
        truth, found = rng.integers(4, size=25), rng.integers(4, size=25)
        best = max((np.array(order)[found] == truth).mean() for order in itertools.permutations(range(4)))
        assert matched_accuracy(truth, found) == pytest.approx(best)


def test_spread_over_seeds_and_over_splits_are_kept_apart():
    table = np.array([[0.5, 0.7, 0.9], [0.6, 0.8, 1.0]])  # two seeds, three splits

    def result(row: np.ndarray, origin: str = "here") -> dict[str, Any]:
        values = {"accuracy": {"splits": list(row)}, "roc_auc": {"splits": [None, *row[1:]]}}
        return {"splits": {"origin": origin}, "probe": values}

    found = across_seeds([result(row) for row in table])
    accuracy = found["accuracy"]
    assert accuracy["mean"] == pytest.approx(table.mean())
    assert accuracy["seeds"]["splits"] == pytest.approx([0.7, 0.8])
    assert accuracy["seeds"]["std"] == pytest.approx(np.std([0.7, 0.8], ddof=1))
    assert accuracy["splits"]["splits"] == pytest.approx([0.55, 0.75, 0.95])
    assert accuracy["splits"]["std"] == pytest.approx(np.std([0.55, 0.75, 0.95], ddof=1))
    assert accuracy["seeds"]["interval"][0] < 0.75 < accuracy["seeds"]["interval"][1]
    assert found["roc_auc"]["splits"]["splits"] == pytest.approx([0.75, 0.95])
    assert "macro_f1" not in found
    with pytest.raises(DsslError, match="different splits"):
        across_seeds([result(table[0]), result(table[1], "there")])
