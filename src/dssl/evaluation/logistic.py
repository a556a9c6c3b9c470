r"""Many multinomial logistic regressions on the same rows, solved together.

Problem b has its own training rows and strength :math:`C_b` and minimises what scikit-learn's ``LogisticRegression``
minimises, divided by the number of its training rows :math:`n_b`:

.. math:: F_b(W) = \frac{1}{n_b} \sum_{i \in \text{train}_b} -\log p(y_i | x_i, W) + \frac{1}{2 C_b n_b} \|W\|^2

with an intercept that is not regularised, and with half of C where only two classes occur in the training rows, since
one weight vector of the binary model is worth two of the softmax.

* The rows are shared: one product ``X @ [W_1 … W_B]`` serves all problems, and a problem's rows are a 0/1 mask.
* The rows are rotated to the principal axes of the training rows, and again for each strength, with the rows weighted
  by p (1 − p). A rotation changes neither the optimum nor the norm, and it makes a diagonal preconditioner good: L-BFGS
  then needs tens of evaluations where the raw columns need hundreds. Few training rows have few axes.
* Convergence is relative: to the loss, which is near 0 where the classes are separable and C is large, and to the first
  step from zero weights, which lowers the loss little where the columns are small or C is.
* Each evaluation either accepts a problem's step or halves it, so that no problem waits for the line search of
  another, and problems that have converged leave the product.
* It runs on one thread (`dssl.runtime.processes.one_thread`): the passes are short, and on cores that others use too,
  waiting for the slower thread in each of them made the solver ten times slower. Independent solves run in parallel
  instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray

MEMORY = 10  # pairs of steps and gradient changes that L-BFGS keeps
BLOCK = 1 << 19  # logits held at once: they stay in the cache between the passes of the softmax
ROUNDING = 1e-13  # decrease of F that float32 logits cannot resolve: differences of logits of about 1e-7
ABSENT = -1e4  # intercept of a class without training rows: its probability is exactly 0, and so is its gradient


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows in their principal axes, with a column of ones for the intercept.

    Args:
        x: rotated rows, float32, shape ``(n, r+1)``.
        axes: the axes, orthonormal columns, float64, shape ``(d, r)``.
    """

    x: torch.Tensor
    axes: torch.Tensor


def principal_rows(centred: NDArray[np.float32], used: NDArray[np.int64] | None = None) -> Rows:
    """Rotate centred rows to principal axes; axes without variance are dropped.

    Args:
        centred: the rows, shape ``(n, d)``.
        used: the rows whose axes they are, at most the r that these span; by default all.
    """
    rows = torch.from_numpy(centred)
    values, axes = _axes(rows if used is None else rows[used])
    keep = values > 1e-10 * values.max().clamp_min(1e-30)
    axes = axes[:, keep]
    x = torch.ones(len(rows), axes.shape[1] + 1)
    x[:, :-1] = rows @ axes.float()
    return Rows(x, axes)


