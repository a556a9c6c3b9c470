from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from dssl.errors import GraphError
from dssl.kernels import csr
from dssl.nn.operators import Operator, weighted_sum

CPU = torch.device("cpu")


def random_matrix(rows: int, columns: int, seed: int = 0) -> sparse.csr_array:
    return sparse.random_array((rows, columns), density=0.2, format="csr", dtype=np.float32, rng=seed)


def test_product_and_gradient_equal_the_dense_ones() -> None:
    matrix = random_matrix(9, 7)
    dense = torch.randn(7, 5, requires_grad=True)
    operator = Operator.build(matrix, symmetric=False, device=CPU)
    weights = torch.randn(9, 5)
    torch.testing.assert_close(operator @ dense, torch.from_numpy(matrix.toarray()) @ dense)
    (ours,) = torch.autograd.grad(((operator @ dense) * weights).sum(), dense)
    torch.testing.assert_close(ours, torch.from_numpy(matrix.toarray()).T @ weights)


@pytest.mark.parametrize("dim", [5, 72])
def test_a_weighted_sum_and_its_gradients_equal_the_dense_ones_for_arcs_in_any_order(dim: int) -> None:
    source, target = torch.randint(7, (30,)), torch.randint(9, (30,))  # with arcs that occur twice
    weights, h = torch.randn(30, requires_grad=True), torch.randn(7, dim, requires_grad=True)
    pull = torch.randn(9, dim)
    ours = weighted_sum(weights, h, source, target, 9)
    dense = torch.zeros(9, 7).index_put((target, source), weights, accumulate=True) @ h
    torch.testing.assert_close(ours, dense, atol=1e-5, rtol=1e-4)
    for mine, slow in zip(*(torch.autograd.grad((z * pull).sum(), (weights, h)) for z in (ours, dense)), strict=True):
        torch.testing.assert_close(mine, slow, atol=1e-5, rtol=1e-4)
    wide = weighted_sum(weights.double(), h.double(), source, target, 9)
    torch.testing.assert_close(ours.double(), wide, atol=1e-5, rtol=1e-4)


def test_zeros_are_written_out_unless_there_are_too_many() -> None:
    matrix = random_matrix(9, 7)
    operator = Operator.build(matrix, symmetric=False, device=CPU)
    np.testing.assert_array_equal(operator.dense().numpy(), matrix.toarray())
    with pytest.raises(GraphError, match="9 rows of 7 sparse features"):
        operator.dense(most=62)


def test_sampling_is_seeded_without_repeats_and_from_the_row() -> None:
    draw = np.random.default_rng(3)
    degrees = draw.integers(0, 30, size=50)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    nodes = draw.permutation(50).astype(np.int64)
    pointers, arcs = csr.sample_neighbours(indptr, nodes, 5, 11)
    for row, node in enumerate(nodes):
        drawn = arcs[pointers[row] : pointers[row + 1]]
        assert len(drawn) == min(5, degrees[node]) == len(set(drawn.tolist()))
        assert all(indptr[node] <= arc < indptr[node + 1] for arc in drawn)
        own = csr.sample_neighbours(indptr, nodes[row : row + 1], 5, 11)[1]
        np.testing.assert_array_equal(own, drawn)  # whatever else is drawn
    assert not np.array_equal(arcs, csr.sample_neighbours(indptr, nodes, 5, 12)[1])


def test_every_neighbour_is_equally_likely() -> None:
    indptr, node = np.array([0, 10], np.int64), np.zeros(1, np.int64)
    counts = np.zeros(10)
    for seed in range(4000):
        counts[csr.sample_neighbours(indptr, node, 3, seed)[1]] += 1
    assert np.abs(counts / 4000 - 0.3).max() < 0.03  # about four standard errors


def test_scaling_and_taking_rows_are_those_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    matrix = sparse.csr_array(rng.random((5, 4)) * (rng.random((5, 4)) < 0.5), dtype=np.float32)
    operator = Operator.build(matrix, symmetric=False, device=torch.device("cpu"))
    rows, columns = torch.rand(5), torch.rand(4)
    order = torch.tensor([4, 0, 2, 0])
    wanted = torch.from_numpy(matrix.toarray())
    dense = torch.rand(4, 3, requires_grad=True)
    for made, expected in (
        (operator.scaled(rows=rows, columns=columns), rows[:, None] * wanted * columns),
        (operator.scaled(columns=columns), wanted * columns),
        (operator.take_rows(order), wanted[order]),
    ):
        torch.testing.assert_close(made @ dense, expected @ dense)
        (got,) = torch.autograd.grad((made @ dense).square().sum(), dense)
        (right,) = torch.autograd.grad((expected @ dense).square().sum(), dense)
        torch.testing.assert_close(got, right)
