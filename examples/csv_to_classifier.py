"""Detect fraud in a payment network: a CSV file, vectors without labels, and a classifier with few labels.

Fraudulent accounts receive money from many honest accounts and rarely pay each other. Neighbours are therefore
different, and methods that average over neighbours have difficulties.

    python examples/csv_to_classifier.py [--epochs 60]
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import dssl


def write_data(folder: Path, accounts: int = 400) -> None:
    """Write payments.csv and accounts.csv: one account in five is fraudulent."""
    random = np.random.default_rng(0)
    fraud = np.arange(accounts) % 5 == 0
    payments: set[tuple[str, str]] = set()
    while len(payments) < 5 * accounts:
        a, b = random.integers(accounts, size=2)
        likely = 0.8 if fraud[a] != fraud[b] else 0.02 if fraud[a] else 0.2
        if a != b and random.random() < likely:
            payments.add((f"acc-{a}", f"acc-{b}"))
    with (folder / "payments.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("from", "to"), *sorted(payments)])
    with (folder / "accounts.csv").open("w", newline="") as file:
        rows = [
            (f"acc-{i}", "fraud" if fraud[i] else "honest", f"{random.gamma(2, 50 + 20 * fraud[i]):.2f}")
            for i in range(accounts)
        ]
        csv.writer(file).writerows([("id", "label", "balance"), *rows])


def main() -> None:
    """Fit, embed, and train a classifier on 50 labelled accounts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60, help="passes over the graph")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        graph = dssl.load(folder / "payments.csv", nodes=folder / "accounts.csv")
        print(graph)
        model = dssl.DSSL(num_factors=4, dim=32, epochs=options.epochs, seed=0).fit(graph)  # uses no label
        model.embeddings_.save(folder / "vectors.parquet")  # id and embedding, for any other tool
        vectors = model.embeddings_.values
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    known, rest = order[:50], order[50:]
    labels = graph.y
    assert labels is not None
    for title, rows in (("embedding", vectors), ("features only", np.asarray(graph.x))):
        classifier = LogisticRegression(max_iter=2000, class_weight="balanced").fit(rows[known], labels[known])
        accuracy = balanced_accuracy_score(labels[rest], classifier.predict(rows[rest]))
        print(f"balanced accuracy with 50 labels, {title}: {accuracy:.2f}")


if __name__ == "__main__":
    main()
