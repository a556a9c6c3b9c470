"""Do factors agree with the real kinds of links? Code graphs, whose kinds are known: ``dssl reproduce kinds``.

For each graph and seed two models are fitted, on all links and on 80% of them. The second one then gets the whole
graph, and its factors are compared with kinds on the links that it was not trained on. Kinds are never used in
training. A second study teaches a tenth of the kinds (`dssl.studies.paper.taught`). Each result is stored in
``OUT/kinds/GRAPH-SEED.json`` or ``OUT/kinds/taught-GRAPH-SEED.json``, and reused as long as the settings are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import rng
from dssl.config.resolve import resolve
from dssl.data.load import load
from dssl.errors import DsslError
from dssl.evaluation.kind_agreement import kind_agreement, scores
from dssl.graph import Graph
from dssl.graph.link_mixture import LinkGroups
from dssl.model.estimator import Embedder
from dssl.runtime import files
from dssl.studies import charts
from dssl.studies.experiments import Job
from dssl.studies.judge import Content, kept, read_content
from dssl.studies.paper import taught
from dssl.studies.paper.plans import Options, quick_settings, seeds_of
from dssl.studies.records import Record
from dssl.studies.results_table import markdown_rows, mean_and_range

GRAPHS = ("python:rich", "python:networkx", "python:stdlib")
TAUGHT = ("python:rich", "python:networkx", "python:optuna", "python:stdlib")
FACTORS = 8
WEIGHT = 8.0  # of the distillation: this study is about factors; chosen on seed 0 of python:rich and python:networkx
HELD_OUT = 0.2
COLUMNS = {
    "factors": "factors",
    "held out": "factors, links held out",
    "teacher": "teacher",
    "k-means on pairs": "k-means on pairs",
    "classes of the ends": "classes of the ends",
}


def jobs(options: Options) -> list[Job]:
    """Return a job for each graph and seed of both studies: agreement without kinds, and kinds taught."""
    wanted = options.datasets or (GRAPHS[:1] if options.quick else GRAPHS)
    learned = options.datasets or (TAUGHT[:1] if options.quick else TAUGHT)
    settings = {"kinds": {"num_factors": FACTORS, "distillation_weight": WEIGHT}, "taught": taught.SETTINGS}
    return [
        Job(graph, row, {**settings[row], **quick_settings(options)}, seed=seed, splits=0)
        for row, graphs in (("kinds", wanted), ("taught", learned))
        for graph in graphs
        for seed in seeds_of(options, 5)
    ]


def measure(job: Job) -> Content:
    """Fit both models of a job and return the scores of all rows."""
    graph = load(job.graph)
    config = resolve({"seed": job.seed, **job.settings})
    found = Embedder.from_config(config).fit(graph).factors(graph)
    agreed = kind_agreement(graph, found.source, found.target, found.links, seed=job.seed)
    if "skipped" in agreed:
        raise DsslError(f"{job.graph}: {agreed['skipped']}")
    assert graph.kinds is not None
    rows = dict(agreed["rows"])
    known = graph.kinds >= 0
    groups = LinkGroups(graph, found.num_factors, seed=job.seed)
    numbers = groups.links.numbers(graph.sources()[known].astype(np.int64), graph.indices[known].astype(np.int64))
    rows["teacher"] = scores(groups.posteriors[numbers].argmax(axis=1), graph.kinds[known])
    rows["held out"] = _held_out(graph, config, job.seed)
    names = [f"{each.number} · {each.name}" for each in found.describe()]
    return {**{name: agreed[name] for name in ("links", "table", "names")}, "rows": rows, "factors": names}


def _held_out(graph: Graph, config: Any, seed: int) -> dict[str, float]:
    """Scores on links that the model was not trained on; both directions of a pair are held out together."""
    assert graph.kinds is not None
    start, end = graph.sources(), graph.indices
    pairs = np.unique(
        np.minimum(start, end).astype(np.int64) * graph.num_nodes + np.maximum(start, end), return_inverse=True
    )[1]
    draw = rng.stream(seed, "held-out kinds").random(int(pairs.max()) + 1)
    hidden = draw[pairs] < HELD_OUT
    found = Embedder.from_config(config).fit(without(graph, hidden)).factors(graph)
    place = {(int(i), int(j)): row for row, (i, j) in enumerate(zip(found.source, found.target, strict=True))}
    wanted = np.flatnonzero(hidden & (graph.kinds >= 0) & (start != end))
    rows = [place[int(start[arc]), int(end[arc])] for arc in wanted]
    return scores(found.links[rows].argmax(axis=1), graph.kinds[wanted])


def without(graph: Graph, hidden: NDArray[np.bool_]) -> Graph:
    """Return the graph without some arcs, and without its labels and kinds."""
    return Graph.from_edges(
        graph.sources()[~hidden],
        graph.indices[~hidden],
        num_nodes=graph.num_nodes,
        directed=graph.directed,
        ids=graph.ids,
        x=graph.x,
        name=graph.name,
    )


def write(options: Options, out: Path, on_record: Callable[[Job, Record], None], *, stored: bool = False) -> list[Path]:
    """Measure all jobs, and write the tables.

    Args:
        options: graphs and seeds.
        out: folder of the tables and records.
        on_record: called with each job and its record.
        stored: leave out jobs without a record of the same settings.
    """
    found: dict[str, dict[str, list[Content]]] = {"kinds": {}, "taught": {}}
    problems, paths = [], []
    for job in jobs(options):
        name = ("taught-" if job.row == "taught" else "") + f"{job.graph.replace(':', '-')}-{job.seed}.json"
        if stored and read_content(out / "kinds" / name, job.key) is None:
            continue
        content, record = kept(job, out / "kinds" / name, taught.measure if job.row == "taught" else measure)
        on_record(job, record)
        if content is None:
            problems.append(f"{job.graph}, seed {job.seed}: {record.error}")
        else:
            found[job.row].setdefault(job.graph, []).append(content)
            paths.append(out / "kinds" / name)
    path = out / "kinds.md"
    if found["kinds"]:
        paths.append(out / "kinds.svg")
        first = next(iter(found["kinds"].values()))[0]
        title = f"Links of {first['graph']} by factor and kind; training did not use the kinds"
        charts.stacked(title, first["factors"], first["names"], np.array(first["table"]), paths[-1])
    files.write_text(path, markdown(found["kinds"], found["taught"], problems, quick=options.quick))
    return [path, *paths]


def markdown(
    found: dict[str, list[Content]], learned: dict[str, list[Content]], problems: Sequence[str], *, quick: bool
) -> str:
    """Return the page: a table for each measure, kinds taught, and the links of each graph by factor and kind."""
    lines = [
        "# Factors and the kinds of links",
        "",
        f"Code graphs, K = {FACTORS}, `distillation_weight` {WEIGHT:g}. Mean over seeds (range). Training does not use",
        "kinds. *Links held out*: the model was trained on 80% of the links, then got all; only the others count.",
        "*Teacher*: the groups of links that factors are taught. Made by `dssl reproduce kinds`; records: `kinds/`.",
    ]
    if quick:
        lines += ["", "**Made with `--quick`**: ten epochs, one seed. The numbers mean nothing."]
    for measure, title in (("ami", "Adjusted mutual information (0 for random groups)"), ("purity", "Purity")):
        columns = COLUMNS | ({"chance": "chance"} if measure == "purity" else {})
        rows = []
        for graph, each in found.items():
            values = ([one["rows"][name][measure] for one in each if name in one["rows"]] for name in columns)
            cells = map(mean_and_range, values)
            rows.append([graph, f"{each[0]['links']:,}", str(len(each)), *cells])
        header = ["graph", "links", "seeds", *columns.values()]
        lines += ["", f"## {title}", "", *markdown_rows(header, rows, align="lr")]
    lines += ["", "![Links by factor and kind](kinds.svg)"] if found else []
    lines += taught.table(learned) if learned else []
    for graph, each in found.items():
        first = each[0]
        rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip(first["factors"], first["table"], strict=True)]
        lines += ["", f"## Links of {graph} by factor and kind, seed {first['seed']}", ""]
        lines += markdown_rows(["factor", *first["names"]], rows, align="lr")
    lines += ["", *problems] if problems else []
    return "\n".join(lines) + "\n"
