from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv, GINConv, SAGEConv

from dssl import encoders, rng
from dssl.encoders import Wrapped
from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.loader import full_batch
from tests.test_loader import CPU, random_graph


def make(name: str, *, layers: int = 2, **options: object) -> encoders.Encoder:
    with rng.seeded(0, "init"):
        return encoders.build(
            name, in_dim=7, dim=5, hidden_dim=6, layers=layers, dropout=0.0, batch_norm=bool(options.get("batch_norm"))
        )


@pytest.mark.parametrize("name", encoders.NAMES)
def test_node_order_does_not_matter(name: str) -> None:
    graph = random_graph()
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    place = np.argsort(order)
    moved = Graph.from_edges(place[graph.sources()], place[graph.indices], x=np.asarray(graph.x)[order])
    encoder = make(name).eval()
    torch.testing.assert_close(
        encoder(full_batch(moved, CPU)), encoder(full_batch(graph, CPU))[order], atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("name", encoders.NAMES)
def test_sparse_and_dense_features_give_the_same_vectors_and_gradients(name: str) -> None:
    wide = random_graph(wide=True)
    assert wide.x is not None
    dense = wide.replace(x=wide.x.toarray())
    encoder = make(name)
    grads = []
    for graph in (wide, dense):
        encoder.zero_grad()
        encoder(full_batch(graph, CPU)).square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in encoder.parameters() if parameter.grad is not None])
    assert len(grads[0]) > 1
    for first, second in zip(*grads, strict=True):
        torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", encoders.NAMES)
@pytest.mark.parametrize("batch_norm", [False, True])
def test_shape_reach_and_finite_values_without_links(name: str, batch_norm: bool) -> None:
    graph = Graph.from_edges([], [], num_nodes=3, x=np.eye(3, 7))
    encoder = make(name, batch_norm=batch_norm)
    found = encoder(full_batch(graph, CPU))
    assert found.shape == (3, 5) and encoder.dim == 5
    assert bool(torch.isfinite(found).all())
    assert encoder.hops == (0 if name == "mlp" else 2)


def test_a_vector_depends_on_the_nodes_within_reach_and_no_others() -> None:
    path = Graph.from_edges(np.arange(5), np.arange(1, 6), x=np.eye(6, 7))
    assert path.x is not None
    for name in encoders.NAMES:
        encoder = make(name).eval()
        before = encoder(full_batch(path, CPU))
        x = np.asarray(path.x).copy()
        x[5] += 1
        after = encoder(full_batch(path.replace(x=x), CPU))
        changed = (before != after).any(dim=1).tolist()
        reach = encoder.hops
        assert changed[: 5 - reach] == [False] * (5 - reach), name
        assert all(changed[5 - reach :]), name


@pytest.mark.parametrize(("name", "layer"), [("gcn", GCNConv), ("sage", SAGEConv), ("gin", GINConv)])
def test_one_layer_equals_pyg(name: str, layer: type) -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    encoder = make(name, layers=1)
    with torch.no_grad():
        if name == "gcn":
            other = GCNConv(7, 5)
            other.lin.weight.copy_(encoder.layers[0].weight.T)
        elif name == "sage":
            other = SAGEConv(7, 5)
            own, others = encoder.layers[0]
            other.lin_r.weight.copy_(own.weight.T)
            other.lin_l.weight.copy_(others.weight.T)
            other.lin_l.bias.zero_()
        else:
            other = GINConv(torch.nn.Sequential(*encoder.layers[0][:3]))
        torch.testing.assert_close(encoder(batch), other(batch.x, batch.edge_index), atol=1e-5, rtol=1e-4)


def test_a_module_of_ones_own() -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = GCNConv(7, 4)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.layer(x, edge_index)

    encoder = Wrapped(Own(), dim=4, hops=1)
    graph = random_graph(wide=True)
    assert graph.x is not None
    found = encoder(full_batch(graph, CPU))
    torch.testing.assert_close(found, encoder(full_batch(graph.replace(x=graph.x.toarray()), CPU)))


def test_unknown_encoder_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sage'"):
        make("saeg")
