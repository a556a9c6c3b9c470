"""GraphMAE against a literal loop over its equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.methods.graphmae import GraphMAE, scaled_cosine_error
from dssl.nn import encoders
from dssl.nn.batches import full_batch, sampled_batch
from dssl.nn.operators import softmax
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas

PLAIN: dict[str, Any] = {
    "mask_rate": 0.5,
    "replace_rate": 0.2,
    "exponent": 2.5,
    "link_drop": 0.0,
    "decoder": "gat",
}


def model(*, layers: int = 1, **changes: Any) -> GraphMAE:
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=4, hidden_dim=6, layers=layers, dropout=0.0, batch_norm=False)
        return GraphMAE(made, **PLAIN | changes)


def loss_of(method: GraphMAE, graph: Any) -> torch.Tensor:
    with rng.seeded(0, "train"):
        return method(full_batch(graph, CPU))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"decoder": "gcn"},
        {"exponent": 1.0},
        {"mask_rate": 0.8},
        {"mask_rate": 0.01},
        {"replace_rate": 0.0},
        {"replace_rate": 1.0, "decoder": "gcn"},
    ],
)
def test_loss_and_gradients_are_those_of_equations_1_to_4(changes: dict[str, Any], wide: bool) -> None:
    settings = PLAIN | changes
    graph = random_graph(wide=wide)
    method = model(**changes)
    p = formulas.copies(formulas.moved(method))
    loss = loss_of(method, graph)
    n = graph.num_nodes
    with rng.seeded(0, "train"):
        hidden = torch.randperm(n)[: max(int(settings["mask_rate"] * n), 1)].tolist()
        swapped = hidden[: int(settings["replace_rate"] * len(hidden))]
        donors = torch.randperm(n)[: len(swapped)].tolist()
    x, a = formulas.features(full_batch(graph, CPU)), formulas.links(full_batch(graph, CPU))
    rows = []
    for i in range(n):  # Eq. 1
        if i in swapped:
            rows.append(x[donors[swapped.index(i)]])
        else:
            rows.append(p["token"] if i in hidden else x[i])
    looped = a + torch.eye(n)
    smooth = looped / (looped.sum(dim=1)[:, None] * looped.sum(dim=1)).sqrt()
    pre = smooth @ torch.stack(rows) @ p["encoder.layers.0.weight"] + p["encoder.layers.0.bias"]
    h = torch.where(pre > 0, pre, p["activation.weight"] * pre)
    code = [0 * h[i] if i in hidden else h[i] @ p["bridge.weight"] for i in range(n)]  # Eq. 2
    total = x.new_zeros(())
    for i in hidden:  # Eq. 3 and 4
        near = [j for j in range(n) if a[i, j] or j == i]
        if settings["decoder"] == "gcn":
            weights = [smooth[i, j] for j in near]
        else:
            own, other = p["attention.weight"].T
            wide_code = [code[j] @ p["decoder.weight"] for j in near]
            here = code[i] @ p["decoder.weight"] @ own
            raised = [torch.exp(F.leaky_relu(here + each @ other, 0.2)) for each in wide_code]
            weights = [each / sum(raised) for each in raised]
        z = sum(w * (code[j] @ p["decoder.weight"]) for w, j in zip(weights, near, strict=True)) + p["decoder.bias"]
        total = total + (1 - formulas.cosine(x[i], z) if x[i].any() else 1 + 0 * z.sum()) ** settings["exponent"]
    formulas.same(method, loss, p, total / len(hidden))


def test_the_embedding_is_the_encoder_s_with_nothing_hidden() -> None:
    graph = random_graph()
    method = model(layers=2)
    formulas.moved(method)
    wanted = method.activation(method.encoder(full_batch(graph, CPU))).detach().numpy()
    np.testing.assert_allclose(method.embed(graph), wanted, atol=1e-6)
    assert (wanted < 0).any()


def test_dropped_links_are_dropped_for_encoder_and_decoder() -> None:
    graph = random_graph()
    alone = graph.replace(indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0], weights=None)
    method = model(link_drop=1.0)
    formulas.moved(method)
    without = float(loss_of(model_like(method, link_drop=0.0), alone).detach())
    with rng.seeded(0, "train"):
        torch.randperm(graph.num_nodes), torch.randperm(graph.num_nodes)  # drawn before the links
        found = float(loss_of(method, graph).detach())
    assert found == pytest.approx(without, rel=1e-5)
    assert found != pytest.approx(float(loss_of(model_like(method, link_drop=0.0), graph).detach()), rel=1e-3)


def model_like(method: GraphMAE, **changes: Any) -> GraphMAE:
    made = model(**changes)
    made.load_state_dict(method.state_dict())
    return made


@pytest.mark.parametrize("decoder", ["gat", "gcn"])
def test_a_batch_with_all_neighbours_decodes_as_the_whole_graph_does(decoder: str) -> None:
    graph = random_graph()
    method = model(layers=2, decoder=decoder)
    whole = full_batch(graph, CPU)
    wanted = method.average(method.bridge(method.vectors(whole)), whole).detach()
    assert method.reach == 3
    centres = np.array([3, 39, 0, 17])
    batch = sampled_batch(graph, degrees(graph), centres, ALL_NEIGHBOURS, method.reach, 0, CPU)
    found = method.average(method.bridge(method.vectors(batch)), batch).detach()[:4]
    torch.testing.assert_close(found, wanted[centres], atol=1e-5, rtol=1e-4)


def test_a_kept_self_loop_counts_once_in_the_attention() -> None:
    """Eq. 3 is over N(i) ∪ i, a set."""
    ends = [0, 1, 2], [1, 2, 0]
    plain = Graph.from_edges(*ends, x=np.eye(3, 7))
    looped = Graph.from_edges([*ends[0], 1], [*ends[1], 1], x=np.eye(3, 7), self_loops="keep")
    assert looped.num_self_loops == 1
    method, h = model(), torch.randn(3, 4)
    wanted, found = (method.average(h, full_batch(graph, CPU)) for graph in (plain, looped))
    torch.testing.assert_close(found, wanted)


def test_extremes_of_the_error() -> None:
    x = torch.randn(4, 3)
    assert float(scaled_cosine_error(x, 5 * x, 3.0)) == pytest.approx(0, abs=1e-6)
    assert float(scaled_cosine_error(x, -x, 3.0)) == pytest.approx(8)
    for z in (torch.zeros(4, 3), x.clone(), 1e9 * x):
        z.requires_grad_()
        scaled_cosine_error(torch.zeros(4, 3), z, 1.5).backward()
        scaled_cosine_error(x, z, 1.5).backward()
        assert torch.isfinite(z.grad).all()
    assert float(scaled_cosine_error(x[:0], x[:0], 2.0)) == 0


def test_attention_is_a_softmax_over_the_arcs_of_a_node() -> None:
    found = softmax(torch.tensor([1e4, -1e4, 3.0, 3.0]), torch.tensor([0, 0, 1, 1]), 2)
    assert found.tolist() == [1.0, 0.0, 0.5, 0.5]
