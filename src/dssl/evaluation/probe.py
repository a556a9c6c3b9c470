r"""The linear probe: how well do frozen embeddings tell the classes apart?

A multinomial logistic regression is fitted on the training part of each split. Its strength C **and** the scaling of
the columns are chosen by the accuracy on the validation part; the test part is looked at once, afterwards.

Scalings, computed over all rows and never from labels (subtracting the mean changes no prediction, since the
intercept is not regularised; it only helps the solver):

``global``
    one number for all columns, such that their mean variance is 1. Keeps the relative sizes of the columns, which
    carry information in a spectral embedding.
``columns``
    each column to variance 1. Undoes a bad scale of single columns, and amplifies columns of noise.
``plain``
    the values as they are, as papers that say no more than "a linear classifier" probably do.

C means what it means in scikit-learn (C times the *sum* of the losses plus half the squared norm). The grid reaches
from 0.001, where the weights of a class are nearly its mean row, to 100, which hardly regularises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import DsslError, nearest
from dssl.evaluation import logistic
from dssl.rng import stream

if TYPE_CHECKING:
    import torch

Scaling = Literal["global", "columns", "plain"]

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SHARES = (0.6, 0.2, 0.2)
SCALINGS: tuple[Scaling, ...] = ("global", "columns")  # those that validation chooses from


class ProbeError(DsslError):
    """Labels, splits or embeddings do not allow a probe."""


class Split(NamedTuple):
    """Positions of the nodes of each part, int64, ascending, without overlap."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


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
        """Mean over the splits."""
        return float(self.values.mean())

    @property
    def std(self) -> float:
        """Standard deviation of a sample (divided by n − 1), 0 for a single split."""
        return float(self.values.std(ddof=1)) if self.values.size > 1 else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% confidence interval of the mean by Student's t, none for a single split.

        It speaks of the mean over splits of these nodes. The splits share nodes, so it is no statement about others.
        """
        if self.values.size < 2:
            return None
        from scipy.special import stdtrit

        half = float(stdtrit(self.values.size - 1, 0.975)) * self.std / math.sqrt(self.values.size)
        return (self.mean - half, self.mean + half)

    def to_json(self) -> dict[str, Any]:
        """Mean, standard deviation, interval and the value of each split."""
        interval = None if self.interval is None else list(self.interval)
        return {"mean": self.mean, "std": self.std, "interval": interval, "splits": list(self.splits)}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the probe found.

    Args:
        accuracy: share of test nodes with the right class.
        macro_f1: F1 averaged over the classes that occur in the test part or in its predictions.
        roc_auc: area under the ROC curve, for two classes only.
        val_accuracy: accuracy on validation of what was chosen there.
        chosen: scaling and C that each split chose.
    """

    accuracy: Score
    macro_f1: Score
    roc_auc: Score | None
    val_accuracy: Score
    chosen: tuple[tuple[Scaling, float], ...]

    def to_json(self) -> dict[str, Any]:
        """A dictionary for ``evaluation.json``."""
        scores = {"accuracy": self.accuracy, "macro_f1": self.macro_f1, "roc_auc": self.roc_auc}
        scores["val_accuracy"] = self.val_accuracy
        found: dict[str, Any] = {name: score.to_json() for name, score in scores.items() if score is not None}
        found["chosen"] = [{"scaling": scaling, "strength": strength} for scaling, strength in self.chosen]
        return found


def random_splits(
    y: ArrayLike, *, count: int = 10, shares: tuple[float, float, float] = SHARES, seed: int = 0
) -> list[Split]:
    """Draw random splits of the labelled nodes, not stratified, as in the paper.

    Args:
        y: class of each node, −1 where unknown, shape ``(N,)``.
        count: number of splits.
        shares: shares of train, validation and test, which add up to 1.
        seed: split i depends on the seed, i and the number of labelled nodes only.

    >>> [part.tolist() for part in random_splits([0, 1, -1, 1, 0, 1], count=1)[0]]
    [[3, 4, 5], [0], [1]]
    """
    if min(shares) <= 0 or not math.isclose(sum(shares), 1):
        raise ProbeError(
            f"the shares of train, validation and test are {shares}; give three positive ones that sum to 1"
        )
    if count < 1:
        raise ProbeError(f"the number of splits is {count}; give at least 1")
    labelled = np.flatnonzero(np.asarray(y) >= 0)
    n = labelled.size
    train, val = round(shares[0] * n), round(shares[1] * n)
    if min(train, val, n - train - val) < 1:
        raise ProbeError(
            f"{n} labelled nodes are too few for a split into {shares}; label more, or leave the probe out"
        )
    orders = [stream(seed, "splits", i).permutation(labelled) for i in range(count)]
    return [Split(*map(np.sort, np.split(order, [train, train + val]))) for order in orders]


