"""GREET against literal loops over its equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dssl import rng
from dssl.errors import DsslError
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.methods import greet
from dssl.methods._node_similarity import return_probabilities, similar_nodes
from dssl.methods.greet import GREET, Step, cross_view, frozen, pivot_ranking
from dssl.nn import encoders
from dssl.nn.batches import Sampling, full_batch, sampled_batch
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas

PLAIN: dict[str, Any] = {
    "hops": 2,
    "high_pass_weight": 0.4,
    "temperature": 0.3,
    "positives": 3,
    "projector_dim": 4,
    "projector_layers": 2,
    "feature_mask_1": 0.3,
    "feature_mask_2": 0.2,
    "link_drop_1": 0.2,
    "link_drop_2": 0.4,
    "low_margin": 0.5,
    "high_margin": 0.7,
    "encoding_dim": 5,
    "discriminator_dim": 6,
    "contrast_steps": 2,
    "anchors": 1000,
    "pairs": 10_000,
}


def model(graph: Graph, *, dim: int = 5, **changes: Any) -> GREET:
    with rng.seeded(0, "init"):
        made = encoders.build("mlp", in_dim=7, dim=dim, hidden_dim=6, layers=1, dropout=0.0, batch_norm=False)
        method = GREET(made, **PLAIN | changes)
    method.prepare(graph, seed=0)
    return method


def arcs(graph: Graph) -> list[tuple[int, int]]:
    return list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))


def weights(method: GREET, p: dict[str, Tensor], graph: Graph, noise: Tensor | None) -> list[Tensor]:
    """w of each arc (Eq. 1 and 2)."""
    x, s = (
        formulas.features(full_batch(graph, CPU)),
        torch.tensor(return_probabilities(graph, method.encoding_dim), dtype=torch.float64),
    )
    d = "discriminator."
    r = F.relu(x @ p[d + "hidden.weight"] + p[d + "hidden.bias"] + s @ p[d + "places.weight"])
    found = []
    for number, (i, j) in enumerate(arcs(graph)):
        theta = ((r[i] + r[j]) @ p[d + "score.weight"] + p[d + "score.bias"]).squeeze()
        if noise is not None:
            delta = greet.CERTAIN + (1 - 2 * greet.CERTAIN) * noise[number].double()
            theta = theta + torch.log(delta / (1 - delta))
        found.append(1 / (1 + torch.exp(-theta)))
    return found


def halves(
    method: GREET, p: dict[str, Tensor], graph: Graph, w: list[Tensor], masks: list[Tensor], kept: list[Any]
) -> list[Tensor]:
    """H of both filters (Eq. 3 and 4), with dense matrices filled arc by arc."""
    x, a, n = formulas.features(full_batch(graph, CPU)), formulas.links(full_batch(graph, CPU)), graph.num_nodes
    made = []
    for side in (0, 1):
        f = F.relu(x * masks[side] @ p["encoder.layers.0.weight"] + p["encoder.layers.0.bias"])
        h = f[:, : f.shape[1] // 2] if side == 0 else f[:, f.shape[1] // 2 :]
        rows = [[x.new_zeros(()) for _ in range(n)] for _ in range(n)]
        for (i, j), weight in zip(arcs(graph), w, strict=True):
            rows[i][j] = a[i, j] * (weight if side == 0 else 1 - weight)
        links = torch.stack([torch.stack(row) for row in rows])
        d = links.sum(dim=1) + 1
        scaled = links / (d[:, None] * d).sqrt()
        keep_arcs, keep_nodes = kept[side]
        keep = torch.zeros(n, n, dtype=torch.float64)
        for number, (i, j) in enumerate(arcs(graph)):
            keep[i, j] = keep_arcs[number]
        if side == 0:
            matrix = scaled * keep + torch.diag(keep_nodes / d)
        else:
            matrix = torch.diag(keep_nodes) - method.high_pass_weight * scaled * keep
        for _ in range(method.hops):
            h = matrix @ h
        made.append(h)
    return made


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hops": 1, "projector_layers": 1},
        {"high_pass_weight": 0.9, "temperature": 1.0},
        {"positives": 0, "anchors": 11},
        {"feature_mask_1": 0.0, "feature_mask_2": 0.6, "link_drop_1": 0.5, "link_drop_2": 0.0},
        {"encoding_dim": 2, "projector_dim": 7},
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_contrast_and_its_gradients_are_those_of_equation_5(changes: dict[str, Any], weighted: bool) -> None:
    graph = random_graph(weighted=weighted)
    method = model(graph, **changes)
    p = formulas.copies(formulas.moved(method))
    with rng.seeded(0, "train"):
        loss = method(Step("contrast", full_batch(graph, CPU)))
    n, m = graph.num_nodes, graph.num_arcs
    with rng.seeded(0, "train"):
        noise = torch.rand(m)
        masks = [(torch.rand(7) >= mask).double() for mask, _ in method.rates]
        kept = [
            (F.dropout(torch.ones(m), drop).double(), F.dropout(torch.ones(n), drop).double())
            for _, drop in method.rates
        ]
        chosen = torch.randperm(n)[: method.anchors].tolist()
    w = [each.detach() for each in weights(method, p, graph, noise)]
    h = halves(method, p, graph, w, masks, kept)
    projected = []
    for side in (0, 1):
        name = f"projectors.{side}."
        out = h[side] @ p[name + "0.weight"] + p[name + "0.bias"]
        if method.projectors[side][-1] is not method.projectors[side][0]:  # type: ignore[index]
            out = F.relu(out) @ p[name + "2.weight"] + p[name + "2.bias"]
        projected.append(out)
    alike = similar_nodes(graph, method.positives).toarray() > 0
    total = torch.zeros((), dtype=torch.float64)
    for first, second in (projected, projected[::-1]):
        for i in chosen:
            same = [j for j in chosen if alike[i, j]]
            others = [j for j in chosen if not alike[i, j]]
            raised = {j: torch.exp(formulas.cosine(first[i], second[j]) / method.temperature) for j in chosen}
            below = sum(raised[j] for j in others)
            total = total + sum(torch.log(raised[j] / below) for j in same) / len(same)
    formulas.same(method, loss, p, -total / (2 * len(chosen)))
    assert all(parameter.grad is None for parameter in method.discriminator.parameters())


@pytest.mark.parametrize(
    "changes",
    [{}, {"low_margin": 0.1}, {"high_margin": 0.1}, {"pairs": 20}, {"high_pass_weight": 0.9, "hops": 1}],
)
def test_the_ranking_and_its_gradients_are_those_of_equation_6(changes: dict[str, Any]) -> None:
    graph = random_graph()
    method = model(graph, **changes)
    p = formulas.copies(formulas.moved(method))
    with rng.seeded(0, "train"):
        loss = method(Step("ranking", full_batch(graph, CPU)))
    n, m = graph.num_nodes, graph.num_arcs
    with rng.seeded(0, "train"):
        noise = torch.rand(m)
        taken = torch.randperm(m)[: method.pairs].tolist() if m > method.pairs else list(range(m))
        first = torch.randint(n, (len(taken),))
        second = (first + torch.randint(1, n, (len(taken),))) % n
    assert (first != second).all()
    ones = torch.ones(7, dtype=torch.float64)
    every = torch.ones(m, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
    fixed = {name: copy.detach() if not name.startswith("discriminator") else copy for name, copy in p.items()}
    w = weights(method, fixed, graph, noise)
    h = torch.cat(halves(method, fixed, graph, w, [ones, ones], [every, every]), dim=1)
    total = torch.zeros((), dtype=torch.float64)
    low, high = method.margins
    for number, i, j in zip(taken, first.tolist(), second.tolist(), strict=True):
        a, b = arcs(graph)[number]
        edge, pair = formulas.cosine(h[a], h[b]), formulas.cosine(h[i], h[j])
        if w[number] > 0.5:
            total = total + (w[number] - 0.5) * F.relu(low - edge + pair)
        else:
            total = total + (0.5 - w[number]) * F.relu(high - pair + edge)
    formulas.same(method, loss, p, total / (2 * len(taken)))
    assert all(parameter.grad is None for parameter in method.encoder.parameters())
    assert all(parameter.requires_grad for parameter in method.parameters())


def test_the_embedding_has_both_filters_without_noise_masks_and_drops() -> None:
    graph, other = random_graph(), random_graph(seed=3)
    method = model(graph)
    p = formulas.copies(formulas.moved(method))
    for given in (graph, other):  # of a new graph the encodings are found anew
        n, m = given.num_nodes, given.num_arcs
        ones = torch.ones(7, dtype=torch.float64)
        every = torch.ones(m, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        sides = halves(method, p, given, weights(method, p, given, None), [ones, ones], [every, every])
        np.testing.assert_allclose(method.embed(given), torch.cat(sides, dim=1).detach().numpy(), atol=1e-5)


def test_an_epoch_alternates_between_the_two_losses() -> None:
    graph = random_graph()
    method = model(graph, contrast_steps=3)
    steps = list(method.batches(graph, Sampling(batch_size=20, fanout=(3,), seed=0, epoch=0, device=CPU)))
    assert [step.loss for step in steps] == ["contrast", "contrast", "contrast", "ranking"] * 2
    assert steps[0].batch is steps[3].batch is not steps[4].batch


def test_a_batch_with_all_neighbours_has_the_vectors_of_the_whole_graph() -> None:
    graph = random_graph(weighted=True)
    method = model(graph).eval()
    assert method.reach == 2
    batch = sampled_batch(graph, degrees(graph), np.array([3, 39, 0, 17]), ALL_NEIGHBOURS, method.reach, 0, CPU)
    sides = method.filtered([batch, batch], method.weights(batch, method.encodings(batch)))
    found = torch.cat(sides, dim=1).detach().numpy()[:4]
    np.testing.assert_allclose(found, method.embed(graph)[[3, 39, 0, 17]], atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_return_probabilities_are_the_diagonals_of_powers(weighted: bool, length: int) -> None:
    graph = random_graph(weighted=weighted)
    a = graph.adjacency().toarray().astype(float)
    total = a.sum(axis=1, keepdims=True)
    walk = np.divide(a, total, out=np.zeros_like(a), where=total > 0)
    wanted = np.stack([np.diagonal(np.linalg.matrix_power(walk, t)) for t in range(1, length + 1)], axis=1)
    np.testing.assert_allclose(return_probabilities(graph, length), wanted, atol=1e-5)


def test_walks_of_the_return_probabilities_use_links_in_both_directions() -> None:
    found = return_probabilities(Graph.from_edges([0, 1], [1, 2], directed=True), 2)
    np.testing.assert_allclose(found, [[0, 0.5], [0, 1], [0, 0.5]], atol=1e-6)


@pytest.mark.parametrize("wide", [False, True])
def test_similar_nodes_have_the_largest_cosines(wide: bool) -> None:
    graph = random_graph(wide=wide)
    x = formulas.features(full_batch(graph, CPU)).numpy()
    size = np.linalg.norm(x, axis=1, keepdims=True)
    cosines = x @ x.T / np.maximum(size * size.T, 1e-12)
    np.fill_diagonal(cosines, -2)
    found = similar_nodes(graph, 4).toarray()
    assert (found.diagonal() == 1).all()
    np.fill_diagonal(found, 0)
    for row, near in zip(cosines, found, strict=True):
        assert near.sum() == 4
        assert row[near > 0].min() >= np.sort(row)[-4] - 1e-6
    assert similar_nodes(graph, 0).nnz == graph.num_nodes
    assert similar_nodes(graph, 10_000).nnz == graph.num_nodes**2


def test_extremes_are_finite() -> None:
    z = torch.randn(3, 2, requires_grad=True)
    everything, own = torch.ones(3, 3), torch.eye(3)
    assert float(cross_view(z, z, everything, 0.1).detach()) == 0  # no negatives
    cross_view(z, -z, own, 1e-4).backward()
    assert torch.isfinite(z.grad).all()
    assert float(pivot_ranking(torch.zeros(0), torch.zeros(0), torch.zeros(0), 1.0, 1.0)) == 0


def test_a_frozen_module_is_as_it_was_after_the_block() -> None:
    module = torch.nn.Linear(2, 2)
    module.bias.requires_grad_(False)
    with frozen(module):
        assert not module.training
        assert not module.weight.requires_grad
    assert module.training
    assert module.weight.requires_grad
    assert not module.bias.requires_grad


def test_a_vector_of_one_column_cannot_be_split() -> None:
    with pytest.raises(DsslError, match=r"encoder\.dim is 1"):
        model(random_graph(), dim=1)
