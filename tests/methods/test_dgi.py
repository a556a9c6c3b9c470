"""DGI against a literal float64 loop over its equations: value and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dssl.methods.dgi import DGI
from dssl.nn import augment
from dssl.nn.batches import full_batch
from dssl.nn.heads import Bilinear
from dssl.nn.losses import infomax
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, gcn, prelu, sigmoid, summary


@pytest.mark.parametrize("sampled", [False, True])
def test_value_and_gradients_are_those_of_equation_1(sampled: bool) -> None:
    batch = formulas.batches(layers=1)[sampled]
    method = formulas.moved(DGI(formulas.encoder(layers=1)))

    def loss(p: Leaves) -> Tensor:
        count = batch.num_centres
        shuffled = augment.shuffle_features(batch)
        h, corrupted = (
            prelu(gcn(p, "encoder.", view, layers=1), p["activation.weight"])[:count] for view in (batch, shuffled)
        )
        s = summary(h)
        w, b = p["discriminator.weight"], p["discriminator.bias"]
        total = sum(
            sigmoid(h[i] @ w @ s + b).log() + (1 - sigmoid(corrupted[i] @ w @ s + b)).log() for i in range(count)
        )
        return -total / (2 * count)

    formulas.agrees(method, batch, loss)


def test_the_embedding_is_the_encoder_s_output_through_one_slope() -> None:
    graph = random_graph()
    method = formulas.moved(DGI(formulas.encoder(layers=1)))
    assert method.activation.weight.shape == (1,)  # one slope for all columns
    formulas.embeds(
        method, graph, lambda p: prelu(gcn(p, "encoder.", full_batch(graph, CPU), layers=1), p["activation.weight"])
    )


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
