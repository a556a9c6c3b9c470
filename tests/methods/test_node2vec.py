"""DeepWalk and node2vec: what their walks teach, and that batches make no difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from dssl.graph import Graph
from dssl.methods._walks import draw
from dssl.methods.node2vec import Node2Vec
from dssl.model.estimator import Embedder
from dssl.nn.batches import Sampling
from tests.graphs import CPU

PLAIN: dict[str, Any] = {"walk_length": 10, "window": 3, "negatives": 3, "step_size": 0.1}


def two_cliques() -> Graph:
    pairs = [(a + o, b + o) for o in (0, 6) for a in range(6) for b in range(a)]
    return Graph.from_edges(*zip(*[*pairs, (0, 6)], strict=True))


@pytest.mark.parametrize("method", ["deepwalk", "node2vec"])
def test_nodes_of_a_clique_become_alike(method: str) -> None:
    values = Embedder(method=method, dim=8, epochs=40, settings={"step_size": 0.1}, seed=0).fit_transform(two_cliques())
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    near = unit @ unit.T
    assert near[:6, :6].mean() > near[:6, 6:].mean() + 0.3


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25), (1.0, 1.0)])
def test_its_walks_have_the_chances_of_p_and_q(p: float, q: float) -> None:
    """From 0 to 1 and on: back to 0 by 1/p, to 2, which 0 is linked to, by 1, to others by 1/q; times the weights."""
    ends = [0, 0, 1, 1, 1, 1], [1, 2, 2, 3, 4, 5]
    graph = Graph.from_edges(*ends, weights=[1.0, 1.0, 2.0, 1.0, 3.0, 1.0])
    method = Node2Vec(2, **PLAIN | {"walk_length": 40_000}, return_weight=p, away_weight=q)
    method.prepare(graph, seed=0)
    (path,) = method.paths(np.array([0]), 3)
    on = path[2:][(path[:-2] == 0) & (path[1:-1] == 1)]
    wanted = np.array([1 / p, 0, 2, 1 / q, 3 / q, 1 / q])
    wanted *= len(on) / wanted.sum()
    found = np.bincount(on, minlength=6)
    assert found[1] == 0
    assert len(on) > 1000
    assert chisquare(np.delete(found, 1), np.delete(wanted, 1)).pvalue > 1e-3


def test_negatives_are_drawn_by_degree_to_the_three_quarters() -> None:
    graph = Graph.from_edges([0] * 16 + [1], [*range(2, 18), 2], weights=[5.0] * 17)
    method = Node2Vec(2, **PLAIN)
    method.prepare(graph, seed=0)
    drawn = draw(method.others, 20_000, np.uint64(1))
    wanted = graph.degrees**0.75 / (graph.degrees**0.75).sum()
    assert chisquare(np.bincount(drawn, minlength=18), 20_000 * wanted).pvalue > 1e-3


def test_batches_of_any_size_end_alike_and_the_loss_falls() -> None:
    graph = two_cliques()
    tables, losses = [], []
    for size in (0, 5):
        method = Node2Vec(4, **PLAIN)
        method.prepare(graph, seed=0)
        record = []
        for epoch in range(30):
            method.before_epoch(epoch, 30)
            for batch in method.batches(graph, Sampling(batch_size=size, fanout=(1,), seed=0, epoch=epoch, device=CPU)):
                assert method.update(batch) > 0
            record.append(method.after_epoch()["loss"])
        tables.append(method.table.detach().clone())
        losses.append(record)
    assert torch.equal(*tables)
    np.testing.assert_allclose(*losses, rtol=1e-9)
    assert losses[0][-1] < 0.9 * losses[0][0]


def test_the_step_falls_to_nearly_nothing() -> None:
    method = Node2Vec(4, **PLAIN)
    rates = []
    for epoch in (0, 15, 29, 40):
        method.before_epoch(epoch, 30)
        rates.append(method.rate)
    assert rates[0] == 0.1
    assert rates[1] == pytest.approx(0.05)
    assert 0 < rates[3] < rates[2] < 0.005


def test_a_warm_start_keeps_the_rows_of_known_nodes() -> None:
    graph = two_cliques()
    model = Embedder(method="deepwalk", dim=4, epochs=3, seed=0).fit(graph)
    before = model.embeddings_.values.copy()
    grown = Graph.from_edges(
        [*graph.sources().tolist(), 12], [*graph.indices.tolist(), 0], ids=[str(i) for i in range(13)]
    )
    old = Graph.from_edges(graph.sources(), graph.indices, ids=[str(i) for i in range(12)])
    model = Embedder(method="deepwalk", dim=4, epochs=3, seed=0).fit(old)
    before = model.embeddings_.values.copy()
    model.set_params(epochs=0).fit(grown, warm=True)
    np.testing.assert_array_equal(model.embeddings_.values[:12], before)
    assert np.isfinite(model.embeddings_.values[12]).all()
