"""GraphCL against literal loops over its losses."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dssl import rng
from dssl.methods.graphcl import GraphCL
from dssl.nn import augment, encoders
from dssl.nn.batches import full_batch
from dssl.nn.losses import info_nce
from tests.graphs import CPU, random_graph

PLAIN: dict[str, Any] = {
    "objective": "infomax",
    "first_view": "link",
    "second_view": "subgraph",
    "strength": 0.3,
    "temperature": 0.5,
    "anchors": 1000,
}


def model(**changes: Any) -> GraphCL:
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=1, dropout=0.0, batch_norm=False)
        return GraphCL(made, **PLAIN | changes)


def test_the_loss_has_a_discriminator_with_the_summaries_of_both_views() -> None:
    batch = full_batch(random_graph(), CPU)
    method = model()
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        views = [augment.perturb_links(batch, 0.3), augment.subgraph(batch, 0.3)]
        shuffled = augment.shuffle_features(batch)
    h, corrupted, *both = (method.vectors(view).detach() for view in (batch, shuffled, *views))
    weight = method.discriminator.weight.detach()
    summaries = [torch.stack([1 / (1 + torch.exp(-view[:, c].mean())) for c in range(5)]) for view in both]
    total = 0.0
    for i in range(len(h)):
        good, bad = (sum(float(row @ weight @ s) for s in summaries) for row in (h[i], corrupted[i]))
        total += math.log(1 / (1 + math.exp(-good))) + math.log(1 - 1 / (1 + math.exp(-bad)))
    assert math.isclose(loss, -total / (2 * len(h)), rel_tol=1e-4)


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
