"""Splits of the labelled nodes into train, validation and test: random or published, and stored with a run.

A file of splits is ``parts``, an int8 array of shape ``(splits, N)``: 0 train, 1 validation, 2 test, −1 in no part; a
node cannot be in two parts of it. ``origin`` describes where the splits come from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dssl.data.published_splits import published_splits
from dssl.errors import DatasetError, ProbeError, RunError
from dssl.graph import Graph
from dssl.graph.duplicates import duplicate_groups
from dssl.rng import stream
from dssl.runtime import files

RANDOM, BALANCED, ONE_PER_GROUP = "random", "balanced", "one-per-group"
DRAWN = {RANDOM: "random", BALANCED: "class-balanced", ONE_PER_GROUP: "random (one node per group of duplicates)"}
SHARES = (0.6, 0.2, 0.2)


class Split(NamedTuple):
    """Positions of the nodes of each part, int64, ascending, without overlap."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Budget:
    """Number of labels that train the probe.

    Args:
        per_class: nodes per class, or none.
        fraction: fraction of the labelled nodes, or none.

    >>> Budget.parse("20/class"), Budget.parse("1%")
    (Budget(per_class=20, fraction=None), Budget(per_class=None, fraction=0.01))
    """

    per_class: int | None = None
    fraction: float | None = None

    @property
    def label(self) -> str:
        """The budget as it is written; empty for none."""
        if self.per_class:
            return f"{self.per_class}/class"
        return f"{100 * self.fraction:g}%" if self.fraction else ""

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``20/class`` or ``1%``; an empty text sets none."""
        if not text:
            return cls()
        if found := re.fullmatch(r"([1-9]\d*)/class", text):
            return cls(per_class=int(found[1]))
        found = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
        if not found or not 0 < float(found[1]) < 100:
            raise ProbeError(
                f"the label budget {text!r} is neither a number per class (20/class) nor a percentage (1%)"
            )
        return cls(fraction=float(found[1]) / 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How splits are made.

    Args:
        name: ``random``; ``balanced``, the same number of training nodes per class; ``one-per-group``, random splits
            of one node per group with the same links and label; or a kind of published splits: ``geom-gcn``,
            ``linkx``, ``heterophilous`` or ``public``.
        source: the graph's name, for published ones.
        count: number of random splits; published ones are all taken.
        shares: fractions of train, validation and test in random splits.
        seed: of random splits.
        labels: number of training labels in random splits, ``20/class`` or ``1%``, in place of the first fraction.
    """

    name: str
    source: str
    count: int
    shares: tuple[float, float, float]
    seed: int
    labels: str = ""

    @property
    def origin(self) -> str:
        """Where the splits come from; the same words stand for the same splits of a graph.

        >>> Protocol(name="random", source="", count=10, shares=(0.6, 0.2, 0.2), seed=0).origin
        '10 random splits, 60/20/20, seed 0'
        >>> Protocol(name="balanced", source="", count=1, shares=(0.6, 0.2, 0.2), seed=0, labels="20/class").origin
        '1 class-balanced splits, 20/class, 20% validation, seed 0'
        """
        if self.name not in DRAWN:
            return f"{self.name} splits as published"
        sizes = "/".join(f"{100 * share:g}" for share in self.shares)
        sizes = f"{self.labels}, {100 * self.shares[1]:g}% validation" if self.labels else sizes
        return f"{self.count} {DRAWN[self.name]} splits, {sizes}, seed {self.seed}"

    def splits(self, graph: Graph) -> list[Split]:
        """Make the splits of the labelled nodes of a graph, as it was read, and check them."""
        assert graph.y is not None, "labelled graphs only"
        if self.name not in DRAWN:
            if self.labels:
                raise ProbeError(f"labels={self.labels} applies to random splits; the {self.name} splits are published")
            found = published(self.source, self.name)
        else:
            y = one_per_group(graph, seed=self.seed) if self.name == ONE_PER_GROUP else graph.y
            found = random_splits(
                y,
                count=self.count,
                shares=self.shares,
                seed=self.seed,
                budget=Budget.parse(self.labels),
                balanced=self.name == BALANCED,
            )
        check_splits(found, graph.y)
        return found


