"""The inference head on every link in one pass, forward and backward: compiled, parallel, without a row per link.

A link from i to j has the posterior q = softmax(W₂ relu(a_i + b_j) + b₂). Eight links are taken at a time: their hidden
values fill a small scratch array, and the three products of the head, with W₂ forward, with W₂ and with the hidden
values backward, become tiles whose sums stay in registers (`dssl.kernels.simd`). Exponentials are taken of eight
links at once. The contributions of a link are added to the rows of its two ends at once.

**Threads.** Rows and columns of the links are cut into the same few parts. In the first turn the parts (0, 0),
(1, 1), … of the matrix are worked on at the same time, in the second (0, 1), (1, 2), … and so on: no two of them share
a row or a column, so that no thread waits and no sum depends on the order. How many parts there are follows from the
links alone, so the result is the same, bit for bit, with any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.kernels import buffers
from dssl.kernels._link_posterior_loops import GROUP, PANEL, backward_part, forward_part, scratch_size
from dssl.kernels.compile import Floats, Indices, Indptr, compiled, equal_parts, in_threads
from dssl.kernels.simd import memory

Doubles = NDArray[np.float64]

PARTS = ((200_000, 4), (4_000_000, 8))  # links from which on rows and columns have so many parts


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Links in CSR, cut into parts that threads can work on at the same time.

    Args:
        indptr: row pointers, shape ``(C + 1,)``.
        indices: neighbours, shape ``(A,)``.
        weights: of the links, shape ``(A,)``.
        num_columns: n.
        rows: first row of each part and, last, C; shape ``(B + 1,)``.
        starts: where in each row the links to each part of the columns begin, and where the row ends; shape
            ``(B + 1, C)``.
    """

    indptr: Indptr
    indices: Indices
    weights: Floats
    num_columns: int
    rows: Indptr
    starts: Indptr

    @classmethod
    def build(cls, links: sparse.csr_array, *, parts: int | None = None) -> Plan:
        """Cut links of shape ``(C, n)`` into parts of about as many links; by default `PARTS` of them."""
        indptr = cast(Indptr, links.indptr.astype(np.int64, copy=False))
        indices = cast(Indices, links.indices.astype(np.int32, copy=False))
        weights = cast(Floats, links.data.astype(np.float32, copy=False))
        centres, columns = int(links.shape[0]), int(links.shape[1])
        if parts is None:
            several = [number for least, number in PARTS if indices.size >= least and links.has_sorted_indices]
            parts = several[-1] if several else 1
        if parts == 1:
            rows, starts = np.array([0, centres], np.int64), np.stack([indptr[:-1], indptr[1:]])
            return cls(indptr, indices, weights, columns, rows, starts)
        shares = np.arange(1, parts) * indices.size // parts
        rows = np.concatenate([[0], np.searchsorted(indptr, shares), [centres]]).astype(np.int64)
        reached = np.cumsum(np.bincount(indices, minlength=columns))
        bounds = np.searchsorted(reached, shares, side="right").astype(np.int64)
        starts = np.empty((parts + 1, centres), np.int64)
        _find_starts(indptr, indices, bounds, starts)
        return cls(indptr, indices, weights, columns, rows, starts)


@compiled
def _find_starts(indptr: Indptr, indices: Indices, bounds: Indptr, starts: Indptr) -> None:
    parts = starts.shape[0] - 1
    for i in range(starts.shape[1]):
        e = indptr[i]
        starts[0, i] = e
        for part in range(1, parts):
            while e < indptr[i + 1] and indices[e] < bounds[part - 1]:
                e += 1
            starts[part, i] = e
        starts[parts, i] = indptr[i + 1]


# --- forward and backward ---------------------------------------------------------------------------------------------


def _padded(array: Floats, columns: int) -> Floats:
    """Return the array with columns of zeros up to a multiple; itself if it has as many."""
    extra = -array.shape[1] % columns
    return np.pad(array, ((0, 0), (0, extra))) if extra else np.ascontiguousarray(array)


def _layouts(weight: Floats) -> tuple[Floats, Floats]:
    """W₂ of shape (K, H) as blocks of eight factors (block, H, 8), and as panels (panel, K, 16)."""
    whole = _padded(_padded(weight, PANEL).T, GROUP).T  # (padded K, padded H)
    columns = whole.reshape(-1, GROUP, whole.shape[1]).transpose(0, 2, 1)
    panels = whole.reshape(whole.shape[0], -1, PANEL).transpose(1, 0, 2)
    return np.ascontiguousarray(columns).reshape(-1), np.ascontiguousarray(panels).reshape(-1)