def linear_probe(
    values: NDArray[np.floating[Any]],
    y: ArrayLike,
    splits: Sequence[Split],
    *,
    scalings: Sequence[Scaling] = SCALINGS,
    strengths: Sequence[float] = STRENGTHS,
) -> ProbeResult:
    """Fit and score logistic regressions on frozen embeddings.

    Args:
        values: embeddings, shape ``(N, d)``.
        y: class of each node, −1 where unknown, shape ``(N,)``.
        splits: parts of the labelled nodes.
        scalings: scalings to choose from on validation; ``("plain",)`` is the paper-like variant.
        strengths: values of C to choose from on validation.
    """
    values, labels = np.asarray(values), np.asarray(y, dtype=np.int64)
    _check(values, labels, splits, scalings, strengths)
    check_splits(splits, labels)
    candidates = _fit(values, labels, splits, scalings, strengths)
    chosen = [_choose(candidates, labels, split, at) for at, split in enumerate(splits)]  # sees validation only
    tests = [_test(choice, labels, split, at) for at, (choice, split) in enumerate(zip(chosen, splits, strict=True))]
    binary = candidates[0].num_classes == 2
    return ProbeResult(
        accuracy=Score(tuple(test[0] for test in tests)),
        macro_f1=Score(tuple(test[1] for test in tests)),
        roc_auc=Score(tuple(test[2] for test in tests)) if binary and any(t[2] is not None for t in tests) else None,
        val_accuracy=Score(tuple(choice.val_accuracy for choice in chosen)),
        chosen=tuple((choice.fits.scaling, choice.fits.strengths[choice.strength]) for choice in chosen),
    )


def validation_accuracy(
    values: NDArray[np.floating[Any]],
    y: ArrayLike,
    splits: Sequence[Split],
    *,
    scalings: Sequence[Scaling] = SCALINGS,
    strengths: Sequence[float] = STRENGTHS,
) -> Score:
    """Accuracy on validation of what `linear_probe` would choose there; test parts may be empty, and are not read.

    Args:
        values: embeddings, shape ``(N, d)``.
        y: class of each node of train and validation, shape ``(N,)``.
        splits: parts of the labelled nodes.
        scalings: scalings to choose from.
        strengths: values of C to choose from.
    """
    blind = [Split(split.train, split.val, np.zeros(0, np.int64)) for split in splits]
    values, labels = np.asarray(values), np.asarray(y, dtype=np.int64)
    _check(values, labels, blind, scalings, strengths)
    check_splits(blind, labels, tested=False)
    candidates = _fit(values, labels, blind, scalings, strengths)
    return Score(tuple(_choose(candidates, labels, split, at).val_accuracy for at, split in enumerate(blind)))


def check_splits(splits: Sequence[Split], y: ArrayLike, *, tested: bool = True) -> None:
    """Refuse splits that share nodes between parts, have an empty part, or hold nodes without a label.

    Labelled nodes in no part are allowed, since published splits have them: Cora's of Geom-GCN and two of CiteSeer's
    cover the largest component only, and the public ones of Planetoid about a half of the nodes or less.

    Args:
        splits: positions of nodes.
        y: class of each node, −1 where unknown, shape ``(N,)``.
        tested: whether the test part must have nodes.
    """
    labels = np.asarray(y)
    for at, split in enumerate(splits):
        nodes = np.concatenate(split)
        if not all(part.size for part in (split if tested else split[:2])):
            raise ProbeError(f"split {at} has an empty part; train, validation and test need a node each")
        if nodes.min() < 0 or nodes.max() >= labels.size:
            raise ProbeError(f"split {at} holds a node that a graph of {labels.size} nodes does not have")
        if np.unique(nodes).size != nodes.size:
            raise ProbeError(f"split {at} has a node twice; train, validation and test must not overlap")
        if (labels[nodes] < 0).any():
            raise ProbeError(f"split {at} holds a node without a label; split the labelled nodes only")


def scaled(values: NDArray[np.floating[Any]], scaling: Scaling) -> NDArray[np.float32]:
    """Centre the columns, and scale them together, one by one, or not at all; constant columns become 0."""
    centred = np.asarray(values - values.mean(axis=0, dtype=np.float64), dtype=np.float32)
    if scaling == "plain":
        return centred
    deviation = np.sqrt(np.square(centred).mean(axis=0, dtype=np.float64))
    constant = deviation <= 1e-6 * np.abs(values).max(axis=0, initial=0)  # what is left is rounding
    deviation[constant] = 0
    centred[:, constant] = 0
    if scaling == "global":
        deviation[:] = math.sqrt(np.square(deviation).mean())
    centred /= np.where(deviation > 0, deviation, 1).astype(np.float32)
    return centred


def _fit(
    values: NDArray[np.floating[Any]],
    labels: NDArray[np.int64],
    splits: Sequence[Split],
    scalings: Sequence[Scaling],
    strengths: Sequence[float],
) -> list[_Fits]:
    with logistic.one_thread(), ThreadPoolExecutor(max_workers=2) as pool:
        fitted = [pool.submit(_Fits.of, values, labels, splits, scaling, strengths) for scaling in scalings]
        return [future.result() for future in fitted]


