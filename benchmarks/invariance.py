"""Effect of the number of threads and of the order of the nodes: writes results/invariance.md.

Threads: the same training with one and two threads, file by file. Order: nodes in random orders, the same
seed; cosines between the vectors of a node after the best rotation, and the accuracy of the linear probe, beside
trainings with other seeds in the given order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dssl
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import random_splits
from dssl.graph import Graph
from dssl.studies.results_table import markdown_rows

TOP = Path(__file__).parents[1]
GRAPHS = ("texas",)
TRIALS = 2
FILES = ("weights.safetensors", "embeddings.parquet", "factors.parquet", "node_factors.parquet", "metrics.jsonl")


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
            return 100 * linear_probe(values, y, parts).test.mean

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


def thread_rows(folder: Path) -> list[list[str]]:
    rows = []
    for settings in ((), ("--set", "batch_size=64")):
        found = {}
        for threads in (1, 2):
            run = folder / f"{threads}-{len(settings)}"
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "NUMBA_NUM_THREADS": str(threads)}
            line = ["fit", "texas", "--out", str(run), "--epochs", "10", "-q", *settings]
            subprocess.run([sys.executable, "-m", "dssl", *line], check=True, env=environment, stdout=subprocess.PIPE)
            found[threads] = {name: (run / name).read_bytes() for name in FILES}
        kind = "mini-batches" if settings else "full batch"
        rows.append([kind, *("same bytes" if found[1][name] == found[2][name] else "different" for name in FILES)])
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        threads = thread_rows(Path(folder))
    head = ["graph", "changed", "accuracy, %", "least cosine", "mean difference, points", "largest, points"]
    lines = [
        "# Threads and node order",
        "",
        "`python benchmarks/invariance.py` writes this page; DSSL with its defaults.",
    ]
    lines += ["", "## One and two threads, 10 epochs on Texas", "", *markdown_rows(["training", *FILES], threads)]
    lines += ["", "## Other orders of the nodes, and other seeds", ""]
    lines += [f"{TRIALS} of each, compared with the given order and seed 0.", "", *markdown_rows(head, order_rows())]
    (TOP / "results" / "invariance.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
