"""Sparse matrices that torch can differentiate through: the graph's averages, and sparse features.

One product serves both: ``S @ H`` for a constant sparse S and a dense H. Its gradient is ``Sᵀ @ G``, so the
transpose is kept beside it (shared when S is symmetric).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from dssl import kernels


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """A constant sparse matrix of shape ``shape`` in CSR with its transpose, on one device.

    On the CPU the parts are NumPy arrays for the compiled product; elsewhere torch CSR tensors.

    Args:
        matrix: the matrix.
        transpose: its transpose.
        shape: ``(N, M)``.
    """

    matrix: Any
    transpose: Any
    shape: tuple[int, int]

    @classmethod
    def build(cls, matrix: sparse.csr_array, *, symmetric: bool, device: torch.device) -> Operator:
        """Take a SciPy CSR matrix to ``device``; with ``symmetric`` it is its own transpose."""
        make = _arrays if device.type == "cpu" else _tensor
        forward = make(matrix, device)
        backward = forward if symmetric else make(sparse.csr_array(matrix.T), device)
        return cls(forward, backward, (int(matrix.shape[0]), int(matrix.shape[1])))

    def scaled(self, *, rows: Tensor | None = None, columns: Tensor | None = None) -> Operator:
        """Return the operator with its rows or columns multiplied by vectors of shape ``(N,)`` or ``(M,)``."""
        return Operator(_rescaled(self.matrix, rows, columns), _rescaled(self.transpose, columns, rows), self.shape)

    def take_rows(self, order: Tensor) -> Operator:
        """Return the rows ``order`` of the operator, shape ``(n, M)``."""
        if isinstance(self.matrix, Tensor):
            parts = [part.cpu().numpy() for part in (self.matrix.crow_indices(), self.matrix.col_indices())]
            values, device = self.matrix.values().cpu().numpy(), self.matrix.device
        else:
            (*parts, values), device = self.matrix, torch.device("cpu")
        whole = sparse.csr_array((values, parts[1], parts[0]), shape=self.shape)
        return Operator.build(whole[order.cpu().numpy()], symmetric=False, device=device)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return cast(Tensor, _Product.apply(dense, self))  # type: ignore[no-untyped-call]


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
    out = torch.empty(rows, dense.shape[1], dtype=torch.float32)
    indptr, indices, values = matrix
    kernels.spmm(indptr, indices, values, dense.detach().contiguous().numpy(), out.numpy())
    return out


def _arrays(matrix: sparse.csr_array, _: torch.device) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return (
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float32, copy=False),
    )


def _rescaled(matrix: Any, rows: Tensor | None, columns: Tensor | None) -> Any:
    if isinstance(matrix, Tensor):
        pointers, places, values = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        if rows is not None:
            values = values * rows.repeat_interleave(pointers.diff())
        if columns is not None:
            values = values * columns[places]
        return torch.sparse_csr_tensor(pointers, places, values, size=matrix.shape)
    indptr, indices, data = matrix
    if rows is not None:
        data = data * np.repeat(rows.numpy(), np.diff(indptr))
    if columns is not None:
        data = data * columns.numpy()[indices]
    return indptr, indices, data


def _tensor(matrix: sparse.csr_array, device: torch.device) -> Tensor:
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        size=matrix.shape,
        device=device,
    )
