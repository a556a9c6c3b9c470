"""An approximate index of nearest vectors (HNSW, Malkov and Yashunin, 2018), by the library usearch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import require

SEARCHED = 10  # candidates of the index per requested neighbour


class SimilarityIndex:
    """Nearest vectors by cosine: candidates come from the index, their order from the exact cosine.

    Args:
        values: the vectors, shape ``(N, d)``.
    """

    def __init__(self, values: NDArray[np.float32]) -> None:
        require("usearch", extra="index")
        from usearch.index import Index

        self._index: Any = Index(ndim=values.shape[1], metric="cos", dtype="f32")
        self._index.add(np.arange(len(values)), np.ascontiguousarray(values))
        self._size = len(values)

    def candidates(self, vector: NDArray[np.float32], top: int) -> NDArray[np.int64]:
        """Return positions of vectors that contain most of the nearest ones, in ascending order."""
        found = self._index.search(vector, min(SEARCHED * (top + 1), self._size))
        return np.sort(np.asarray(found.keys, np.int64))
