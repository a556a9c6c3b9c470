"""The table of regret: how far each row is behind the best, over graphs and label budgets: ``dssl reproduce regret``.

Rows are data (`rows`): a training or a training-free baseline each, with the settings of its jobs. One training serves
all label budgets and the clusters, and Tables 1, 5 and 7 of the paper; links are held out in a separate training. The
regret of a row on a graph is the best mean of all rows less its own, in points: its mean and its largest value over
graphs are shown, at equal width (64 columns at most) and at any width, for the graphs of the design and for the others
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dssl.config.methods import METHODS
from dssl.data.catalogue import DATASETS
from dssl.data.datasets import available
from dssl.data.load import load
from dssl.errors import ConfigError, nearest
from dssl.evaluation.splits import SHARES
from dssl.graph import Graph
from dssl.studies.entries import QUICK, QUICK_SPLITS, Entry, Results, method_settings
from dssl.studies.experiments import Job
from dssl.studies.paper import numbers
from dssl.studies.paper.plans import DIAL_SHARES, synthetic_spec
from dssl.studies.records import View
from dssl.studies.results_table import csv_text, markdown_rows

WIDTH = 64
MOST_LINKED = 128  # columns of the rows whose held-out links are ranked: the regression on pairs has twice as many
FEW_LINKS, DRAWS = 1000, 5  # below so many links, one draw of held-out links is noise: the mean of several is taken
BUDGETS = ("60%", "5%", "1%", "20/class")
LINKS, CLUSTERS = "link_auc_degree", "nmi"
MEASURES = {**{budget: f"{budget} labels" for budget in BUDGETS}, LINKS: "links (AUC)", CLUSTERS: "clusters (NMI)"}
DESIGN = (
    *("cora", "citeseer", "texas", "wisconsin", "chameleon", "squirrel", "reed98", "twitch-de"),
    *("syn-cora-0.2", "syn-cora-0.5", "syn-cora-0.8"),
)
DIAL = tuple(synthetic_spec(h) for h in numbers.HOMOPHILY)  # synthetic graphs over the range of homophily
TITLES = {graph: f"synthetic h={h:g}" for graph, h in zip(DIAL, numbers.HOMOPHILY, strict=True)}
LARGEST = ("pubmed", "cornell5", "minesweeper", "twitch-de", *DIAL)  # where slow methods have one seed
FAST = ("dssl", "dgi", "cca-ssg", "gae")  # methods with three seeds on all graphs at 64 columns
ON_TOPICS = ("dgi", "cca-ssg", "gae", "sage")  # the strongest other methods, also on topics, with one seed


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Args:
        name: its name.
        settings: settings of the training, or ``dim`` and ``width`` of a baseline.
        baseline: name of a training-free baseline, or empty.
        view: view of the model.
        read: options to read the graph, such as its directions.
        links: whether held-out links are ranked too.
        method: method whose recipe for the graph comes first, or empty.
        shared: row whose training it is another view of, or empty.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = ""
    view: View = "embedding"
    read: Mapping[str, Any] = field(default_factory=dict)
    links: bool = True
    method: str = ""
    shared: str = ""

    @property
    def trained(self) -> bool:
        """Whether the result depends on a seed."""
        return not self.baseline and self.settings.get("epochs") != 0


def rows() -> list[Row]:
    """All rows: the default and its closed form at three widths, other methods (four on topics too), baselines."""
    found = [
        Row(f"dssl {WIDTH}"),  # its default, as in Table 1
        Row("dssl, trained part", view="trained", shared=f"dssl {WIDTH}"),
        *(Row(f"dssl {dim}", {"dim": dim}, links=dim <= MOST_LINKED) for dim in (128, 512)),
        Row("closed form", {"dim": WIDTH, "epochs": 0}),
        *(Row(f"closed form {dim}", {"dim": dim, "epochs": 0}, links=dim <= MOST_LINKED) for dim in (128, 512)),
    ]
    for method in METHODS:
        if method != "dssl":
            found.append(Row(method, method=method))
            if method in ON_TOPICS:
                found.append(Row(f"{method}, topics", {"features": "topics"}, method=method))
    for width in (WIDTH, 256):
        size = {"dim": width, "width": width}
        for name in ("raw", "row-scaled", "smoothed", "adjacency", "spectral", "hops", "blocks"):
            found.append(Row(f"{name} {width}", size, baseline=name, links=width <= MOST_LINKED))
        name, directed = "directed-adjacency", {"directed": True}
        found.append(Row(f"{name} {width}", size, baseline=name, read=directed, links=False))
    return [*found, Row("all blocks", {"dim": 256}, baseline="blocks", links=False)]


def chosen_rows(asked: Sequence[str]) -> list[Row]:
    """The rows with the given names, or whose method or baseline is given; all without names."""
    every = rows()
    if not asked:
        return every
    known = {name for row in every for name in (row.name, row.method, row.baseline) if name}
    for name in asked:
        if name not in known:
            raise ConfigError(f"unknown row {name!r}{nearest(name, known) or '; see docs/reproduce.md'}")
    return [row for row in every if {row.name, row.method, row.baseline} & set(asked)]


def graphs() -> tuple[str, ...]:
    """Every published graph on this machine, and the synthetic ones of Table 7."""
    return (*(name for name in DATASETS if available(name)), *DIAL)


def plan(
    sources: Iterable[str], asked: Sequence[str] = (), *, seeds: int | None = None, quick: bool = False
) -> list[Entry]:
    """The entries: for each row and graph a job per seed, and one for each draw of held-out links.

    Args:
        sources: graphs.
        asked: names of rows, or none for all.
        seeds: trainings of each row; by default 3, but 1 on topics, above 64 columns, and of slow methods if large.
        quick: ten epochs, three splits.
    """
    found = []
    every, wanted = rows(), chosen_rows(asked)
    for source in sources:
        graph = load(source)
        budgets, splits = _budgets(graph), QUICK_SPLITS if quick else 10
        draws = DRAWS if graph.num_edges < FEW_LINKS and not quick else 1
        for row in wanted:
            own = method_settings(row.method, source) if row.method else {}
            settings = {**own, **row.settings, **(QUICK if quick and row.trained else {})}
            wide = settings.get("dim", WIDTH) > WIDTH
            slow = source in LARGEST and (row.method or "dssl") not in FAST
            once = quick or wide or slow or "features" in row.settings
            count = (seeds or (1 if once else 3)) if row.trained else 1
            name = row.shared or row.name
            views = tuple(dict.fromkeys([row.view, *(one.view for one in every if name in (one.name, one.shared))]))
            job = Job(
                source, name, settings, baseline=row.baseline, splits=splits, views=tuple(sorted(views)), read=row.read
            )
            nodes = replace(job, shares=DIAL_SHARES if source in DIAL else SHARES, clusters=True, budgets=budgets)
            found += [Entry(replace(nodes, seed=seed), row.name, source, row.view) for seed in range(count)]
            if row.links:
                held_out = replace(job, splits=0, hide_links=True)
                found += [
                    Entry(replace(held_out, split_seed=draw), row.name, source, row.view) for draw in range(draws)
                ]
    return found


def _budgets(graph: Graph) -> tuple[str, ...]:
    """The label budgets that a graph allows: a fraction leaves two nodes a class."""
    y = graph.y
    assert y is not None, graph.name
    known = y[y >= 0]
    classes = np.unique(known).size
    return tuple(b for b in BUDGETS if not b.endswith("%") or float(b[:-1]) / 100 * known.size >= 2 * classes)


@dataclass(frozen=True, slots=True)
class Scores:
    """Means in percent of rows on graphs, by measure: a label budget, held-out links or clusters.

    Args:
        means: by measure, graph and row.
        widths: columns of each row on each graph.
        counts: trainings, or draws of held-out links, behind a mean, by measure, graph and row.
    """

    means: Mapping[str, Mapping[str, Mapping[str, float]]]
    widths: Mapping[tuple[str, str], int]
    counts: Mapping[tuple[str, str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Results) -> Scores:
        """Collect the scores of all entries; seeds are averaged."""
        values: dict[str, dict[str, dict[str, list[float]]]] = {}
        widths: dict[tuple[str, str], int] = {}
        for entry, record in results:
            view = record.views[entry.view]
            widths[entry.column, entry.row] = view.width
            for measure in MEASURES:
                if found := view.percent(measure):
                    by_graph = values.setdefault(measure, {}).setdefault(entry.column, {})
                    by_graph.setdefault(entry.row, []).append(float(np.mean(found)))
        means = {
            measure: {
                graph: {row: float(np.mean(seeds)) for row, seeds in found.items()} for graph, found in by_graph.items()
            }
            for measure, by_graph in values.items()
        }
        counts = {
            (measure, graph, row): len(seeds)
            for measure, by_graph in values.items()
            for graph, found in by_graph.items()
            for row, seeds in found.items()
        }
        return cls(means, widths, counts)

    def regret(self, measure: str, *, width: int | None = None) -> dict[str, dict[str, float]]:
        """The regret of each row on each graph, in points, by row; with a width among rows of so many columns only."""
        found: dict[str, dict[str, float]] = {}
        for graph, means in self.means.get(measure, {}).items():
            allowed = {row: mean for row, mean in means.items() if width is None or self.widths[graph, row] <= width}
            for row, mean in allowed.items():
                found.setdefault(row, {})[graph] = max(allowed.values()) - mean
        return found


def markdown(scores: Scores, *, notes: Sequence[str], remarks: Sequence[str], measures: Sequence[str] = ()) -> str:
    """The page: mean and largest regret of each row, by measure, width and group of graphs."""
    shown = [measure for measure in MEASURES if measure in scores.means and (not measures or measure in measures)]
    lines = ["# Regret: points behind the best row", "", *notes]
    every = sorted({graph for found in scores.means.values() for graph in found}, key=_order)
    groups = {
        "the graphs of the design": [graph for graph in every if graph in DESIGN],
        "the other graphs": [graph for graph in every if graph not in DESIGN],
    }
    lines += _summary(scores, groups, [budget for budget in BUDGETS if budget in shown])
    for width, title in ((WIDTH, f"{WIDTH} columns"), (None, "Any width")):
        regrets = {measure: scores.regret(measure, width=width) for measure in shown}
        for group, members in groups.items():
            ranked, partial = _table(regrets, set(members))
            header = ["row", *(MEASURES[measure] for measure in shown)]
            if ranked:
                lines += [
                    "",
                    f"## {title}, {group}",
                    "",
                    f"{len(members)} graphs: {', '.join(TITLES.get(graph, graph) for graph in members)}.",
                    "",
                ]
                lines += markdown_rows(header, ranked)
            if partial:
                lines += ["", "Rows on fewer than half of these graphs, which are not ranked:", ""]
                lines += markdown_rows(header, partial)
    if remarks:
        lines += ["", "## In words", "", *(f"- {remark}" for remark in remarks)]
    return "\n".join(lines) + "\n"


def _summary(scores: Scores, groups: Mapping[str, Sequence[str]], budgets: Sequence[str]) -> list[str]:
    """The default against the best of other rows: cells (a graph with a label budget) ahead, within 1, worst, mean."""
    every = {row.name: row for row in rows()}
    free = {name for name, row in every.items() if row.baseline}
    others = {name for name, row in every.items() if row.method}
    comparisons: list[tuple[str, str, set[str], int | None]] = [
        ("dssl 64", f"training-free, {WIDTH} columns", free, WIDTH),
        ("dssl 64", "training-free, any width", free, None),
        ("dssl 64", f"other trained methods, {WIDTH} columns", others, WIDTH),
        ("dssl 64", "other trained methods, any width", others, None),
        ("dssl 64", "its closed form", {"closed form"}, None),
        ("dssl 512", "all other rows", set(every) - {"dssl 512"}, None),
    ]
    lines = []
    for group, members in groups.items():
        for labels in (budgets[:1], budgets[1:]):
            for own, title, names, width in comparisons:
                found = {
                    (graph, budget): means[own] - max(best)
                    for budget in labels
                    for graph, means in scores.means[budget].items()
                    if graph in members
                    and own in means
                    and (
                        best := [
                            mean
                            for row, mean in means.items()
                            if row in names and (width is None or scores.widths[graph, row] <= width)
                        ]
                    )
                }
                if found:
                    values, (graph, budget) = list(found.values()), min(found, key=lambda cell: found[cell])
                    figures = [len(values), sum(value > 0 for value in values), sum(value >= -1 for value in values)]
                    worst = f"{min(values):+.1f} ({TITLES.get(graph, graph)}, {budget})"
                    mean = f"{np.mean(values):+.1f}"
                    lines.append([group, ", ".join(labels), own, title, *map(str, figures), worst, mean])
    if not lines:
        return []
    header = ["graphs", "labels", "row", "against the best of", "cells", "ahead", "within 1", "worst", "mean"]
    about = (
        "Points of the row less those of the best other row, which is taken in each cell by its test accuracy. A cell "
        "is a graph with a label budget."
    )
    return ["", "## The default against the others", "", about, "", *markdown_rows(header, lines)]


def _table(
    regrets: Mapping[str, Mapping[str, Mapping[str, float]]], members: set[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Lines with mean / largest regret for each measure, by their mean; those of rows with few graphs are apart."""
    cells: dict[str, dict[str, tuple[float, float, int]]] = {}
    for measure, by_row in regrets.items():
        for row, by_graph in by_row.items():
            own = [value for graph, value in by_graph.items() if graph in members]
            if own:
                cells.setdefault(row, {})[measure] = (float(np.mean(own)), max(own), len(own))
    most = {m: max((found[m][2] for found in cells.values() if m in found), default=0) for m in regrets}
    order = sorted(cells, key=lambda row: float(np.mean([mean for mean, _, _ in cells[row].values()])))

    def text(row: str, measure: str) -> str:
        if measure not in cells[row]:
            return "–"
        mean, largest, count = cells[row][measure]
        return f"{mean:.1f} / {largest:.1f}" + (
            f" ({count} graph{'s' if count > 1 else ''})" if count < most[measure] else ""
        )

    lines: tuple[list[list[str]], list[list[str]]] = ([], [])
    for row in order:
        count = max(number for _, _, number in cells[row].values())
        lines[2 * count < len(members)].append([row, *(text(row, measure) for measure in regrets)])
    return lines


def csv(scores: Scores) -> str:
    """A line per measure, graph and row: columns, mean, number of trainings, regret at 64 columns and at any width."""
    lines: list[list[Any]] = []
    for measure, by_graph in scores.means.items():
        narrow, wide = scores.regret(measure, width=WIDTH), scores.regret(measure)
        for graph, means in by_graph.items():
            for row, mean in means.items():
                at_64 = narrow.get(row, {}).get(graph)
                regrets = ["" if at_64 is None else f"{at_64:.4f}", f"{wide[row][graph]:.4f}"]
                group = "design" if graph in DESIGN else "other"
                count = scores.counts.get((measure, graph, row), 1)
                lines.append([measure, graph, group, row, scores.widths[graph, row], f"{mean:.4f}", count, *regrets])
    header = ["measure", "graph", "group", "row", "columns", "mean", "trainings", "regret_64_columns"]
    return csv_text([*header, "regret_any_width"], lines)


def _order(graph: str) -> tuple[int, str]:
    names = list(DATASETS)
    return (names.index(graph) if graph in names else len(names), graph)
