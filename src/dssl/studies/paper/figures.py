"""The paper's figures, made again: ``dssl reproduce figures``.

Curves over epochs and settings come from the records of stored runs, as tables do (see `dssl.studies.paper.tables`).
Drawings of factors come from one fitted model per graph; what is drawn of it is kept in
``OUT/figures/factors-GRAPH.json``, and it is fitted again when that file is gone or of other settings. Each
figure is an SVG beside a CSV of its numbers in ``OUT/figures``; ``OUT/figures.md`` shows all of them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.config.fields import locate
from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.errors import DsslError, require
from dssl.rng import stream
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job, Record
from dssl.studies.paper.plans import BASES, QUICK, Options, for_graph, graphs_of, seeds_of
from dssl.studies.paper.tables import accuracies
from dssl.studies.results_table import Cell, Page

if TYPE_CHECKING:
    from dssl.graph import Graph

GRAPHS = ("texas", "cora")
EGO_DEGREES = (4, 10)  # of the node in the middle of a drawn neighbourhood
EGO_NODES = 25
SAMPLE = 120  # nodes of a map of similarities
GRID = (0.2, 0.4, 0.6, 0.8, 1.0)  # the paper's, for both variances and the temperature


@dataclass(frozen=True, slots=True)
class Line:
    """One setting varied, the others held: a line of a figure.

    Args:
        name: what the legend calls it.
        setting: what is varied.
        values: its values; that of the base configuration is added.
        base: a key of `BASES`, the configuration that it starts from.
        changes: other settings that differ from it.
    """

    name: str
    setting: str
    values: tuple[float, ...]
    base: str = "paper-terms"
    changes: Mapping[str, Any] = field(default_factory=dict)


CURVES: dict[str, tuple[str, tuple[Line, ...]]] = {
    "global-update": (
        "Accuracy over epochs, with and without the global update of the prototypes (Eq. 8)",
        tuple(
            Line(f"{base}, {'with' if update else 'without'} Eq. 8", "epochs", (5, 10, 20, 50, 100, 200), base, changes)
            for base in ("paper-terms", "as printed")
            for update, changes in ((True, {}), (False, {"prototype_update": False}))
        ),
    ),
    "tau": (
        "Accuracy over the momentum τ of the target encoder",
        tuple(
            Line(base, "momentum", (0.0, 0.5, 0.9, 0.99, 0.999, 1.0), base) for base in ("paper-terms", "as printed")
        ),
    ),
    "sweeps": (
        "Accuracy over σ1², σ2², γ (with Gumbel samples) and K",
        (
            Line("paper-terms", "prototype_variance", GRID),
            Line("paper-terms", "link_variance", GRID),
            Line("paper-terms", "temperature", GRID, changes={"estimator": "gumbel"}),
            Line("paper-terms", "num_factors", (2, 4, 6, 8, 16, 32)),
        ),
    ),
}


def figures(
    options: Options,
    out: Path,
    *,
    workers: int = 0,
    on_plan: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Job, Record], None] | None = None,
) -> list[Path]:
    """Make all figures and return what was written.

    Args:
        options: of which graphs, and how many seeds; its methods do not matter.
        out: the folder; records go to ``out/runs``.
        workers: processes; 0 takes one per core.
        on_plan: called with the number of trainings.
        on_record: called with each training and its record.
    """
    from dssl.data.datasets import available

    require("matplotlib", extra="plots")
    asked = graphs_of(options, GRAPHS)
    graphs = [graph for graph in asked if available(graph)]
    told = on_record or (lambda _job, _record: None)
    plan = [
        (name, line, value, job)
        for name, (_, lines) in CURVES.items()
        for graph in graphs
        for line in lines
        for value, job in line_jobs(line, graph, options)
    ]
    jobs = [job for *_, job in plan]
    on_plan(len(experiments.jobs_by_key(jobs)) + len(graphs))
    records = experiments.run(jobs, out / "runs", workers=workers, on_record=on_record)
    page = Page(
        out,
        "figures",
        "`paper-terms` is the recipe with a two-layer GCN of 64 columns, `as printed` is `preset = paper`. Accuracy of "
        "the linear probe in percent; bars are the standard deviation over splits, and the values on the horizontal "
        "axis stand at equal distances. The factors are those of the default preset. The numbers are in the CSV of the "
        "same name.",
    )
    page.left_out += [f"{graph}: its files are not on this machine" for graph in asked if graph not in graphs]
    page.left_out += [_failure(record) for record in records if "error" in record]
    for name, (title, _) in CURVES.items():
        found = [
            (line, value, job, record)
            for (key, line, value, job), record in zip(plan, records, strict=True)
            if key == name
        ]
        _write_curves(page, name, title, _panels(found))
    for graph in graphs:
        job = _study_job(graph, options)
        record = _stored_study(job, out / "figures" / f"factors-{graph}.json")
        told(job, record)
        if "error" in record:
            page.left_out.append(_failure(record))
        else:
            _write_study(page, graph, record)
    return page.write()


# --- curves over settings ------------------------------------------------------------------------------------------


def line_jobs(line: Line, graph: str, options: Options) -> list[tuple[float, Job]]:
    """Value and training of each point of a line; what is the base configuration itself is the same job in all lines.

    That one is also the full model of Table 2, and neither is trained twice.
    """
    base = {**for_graph(BASES[line.base], graph), **(QUICK if options.quick else {})}
    config = resolve(base)
    own = _value(config, line.setting)
    values = sorted({*line.values, own})
    if options.quick:
        values = [value for value in values if value <= own] if line.setting == "epochs" else [values[0], values[-1]]
    found = []
    for value in values:
        wanted = {**line.changes, line.setting: value}
        changes = {name: to for name, to in wanted.items() if to != _value(config, name)}
        row = ", ".join([*(f"{name}={to}" for name, to in changes.items()), line.base])
        row = row if changes else f"full, {line.base}"
        splits = 3 if options.quick else 10
        found += [
            (value, Job(graph, row, {**base, **changes}, seed=seed, splits=splits)) for seed in seeds_of(options, 3)
        ]
    return found


def _value(config: Config, name: str) -> Any:
    section, _, leaf = locate(name).rpartition(".")
    return getattr(getattr(config, section), leaf)


Panels = dict[tuple[str, str], dict[str, dict[float, Cell]]]


def _panels(found: Iterable[tuple[Line, float, Job, Record]]) -> Panels:
    """Cells by graph and setting, line, and value."""
    panels: Panels = {}
    for line, value, job, record in found:
        values = () if "error" in record else accuracies(record)
        if values:
            cells = panels.setdefault((job.graph, line.setting), {}).setdefault(line.name, {})
            cells[value] = Cell((*cells[value].values, values) if value in cells else (values,))
    return panels


def _write_curves(page: Page, name: str, title: str, panels: Panels) -> None:
    from dssl.studies import charts

    if not panels:
        return
    page.numbers(
        f"{name}",
        ["graph", "setting", "line", "value", "mean", "std_splits", "std_seeds", "seeds", "splits"],
        (
            [graph, setting, line, f"{value:g}"]
            + [f"{number:.4f}" for number in (cell.mean, cell.over_splits, cell.over_seeds)]
            + [len(cell.values), len(cell.values[0])]
            for (graph, setting), lines in panels.items()
            for line, cells in lines.items()
            for value, cell in cells.items()
        ),
    )
    points = {
        panel: {
            line: [(value, cell.mean, cell.over_splits) for value, cell in cells.items()]
            for line, cells in lines.items()
        }
        for panel, lines in panels.items()
    }
    charts.curves(title, points, page.picture(f"{name}", title))
    for (graph, setting), lines in panels.items():
        for line, cells in lines.items():
            best, worst = (pick(cells, key=lambda value: cells[value].mean) for pick in (max, min))
            page.say(
                f"{graph}, {line}: best {cells[best].text} at {setting} {best:g}, "
                f"lowest {cells[worst].text} at {worst:g}."
            )


# --- the factors of a fitted model -----------------------------------------------------------------------------------


def _study_job(graph: str, options: Options) -> Job:
    """The default preset; the principal components beside its trained columns have no part in the factors."""
    return Job(graph, "factors", {"skip": False, **(QUICK if options.quick else {})}, splits=0)


def _stored_study(job: Job, path: Path) -> Record:
    """The study of a job, from its file if that is of the same job; one that fails has an ``error``."""
    try:
        stored: Record = json.loads(path.read_text(encoding="utf-8"))
        if stored["key"] == job.key:
            return stored
    except (OSError, ValueError, KeyError, TypeError):
        pass
    begun = time.perf_counter()
    try:
        found = study(job)
    except DsslError as error:
        return {"graph": job.graph, "row": job.row, "error": str(error)}
    record = {"key": job.key, "graph": job.graph, "settings": dict(job.settings), "seed": job.seed, **found}
    record["seconds"] = round(time.perf_counter() - begun, 2)
    files.write_text(path, json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    return record


def study(job: Job) -> Record:
    """Fit a model and return what is drawn of its factors: classes, a neighbourhood, and a sample of nodes."""
    import numpy as np

    from dssl.data.load import load
    from dssl.evaluation import factor_analysis
    from dssl.graph.statistics import neighborhood_similarity
    from dssl.model.estimator import Embedder

    graph = load(job.graph).undirected().without_self_loops()
    found = Embedder.from_config(resolve({"seed": job.seed, **job.settings})).fit(graph).factors(graph)
    posteriors = factor_analysis.class_similarity(graph, found.nodes)  # which asks for labels
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
            "neighbourhoods": _rounded(neighborhood_similarity(graph)),
            "posteriors": _rounded(posteriors),
            "correlation": _rounded(correlations),
        },
        "ego": {
            "ids": graph.ids.take(nodes).to_pylist(),
            "labels": graph.y[nodes].tolist(),
            "links": np.stack([place[found.source[inside]], place[found.target[inside]]], axis=1).tolist(),
            "q": _rounded(found.links[inside]),
        },
        "sample": {
            "ids": graph.ids.take(sample).to_pylist(),
            "labels": graph.y[sample].tolist(),
            "q": _rounded(found.nodes[sample]),
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
    import numpy as np

    draw = stream(seed, "ego-graph")
    low, high = EGO_DEGREES
    outside = np.maximum(np.maximum(low - graph.degrees, graph.degrees - high), 0)  # how far from the wanted degrees
    nodes = [int(draw.choice(np.flatnonzero(outside == outside.min())))]
    for _ in range(2):
        around = np.unique([n for i in nodes for n in graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()])
        new = draw.permutation(np.setdiff1d(around, nodes))
        nodes += [int(node) for node in new[: EGO_NODES - len(nodes)]]
    return nodes


def _write_study(page: Page, graph: str, found: Record) -> None:
    """The three drawings of a graph's factors."""
    import numpy as np

    from dssl.studies import charts

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
    title = f"{graph}: how alike classes are"
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


def _failure(record: Record) -> str:
    return f"{record['row']} on {record['graph']}: {record['error']}"


def _rounded(values: Any) -> Any:
    """Nested lists of numbers to six digits, with none for what is not known, so that files are small and plain."""
    if isinstance(values, float):
        return round(values, 6) if math.isfinite(values) else None
    return [_rounded(value) for value in (values if isinstance(values, list) else values.tolist())]


def _text(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else ""
