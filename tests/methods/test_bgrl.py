"""BGRL against a literal loop over its loss, and its moving average."""

from __future__ import annotations

import math
from typing import Any

import torch

from dssl import rng
from dssl.methods.bgrl import BGRL, bootstrap, rising
from dssl.nn import augment, encoders
from dssl.nn.batches import full_batch
from tests.graphs import CPU, random_graph

PLAIN: dict[str, Any] = {
    "momentum": 0.8,
    "predictor_dim": 6,
    "link_drop_1": 0.2,
    "link_drop_2": 0.4,
    "feature_mask_1": 0.3,
    "feature_mask_2": 0.1,
}


def model(**changes: Any) -> BGRL:
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=True)
        return BGRL(made, **PLAIN | changes)


def test_the_loss_compares_predictions_with_the_other_view() -> None:
    batch = full_batch(random_graph(), CPU)
    method = model()
    with torch.no_grad():
        for parameter in method.target.parameters():
            parameter.mul_(1.3)
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        first = augment.mask_columns(augment.drop_links(batch, 0.2), 0.3)
        second = augment.mask_columns(augment.drop_links(batch, 0.4), 0.1)
    total = 0.0
    for own, other in ((first, second), (second, first)):
        p = method.predictor(method.output(method.encoder(own))).detach()
        t = method.target[1](method.target[0](other)).detach()
        total += sum(float(p[i] @ t[i] / (p[i].norm() * t[i].norm())) for i in range(len(p)))
    assert math.isclose(loss, 2 - total / len(batch.nodes), rel_tol=1e-4)


def test_no_gradient_reaches_the_target_and_it_follows_slowly() -> None:
    method = model()
    method(full_batch(random_graph(), CPU)).backward()
    assert all(p.grad is None for p in method.target.parameters())
    assert all(p.grad is not None for part in (method.encoder, method.output) for p in part.parameters())
    weight = method.encoder.layers[0].weight
    before = method.target[0].layers[0].weight.clone()
    with torch.no_grad():
        weight.add_(1.0)
    method.before_epoch(5, 10)  # half way: τ is half way between 0.8 and 1
    method.after_step()
    torch.testing.assert_close(method.target[0].layers[0].weight, 0.9 * before + 0.1 * weight.detach())


def test_lengths_do_not_matter() -> None:
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    torch.testing.assert_close(bootstrap(5 * a, b), bootstrap(a, 0.1 * b))
    assert abs(float(bootstrap(a, a))) < 1e-6
    assert rising(0.5, 2.0) == 1.0
