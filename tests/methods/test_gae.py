"""GAE and VGAE against literal loops over their equations."""

from __future__ import annotations

import math

import torch

from dssl import rng
from dssl.methods.gae import GAE, VGAE, divergence, reconstruction
from dssl.nn import encoders
from dssl.nn.batches import full_batch
from dssl.nn.encoders import Encoder
from tests.graphs import CPU, random_graph


def encoder() -> Encoder:
    with rng.seeded(0, "init"):
        return encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)


def literal(z: torch.Tensor, links: torch.Tensor, others: torch.Tensor) -> float:
    def probability(i: int, j: int) -> float:
        return 1 / (1 + math.exp(-sum(float(a * b) for a, b in zip(z[i], z[j], strict=True))))

    yes = [-math.log(probability(int(i), int(j))) for i, j in links.T]
    no = [-math.log(1 - probability(int(i), int(j))) for i, j in others.T]
    return sum(yes) / len(yes) + sum(no) / len(no)


def test_the_loss_of_gae_is_the_mean_over_links_and_other_pairs() -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    method = GAE(encoder(), pairs=10_000)
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        links, others = method.draw(batch)
    assert sorted(map(tuple, links.T.tolist())) == sorted(zip(graph.sources(), graph.indices, strict=True))
    assert math.isclose(loss, literal(method.encoder(batch).detach(), links, others), rel_tol=1e-4)


def test_at_most_so_many_pairs_are_drawn() -> None:
    method = GAE(encoder(), pairs=20)
    links, others = method.draw(full_batch(random_graph(), CPU))
    assert links.shape == others.shape == (2, 20)


def test_the_loss_of_vgae_is_equation_3() -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    with rng.seeded(1, "init"):
        method = VGAE(encoder(), pairs=10_000, divergence_weight=0.7)
    method.prepare(graph, seed=0)
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    h = method.encoder(batch).detach()
    mean, log_std = method.mean(h).detach(), method.log_std(h).detach()
    with rng.seeded(0, "train"):
        z = mean + torch.randn_like(mean) * log_std.exp()
        links, others = method.draw(batch)
    kl = sum(
        (float(m) ** 2 + math.exp(2 * float(s)) - 1) / 2 - float(s)
        for m, s in zip(mean.flatten(), log_std.flatten(), strict=True)
    )
    n = graph.num_nodes
    assert math.isclose(loss, literal(z, links, others) + 0.7 * kl / n**2, rel_tol=1e-4)
    torch.testing.assert_close(method.vectors(batch).detach(), mean)


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
    torch.testing.assert_close(reconstruction(z, links, others), other.recon_loss(z, links, others))
    torch.testing.assert_close(divergence(z, log_std), other.kl_loss(z, log_std))


def test_extremes_stay_finite() -> None:
    pairs = torch.tensor([[0], [1]])
    assert torch.isfinite(reconstruction(torch.tensor([[1e9], [-1e9]]), pairs, pairs))
    assert float(reconstruction(torch.ones(2, 1), pairs[:, :0], pairs[:, :0])) == 0
