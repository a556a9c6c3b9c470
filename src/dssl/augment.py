"""Views of a batch: pure functions that return a new batch and leave theirs alone.

Chance comes from torch's generator, which the training loop seeds for each epoch. Whether a link is dropped follows
from a hash of its two ends, so that a link without direction goes both ways or not at all.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dssl.loader import Batch
from dssl.operators import Operator


def shuffle_features(batch: Batch) -> Batch:
    """Give each node the features of another: the links stay."""
    return replace(batch, x=_take(batch.x, torch.randperm(batch.x.shape[0])))


def _take(x: Tensor | Operator, order: Tensor) -> Tensor | Operator:
    return x.take_rows(order) if isinstance(x, Operator) else x[order.to(x.device)]
