from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dssl.runtime.tensors import _DTYPES, write_tensors


def examples() -> dict[str, torch.Tensor]:
    kinds = {name: getattr(torch, name.removeprefix("torch.")) for name in _DTYPES}
    found = {name: torch.tensor([[0, 1, 1], [1, 0, 1]]).to(kind) for name, kind in kinds.items()}
    found |= {"scalar": torch.tensor(0.1), "empty": torch.empty(0, 3), "turned": torch.arange(6.0).reshape(2, 3).T}
    return found | {"twice": found["scalar"], "part": torch.arange(10)[3:7], "ä": torch.ones(1, requires_grad=True)}


def test_the_library_reads_the_tensors_and_notes(tmp_path: Path) -> None:
    tensors = examples()
    write_tensors(tmp_path / "x.safetensors", tensors, {"epoch": "3"})
    read = load_file(tmp_path / "x.safetensors")
    assert read.keys() == tensors.keys()
    for name, value in tensors.items():
        assert read[name].dtype == value.dtype
        assert torch.equal(read[name], value)
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        assert file.metadata() == {"epoch": "3"}


def test_the_bytes_are_those_of_the_library(tmp_path: Path) -> None:
    tensors = {"b": torch.ones(2), "a": torch.zeros(3), "n": torch.arange(2)}
    write_tensors(tmp_path / "a.safetensors", tensors)
    save_file(tensors, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "x.safetensors"
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_tensors(path, {"a": torch.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208
