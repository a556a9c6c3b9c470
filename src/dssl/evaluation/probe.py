r"""The linear probe: how well does a linear classifier separate the classes in frozen embeddings?

A multinomial logistic regression is fitted on the training part of each split. Its strength C **and** the scaling of
the columns are chosen by a measure on the validation part; the test part is used once, afterwards.

Scalings, computed over all rows and never from labels (subtracting the mean changes no prediction, since the
intercept is not regularised; it only helps the solver):

``global``
    one number for all columns, such that their mean variance is 1. Keeps the relative sizes of the columns, which
    carry information in a spectral embedding.
``columns``
    each column to variance 1. Undoes a bad scale of single columns, and amplifies columns of noise.
``plain``
    the values as they are, as in papers that mention no more than "a linear classifier".

C is that of scikit-learn (C times the *sum* of the losses plus half the squared norm). The grid reaches
from 0.001, where the weights of a class are nearly its mean row, to 100, which regularises little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import ProbeError, nearest
from dssl.evaluation.metrics import MEASURES, RANKED, Measure, Score, measured, rarer_class
from dssl.evaluation.splits import Split, check_splits
from dssl.runtime.processes import one_thread

if TYPE_CHECKING:
    import torch

Scaling = Literal["global", "columns", "plain"]
ClassWeight = Literal["none", "balanced"]

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SCALINGS: tuple[Scaling, ...] = ("global", "columns")  # those that validation chooses from


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Scores of the probe.

    Args:
        measure: the measure that chose scaling and C on validation.
        scores: score on test by measure: accuracy, balanced accuracy, macro F1 over the classes that occur in the test
            part or in its predictions, and for two classes average precision of the rarer one and area under the ROC
            curve. Empty if nothing was tested.
        validation: the measure on validation, of the chosen scaling and C.
        chosen: scaling and C of each split.
    """

    measure: Measure
    scores: dict[Measure, Score]
    validation: Score
    chosen: tuple[tuple[Scaling, float], ...]

    @property
    def score(self) -> Score:
        """The score on test by the measure that chose."""
        return self.scores[self.measure]

    @property
    def accuracy(self) -> Score:
        """Fraction of test nodes with the right class."""
        return self.scores["accuracy"]

    def to_json(self) -> dict[str, Any]:
        """A dictionary for ``evaluation.json``."""
        return {
            "measure": self.measure,
            **{name: score.to_json() for name, score in self.scores.items()},
            f"val_{self.measure}": self.validation.to_json(),
            "chosen": [{"scaling": scaling, "strength": strength} for scaling, strength in self.chosen],
        }


def linear_probe(
    values: NDArray[np.floating[Any]],
    y: ArrayLike,
    splits: Sequence[Split],
    *,
    measure: Measure = "accuracy",
    class_weight: ClassWeight = "none",
    scalings: Sequence[Scaling] = SCALINGS,
    strengths: Sequence[float] = STRENGTHS,
    tested: bool = True,
) -> ProbeResult:
    """Fit and score logistic regressions on frozen embeddings.

    Args:
        values: embeddings, shape ``(N, d)``.
        y: class of each node, −1 where unknown, shape ``(N,)``.
        splits: parts of the labelled nodes.
        measure: what scaling and C are chosen by on validation.
        class_weight: ``balanced`` weighs each training node by the inverse frequency of its class, as in scikit-learn.
        scalings: scalings to choose from on validation; ``("plain",)`` is the paper-like variant.
        strengths: values of C to choose from on validation.
        tested: without it the test parts are not read and may be empty, and there are no scores on test.
    """
    values, labels = np.asarray(values), np.asarray(y, dtype=np.int64)
    if not tested:
        splits = [Split(split.train, split.val, np.zeros(0, np.int64)) for split in splits]
    _check(values, labels, splits, scalings, strengths, measure)
    check_splits(splits, labels, tested=tested)
    with one_thread(), ThreadPoolExecutor(max_workers=2) as pool:
        fitted = [
            pool.submit(_Fits.of, values, labels, splits, scaling, strengths, class_weight) for scaling in scalings
        ]
        candidates = [future.result() for future in fitted]
    positive = rarer_class(labels)
    choices = [_choose(candidates, labels, split, at, measure, positive) for at, split in enumerate(splits)]
    scores: dict[Measure, Score] = {}
    for name in MEASURES if tested else ():
        found = [
            _test(name, choice, labels, split, at, positive)
            for at, (choice, split) in enumerate(zip(choices, splits, strict=True))
        ]
        if any(value is not None for value in found):
            scores[name] = Score(tuple(found))
    if tested and measure not in scores:
        raise ProbeError(f"{measure} is not defined: no test part has nodes of both classes; use another measure")
    return ProbeResult(
        measure,
        scores,
        Score(tuple(choice.validation for choice in choices)),
        tuple((choice.fits.scaling, choice.fits.strengths[choice.strength]) for choice in choices),
    )


