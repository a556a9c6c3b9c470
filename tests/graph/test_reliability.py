from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph.principal import Principal
from dssl.graph.reliability import halves, reliability, word_reliability
from dssl.rng import stream
from tests.graph.test_homophily_spectrum import linked_bags
from tests.graph.test_positions import blocks


def test_reliability_is_spearman_and_browns() -> None:
    draw = stream(0, "twice")
    truth = draw.normal(size=(4000, 3)) * [3, 1, 1]
    one, other = (truth + draw.normal(size=truth.shape) * [3, 1, 1] for _ in range(2))
    assert reliability(one, other) == pytest.approx(2 / 3, abs=0.03)  # r = 1/2
    assert reliability(one, one) == pytest.approx(1)
    assert reliability(one, draw.normal(size=truth.shape)) < 0.06
    assert reliability(np.zeros((5, 2)), np.ones((5, 2))) == 0


def test_long_texts_are_more_reliable_than_short_ones() -> None:
    x = np.asarray(linked_bags(0.5).x)
    short = x * (stream(0, "thin").random(x.shape) < 0.1)
    basis = Principal.fit(x, 2).axes
    found = [word_reliability(kind(v), basis)[0] for v in (x, short) for kind in (np.asarray, sparse.csr_array)]
    assert found[0] > found[2] + 0.2
    assert found[0] == pytest.approx(found[1], abs=0.05)


def test_reliability_of_words_is_that_of_either_half_with_rows_that_sum_to_one() -> None:
    x = np.asarray(linked_bags(0.5).x)
    first = x * (stream(0, "word halves").random(x.shape) < 0.5)
    rows = [half / np.maximum(half.sum(axis=1, keepdims=True), 1e-9) for half in (first, x - first)]
    basis = Principal.fit(x, 2).axes
    expected = reliability(*((half @ basis).astype(np.float32) for half in rows))
    amounts = reliability(*(np.log1p(half.sum(axis=1))[:, None] for half in (first, x - first)))
    assert word_reliability(x, basis) == pytest.approx((expected, amounts), abs=1e-4)


def test_halves_share_no_link_and_miss_none() -> None:
    graph = blocks()
    first, second = (half.adjacency().toarray() for half in halves(graph))
    np.testing.assert_array_equal(first + second, graph.adjacency().toarray() > 0)
    assert 0.4 < first.sum() / (first + second).sum() < 0.6
    np.testing.assert_array_equal(first, first.T)
