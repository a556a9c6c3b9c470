r"""Vectors of two trainings in one space, and the nodes that moved between them.

Two trainings of the same graph give a similar geometry in other axes. The orthogonal matrix (Schönemann, 1966)

.. math:: R = \arg\min \|(A - \bar a) R - (B - \bar b)\|,

fitted on the nodes of both, turns new vectors A into the axes of the old ones B, as :math:`(A - \bar a) R + \bar b`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dssl.errors import DsslError
from dssl.model.embeddings import Embeddings

QUANTILES = (0.01, 0.1, 0.5)
MOVED = 0.8  # cosine to the old vector below which a node counts as moved


@dataclass(frozen=True, slots=True)
class Drift:
    """How much the vectors of shared nodes changed.

    Args:
        shared: number of nodes in both.
        added: number of nodes that only the new vectors have.
        removed: number of nodes that only the old vectors have.
        moved: number of shared nodes whose cosine to the old vector is below ``limit``.
        limit: the limit.
        quantiles: quantiles of the cosine, by their probability.
        most: id and cosine of the nodes that moved most, at most ten.
    """

    shared: int
    added: int
    removed: int
    moved: int
    limit: float
    quantiles: dict[str, float]
    most: list[tuple[Any, float]]


def align(new: Embeddings, old: Embeddings, *, limit: float = MOVED) -> tuple[Embeddings, Drift]:
    """Turn new vectors into the axes of old ones.

    Args:
        new: vectors to turn.
        old: vectors with the axes to use, of the same length.
        limit: cosine below which a node counts as moved.

    Returns:
        The new vectors in the old axes, and the changes of the nodes in both.

    >>> old = Embeddings(["a", "b", "c"], [[1, 0], [0, 1], [-1, -1]])
    >>> turned = Embeddings(["c", "b", "a", "d"], [[1, -1], [-1, 0], [0, 1], [0, 2]])
    >>> aligned, drift = align(turned, old)
    >>> (aligned["d"].round(3) + 0).tolist(), drift.shared, drift.added, drift.moved
    ([2.0, 0.0], 3, 1, 0)
    """
    if new.dim != old.dim:
        raise DsslError(f"the new vectors have length {new.dim} and the old ones {old.dim}; fit with the same dim")
    if new.ids.type != old.ids.type:
        raise DsslError("the ids of the new vectors are of another type than those of the old ones")
    both = new.ids.filter(pc.is_in(new.ids, value_set=old.ids))
    if len(both) < 2:
        raise DsslError("the two sets of vectors share fewer than two nodes; alignment needs shared ids")
    a, b = new[both].astype(np.float64), old[both].astype(np.float64)
    left, _, right = np.linalg.svd((a - a.mean(axis=0)).T @ (b - b.mean(axis=0)))
    values = (new.values - a.mean(axis=0)) @ (left @ right) + b.mean(axis=0)
    aligned = Embeddings(new.ids, values.astype(np.float32))
    table = cosines(aligned, old)
    cosine, most = table["cosine"].to_numpy(), table.slice(0, 10).to_pydict()
    return aligned, Drift(
        shared=len(both),
        added=len(new) - len(both),
        removed=len(old) - len(both),
        moved=int((cosine < limit).sum()),
        limit=limit,
        quantiles={str(q): float(np.quantile(cosine, q)) for q in QUANTILES},
        most=list(zip(most["id"], most["cosine"], strict=True)),
    )


def cosines(new: Embeddings, old: Embeddings) -> pa.Table:
    """Return ``id`` and ``cosine`` of the nodes in both, the one that moved most first; vectors have common axes."""
    both = new.ids.filter(pc.is_in(new.ids, value_set=old.ids))
    a, b = new[both], old[both]
    one, other = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    inner = np.einsum("nd,nd->n", a, b, dtype=np.float64)
    cosine = inner / np.maximum(one * other, np.finfo(np.float32).tiny)  # 0 if one is zero
    cosine[(one == 0) & (other == 0)] = 1
    order = np.argsort(cosine, kind="stable")
    return pa.table({"id": both.take(pa.array(order)), "cosine": cosine[order]})
