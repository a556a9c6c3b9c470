"""Effect of the number of threads and of the order of the nodes: writes results/invariance.md.

Threads: the same training of each method with one and two threads, file by file. Order: nodes in random orders, the
same seed; cosines between the vectors of a node after the best rotation, and the accuracy of the linear probe, beside
trainings with other seeds in the given order.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dssl
from dssl.config.methods import METHODS
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import random_splits
from dssl.graph import Graph
from dssl.studies.results_table import markdown_rows

TOP = Path(__file__).parents[1]
GRAPHS = ("texas", "cora")
TRIALS = 2
EPOCHS = 3


def permuted(graph: Graph, order: NDArray[np.int64]) -> Graph:
    """The same graph with its nodes in another order."""
    place = np.argsort(order)
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    assert graph.x is not None
    assert graph.y is not None
    return Graph.from_edges(
        place[source],
        place[graph.indices],
        num_nodes=graph.num_nodes,
        directed=graph.directed,
        self_loops="keep",
        x=graph.x[order],
        y=graph.y[order],
        ids=graph.ids.take(order),
        name=graph.name,
    )


def vectors(graph: Graph, seed: int) -> NDArray[np.float32]:
    return dssl.DSSL(seed=seed).fit_transform(graph)


def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Mean cosine between the two vectors of a node, after the rotation that fits best."""
    left, _, right = np.linalg.svd(other.T @ one)
    turned = other @ (left @ right)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(turned, axis=1)
    return float(((one * turned).sum(axis=1) / np.maximum(norms, 1e-12)).mean())


def order_rows() -> list[list[str]]:
    rows = []
    for name in GRAPHS:
        graph = dssl.load(name)
        assert graph.y is not None
        splits = random_splits(graph.y, count=10)
        base = vectors(graph, 0)

        def accuracy(values: NDArray[np.float32], y: Any = graph.y, parts: Any = splits) -> float:
            return 100 * linear_probe(values, y, parts).scores["accuracy"].mean

        first = accuracy(base)
        kinds: dict[str, list[tuple[float, float]]] = {"order": [], "seed": []}
        for trial in range(TRIALS):
            order = np.random.default_rng(trial).permutation(graph.num_nodes)
            moved = np.empty_like(base)
            moved[order] = vectors(permuted(graph, order), 0)
            kinds["order"].append((cosine(base, moved), accuracy(moved) - first))
            other = vectors(graph, trial + 1)
            kinds["seed"].append((cosine(base, other), accuracy(other) - first))
        for kind, found in kinds.items():
            cosines, gains = np.array(found).T
            cells = [f"{cosines.min():.4f}", f"{np.abs(gains).mean():.2f}", f"{np.abs(gains).max():.2f}"]
            rows.append([name, kind, f"{first:.2f}", *cells])
    return rows


def thread_rows() -> list[list[str]]:
    graph = dssl.load("cora")
    trainings: list[tuple[str, dict[str, Any]]] = [(name, {"method": name}) for name in METHODS]
    trainings.insert(1, ("dssl, mini-batches", {"batch_size": 512}))
    rows = []
    for name, settings in trainings:
        one, two = (_results(graph, threads, settings) for threads in (1, 2))
        largest = float(np.abs(one["vectors"] - two["vectors"]).max())
        same = [
            "–" if one[part] is None else "same" if _bytes(one[part]) == _bytes(two[part]) else "other" for part in one
        ]
        rows.append([name, *same, f"{largest:.0e}" if largest else "0"])
    return rows


def _results(graph: Graph, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    model = dssl.Embedder(epochs=EPOCHS, threads=threads, **settings).fit(graph)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        stored = b"".join((Path(folder) / name).read_bytes() for name in ("weights.safetensors", "features.json"))
    factors = model.factors(graph).links if model.config.method.name == "dssl" else None
    return {"weights": stored, "vectors": model.embeddings_.values, "factors": factors, "record": str(model.metrics_)}


def _bytes(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def main() -> None:
    names = ["method", "weights", "vectors", "factors", "record", "largest difference of vectors"]
    head = ["graph", "changed", "accuracy, %", "least cosine", "mean difference, points", "largest, points"]
    lines = ["# Threads and node order", "", "`python benchmarks/invariance.py` writes this page; default settings."]
    lines += ["", "## Threads", "", f"One and two threads, {EPOCHS} epochs on Cora: `same` means the same bytes.", ""]
    lines += markdown_rows(names, thread_rows())
    lines += [
        "",
        "## Order of the nodes",
        "",
        f"DSSL with {TRIALS} other orders, and with {TRIALS} other seeds, compared",
    ]
    lines += ["with the given order and seed 0. Cosines are means over nodes after the best rotation.", ""]
    lines += markdown_rows(head, order_rows())
    (TOP / "results" / "invariance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
