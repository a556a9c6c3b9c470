from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dssl import rng
from dssl.graph.adjacency import degrees
from dssl.nn import encoders
from dssl.nn.batches import Batch, Loader, Sampling, full_batch, mini_batches, prefetched, sampled_batch
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph


def test_an_epoch_has_each_node_as_a_centre_once_and_repeats_by_seed() -> None:
    graph = random_graph()

    def centres(seed: int, epoch: int) -> list[int]:
        made = mini_batches(graph, Sampling(batch_size=7, fanout=(3, 2), seed=seed, epoch=epoch, device=CPU), layers=2)
        return [int(node) for batch in made for node in batch.nodes[: batch.num_centres]]

    first = centres(0, 0)
    assert sorted(first) == list(range(graph.num_nodes))
    assert first == centres(0, 0) != centres(0, 1)
    assert first != centres(1, 0)


def test_links_of_a_batch_are_sampled_links_of_the_graph() -> None:
    graph = random_graph()
    dense = graph.adjacency().toarray()
    for batch in mini_batches(graph, Sampling(batch_size=9, fanout=(3,), seed=0, epoch=0, device=CPU), layers=1):
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
    batch = sampled_batch(graph, degrees(graph), centres, ALL_NEIGHBOURS, encoder.hops, 0, CPU)
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


@pytest.mark.parametrize("high_pass", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_averages_made_once_give_the_vectors_of_the_whole_graph(weighted: bool, high_pass: bool) -> None:
    graph = random_graph(weighted=weighted)
    settings = {"in_dim": 7, "dim": 5, "hidden_dim": 6, "layers": 2, "dropout": 0.0, "batch_norm": False}
    with rng.seeded(0, "init"):
        encoder = encoders.build("hops", high_pass=high_pass, **settings).eval()
        for block in encoder.blocks:
            torch.nn.init.normal_(block.bias)  # nodes without links must not get it
    whole = encoder(full_batch(graph, CPU)).detach()
    sampling = Sampling(batch_size=9, fanout=(3,), seed=0, epoch=0, device=CPU)
    made = Loader().epoch(graph, sampling, layers=2, averages=encoder.averages)
    seen = 0
    for batch in made:
        torch.testing.assert_close(encoder(batch).detach(), whole[batch.nodes], atol=1e-5, rtol=1e-4)
        own = encoder(batch.centres).detach()
        torch.testing.assert_close(own, whole[batch.nodes[: batch.num_centres]], atol=1e-5, rtol=1e-4)
        seen += len(own)
    assert seen == graph.num_nodes


FIFTIES = Sampling(batch_size=50, fanout=(3, 2), seed=3, epoch=1, device=CPU)


def digest(batches: Iterable[Batch]) -> str:
    state = hashlib.sha256()
    for batch in batches:
        for array in (batch.nodes, batch.links.indices, batch.links.data, batch.adjacency.data, batch.x.numpy()):
            state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def test_batches_are_the_same_whatever_the_number_of_threads() -> None:
    code = (
        "import torch; from tests.nn.test_batches import FIFTIES, Loader, digest, random_graph; "
        "torch.set_num_threads({threads}); print(digest(Loader().epoch(random_graph(nodes=400), FIFTIES, layers=2)))"
    )
    found = {}
    for threads in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", code.format(threads=threads)],
            env=os.environ | {"NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        found[threads] = done.stdout
    assert found[1] == found[2]
    alone = mini_batches(random_graph(nodes=400), FIFTIES, layers=2)
    assert digest(alone) == found[1].strip()  # in a thread or not


def test_the_next_batch_is_made_while_one_is_in_use() -> None:
    made: list[int] = []
    second = threading.Event()

    def numbers() -> Iterator[int]:
        for number in range(5):
            made.append(number)
            if number == 1:
                second.set()
            yield number

    batches = prefetched(numbers())
    assert next(batches) == 0
    assert second.wait(10)  # nobody has asked for the second one
    assert list(batches) == [1, 2, 3, 4]
    assert made == [0, 1, 2, 3, 4]


def test_an_error_comes_where_its_batch_would_have_come() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    batches = prefetched(numbers())
    assert next(batches) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)


def test_a_loop_that_ends_early_leaves_no_thread() -> None:
    before = threading.active_count()
    batches = prefetched(iter(range(1000)))
    for number in batches:
        if number == 3:
            break
    assert threading.active_count() == before + 1
    batches.close()
    assert threading.active_count() == before
