"""Views: what they change, what they leave, and how often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dssl import rng
from dssl.graph.adjacency import degrees
from dssl.nn import augment
from dssl.nn.batches import Batch, full_batch, sampled_batch
from tests.graphs import CPU, random_graph


def dense(batch: Batch) -> torch.Tensor:
    return batch.x if isinstance(batch.x, torch.Tensor) else batch.x @ torch.eye(batch.x.shape[1])


@pytest.fixture(params=[False, True])
def batch(request: pytest.FixtureRequest) -> Batch:
    return full_batch(random_graph(wide=request.param), CPU)


@pytest.mark.parametrize("name", [*augment.VIEWS, "columns", "entries", "links", "shuffle"])
def test_views_follow_the_seed_and_leave_the_batch(batch: Batch, name: str) -> None:
    views = {
        **{each: lambda b, each=each: augment.VIEWS[each](b, 0.4) for each in augment.VIEWS},
        "columns": lambda b: augment.mask_columns(b, 0.4),
        "entries": lambda b: augment.drop_features(b, 0.4),
        "links": lambda b: augment.drop_links(b, 0.4),
        "shuffle": augment.shuffle_features,
    }
    before = dense(batch).clone(), batch.adjacency.toarray(), batch.degrees.copy()
    made = []
    for seed in (0, 0, 1):
        with rng.seeded(seed, "view"):
            view = views[name](batch)
            made.append(np.hstack([dense(view).numpy(), view.adjacency.toarray()]))
    assert (made[0] == made[1]).all()
    assert name == "none" or (made[0] != made[2]).any()
    for was, now in zip(before, (dense(batch), batch.adjacency.toarray(), batch.degrees), strict=True):
        assert (np.asarray(was) == np.asarray(now)).all()


def test_dropped_links_are_dropped_both_ways_at_the_given_rate(batch: Batch) -> None:
    kept, total = 0, 0
    for seed in range(50):
        with rng.seeded(seed, "view"):
            view = augment.drop_links(batch, 0.3)
        matrix = view.adjacency.toarray()
        assert (matrix == matrix.T).all()
        assert (matrix <= batch.adjacency.toarray()).all()
        np.testing.assert_allclose(view.degrees, matrix.sum(axis=1), rtol=1e-5)
        kept, total = kept + view.adjacency.nnz, total + batch.adjacency.nnz
    assert abs(kept / total - 0.7) < 0.03


def test_rates_of_zero_and_one_are_nothing_and_everything(batch: Batch) -> None:
    assert augment.drop_links(batch, 0.0).adjacency.nnz == batch.adjacency.nnz
    assert augment.drop_links(batch, np.ones(batch.adjacency.nnz)).adjacency.nnz == 0
    assert (dense(augment.mask_columns(batch, 1.0)) == 0).all()
    assert (dense(augment.mask_columns(batch, torch.tensor([0.0] * 6 + [1.0])))[:, :6] == dense(batch)[:, :6]).all()
    assert (dense(augment.mask_nodes(batch, 1.0)) == 0).all()
    assert augment.drop_nodes(batch, 1.0).adjacency.nnz == 0
    assert augment.subgraph(batch, 0.0).adjacency.nnz == batch.adjacency.nnz


def test_shuffled_features_are_the_same_rows_in_another_order(batch: Batch) -> None:
    batch.gcn  # noqa: B018
    view = augment.shuffle_features(batch)
    assert view.gcn is batch.gcn
    key = [sorted(map(tuple, np.round(dense(each).numpy(), 5).tolist())) for each in (batch, view)]
    assert key[0] == key[1]


def test_perturbed_links_keep_their_number_up_to_repeats(batch: Batch) -> None:
    view = augment.perturb_links(batch, 0.5)
    matrix = view.adjacency.toarray()
    assert (matrix == matrix.T).all()
    np.testing.assert_allclose(view.adjacency.sum(), batch.adjacency.sum(), atol=batch.num_centres)
    assert ((matrix > 0) & (batch.adjacency.toarray() == 0)).any()


def test_a_subgraph_has_the_wanted_share_and_no_loose_ends(batch: Batch) -> None:
    view = augment.subgraph(replace(batch, x=torch.ones(len(batch.nodes), 1)), 0.5)
    gone = (dense(view) == 0).all(dim=1).numpy()
    assert gone.sum() == len(gone) / 2
    assert view.adjacency[gone].nnz == 0
    inside = view.adjacency.toarray()[~gone][:, ~gone]
    assert (inside == batch.adjacency.toarray()[~gone][:, ~gone]).all()


def test_nodes_whose_links_a_batch_does_not_know_keep_their_share_of_the_degree() -> None:
    graph = random_graph()
    sample = sampled_batch(graph, degrees(graph), np.arange(3), (2,), 1, 0, CPU)
    unknown = np.diff(sample.adjacency.indptr) == 0
    view = augment.drop_links(replace(sample), 0.5)
    assert (view.degrees[unknown] <= sample.degrees[unknown]).all()
    assert np.isfinite(view.degrees).all()


def test_dropped_entries_are_zero_and_the_mean_stays(batch: Batch) -> None:
    before, total = dense(batch), torch.zeros_like(dense(batch))
    for seed in range(200):
        with rng.seeded(seed, "view"):
            after = dense(augment.drop_features(batch, 0.25))
        kept = after != 0
        torch.testing.assert_close(after[kept], before[kept] / 0.75)
        total += after
    assert float((total / 200 - before).abs().mean() / before.abs().mean()) < 0.06  # its deviation is 0.041


def test_replaced_rows_are_the_token_or_another_s_and_carry_a_gradient(batch: Batch) -> None:
    token, weight = torch.randn(7, requires_grad=True), torch.randn(7, 3)
    before = dense(batch).clone()
    view = augment.replace_rows(
        batch, hidden=torch.tensor([4, 1]), token=token, swapped=torch.tensor([0, 9]), donors=torch.tensor([1, 2])
    )
    wanted = before.clone()
    wanted[[4, 1]], wanted[[0, 9]] = token.detach(), before[[1, 2]]
    torch.testing.assert_close((view.x @ weight).detach(), wanted @ weight)
    torch.testing.assert_close(dense(view).detach(), wanted)
    if not isinstance(view.x, torch.Tensor):
        torch.testing.assert_close(view.x.dense().detach(), wanted)
    (view.x @ weight).sum().backward()
    torch.testing.assert_close(token.grad, 2 * weight.sum(dim=1))
    torch.testing.assert_close(dense(batch), before)
