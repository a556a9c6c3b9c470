from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from dssl.graph import Graph
from dssl.nn.fixed_blocks import Readout, link_auc
from dssl.rng import stream
from dssl.runtime import out_of_core
from dssl.runtime.scale import BY_BLOCKS, IN_MEMORY, Scale
from tests.graphs import random_graph


def fitted(graph: Graph, trained: np.ndarray) -> Readout:
    readout = Readout(dim=3, link_dim=4)
    readout.fit(graph, trained, seed=0)
    return readout


def test_blocks_equal_their_formulas_up_to_rotation_and_scale() -> None:
    graph = random_graph(wide=True)
    trained = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    readout = fitted(graph, trained)
    found = readout.join(graph, trained)
    a, x = graph.adjacency().toarray(), graph.x.toarray()
    p = a / np.maximum(a.sum(axis=1, keepdims=True), 1)
    looped = a + np.eye(40)
    s = looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=1)))

    def leading(matrix: np.ndarray, dim: int) -> np.ndarray:
        u, values, _ = np.linalg.svd(matrix, full_matrices=False)
        return u[:, :dim] * values[:dim]

    ego = leading(x, 3)
    wanted = [trained, np.hstack([ego, p @ ego, p @ p @ ego]), leading(s @ s @ x, 6), leading(a, 4)]
    at = 0
    for number, block in enumerate(wanted):
        own = found[:, at : at + block.shape[1]]
        at += block.shape[1]
        centred = (block - block.mean(axis=0)) * float(readout.scales[number])
        # Inner products do not depend on the signs and rotations of singular vectors.
        np.testing.assert_allclose(own @ own.T, centred @ centred.T, atol=2e-3)
    assert at == found.shape[1]
    sizes = np.square(found[:, :5]).sum(axis=1).mean(), np.square(found[:, 5:14]).sum(axis=1).mean()
    assert sizes == pytest.approx((1, 1), rel=1e-3)


def test_new_nodes_are_described_by_their_links_to_known_ones() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(30, 6)).astype(np.float32)
    source, target = draw.integers(30, size=(2, 120))
    names = [f"n{i}" for i in range(30)]
    graph = Graph.from_edges(source, target, x=x, ids=names)
    trained = draw.normal(size=(30, 2)).astype(np.float32)
    readout = fitted(graph, trained)
    known = readout.join(graph, trained)
    # The same nodes in another order, and a new one that has exactly the links of node 3.
    order = draw.permutation(30)
    place = np.argsort(order)
    neighbours = graph.indices[graph.indptr[3] : graph.indptr[4]]
    grown = Graph.from_edges(
        np.concatenate([place[graph.sources()], np.full(len(neighbours), 30)]),
        np.concatenate([place[graph.indices], place[neighbours]]),
        x=np.vstack([x[order], x[3]]),
        ids=[*(names[i] for i in order), "new"],
    )
    found = readout.join(grown, np.vstack([trained[order], trained[3]]))
    links = slice(-4, None)
    np.testing.assert_allclose(found[30, links], known[3, links], atol=1e-4)
    np.testing.assert_allclose(found[30, 2:5], known[3, 2:5], atol=1e-4)
    untouched = [i for i in range(30) if i not in neighbours]
    np.testing.assert_allclose(found[place[untouched]][:, links], known[untouched][:, links], atol=1e-4)


def test_a_saved_readout_gives_the_same_bytes() -> None:
    graph = random_graph()
    trained = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    readout = fitted(graph, trained)
    again = Readout(dim=3, link_dim=4)
    again.load_state_dict(readout.state_dict())
    assert again.join(graph, trained).tobytes() == readout.join(graph, trained).tobytes()
    assert fitted(graph, trained).join(graph, trained).tobytes() == readout.join(graph, trained).tobytes()


def test_links_are_worth_what_they_foretell() -> None:
    draw = np.random.default_rng(0)
    n = 400
    blocks = draw.random((n, n)) < np.where(np.arange(n)[:, None] % 4 == np.arange(n) % 4, 0.2, 0.005)
    patterned = Graph.from_edges(*np.argwhere(np.triu(blocks, 1)).T, num_nodes=n)
    chance = Graph.from_edges(*draw.integers(n, size=(2, 4000)), num_nodes=n)
    assert link_auc(patterned, seed=0) > 0.7  # a quarter of the pairs of other links are like links
    assert abs(link_auc(chance, seed=0) - 0.5) < 0.08
    assert link_auc(Graph.from_edges([0], [1]), seed=0) == 0.5


@pytest.mark.parametrize("nodes", [1, 5])
def test_graphs_without_links(nodes: int) -> None:
    graph = Graph.from_edges([], [], num_nodes=nodes, x=np.eye(nodes, 3))
    trained = np.ones((nodes, 2), np.float32)
    found = fitted(graph, trained).join(graph, trained)
    assert np.isfinite(found).all() and found.shape[0] == nodes


def test_sparse_and_dense_features_agree() -> None:
    graph = random_graph(wide=True)
    trained = np.zeros((40, 1), np.float32)
    dense = graph.replace(x=graph.x.toarray())
    assert isinstance(graph.x, sparse.csr_array)
    np.testing.assert_allclose(
        fitted(graph, trained).join(graph, trained), fitted(dense, trained).join(dense, trained), atol=1e-3
    )
    assert torch.is_tensor(fitted(graph, trained).scales)


@pytest.mark.parametrize("wide", [False, True])
def test_a_large_graph_gets_the_same_blocks(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = stream(3, "large")
    y = draw.integers(2, size=400)
    ends = draw.integers(400, size=(2, 6000))
    ends = ends[:, (y[ends[0]] == y[ends[1]]) | (draw.random(6000) < 0.3)]  # a pattern that links follow
    x = draw.normal(size=(400, 12)) * np.linspace(1, 4, 12) + 2 * y[:, None]
    graph = Graph.from_edges(*ends, num_nodes=400, x=sparse.csr_array(x) if wide else x)
    trained = draw.normal(size=(400, 3)).astype(np.float32)

    def joined(scale: Scale) -> tuple[Readout, np.ndarray]:
        readout = Readout(dim=3, link_dim=2)
        readout.fit(graph, trained, seed=0, scale=scale)
        return readout, readout.join(graph, trained, scale=scale)

    small, wanted = joined(IN_MEMORY)
    monkeypatch.setattr(out_of_core, "SMALL", 0)
    large, found = joined(BY_BLOCKS)
    np.testing.assert_allclose(large.scales[:3], small.scales[:3], rtol=0.02)
    assert large.scales[3] == pytest.approx(float(small.scales[3]), rel=0.3)  # other links are held out
    large.scales = small.scales
    np.testing.assert_allclose(large.join(graph, trained, scale=BY_BLOCKS), wanted, atol=0.02)
    assert found.shape == wanted.shape
