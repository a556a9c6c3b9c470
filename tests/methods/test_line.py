"""LINE: its two halves, and what each of them teaches."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.graph import Graph
from dssl.methods.line import LINE
from dssl.model.estimator import Embedder
from tests.graphs import CPU


def bipartite() -> Graph:
    """Two nodes in the middle, five leaves on both: leaves have the same neighbours and are not linked."""
    return Graph.from_edges([0] * 5 + [1] * 5, [*range(2, 7), *range(2, 7)])


def cosine(values: np.ndarray) -> np.ndarray:
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit @ unit.T


def test_halves_are_of_length_one_and_the_second_knows_like_neighbours() -> None:
    values = Embedder(method="line", dim=16, epochs=600, step_size=0.1, seed=0).fit_transform(bipartite())
    first, second = values[:, :8], values[:, 8:]
    for half in (first, second):
        np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, rtol=1e-4)
    alike = cosine(second)
    assert alike[2:, 2:].mean() > alike[2:, :2].mean() + 0.5
    linked = cosine(first)
    assert linked[2:, :2].mean() > linked[0, 1]


def test_links_are_drawn_in_proportion_to_their_weights() -> None:
    graph = Graph.from_edges([0, 2], [1, 3], weights=[1e-6, 1.0])
    method = LINE(4, negatives=1, step_size=0.1)
    method.prepare(graph, seed=0)
    before = method.table.detach().clone()
    for epoch in range(50):
        method.before_epoch(epoch, 50)
        for batch in method.batches(graph, batch_size=0, fanout=(1,), seed=0, epoch=epoch, device=CPU):
            method.update(batch)
    moved = (method.table.detach() - before).abs().sum(dim=1)
    assert moved[2:].min() > 10 * moved[:2].max()  # which are drawn as negatives alone


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_any_width(dim: int) -> None:
    assert Embedder(method="line", dim=dim, epochs=2).fit_transform(bipartite()).shape == (7, dim)
