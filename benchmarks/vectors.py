"""Uses of the vectors of `DSSL()` other than the regularised linear probe.

    python benchmarks/vectors.py [--out results/vectors.md] [--graphs texas wisconsin cora citeseer]

Accuracy in percent, mean over random 60/20/20 splits, one seed:

- *probe*: the linear probe of `dssl evaluate`;
- *plain head*: a linear layer on the vectors as they are, trained by Adam without weight decay, stopped by validation;
- *trees*: scikit-learn's gradient-boosted trees, on the vectors and on each training-free baseline of 64 columns, of
  which the best on validation is shown;
- *first 32*: the probe on the first 32 columns of a vector of 128, next to a training with ``dim=32``;
- *public split*: the probe on the split of Planetoid, for graphs that have it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

import dssl
from dssl.errors import DsslError
from dssl.evaluation import baselines
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import SHARES, Protocol, Split, published
from dssl.graph import Graph
from dssl.runtime import files
from dssl.studies.results_table import markdown_rows

GRAPHS = ("texas", "wisconsin", "cora", "citeseer")
NAMES = ("raw", "row-scaled", "smoothed", "adjacency", "spectral", "hops", "blocks")
STEPS, RATE = 1000, 0.01
Floats = NDArray[np.float32]


def plain_head(x: Floats, y: NDArray[np.int64], splits: Sequence[Split]) -> float:
    """Mean test accuracy of a linear layer at the step with the best accuracy on validation."""
    found = []
    for number, split in enumerate(splits):
        torch.manual_seed(number)
        rows, classes = torch.from_numpy(x), torch.from_numpy(y)
        layer = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
        optimiser, best = torch.optim.Adam(layer.parameters(), lr=RATE), (-1.0, 0.0)
        train, val, test = (torch.from_numpy(part) for part in split)
        for _ in range(STEPS):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(layer(rows[train]), classes[train]).backward()
            optimiser.step()
            right = layer(rows).argmax(1) == classes
            best = max(best, (float(right[val].float().mean()), float(right[test].float().mean())), key=lambda p: p[0])
        found.append(best[1])
    return 100 * float(np.mean(found))


def trees(x: Floats, y: NDArray[np.int64], splits: Sequence[Split]) -> tuple[float, float]:
    """Mean accuracy of boosted trees on validation and test."""
    found = []
    for split in splits:
        model = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)
        model.fit(x[split.train], y[split.train])
        found.append([(model.predict(x[part]) == y[part]).mean() for part in (split.val, split.test)])
    val, test = 100 * np.mean(found, axis=0)
    return float(val), float(test)


def row(source: str) -> list[str]:
    """The figures of one graph."""
    graph = dssl.load(source)
    y = np.array(graph.y, np.int64)
    count = 10 if graph.num_nodes < 1000 else 3
    splits = Protocol(name="random", source=source, count=count, shares=SHARES, seed=0).splits(graph)

    def vectors(dim: int) -> Floats:
        return np.array(dssl.DSSL(dim=dim).fit(graph).embeddings_.values)  # a copy that torch may hold

    def probe(x: Floats, parts: Sequence[Split]) -> float:
        return 100 * linear_probe(x, y, parts).accuracy.mean

    own = vectors(64)
    others = {name: trees(made, y, splits) for name in NAMES if (made := _baseline(name, graph)) is not None}
    best = max(others, key=lambda name: others[name][0])
    try:
        public = f"{probe(own, published(source, 'public')):.1f}"
    except DsslError:
        public = "–"
    figures = [probe(own, splits), plain_head(own, y, splits), trees(own, y, splits)[1], others[best][1]]
    short = [probe(vectors(128)[:, :32], splits), probe(vectors(32), splits)]
    return [source, *(f"{value:.1f}" for value in figures), best, *(f"{value:.1f}" for value in short), public]


def _baseline(name: str, graph: Graph) -> Floats | None:
    found = baselines.baseline(name, graph, dim=64)
    return None if found is None else baselines.narrowed(found, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/vectors.md"))
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    options = parser.parse_args()
    header = [
        "graph",
        "probe",
        "plain head",
        "trees",
        "trees, training-free",
        "baseline",
        "first 32 of 128",
        "`dim=32`",
    ]
    lines = [
        "# Uses of the vectors",
        "",
        "`python benchmarks/vectors.py`, which describes the columns. 64 columns, accuracy in percent, one seed; ten",
        "splits of graphs below 1,000 nodes, three of the others.",
        "",
        *markdown_rows([*header, "public split"], [row(source) for source in options.graphs]),
    ]
    files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
