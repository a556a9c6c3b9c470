"""GraphACL against a literal loop over its loss."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from dssl import rng
from dssl.methods.graphacl import GraphACL, asymmetric
from dssl.nn import encoders
from dssl.nn.batches import full_batch
from tests.graphs import CPU, random_graph


def test_the_loss_is_a_contrast_of_links_with_random_nodes() -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=4, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
        method = GraphACL(made, momentum=0.9, temperature=0.4, predictor_dim=5, negatives=9, pairs=10_000)
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        others = torch.randperm(graph.num_nodes)[:9].tolist()
    h = method.encoder(batch).detach()
    v, u = F.normalize(h, dim=1), F.normalize(method.target(batch).detach(), dim=1)
    p = F.normalize(method.predictor(h).detach(), dim=1)
    total = 0.0
    for i in range(graph.num_nodes):
        neighbours = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        for j in neighbours:
            pull = math.exp(float(p[i] @ u[j]) / 0.4)
            push = sum(math.exp(float(v[i] @ v[k]) / 0.4) for k in others)
            total -= math.log(pull / (pull + push)) / len(neighbours)
    assert math.isclose(loss, total / graph.num_nodes, rel_tol=1e-4)
    method(batch).backward()
    assert all(parameter.grad is None for parameter in method.target.parameters())


def test_a_better_prediction_lowers_the_loss_and_extremes_are_finite() -> None:
    v = F.normalize(torch.randn(5, 3), dim=1)
    start, end, weights = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.ones(2)
    good, bad = v.clone(), v.clone()
    good[:2], bad[:2] = v[2:4], -v[2:4]
    rest = (v, v, start, end, weights, torch.arange(5))
    assert float(asymmetric(good, *rest, 0.5)) < float(asymmetric(bad, *rest, 0.5))
    assert torch.isfinite(asymmetric(bad, *rest, 1e-6))
