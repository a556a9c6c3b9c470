"""Principal components with stored axes: columns in order of importance, exact in width, the same for new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.graph import svd
from dssl.runtime import out_of_core

Floats = NDArray[np.float32]
NOT_NOISE = 0.1  # least factor of a component that is denoised
SMALLEST = 1e-3  # variance of a direction that is kept when all get the same, relative to the largest


@dataclass(frozen=True, slots=True, eq=False)
class Principal:
    """Mean and axes of some rows.

    Args:
        mean: mean row, float32, shape ``(F,)``.
        axes: axes by decreasing variance, scaled so that the components have a total variance of 1, float32, shape
            ``(F, dim)``; columns of zeros where the rows have fewer directions.
    """

    mean: Floats
    axes: Floats

    @classmethod
    def fit(
        cls,
        rows: Floats,
        dim: int,
        *,
        equal: bool = False,
        power: float = 1.0,
        scale: NDArray[np.float64] | None = None,
        denoise: bool = False,
    ) -> Principal:
        """Find the axes of rows of shape ``(N, F)``.

        Args:
            rows: rows, centred here.
            dim: number of components.
            equal: whether columns are standardised first and all components have the same variance (whitening);
                directions with less than a thousandth of the largest variance are left out.
            power: of the standard deviations of the components: above 1 they decay faster.
            scale: number that each column is multiplied by first, shape ``(F,)``.
            denoise: whether each component is multiplied by the fraction of its variance λ that is not noise,
                max(1 − m/λ, 0.1), where m is the median of the positive variances of all F components.

        >>> fitted = Principal.fit(np.array([[3, 0, 1], [-3, 0, 1]], np.float32), 2)
        >>> fitted.apply(np.array([[3, 0, 1], [-3, 0, 1]], np.float32)).tolist()
        [[1.0, 0.0], [-1.0, 0.0]]
        """
        mean = means(rows)
        products = out_of_core.added(lambda block: _squared(block - mean), rows, at_once=1 << 21)
        products /= len(rows)
        deviation = np.sqrt(np.diag(products))
        scale = np.ones(len(products)) if scale is None else scale
        if equal:
            scale = np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9)
        values, vectors = np.linalg.eigh(products * scale * scale[:, None])
        noise = middle(values) if denoise else 0.0
        order = np.argsort(-values, kind="stable")[:dim]
        values, vectors = values[order], vectors[:, order]
        kept = values > (SMALLEST if equal else 1e-9) * max(float(values.max(initial=0)), 1e-30)
        known = np.where(kept, values, 1)
        wanted = kept * known ** (0 if equal else power)  # variances, up to a factor
        wanted *= np.maximum(1 - noise / known, NOT_NOISE) ** 2
        axes = np.zeros((rows.shape[1], dim))
        axes[:, : len(kept)] = scale[:, None] * vectors * np.sqrt(wanted / known / max(float(wanted.sum()), 1e-30))
        axes *= svd.signs(axes)
        return cls(mean.astype(np.float32), axes.astype(np.float32))

    def apply(self, rows: Floats) -> Floats:
        """Return the components of rows of shape ``(N, F)``, shape ``(N, dim)``."""
        return out_of_core.mapped(self.of_block, rows)

    def of_block(self, rows: Floats) -> Floats:
        """Return the components of rows that are in memory."""
        return np.asarray((rows - self.mean) @ self.axes, np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return mean and axes for a file of arrays."""
        return {"mean": self.mean, "axes": self.axes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Principal:
        """Rebuild the components from the result of `arrays`."""
        return cls(arrays["mean"], arrays["axes"])


def middle(variances: NDArray[np.float64]) -> float:
    """The median of the positive variances of principal components: that of the noise if most of them are noise."""
    positive = variances[variances > 1e-9 * max(float(variances.max(initial=0)), 1e-30)]
    return float(np.median(positive)) if positive.size else 0.0


def means(rows: Floats) -> NDArray[np.float64]:
    """Mean of each column, by blocks of rows."""
    return out_of_core.added(lambda block: block.sum(axis=0, dtype=np.float64), rows) / len(rows)


def moments(rows: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of each column, by blocks of rows."""
    mean = means(rows)
    return mean, out_of_core.added(lambda block: np.square(block - mean).sum(axis=0), rows) / len(rows)


def _squared(block: NDArray[np.float64]) -> NDArray[np.float64]:
    return block.T @ block
