r"""The ridge probe: how well does a linear regression predict a numeric target from frozen embeddings?

The counterpart of `dssl.evaluation.probe` for numbers: on the training part of each split a ridge regression is fitted,
its strength and the scaling of the columns are chosen by :math:`R^2` on validation, and the test part is used once. The
target is standardised by the training part. :math:`R^2 = 1 - \sum (y - \hat y)^2 / \sum (y - \bar y)^2` is 0 for a
constant prediction of the test mean, and negative below that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.errors import ProbeError
from dssl.evaluation.metrics import Score
from dssl.evaluation.probe import SCALINGS, Scaling, scaled
from dssl.evaluation.splits import Split, check_splits
from dssl.runtime.processes import one_thread

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)  # of the penalty, times the number of training nodes / 100


@dataclass(frozen=True, slots=True)
class RidgeResult:
    """Scores of the ridge probe.

    Args:
        r2: on test, for each split.
        validation: on validation, of the chosen scaling and strength.
        chosen: scaling and strength of each split.
    """

    r2: Score
    validation: Score
    chosen: tuple[tuple[Scaling, float], ...]

    def to_json(self) -> dict[str, Any]:
        """A dictionary for ``evaluation.json``."""
        return {
            "measure": "r2",
            "r2": self.r2.to_json(),
            "val_r2": self.validation.to_json(),
            "chosen": [{"scaling": scaling, "strength": strength} for scaling, strength in self.chosen],
        }


def ridge_probe(
    values: NDArray[np.floating[Any]],
    target: ArrayLike,
    splits: Sequence[Split],
    *,
    scalings: Sequence[Scaling] = SCALINGS,
    strengths: Sequence[float] = STRENGTHS,
) -> RidgeResult:
    """Fit and score ridge regressions on frozen embeddings.

    Args:
        values: embeddings, shape ``(N, d)``.
        target: a number for each node, NaN where unknown, shape ``(N,)``.
        splits: parts of the nodes with a target.
        scalings: scalings to choose from on validation.
        strengths: strengths of the penalty to choose from on validation.
    """
    from sklearn.linear_model import Ridge

    values, y = np.asarray(values), np.asarray(target, dtype=np.float64)
    if values.ndim != 2 or y.shape != values.shape[:1]:
        raise ProbeError(f"embeddings of shape {values.shape} for {y.size} targets; give one row per target")
    if not np.isfinite(values).all():
        raise ProbeError("an embedding is NaN or infinite; the training diverged")
    check_splits(splits, np.where(np.isnan(y), -1, 0))
    columns = {scaling: scaled(values, scaling).astype(np.float64) for scaling in scalings}
    tested, validated, chosen = [], [], []
    with one_thread():
        for split in splits:
            mean, spread = y[split.train].mean(), y[split.train].std() or 1.0
            options = []
            for scaling, x in columns.items():
                for strength in strengths:
                    model = Ridge(alpha=strength * split.train.size / 100)
                    model.fit(x[split.train], (y[split.train] - mean) / spread)
                    found = _r2(y[split.val], mean + spread * model.predict(x[split.val]))
                    options.append((found if found is not None else -np.inf, scaling, strength, model))
            value, scaling, strength, model = max(options, key=lambda option: option[0])
            validated.append(value if np.isfinite(value) else None)
            chosen.append((scaling, strength))
            tested.append(_r2(y[split.test], mean + spread * model.predict(columns[scaling][split.test])))
    return RidgeResult(Score(tuple(tested)), Score(tuple(validated)), tuple(chosen))


def _r2(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> float | None:
    from sklearn.metrics import r2_score

    return float(r2_score(truth, predicted)) if np.ptp(truth) > 0 else None
