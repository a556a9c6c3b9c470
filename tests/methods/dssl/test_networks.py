"""The projection of DSSL: centring by the batch in training, by the running mean afterwards."""

from __future__ import annotations

import torch

from dssl.methods.dssl.networks import Projection

H = torch.tensor([[3.0, 4.0], [1.0, 0.0], [8.0, -1.0]])


def test_vectors_are_centred_by_the_batch_in_training_and_by_the_running_mean_afterwards() -> None:
    projection = Projection(2, projector=False, center=True).train()
    expected = H - torch.tensor([2.0, 2.0])  # the mean of the first two rows, the centres
    torch.testing.assert_close(projection(H, 2), expected / expected.norm(dim=1, keepdim=True))
    assert projection.center is not None
    torch.testing.assert_close(projection.center.mean, torch.tensor([0.2, 0.2]))  # a tenth of the step
    projection.eval()
    expected = H - torch.tensor([0.2, 0.2])
    torch.testing.assert_close(projection(H, 2), expected / expected.norm(dim=1, keepdim=True))
    torch.testing.assert_close(projection.center.mean, torch.tensor([0.2, 0.2]))


def test_without_centring_vectors_are_scaled_alone() -> None:
    for training in (True, False):
        projection = Projection(2, projector=False, center=False).train(training)
        torch.testing.assert_close(projection(H), H / H.norm(dim=1, keepdim=True))
