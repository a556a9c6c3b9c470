"""Compare methods and training-free baselines on a graph with low homophily.

The command line does the same with more care: `dssl compare GRAPH --seeds 3`.

    python examples/compare_methods.py [--epochs 30]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import dssl


def main() -> None:
    """Print the accuracy of a linear classifier for each representation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the graph, for each method")
    options = parser.parse_args()
    graph = dssl.load("synthetic:h=0.2,nodes=400,classes=3,degree=8,features=20,signal=1,seed=0")
    print(graph)
    assert graph.y is not None
    found = {"features (no training)": np.asarray(graph.x)}
    for method in ("dssl", "dgi", "bgrl", "deepwalk"):
        found[method] = dssl.Embedder(method=method, dim=32, epochs=options.epochs, seed=0).fit_transform(graph)
    for name, vectors in found.items():
        scores = cross_val_score(LogisticRegression(max_iter=2000), vectors, graph.y, cv=5)
        print(f"{name:24} accuracy {scores.mean():.2f} ± {scores.std():.2f}")


if __name__ == "__main__":
    main()
