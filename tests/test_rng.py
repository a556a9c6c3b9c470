from __future__ import annotations

import numpy as np
import torch

from dssl import rng


def test_streams_follow_from_seed_name_and_counters_alone() -> None:
    draws = {
        key: rng.stream(*key).integers(1 << 40) for key in [(0, "a"), (1, "a"), (0, "b"), (0, "a", 1), (0, "a", 2)]
    }
    assert len(set(draws.values())) == len(draws)
    assert rng.stream(0, "a", 2).integers(1 << 40) == draws[0, "a", 2]
    assert rng.integer(0, "a") == rng.integer(0, "a") != rng.integer(0, "b")


def test_seeded_leaves_the_global_state_alone() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    with rng.seeded(0, "init"):
        inside = torch.rand(4)
    assert torch.equal(torch.rand(2), wanted)
    with rng.seeded(0, "init"):
        assert torch.equal(torch.rand(4), inside)
    assert not np.isnan(inside.numpy()).any()
