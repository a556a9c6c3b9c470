from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from dssl import rng
from dssl.config.resolve import resolve
from dssl.graph import adjacency
from dssl.model.build import build
from dssl.nn import encoders, layerwise
from dssl.nn.batches import full_batch
from dssl.runtime import out_of_core
from dssl.runtime.scale import BY_BLOCKS
from tests.graphs import random_graph

CPU = torch.device("cpu")


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layerwise, "NODES", 7)
    monkeypatch.setattr(layerwise, "ARCS", 40)
    monkeypatch.setattr(layerwise, "RINGS", 6)
    monkeypatch.setattr(adjacency, "SLAB", 4 * 40 * 4)  # four columns
    monkeypatch.setattr(adjacency, "LEAST", 1)
    monkeypatch.setattr(out_of_core, "SMALL", 0)  # everything in scratch files


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", encoders.NAMES)
def test_layer_by_layer_is_the_whole_graph_at_once(
    name: str, weighted: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    graph = random_graph(weighted=weighted, wide=wide)
    with rng.seeded(0, "init"):
        encoder = encoders.build(
            name, in_dim=7, dim=5, hidden_dim=6, layers=3, dropout=0.5, batch_norm=True, high_pass=name == "hops"
        )
        encoder.train()
        for _ in range(3):  # running means that are not zero
            encoder(full_batch(graph, CPU))
        for parameter in encoder.parameters():
            if parameter.ndim == 1:
                nn.init.normal_(parameter, 0.3)
    encoder.eval()
    whole = encoder(full_batch(graph, CPU)).detach().numpy()
    encoder.train()  # which inference turns off
    found = layerwise.encoded(encoder, graph, CPU)
    assert out_of_core.is_mapped(found)
    np.testing.assert_allclose(found, whole, atol=1e-5, rtol=1e-4)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GCNConv(7, 6), GCNConv(6, 5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x, edge_index)), edge_index)


def test_a_module_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    graph = random_graph()
    with rng.seeded(0, "init"):
        encoder = encoders.Wrapped(Two(), in_dim=7, dim=5, hops=2).eval()
    whole = encoder(full_batch(graph, CPU)).detach().numpy()
    np.testing.assert_allclose(layerwise.encoded(encoder, graph, CPU), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("method", ["dssl", "dgi", "vgae", "graphcl", "bgrl", "sage", "cca-ssg"])
def test_a_method_embeds_a_large_graph_as_a_small_one(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    config = resolve({"method": method})
    with rng.seeded(0, "init"):
        encoder = encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
        model = build(config.method, encoder=encoder, dim=5)
    small = model.embed(graph)
    small_parts(monkeypatch)
    np.testing.assert_allclose(model.embed(graph, scale=BY_BLOCKS), small, atol=1e-5, rtol=1e-4)


def test_parts_cover_the_nodes_once_whatever_the_degrees(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    graph = random_graph()
    found = list(layerwise.parts(graph))
    assert np.concatenate(found).tolist() == list(range(40))
    for nodes in found:
        assert len(nodes) <= 7
        assert len(nodes) == 1 or graph.indptr[nodes[-1] + 1] - graph.indptr[nodes[0]] <= 40
