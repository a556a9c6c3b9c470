"""GAE and VGAE against literal loops over their equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dssl.methods.gae import GAE, VGAE, divergence, reconstruction
from dssl.nn.batches import Batch, full_batch
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, dense, gcn, sigmoid


def pairs_of(batch: Batch, most: int) -> tuple[Tensor, Tensor]:
    """The links and the random pairs that a step draws."""
    start = torch.from_numpy(np.repeat(np.arange(batch.num_centres), np.diff(batch.links.indptr)))
    links = torch.stack([start, torch.from_numpy(batch.links.indices.astype(np.int64))])
    if links.shape[1] > most:
        links = links[:, torch.randperm(links.shape[1])[:most].sort().values]
    return links, torch.randint(batch.num_centres, links.shape)


def bits(z: Tensor, links: Tensor, others: Tensor) -> Tensor:
    yes = [-sigmoid(z[i] @ z[j]).log() for i, j in links.T]
    no = [-(1 - sigmoid(z[i] @ z[j])).log() for i, j in others.T]
    return (sum(yes) / len(yes) + sum(no) / len(no)) / 2  # type: ignore[return-value]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("most", [10_000, 9])
def test_value_and_gradients_of_gae_over_links_and_other_pairs(most: int, sampled: bool) -> None:
    graph = random_graph()
    batch = formulas.batches(graph)[sampled]
    method = formulas.moved(GAE(formulas.encoder(), pairs=most))
    formulas.agrees(method, batch, lambda p: bits(gcn(p, "encoder.", batch), *pairs_of(batch, most)))
    formulas.embeds(method, graph, lambda p: gcn(p, "encoder.", full_batch(graph, CPU)))


@pytest.mark.parametrize("sampled", [False, True])
def test_value_and_gradients_of_vgae_are_those_of_equation_3(sampled: bool) -> None:
    graph = random_graph()
    batch = formulas.batches(graph)[sampled]
    method = formulas.moved(VGAE(formulas.encoder(), pairs=10_000, divergence_weight=0.7))
    method.prepare(graph, seed=0)

    def loss(p: Leaves) -> Tensor:
        h = gcn(p, "encoder.", batch)
        mean, log_std = dense(p, "mean.", h), dense(p, "log_std.", h)
        z = mean + torch.randn(mean.shape).double() * log_std.exp()
        count = batch.num_centres
        kl = sum(
            (m.square() + torch.exp(2 * s) - 1) / 2 - s
            for m, s in zip(mean[:count].flatten(), log_std[:count].flatten(), strict=True)
        )
        return bits(z, *pairs_of(batch, 10_000)) + 0.7 * kl / count / graph.num_nodes

    formulas.agrees(method, batch, loss)
    formulas.embeds(method, graph, lambda p: dense(p, "mean.", gcn(p, "encoder.", full_batch(graph, CPU))))


def test_the_weight_of_the_divergence_is_that_of_the_authors_sum_over_all_pairs() -> None:
    """−Σ_ij [w A log p + (1 − A) log(1 − p)] · norm / N² + KL / N², with w = (N² − E)/E and norm = N²/(2 (N² − E))."""
    torch.manual_seed(0)
    n = 6
    z = torch.randn(n, 3).double()
    a = torch.zeros(n, n)
    a[[0, 1, 2, 4], [1, 0, 5, 3]] = 1
    e = float(a.sum())
    p = torch.sigmoid(z @ z.T)
    weighted = -((n * n - e) / e * a * p.log() + (1 - a) * (1 - p).log())
    wanted = n * n / (2 * (n * n - e)) * weighted.sum() / (n * n)
    found = reconstruction(z, *(torch.stack(torch.nonzero(a == one, as_tuple=True)) for one in (1, 0)))
    torch.testing.assert_close(found, wanted)


def test_at_most_so_many_pairs_are_drawn() -> None:
    method = GAE(formulas.encoder(), pairs=20)
    links, others = method.draw(full_batch(random_graph(), CPU))
    assert links.shape == others.shape == (2, 20)


def test_the_divergence_is_that_of_the_distributions() -> None:
    mean, log_std = torch.randn(3, 4), 0.3 * torch.randn(3, 4)
    own = torch.distributions.Normal(mean, log_std.exp())
    wanted = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0)).sum(dim=1).mean()
    torch.testing.assert_close(divergence(mean, log_std), wanted)


def test_the_terms_are_those_of_pyg() -> None:
    from torch_geometric.nn import VGAE as Other

    torch.manual_seed(0)
    z, log_std = torch.randn(6, 4), 0.3 * torch.randn(6, 4)
    links, others = torch.randint(6, (2, 2, 9))
    other = Other(encoder=torch.nn.Identity())
    torch.testing.assert_close(2 * reconstruction(z, links, others), other.recon_loss(z, links, others))
    torch.testing.assert_close(divergence(z, log_std), other.kl_loss(z, log_std))


def test_extremes_stay_finite() -> None:
    pairs = torch.tensor([[0], [1]])
    assert torch.isfinite(reconstruction(torch.tensor([[1e9], [-1e9]]), pairs, pairs))
    assert float(reconstruction(torch.ones(2, 1), pairs[:, :0], pairs[:, :0])) == 0
