"""The scale of a graph: computed at once in memory, or by blocks with large matrices on disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How a graph is computed. The estimator decides it once for a graph and passes it down.

    Args:
        in_memory: whether matrices with a row per node are computed at once. Otherwise they are computed by blocks of
            rows or columns, and lie in scratch files where they are large (`dssl.runtime.out_of_core`).
    """

    in_memory: bool

    @classmethod
    def of(cls, num_nodes: int, limit: int) -> Scale:
        """Return the scale of a graph of ``num_nodes`` nodes, where ``limit`` nodes are the most to hold in memory.

        >>> Scale.of(2_708, 50_000), Scale.of(1_000_000, 50_000)
        (Scale(in_memory=True), Scale(in_memory=False))
        """
        return cls(num_nodes <= limit)


IN_MEMORY, BY_BLOCKS = Scale(in_memory=True), Scale(in_memory=False)
