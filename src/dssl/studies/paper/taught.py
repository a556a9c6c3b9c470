"""A tenth of the kinds is taught, and those of the other links are predicted: part of ``dssl reproduce kinds``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.config.resolve import resolve
from dssl.data.load import load
from dssl.errors import DsslError
from dssl.evaluation.kind_agreement import known_links
from dssl.graph.link_count import count_groups
from dssl.graph.link_kinds import LinkKinds
from dssl.model.estimator import Embedder
from dssl.studies.experiments import Job
from dssl.studies.results_table import markdown_rows, mean_and_range

KNOWN = 0.1
# Chosen on seed 0 of python:rich and python:networkx: kinds are the purpose of this model, and 64 columns hold fewer.
SETTINGS = {"distillation_weight": 30.0, "dim": 128}
BINS = 10
ROWS = {"factors": "factors", "logistic regression": "logistic regression", "chance": "most frequent kind"}
MEASURES = {"accuracy": "accuracy", "recall": "mean recall over kinds", "calibration": "expected calibration error"}


def measure(job: Job) -> dict[str, Any]:
    """Teach a tenth of the kinds and return the measures on the other links, compared with logistic regression."""
    graph = load(job.graph)
    if graph.kinds is None or graph.kind_names is None:
        raise DsslError(f"{job.graph}: has no kinds of links")
    shown = rng.stream(job.seed, "known kinds").random(graph.num_arcs) < KNOWN
    partly = graph.replace(kinds=np.where(shown, graph.kinds, -1).astype(np.int32))
    size = len(graph.kind_names)
    config = resolve({"seed": job.seed, **job.settings, "teach": "kinds", "num_factors": size})
    found = Embedder.from_config(config).fit(partly).factors(graph)
    own, kinds = known_links(graph, found.source, found.target)
    taught, _ = known_links(partly, found.source, found.target)
    rest = ~taught[own]
    kinds = kinds[rest]
    rows = {"factors": measures(found.links[own][rest], kinds)}
    alone = LinkKinds(partly, size, seed=job.seed)
    numbers = alone.links.numbers(found.source[own][rest].astype(np.int64), found.target[own][rest].astype(np.int64))
    rows["logistic regression"] = measures(alone.posteriors[numbers], kinds)
    share = np.bincount(kinds, minlength=size) / kinds.size
    rows["chance"] = measures(np.tile(share.astype(np.float32), (kinds.size, 1)), kinds)
    number = count_groups(graph, seed=job.seed)
    return {"links": int(kinds.size), "known": int(taught.sum()), "kinds": size, "rows": rows, "number": number}


def table(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the lines of the section: a row per graph and way of prediction, and the number of factors by ``auto``."""
    settings = ", ".join(f"`{name}` {value:g}" for name, value in SETTINGS.items())
    rows, numbers = [], []
    for graph, each in found.items():
        for row, name in ROWS.items():
            cells = [mean_and_range([one["rows"][row][measure] for one in each]) for measure in MEASURES]
            rows.append([graph, f"{each[0]['links']:,}", str(len(each)), name, *cells])
        numbers.append([graph, str(each[0]["kinds"]), ", ".join(str(one["number"]) for one in each)])
    return [
        "",
        "## Kinds taught",
        "",
        f"`teach = kinds`, {KNOWN:.0%} of the kinds known; measured on the other links. Settings: {settings}.",
        "",
        *markdown_rows(["graph", "links", "seeds", "prediction", *MEASURES.values()], rows, align="lrrlr"),
        "",
        "## Number of factors by `num_factors = auto`, by seed",
        "",
        *markdown_rows(["graph", "kinds", "number"], numbers, align="lrl"),
    ]


def measures(q: NDArray[np.float32], kinds: NDArray[np.int32]) -> dict[str, float]:
    """Return accuracy, mean recall over kinds, and expected calibration error in ten bins of the probability.

    >>> measures(np.array([[0.9, 0.1], [0.9, 0.1]], np.float32), np.array([0, 1], np.int32))
    {'accuracy': 0.5, 'recall': 0.5, 'calibration': 0.4}
    """
    predicted, sure = q.argmax(axis=1), q.max(axis=1)
    right = predicted == kinds
    recall = np.mean([right[kinds == kind].mean() for kind in np.unique(kinds)])
    place = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    apart = np.abs(np.bincount(place, right - sure.astype(np.float64), minlength=BINS)).sum() / kinds.size
    return {"accuracy": float(right.mean()), "recall": float(recall), "calibration": round(float(apart), 6)}