def _arranged(arrays: Sequence[Floats]) -> tuple[tuple[int, int, int], tuple[Floats, ...], Floats]:
    """Return hidden values, factors and padded factors in numbers; a, b, W₂ and b₂ as the loops take them; panels."""
    first, second, weight, bias = arrays
    columns, panels = _layouts(weight)
    first, second = _padded(first, PANEL), _padded(second, PANEL)
    return (first.shape[1], bias.size, bias.size + -bias.size % GROUP), (first, second, columns, bias), panels


def forward(plan: Plan, arrays: Sequence[Floats], *, threads: int) -> tuple[Floats, Floats, Doubles, Doubles]:
    """One pass over the links; see `dssl.methods.dssl.posterior.Posteriors`.

    Args:
        plan: the links.
        arrays: a ``(C, H)``, b ``(n, H)``, W₂ ``(K, H)``, b₂ ``(K,)``.
        threads: how many to use at most.

    Returns:
        P ``(C, K)``, R ``(n, K)``, the sum of the posteriors ``(K,)``, and the weighted and the plain sum of the
        entropies of the links' posteriors.
    """
    parts = len(plan.rows) - 1
    sizes, head, _ = _arranged(arrays)
    width, factors, padded = sizes
    by_centre, by_neighbour = (np.zeros((len(ends), padded), np.float32) for ends in arrays[:2])
    usage, sums = np.zeros((parts, padded), np.float64), np.zeros((parts, 2), np.float64)
    scratch = np.zeros((parts, scratch_size(width, padded)), np.float32)

    def work(turn: int, part: int, places: Indptr) -> None:
        added = _memories(by_centre, by_neighbour, usage[part], sums[part])
        forward_part(*_rows(plan, turn, part), sizes, _memories(*head), added, _memories(scratch[part], places))

    _in_turns(work, parts, threads)
    return by_centre[:, :factors], by_neighbour[:, :factors], usage.sum(axis=0)[:factors], sums.sum(axis=0)


def _in_turns(work: Callable[[int, int, Indptr], None], parts: int, threads: int) -> None:
    """Work on every part in every turn, on the parts of a turn at the same time, each with memory for eight links."""
    places = np.zeros((parts, 4 * GROUP), np.int64)

    def some(begin: int, end: int, turn: int) -> None:
        for part in range(begin, end):
            work(turn, part, places[part])

    for turn in range(parts):
        in_threads(some, equal_parts(parts, threads), turn)


def _rows(plan: Plan, turn: int, part: int) -> tuple[int, int, tuple[int, ...]]:
    """Bounds of the rows of a part; where its links begin and end in each, their ends and weights."""
    column = (part + turn) % (len(plan.rows) - 1)
    links = _memories(plan.starts[column], plan.starts[column + 1], plan.indices, plan.weights)
    return int(plan.rows[part]), int(plan.rows[part + 1]), links


def _memories(*arrays: NDArray[Any]) -> tuple[int, ...]:
    return tuple(memory(array) for array in arrays)


def backward(
    plan: Plan,
    arrays: Sequence[Floats],
    grad_centre: Floats,
    grad_neighbour: Floats,
    grad_entropy: float,
    *,
    threads: int,
) -> tuple[Floats, ...]:
    """The gradients of `forward` for its arrays, of the same shapes: posteriors are computed again, not stored."""
    parts, hidden = len(plan.rows) - 1, arrays[0].shape[1]
    sizes, head, panels = _arranged(arrays)
    width, factors, padded = sizes
    grads = _padded(grad_centre, GROUP), _padded(grad_neighbour, GROUP)
    found = [buffers.zeros(*ends.shape).numpy() for ends in head[:2]]
    # A part of each turn has separate scratch memory: the gradients of W₂ and b₂ are summed there.
    scratch = np.zeros((parts * parts, scratch_size(width, padded)), np.float32)

    def work(turn: int, part: int, places: Indptr) -> None:
        given = _memories(*head), memory(panels), _memories(*grads), np.float32(grad_entropy), _memories(*found)
        backward_part(*_rows(plan, turn, part), sizes, *given, _memories(scratch[turn * parts + part], places))

    _in_turns(work, parts, threads)
    sums = scratch.sum(axis=0, dtype=np.float64)[-padded * (8 + width) :]
    grad_bias = sums[: 8 * padded].reshape(padded, 8).sum(axis=1)
    grad_weight = sums[8 * padded :].reshape(-1, padded, PANEL).transpose(1, 0, 2).reshape(padded, width)
    return (
        found[0][:, :hidden],
        found[1][:, :hidden],
        grad_weight[:factors, :hidden].astype(np.float32),
        grad_bias[:factors].astype(np.float32),
    )
