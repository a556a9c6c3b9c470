"""CCA-SSG against a literal loop over its loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dssl.methods.cca_ssg import CCASSG, off_identity, standardised
from dssl.nn import augment
from dssl.nn.batches import full_batch
from tests.graphs import CPU, random_graph
from tests.methods import formulas
from tests.methods.formulas import Leaves, gcn


@pytest.mark.parametrize("sampled", [False, True])
def test_value_and_gradients_of_invariance_and_decorrelation(sampled: bool) -> None:
    batch = formulas.batches()[sampled]
    method = formulas.moved(CCASSG(formulas.encoder(), decorrelation_weight=0.3, link_drop=0.4, feature_mask=0.2))

    def loss(p: Leaves) -> Tensor:
        views = [augment.mask_columns(augment.drop_links(batch, 0.4), 0.2) for _ in range(2)]
        z = []
        for view in views:
            h = gcn(p, "encoder.", view)[: batch.num_centres]
            centred = h - sum(h[i] for i in range(len(h))) / len(h)
            z.append(centred / torch.stack([centred[:, c].square().sum().sqrt() for c in range(formulas.DIM)]))
        a, b = z
        total = formulas.DIM - sum(a[:, c] @ b[:, c] for c in range(formulas.DIM))  # D − tr(Z_Aᵀ Z_B)
        for part in z:
            for c in range(formulas.DIM):
                for d in range(formulas.DIM):
                    total = total + 0.3 * (part[:, c] @ part[:, d] - int(c == d)) ** 2
        return total

    formulas.agrees(method, batch, loss, without_effect=["encoder.layers.1.bias"])  # the mean is subtracted


def test_the_embedding_is_the_encoder_s_output() -> None:
    graph = random_graph()
    method = formulas.moved(CCASSG(formulas.encoder(), decorrelation_weight=0.3, link_drop=0.4, feature_mask=0.2))
    formulas.embeds(method, graph, lambda p: gcn(p, "encoder.", full_batch(graph, CPU)))


def test_scale_and_shift_of_columns_do_not_matter_and_constants_are_harmless() -> None:
    z = torch.randn(9, 3)
    torch.testing.assert_close(
        standardised(z * torch.tensor([2.0, 0.1, 5.0]) + 7), standardised(z), atol=1e-5, rtol=1e-4
    )
    flat = standardised(torch.ones(9, 3))
    assert (flat == 0).all()
    assert float(off_identity(flat)) == 3
    q, _ = torch.linalg.qr(torch.randn(9, 3))
    assert float(off_identity(q)) < 1e-8