def scaled(values: NDArray[np.floating[Any]], scaling: Scaling) -> NDArray[np.float32]:
    """Centre the columns, and scale them together, one by one, or not at all; constant columns become 0."""
    centred = np.asarray(values - values.mean(axis=0, dtype=np.float64), dtype=np.float32)
    if scaling == "plain":
        return centred
    deviation = np.sqrt(np.square(centred).mean(axis=0, dtype=np.float64))
    constant = deviation <= 1e-6 * np.abs(values).max(axis=0, initial=0)  # only rounding is left
    deviation[constant] = 0
    centred[:, constant] = 0
    if scaling == "global":
        deviation[:] = math.sqrt(np.square(deviation).mean())
    centred /= np.where(deviation > 0, deviation, 1).astype(np.float32)
    return centred


@dataclass(frozen=True, slots=True, eq=False)
class _Fits:
    """The fits of one scaling for all splits and strengths: weights of shape ``(r+1, K, splits, strengths)``."""

    scaling: Scaling
    strengths: tuple[float, ...]
    x: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(
        cls,
        values: NDArray[np.floating[Any]],
        labels: NDArray[np.int64],
        splits: Sequence[Split],
        scaling: Scaling,
        strengths: Sequence[float],
        class_weight: ClassWeight,
    ) -> _Fits:
        import torch

        from dssl.evaluation import logistic

        used = np.unique(np.concatenate([split.train for split in splits]))
        rows = logistic.principal_rows(scaled(values, scaling), used)
        masks = torch.zeros(used.size, len(splits))
        for at, split in enumerate(splits):
            weights = _balanced(labels[split.train]) if class_weight == "balanced" else np.ones(split.train.size)
            masks[np.searchsorted(used, split.train), at] = torch.from_numpy(weights.astype(np.float32))
        path = logistic.fit_path(
            logistic.Rows(rows.x[used], rows.axes),
            torch.from_numpy(labels[used]),
            masks,
            sorted(strengths),
            num_classes=int(labels.max()) + 1,
        )
        return cls(scaling, tuple(sorted(strengths)), rows.x, path)

    def log_probabilities(self, nodes: NDArray[np.int64], split: int) -> NDArray[np.float32]:
        """Of each class, for the fits of one split, shape ``(n, K, strengths)``."""
        from dssl.evaluation.logistic import logits

        found: NDArray[np.float32] = logits(self.x[nodes], self.weights[:, :, split]).log_softmax(1).numpy()
        return found


def _balanced(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """A weight for each row such that the classes that occur weigh the same, and all rows their number."""
    counts = np.bincount(labels)
    return np.asarray(labels.size / ((counts > 0).sum() * counts[labels]))


class _Choice(NamedTuple):
    fits: _Fits
    strength: int
    validation: float | None


def _choose(
    candidates: Sequence[_Fits], labels: NDArray[np.int64], split: Split, at: int, measure: Measure, positive: int
) -> _Choice:
    """Best measure on validation; among equals the one that finds the validation classes most probable."""
    options = []
    truth = labels[split.val]
    for fits in candidates:
        log_p = fits.log_probabilities(split.val, at)
        likelihood = log_p[np.arange(truth.size), truth].mean(0, dtype=np.float64)
        for c in range(len(fits.strengths)):
            value = measured(measure, truth, log_p[:, :, c], positive=positive)
            options.append((-1.0 if value is None else value, likelihood[c], fits, c, value))
    _, _, fits, strength, value = max(options, key=lambda option: option[:2])
    return _Choice(fits, strength, value)


def _test(
    measure: Measure, choice: _Choice, labels: NDArray[np.int64], split: Split, at: int, positive: int
) -> float | None:
    """A measure of the choice on the test part: the only place that reads test labels."""
    log_p = choice.fits.log_probabilities(split.test, at)[:, :, choice.strength]
    return measured(measure, labels[split.test], log_p, positive=positive)


def _check(
    values: NDArray[Any],
    labels: NDArray[np.int64],
    splits: Sequence[Split],
    scalings: Sequence[str],
    strengths: Sequence[float],
    measure: str,
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
        _known("scaling", scaling, get_args(Scaling))
    _known("measure", measure, MEASURES)
    if not min(strengths) > 0:
        raise ProbeError(f"a strength C is {min(strengths)}; strengths are positive")
    classes = np.unique(labels[labels >= 0])
    if classes.size < 2:
        raise ProbeError("fewer than two classes have labelled nodes; a probe needs at least two")
    if measure in RANKED and int(classes.max()) != 1:
        raise ProbeError(f"{measure} is defined for two classes, and the labels have {classes.size}; use macro_f1")


def _known(kind: str, name: str, choices: Sequence[str]) -> None:
    if name not in choices:
        raise ProbeError(f"unknown {kind} {name!r}{nearest(name, choices)}; use one of {', '.join(choices)}")
