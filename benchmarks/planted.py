"""Do the posteriors find the reasons of links? Agreement with planted reasons, beside k-means on the pairs.

    python benchmarks/planted.py [--graphs plain shared sum] [--seeds 5] [--out results/planted.md]

Adjusted mutual information of the most probable factor of each link with its true reason: 0 by chance, 1 perfect.
K-means is on the concatenated features [x_i, x_j] of the linked pairs, with as many clusters as DSSL has factors. Three
graphs, whose reasons are visible in the pair of end nodes: *plain* (a reason for each of four pairs of kinds), *shared*
(a reason for each unordered pair of three kinds: one end alone does not tell) and *sum* (the reason is the sum of two
kinds modulo four, which no cluster of pairs is: sixteen clusters, four to a reason).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.methods.test_planted import plain_reasons

from dssl import DSSL
from dssl.data.synthetic import planted_factors, planted_pairs
from dssl.graph import Graph
from dssl.runtime import files

GRAPHS: dict[str, tuple[Callable[[int], tuple[Graph, np.ndarray]], tuple[int, ...]]] = {
    "plain": (plain_reasons, (4, 8)),
    "shared": (lambda seed: planted_pairs(seed=seed), (6, 9)),
    "sum": (lambda seed: planted_factors(seed=seed), (4, 16)),
}
VARIANTS = {
    "default": {},
    "weight 1": {"distillation_weight": 1.0},
    "not taught": {"distillation_weight": 0.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/planted.md"))
    options = parser.parse_args()
    lines = [
        "# Do the posteriors find the reasons of links?",
        "",
        f"Adjusted mutual information with planted reasons, mean and range over {options.seeds} seeds; made by",
        "`python benchmarks/planted.py`, which says what the graphs are.",
        "",
        "| graph | reasons | K | k-means on pairs | " + " | ".join(VARIANTS) + " |",
        "| --- " * (4 + len(VARIANTS)) + "|",
    ]
    for name in options.graphs:
        make, numbers = GRAPHS[name]
        for number in numbers:
            found: dict[str, list[float]] = {column: [] for column in ("k-means", *VARIANTS)}
            for seed in range(options.seeds):
                graph, reason = make(seed)
                x = np.asarray(graph.x)
                pairs = np.hstack([x[graph.sources()], x[graph.indices]])
                clusters = KMeans(number, n_init=4, random_state=seed).fit_predict(pairs)
                found["k-means"].append(adjusted_mutual_info_score(reason, clusters))
                for variant, changes in VARIANTS.items():
                    model = DSSL(num_factors=number, features="raw", seed=seed, **changes).fit(graph)
                    factor = model.factors(graph).links.argmax(axis=1)
                    found[variant].append(adjusted_mutual_info_score(reason, factor))
            cells = [f"{np.mean(v):.2f} ({min(v):.2f} to {max(v):.2f})" for v in found.values()]
            lines.append(f"| {name} | {len(np.unique(reason))} | {number} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
