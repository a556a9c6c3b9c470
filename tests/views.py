"""Views of made-up runs, for the tests of the explorer: no training is needed to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np

from dssl.explore import view as explore
from dssl.explore.server import Server
from dssl.graph import Graph
from dssl.model.factors import Factors

HOSTILE = (
    "<img src=x onerror=\"document.title='broken'\">",
    "</script><script>document.title='broken'</script>",
    '=HYPERLINK("http://x","y")',
    "+1+cmd|' /C calc'!A0",
    'a,"b"\nc',
    "long " + "x" * 10_000,
    "\u202eright to left",
    "'; DROP TABLE nodes; --",
)


def ring(size: int, *, chords: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the links of a ring with some chords."""
    rng = np.random.default_rng(seed)
    around = np.arange(size)
    extra = rng.integers(0, size, (2, chords))
    return np.concatenate([around, extra[0]]), np.concatenate([(around + 1) % size, extra[1]])


def made(
    size: int = 60,
    *,
    num_factors: int = 3,
    labels: bool = True,
    ids: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    directed: bool = False,
    dim: int = 8,
    seed: int = 0,
    graph: Graph | None = None,
) -> explore.View:
    """A view of a ring with chords, with posteriors, vectors and places at random."""
    rng = np.random.default_rng(seed)
    if graph is None:
        y = np.arange(size) % 3 if labels else None
        names = (class_names or ["red", "green", "blue"]) if labels else None
        known = [f"node {i}" for i in range(size)] if ids is None else ids
        ends = ring(size, chords=size // 2)
        graph = Graph.from_edges(*ends, ids=known, y=y, class_names=names, directed=directed, name="made up")
    factors = None
    if num_factors:
        q = rng.dirichlet(np.full(num_factors, 0.3), graph.num_arcs).astype(np.float32)
        nodes = np.zeros((graph.num_nodes, num_factors), np.float32)
        np.add.at(nodes, graph.sources(), q)
        nodes /= np.maximum(graph.degrees, 1)[:, None]
        factors = Factors(graph.ids, graph.sources(), graph.indices, q, nodes)
    return explore.view(
        graph,
        graph,
        rng.normal(size=(graph.num_nodes, dim)).astype(np.float32),
        points=rng.normal(size=(graph.num_nodes, 2)).astype(np.float32),
        factors=factors,
        method="dssl" if num_factors else "dgi",
        how="at random",
    )


@contextmanager
def served(view: explore.View) -> Iterator[Server]:
    """A server of a view in a thread of its own."""
    with Server(view) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
