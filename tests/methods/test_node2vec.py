"""DeepWalk and node2vec: what their walks teach, and that batches make no difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dssl.graph import Graph
from dssl.methods.node2vec import Node2Vec
from dssl.model.estimator import Embedder
from tests.graphs import CPU

PLAIN: dict[str, Any] = {"walk_length": 10, "window": 3, "negatives": 3, "step_size": 0.1}


def two_cliques() -> Graph:
    pairs = [(a + o, b + o) for o in (0, 6) for a in range(6) for b in range(a)]
    return Graph.from_edges(*zip(*[*pairs, (0, 6)], strict=True))


@pytest.mark.parametrize("method", ["deepwalk", "node2vec"])
def test_nodes_of_a_clique_become_alike(method: str) -> None:
    values = Embedder(method=method, dim=8, epochs=40, step_size=0.1, seed=0).fit_transform(two_cliques())
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    near = unit @ unit.T
    assert near[:6, :6].mean() > near[:6, 6:].mean() + 0.3


def test_batches_of_any_size_end_alike_and_the_loss_falls() -> None:
    graph = two_cliques()
    tables, losses = [], []
    for size in (0, 5):
        method = Node2Vec(4, **PLAIN)
        method.prepare(graph, seed=0)
        record = []
        for epoch in range(30):
            method.before_epoch(epoch, 30)
            for batch in method.batches(graph, batch_size=size, fanout=(1,), seed=0, epoch=epoch, device=CPU):
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
