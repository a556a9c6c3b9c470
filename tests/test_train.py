"""The end of training: early stopping."""

from __future__ import annotations

import random

import pytest

from dssl.train import Plateau


def stops_at(losses: list[float], patience: int, tolerance: float) -> int | None:
    plateau = Plateau(patience, tolerance)
    for epoch, loss in enumerate(losses, start=1):
        plateau.add(loss)
        if plateau.reached:
            return epoch
    return None


def literal(losses: list[float], patience: int, tolerance: float) -> int | None:
    for epoch in range(2 * patience, len(losses) + 1):
        before = sum(losses[epoch - 2 * patience : epoch - patience]) / patience
        now = sum(losses[epoch - patience : epoch]) / patience
        if before - now <= tolerance * max(losses[0] - now, 0):
            return epoch
    return None


NOISE = random.Random(0)
FALLING = [100 * 0.9**epoch + NOISE.gauss(0, 0.5) for epoch in range(200)]


@pytest.mark.parametrize(("patience", "tolerance"), [(1, 0.0), (5, 0.0), (5, 0.01), (10, 0.01), (20, 0.1)])
def test_it_stops_where_the_formula_says(patience: int, tolerance: float) -> None:
    found = stops_at(FALLING, patience, tolerance)
    assert found == literal(FALLING, patience, tolerance)
    assert found is not None


def test_noise_does_not_stop_it_before_the_curve_is_flat() -> None:
    found = stops_at(FALLING, 10, 0.01)
    assert found is not None
    assert 40 < found < 80  # 0.9^40 is 1.5%: what is left to gain is about the tolerance
    assert stops_at(FALLING, 20, 0.01) is not None


def test_neither_the_unit_nor_the_zero_of_the_loss_matters() -> None:
    found = stops_at(FALLING, 10, 0.01)
    assert found == stops_at([8 * loss for loss in FALLING], 10, 0.01)
    assert found == stops_at([loss - 1024 for loss in FALLING], 10, 0.01)


def test_the_extremes() -> None:
    assert stops_at([1.0] * 100, 0, 0.5) is None  # never
    assert stops_at([1.0] * 100, 5, 0.0) == 10
    assert stops_at([float(epoch) for epoch in range(100)], 5, 0.01) == 10  # rising: no use
    assert stops_at([-float(epoch) for epoch in range(100)], 5, 0.01) is None  # falling steadily


def test_its_state_is_kept_exactly() -> None:
    for end in (0, 1, 7, 30):
        plateau, again = Plateau(5, 0.01), Plateau(5, 0.01)
        for loss in FALLING[:end]:
            plateau.add(loss)
        again.from_text(plateau.to_text())
        assert (again.first, again.recent, again.reached) == (plateau.first, plateau.recent, plateau.reached)
