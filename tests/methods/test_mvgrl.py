"""MVGRL against a literal loop over its loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from dssl import rng
from dssl.methods.mvgrl import MVGRL
from dssl.nn import augment, encoders
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph

PLAIN: dict[str, Any] = {
    "diffusion": "ppr",
    "teleport": 0.2,
    "heat_time": 5.0,
    "neighbours": 6,
    "precision": 1e-4,
}


def model(**changes: Any) -> MVGRL:
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=4, hidden_dim=6, layers=1, dropout=0.0, batch_norm=False)
        return MVGRL(made, **PLAIN | changes)


def test_the_loss_sets_each_view_against_the_summary_of_the_other() -> None:
    graph = random_graph()
    method = model()
    method.prepare(graph, seed=0)
    (views,) = method.batches(graph, batch_size=0, fanout=(3,), seed=0, epoch=0, device=CPU)
    with rng.seeded(0, "train"):
        loss = float(method(views).detach())
    with rng.seeded(0, "train"):
        shuffled = tuple(augment.shuffle_features(view) for view in views)
    h = [side.detach() for side in method._vectors(views)]
    corrupted = [side.detach() for side in method._vectors(shuffled)]
    weight = method.discriminator.weight.detach()
    n, total = graph.num_nodes, 0.0
    for side, other in ((0, 1), (1, 0)):
        s = 1 / (1 + torch.exp(-h[other].mean(dim=0)))
        for i in range(n):
            good, bad = (float(row @ weight @ s) for row in (h[side][i], corrupted[side][i]))
            total += math.log(1 / (1 + math.exp(-good))) + math.log(1 - 1 / (1 + math.exp(-bad)))
    assert math.isclose(loss, -total / (4 * n), rel_tol=1e-4)
    np.testing.assert_allclose(method.embed(graph), (h[0] + h[1]).numpy(), atol=1e-6)


def test_the_two_encoders_start_apart_and_both_learn() -> None:
    graph = random_graph()
    method = model(diffusion="heat")
    assert not torch.equal(method.encoder.layers[0].weight, method.second.layers[0].weight)
    method.prepare(graph, seed=0)
    (views,) = method.batches(graph, batch_size=0, fanout=(3,), seed=0, epoch=0, device=CPU)
    method(views).backward()
    for encoder in (method.encoder, method.second):
        assert encoder.layers[0].weight.grad.abs().sum() > 0


def test_batches_of_both_views_have_the_same_centres() -> None:
    graph = random_graph()
    method = model()
    method.prepare(graph, seed=0)
    (whole,) = method.batches(graph, batch_size=0, fanout=ALL_NEIGHBOURS, seed=0, epoch=0, device=CPU)
    wanted = [side.detach() for side in method._vectors(whole)]
    for views in method.batches(graph, batch_size=9, fanout=ALL_NEIGHBOURS, seed=0, epoch=0, device=CPU):
        count = views[0].num_centres
        centres = views[0].nodes[:count]
        assert (centres == views[1].nodes[:count]).all()
        for side, all_ in zip(method._vectors(views), wanted, strict=True):
            torch.testing.assert_close(side[:count].detach(), all_[centres], atol=1e-5, rtol=1e-4)
