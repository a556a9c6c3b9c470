"""Embed customers that arrive after the fit, without training, and find the most similar old ones.

python examples/new_nodes.py [--epochs 40]
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

import dssl


def write_week(folder: Path, week: int, old: int, new: int) -> None:
    """Write the new customers and their contacts; customers of the same group have similar features."""
    random = np.random.default_rng(week)
    group = np.arange(old + new) % 4
    with (folder / f"customers-{week}.csv").open("w", newline="") as file:
        rows = [(f"c{i}", random.normal(group[i], 0.4), random.normal(-group[i], 0.4)) for i in range(old, old + new)]
        csv.writer(file).writerows([("id", "spend", "visits"), *rows])
    contacts: set[tuple[str, str]] = set()
    while len(contacts) < 4 * new:
        a, b = random.integers(old, old + new), random.integers(old + new)
        if a != b and random.random() < (0.9 if group[a] == group[b] else 0.1):
            contacts.add((f"c{a}", f"c{b}"))
    with (folder / f"contacts-{week}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *sorted(contacts)])


def main() -> None:
    """Fit on the customers of week 1, embed those of week 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40, help="passes over the graph")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_week(folder, 1, old=0, new=200)
        write_week(folder, 2, old=200, new=40)
        first = dssl.load(folder / "contacts-1.csv", nodes=folder / "customers-1.csv")
        fitted = dssl.DSSL(num_factors=4, dim=16, epochs=options.epochs, seed=0).fit(first)
        fitted.save(folder / "model")

        model = dssl.load_model(folder / "model")  # a week later
        second = dssl.extend(first, folder / "contacts-2.csv", folder / "customers-2.csv")
    vectors = model.embed(second)
    for new in ("c200", "c201", "c239"):
        similar = vectors.most_similar(new, top=3)
        print(f"{new}: similar to", ", ".join(f"{node} ({cosine:.2f})" for node, cosine in similar))
    groups = [int(str(node)[1:]) % 4 for node, _ in vectors.most_similar("c200", top=10)]
    print(f"fraction of the 10 most similar to c200 in the same group: {np.mean(np.equal(groups, 200 % 4)):.1f}")


if __name__ == "__main__":
    main()
