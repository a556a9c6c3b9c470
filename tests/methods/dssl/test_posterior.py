"""The compiled passes over the links equal a literal loop, in value and in gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from dssl.methods.dssl import posterior


def random_links(centres: int, nodes: int, seed: int) -> sparse.csr_array:
    draw = np.random.default_rng(seed)
    dense = (draw.random((centres, nodes)) < 0.4) * draw.random((centres, nodes))
    dense[0] = 0  # a centre without neighbours
    return sparse.csr_array(dense.astype(np.float32))


def head_tensors(centres: int, nodes: int, hidden: int, factors: int, seed: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    shapes = [(centres, hidden), (nodes, hidden), (factors, hidden), (factors,)]
    return [torch.randn(shape, generator=made, requires_grad=True) for shape in shapes]


def literal(links: sparse.csr_array, logits_of) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """A loop over the links, one by one."""
    centres, nodes = links.shape
    by_centre: list[torch.Tensor | float] = [0.0] * centres
    by_neighbour: list[torch.Tensor | float] = [0.0] * nodes
    entropy, plain, count = torch.zeros(()), 0.0, 0
    factors = len(logits_of(0, 0))
    dense = links.toarray()
    for i in range(centres):
        for j in range(nodes):
            if dense[i, j] == 0:
                continue
            q = torch.softmax(logits_of(i, j), dim=0)
            own = -sum(q[k] * torch.log(q[k]) for k in range(factors))
            by_centre[i] = by_centre[i] + float(dense[i, j]) * q
            by_neighbour[j] = by_neighbour[j] + float(dense[i, j]) * q
            entropy = entropy + float(dense[i, j]) * own
            plain, count = plain + float(own.detach()), count + 1
    zeros = torch.zeros(factors)
    rows = [zeros if isinstance(row, float) else row for row in by_centre]
    columns = [zeros if isinstance(row, float) else row for row in by_neighbour]
    return torch.stack(rows), torch.stack(columns), entropy, plain / count


@pytest.mark.parametrize("factors", [1, 3, 8])
def test_head_equals_a_loop_in_value_and_gradient(factors: int) -> None:
    links = random_links(5, 7, seed=factors)
    tensors = head_tensors(5, 7, 6, factors, seed=1)
    a, b, weight, bias = tensors
    found = posterior.from_head(links, *tensors)
    wanted = literal(links, lambda i, j: weight @ torch.relu(a[i] + b[j]) + bias)
    torch.testing.assert_close(found.by_centre, wanted[0])
    torch.testing.assert_close(found.by_neighbour, wanted[1])
    torch.testing.assert_close(found.entropy, wanted[2])
    assert found.mean_entropy == pytest.approx(wanted[3], abs=1e-6)

    made = torch.Generator().manual_seed(7)
    for_centre, for_neighbour = torch.randn(5, factors, generator=made), torch.randn(7, factors, generator=made)

    def scalar(by_centre: torch.Tensor, by_neighbour: torch.Tensor, entropy: torch.Tensor) -> torch.Tensor:
        return (for_centre * by_centre).sum() + (for_neighbour * by_neighbour).sum() + 0.7 * entropy

    ours = torch.autograd.grad(scalar(found.by_centre, found.by_neighbour, found.entropy), tensors)
    theirs = torch.autograd.grad(scalar(*wanted[:3]), tensors)
    for mine, loop in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, loop, atol=2e-6, rtol=1e-4)


def test_rows_equal_a_loop() -> None:
    links = random_links(6, 4, seed=3)
    s, t = torch.randn(6, 5), torch.randn(4, 5)
    wanted = literal(links, lambda i, j: s[i] + t[j])
    start, end, _ = posterior.rows(links, torch.device("cpu"))
    found = posterior.from_rows(links, s[start] + t[end])
    torch.testing.assert_close(found.by_centre, wanted[0])
    torch.testing.assert_close(found.by_neighbour, wanted[1])
    torch.testing.assert_close(found.entropy, wanted[2])
    assert found.mean_entropy == pytest.approx(wanted[3], abs=1e-6)
    assert float(found.usage.sum()) == pytest.approx(1)


def test_uniform_is_the_posterior_of_equal_logits() -> None:
    links = random_links(6, 4, seed=5)
    flat = posterior.from_rows(links, torch.zeros(links.nnz, 3))
    found = posterior.uniform(links, 3, torch.device("cpu"))
    torch.testing.assert_close(found.by_centre, flat.by_centre)
    torch.testing.assert_close(found.by_neighbour, flat.by_neighbour)
    torch.testing.assert_close(found.entropy, flat.entropy)


@pytest.mark.parametrize("scale", [1e4, 1e9])
def test_extreme_logits_stay_finite(scale: float) -> None:
    links = random_links(4, 4, seed=2)
    tensors = [scale * tensor.detach() for tensor in head_tensors(4, 4, 3, 4, seed=2)]
    for tensor in tensors:
        tensor.requires_grad_(True)
    found = posterior.from_head(links, *tensors)
    assert float(found.entropy.detach()) == pytest.approx(0, abs=1e-3)
    grads = torch.autograd.grad(found.by_centre.square().sum() + found.entropy, tensors)
    assert all(bool(torch.isfinite(grad).all()) for grad in grads)
    torch.testing.assert_close(found.by_centre.sum(dim=1), torch.from_numpy(links.sum(axis=1)).float())


def test_no_links_at_all() -> None:
    links = sparse.csr_array((3, 3), dtype=np.float32)
    found = posterior.from_head(links, *head_tensors(3, 3, 2, 2, seed=0))
    assert float(found.entropy.detach()) == 0 and found.mean_entropy == 0
    assert float(found.by_centre.detach().abs().sum()) == 0


def test_sampled_rows_are_links_and_all_of_them_where_they_are_few() -> None:
    links = sparse.csr_array(np.array([[0, 2.0, 1], [0, 0, 0], [3, 0, 4]]))
    start, end = posterior.sampled_rows(links, 4)
    assert list(zip(start, end, strict=True)) == [(0, 1), (0, 2), (2, 0), (2, 2)]
    torch.manual_seed(0)
    some = posterior.sampled_rows(links, 3)
    assert len(some[0]) == 3 and all(links[i, j] for i, j in zip(*some, strict=True))
