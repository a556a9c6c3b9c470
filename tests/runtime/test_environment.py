from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from dssl.runtime import environment


def test_the_record_is_plain_json() -> None:
    made = environment.describe("dssl fit x", started=datetime.now(UTC) - timedelta(seconds=3), resumed_at=7)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert 3 <= made["seconds"] < 4
    assert made["resumed_at_epoch"] == 7
    assert made["packages"]["numpy"][0].isdigit()


def test_a_package_that_is_not_there_is_said_so() -> None:
    assert environment.version("no-such-package-at-all") == "not installed"


def test_memory_only_grows() -> None:
    before = environment.peak_memory()
    block = bytearray(64 << 20)
    assert len(block) and environment.peak_memory() >= max(before, 64 << 20)


def test_the_build_of_torch_is_the_one_that_torch_reports() -> None:
    import torch

    cuda = torch.version.cuda
    assert environment.torch_build() == ("CPU" if cuda is None else f"CUDA {cuda}")
