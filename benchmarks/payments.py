"""A made-up payments graph: customers, merchants and devices, rings of fraudsters, few labels.

    python benchmarks/payments.py FOLDER [--nodes 50_000] [--seed 0]

writes ``transactions.csv`` (source, target, amount, time), ``nodes.csv`` (id, kind, six columns with long tails,
categories, dates and missing values, and ``fraud`` for 5% of the nodes) and ``truth.csv`` (id, fraud).

Everybody has the same habits: a fraction of the transactions goes to popular merchants, a few go to any customer, and
the others stay inside a pool of customers, merchants and devices of the same composition. The pool is a large region,
or a small circle; some of the circles are rings of fraudsters, the others families and clubs. So neither the degree
of a node nor that of its neighbours, nor triangles, tell a fraudster from others, and the columns tell little: the
place in the graph does, together with a few labels. A third of the fraudsters acts alone and cannot be found by their
links.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Integers = NDArray[np.int64]

KINDS = ("customer", "merchant", "device")
FRACTIONS = (0.76, 0.08, 0.16)  # of the nodes, and of the members of each pool
TRANSACTIONS = 4  # per node
FRAUD, LABELLED, ALONE = 0.03, 0.05, 0.35  # fraction of fraudsters, of labelled nodes, and of fraudsters without a ring
CIRCLE, REGIONS = 130, 12  # mean members of a circle, and number of regions
INNOCENT = 1.2  # members of innocent circles for each member of a ring
LOCAL, ANYWHERE = (0.65, 0.95), 0.05  # fraction of local transactions by circle, and of transfers to any customer
BYSTANDERS = 0.35  # fraction of the members of a ring who are no fraudsters
ACTIVITY = 0.6  # spread of the logarithm of activity


@dataclass(frozen=True)
class Payments:
    """The tables.

    Args:
        transactions: source, target, amount, time.
        nodes: id, kind and the other columns; ``fraud`` is missing for 95% of the nodes.
        truth: id and fraud of all nodes.
    """

    transactions: pd.DataFrame
    nodes: pd.DataFrame
    truth: pd.DataFrame

    def write(self, folder: Path) -> None:
        """Write the three tables as CSV."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("transactions", "nodes", "truth"):
            getattr(self, name).to_csv(folder / f"{name}.csv", index=False)


def payments(nodes: int = 50_000, *, seed: int = 0) -> Payments:
    """Make a payments graph.

    Args:
        nodes: number of nodes.
        seed: another seed is another graph.
    """
    draw = np.random.default_rng(seed)
    kind = draw.choice(len(KINDS), size=nodes, p=FRACTIONS)
    pool, ring = _pools(nodes, draw)
    local = np.append(np.full(REGIONS, np.mean(LOCAL)), draw.uniform(*LOCAL, size=int(pool.max()) + 1 - REGIONS))
    fraud = np.isin(pool, ring) & (draw.random(nodes) >= BYSTANDERS)
    alone = draw.choice(np.flatnonzero(~fraud), size=round(FRAUD * nodes) - int(fraud.sum()), replace=False)
    fraud[alone] = True
    source, target = _transactions(kind, pool, local, draw)
    names = np.array(
        [f"{KINDS[part][0].upper()}{number:06d}" for part, number in zip(kind, draw.permutation(nodes), strict=True)]
    )
    start = np.datetime64("2025-01-01T00:00:00")
    moments = start + np.sort(draw.integers(365 * 24 * 3600, size=source.size)).astype("timedelta64[s]")
    edges = {"source": names[source], "target": names[target], "amount": draw.lognormal(3.5, 1.2, source.size).round(2)}
    labelled = draw.random(nodes) < LABELLED
    table = {"id": names, "kind": np.array(KINDS)[kind], **_columns(fraud, draw)}
    shown = pd.Series(fraud.astype(int)).astype("Int64").where(pd.Series(labelled))
    return Payments(
        pd.DataFrame({**edges, "time": moments.astype(str)}),
        pd.DataFrame({**table, "fraud": shown}),
        pd.DataFrame({"id": names, "fraud": fraud.astype(int)}),
    )


