"""Train a loss of your own with the training loop, the encoders and the batches of the package.

The method predicts the features of a node from the mean vector of its neighbours. It is not a published one. To use
such a method by name, on the command line too, put it into a package: docs/methods/adding.md.

    python examples/custom_method.py [--epochs 20]
"""

from __future__ import annotations

import argparse
import sys

import torch
from torch import Tensor, nn

import dssl
from dssl import rng
from dssl.methods.base import EncoderMethod
from dssl.nn import encoders
from dssl.nn.batches import Batch
from dssl.nn.encoders import Encoder
from dssl.train import train


class NeighbourFeatures(EncoderMethod):
    """Mean squared error between the features of a node and a decoding of its neighbourhood's mean vector.

    Args:
        encoder: the encoder.
        in_dim: number of features.
    """

    augments = False

    def __init__(self, encoder: Encoder, *, in_dim: int) -> None:
        super().__init__(encoder)
        self.decoder = nn.Linear(encoder.dim, in_dim)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        count = batch.num_centres
        x = batch.x if isinstance(batch.x, Tensor) else batch.x.dense()
        h = self.vectors(batch)
        predicted = self.decoder(batch.mean @ h)[:count]
        loss = (predicted - x[:count]).square().mean()
        return self.note(count, loss, h)


def main() -> None:
    """Train the method, and print the loss of the first and the last epoch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the graph")
    options = parser.parse_args()
    graph = dssl.load("synthetic:h=0.8,nodes=300,classes=3,degree=6,features=20,seed=0")
    with rng.seeded(0, "weights"):
        encoder = encoders.build(
            "gcn", in_dim=graph.num_features, dim=16, hidden_dim=16, layers=2, dropout=0.0, batch_norm=False
        )
        method = NeighbourFeatures(encoder, in_dim=graph.num_features)
    losses: list[float] = []
    train(
        method,
        graph,
        epochs=options.epochs,
        learning_rate=0.01,
        weight_decay=0.0,
        batch_size=0,  # the whole graph in each step
        fanout=(10, 10),
        seed=0,
        device=torch.device("cpu"),
        on_epoch=lambda _, record: losses.append(record["loss"]),
    )
    print(
        f"{method.embed(graph).shape[0]} vectors; loss {losses[0]:.3f} in the first epoch, {losses[-1]:.3f} in the last"
    )
    if not losses[-1] < losses[0]:
        sys.exit("the loss did not decrease")


if __name__ == "__main__":
    main()
