r"""Measures of a classifier, which of them suits the labels, and their spread over splits.

Accuracy is the usual measure. Where the largest class holds at least three quarters of the labelled nodes, predicting
this class alone reaches an accuracy that hides everything else (`suitable_measure`): two classes are then measured by
the average precision of the rarer class, more classes by balanced accuracy, the mean recall of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError

Measure = Literal["accuracy", "balanced_accuracy", "macro_f1", "average_precision", "roc_auc"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
RANKED: tuple[Measure, ...] = ("average_precision", "roc_auc")  # of two classes, from scores instead of predictions
IMBALANCED = 0.75  # fraction of labelled nodes in the largest class from which accuracy does not suit


@dataclass(frozen=True, slots=True)
class Score:
    """A measure over the splits.

    Args:
        splits: the value of each split, none where the measure is not defined.

    >>> Score((0.7, 0.8)).mean
    0.75
    """

    splits: tuple[float | None, ...]

    @property
    def values(self) -> NDArray[np.float64]:
        """The values that are defined."""
        return np.array([value for value in self.splits if value is not None])

    @property
    def mean(self) -> float:
        """Mean over the splits; NaN if it is defined in none."""
        return float(self.values.mean()) if self.values.size else math.nan

    @property
    def std(self) -> float:
        """Standard deviation of a sample (divided by n − 1), 0 for a single split."""
        return float(self.values.std(ddof=1)) if self.values.size > 1 else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% confidence interval of the mean by Student's t, none for a single split.

        It describes the mean over splits of these nodes. The splits share nodes, so it does not extend to others.
        """
        if self.values.size < 2:
            return None
        from scipy.special import stdtrit

        half = float(stdtrit(self.values.size - 1, 0.975)) * self.std / math.sqrt(self.values.size)
        return (self.mean - half, self.mean + half)

    def minus(self, other: Score) -> Score:
        """The differences of the splits in which both are defined."""
        both = zip(self.splits, other.splits, strict=True)
        return Score(tuple(a - b for a, b in both if a is not None and b is not None))

    def to_json(self) -> dict[str, Any]:
        """Mean, standard deviation, interval and the value of each split."""
        interval = None if self.interval is None else list(self.interval)
        return {"mean": self.mean, "std": self.std, "interval": interval, "splits": list(self.splits)}


def suitable_measure(y: ArrayLike) -> tuple[Measure, str]:
    """Return the measure that suits the labels, and the reason in one sentence.

    Args:
        y: class of each node, −1 where unknown, shape ``(N,)``.

    >>> suitable_measure([0, 1, 1, -1])[0], suitable_measure([0] + 9 * [1])[0], suitable_measure([0, 2] + 9 * [1])[0]
    ('accuracy', 'average_precision', 'balanced_accuracy')
    """
    labels = np.asarray(y, dtype=np.int64)
    counts = np.bincount(labels[labels >= 0])
    largest = float(counts.max() / counts.sum()) if counts.size else 0.0
    if not IMBALANCED <= largest < 1:
        return "accuracy", "the usual measure; no class dominates the labels"
    reason = f"the largest class has {100 * largest:.1f}% of the labelled nodes, so that accuracy hides the others"
    if counts.size == 2:
        return "average_precision", f"{reason}; average precision of the rarer class"
    return "balanced_accuracy", f"{reason}; mean recall of the classes"


def measured(
    measure: Measure, truth: NDArray[np.int64], log_p: NDArray[np.floating[Any]], *, positive: int = 1
) -> float | None:
    """One measure of predicted log-probabilities; none where it is not defined.

    Args:
        measure: ``average_precision`` and ``roc_auc`` are defined for two classes that both occur in ``truth``.
        truth: class of each row, shape ``(n,)``.
        log_p: logarithm of the probability of each class, shape ``(n, K)``.
        positive: the class that the two ranked measures look for.
    """
    if measure in RANKED:
        return _ranked(measure, truth == positive, log_p[:, positive] - log_p[:, 1 - positive], log_p.shape[1])
    from sklearn.metrics import f1_score, recall_score

    predicted = log_p.argmax(1)
    if measure == "accuracy":
        return float((predicted == truth).mean())
    if measure == "macro_f1":
        return float(f1_score(truth, predicted, average="macro"))
    return float(recall_score(truth, predicted, average="macro", labels=np.unique(truth)))


def _ranked(measure: Measure, truth: NDArray[np.bool_], score: NDArray[Any], classes: int) -> float | None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    if classes != 2 or truth.all() or not truth.any():
        return None
    return float((roc_auc_score if measure == "roc_auc" else average_precision_score)(truth, score))


def rarer_class(y: ArrayLike) -> int:
    """The class with the fewest labelled nodes among those that occur (the last of equals)."""
    labels = np.asarray(y)
    counts = np.bincount(labels[labels >= 0])
    occurring = np.flatnonzero(counts)[::-1]
    return int(occurring[counts[occurring].argmin()])


def matched_accuracy(truth: NDArray[np.integer[Any]], found: NDArray[np.integer[Any]]) -> float:
    """Accuracy under the best one-to-one matching of clusters to classes.

    >>> matched_accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]))
    0.75
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(truth, found)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / truth.size)


def across_seeds(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The probe over several trainings of one configuration, with the spread over seeds and over splits apart.

    Args:
        results: content of ``evaluation.json``, one for each seed, on the same splits.

    Returns:
        For each measure its ``mean``; ``seeds``, the means over splits of each seed as one score; ``splits``, the means
        over seeds of each split as another. The first shows the effect of another training, the second that of other
        test nodes.
    """
    if len({result["splits"]["origin"] for result in results}) != 1:
        raise DsslError("the runs were evaluated on different splits; evaluate them together")
    found: dict[str, dict[str, Any]] = {}
    for name in MEASURES:
        if all(name in result["probe"] for result in results):
            values = np.array([result["probe"][name]["splits"] for result in results], dtype=np.float64)
            values = values[:, ~np.isnan(values).any(axis=0)]  # a split without both classes in its test part
            by_seed, by_split = Score(tuple(values.mean(axis=1))), Score(tuple(values.mean(axis=0)))
            found[name] = {"mean": by_seed.mean, "seeds": by_seed.to_json(), "splits": by_split.to_json()}
    return found