def _pools(nodes: int, draw: np.random.Generator) -> tuple[Integers, Integers]:
    """The pool of each node, shape ``(N,)``, and the numbers of the pools that are rings."""
    wanted = (1 - ALONE) * FRAUD * nodes / (1 - BYSTANDERS)
    pool = draw.integers(REGIONS, size=nodes)
    free = draw.permutation(nodes)
    number, taken, rings = REGIONS, 0, []
    inside = {True: 0.0, False: 0.0}  # members of rings, and of innocent circles over INNOCENT
    while min(inside.values()) < wanted - CIRCLE / 2:
        fraudulent = inside[True] <= inside[False]
        size = int(draw.integers(CIRCLE // 2, 3 * CIRCLE // 2))
        pool[free[taken : taken + size]] = number
        inside[fraudulent] += size / (1 if fraudulent else INNOCENT)
        rings += [number] if fraudulent else []
        number, taken = number + 1, taken + size
    return pool, np.array(rings)


def _transactions(
    kind: Integers, pool: Integers, local: NDArray[np.float64], draw: np.random.Generator
) -> tuple[Integers, Integers]:
    """Both ends of each transaction: a customer, and a merchant, device or other customer."""
    activity = draw.lognormal(0, ACTIVITY, kind.size)
    count = TRANSACTIONS * kind.size
    customers = np.flatnonzero(kind == 0)
    source = draw.choice(customers, size=count, p=activity[customers] / activity[customers].sum())
    target = np.empty(count, np.int64)
    near = draw.random(count) < local[pool[source]]
    others = np.flatnonzero(kind > 0)
    for number in range(int(pool.max()) + 1):
        members = others[pool[others] == number]
        at = np.flatnonzero(near & (pool[source] == number))
        members = members if members.size else others
        target[at] = draw.choice(members, size=at.size, p=activity[members] / activity[members].sum())
    merchants = np.flatnonzero(kind == 1)
    popular = 1 / (10 + draw.permutation(merchants.size))  # Zipf, without one that has everybody
    far = np.flatnonzero(~near)
    target[far] = draw.choice(merchants, size=far.size, p=popular / popular.sum())
    any_one = np.flatnonzero(draw.random(count) < ANYWHERE)
    target[any_one] = draw.choice(customers, size=any_one.size)
    kept = source != target
    return source[kept], target[kept]


def _columns(fraud: NDArray[np.bool_], draw: np.random.Generator) -> dict[str, Any]:
    """Columns that say little of fraud."""
    size = fraud.size
    opened = np.datetime64("2015-01-01") + (draw.beta(2, 1, size) * 3600 + 60 * fraud).astype("timedelta64[D]")
    balance = draw.lognormal(6 + 0.4 * fraud, 1.5, size).round(2)
    country = np.array(["DE", "FR", "PL", "NL", "ES", "IT", "US", "GB", "RO", "BG"])
    shares = 1 / np.arange(1, 11)
    where = draw.choice(country, size=size, p=shares / shares.sum())
    age = draw.normal(45, 15, size).clip(18, 95).round()
    age[draw.random(size) < 0.2] = np.nan
    disputes = draw.poisson(0.3 + 0.25 * fraud)
    channel = np.where(
        draw.random(size) < 0.1, None, draw.choice(["web", "app", "shop", "phone"], size=size).astype(object)
    )
    return {
        "opened": opened.astype(str),
        "balance": balance,
        "country": where,
        "age": age,
        "disputes": disputes,
        "channel": channel,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made = payments(options.nodes, seed=options.seed)
    made.write(options.folder)
    print(f"{len(made.nodes):,} nodes, {len(made.transactions):,} transactions, {made.truth.fraud.mean():.1%} fraud")


if __name__ == "__main__":
    main()
