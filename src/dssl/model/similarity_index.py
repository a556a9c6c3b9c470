"""An approximate index of nearest vectors (HNSW, Malkov and Yashunin, 2018), by the library usearch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

INDEXED = 100_000  # number of vectors from which an index pays
SEARCHED = 10  # candidates of the index per requested neighbour


def available() -> bool:
    """Whether the library of the index is installed."""
    return find_spec("usearch") is not None


class SimilarityIndex:
    """Nearest vectors by cosine: candidates come from the index, their order from the exact cosine.

    Args:
        values: the vectors, shape ``(N, d)``.
    """

    def __init__(self, values: NDArray[np.float32]) -> None:
        from usearch.index import Index

        self._index: Any = Index(ndim=values.shape[1], metric="cos", dtype="f32")
        self._index.add(np.arange(len(values)), np.ascontiguousarray(values))
        self._size = len(values)

    def candidates(self, vector: NDArray[np.float32], top: int) -> NDArray[np.int64]:
        """Return positions of vectors that contain most of the nearest ones, in ascending order."""
        found = self._index.search(vector, min(SEARCHED * (top + 1), self._size))
        return np.sort(np.asarray(found.keys, np.int64))