def random_splits(
    y: ArrayLike,
    *,
    count: int = 10,
    shares: tuple[float, float, float] = SHARES,
    seed: int = 0,
    budget: Budget | None = None,
    balanced: bool = False,
) -> list[Split]:
    """Draw random splits of the labelled nodes, by default not stratified, as in the paper.

    Args:
        y: class of each node, −1 where unknown, shape ``(N,)``.
        count: number of splits.
        shares: fractions of train, validation and test, which add up to 1.
        seed: split i depends on the seed, i and the number of labelled nodes only (with a number of nodes per class
            also on the labels).
        budget: number of training nodes, in place of the first fraction; the test part has the rest. A class gives
            half of its nodes at most, so that every class is tested.
        balanced: the same number of training nodes per class, as in the code of GPRGNN and BernNet: their total is the
            first fraction, or the budget. A class with fewer nodes gives all of them, and is not tested.

    >>> [part.tolist() for part in random_splits([0, 1, -1, 1, 0, 1], count=1)[0]]
    [[3, 4, 5], [0], [1]]
    """
    if min(shares) <= 0 or not math.isclose(sum(shares), 1):
        raise ProbeError(
            f"the fractions of train, validation and test are {shares}; give three positive ones that sum to 1"
        )
    if count < 1:
        raise ProbeError(f"the number of splits is {count}; give at least 1")
    labels, budget = np.asarray(y), budget or Budget()
    labelled = np.flatnonzero(labels >= 0)
    n, classes = labelled.size, np.unique(labels[labels >= 0])
    train, val = round((budget.fraction or shares[0]) * n), round(shares[1] * n)
    per_class = budget.per_class or (max(round(train / max(classes.size, 1)), 1) if balanced else None)
    found = []
    for i in range(count):
        draw = stream(seed, "splits", i)
        order = draw.permutation(labelled)
        if per_class is not None:
            chosen = _per_class(order, labels, classes, per_class, whole=balanced)
            # The first nodes without the chosen ones are mostly of large classes: the others are drawn again.
            others = draw.permutation(np.setdiff1d(labelled, chosen))
            order, train = np.concatenate([chosen, others]), chosen.size
        if min(train, val, n - train - val) < 1:
            raise ProbeError(
                f"{n} labelled nodes are too few for a split into {budget.label or shares}; "
                "label more, or leave the probe out"
            )
        found.append(Split(*map(np.sort, np.split(order, [train, train + val]))))
    return found


