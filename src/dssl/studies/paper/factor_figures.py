"""Drawings of the factors of one fitted model per graph.

The drawn content is stored in ``OUT/figures/factors-GRAPH.json``; the model is fitted again if that file is missing or
has other settings.
"""

from __future__ import annotations

import math

import numpy as np

from dssl.config.resolve import resolve
from dssl.data.load import load
from dssl.evaluation import factor_analysis
from dssl.graph import Graph
from dssl.graph.statistics import neighborhood_similarity
from dssl.model.estimator import Embedder
from dssl.rng import stream
from dssl.studies import charts
from dssl.studies.experiments import Job
from dssl.studies.judge import Content, plain
from dssl.studies.paper.plans import Options, quick_settings
from dssl.studies.results_table import Page

EGO_DEGREES = (4, 10)  # of the node in the middle of a drawn neighbourhood
EGO_NODES = 25
SAMPLE = 120  # nodes of a map of similarities


def study_job(graph: str, options: Options) -> Job:
    """The default preset; the principal components next to its trained columns have no part in the factors."""
    return Job(graph, "factors", quick_settings(options), splits=0)


def study(job: Job) -> Content:
    """Fit a model and return the drawn parts of its factors: classes, a neighbourhood, and a sample of nodes."""
    graph = load(job.graph).undirected().without_self_loops()
    found = Embedder.from_config(resolve({"seed": job.seed, **job.settings})).fit(graph).factors(graph)
    posteriors = factor_analysis.class_similarity(graph, found.nodes)  # raises without labels
    assert graph.y is not None
    nodes = np.array(ego_nodes(graph, seed=job.seed))
    place = np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    inside = (place[found.source] >= 0) & (place[found.target] >= 0)
    known = np.flatnonzero((graph.y >= 0) & found.nodes.any(axis=1))
    sample = stream(job.seed, "map of posteriors").permutation(known)[:SAMPLE]
    sample = sample[np.argsort(graph.y[sample], kind="stable")]
    correlations = [
        factor_analysis.similarity_correlation(graph, found.nodes, diagonal=diagonal) for diagonal in (True, False)
    ]
    return {
        "class_names": [str(name) for name in graph.class_names or range(graph.num_classes)],
        "classes": {
            "neighbourhoods": plain(neighborhood_similarity(graph)),
            "posteriors": plain(posteriors),
            "correlation": plain(correlations),
        },
        "ego": {
            "ids": graph.ids.take(nodes).to_pylist(),
            "labels": graph.y[nodes].tolist(),
            "links": np.stack([place[found.source[inside]], place[found.target[inside]]], axis=1).tolist(),
            "q": plain(found.links[inside]),
        },
        "sample": {
            "ids": graph.ids.take(sample).to_pylist(),
            "labels": graph.y[sample].tolist(),
            "q": plain(found.nodes[sample]),
        },
    }


def ego_nodes(graph: Graph, *, seed: int) -> list[int]:
    """A node of middling degree, its neighbours, and some of theirs: positions, the node itself first.

    Args:
        graph: an undirected graph without self loops.
        seed: of the choice.

    Returns:
        At most `EGO_NODES` positions; each is linked to one before it.
    """
    draw = stream(seed, "ego-graph")
    low, high = EGO_DEGREES
    outside = np.maximum(np.maximum(low - graph.degrees, graph.degrees - high), 0)  # how far from the wanted degrees
    nodes = [int(draw.choice(np.flatnonzero(outside == outside.min())))]
    for _ in range(2):
        around = np.unique([n for i in nodes for n in graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()])
        new = draw.permutation(np.setdiff1d(around, nodes))
        nodes += [int(node) for node in new[: EGO_NODES - len(nodes)]]
    return nodes


def write(page: Page, graph: str, found: Content) -> None:
    """Put the three drawings of a graph's factors on a page."""
    names = found["class_names"]
    classes = {part: np.array(found["classes"][part], float) for part in ("neighbourhoods", "posteriors")}
    page.numbers(
        f"classes-{graph}",
        ["class", "other", *classes],
        (
            [first, second, *(_text(matrix[i, j]) for matrix in classes.values())]
            for i, first in enumerate(names)
            for j, second in enumerate(names)
        ),
    )
    title = f"{graph}: similarity of classes"
    words = ("by the classes of neighbours", "by mean posteriors q(k|v)")
    maps = dict(zip(words, classes.values(), strict=True))
    charts.heat_maps(title, maps, page.picture(f"classes-{graph}", title), names=names)
    both = ["not defined" if value is None else f"{value:.2f}" for value in found["classes"]["correlation"]]
    page.say(
        f"Correlation of the two over pairs of classes: {both[0]}; without pairs of a class with itself: {both[1]}."
    )

    ego = found["ego"]
    links, q = np.array(ego["links"], int).reshape(-1, 2), np.array(ego["q"], float)
    columns = [f"q{k}" for k in range(len(found["sample"]["q"][0]))]
    labels = [names[label] if label >= 0 else "" for label in ego["labels"]]
    page.numbers(
        f"ego-{graph}",
        ["source", "target", "source_class", "target_class", *columns],
        (
            [ego["ids"][i], ego["ids"][j], labels[i], labels[j], *shares]
            for (i, j), shares in zip(ego["links"], ego["q"], strict=True)
        ),
    )
    title = f"{graph}: the neighbourhood of {ego['ids'][0]}, with q(k|v,z) on each link"
    outward = links[:, 0] < links[:, 1]  # nodes are in the order of their distance
    picture = page.picture(f"ego-{graph}", title)
    charts.neighbourhood(title, links[outward], q[outward], ego["labels"], names, picture)
    page.say("Each link is drawn as it is seen from the end nearer to the ringed node; the CSV has both directions.")

    sample = found["sample"]
    of = np.array(sample["labels"])
    unit = np.array(sample["q"], float)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    alike = unit @ unit.T
    page.numbers(
        f"posteriors-{graph}",
        ["id", "class", *columns],
        ([node, names[at], *q] for node, at, q in zip(sample["ids"], sample["labels"], sample["q"], strict=True)),
    )
    title = f"{graph}: cosines of the posteriors q(k|v) of {len(of)} nodes, by class"
    present, starts = np.unique(of, return_index=True)
    charts.heat_maps(
        title,
        {"": alike},
        page.picture(f"posteriors-{graph}", title),
        names=[names[label] for label in present],
        edges=starts[1:].tolist(),
    )
    same, others = of[:, None] == of, ~np.eye(len(of), dtype=bool)
    within, between = (alike[pairs].mean() if pairs.any() else math.nan for pairs in (same & others, ~same))
    page.say(f"Mean cosine of two nodes of one class {within:.2f}, of two classes {between:.2f}.")


def _text(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else ""
