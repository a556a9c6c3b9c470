"""BGRL against a literal loop over its loss, and its moving average."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dssl import rng
from dssl.methods.bgrl import BGRL, bootstrap, rising
from dssl.nn import augment
from dssl.nn.batches import Batch, full_batch
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, cosine, dense, gcn, normal, prelu

PLAIN: dict[str, Any] = {
    "momentum": 0.8,
    "predictor_dim": 6,
    "link_drop_1": 0.2,
    "link_drop_2": 0.4,
    "feature_mask_1": 0.3,
    "feature_mask_2": 0.1,
    "norm_momentum": 0.99,
}


def model(*, batch_norm: bool = True, **changes: Any) -> BGRL:
    return BGRL(formulas.encoder(batch_norm=batch_norm), **PLAIN | changes)


def vectors(p: Leaves, batch: Batch, encoder: str, output: str, *, norm: bool) -> Tensor:
    h = normal(p, f"{output}0.", gcn(p, encoder, batch, norm=norm), batch.num_centres)
    return prelu(h, p[f"{output}1.weight"])[: batch.num_centres]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_value_and_gradients_compare_predictions_with_the_target_of_the_other_view(norm: bool, sampled: bool) -> None:
    batch = formulas.batches()[sampled]
    method = formulas.moved(model(batch_norm=norm))

    def loss(p: Leaves) -> Tensor:
        views = [augment.mask_columns(augment.drop_links(batch, link), mask) for link, mask in ((0.2, 0.3), (0.4, 0.1))]
        total = torch.zeros((), dtype=torch.float64)
        for own, other in (views, views[::-1]):
            h = vectors(p, own, "encoder.", "output.", norm=norm)
            predicted = dense(p, "predictor.2.", prelu(dense(p, "predictor.0.", h), p["predictor.1.weight"]))
            t = vectors(p, other, "target.0.", "target.1.", norm=norm).detach()
            total = total + sum(cosine(predicted[i], t[i]) for i in range(len(h)))
        return 2 - total / batch.num_centres

    # A bias before batch normalisation changes nothing.
    without = ["encoder.layers.1.bias", *(["encoder.layers.0.bias"] if norm else [])]
    formulas.agrees(method, batch, loss, without_effect=without)


def test_the_embedding_is_the_online_encoder_s_by_running_means() -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    method = model(norm_momentum=0.7)
    formulas.moved(method)
    before = {name: value.clone().double() for name, value in method.state_dict().items()}
    with rng.seeded(0, "train"):
        method(batch)
    with rng.seeded(0, "train"):
        views = [augment.mask_columns(augment.drop_links(batch, link), mask) for link, mask in ((0.2, 0.3), (0.4, 0.1))]
    mean, spread = torch.zeros(formulas.HIDDEN).double(), torch.ones(formulas.HIDDEN).double()
    for view in views:  # 0.7 of each view's statistics
        h = gcn(before, "encoder.", view, layers=1)
        mean, spread = 0.3 * mean + 0.7 * h.mean(dim=0), 0.3 * spread + 0.7 * h.var(dim=0)
    norm = method.encoder.between[0][0]
    torch.testing.assert_close(norm.running_mean.double(), mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var.double(), spread, rtol=1e-4, atol=1e-5)
    assert method.output[0].momentum == method.target[1][0].momentum == 0.7

    def embedding(p: Leaves) -> Tensor:
        def running(h: Tensor, at: str) -> Tensor:
            scale = p[f"{at}weight"] / (p[f"{at}running_var"] + 1e-5).sqrt()
            return (h - p[f"{at}running_mean"]) * scale + p[f"{at}bias"]

        h = gcn(p, "encoder.", batch, layers=1)
        h = prelu(running(h, "encoder.between.0.0."), p["encoder.between.0.1.weight"])
        one = {name.replace("layers.1", "layers.0"): value for name, value in p.items() if "layers.0" not in name}
        h = gcn(one, "encoder.", replace(batch, x=h.float()), layers=1)
        return prelu(running(h, "output.0."), p["output.1.weight"])

    formulas.embeds(method, graph, embedding)


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
