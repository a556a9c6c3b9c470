from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import word_covariance
from dssl.graph.word_covariance import RIDGES, WordCovariance
from dssl.rng import stream
from dssl.runtime import out_of_core


def bags(nodes: int = 300, words: int = 120, topics: int = 3) -> np.ndarray:
    """Counts of words that are drawn from one of a few topics."""
    draw = stream(0, "bags")
    rates = draw.gamma(0.3, size=(topics, words))
    return draw.poisson(rates[draw.integers(topics, size=nodes)]).astype(np.float32)


def scaled(x: np.ndarray) -> np.ndarray:
    sizes = x.sum(axis=1)
    mean = sizes[sizes > 0].mean()
    return np.array([row * np.sqrt(mean / row.sum()) if row.sum() else row for row in x.astype(np.float64)])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_moments_are_their_formulas(kind: type) -> None:
    x = bags()
    found = WordCovariance.fit(kind(x), width=20)
    rows = scaled(x)
    mean = rows.mean(axis=0)
    covariance = np.zeros((120, 120))
    for row in rows:
        covariance += np.outer(row - mean, row - mean) / len(rows)
    v = found.basis.astype(np.float64)
    np.testing.assert_allclose(v.T @ v, np.eye(20), atol=1e-4)
    np.testing.assert_allclose(found.total, v.T @ covariance @ v, atol=1e-4)
    signal = v.T @ (covariance - (1 - 64 / 120) * np.diag(np.diag(covariance))) @ v
    values, vectors = np.linalg.eigh(signal)
    positive = sum(value * np.outer(e, e) for value, e in zip(values, vectors.T, strict=True) if value > 0)
    np.testing.assert_allclose(found.signal, positive, atol=1e-4)
    penalty = found.ridge * np.trace(found.total) / 20
    np.testing.assert_allclose((found.total + penalty * np.eye(20)) @ found.weights, found.signal, atol=1e-4)
    np.testing.assert_allclose(found.project(kind(x)), (rows - mean) @ v, atol=1e-3)


def test_the_ridge_minimises_the_error_on_nodes_held_out() -> None:
    x, folds = bags(), stream(0, "topic folds").integers(4, size=300)
    found = WordCovariance.fit(x, width=20)
    rows, v = scaled(x), found.basis.astype(np.float64)

    def moments(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covariance = np.cov(part.T, bias=True)
        return v.T @ covariance @ v, v.T @ (covariance - (1 - 64 / 120) * np.diag(np.diag(covariance))) @ v

    losses = []
    for ridge in RIDGES:
        loss = 0.0
        for fold in range(4):
            total, signal = moments(rows[folds != fold])
            total_out, signal_out = moments(rows[folds == fold])
            w = np.linalg.solve(total + ridge * np.trace(total) / 20 * np.eye(20), signal)
            loss += np.trace(w.T @ total_out @ w) - 2 * np.trace(w.T @ signal_out)
        losses.append(loss)
    assert found.ridge == RIDGES[int(np.argmin(losses))]


def test_words_of_pure_noise_have_no_signal_and_words_of_topics_do() -> None:
    noise = stream(0, "noise").poisson(0.5, size=(4000, 200)).astype(np.float32)
    kept = []
    for x in (noise, bags(4000, 200)):
        found = WordCovariance.fit(x)
        kept.append(np.linalg.eigvalsh(found.signal)[-1] / np.linalg.eigvalsh(found.total)[-1])
    assert kept[0] < 0.6 < 0.9 < kept[1]  # 64 of 200 parts of the diagonal stay, since 200 columns are not many


def test_a_handful_of_columns_is_left_alone() -> None:
    x = stream(0, "few").normal(size=(50, 6)).astype(np.float32)
    found = WordCovariance.fit(x)
    np.testing.assert_array_equal(found.basis, np.eye(6))
    np.testing.assert_allclose(found.signal, found.total, atol=1e-8)


@pytest.mark.parametrize("x", [np.zeros((5, 3), np.float32), np.ones((5, 1), np.float32), np.ones((1, 4), np.float32)])
def test_features_without_variance_have_zero_projections(x: np.ndarray) -> None:
    found = WordCovariance.fit(x)
    np.testing.assert_allclose(found.project(x), 0, atol=1e-6)
    assert np.isfinite(found.weights).all()


def test_blocks_of_rows_and_repeats_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = bags()
    first = WordCovariance.fit(x, width=20)
    again = WordCovariance.fit(x, width=20)
    assert np.array_equal(first.weights, again.weights)
    kept = out_of_core.scratch(x.shape)
    kept[:] = x
    monkeypatch.setattr(out_of_core, "AT_ONCE", 999)
    by_blocks = WordCovariance.fit(kept, width=20)
    np.testing.assert_allclose(by_blocks.total, first.total, atol=1e-3)
    np.testing.assert_allclose(by_blocks.project(kept), first.project(x), atol=1e-2)


def test_the_basis_of_a_large_graph_comes_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    x = bags()
    whole = WordCovariance.fit(x, width=3)
    monkeypatch.setattr(word_covariance, "SAMPLE", 150)
    sampled = WordCovariance.fit(x, width=3)
    overlap = np.linalg.svd(whole.basis.T @ sampled.basis)[1]
    assert overlap[:2].min() > 0.9


def test_a_sample_of_wide_dense_features_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((400, 60)).astype(np.float32)
    drawn: list[int] = []
    kept = out_of_core.rows
    monkeypatch.setattr(word_covariance, "SAMPLE", 300)
    monkeypatch.setattr(word_covariance, "SAMPLED", 4 * 60 * 100)  # a hundred rows
    monkeypatch.setattr(word_covariance.svd, "NARROW", 50)
    monkeypatch.setattr(out_of_core, "rows", lambda x, nodes: (drawn.append(len(nodes)), kept(x, nodes))[1])
    assert word_covariance.word_basis(x, None, 8, 0).shape == (60, 8)
    assert drawn == [100]
