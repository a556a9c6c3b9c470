from __future__ import annotations

import math

import pytest
import torch

from dssl.nn import health


def test_effective_rank_is_the_exponential_of_the_entropy_of_singular_values() -> None:
    h = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * torch.tensor([5.0, 4, 3, 2, 1, 0.5])
    values = torch.linalg.svdvals(h.double())
    shares = [float(value / values.sum()) for value in values]
    wanted = math.exp(-sum(share * math.log(share) for share in shares))
    assert health.effective_rank(h) == pytest.approx(wanted, rel=1e-5)
    assert health.effective_rank(torch.ones(10, 6)) == pytest.approx(1, abs=1e-3)
    assert health.effective_rank(torch.zeros(10, 6)) == 0
    isotropic = torch.randn(20_000, 16, generator=torch.Generator().manual_seed(1))
    assert health.effective_rank(isotropic) == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize(
    ("q", "entropy", "most", "information"),
    [
        ([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], 0.0, 0.25, 1.0),  # decoupled
        ([[0.25] * 4] * 4, 1.0, 0.25, 0.0),  # uniform on every link
        ([[1.0, 0, 0, 0]] * 4, 0.0, 1.0, 0.0),  # one factor for all
    ],
)
def test_factor_statistics(q: list[list[float]], entropy: float, most: float, information: float) -> None:
    rows = torch.tensor(q)
    own = float(-(rows * rows.clamp_min(1e-30).log()).sum(dim=1).mean())
    found = health.factor_statistics(rows.mean(dim=0), own)
    assert found["posterior_entropy"] == pytest.approx(entropy, abs=1e-6)
    assert found["factor_usage_max"] == pytest.approx(most)
    assert found["factor_information"] == pytest.approx(information, abs=1e-6)


@pytest.mark.parametrize(
    ("record", "word"),
    [
        ({"effective_rank": 1.0, "factor_usage_max": 0.2, "factor_information": 0.5}, "representation collapsed"),
        ({"effective_rank": 30.0, "factor_usage_max": 0.99, "factor_information": 0.0}, "one factor takes 99%"),
        ({"effective_rank": 30.0, "factor_usage_max": 0.2, "factor_information": 0.0}, "same posterior"),
    ],
)
def test_each_collapse_is_said_in_one_sentence(record: dict[str, float], word: str) -> None:
    said = health.collapses(record, health.limits(64, num_factors=8), dim=64)
    assert len(said) == 1 and word in next(iter(said.values()))


def test_one_factor_or_no_epoch_is_no_collapse_of_factors() -> None:
    record = {"effective_rank": 30.0, "factor_usage_max": 1.0, "factor_information": 0.0}
    assert health.collapses(record, health.limits(64, num_factors=1), dim=64) == {}
    assert health.collapses({}, health.limits(64, num_factors=8), dim=64) == {}


def test_meter_weights_batches_by_their_centres() -> None:
    meter = health.Meter()
    meter.add(1, {"loss": 1.0})
    meter.add(3, {"loss": 5.0})
    assert meter.read() == {"loss": 4.0}
    assert meter.read() == {}


def test_effective_rank_of_vectors_that_are_not_finite_is_not_a_number() -> None:
    for value in (float("inf"), float("nan")):
        h = torch.eye(5)
        h[2, 3] = value
        assert math.isnan(health.effective_rank(h))
    assert health.effective_rank(1e30 * torch.eye(5)) == pytest.approx(5)
