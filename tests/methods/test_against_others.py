"""Ours against implementations that nobody here wrote, on Cora, at the same width and length, under the same probe.

pip install '.[others]'; pytest -m slow tests/methods/test_against_others.py --log-cli-level=INFO   # prints the figures
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dssl import rng
from dssl.config.resolve import resolve
from dssl.data.load import load
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import random_splits
from dssl.graph import Graph
from dssl.methods._walks import walks
from dssl.model.estimator import Embedder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # other people's warnings are theirs
NOISE = 1.5  # percent: the deviation of Cora's accuracy over random splits
WALKS = 5  # per node


@pytest.fixture
def cora(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    return load("cora").undirected().without_self_loops()


def compare(graph: Graph, values: Any, package: str, method: str, **settings: Any) -> None:
    """Fit ours, probe both on the same splits, and say what came out."""
    assert graph.y is not None
    splits = random_splits(graph.y, count=5, shares=(0.6, 0.2, 0.2), seed=0)
    model = Embedder.from_config(resolve({"method": method, "seed": 0, **settings})).fit(graph)
    ours, theirs = (
        100 * float(np.mean(linear_probe(np.asarray(each, np.float32), graph.y, splits).accuracy.values))
        for each in (model.embeddings_.values, values)
    )
    logging.getLogger(__name__).info("%s on Cora: ours %.1f, %s %.1f", method, ours, package, theirs)
    assert ours > theirs - NOISE


def tensors(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    assert graph.x is not None
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    links = np.stack([graph.sources(), graph.indices]).astype(np.int64)
    return torch.from_numpy(np.asarray(x, np.float32)), torch.from_numpy(links)


def trained(model: torch.nn.Module, loss: Any, *, epochs: int, learning_rate: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()


def test_dgi_and_pyg_s(cora: Graph) -> None:
    from torch_geometric.nn import DeepGraphInfomax, GCNConv

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.activation = GCNConv(x.shape[1], 64), torch.nn.PReLU(64)

        def forward(self, x: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
            return self.activation(self.convolution(x, links))  # type: ignore[no-any-return]

    x, links = tensors(cora)
    with rng.seeded(0, "pyg"):
        model = DeepGraphInfomax(
            64,
            Layer(),
            summary=lambda z, *_: z.mean(dim=0).sigmoid(),
            corruption=lambda x, links: (x[torch.randperm(len(x))], links),
        )
        trained(model, lambda: model.loss(*model(x, links)), epochs=100, learning_rate=0.005)
        found = model(x, links)[0].detach().numpy()
    compare(cora, found, "PyG", "dgi", layers=1, epochs=100, learning_rate=0.005)


@pytest.mark.parametrize("method", ["gae", "vgae"])
def test_autoencoders_and_pyg_s(cora: Graph, method: str) -> None:
    from torch_geometric.nn import GAE, VGAE, GCNConv

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(x.shape[1], 64)
            self.last = torch.nn.ModuleList([GCNConv(64, 64) for _ in range(2 if method == "vgae" else 1)])

        def forward(self, x: torch.Tensor, links: torch.Tensor) -> Any:
            h = self.first(x, links).relu()
            found = tuple(layer(h, links) for layer in self.last)
            return found if method == "vgae" else found[0]

    x, links = tensors(cora)
    with rng.seeded(0, "pyg"):
        model = VGAE(Encoder()) if method == "vgae" else GAE(Encoder())

        def loss() -> torch.Tensor:
            total = model.recon_loss(model.encode(x, links), links)
            return total + model.kl_loss() / len(x) if method == "vgae" else total

        trained(model, loss, epochs=100, learning_rate=0.01)
        found = model.encode(x, links).detach().numpy()
    compare(cora, found, "PyG", method, layers=2, epochs=100, learning_rate=0.01)


def test_deepwalk_and_gensim_s_skip_gram_on_our_walks(cora: Graph) -> None:
    word2vec = pytest.importorskip("gensim.models", reason="needs gensim: pip install '.[others]'").Word2Vec
    starts = np.tile(np.arange(cora.num_nodes), WALKS)
    sentences = [[str(node) for node in path if node >= 0] for path in walks(cora, starts, 40, 1)]
    model = word2vec(sentences, vector_size=64, window=10, sg=1, negative=5, epochs=1, min_count=0, workers=1, seed=0)
    found = np.stack([model.wv[str(node)] for node in range(cora.num_nodes)])
    compare(cora, found, "gensim", "deepwalk", epochs=WALKS, walk_length=40, window=10, negatives=5)