def _per_class(
    order: NDArray[np.int64], labels: NDArray[np.int64], classes: NDArray[np.int64], per_class: int, *, whole: bool
) -> NDArray[np.int64]:
    """The first nodes of each class in an order, so many; all of a smaller class, or half of it."""
    first = []
    for label in classes:
        own = order[labels[order] == label]
        first.append(own[: min(per_class, own.size if whole else own.size // 2)])
    return np.concatenate(first)


def one_per_group(graph: Graph, *, seed: int) -> NDArray[np.int64]:
    """Labels with one node per group of nodes with the same links and label, drawn at random; −1 for the others."""
    assert graph.y is not None
    order = stream(seed, "one per group").permutation(np.flatnonzero(graph.y >= 0))
    keys = np.stack([duplicate_groups(graph)[order], graph.y[order]], axis=1)
    kept = order[np.unique(keys, axis=0, return_index=True)[1]]
    found = np.full_like(graph.y, -1)
    found[kept] = graph.y[kept]
    return found


def check_splits(splits: Sequence[Split], y: ArrayLike, *, tested: bool = True) -> None:
    """Refuse splits that share nodes between parts, have an empty part, or hold nodes without a label.

    Labelled nodes in no part are allowed, since published splits have them: Cora's of Geom-GCN and two of CiteSeer's
    cover the largest component only, and the public ones of Planetoid about a half of the nodes or less.

    Args:
        splits: positions of nodes.
        y: class of each node, −1 where unknown, shape ``(N,)``.
        tested: whether the test part must have nodes.
    """
    labels = np.asarray(y)
    for at, split in enumerate(splits):
        nodes = np.concatenate(split)
        if not all(part.size for part in (split if tested else split[:2])):
            raise ProbeError(f"split {at} has an empty part; train, validation and test need a node each")
        if nodes.min() < 0 or nodes.max() >= labels.size:
            raise ProbeError(f"split {at} holds a node that a graph of {labels.size} nodes does not have")
        if np.unique(nodes).size != nodes.size:
            raise ProbeError(f"split {at} has a node twice; train, validation and test must not overlap")
        if (labels[nodes] < 0).any():
            raise ProbeError(f"split {at} holds a node without a label; split the labelled nodes only")


def published(source: str, name: str) -> list[Split]:
    """Return the published splits of a data set; an error lists those that exist.

    Args:
        source: name of the data set.
        name: kind of splits, see `dssl.data.published_splits`.
    """
    try:
        found = published_splits(source)
    except DatasetError:
        raise DatasetError(
            f"graph {source!r} is not a published data set, so it has no {name} splits; use the protocol random"
        ) from None
    if name not in found:
        others = " or ".join([*found, RANDOM])
        raise DatasetError(f"no {name} splits of {source!r} are on this machine; use the protocol {others}")
    return [Split(*(np.sort(part) for part in split)) for split in found[name]]


def kept(path: Path, graph: Graph, protocol: Protocol) -> list[Split]:
    """Return the splits in a file if they are the protocol's; if not, make them and write the file."""
    assert graph.y is not None
    if path.exists():
        splits, origin = load(path, graph.y)
        if origin == protocol.origin:
            return splits
    splits = protocol.splits(graph)
    save(path, splits, num_nodes=graph.num_nodes, origin=protocol.origin)
    return splits


def summary(splits: Sequence[Split], y: ArrayLike, protocol: Protocol) -> dict[str, Any]:
    """Describe splits for ``evaluation.json``: sizes of the parts, and labelled nodes in no part, of each split."""
    labelled = int((np.asarray(y) >= 0).sum())
    sizes = [[int(part.size) for part in split] for split in splits]
    return {
        "protocol": protocol.name,
        "origin": protocol.origin,
        "count": len(splits),
        "labelled": labelled,
        "sizes": sizes,
        "left_out": [labelled - sum(parts) for parts in sizes],
    }


def save(path: Path, splits: Sequence[Split], *, num_nodes: int, origin: str) -> None:
    """Write splits in one step."""
    parts = np.full((len(splits), num_nodes), -1, dtype=np.int8)
    for row, split in zip(parts, splits, strict=True):
        for number, nodes in enumerate(split):
            row[nodes] = number
    with files.replacing(path) as temporary:
        np.savez_compressed(temporary, parts=parts, origin=np.array(origin))


def load(path: Path, y: ArrayLike) -> tuple[list[Split], str]:
    """Read splits and their origin, checked against the labels ``y``, shape ``(N,)``; a damaged file is one line."""
    labels = np.asarray(y)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            parts, origin = content["parts"], str(content["origin"])
    except Exception:  # a damaged archive raises almost anything
        raise RunError(f"{path} is damaged: no splits of nodes; delete it, and evaluate again") from None
    if parts.dtype != np.int8 or parts.ndim != 2 or parts.shape[1] != labels.size:
        raise RunError(f"{path} does not hold splits of {labels.size} nodes; delete it, and evaluate again")
    splits = [Split(*(np.flatnonzero(row == number) for number in range(3))) for row in parts]
    try:
        check_splits(splits, labels)
    except ProbeError as error:
        raise RunError(f"{path}: {error}; delete the file, and evaluate again") from None
    return splits, origin
