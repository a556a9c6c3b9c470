"""Add a loss of your own: a registered method has the same training loop, batches, run folder and evaluation.

The method predicts the features of a node from the mean vector of its neighbours. It is not a published one.

    python examples/custom_method.py [--epochs 20]
"""

from __future__ import annotations

import argparse
import sys

from torch import Tensor, nn

import dssl
from dssl.config.methods import METHODS
from dssl.config.registry import MethodSection, encoder_traits, setting
from dssl.config.resolve import resolve
from dssl.methods.base import EncoderMethod
from dssl.nn.batches import Batch
from dssl.nn.encoders import Encoder


class NeighbourFeatures(EncoderMethod):
    """Mean squared error between the features of a node and a decoding of its neighbourhood's mean vector.

    Args:
        encoder: the encoder.
        in_dim: number of features.
        weight: weight of the loss.
    """

    augments = False

    def __init__(self, encoder: Encoder, *, in_dim: int, weight: float) -> None:
        super().__init__(encoder)
        self.weight = weight
        self.decoder = nn.Linear(encoder.dim, in_dim)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        count = batch.num_centres
        h = self.vectors(batch)
        predicted = self.decoder(batch.mean @ h)[:count]
        loss = self.weight * (predicted - batch.x[:count]).square().mean()
        return self.note(count, loss, h)


class NeighbourFeaturesSettings(MethodSection):
    """Settings of the method: they become keywords of `dssl.Embedder`."""

    traits = encoder_traits("neighbour-features", f"{__name__}:NeighbourFeatures", "an example")
    weight: float = setting(1.0, "Weight of the loss.", gt=0)


def main() -> None:
    """Register the method, train it, and print the loss of the first and the last epoch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the graph")
    options = parser.parse_args()
    METHODS["neighbour-features"] = NeighbourFeaturesSettings
    graph = dssl.load("synthetic:h=0.8,nodes=300,classes=3,degree=6,features=20,seed=0")
    config = resolve({"method": "neighbour-features", "weight": 2.0, "dim": 16, "epochs": options.epochs, "seed": 0})
    model = dssl.Embedder.from_config(config).fit(graph)
    first, last = model.metrics_[0]["loss"], model.metrics_[-1]["loss"]
    print(f"loss {first:.3f} in the first epoch, {last:.3f} in the last")
    if not last < first:
        sys.exit("the loss did not decrease")


if __name__ == "__main__":
    main()
