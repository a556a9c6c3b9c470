"""Choose the length of the vectors for a classifier, by cross-validation over nodes with scikit-learn.

python examples/grid_search.py [--epochs 30]
"""

from __future__ import annotations

import argparse
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

import dssl


class NodeVectors(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node ids to vectors. The model uses the whole graph and no label, so that nodes can be split freely."""

    def __init__(self, graph: dssl.Graph, *, dim: int = 64, epochs: int = 30) -> None:
        self.graph, self.dim, self.epochs = graph, dim, epochs

    def fit(self, ids: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Embed the graph."""
        self.vectors_ = dssl.DSSL(dim=self.dim, epochs=self.epochs, num_factors=4).fit(self.graph).embeddings_
        return self

    def transform(self, ids: Any) -> Any:
        """Return the vectors of some nodes."""
        return self.vectors_[ids]


def main() -> None:
    """Search over a small grid."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="passes over the graph")
    options = parser.parse_args()
    graph = dssl.load("synthetic:h=0.1,nodes=300,classes=3,degree=8,seed=1")
    assert graph.y is not None
    steps = make_pipeline(NodeVectors(graph, epochs=options.epochs), LogisticRegression(max_iter=1000))
    grid = {"nodevectors__dim": [8, 32], "logisticregression__C": [0.1, 10.0]}
    search = GridSearchCV(steps, grid, cv=StratifiedKFold(2, shuffle=True, random_state=0))
    search.fit(np.asarray(graph.ids), graph.y)
    print(f"best settings {search.best_params_}, accuracy {search.best_score_:.2f} over nodes left out")


if __name__ == "__main__":
    main()
