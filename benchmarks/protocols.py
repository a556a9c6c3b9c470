"""Effect of the evaluation protocol on the same vectors.

    python benchmarks/protocols.py [--out results/protocols.md] [--graphs texas wisconsin chameleon …]

Accuracy in percent of the linear probe of `dssl evaluate`, one training. Each row is one set of vectors, evaluated on
every protocol and label budget; only the splits differ. Published splits are those of Planetoid or Geom-GCN.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import dssl
from dssl.errors import DsslError
from dssl.evaluation import baselines
from dssl.evaluation.probe import linear_probe
from dssl.evaluation.splits import SHARES, Protocol
from dssl.graph import Graph
from dssl.runtime import files
from dssl.studies.results_table import markdown_rows

GRAPHS = ("texas", "wisconsin", "chameleon", "squirrel", "cora", "citeseer")
WIDTH = 64
PROTOCOLS = {
    "random 60/20/20": ("random", ""),
    "balanced": ("balanced", ""),
    "one-per-group": ("one-per-group", ""),
    "geom-gcn 48/32/20": ("geom-gcn", ""),
    "public": ("public", ""),
    "random, 5%": ("random", "5%"),
    "random, 20/class": ("random", "20/class"),
}
Floats = NDArray[np.float32]


def accuracy(x: Floats, graph: Graph, source: str, name: str, labels: str) -> str:
    """Mean accuracy on the splits of a protocol; a dash where the graph has none."""
    count = 10 if graph.num_nodes < 1000 else 5
    try:
        splits = Protocol(name=name, source=source, count=count, shares=SHARES, seed=0, labels=labels).splits(graph)
    except DsslError:
        return "–"
    return f"{100 * linear_probe(x, np.asarray(graph.y), splits).accuracy.mean:.1f}"


def rows(source: str) -> list[list[str]]:
    """The lines of a graph: the default, and smoothed features."""
    graph = dssl.load(source)
    smoothed = baselines.baseline("smoothed", graph, dim=WIDTH)
    assert smoothed is not None
    vectors = {
        "`DSSL()`": np.asarray(dssl.DSSL(dim=WIDTH).fit(graph).embeddings_.values),
        "smoothed features": baselines.narrowed(smoothed, WIDTH),
    }
    return [
        [source, title, *(accuracy(x, graph, source, *protocol) for protocol in PROTOCOLS.values())]
        for title, x in vectors.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/protocols.md"))
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    options = parser.parse_args()
    lines = [
        "# One embedding on several protocols",
        "",
        f"`python benchmarks/protocols.py`, which describes the measurement. {WIDTH} columns, accuracy in percent, one",
        "seed; ten splits of graphs below 1,000 nodes, five of the others.",
        "",
        *markdown_rows(["graph", "vectors", *PROTOCOLS], [row for source in options.graphs for row in rows(source)]),
    ]
    files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
