"""Twitch-DE with labels: how far classifiers get that are trained on the labels, on the splits of Table 1.

    python benchmarks/ceiling.py [--graph twitch-de] [--out results/ceiling.md]

The paper reports 69.81 for a linear probe on vectors that no label was used for. Accuracy in percent on the same ten
random 60/20/20 splits, mean ± standard deviation, of classifiers that use the labels in training:

- *features*: regularised logistic regression on all features;
- *trees*: scikit-learn's gradient-boosted trees on the training-free columns (`blocks`, 256 of each kind);
- *GCN*: the two-layer GCN of 64 columns of the paper, trained end to end with dropout of one half of the hidden
  columns and weight decay, at the epoch with the best validation accuracy;
- *probe*: the linear probe on all training-free columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy, dropout

import dssl
from dssl.evaluation import baselines
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import Split, random_splits
from dssl.graph import Graph
from dssl.graph.adjacency import gcn_matrix
from dssl.runtime import files
from dssl.studies.results_table import markdown_rows

EPOCHS, RATE, DECAY, HIDDEN = 100, 0.01, 5e-4, 64
STRENGTHS = (0.001, 0.01, 0.1)
Labels = NDArray[np.int64]


def features(graph: Graph, y: Labels, split: Split) -> float:
    """Test accuracy of logistic regression, its strength chosen on validation."""
    models = [LogisticRegression(C=c, max_iter=100).fit(graph.x[split.train], y[split.train]) for c in STRENGTHS]
    best = max(models, key=lambda model: model.score(graph.x[split.val], y[split.val]))
    return float(best.score(graph.x[split.test], y[split.test]))


def trees(columns: NDArray[np.float32], y: Labels, split: Split) -> float:
    """Test accuracy of boosted trees, stopped by a part of the training nodes."""
    model = HistGradientBoostingClassifier(early_stopping=True, max_iter=200, learning_rate=0.05, random_state=0)
    return float(model.fit(columns[split.train], y[split.train]).score(columns[split.test], y[split.test]))


def gcn(graph: Graph, y: Labels, split: Split) -> float:
    """Test accuracy of a GCN at the epoch with the best accuracy on validation."""
    torch.manual_seed(0)
    matrix = gcn_matrix(graph.undirected().without_self_loops().adjacency()).tocsr()
    links = torch.sparse_csr_tensor(*map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data)), matrix.shape)
    dense = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    x, labels = torch.from_numpy(np.array(dense, np.float32)), torch.from_numpy(y)
    first, second = torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Linear(HIDDEN, int(y.max()) + 1)
    optimiser = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=RATE, weight_decay=DECAY)

    def scores(training: bool) -> torch.Tensor:
        hidden = dropout((links @ first(x)).relu(), 0.5, training)
        return links @ second(hidden)

    train, val, test = map(torch.from_numpy, split)
    best = (-1.0, 0.0)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        cross_entropy(scores(True)[train], labels[train]).backward()
        optimiser.step()
        with torch.no_grad():
            right = (scores(False).argmax(1) == labels).float()
        best = max(best, (float(right[val].mean()), float(right[test].mean())), key=lambda pair: pair[0])
    return best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="twitch-de")
    parser.add_argument("--out", type=Path, default=Path("results/ceiling.md"))
    options = parser.parse_args()
    graph = dssl.load(options.graph)
    y = np.array(graph.y, np.int64)
    splits = random_splits(y, count=10)
    columns = baselines.baseline("blocks", graph, dim=256)
    rows: dict[str, Callable[[Split], float]] = {
        "logistic regression on all features": lambda split: features(graph, y, split),
        f"boosted trees on {columns.shape[1]:,} training-free columns": lambda split: trees(columns, y, split),
        "two-layer GCN, trained end to end": lambda split: gcn(graph, y, split),
    }
    lines = [[name, _text([measure(split) for split in splits])] for name, measure in rows.items()]
    probe = linear_probe(columns, y, splits).accuracy.values
    lines.append([f"linear probe on the {columns.shape[1]:,} training-free columns", _text(probe)])
    text = [
        f"# {options.graph}: classifiers that are trained on the labels",
        "",
        "Made by `python benchmarks/ceiling.py`, which describes the rows. Test accuracy in percent on the ten random",
        "60/20/20 splits of Table 1, mean ± standard deviation. A linear probe on the paper's vectors, made without",
        "labels, has 69.81.",
        "",
        *markdown_rows(["classifier", "accuracy"], lines),
    ]
    files.write_text(options.out, "\n".join(text) + "\n")


def _text(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values):.1f}"


if __name__ == "__main__":
    main()
