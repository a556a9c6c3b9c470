"""Seconds of the preparation, which is the closed form: topics, words, positions and roles.

    python benchmarks/preparation.py [--sources cora pubmed 1000000] [--out results/preparation.md]

A number stands for a made graph of so many nodes: ten links per node, power-law degrees, half of the links inside one
of eight classes, 500 words of which a node has up to twenty. Every graph has a process of its own, in which a graph of
2,000 nodes is prepared first, so that loading and compilation do not count. Stages are inclusive of their parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import dssl
from dssl.graph import Graph, node_parts
from dssl.kernels.compile import usable_threads
from dssl.model.joint import Joint
from dssl.runtime import environment, files
from dssl.runtime.processes import threads
from dssl.studies.results_table import markdown_rows

WHOLE = "all of the preparation"
WORDS, OWN, DEGREE, CLASSES = 500, 20, 10, 8
STAGES = {
    "covariance of words": (node_parts.WordCovariance, "fit"),
    "topics": (node_parts.Topics, "fit"),
    "positions": (node_parts.Positions, "fit"),
    "reliability of links": (node_parts, "link_reliability"),
    "roles": (node_parts.Roles, "fit"),
    "principal components": (node_parts.Principal, "fit"),
}


def made_graph(nodes: int) -> Graph:
    """A graph whose classes show in links and words."""
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=nodes)
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], np.arange(CLASSES + 1))
    source = (nodes * rng.random(nodes * DEGREE) ** 2).astype(np.int64)  # a few nodes have most of the links
    low, high = first[labels[source]], first[labels[source] + 1]
    inside = order[low + (rng.random(source.size) * (high - low)).astype(np.int64)]
    target = np.where(rng.random(source.size) < 0.5, inside, rng.integers(nodes, size=source.size))
    frequency = np.cumsum(1 / np.arange(1, WORDS + 1))
    words = np.minimum(np.searchsorted(frequency / frequency[-1], rng.random((nodes, OWN))), WORDS - 1)
    of_class = np.stack([rng.permutation(WORDS) for _ in range(CLASSES)])
    words = np.where(rng.random((nodes, OWN)) < 0.4, of_class[labels[:, None], words], words)
    pointers = np.arange(0, words.size + 1, OWN)
    x = sparse.csr_array((np.ones(words.size, np.float32), words.ravel().astype(np.int32), pointers), (nodes, WORDS))
    x.sum_duplicates()
    x.data[:] = 1
    return Graph.from_edges(source, target, num_nodes=nodes, x=x, y=labels, name="words")


def measure(source: str) -> dict[str, Any]:
    """Seconds of the clock and of the processors, by stage, and the largest resident memory."""
    graph = made_graph(int(source)) if source.isdigit() else dssl.load(source)
    found: dict[str, list[float]] = {}

    def watched(title: str, function: Any) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            start = time.perf_counter(), time.process_time()
            result = function(*given, **options)
            ends = time.perf_counter(), time.process_time()
            before = found.get(title, [0.0, 0.0])
            found[title] = [total + end - begin for total, begin, end in zip(before, start, ends, strict=True)]
            return result

        return call

    with threads(0):
        Joint.start(made_graph(2000), dim=64, seed=0)
        for title, (owner, name) in STAGES.items():
            setattr(owner, name, watched(title, getattr(owner, name)))
        environment.forget_peak()
        watched(WHOLE, Joint.start)(graph, dim=64, seed=0)
    memory = environment.peak_memory() >> 20
    return {"graph": str(graph), "stages": found, "memory": memory, "threads": usable_threads()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", default=["cora", "pubmed", "1000000"])
    parser.add_argument("--out", type=Path, default=Path("results/preparation.md"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    load, found = os.getloadavg()[0], []
    for source in options.sources:
        command = [sys.executable, __file__, "--measure", source]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    body = [
        [name, *(f"{a:.2f} / {b:.2f}" for a, b in (record["stages"].get(name, (0, 0)) for record in found))]
        for name in (*STAGES, WHOLE)
    ]
    body.append(["largest memory, MB", *(f"{record['memory']:,}" for record in found)])
    lines = [
        "# Preparation",
        "",
        "`python benchmarks/preparation.py`, which describes the graphs and the stages. Seconds of the clock / of the",
        f"processors; threads: {found[0]['threads']}. When it began, the load of the machine was {load:.1f}.",
        "With other jobs beside it, the seconds of processors are the better measure.",
        "",
        *(f"- {record['graph']}" for record in found),
        "",
        *markdown_rows(["stage", *options.sources], body),
    ]
    files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
