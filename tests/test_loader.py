from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from dssl import encoders, rng
from dssl.graph import Graph
from dssl.loader import degrees, full_batch, mini_batches, sampled_batch

CPU = torch.device("cpu")
ALL = (10_000,)


def random_graph(*, nodes: int = 40, weighted: bool = False, wide: bool = False, seed: int = 0) -> Graph:
    draw = rng.stream(seed, "test")
    edges = draw.integers(nodes - 2, size=(2, 90))  # the last two nodes have no links
    x = draw.normal(size=(nodes, 7))
    return Graph.from_edges(
        *edges,
        num_nodes=nodes,
        weights=draw.random(90) + 0.1 if weighted else None,
        x=sparse.csr_array(np.where(x > 0.5, x, 0)) if wide else x,
    )


def test_an_epoch_has_each_node_as_a_centre_once_and_repeats_by_seed() -> None:
    graph = random_graph()

    def centres(seed: int, epoch: int) -> list[int]:
        made = mini_batches(graph, batch_size=7, fanout=(3, 2), layers=2, seed=seed, epoch=epoch, device=CPU)
        return [int(node) for batch in made for node in batch.nodes[: batch.num_centres]]

    first = centres(0, 0)
    assert sorted(first) == list(range(graph.num_nodes))
    assert first == centres(0, 0) != centres(0, 1)
    assert first != centres(1, 0)


def test_links_of_a_batch_are_sampled_links_of_the_graph() -> None:
    graph = random_graph()
    dense = graph.adjacency().toarray()
    for batch in mini_batches(graph, batch_size=9, fanout=(3,), layers=1, seed=0, epoch=0, device=CPU):
        assert len(set(batch.nodes.tolist())) == batch.nodes.size
        for row in range(batch.num_centres):
            begin, end = batch.links.indptr[row : row + 2]
            found = batch.nodes[batch.links.indices[begin:end]]
            degree = int(graph.degrees[batch.nodes[row]])
            assert len(found) == min(3, degree)
            assert np.all(dense[batch.nodes[row], found] > 0)
            assert batch.links.data[begin:end].sum() == pytest.approx(1 if degree else 0)
        np.testing.assert_allclose(batch.x.numpy(), graph.x[batch.nodes])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", encoders.NAMES)
def test_with_all_neighbours_a_batch_gives_the_vectors_of_the_whole_graph(
    name: str, wide: bool, weighted: bool
) -> None:
    graph = random_graph(weighted=weighted, wide=wide)
    with rng.seeded(0, "init"):
        encoder = encoders.build(name, in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False).eval()
    whole = encoder(full_batch(graph, CPU)).detach()
    centres = np.array([3, 39, 0, 17])
    batch = sampled_batch(graph, degrees(graph), centres, ALL, encoder.hops, 0, CPU)
    assert batch.nodes.size < graph.num_nodes or encoder.hops > 1
    # Centres and their neighbours are exact; the rings around them are only there to be averaged.
    used = np.unique(np.concatenate([np.arange(4), batch.links.indices]))
    torch.testing.assert_close(encoder(batch).detach()[used], whole[batch.nodes[used]], atol=1e-5, rtol=1e-4)


def test_sampled_means_are_unbiased() -> None:
    graph = random_graph(weighted=False)
    node = int(graph.degrees.argmax())
    total = np.zeros(7)
    for seed in range(600):
        batch = sampled_batch(graph, degrees(graph), np.array([node]), (2,), 0, seed, CPU)
        total += (batch.links @ batch.x.numpy())[0]
    wanted = graph.x[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]].mean(axis=0)
    assert np.abs(total / 600 - wanted).max() < 0.15
