"""LINE: its two halves, and what each of them teaches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from dssl.graph import Graph
from dssl.methods import _walks
from dssl.methods._walks import Draws
from dssl.methods.line import LINE
from dssl.model.estimator import Embedder
from dssl.nn.batches import Sampling
from tests.graphs import CPU


def bipartite() -> Graph:
    """Two nodes in the middle, five leaves on both: leaves have the same neighbours and are not linked."""
    return Graph.from_edges([0] * 5 + [1] * 5, [*range(2, 7), *range(2, 7)])


def cosine(values: np.ndarray) -> np.ndarray:
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit @ unit.T


def test_halves_are_of_length_one_and_the_second_knows_like_neighbours() -> None:
    values = Embedder(method="line", dim=16, epochs=600, settings={"step_size": 0.1}, seed=0).fit_transform(bipartite())
    first, second = values[:, :8], values[:, 8:]
    for half in (first, second):
        np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, rtol=1e-4)
    alike = cosine(second)
    assert alike[2:, 2:].mean() > alike[2:, :2].mean() + 0.5
    linked = cosine(first)
    assert linked[2:, :2].mean() > linked[0, 1]


def test_an_epoch_is_a_literal_loop_over_both_orders() -> None:
    """With one link and one negative that can be drawn, each order is a loop over equation 7."""
    graph = Graph.from_edges([0, 1], [1, 2])
    method = LINE(6, negatives=2, step_size=0.1)
    method.prepare(graph, seed=0)
    draw = np.random.default_rng(0)
    method.table.data = torch.from_numpy(draw.normal(size=(3, 6)).astype(np.float32))
    method.contexts.data = torch.from_numpy(draw.normal(size=(3, 6)).astype(np.float32))
    table, contexts = (part.detach().double().numpy().copy() for part in (method.table, method.contexts))
    method._links = Draws.of(np.array([0.0, 1, 0, 0]))  # the second arc, from 1 to 0
    method._others = Draws.of(np.array([0.0, 0, 1]))  # node 2
    start, end = graph.sources()[1], graph.indices[1]
    (batch,) = method.batches(graph, Sampling(batch_size=0, fanout=(1,), seed=0, epoch=0, device=CPU))
    found, wanted = method.update(batch), 0.0
    for own, others in ((table[:, :3], table[:, :3]), (table[:, 3:], contexts[:, 3:])):
        for _ in range(graph.num_arcs):
            change = np.zeros(3)
            for target, label in ((end, 1.0), (2, 0.0), (2, 0.0)):
                chance = 1 / (1 + np.exp(-own[start] @ others[target]))
                wanted -= np.log(chance if label else 1 - chance)
                change += 0.1 * (label - chance) * others[target]
                others[target] += 0.1 * (label - chance) * own[start]
            own[start] += change
    assert found == pytest.approx(wanted / (2 * graph.num_arcs), rel=1e-5)
    np.testing.assert_allclose(method.table.detach().numpy(), table, atol=1e-5)
    np.testing.assert_allclose(method.contexts.detach().numpy(), contexts, atol=1e-5)


def test_links_and_negatives_are_drawn_by_weights() -> None:
    """Links in proportion to their weights, negatives to weighted degree^¾."""
    graph = Graph.from_edges([0, 0, 0, 1], [1, 2, 3, 2], weights=[16.0, 1.0, 1.0, 4.0])
    method = LINE(4, negatives=1, step_size=0.1)
    method.prepare(graph, seed=0)
    for table, weights in ((method._links, graph.weights), (method._others, np.array([18.0, 20, 5, 1]) ** 0.75)):
        drawn = np.bincount(_walks.draw(table, 20_000, np.uint64(1)), minlength=len(weights))
        assert chisquare(drawn, 20_000 * weights / weights.sum(dtype=float)).pvalue > 1e-3


def test_links_are_drawn_in_proportion_to_their_weights() -> None:
    graph = Graph.from_edges([0, 2], [1, 3], weights=[1e-6, 1.0])
    method = LINE(4, negatives=1, step_size=0.1)
    method.prepare(graph, seed=0)
    before = method.table.detach().clone()
    for epoch in range(50):
        method.before_epoch(epoch, 50)
        for batch in method.batches(graph, Sampling(batch_size=0, fanout=(1,), seed=0, epoch=epoch, device=CPU)):
            method.update(batch)
    moved = (method.table.detach() - before).abs().sum(dim=1)
    assert moved[2:].min() > 10 * moved[:2].max()  # which are drawn as negatives alone


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_any_width(dim: int) -> None:
    assert Embedder(method="line", dim=dim, epochs=2).fit_transform(bipartite()).shape == (7, dim)
