"""Checks and conversions of the arrays that a graph is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dssl.errors import GraphError
from dssl.runtime import out_of_core

MOST_CLASSES = 1_000_000


def as_positions(values: ArrayLike, name: str) -> NDArray[np.int32]:
    """Return positions of nodes as int32; other types, negative and too large numbers are refused."""
    array = np.asarray(values).reshape(-1)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise GraphError(f"graph {name!r}: edges are given by positions (integers), not {array.dtype}")
    if array.size and array.min() < 0:
        raise GraphError(f"graph {name!r}: an edge has the position {array.min()}; positions start at 0")
    if array.size and array.max() >= 2**31 - 1:
        raise GraphError(f"graph {name!r}: an edge has the position {array.max()}; there can be 2**31 − 1 nodes")
    return np.ascontiguousarray(array, dtype=np.int32)


def as_classes(y: ArrayLike, name: str) -> NDArray[np.int64]:
    """Return class numbers as int64, −1 where unknown; other types are refused."""
    array = np.asarray(y).reshape(-1)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise GraphError(f"graph {name!r}: labels are of type {array.dtype}; give integers, −1 where unknown")
    if array.size and array.max() >= MOST_CLASSES:
        raise GraphError(
            f"graph {name!r}: a label is {array.max()}; classes are numbered from 0, at most {MOST_CLASSES:,} of them"
        )
    return np.array(array, dtype=np.int64)


def as_weights(weights: ArrayLike, name: str) -> NDArray[np.float32]:
    """Return weights as float32; anything else than numbers is refused."""
    try:
        return np.array(weights, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError):
        raise GraphError(f"graph {name!r}: the weights are not numbers; give one number per edge") from None


def refuse_bad_weights(weights: NDArray[np.float32], name: str) -> None:
    """Refuse weights that are negative, infinite or NaN."""
    if weights.size and not (weights.min() >= 0 and weights.max() < np.inf):  # false for NaN too
        value = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise GraphError(f"graph {name!r}: a weight is {value}; weights must be finite and not negative")


def as_features(x: ArrayLike | sparse.sparray | sparse.spmatrix | None, name: str) -> Any:
    """Return features as a float32 matrix with a row per node, dense, sparse or on disk; none if it has no columns."""
    if x is None:
        return None
    if sparse.issparse(x):
        features = sparse.csr_array(x, dtype=np.float32)
        features.sum_duplicates()
    elif out_of_core.is_mapped(x) and x.dtype == np.float32 and x.ndim == 2:  # type: ignore[union-attr]
        features = x  # it stays on disk
    else:
        try:
            features = np.array(x, dtype=np.float32, order="C")
        except (TypeError, ValueError):
            raise GraphError(
                f"graph {name!r}: the features are not an array of numbers; give one row of as many numbers per node"
            ) from None
        if features.ndim == 1:
            features = features[:, None]
        if features.ndim != 2:
            raise GraphError(f"graph {name!r}: features of shape {features.shape}; give one row per node")
    return features if features.shape[1] else None
