from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

from dssl import rng
from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.nn import encoders
from dssl.nn.batches import full_batch
from dssl.nn.encoders import Wrapped
from dssl.nn.health import effective_rank
from tests.graphs import CPU, random_graph


def make(name: str, *, layers: int = 2, batch_norm: bool = False, high_pass: bool = False) -> encoders.Encoder:
    options = {"batch_norm": batch_norm, "high_pass": high_pass}
    with rng.seeded(0, "init"):
        return encoders.build(name, in_dim=7, dim=5, hidden_dim=6, layers=layers, dropout=0.0, **options)


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


@pytest.mark.parametrize(("name", "layer"), [("gcn", GCNConv), ("sage", SAGEConv), ("gin", GINConv), ("gat", GATConv)])
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
        elif name == "gat":
            own, conv = encoder.layers[0]
            other = lambda x, links: conv(own(x), links)  # noqa: E731
        else:
            other = GINConv(torch.nn.Sequential(*encoder.layers[0][:3]))
        torch.testing.assert_close(encoder(batch), other(batch.x, batch.edge_index), atol=1e-5, rtol=1e-4)


def test_attention_has_the_gradients_of_pyg() -> None:
    graph = Graph.from_edges([0, 1, 2, 3, 2, 2], [1, 2, 3, 0, 0, 2], x=np.eye(5, 7), num_nodes=5, self_loops="keep")
    batch, (own, other) = full_batch(graph, CPU), make("gat", layers=1).layers[0]
    ours, theirs = make("gat", layers=1).mixed([own, other], own(batch.x), batch), other(own(batch.x), batch.edge_index)
    pull, learnt = torch.randn(5, 5), [own.weight, *other.parameters()]
    torch.testing.assert_close(ours, theirs)
    for mine, pygs in zip(*(torch.autograd.grad((z * pull).sum(), learnt) for z in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, pygs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("high_pass", [False, True])
def test_hops_are_means_of_means_node_by_node_and_differences_to_them(high_pass: bool) -> None:
    graph = random_graph(nodes=12, weighted=True)
    encoder = make("hops", high_pass=high_pass).eval()
    with torch.no_grad():
        for block in encoder.blocks:
            block.bias.normal_(generator=torch.Generator().manual_seed(1))
    x = torch.from_numpy(np.array(graph.x, np.float32))

    def mean(rows: torch.Tensor, i: int) -> torch.Tensor:
        own = range(graph.indptr[i], graph.indptr[i + 1])
        total = sum(graph.weights[e] for e in own)
        return sum((graph.weights[e] / total * rows[graph.indices[e]] for e in own), start=torch.zeros(rows.shape[1]))

    wanted = [x @ encoder.blocks[0].weight + encoder.blocks[0].bias]
    for hop in (1, 2):
        rows = x @ encoder.blocks[hop].weight + encoder.blocks[hop].bias
        for _ in range(hop):
            rows = torch.stack([mean(rows, i) for i in range(12)])
        wanted.append(rows)
    if high_pass:
        rows = x @ encoder.difference.weight
        wanted.append(torch.stack([rows[i] - mean(rows, i) for i in range(12)]))
    hidden = torch.cat(wanted, dim=1)
    found = encoder.out(torch.where(hidden > 0, hidden, encoder.activation.weight * hidden))
    torch.testing.assert_close(encoder(full_batch(graph, CPU)), found, atol=1e-5, rtol=1e-4)


def test_few_features_are_normalised_by_hops_unless_said_otherwise() -> None:
    def normalised(name: str, *, in_dim: int, batch_norm: bool | None) -> bool:
        options = {"dim": 32, "hidden_dim": 6, "layers": 2, "dropout": 0.0, "batch_norm": batch_norm}
        parts = encoders.build(name, in_dim=in_dim, **options).modules()
        return any(isinstance(part, encoders.BatchNorm) for part in parts)

    assert normalised("hops", in_dim=7, batch_norm=None)
    assert not normalised("hops", in_dim=8, batch_norm=None)
    assert not normalised("gcn", in_dim=7, batch_norm=None)
    assert not normalised("hops", in_dim=7, batch_norm=False)
    assert normalised("hops", in_dim=8, batch_norm=True)


def test_few_features_do_not_end_in_few_directions() -> None:
    """One-hot features of seven kinds, of random nodes: at the start, a quarter of the vector's directions is used."""
    draw = np.random.default_rng(0)
    graph = Graph.from_edges(*draw.integers(500, size=(2, 1500)), x=np.eye(7)[draw.integers(7, size=500)])
    ranks = {}
    for batch_norm in (None, False):
        with rng.seeded(0, "init"):
            options = {"hidden_dim": 64, "layers": 2, "dropout": 0.0, "batch_norm": batch_norm}
            encoder = encoders.build("hops", in_dim=7, dim=64, **options)
        ranks[batch_norm] = effective_rank(encoder(full_batch(graph, CPU)).detach())
    assert ranks[None] > 1.25 * ranks[False]
    assert ranks[None] > 16


def test_a_difference_to_the_neighbours_is_nothing_where_they_are_alike() -> None:
    ring = Graph.from_edges(np.arange(6), np.roll(np.arange(6), 1), x=np.ones((6, 7)))
    plain, high = make("hops"), make("hops", high_pass=True)
    seen = []
    high.activation.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    high(full_batch(ring, CPU))
    assert seen[0].shape == (6, 24)
    assert float(seen[0][:, 18:].abs().max()) < 1e-6 < float(seen[0][:, :18].abs().max())
    assert plain(full_batch(ring, CPU)).shape == (6, 5)


def test_a_module_of_ones_own() -> None:
    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = GCNConv(7, 4)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.layer(x, edge_index)

    encoder = Wrapped(Own(), in_dim=7, dim=4, hops=1)
    graph = random_graph(wide=True)
    assert graph.x is not None
    found = encoder(full_batch(graph, CPU))
    torch.testing.assert_close(found, encoder(full_batch(graph.replace(x=graph.x.toarray()), CPU)))


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "gin", "mlp", "hops", "own"])
def test_reset_parameters_draws_as_the_constructor(name: str) -> None:
    with rng.seeded(0, "init"):
        own = Wrapped(torch.nn.ModuleList([GCNConv(7, 4)]), in_dim=7, dim=4)
    first = own if name == "own" else make(name)
    second = copy.deepcopy(first)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1.0)
    with rng.seeded(0, "init"):
        second.reset_parameters()
    for (key, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        if name in ("gat", "own"):  # PyG's constructors draw more than once
            assert bool((one == 0).all()) == bool((other == 0).all()) and float(other.detach().abs().max()) < 1, key
        else:
            torch.testing.assert_close(one, other, msg=key)
    second.reset_parameters()
    assert any(not torch.equal(*both) for both in zip(first.parameters(), second.parameters(), strict=True))


def test_unknown_encoder_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sage'"):
        make("saeg")
