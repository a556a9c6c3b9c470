"""Sparse matrices that torch can differentiate through: the graph's averages, and sparse features.

One product serves both: ``S @ H`` for a constant sparse S and a dense H. Its gradient is ``Sᵀ @ G``, so the
transpose is computed with the first gradient and kept (shared when S is symmetric).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl.errors import GraphError
from dssl.kernels import arcs, buffers, spmm


@dataclass(frozen=True, eq=False)
class Operator:
    """A constant sparse matrix of shape ``shape`` in CSR, on one device.

    On the CPU the parts are NumPy arrays for the compiled product; elsewhere torch CSR tensors.

    Args:
        matrix: the matrix.
        shape: ``(N, M)``.
        symmetric: whether it is its own transpose.
    """

    matrix: Any
    shape: tuple[int, int]
    symmetric: bool

    @classmethod
    def build(cls, matrix: sparse.csr_array, *, symmetric: bool, device: torch.device) -> Operator:
        """Take a SciPy CSR matrix to ``device``; with ``symmetric`` it is its own transpose."""
        make = _arrays if device.type == "cpu" else _tensor
        return cls(make(matrix, device), (int(matrix.shape[0]), int(matrix.shape[1])), symmetric)

    @cached_property
    def transpose(self) -> Any:
        """The transpose, of the same kind as the matrix."""
        if self.symmetric:
            return self.matrix
        return Operator.build(sparse.csr_array(self._scipy().T), symmetric=False, device=self.device).matrix

    @property
    def device(self) -> torch.device:
        """Where the matrix is."""
        return self.matrix.device if isinstance(self.matrix, Tensor) else torch.device("cpu")

    def _parts(self) -> Any:
        """Row pointers, columns and values of the entries."""
        if isinstance(self.matrix, Tensor):
            return self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()
        return self.matrix

    def _with(self, values: Any) -> Operator:
        """The operator with other values of its entries."""
        indptr, indices, _ = self._parts()
        if isinstance(self.matrix, Tensor):
            made: Any = torch.sparse_csr_tensor(indptr, indices, values, size=self.shape)
        else:
            made = indptr, indices, values
        return Operator(made, self.shape, symmetric=False)

    def _scipy(self) -> sparse.csr_array:
        indptr, indices, values = (part.cpu().numpy() if isinstance(part, Tensor) else part for part in self._parts())
        return sparse.csr_array((values, indices, indptr), shape=self.shape)

    def scaled(self, *, rows: Tensor | None = None, columns: Tensor | None = None) -> Operator:
        """Return the operator with its rows or columns multiplied by vectors of shape ``(N,)`` or ``(M,)``."""
        indptr, indices, values = self._parts()
        tensors = isinstance(self.matrix, Tensor)
        if rows is not None:
            each = rows.repeat_interleave(indptr.diff()) if tensors else np.repeat(rows.numpy(), np.diff(indptr))
            values = values * each
        if columns is not None:
            values = values * (columns if tensors else columns.numpy())[indices]
        return self._with(values)

    def take_rows(self, order: Tensor) -> Operator:
        """Return the rows ``order`` of the operator, shape ``(n, M)``."""
        return Operator.build(self._scipy()[order.cpu().numpy()], symmetric=False, device=self.device)

    def dropped(self, rate: float) -> Operator:
        """Return the operator with entries set to zero at random and the others divided by ``1 − rate``."""
        values = self._parts()[2]
        if isinstance(values, Tensor):
            return self._with(F.dropout(values, rate))
        return self._with(values * F.dropout(torch.ones(len(values)), rate).numpy())

    def dense(self, most: int = 2**30) -> Tensor:
        """Return the matrix with its zeros, shape ``(N, M)``; one of more than ``most`` entries is refused."""
        rows, columns = self.shape
        if rows * columns > most:
            size = f"{4 * rows * columns / 2**30:.1f} GiB"
            raise GraphError(
                f"{rows:,} rows of {columns:,} sparse features would take {size} with their zeros, which a module of "
                "your own is given; reduce the features, or set train.batch_size"
            )
        return torch.from_numpy(self._scipy().toarray()).to(self.device)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return cast(Tensor, _Product.apply(dense, self))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False, kw_only=True)
class Filled(Operator):
    """A sparse matrix of which some rows, empty ones, are one dense row with a gradient.

    Args:
        at: 1 for such a row and 0 for others, shape ``(N,)``.
        row: the dense row, shape ``(M,)``.
    """

    at: Tensor
    row: Tensor

    def dense(self, most: int = 2**30) -> Tensor:
        """Return the matrix with its zeros, shape ``(N, M)``; one of more than ``most`` entries is refused."""
        return super().dense(most) + self.at[:, None] * self.row

    def __matmul__(self, dense: Tensor) -> Tensor:
        return super().__matmul__(dense) + self.at[:, None] * (self.row @ dense)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, operator: Operator) -> Tensor:
        ctx.operator = operator
        return _multiply(operator.matrix, dense, operator.shape[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _multiply(ctx.operator.transpose, grads[0], ctx.operator.shape[1]), None


def _multiply(matrix: Any, dense: Tensor, rows: int) -> Tensor:
    if isinstance(matrix, Tensor):
        return matrix @ dense
    out = buffers.empty(rows, dense.shape[1])
    indptr, indices, values = matrix
    given = dense.detach().contiguous().numpy()
    spmm.spmm(indptr, indices, values, given, out.numpy(), threads=torch.get_num_threads())
    return out


def _arrays(matrix: sparse.csr_array, _: torch.device) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float32, copy=False),
    )


def _tensor(matrix: sparse.csr_array, device: torch.device) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        size=matrix.shape,
        device=device,
    )


def weighted_sum(weights: Tensor, h: Tensor, source: Tensor, target: Tensor, rows: int) -> Tensor:
    """Return Σ_j w_ij h_j of each row i, differentiable in the weights too, shape ``(rows, d)``.

    Args:
        weights: w of each arc, shape ``(A,)``.
        h: vectors, shape ``(n, d)``.
        source: j of each arc, shape ``(A,)``.
        target: i of each arc, shape ``(A,)``.
        rows: number of rows.

    >>> source, target = torch.tensor([1, 2]), torch.tensor([0, 0])
    >>> weighted_sum(torch.tensor([1.0, 2.0]), torch.tensor([[9.0], [3.0], [4.0]]), source, target, 2).tolist()
    [[11.0], [0.0]]
    """
    if h.device.type == "cpu" and h.dtype == weights.dtype == torch.float32:
        return cast(Tensor, _WeightedSum.apply(weights, h, source, target, rows))  # type: ignore[no-untyped-call]
    return h.new_zeros(rows, h.shape[1]).index_add(0, target, weights[:, None] * h.index_select(0, source))


class _WeightedSum(torch.autograd.Function):
    """Without an array of a row per arc, whose fresh memory takes most of the time."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, h: Tensor, source: Tensor, target: Tensor, rows: int) -> Tensor:
        ctx.save_for_backward(weights, h, source, target)
        return _gathered(weights, h, source, target, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, h, source, target = ctx.saved_tensors
        grad, own = (part.detach().contiguous() for part in (grads[0], h))
        pulls = pushes = None
        if ctx.needs_input_grad[0]:
            pulls = torch.from_numpy(arcs.products(grad.numpy(), own.numpy(), target.numpy(), source.numpy()))
        if ctx.needs_input_grad[1]:
            pushes = _gathered(weights, grad, target, source, len(own))
        return pulls, pushes, None, None, None


def _gathered(weights: Tensor, h: Tensor, source: Tensor, target: Tensor, rows: int) -> Tensor:
    indptr, order = arcs.sort_by(target.numpy(), rows)
    values = weights.detach().numpy()[order]
    return _multiply((indptr, source.numpy()[order].astype(np.int32), values), h, rows)


def softmax(scores: Tensor, target: Tensor, rows: int) -> Tensor:
    """Return the softmax of scores over the arcs of each target, shape ``(A,)``; every target has an arc."""
    largest = scores.new_full((rows,), -torch.inf).scatter_reduce(0, target, scores.detach(), "amax")
    raised = (scores - largest.index_select(0, target)).exp()
    return raised / raised.new_zeros(rows).index_add(0, target, raised).index_select(0, target)


def attention(x: Tensor, own: Tensor, other: Tensor, edge_index: Tensor, slope: float) -> Tensor:
    """Return the mean over heads of Σ_j α_ij x_j, where j is i or a neighbour of it, shape ``(n, d)``.

    Args:
        x: vectors of each node and head, shape ``(n, heads, d)``.
        own: the part of the scores that the centre gives, shape ``(n, heads)``; α is the softmax of LeakyReLU(scores).
        other: the part that the neighbour gives, shape ``(n, heads)``.
        edge_index: from neighbour to centre, shape ``(2, A)``.
        slope: of the LeakyReLU.
    """
    n, heads, _ = x.shape
    loops = torch.arange(n, device=x.device).expand(2, -1)
    source, target = torch.cat([edge_index[:, edge_index[0] != edge_index[1]], loops], dim=1)
    scores = F.leaky_relu(own.index_select(0, target) + other.index_select(0, source), slope)
    each = torch.arange(heads, device=x.device)
    sources, targets = ((end[:, None] * heads + each).flatten() for end in (source, target))
    weights = softmax(scores.flatten(), targets, n * heads) / heads
    return weighted_sum(weights, x.reshape(n * heads, -1), sources, target.repeat_interleave(heads), n)
