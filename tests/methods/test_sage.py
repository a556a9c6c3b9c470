"""Unsupervised GraphSAGE against a literal loop over its loss."""

from __future__ import annotations

import math

import numpy as np
import torch

from dssl import rng
from dssl.methods.sage import UnsupervisedSAGE, partners, walk_loss
from dssl.nn import encoders
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph


def model() -> UnsupervisedSAGE:
    with rng.seeded(0, "init"):
        made = encoders.build("sage", in_dim=7, dim=4, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
    return UnsupervisedSAGE(made, walk_length=3, negatives=4)


def test_the_loss_is_equation_1() -> None:
    torch.manual_seed(0)
    z = torch.randn(8, 3)
    u, v, negatives = torch.tensor([0, 3]), torch.tensor([1, 5]), torch.tensor([[2, 4, 6], [7, 7, 0]])

    def log_sigmoid(score: float) -> float:
        return math.log(1 / (1 + math.exp(-score)))

    total = 0.0
    for a, b, others in zip(u, v, negatives, strict=True):
        total -= log_sigmoid(float(z[a] @ z[b]))
        total -= sum(log_sigmoid(-float(z[a] @ z[n])) for n in others)
    assert math.isclose(float(walk_loss(z, u, v, negatives)), total / 2, rel_tol=1e-5)


def test_partners_are_within_reach_and_each_node_with_links_has_one() -> None:
    graph = random_graph()
    order = np.arange(graph.num_nodes)
    u, v = partners(graph, order, 2, 5)
    assert u.tolist() == np.flatnonzero(graph.degrees).tolist()
    step = graph.adjacency().toarray()
    within = (step + step @ step) > 0
    assert within[u, v].all()
    assert (u != v).all()


def test_batches_of_all_neighbours_have_the_loss_of_the_whole_graph() -> None:
    graph = random_graph()
    method = model().eval()
    options = {"fanout": ALL_NEIGHBOURS, "seed": 1, "epoch": 0, "device": CPU}
    (whole,) = method.batches(graph, batch_size=0, **options)
    parts = list(method.batches(graph, batch_size=9, **options))
    wanted = float(method(whole).detach())
    found = sum(float(method(part).detach()) * len(part.u) for part in parts) / len(whole.u)
    assert math.isclose(found, wanted, rel_tol=1e-4)
    torch.testing.assert_close(method.vectors(whole.batch).norm(dim=1), torch.ones(graph.num_nodes))
