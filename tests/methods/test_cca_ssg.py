"""CCA-SSG against a literal loop over its loss."""

from __future__ import annotations

import math

import torch

from dssl import rng
from dssl.methods.cca_ssg import CCASSG, off_identity, standardised
from dssl.nn import augment, encoders
from dssl.nn.batches import full_batch
from tests.graphs import CPU, random_graph


def test_the_loss_is_distance_and_decorrelation() -> None:
    batch = full_batch(random_graph(), CPU)
    with rng.seeded(0, "init"):
        made = encoders.build("gcn", in_dim=7, dim=4, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
    method = CCASSG(made, decorrelation_weight=0.3, link_drop=0.4, feature_mask=0.2)
    with rng.seeded(0, "train"):
        loss = float(method(batch).detach())
    with rng.seeded(0, "train"):
        views = [augment.mask_columns(augment.drop_links(batch, 0.4), 0.2) for _ in range(2)]
    z = []
    for view in views:
        h = method.encoder(view).detach().double()
        columns = []
        for c in range(4):
            mean = sum(float(value) for value in h[:, c]) / len(h)
            length = math.sqrt(sum((float(value) - mean) ** 2 for value in h[:, c]))
            columns.append([(float(value) - mean) / length for value in h[:, c]])
        z.append(columns)
    total = sum((a - b) ** 2 for one, two in zip(*z, strict=True) for a, b in zip(one, two, strict=True))
    for columns in z:
        for c in range(4):
            for d in range(4):
                product = sum(a * b for a, b in zip(columns[c], columns[d], strict=True))
                total += 0.3 * (product - (c == d)) ** 2
    assert math.isclose(loss, total, rel_tol=1e-3)


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