@dataclass(frozen=True, slots=True, eq=False)
class _Fits:
    """The fits of one scaling for all splits and strengths: weights of shape ``(r+1, K, splits, strengths)``."""

    scaling: Scaling
    strengths: tuple[float, ...]
    x: torch.Tensor
    weights: torch.Tensor

    @property
    def num_classes(self) -> int:
        return int(self.weights.shape[1])

    @classmethod
    def of(
        cls,
        values: NDArray[np.floating[Any]],
        labels: NDArray[np.int64],
        splits: Sequence[Split],
        scaling: Scaling,
        strengths: Sequence[float],
    ) -> _Fits:
        import torch

        used = np.unique(np.concatenate([split.train for split in splits]))
        rows = logistic.principal_rows(scaled(values, scaling), used)
        masks = torch.zeros(used.size, len(splits))
        for at, split in enumerate(splits):
            masks[np.searchsorted(used, split.train), at] = 1
        weights = logistic.fit_path(
            logistic.Rows(rows.x[used], rows.axes),
            torch.from_numpy(labels[used]),
            masks,
            sorted(strengths),
            num_classes=int(labels.max()) + 1,
        )
        return cls(scaling, tuple(sorted(strengths)), rows.x, weights)

    def log_probabilities(self, nodes: NDArray[np.int64], split: int) -> NDArray[np.float32]:
        """Of each class, for the fits of one split, shape ``(n, K, strengths)``."""
        found: NDArray[np.float32] = logistic.logits(self.x[nodes], self.weights[:, :, split]).log_softmax(1).numpy()
        return found


class _Choice(NamedTuple):
    fits: _Fits
    strength: int
    val_accuracy: float


def _choose(candidates: Sequence[_Fits], labels: NDArray[np.int64], split: Split, at: int) -> _Choice:
    """Best accuracy on validation; among equals the one that finds the validation classes most probable."""
    options = []
    for fits in candidates:
        log_p = fits.log_probabilities(split.val, at)
        accuracy = (log_p.argmax(1) == labels[split.val][:, None]).mean(0)
        likelihood = log_p[np.arange(split.val.size), labels[split.val]].mean(0, dtype=np.float64)
        options += [(accuracy[c], likelihood[c], fits, c) for c in range(len(fits.strengths))]
    accuracy, _, fits, strength = max(options, key=lambda option: option[:2])
    return _Choice(fits, strength, float(accuracy))


def _test(choice: _Choice, labels: NDArray[np.int64], split: Split, at: int) -> tuple[float, float, float | None]:
    """Accuracy, macro-F1 and ROC-AUC (two classes) of the choice: the only place that reads test labels."""
    log_p = choice.fits.log_probabilities(split.test, at)[:, :, choice.strength]
    truth, predicted = labels[split.test], log_p.argmax(1)
    auc = roc_auc(truth == 1, log_p[:, 1] - log_p[:, 0]) if log_p.shape[1] == 2 else None
    return float((predicted == truth).mean()), macro_f1(truth, predicted), auc


def macro_f1(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """F1 averaged over the classes that occur in either array.

    >>> macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1]))
    0.6666666666666666
    """
    size = int(max(truth.max(), predicted.max())) + 1
    hits = np.bincount(truth[truth == predicted], minlength=size)
    occurrences = np.bincount(truth, minlength=size) + np.bincount(predicted, minlength=size)
    present = occurrences > 0
    return float((2 * hits[present] / occurrences[present]).mean())


def roc_auc(truth: NDArray[np.bool_], score: NDArray[np.floating[Any]]) -> float | None:
    """Chance that a true one scores above a false one, ties half; none when one of the two is missing.

    >>> roc_auc(np.array([False, True, True]), np.array([0.1, 0.9, 0.1]))
    0.75
    """
    from scipy.stats import rankdata

    positive = int(truth.sum())
    negative = truth.size - positive
    if not positive or not negative:
        return None
    ranks = rankdata(score)[truth].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def _check(
    values: NDArray[Any],
    labels: NDArray[np.int64],
    splits: Sequence[Split],
    scalings: Sequence[str],
    strengths: Sequence[float],
) -> None:
    if values.ndim != 2 or labels.shape != values.shape[:1]:
        raise ProbeError(
            f"embeddings of shape {values.shape} for labels of shape {labels.shape}; give one row per label"
        )
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise ProbeError(f"the embedding of the node at position {row} is NaN or infinite; the training diverged")
    if not splits or not scalings or not strengths:
        raise ProbeError("the probe needs at least one split, one scaling and one strength")
    for scaling in scalings:
        if scaling not in get_args(Scaling):
            hint = nearest(str(scaling), get_args(Scaling))
            raise ProbeError(f"unknown scaling {scaling!r}{hint or ''}; use one of {', '.join(get_args(Scaling))}")
    if not min(strengths) > 0:
        raise ProbeError(f"a strength C is {min(strengths)}; strengths are positive")
    if np.unique(labels[labels >= 0]).size < 2:
        raise ProbeError("fewer than two classes have labelled nodes; a probe needs at least two")
