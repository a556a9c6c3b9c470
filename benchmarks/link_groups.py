"""Time and memory of the teacher of the factors: descriptions, mixture and context of a million links.

    python benchmarks/link_groups.py [--links 50000 1000000] [--out results/link_groups.md]

A random directed graph with five links per node and 32 feature columns, K = 8. Graphs with at most 50,000 links
get the consensus of several mixtures, larger ones a single mixture. Memory is the largest growth of the process beyond
the graph.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dssl.graph import Graph
from dssl.graph.link_mixture import LinkGroups
from dssl.runtime import files
from dssl.runtime.environment import peak_memory, version


def measured(links: int) -> tuple[float, float]:
    """Seconds, and growth of the peak of memory in MB."""
    draw = np.random.default_rng(0)
    nodes = links // 5
    x = draw.normal(size=(nodes, 32)).astype(np.float32)
    graph = Graph.from_edges(draw.integers(nodes, size=links), draw.integers(nodes, size=links), x=x, directed=True)
    before, begun = peak_memory(), time.perf_counter()
    LinkGroups(graph, 8)
    return time.perf_counter() - begun, (peak_memory() - before) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=Path("results/link_groups.md"))
    options = parser.parse_args()
    measured(1_000)  # compiles
    lines = [
        "# Time of the teacher of the factors",
        "",
        f"Made by `python benchmarks/link_groups.py`, which describes the graph; dssl {version('dssl')}.",
        "",
        "| links | seconds | MB |",
        "| --: | --: | --: |",
    ]
    for links in sorted(options.links):
        seconds, megabytes = measured(links)
        lines.append(f"| {links:,} | {seconds:.1f} | {megabytes:,.0f} |")
        print(lines[-1], flush=True)
    files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
