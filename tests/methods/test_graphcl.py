"""GraphCL against literal loops over its losses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dssl.methods.graphcl import GraphCL
from dssl.nn import augment
from dssl.nn.batches import Batch, full_batch
from dssl.nn.losses import info_nce
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, cosine, dense, gcn, prelu, sigmoid, summary

PLAIN: dict[str, Any] = {
    "objective": "infomax",
    "first_view": "link",
    "second_view": "subgraph",
    "strength": 0.3,
    "temperature": 0.5,
    "anchors": 1000,
}


def model(**changes: Any) -> GraphCL:
    method = GraphCL(formulas.encoder(layers=1), **PLAIN | changes)
    formulas.moved(method)
    return method


def vectors(p: Leaves, batch: Batch) -> Tensor:
    return prelu(gcn(p, "encoder.", batch, layers=1), p["activation.weight"])[: batch.num_centres]


@pytest.mark.parametrize("sampled", [False, True])
def test_value_and_gradients_of_a_discriminator_with_the_summaries_of_both_views(sampled: bool) -> None:
    batch = formulas.batches(layers=1)[sampled]

    def loss(p: Leaves) -> Tensor:
        views = [augment.perturb_links(batch, 0.4 / 4), augment.subgraph(batch, 0.4)]
        shuffled = augment.shuffle_features(batch)
        summaries = [summary(vectors(p, view)) for view in views]
        h, corrupted = vectors(p, batch), vectors(p, shuffled)
        w, b = p["discriminator.weight"], p["discriminator.bias"]
        total = torch.zeros((), dtype=torch.float64)
        for i in range(len(h)):
            good, bad = (sum(row @ w @ s + b for s in summaries) for row in (h[i], corrupted[i]))
            total = total + sigmoid(good).log() + (1 - sigmoid(bad)).log()
        return -total / (2 * len(h))

    formulas.agrees(model(strength=0.4), batch, loss)


@pytest.mark.parametrize("temperature", [0.3, 1.5])
def test_value_and_gradients_of_nt_xent_between_projected_nodes(temperature: float) -> None:
    batch = formulas.batches(layers=1)[0]

    def loss(p: Leaves) -> Tensor:
        views = [augment.drop_nodes(batch, 0.2), augment.mask_nodes(batch, 0.2)]
        chosen = torch.randperm(batch.num_centres)[:12]
        projected = []
        for view in views:
            h = vectors(p, view)[chosen]
            projected.append(dense(p, "projector.2.", dense(p, "projector.0.", h).clamp_min(0)))
        total = torch.zeros((), dtype=torch.float64)
        for own, other in (projected, projected[::-1]):
            for n in range(12):
                below = sum((cosine(own[n], other[m]) / temperature).exp() for m in range(12))
                total = total - ((cosine(own[n], other[n]) / temperature).exp() / below).log()
        return total / 24

    changes = {"objective": "nt-xent", "first_view": "node", "second_view": "mask", "strength": 0.2}
    formulas.agrees(model(**changes, temperature=temperature, anchors=12), batch, loss)


def test_the_embedding_is_the_encoder_s_output_through_one_slope() -> None:
    graph = random_graph()
    method = model()
    assert method.activation.weight.shape == (1,)
    formulas.embeds(method, graph, lambda p: vectors(p, full_batch(graph, CPU)))


def test_nt_xent_is_a_softmax_over_the_nodes_of_the_other_view() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(6, 3), torch.randn(6, 3)

    def sim(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(a @ b / (a.norm() * b.norm()))

    total = 0.0
    for own, other in ((first, second), (second, first)):
        for n in range(6):
            below = sum(math.exp(sim(own[n], other[m]) / 0.3) for m in range(6))
            total -= math.log(math.exp(sim(own[n], other[n]) / 0.3) / below)
    assert math.isclose(float(info_nce(first, second, 0.3)), total / 12, rel_tol=1e-5)
    assert float(info_nce(first[:1], second[:1], 0.3)) == 0


@pytest.mark.parametrize("view", augment.VIEWS)
def test_every_augmentation_trains_with_either_objective(view: str) -> None:
    batch = full_batch(random_graph(wide=True), CPU)
    for objective in ("infomax", "nt-xent"):
        method = model(objective=objective, first_view=view, second_view=view, anchors=10)
        loss = method(batch)
        loss.backward()
        assert torch.isfinite(loss)
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in method.encoder.parameters())
