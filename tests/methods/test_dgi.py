"""DGI against a literal loop over its equations."""

from __future__ import annotations

import math

import torch

from dssl import rng
from dssl.methods.dgi import DGI
from dssl.nn import augment, encoders
from dssl.nn.batches import full_batch
from dssl.nn.heads import Bilinear
from dssl.nn.losses import infomax
from tests.graphs import CPU, random_graph


def test_the_loss_is_equation_1() -> None:
    batch = full_batch(random_graph(), CPU)
    with rng.seeded(0, "init"):
        method = DGI(encoders.build("gcn", in_dim=7, dim=5, hidden_dim=6, layers=1, dropout=0.0, batch_norm=False))
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        shuffled = augment.shuffle_features(batch)
    h, corrupted = (method.activation(method.encoder(view)).detach() for view in (batch, shuffled))
    n = h.shape[0]
    s = [1 / (1 + math.exp(-sum(float(h[i, c]) for i in range(n)) / n)) for c in range(5)]
    weight = method.discriminator.weight.detach()

    def probability(row: torch.Tensor) -> float:
        score = sum(float(row[a] * weight[a, b]) * s[b] for a in range(5) for b in range(5))
        return 1 / (1 + math.exp(-score))

    total = sum(math.log(probability(h[i])) + math.log(1 - probability(corrupted[i])) for i in range(n))
    assert math.isclose(loss, -total / (2 * n), rel_tol=1e-4)


def test_the_loss_is_half_of_pygs() -> None:
    from torch_geometric.nn import DeepGraphInfomax

    torch.manual_seed(0)
    h, corrupted = torch.randn(2, 6, 4)
    other = DeepGraphInfomax(4, encoder=torch.nn.Identity(), summary=None, corruption=None)
    own = Bilinear(4)
    own.weight.data.copy_(other.weight.data)
    s = torch.sigmoid(h.mean(dim=0))
    torch.testing.assert_close(2 * infomax(own(h, s), own(corrupted, s)), other.loss(h, corrupted, s))


def test_extremes_stay_finite() -> None:
    far = torch.tensor([1e9, -1e9])
    assert torch.isfinite(infomax(far, far))
    assert float(infomax(torch.tensor([50.0]), torch.tensor([-50.0]))) < 1e-9
    assert math.isclose(float(infomax(torch.zeros(3), torch.zeros(3))), math.log(2), rel_tol=1e-6)
