"""GCA against literal loops over its equations."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.methods import gca
from dssl.methods.gca import GCA, extent, link_scores, node_centrality, unimportance
from dssl.nn import augment, encoders
from dssl.nn.batches import full_batch
from dssl.nn.losses import info_nce
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, cosine, dense, gcn

PLAIN: dict[str, Any] = {
    "centrality": "degree",
    "temperature": 0.4,
    "projector_dim": 6,
    "link_drop_1": 0.2,
    "link_drop_2": 0.4,
    "feature_mask_1": 0.3,
    "feature_mask_2": 0.4,
    "most_dropped": 0.7,
    "anchors": 100,
}


def test_the_contrast_is_equations_1_and_2() -> None:
    torch.manual_seed(0)
    u, v = torch.randn(5, 3), torch.randn(5, 3)

    def e(a: torch.Tensor, b: torch.Tensor) -> float:
        return math.exp(float(a @ b / (a.norm() * b.norm())) / 0.4)

    total = 0.0
    for own, other in ((u, v), (v, u)):
        for i in range(5):
            below = e(own[i], other[i])
            below += sum(e(own[i], other[k]) + e(own[i], own[k]) for k in range(5) if k != i)
            total += math.log(e(own[i], other[i]) / below)
    assert math.isclose(float(info_nce(u, v, 0.4, within=True)), -total / 10, rel_tol=1e-5)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("temperature", [0.4, 1.3])
def test_value_and_gradients_between_projections_of_views_by_centrality(temperature: float, sampled: bool) -> None:
    graph = random_graph()
    batch = formulas.batches(graph)[sampled]
    changes = {"temperature": temperature, "anchors": 8, "link_drop_1": 0.1, "feature_mask_2": 0.2, "most_dropped": 0.5}
    method = GCA(formulas.encoder(), **PLAIN | changes)
    formulas.moved(method)
    method.prepare(graph, seed=0)
    phi = np.maximum(graph.degrees, 1e-3)
    s = np.log((phi[graph.sources()] + phi[graph.indices]) / 2)
    s_f = np.log([sum(abs(float(graph.x[u, f])) * phi[u] for u in range(graph.num_nodes)) for f in range(7)])
    rows = np.repeat(np.arange(len(batch.nodes)), np.diff(batch.adjacency.indptr))
    own = np.log((phi[batch.nodes[rows]] + phi[batch.nodes[batch.adjacency.indices]]) / 2)

    def loss(p: Leaves) -> Tensor:
        chosen = torch.randperm(batch.num_centres)[:8]
        projected = []
        for link_rate, feature_rate in ((0.1, 0.3), (0.4, 0.2)):
            dropped = np.minimum((s.max() - own) / (s.max() - s.mean()) * link_rate, 0.5)
            masked = np.minimum((s_f.max() - s_f) / (s_f.max() - s_f.mean()) * feature_rate, 0.5)
            view = augment.mask_columns(augment.drop_links(batch, dropped), torch.from_numpy(masked))
            hidden = dense(p, "projector.0.", gcn(p, "encoder.", view)[chosen])
            projected.append(dense(p, "projector.2.", torch.where(hidden > 0, hidden, hidden.exp() - 1)))
        u, v = projected

        def e(a: Tensor, b: Tensor) -> Tensor:
            return (cosine(a, b) / temperature).exp()

        total = torch.zeros((), dtype=torch.float64)
        for one, two in ((u, v), (v, u)):
            for i in range(8):
                others = sum(e(one[i], two[k]) + e(one[i], one[k]) for k in range(8) if k != i)
                total = total + (e(one[i], two[i]) / (e(one[i], two[i]) + others)).log()
        return -total / 16

    formulas.agrees(method, batch, loss)
    formulas.embeds(method, graph, lambda p: gcn(p, "encoder.", full_batch(graph, CPU)))


def test_the_gradient_of_the_contrast_is_finite() -> None:
    u = torch.randn(4, 3, requires_grad=True)
    info_nce(u, torch.randn(4, 3), 0.1, within=True).backward()
    assert torch.isfinite(u.grad).all()


def test_important_links_and_features_are_kept_more_often() -> None:
    star = Graph.from_edges([0, 0, 0, 0, 4], [1, 2, 3, 4, 5], x=np.diag([1.0, 2, 3, 4, 5, 6])[:, :3] + 0.1)
    nodes = node_centrality(star, "degree")
    assert nodes.tolist() == [4, 1, 1, 1, 2, 1]
    scores = link_scores(nodes, star.sources(), star.indices)
    assert math.isclose(scores[0], math.log((4 + 1) / 2))
    rates = unimportance(scores, extent(scores))
    assert math.isclose(rates.mean(), 1.0)
    assert rates.min() == 0
    method = GCA(encoders.build("gcn", in_dim=3, dim=3, hidden_dim=3, layers=1, dropout=0, batch_norm=False), **PLAIN)
    method.prepare(star, seed=0)
    weights = [sum(abs(float(star.x[u, f])) * nodes[u] for u in range(6)) for f in range(3)]
    assert np.argsort(method._features).tolist() == np.argsort(weights)[::-1].tolist()


@pytest.mark.parametrize("kind", ["degree", "pagerank", "eigenvector"])
@pytest.mark.parametrize("weighted", [False, True])
def test_views_lose_links_and_features_by_the_formula(
    kind: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(weighted=weighted)
    x = np.abs(np.asarray(graph.x))
    x[:, 2] = 0  # a feature that no node has
    graph = graph.replace(x=x)
    made = encoders.build("gcn", in_dim=7, dim=3, hidden_dim=3, layers=1, dropout=0, batch_norm=False)
    method = GCA(made, **PLAIN | {"centrality": kind})
    method.prepare(graph, seed=0)
    links, features = [], []
    monkeypatch.setattr(gca, "drop_links", lambda batch, chance: links.append(chance) or batch)
    monkeypatch.setattr(gca, "mask_columns", lambda batch, chance: features.append(chance.numpy()) or batch)
    method(full_batch(graph, CPU))

    phi = node_centrality(graph, kind)
    arcs = list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    s = [math.log((phi[i] + phi[j]) / 2) for i, j in arcs]
    used = [f for f in range(7) if f != 2]
    s_f = {f: math.log(sum(x[u, f] * phi[u] for u in range(graph.num_nodes))) for f in used}
    for view, (link_rate, feature_rate) in enumerate(((0.2, 0.3), (0.4, 0.4))):
        top, mean = max(s), sum(s) / len(s)
        wanted = [min((top - value) / (top - mean) * link_rate, 0.7) for value in s]
        np.testing.assert_allclose(links[view], wanted, rtol=1e-6, atol=1e-9)
        top, mean = max(s_f.values()), sum(s_f.values()) / len(s_f)
        wanted = [min((top - s_f[f]) / (top - mean) * feature_rate, 0.7) for f in used]
        np.testing.assert_allclose(features[view][used], wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["pagerank", "eigenvector"])
def test_centralities_are_those_of_networkx(kind: Any) -> None:
    graph = random_graph()
    other = nx.Graph(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    other.add_nodes_from(range(graph.num_nodes))
    found = node_centrality(graph, kind)
    wanted = nx.pagerank(other) if kind == "pagerank" else nx.eigenvector_centrality(other, max_iter=1000)
    np.testing.assert_allclose(found, [wanted[i] for i in range(graph.num_nodes)], atol=2e-3)


@pytest.mark.parametrize("kind", ["degree", "pagerank", "eigenvector"])
def test_it_trains_with_every_centrality(kind: Any) -> None:
    graph = random_graph(wide=True)
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
        method = GCA(made, **PLAIN | {"centrality": kind, "anchors": 9})
    method.prepare(graph, seed=0)
    loss = method(full_batch(graph, CPU))
    loss.backward()
    assert torch.isfinite(loss)