def _axes(rows: torch.Tensor, row_weights: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean squares along the principal axes of rows ``(n, d)``, largest first, and the axes, float64, ``(d, d)``."""
    n, d = rows.shape
    share = torch.full((n,), 1 / n) if row_weights is None else row_weights
    covariance = torch.zeros(d, d, dtype=torch.float64)
    for block, part in zip(torch.split(rows, 8192), torch.split(share, 8192), strict=True):
        wide = block.double()  # since small variances matter when the columns differ in scale
        covariance.addmm_((part[:, None] * wide).T, wide)
    values, axes = torch.linalg.eigh(covariance)
    return values.flip(0), axes.flip(1)


def fit_path(
    rows: Rows,
    y: torch.Tensor,
    masks: torch.Tensor,
    strengths: Sequence[float],
    *,
    num_classes: int,
    tolerance: float = 1e-6,
    max_evaluations: int = 2000,
) -> torch.Tensor:
    """Solve one problem for each mask and strength.

    The masks go together; the strengths follow one another upwards, each from where the one before ended.

    Args:
        rows: the shared rows, n of them.
        y: class of each row, int64, shape ``(n,)``.
        masks: 1 where a row is in a training part, float32, shape ``(n, B)``.
        strengths: values of C, as in scikit-learn, ascending.
        num_classes: number of classes K.
        tolerance: stop a problem once the decrease of F that its gradient promises falls below this fraction of F, and
            of the decrease that was promised at zero weights.
        max_evaluations: stop after so many evaluations for each strength.

    Returns:
        Weights, with the intercept in the last row, shape ``(r+1, K, B, strengths)``.
    """
    size = masks.sum(0)
    share = torch.zeros(num_classes, masks.shape[1]).index_add_(0, y, masks) / size  # (K, B)
    halved = torch.where((share > 0).sum(0) == 2, 0.5, 1.0)
    weights = torch.zeros(rows.x.shape[1], num_classes, masks.shape[1])
    weights[-1] = torch.where(share > 0, share.log(), ABSENT)
    nothing = weights  # zero weights are the same in all axes
    regularised = torch.ones(rows.x.shape[1], 1, 1)
    regularised[-1] = 0
    x, row_weights = rows.x, masks / size
    path, axes = [], torch.eye(x.shape[1])
    for strength in strengths:
        turn = _turn(x, weights, row_weights)
        x, axes, weights = x @ turn, axes @ turn, _rotated(turn.T, weights)
        penalty = regularised / (strength * halved * size)
        first = _State.start(_Problem.at(nothing, x, y, row_weights, penalty), nothing).decrement
        problem = _Problem.at(weights, x, y, row_weights, penalty)
        weights = _minimise(problem, weights, tolerance, first, max_evaluations)
        path.append(_rotated(axes, weights))
    return torch.stack(path, dim=3)


def _turn(x: torch.Tensor, weights: torch.Tensor, row_weights: torch.Tensor) -> torch.Tensor:
    """The rotation to the principal axes of the Hessian, its mean over problems and classes, shape ``(r+1, r+1)``."""
    certain = torch.zeros(len(x))
    step = max(64, BLOCK // weights[0].numel())
    for at in range(0, len(x), step):
        p = logits(x[at : at + step], weights).softmax(1)
        certain[at : at + step] = (row_weights[at : at + step, None] * p * (1 - p)).sum((1, 2))
    turn = torch.eye(x.shape[1])
    turn[:-1, :-1] = _axes(x[:, :-1], certain)[1]
    return turn


def _rotated(turn: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (turn @ weights.flatten(1)).view_as(weights)


def logits(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Scores of the classes for rows ``(n, r+1)`` and weights ``(r+1, K, B)``, shape ``(n, K, B)``."""
    return (x @ weights.flatten(1)).view(-1, *weights.shape[1:])


def _minimise(
    problem: _Problem, weights: torch.Tensor, tolerance: float, first: torch.Tensor, max_evaluations: int
) -> torch.Tensor:
    result = weights.clone()
    active = torch.arange(weights.shape[2])
    state = _State.start(problem, weights)
    for _ in range(max_evaluations):
        done = state.decrement <= (tolerance * torch.minimum(first, state.loss)).clamp_min(ROUNDING)
        if done.any():
            result[:, :, active[done]] = state.weights[:, :, done]
            active, first, state, problem = active[~done], first[~done], state.select(~done), problem.select(~done)
        if not active.numel():
            return result
        state = state.advance(problem)
    result[:, :, active] = state.weights
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The active problems: rows, classes, weights of rows ``(n, B)``, penalty, preconditioner."""

    x: torch.Tensor
    y: torch.Tensor
    row_weights: torch.Tensor
    penalty: torch.Tensor  # (r+1, 1, B)
    inverse: torch.Tensor  # (r+1, K, B)

    @classmethod
    def at(
        cls, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, row_weights: torch.Tensor, penalty: torch.Tensor
    ) -> _Problem:
        """Problems with the diagonal of the Hessian at ``weights`` as preconditioner."""
        curvature = penalty + torch.zeros_like(weights)
        step = max(64, BLOCK // weights[0].numel())
        for part, w in zip(torch.split(x, step), torch.split(row_weights, step), strict=True):
            p = logits(part, weights).softmax(1)
            p *= w[:, None] * (1 - p)
            curvature.flatten(1).addmm_(part.square().T, p.flatten(1))
        # Where all probabilities are near 0 or 1 the curvature vanishes, but not a step away.
        curvature += 1e-3 * x.square().mean(0)[:, None, None]
        return cls(x, y, row_weights, penalty, 1 / curvature)

    def select(self, keep: torch.Tensor) -> _Problem:
        return _Problem(
            self.x, self.y, self.row_weights[:, keep], self.penalty[..., keep], self.inverse[..., keep].contiguous()
        )

    def evaluate(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """F of each problem, float64, shape ``(B,)``, and its gradient, shape ``(r+1, K, B)``."""
        classes, count = weights.shape[1:]
        gradient = self.penalty * weights
        loss = 0.5 * _dot(gradient, weights)
        flat = gradient.flatten(1)
        step = max(64, BLOCK // (classes * count))
        for start in range(0, self.x.shape[0], step):
            x, w = self.x[start : start + step], self.row_weights[start : start + step]
            z = logits(x, weights)
            z -= z.amax(1, keepdim=True)
            own = torch.arange(z.shape[0]) * classes + self.y[start : start + step]
            right = z.flatten(0, 1)[own]  # (n, B)
            z.exp_()
            total = z.sum(1)
            loss += (w * (total.log() - right)).sum(0, dtype=torch.float64)
            z *= (w / total)[:, None]
            z.flatten(0, 1).index_add_(0, own, w, alpha=-1)
            flat.addmm_(x.T, z.flatten(1))
        return loss, gradient


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Where L-BFGS stands in each active problem; every tensor has the problems last."""

    weights: torch.Tensor
    loss: torch.Tensor
    gradient: torch.Tensor
    direction: torch.Tensor
    slope: torch.Tensor  # gradient · direction
    length: torch.Tensor  # next step along the direction
    decrement: torch.Tensor
    scale: torch.Tensor
    memory: tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], ...]  # steps s, gradient changes y, 1 / s·y or 0

    @classmethod
    def start(cls, problem: _Problem, weights: torch.Tensor) -> _State:
        loss, gradient = problem.evaluate(weights)
        count = weights.shape[2]
        return cls._with_direction(problem, weights, loss, gradient, torch.ones(count), ())

    @classmethod
    def _with_direction(
        cls,
        problem: _Problem,
        weights: torch.Tensor,
        loss: torch.Tensor,
        gradient: torch.Tensor,
        scale: torch.Tensor,
        memory: tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], ...],
    ) -> _State:
        direction = -_two_loops(problem.inverse * scale, gradient, memory)
        slope = _dot(gradient, direction)
        return cls(weights, loss, gradient, direction, slope, torch.ones_like(scale), -0.5 * slope, scale, memory)

    def select(self, keep: torch.Tensor) -> _State:
        kept = {field.name: getattr(self, field.name)[..., keep] for field in fields(self) if field.name != "memory"}
        kept["weights"] = kept["weights"].contiguous()
        return _State(**kept, memory=tuple((s[..., keep], y[..., keep], rho[keep]) for s, y, rho in self.memory))

    def advance(self, problem: _Problem) -> _State:
        """Evaluate every problem one step on; take the steps that decrease F enough, shorten the others."""
        weights = self.weights + self.length * self.direction
        loss, gradient = problem.evaluate(weights)
        noise = 1e-7 * self.loss.clamp_min(1)  # of float32: near the optimum a good step may seem to raise F
        accepted = loss <= self.loss + 1e-4 * self.length * self.slope + noise
        s = torch.where(accepted, weights - self.weights, 0)
        y = torch.where(accepted, gradient - self.gradient, 0)
        curvature = _dot(s, y)
        changed = _dot(problem.inverse * y, y)
        useful = curvature > 1e-9 * changed  # a product below that is rounding
        rho = torch.where(useful, 1 / curvature, 0).float()
        scale = torch.where(useful, curvature / changed, self.scale).float()
        memory = (*self.memory, (s, y, rho))[-MEMORY:]
        taken = self._with_direction(
            problem,
            torch.where(accepted, weights, self.weights),
            torch.where(accepted, loss, self.loss),
            torch.where(accepted, gradient, self.gradient),
            scale,
            memory,
        )
        return taken.but_keep(self, ~accepted)

    def but_keep(self, before: _State, rejected: torch.Tensor) -> _State:
        """Where the step was rejected: the direction of before, at half the length."""
        if not rejected.any():
            return self
        length = torch.where(rejected, 0.5 * before.length, self.length)
        exhausted = rejected & (length < 1e-6)  # float32 cannot separate points so close: call it converged
        return replace(
            self,
            direction=torch.where(rejected, before.direction, self.direction),
            slope=torch.where(rejected, before.slope, self.slope),
            length=length,
            decrement=torch.where(exhausted, 0.0, torch.where(rejected, before.decrement, self.decrement)),
        )


def _two_loops(
    inverse: torch.Tensor, gradient: torch.Tensor, memory: tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], ...]
) -> torch.Tensor:
    """The L-BFGS estimate of the inverse Hessian times the gradient, shape ``(r+1, K, B)``."""
    q = gradient.clone()
    factors = []
    for s, y, rho in reversed(memory):
        factor = rho * _dot(s, q).float()
        q.addcmul_(factor, y, value=-1)
        factors.append(factor)
    q *= inverse
    for (s, y, rho), factor in zip(memory, reversed(factors), strict=True):
        q.addcmul_(factor - rho * _dot(y, q).float(), s)
    return q


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum((0, 1), dtype=torch.float64)
