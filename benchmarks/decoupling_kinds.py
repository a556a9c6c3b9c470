"""Do factors help to rank links of a kind that were held out? Code graphs, factors on and off.

    python benchmarks/decoupling_kinds.py [--graphs python:rich] [--seeds 3] [--out results/decoupling-kinds.md]

Of each kind in turn, 20% of the links are hidden. Two models are trained on the others: DSSL, and DSSL with uniform
posteriors and no shift, so that all links have one reason. Each hidden link is ranked among 50 pairs with the same
source and the target of a random link, so that targets are drawn by degree. Scores: the model's own likelihood (Eq. 1),
the cosine of the vectors, and the cosine of the raw features, which needs no training. Kinds choose the links that are
hidden; training does not use them. Rare kinds have few hidden links: their values vary by several points.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from dssl import DSSL, load
from dssl.graph import Graph
from dssl.runtime import files
from dssl.studies.paper.kinds import without

HIDDEN = 0.2
NEGATIVES = 50  # of each hidden link; with one, rare kinds had fifteen negatives and an AUC of exactly 1
VARIANTS = {"factors": {}, "no factors": {"inference": "uniform", "shift_scale": 0.0}}


def cosines(vectors: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Cosine of the vectors of both ends."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.asarray((unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(axis=1))


def areas(graph: Graph, kind: int, seed: int) -> dict[tuple[str, str], float]:
    """AUC of each variant and score on the hidden links of a kind."""
    assert graph.kinds is not None
    draw = np.random.default_rng(seed)
    arcs = np.flatnonzero(graph.kinds == kind)
    hidden = np.zeros(graph.num_arcs, bool)
    hidden[draw.choice(arcs, max(1, int(HIDDEN * arcs.size)), replace=False)] = True
    fewer = without(graph, hidden)
    start, end = graph.sources()[hidden].astype(np.int64), graph.indices[hidden].astype(np.int64)
    linked = set(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    first = np.repeat(start, NEGATIVES)
    other = draw.choice(graph.indices, first.size).astype(np.int64)
    for row, source in enumerate(first.tolist()):
        while (source, int(other[row])) in linked or source == other[row]:
            other[row] = draw.choice(graph.indices)
    pairs = np.stack([np.concatenate([start, first]), np.concatenate([end, other])], axis=1)
    true = np.repeat([1, 0], [start.size, first.size])
    features = graph.x.toarray() if sparse.issparse(graph.x) else np.asarray(graph.x)
    found = {("raw features", "cosine"): float(roc_auc_score(true, cosines(features, pairs)))}
    for name, settings in VARIANTS.items():
        model = DSSL(seed=seed, **settings).fit(fewer)
        found[name, "likelihood"] = float(roc_auc_score(true, model.link_scores(fewer, pairs)))
        found[name, "cosine"] = float(roc_auc_score(true, cosines(model.transform(fewer), pairs)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=["python:rich"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/decoupling-kinds.md"))
    options = parser.parse_args()
    columns = [(name, score) for score in ("likelihood", "cosine") for name in VARIANTS]
    columns.append(("raw features", "cosine"))
    lines = [
        "# Links of a kind held out: factors on and off",
        "",
        f"AUC in percent, mean and range over {options.seeds} seeds. Made by `benchmarks/decoupling_kinds.py`.",
        "",
        "| graph | kind | hidden | " + " | ".join(f"{score}, {name}" for name, score in columns) + " |",
        "| --- | --- | --: " + "| --: " * len(columns) + "|",
    ]
    for source in options.graphs:
        graph = load(source)
        assert graph.kinds is not None and graph.kind_names is not None
        for kind, name in enumerate(graph.kind_names):
            found = [areas(graph, kind, seed) for seed in range(options.seeds)]
            values = [[100 * each[column] for each in found] for column in columns]
            cells = [f"{np.mean(each):.1f} ({min(each):.1f} to {max(each):.1f})" for each in values]
            number = max(1, int(HIDDEN * (graph.kinds == kind).sum()))
            lines.append(f"| {source} | {name} | {number} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
