"""PolyGCL against a literal loop over its equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.methods.polygcl import PolyGCL, chebyshev, interpolation
from dssl.nn import encoders
from dssl.nn.batches import Sampling, full_batch, mini_batches, sampled_batch
from dssl.nn.operators import Operator
from dssl.runtime.scale import Scale
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas

PLAIN: dict[str, Any] = {
    "degree": 4,
    "feature_dropout": 0.3,
    "filtered_dropout": 0.0,
    "normalise": False,
    "activation": "prelu",
    "filter_rate": 2.0,
}


def model(*, encoder: str = "mlp", layers: int = 1, **changes: Any) -> PolyGCL:
    with rng.seeded(0, "init"):
        made = encoders.build(encoder, in_dim=7, dim=5, hidden_dim=6, layers=layers, dropout=0.0, batch_norm=False)
        return PolyGCL(made, **PLAIN | changes)


def polynomial(k: int, x: float) -> float:
    """T_k(x) by its recurrence."""
    before, now = 1.0, x
    for _ in range(k):
        before, now = now, 2 * x * now - before
    return before


def frequencies(degree: int) -> list[float]:
    return [math.cos((degree - j + 0.5) * math.pi / (degree + 1)) for j in range(degree + 1)]


def values(method: PolyGCL, p: dict[str, Tensor], kind: str) -> list[Tensor]:
    """γ of a filter (Eq. 2)."""
    rate, degree = method.filter_rate, method.degree
    theta = [2 / degree + rate * p[kind][i] for i in range(degree)]
    found = [p[kind].new_full((), 2.0 if kind == "low" else 0.0)]
    for each in theta:
        step = each if each > 0 else 0 * each
        found.append(found[-1] - step if kind == "low" else found[-1] + step)
    return found


def view(
    method: PolyGCL,
    p: dict[str, Tensor],
    x: Tensor,
    graph: Graph,
    kind: str,
    after: Callable[[Tensor], Tensor] = lambda x: x,
) -> Tensor:
    """Z of a filter (Eq. 1 and 3), with a function of the filtered features."""
    degree, n = method.degree, graph.num_nodes
    gamma, at = values(method, p, kind), frequencies(degree)
    a = formulas.links(full_batch(graph, CPU))
    total = a.sum(dim=1)
    laplacian = -a / torch.where(total > 0, total, 1.0).sqrt()[:, None] / torch.where(total > 0, total, 1.0).sqrt()
    powers = [torch.eye(n, dtype=torch.float64), laplacian]
    for _ in range(degree - 1):
        powers.append(2 * laplacian @ powers[-1] - powers[-2])
    matrix = torch.zeros(n, n, dtype=torch.float64)
    for k in range(degree + 1):
        w = 2 / (degree + 1) * sum(gamma[j] * polynomial(k, at[j]) for j in range(degree + 1))
        matrix = matrix + (w / 2 if k == 0 else w) * powers[k]
    pre = after(matrix @ x) @ p["encoder.layers.0.weight"] + p["bias"]
    slope = p.get("activation.weight", 0.0)
    return torch.where(pre > 0, pre, slope * pre)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"degree": 1},
        {"degree": 7, "filter_rate": 0.5},
        {"activation": "relu"},
        {"feature_dropout": 0.0},
        {"filtered_dropout": 0.4},
        {"normalise": True},
        {"filtered_dropout": 0.4, "normalise": True, "activation": "relu"},
    ],
)
def test_loss_and_gradients_are_those_of_equations_1_to_5(changes: dict[str, Any]) -> None:
    graph = random_graph()
    method = model(**changes)
    p = formulas.copies(formulas.moved(method))
    with rng.seeded(0, "train"):
        loss = method(full_batch(graph, CPU))
    rate, n = method.feature_dropout, graph.num_nodes
    x = formulas.features(full_batch(graph, CPU))

    def kept(rate: float) -> Tensor:
        return F.dropout(torch.ones(n, 7), rate).double() if rate else torch.ones(n, 7, dtype=torch.float64)

    def made(given: Tensor, kind: str) -> Tensor:
        given, mask = given * kept(rate), kept(method.filtered_dropout)

        def after(filtered: Tensor) -> Tensor:
            filtered = filtered * mask
            if method.norm is None:
                return filtered
            mean = filtered.sum(dim=0) / n
            variance = ((filtered - mean) ** 2).sum(dim=0) / n
            return (filtered - mean) / (variance + 1e-5).sqrt() * method.norm.weight + method.norm.bias

        return view(method, p, given, graph, kind, after)

    with rng.seeded(0, "train"):
        high, low = made(x, "high"), made(x, "low")
        shuffled = x[torch.randperm(n)]
        wrong = [made(shuffled, "high"), made(shuffled, "low")]
    alpha, beta = (0.5 + method.filter_rate * each for each in p["mixture"])
    s = F.relu((alpha * high + beta * low).mean(dim=0))
    total = x.new_zeros(())
    for i in range(n):
        for z in (high[i], low[i]):
            total = total + torch.log(torch.sigmoid(z @ p["discriminator.weight"] @ s + p["discriminator.bias"]))
        for z in (wrong[0][i], wrong[1][i]):
            total = total + torch.log(1 - torch.sigmoid(z @ p["discriminator.weight"] @ s + p["discriminator.bias"]))
    formulas.same(method, loss, p, -total / (4 * n))


@pytest.mark.parametrize("kind", ["low", "high"])
def test_a_filter_has_the_value_gamma_at_each_frequency_and_is_monotone_there(kind: Any) -> None:
    method = model(degree=6)
    p = formulas.copies(formulas.moved(method))
    gamma = [float(each.detach()) for each in values(method, p, kind)]
    for x, wanted in zip(frequencies(6), gamma, strict=True):
        matrix = Operator.build(sparse.csr_array([[np.float32(-x)]]), symmetric=True, device=CPU)
        found = chebyshev(matrix, torch.ones(1, 1), method.weights(kind))
        assert float(found.detach()) == pytest.approx(wanted, abs=1e-4)
    assert gamma == sorted(gamma, reverse=kind == "low")
    assert gamma[0] == (2.0 if kind == "low" else 0.0)
    assert gamma[-1] != gamma[0]


def test_the_interpolation_is_exact_for_polynomials_of_its_degree() -> None:
    degree = 5
    weights = interpolation(degree) @ torch.tensor([x**3 - x for x in frequencies(degree)])
    for x in (-1.0, -0.3, 0.7):
        found = sum(float(w) * polynomial(k, x) for k, w in enumerate(weights))
        assert found == pytest.approx(x**3 - x, abs=1e-5)


def test_constant_features_have_the_polynomial_and_the_gradient_of_any_others() -> None:
    operator = full_batch(random_graph(), CPU).normalised
    h, weights = torch.randn(operator.shape[1], 4), torch.randn(6, requires_grad=True)
    found = [chebyshev(operator, x, weights) for x in (h, h.clone().requires_grad_())]
    pull = torch.randn_like(h)
    grads = [torch.autograd.grad((z * pull).sum(), weights)[0] for z in found]
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(grads[0], grads[1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(chebyshev(operator, h, weights[:2]), weights[0] * h - weights[1] * (operator @ h))


def test_the_filter_rate_is_a_learning_rate() -> None:
    method = model(filter_rate=3.0, feature_dropout=0.0)
    optimizer = torch.optim.Adam(method.parameters(), lr=0.01, eps=1e-20)  # a step is lr, also for small gradients
    before = {name: parameter.detach().clone() for name, parameter in method.named_parameters()}
    method(full_batch(random_graph(), CPU)).backward()
    optimizer.step()
    for name in ("low", "high", "mixture"):
        step = method.filter_rate * (getattr(method, name).detach() - before[name]).abs()
        torch.testing.assert_close(step, torch.full_like(step, 0.03), rtol=1e-3, atol=0.0)


def test_the_embedding_is_the_mixture_of_both_views_without_dropout() -> None:
    graph = random_graph()
    method = model(feature_dropout=0.5)
    p = formulas.copies(formulas.moved(method))
    x = formulas.features(full_batch(graph, CPU))
    alpha, beta = (0.5 + method.filter_rate * each for each in p["mixture"])
    wanted = (alpha * view(method, p, x, graph, "high") + beta * view(method, p, x, graph, "low")).detach().numpy()
    np.testing.assert_allclose(method.embed(graph), wanted, atol=1e-4)
    np.testing.assert_allclose(method.embed(graph, scale=Scale(in_memory=False)), wanted, atol=1e-4)


def test_the_embedding_normalises_filtered_features_by_the_running_statistics_and_drops_none() -> None:
    graph = random_graph()
    method = model(filtered_dropout=0.5, normalise=True)
    p = formulas.copies(formulas.moved(method))
    norm: Any = method.norm
    norm.running_mean.fill_(0.3)
    norm.running_var.fill_(4.0)

    def after(given: Tensor) -> Tensor:
        return cast(Tensor, (given - 0.3) / math.sqrt(4 + 1e-5) * norm.weight + norm.bias)

    x = formulas.features(full_batch(graph, CPU))
    alpha, beta = (0.5 + method.filter_rate * each for each in p["mixture"])
    high, low = (view(method, p, x, graph, kind, after) for kind in ("high", "low"))
    wanted = (alpha * high + beta * low).detach().numpy()
    np.testing.assert_allclose(method.embed(graph), wanted, atol=1e-4)
    np.testing.assert_allclose(method.embed(graph, scale=Scale(in_memory=False)), wanted, atol=1e-4)


def test_filtering_features_or_the_output_of_a_linear_encoder_is_the_same() -> None:
    graph = random_graph()
    method, first = model(), model(filtered_dropout=0.5)
    np.testing.assert_allclose(first.embed(graph), method.embed(graph), atol=1e-5)
    assert first.features_first
    assert not method.features_first


@pytest.mark.parametrize(("encoder", "layers"), [("mlp", 1), ("mlp", 2), ("gcn", 2), ("hops", 2)])
def test_the_bias_stands_after_the_filter(encoder: str, layers: int) -> None:
    method = model(encoder=encoder, layers=layers)
    made: Any = method.encoder
    last = made.out if encoder == "hops" else made.layers[-1]
    assert last.bias is None
    for weights, inputs in (
        (last.weight, len(last.weight)),
        (method.bias, len(last.weight)),
        (method.discriminator.weight, 5),
    ):
        assert 0.5 < float(weights.abs().max().detach()) * inputs**0.5 <= 1
    assert torch.isfinite(method(full_batch(random_graph(), CPU)))


def test_the_matrix_of_a_batch_keeps_polynomials_bounded_and_the_rings_are_there() -> None:
    graph = random_graph(weighted=True)
    method = model()
    assert method.reach == 4
    for batch in mini_batches(graph, Sampling(batch_size=7, fanout=(2,), seed=0, epoch=0, device=CPU), layers=4):
        assert np.linalg.norm(batch.normalised.dense().numpy(), 2) <= 1 + 1e-5
    every = np.arange(graph.num_nodes)
    batch = sampled_batch(graph, degrees(graph), every, ALL_NEIGHBOURS, method.reach, 0, CPU)
    method.eval()
    for found, wanted in zip(method.views(batch), method.views(full_batch(graph, CPU)), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
