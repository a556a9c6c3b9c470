"""Train with an encoder of your own: any torch module with `forward(x, edge_index)`.

python examples/custom_encoder.py [--epochs 20]
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from torch import Tensor, nn

import dssl


class Difference(nn.Module):
    """A node and its difference to the mean of its neighbours: suited to graphs where neighbours differ."""

    def __init__(self, in_dim: int, dim: int) -> None:
        super().__init__()
        self.dim = dim  # the length of the vectors
        self.own = nn.Linear(in_dim, dim)
        self.difference = nn.Linear(in_dim, dim, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return one vector per node, shape ``(N, dim)``."""
        source, target = edge_index
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.zeros(len(x), 1).index_add(0, target, torch.ones(len(source), 1))
        difference: Tensor = self.difference(x - total / count.clamp(min=1))
        return torch.relu(self.own(x)) + difference


def main() -> None:
    """Fit, save and load; the folder stores the weights, and the code stays here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the graph")
    options = parser.parse_args()
    graph = dssl.load("synthetic:h=0.2,nodes=300,classes=3,degree=6,features=20,seed=0")
    encoder = Difference(graph.num_features, 16)
    model = dssl.DSSL(encoder=encoder, num_factors=4, epochs=options.epochs, seed=0).fit(graph)
    print(model.embeddings_)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        loaded = dssl.load_model(folder, encoder=encoder)
    print("same vectors after loading:", bool((loaded.transform(graph) == model.transform(graph)).all()))


if __name__ == "__main__":
    main()
