"""GraphACL against a literal float64 loop over its loss: value and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dssl.methods.graphacl import GraphACL, asymmetric
from dssl.nn.batches import full_batch
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, cosine, dense, gcn

PLAIN: dict[str, Any] = {
    "momentum": 0.9,
    "temperature": 0.4,
    "predictor_layers": 1,
    "own_neighbour": True,
    "negatives": 1000,
    "pairs": 10_000,
}


def model(**changes: Any) -> GraphACL:
    method = GraphACL(formulas.encoder(), **PLAIN | changes)
    formulas.moved(method)
    return method


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "changes",
    [{}, {"own_neighbour": False}, {"predictor_layers": 2}, {"temperature": 1.0}, {"negatives": 5}, {"pairs": 11}],
    ids=str,
)
def test_value_and_gradients_contrast_links_with_all_nodes(
    changes: dict[str, Any], weighted: bool, sampled: bool
) -> None:
    batch = formulas.batches(random_graph(weighted=weighted))[sampled]
    used = PLAIN | changes
    count, layers, tau = batch.num_centres, used["predictor_layers"], used["temperature"]

    def loss(p: Leaves) -> Tensor:
        links = [
            (i, int(batch.links.indices[at]), float(batch.links.data[at]))
            for i in range(count)
            for at in range(batch.links.indptr[i], batch.links.indptr[i + 1])
        ]
        if len(links) > used["pairs"]:
            places = torch.randperm(len(links))[: used["pairs"]].sort().values.tolist()
            links = [(i, j, w * len(links) / used["pairs"]) for i, j, w in (links[at] for at in places)]
        if used["own_neighbour"]:
            degree = batch.degrees[:count].astype(float)  # a loop of weight one beside links of this sum
            links = [(i, j, w * degree[i] / (degree[i] + 1)) for i, j, w in links]
            links += [(i, i, 1 / (degree[i] + 1)) for i in range(count)]
        others = torch.randperm(count)[: used["negatives"]].tolist()
        h, u = gcn(p, "encoder.", batch)[:count], gcn(p, "target.", batch).detach()
        g = h
        for layer in range(layers):
            g = dense(p, f"predictor.{2 * layer}.", g.clamp_min(0) if layer else g)
        rows = torch.stack([row / row.norm() for row in h])
        push = (rows @ rows[others].T / tau).exp().sum(dim=1) * count / len(others)
        total = torch.zeros((), dtype=torch.float64)
        for i, j, weight in links:
            pull = (cosine(g[i], u[j]) / tau).exp()
            total = total - weight * (pull / (pull + push[i])).log()
        return total / count

    formulas.agrees(model(**changes), batch, loss)


def test_the_embedding_is_the_online_encoder_s_and_the_target_follows_it() -> None:
    graph = random_graph()
    method = model()
    formulas.embeds(method, graph, lambda p: gcn(p, "encoder.", full_batch(graph, CPU)))
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.after_step()
    for name, parameter in method.target.named_parameters():
        wanted = 0.9 * before[f"target.{name}"] + 0.1 * before[f"encoder.{name}"]
        torch.testing.assert_close(parameter.detach(), wanted)
        assert not torch.equal(parameter, before[f"target.{name}"])


def test_a_sample_of_negatives_stands_for_all() -> None:
    """The push is that of the mean of the sampled nodes, times their number."""
    v = F.normalize(torch.randn(6, 3), dim=1)
    links = (torch.tensor([0]), torch.tensor([1]), torch.ones(1))
    found = [float(asymmetric(v, v, v, *links, torch.tensor(others), 0.5)) for others in ([2], [2, 2], [2] * 6)]
    np.testing.assert_allclose(found, found[0], rtol=1e-5)


def test_a_better_prediction_lowers_the_loss_and_extremes_are_finite() -> None:
    v = F.normalize(torch.randn(5, 3), dim=1)
    start, end, weights = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.ones(2)
    good, bad = v.clone(), v.clone()
    good[:2], bad[:2] = v[2:4], -v[2:4]
    rest = (v, v, start, end, weights, torch.arange(5))
    assert float(asymmetric(good, *rest, 0.5)) < float(asymmetric(bad, *rest, 0.5))
    assert torch.isfinite(asymmetric(bad, *rest, 1e-6))


def test_the_predictor_starts_as_torch_s_linear() -> None:
    """Uniform within 1/√dim, the bias too; Glorot's bound would be √3 times as large, with a bias of zero."""
    encoder = formulas.encoder()
    weight, bias = GraphACL(encoder, **PLAIN).predictor[0].parameters()
    bound = encoder.dim**-0.5
    for drawn in (weight, bias):
        assert 0.7 * bound < float(drawn.detach().abs().max()) <= bound
