"""The ridge probe against scikit-learn, and the test labels that it may not read."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from dssl.errors import ProbeError
from dssl.evaluation.probe import scaled
from dssl.evaluation.ridge import ridge_probe
from dssl.evaluation.splits import Split, random_splits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5)) * [1, 3, 0.1, 1, 1]
Y = X @ [1.0, 0.0, 5.0, -1.0, 0.0] + RNG.normal(size=200)
SPLITS = random_splits(np.zeros(200, int), count=3)


def test_selection_and_score_equal_a_literal_loop() -> None:
    found = ridge_probe(X, Y, SPLITS, strengths=(0.1, 10.0))
    for at, split in enumerate(SPLITS):
        best = -np.inf
        for scaling in ("global", "columns"):
            z = scaled(X, scaling).astype(float)
            for strength in (0.1, 10.0):
                y = (Y - Y[split.train].mean()) / Y[split.train].std()
                model = Ridge(alpha=strength * len(split.train) / 100).fit(z[split.train], y[split.train])
                value = r2_score(y[split.val], model.predict(z[split.val]))
                if value > best:
                    best, chosen = value, (scaling, strength)
                    tested = r2_score(y[split.test], model.predict(z[split.test]))
        assert found.chosen[at] == chosen
        assert found.validation.splits[at] == pytest.approx(best)
        assert found.r2.splits[at] == pytest.approx(tested)
    assert found.r2.mean > 0.5
    assert found.to_json()["r2"]["interval"][0] < found.r2.mean


def test_noise_explains_nothing_and_test_targets_do_not_choose() -> None:
    noise = ridge_probe(RNG.normal(size=(200, 3)), Y, SPLITS)
    assert noise.r2.mean < 0.1
    changed = Y.copy()
    changed[SPLITS[0].test] += 100 * RNG.normal(size=SPLITS[0].test.size)
    one, other = ridge_probe(X, Y, SPLITS[:1]), ridge_probe(X, changed, SPLITS[:1])
    assert one.chosen == other.chosen and one.validation == other.validation and one.r2 != other.r2


def test_bad_targets_are_one_line() -> None:
    with pytest.raises(ProbeError, match="one row per target"):
        ridge_probe(X, Y[:-1], SPLITS)
    missing = Y.copy()
    missing[SPLITS[0].train[0]] = np.nan
    with pytest.raises(ProbeError, match="without a label"):
        ridge_probe(X, missing, SPLITS)
    part = np.arange(10)
    with pytest.raises(ProbeError, match="node twice"):
        ridge_probe(X, Y, [Split(part, part, part)])
