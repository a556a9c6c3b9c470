"""Memory that is used again, and never while somebody refers to it."""

from __future__ import annotations

import pytest
import torch

from dssl.kernels import buffers


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "LARGE", 64)


def test_memory_is_used_again_when_it_is_free() -> None:
    with buffers.reused():
        first = buffers.empty(8, 8)
        place = first.data_ptr()
        assert buffers.empty(8, 8).data_ptr() != place
        del first
        assert buffers.empty(8, 8).data_ptr() == place
        assert buffers.empty(4, 16).data_ptr() != place  # another shape


@pytest.mark.parametrize("view", [lambda x: x[2:], lambda x: x.numpy(), lambda x: x.detach().T, lambda x: x.numpy()[3]])
def test_not_while_a_view_is_left(view: object) -> None:
    with buffers.reused():
        whole = buffers.empty(8, 8).fill_(1)
        part = view(whole)  # type: ignore[operator]
        place = whole.data_ptr()
        del whole
        assert buffers.empty(8, 8).data_ptr() != place
        del part
        kept = [buffers.empty(8, 8) for _ in range(2)]
        assert place in {tensor.data_ptr() for tensor in kept}


def test_not_while_the_gradient_needs_it() -> None:
    weight = torch.ones(8, 8, requires_grad=True)
    with buffers.reused():
        x = buffers.empty(8, 8).fill_(2)
        loss = (x * weight).sum()
        del x
        buffers.empty(8, 8).fill_(7)
        loss.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.full((8, 8), 2.0))


def test_zeros_are_zeros() -> None:
    with buffers.reused():
        buffers.empty(8, 8).fill_(3)
        assert not buffers.zeros(8, 8).any()


def test_small_arrays_and_other_times_are_left_alone() -> None:
    with buffers.reused():
        buffers.empty(2, 2)
        assert not buffers._kept
        with buffers.reused(), buffers.reused(alike=False):
            buffers.empty(8, 8)
        assert buffers._kept
    assert buffers._kept is None
    with buffers.reused(alike=False):
        assert buffers._kept is None
