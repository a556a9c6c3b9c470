"""MVGRL against a literal loop over its loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dssl import rng
from dssl.methods._diffusion import coefficients, diffuse
from dssl.methods.mvgrl import MVGRL
from dssl.nn import augment
from dssl.nn.batches import Batch, Sampling, full_batch
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, gcn, prelu, sigmoid, summary

PLAIN: dict[str, Any] = {
    "diffusion": "ppr",
    "teleport": 0.2,
    "heat_time": 5.0,
    "neighbours": 6,
    "precision": 1e-4,
    "threshold": 0.0,
    "column_scale": False,
    "loop_weight": 2.0,
}


def model(**changes: Any) -> MVGRL:
    with rng.seeded(1, "init"):  # another stream than that of the encoder
        return MVGRL(formulas.encoder(layers=1), **PLAIN | changes)


def vectors(p: Leaves, views: tuple[Batch, Batch]) -> list[Tensor]:
    return [
        prelu(gcn(p, f"{network}.", view, layers=1), p[f"activations.{at}.weight"])
        for at, (network, view) in enumerate(zip(("encoder", "second"), views, strict=True))
    ]


@pytest.mark.parametrize("batch_size", [0, 9])
@pytest.mark.parametrize("column_scale", [False, True])
@pytest.mark.parametrize("loop", [1.0, 2.0])
def test_value_and_gradients_set_each_view_against_the_summary_of_the_other(
    loop: float, column_scale: bool, batch_size: int
) -> None:
    graph = random_graph()
    method = model(loop_weight=loop, column_scale=column_scale)
    formulas.moved(method)
    method.prepare(graph, seed=0)
    views = next(iter(method.batches(graph, Sampling(batch_size=batch_size, fanout=(3,), seed=0, epoch=0, device=CPU))))
    assert [view.loop for view in views] == [loop, 1.0]

    def loss(p: Leaves) -> Tensor:
        count = views[0].num_centres
        shuffled = (augment.shuffle_features(views[0]), augment.shuffle_features(views[1]))
        h, corrupted = ([side[:count] for side in vectors(p, each)] for each in (views, shuffled))
        w, b = p["discriminator.weight"], p["discriminator.bias"]
        total = torch.zeros((), dtype=torch.float64)
        for side, other in ((0, 1), (1, 0)):
            s = summary(h[other])
            for i in range(count):
                total = total + sigmoid(h[side][i] @ w @ s + b).log()
                total = total + (1 - sigmoid(corrupted[side][i] @ w @ s + b)).log()
        return -total / (4 * count)

    formulas.agrees(method, views, loss)


def test_the_embedding_is_the_sum_of_both_views_also_of_a_graph_that_was_not_fitted() -> None:
    for fitted in (True, False):
        graph = random_graph()
        method = model()
        formulas.moved(method)
        if fitted:
            method.prepare(graph, seed=0)
        diffused = diffuse(graph, coefficients("ppr", teleport=0.2, heat_time=5.0), neighbours=6, precision=1e-4)
        views = replace(full_batch(graph, CPU), loop=2.0), full_batch(diffused, CPU)
        formulas.embeds(method, graph, lambda p, views=views: sum(vectors(p, views)))
    assert [part.weight.shape for part in method.activations] == [(1,), (1,)]


def test_a_diffusion_scaled_by_column_is_the_thresholded_matrix_over_its_diagonal() -> None:
    """As in the authors' code on CiteSeer; the GCN does not normalise it again."""
    graph = random_graph()
    method = model(threshold=0.05, column_scale=True, neighbours=100, precision=1e-9)
    method.prepare(graph, seed=0)
    (views,) = method.batches(graph, Sampling(batch_size=0, fanout=(3,), seed=0, epoch=0, device=CPU))
    a = graph.adjacency().toarray() + np.eye(graph.num_nodes)
    d = a.sum(axis=1)
    s = 0.2 * np.linalg.inv(np.eye(len(a)) - 0.8 * a / np.sqrt(np.outer(d, d)))
    near = np.abs(s - 0.05) < 1e-3  # the series ends before the last percent
    s[s < 0.05] = 0
    wanted = s / s.diagonal()
    found = views[1].gcn.dense().numpy()
    assert not near.all() and (wanted == 0).any()
    np.testing.assert_allclose(found[~near], wanted[~near], atol=0.02)
    h = (views[1].gcn @ torch.eye(graph.num_nodes)).numpy()
    np.testing.assert_array_equal(h, found)


def test_the_two_encoders_start_apart_and_both_learn() -> None:
    graph = random_graph()
    method = model(diffusion="heat")
    assert not torch.equal(method.encoder.layers[0].weight, method.second.layers[0].weight)
    method.prepare(graph, seed=0)
    (views,) = method.batches(graph, Sampling(batch_size=0, fanout=(3,), seed=0, epoch=0, device=CPU))
    method(views).backward()
    for encoder in (method.encoder, method.second):
        assert encoder.layers[0].weight.grad.abs().sum() > 0


def test_batches_of_both_views_have_the_same_centres() -> None:
    graph = random_graph()
    method = model()
    method.prepare(graph, seed=0)
    (whole,) = method.batches(graph, Sampling(batch_size=0, fanout=ALL_NEIGHBOURS, seed=0, epoch=0, device=CPU))
    wanted = [side.detach() for side in method._vectors(whole)]
    for views in method.batches(graph, Sampling(batch_size=9, fanout=ALL_NEIGHBOURS, seed=0, epoch=0, device=CPU)):
        count = views[0].num_centres
        centres = views[0].nodes[:count]
        assert (centres == views[1].nodes[:count]).all()
        for side, all_ in zip(method._vectors(views), wanted, strict=True):
            torch.testing.assert_close(side[:count].detach(), all_[centres], atol=1e-5, rtol=1e-4)
