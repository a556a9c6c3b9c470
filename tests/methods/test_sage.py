"""Unsupervised GraphSAGE against a literal loop over its loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.methods.sage import UnsupervisedSAGE, partners, walk_loss
from dssl.nn import encoders
from dssl.nn.batches import Sampling, full_batch
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, cosine, sage, sigmoid


def model() -> UnsupervisedSAGE:
    with rng.seeded(0, "init"):
        made = encoders.build("sage", in_dim=7, dim=4, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
    return UnsupervisedSAGE(made, walk_length=3, negatives=4)


@pytest.mark.parametrize("batch_size", [0, 9])
def test_value_and_gradients_are_those_of_equation_1(batch_size: int) -> None:
    graph = random_graph()
    method = UnsupervisedSAGE(formulas.encoder("sage"), walk_length=3, negatives=4)
    formulas.moved(method)
    drawn = next(
        iter(method.batches(graph, Sampling(batch_size=batch_size, fanout=(3, 2), seed=0, epoch=0, device=CPU)))
    )
    assert drawn.negatives.shape == (len(drawn.u), 4)

    def loss(p: Leaves) -> Tensor:
        z = sage(p, "encoder.", drawn.batch)
        total = torch.zeros((), dtype=torch.float64)
        for u, v, negatives in zip(drawn.u, drawn.v, drawn.negatives, strict=True):
            total = total - sigmoid(cosine(z[u], z[v])).log()
            total = total - sum((1 - sigmoid(cosine(z[u], z[n]))).log() for n in negatives)
        return total / len(drawn.u)

    formulas.agrees(method, drawn, loss)

    def embedding(p: Leaves) -> Tensor:
        z = sage(p, "encoder.", full_batch(graph, CPU))
        return z / z.norm(dim=1, keepdim=True)

    formulas.embeds(method, graph, embedding)


def test_negatives_are_drawn_by_degree_to_the_three_quarters() -> None:
    graph = Graph.from_edges([0] * 40 + [1] * 9, [*range(2, 42), *range(2, 11)], x=np.eye(42, 7))
    method = UnsupervisedSAGE(formulas.encoder("sage"), walk_length=3, negatives=20)
    drawn = np.concatenate(
        [
            batch.negatives.numpy().ravel()
            for epoch in range(20)
            for batch in method.batches(graph, Sampling(batch_size=0, fanout=(3,), seed=0, epoch=epoch, device=CPU))
        ]
    )
    wanted = graph.degrees**0.75 / (graph.degrees**0.75).sum()
    assert chisquare(np.bincount(drawn, minlength=42), wanted * len(drawn)).pvalue > 1e-3


def test_partners_are_drawn_from_the_steps_of_a_walk() -> None:
    """A uniform step of the walk; where that is the start, the walk's first step."""
    graph = Graph.from_edges([0, 0, 1, 2, 3], [1, 2, 2, 3, 4])
    step = graph.adjacency().toarray() / graph.degrees[:, None]
    length, start = 3, 1
    wanted = sum(np.linalg.matrix_power(step, s)[start] for s in range(1, length + 1)) / length
    for s in range(1, length + 1):
        back = np.linalg.matrix_power(step, s - 1)[:, start]
        wanted = wanted + step[start] * back / length
    wanted[start] = 0
    found = np.zeros(5)
    for seed in range(4000):
        _, v = partners(graph, np.array([start]), length, rng.integer(seed, "test"))
        found[v] += 1
    assert wanted.sum() == pytest.approx(1)
    others = wanted > 0
    assert (found[~others] == 0).all()
    assert chisquare(found[others], 4000 * wanted[others]).pvalue > 1e-3


def test_the_mean_loss_is_equation_1() -> None:
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
    (whole,) = method.batches(graph, Sampling(batch_size=0, **options))
    parts = list(method.batches(graph, Sampling(batch_size=9, **options)))
    wanted = float(method(whole).detach())
    found = sum(float(method(part).detach()) * len(part.u) for part in parts) / len(whole.u)
    assert math.isclose(found, wanted, rel_tol=1e-4)
    torch.testing.assert_close(method.vectors(whole.batch).norm(dim=1), torch.ones(graph.num_nodes))
