"""The paper's tables, made again from stored runs: ``dssl reproduce table1``.

A table is a plan (the jobs it needs, see `dssl.studies.experiments`) and a way to write what they gave. Records lie in
``OUT/runs``, shared by all tables, so that what one has trained another does not; each table is ``OUT/NAME.md``,
``OUT/NAME.csv`` and a picture. The paper's number stands beside ours wherever it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dssl.config.methods import METHODS
from dssl.errors import ConfigError, RunError, nearest, require
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job, Record
from dssl.studies.paper import numbers
from dssl.studies.paper.plans import (
    ABLATIONS,
    BASES,
    PLANETOID,
    SANITY,
    Options,
    ablation_jobs,
    catalogue_graphs,
    classification_jobs,
    factor_jobs,
    gat_jobs,
    graphs_of,
    published_jobs,
    summary_jobs,
    synthetic_jobs,
    synthetic_spec,
)
from dssl.studies.results_table import Cell, Figures, Table

DSSL_ROWS = ("dssl", "dssl, trained part", "paper-terms")
QUICK_NOTE = (
    "**Made with `--quick`**: ten epochs, three splits, one seed, small graphs. It shows that everything works; the "
    "numbers mean nothing, whatever is said of them below."
)
FIGURES = "figures"  # what is asked for as a table is, and made by `dssl.studies.paper.figures`


def reproduce(
    name: str,
    options: Options,
    out: Path,
    *,
    workers: int = 0,
    on_plan: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Job, Record], None] | None = None,
) -> list[Path]:
    """Make a table and return what was written.

    Args:
        name: a key of `TABLES`.
        options: of what.
        out: the folder; records go to ``out/runs``.
        workers: processes; 0 takes one per core.
        on_plan: called with the number of jobs.
        on_record: called with each job and its record.
    """
    if name not in TABLES:
        known = (*TABLES, FIGURES)
        raise ConfigError(f"unknown table {name!r}{nearest(name, known) or '; use ' + ', '.join(known)}")
    require("matplotlib", extra="plots")
    plan, write = TABLES[name]
    jobs = plan(options)
    if not jobs and plan is not _nothing:
        raise ConfigError(
            f"{name} has none of the methods, or none of the graphs that are here, among those asked for; "
            "docs/reproduce.md says what each table has"
        )
    on_plan(len(jobs))
    records = experiments.run(jobs, out / "runs", workers=workers, on_record=on_record)
    failed = [f"{record['row']} on {record['graph']}: {record['error']}" for record in records if "error" in record]
    if records and len(failed) == len(records):
        raise RunError(f"{name}: every training failed; {failed[0]}")
    table = write(options, [record for record in records if "error" not in record])
    notes = [QUICK_NOTE, "", *table.notes] if options.quick and jobs else table.notes
    table = replace(table, notes=notes, remarks=[*table.remarks, *failed, *_took(records)])
    written = [out / f"{name}.md", out / f"{name}.csv"]
    files.write_text(written[0], table.markdown())
    files.write_text(written[1], table.csv())
    if any(cell.values for cell in table.cells.values()):
        from dssl.evaluation import pictures

        written.append(out / f"{name}.svg")
        pictures.dots(table.title, table.rows, table.columns, _points(table), written[-1])
    return written


def _took(records: Sequence[Record]) -> list[str]:
    """How long the records of a table took, all together."""
    seconds = sum(record.get("seconds", 0.0) for record in records)
    if not seconds:
        return []
    minutes = round(seconds / 60)
    time = f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{minutes} minute{'' if minutes == 1 else 's'}"
    return [f"The {len(records)} records of this table took {time} one after the other: training and evaluation."]


# --- Table 1 and 5: all methods on all graphs ----------------------------------------------------------------------


def classification(options: Options, records: Sequence[Record]) -> Table:
    """Table 1: accuracy of the linear probe."""
    cells = _by_graph(records, accuracies, numbers.CLASSIFICATION)
    remarks = [remark for graph in graphs_of(options, catalogue_graphs()) if (remark := _verdict(graph, cells))]
    return _of_graphs(
        options,
        cells,
        "Table 1: node classification, accuracy in percent",
        "Linear probe on frozen embeddings, ten random 60/20/20 splits, strength and scaling chosen on validation; ± "
        "is the standard deviation over splits. `dssl` is the default preset (trained columns beside principal "
        "components), `trained part` its trained columns alone, `paper-terms` the recipe with a two-layer GCN of 64 "
        "columns. The paper's DSSL is compared with `paper-terms`.",
        remarks,
    )


def clustering(options: Options, records: Sequence[Record]) -> Table:
    """Table 5: normalised mutual information of k-means."""
    cells = _by_graph(records, _nmi, numbers.CLUSTERING)
    remarks = []
    for (graph, column), cell in cells.items():
        labels = _two_classes(graph)
        if column == "paper-terms" and cell.printed and labels is not None:
            accuracy = numbers.CLASSIFICATION["dssl"][graph][0] / 100
            bound = 100 * nmi_of_errors(labels, accuracy)
            remarks.append(
                f"{graph}: the paper prints an NMI of {cell.printed[0]:.1f}% for two clusters and an accuracy of "
                f"{100 * accuracy:.1f}% for a classifier that saw labels; a partition into two with that accuracy and "
                f"errors in equal shares of both classes has an NMI of {bound:.1f}%. We measure {cell.mean:.1f}%."
            )
    return _of_graphs(
        options,
        cells,
        "Table 5: node clustering, normalised mutual information in percent",
        "k-means with as many clusters as classes on the embeddings of Table 1, best of ten starts.",
        remarks,
    )


def nmi_of_errors(share: float, accuracy: float) -> float:
    """NMI of a partition into two that is wrong for the same share of both classes, the larger of which has ``share``.

    >>> nmi_of_errors(0.5, 1.0), round(nmi_of_errors(0.5, 0.7), 3)
    (1.0, 0.119)
    """
    table = [[share * accuracy, share * (1 - accuracy)], [(1 - share) * (1 - accuracy), (1 - share) * accuracy]]
    rows, columns = [sum(row) for row in table], [sum(column) for column in zip(*table, strict=True)]
    joint, first, second = (_entropy(part) for part in ([*table[0], *table[1]], rows, columns))
    return (first + second - joint) / ((first + second) / 2)


def _verdict(graph: str, cells: Mapping[tuple[str, str], Cell]) -> str:
    """Whether DSSL beats the best baseline on a graph."""
    sanity = {name: cells[graph, name] for name in SANITY if (graph, name) in cells}
    if (graph, "dssl") not in cells or not sanity:
        return ""
    best = max(sanity, key=lambda name: sanity[name].mean)
    ours, theirs = cells[graph, "dssl"], sanity[best]
    beside = f"{graph}: `dssl` {ours.mean:.1f}, the best sanity baseline `{best}` {theirs.mean:.1f}"
    error = theirs.over_splits / math.sqrt(len(theirs.values[0]))
    if ours.mean < theirs.mean - error:
        return f"{beside}: **the method does not beat it**."
    return f"{beside}: level with it." if ours.mean <= theirs.mean + error else f"{beside}: above it."


def summary(options: Options, records: Sequence[Record]) -> Table:
    """The table of the README: what to expect on each graph, beside the best that needs no training."""
    every = _by_graph(records, accuracies, numbers.CLASSIFICATION)
    cells: dict[tuple[str, str], Cell] = {}
    for graph in dict.fromkeys(graph for graph, _ in every):
        sanity = [every[graph, name] for name in SANITY if (graph, name) in every]
        best = {"best without training": max(sanity, key=lambda cell: cell.mean)} if sanity else {}
        for column, cell in {
            **best,
            **{name: every[graph, name] for name in DSSL_ROWS if (graph, name) in every},
        }.items():
            cells[graph, column] = replace(cell, printed=None)
        printed = numbers.CLASSIFICATION["dssl"].get(graph)
        if printed is not None:
            cells[graph, "paper's DSSL"] = Cell(((printed[0],),))
    columns = ["paper's DSSL", "paper-terms", "best without training", "dssl, trained part", "dssl"]
    return Table(
        "Accuracy of a linear probe, in percent",
        [
            graph
            for graph in graphs_of(options, catalogue_graphs())
            if any((graph, column) in cells for column in columns)
        ],
        [column for column in columns if any((graph, column) in cells for graph, _ in cells)],
        cells,
        ["From the records of Table 1, which has every baseline and says what the columns are."],
    )


# --- the public splits -----------------------------------------------------------------------------------------------


def published(options: Options, records: Sequence[Record]) -> Table:
    """Accuracy on the public splits of Planetoid, beside what was published for each method there."""
    from dssl.config.recipes import read_recipe

    printed: numbers.Printed = {
        row: {graph: (value, 0.0) for graph, value in read_recipe(row).header.published.items()}
        for row in dict.fromkeys(record["row"] for record in records)
    }
    return _of_graphs(
        options,
        _by_graph(records, accuracies, printed),
        "The public splits of Planetoid, accuracy in percent",
        "Twenty labelled nodes per class train the linear probe, 500 choose its strength and scaling, 1,000 test it. "
        "Settings are those of `METHOD:GRAPH-public`: wide vectors, as in the methods' own papers. `dssl recipes` says "
        "where each published number comes from; a method without one is in the first table alone.",
        [],
        PLANETOID,
    )


# --- the factors ------------------------------------------------------------------------------------------------


def factors(options: Options, records: Sequence[Record]) -> Table:
    """Whether the representation and the factors are healthy, and whether they follow the classes (section 4.4)."""
    cells: dict[tuple[str, str], Cell] = {}
    for record in records:
        if record["row"] != "dssl" or "health" not in record:
            continue
        health, alike = record["health"], record.get("class_similarity", {})
        figures = {
            "effective rank / 64": health["effective_rank"] / 64,
            "posterior entropy": health["posterior_entropy"],
            "largest usage": health["factor_usage_max"],
            "class similarity": alike.get("with_diagonal"),
            "without diagonal": alike.get("without_diagonal"),
        }
        for name, value in figures.items():
            if value is not None:
                key = record["graph"], name
                cells[key] = Cell((*cells[key].values, (value,)) if key in cells else ((value,),))
    bars = {"effective rank / 64": (0.25, 1.0), "posterior entropy": (0.1, 0.9), "largest usage": (0.0, 0.6)}
    remarks = [
        f"{graph}: {name} is {cell.mean:.2f}, outside {bars[name][0]:g} to {bars[name][1]:g}."
        for (graph, name), cell in cells.items()
        if name in bars and not bars[name][0] <= cell.mean <= bars[name][1]
    ]
    return Figures(
        "The factors of the default preset",
        graphs_of(options, catalogue_graphs()),
        list(dict.fromkeys(column for _, column in cells)),
        cells,
        [
            "Of the last epoch: effective rank of the trained columns, mean entropy of a link's posterior as a share "
            "of ln K, share of the most used factor. Then the correlation, over pairs of classes, between the "
            "similarity of their mean posteriors and the cross-class neighbourhood similarity, with pairs of a class "
            "with itself and without (which needs three classes)."
        ],
        remarks or ["Every graph is within the bars: rank at least 0.25, entropy 0.1 to 0.9, usage at most 0.6."],
    )


# --- Table 2: ablations --------------------------------------------------------------------------------------------


def ablations(options: Options, records: Sequence[Record]) -> Table:
    """Table 2: what each part of the loss is worth."""
    cells: dict[tuple[str, str], Cell] = {}
    graphs = graphs_of(options, ("texas", "cornell-2020", "cora"))
    columns = [f"{graph}, {base}" for graph in graphs for base in BASES]
    for record in sorted(records, key=lambda record: list(ABLATIONS).index(record["row"].partition(", ")[0])):
        row, _, base = record["row"].partition(", ")
        key = row, f"{record['graph']}, {base}"
        printed = numbers.ABLATIONS[row] if key[1] == "texas, paper-terms" else None
        cells[key] = Cell((*cells[key].values, accuracies(record)) if key in cells else (accuracies(record),), printed)
    remarks = []
    for column in columns:
        full = cells.get(("full", column))
        if full is None:
            continue
        noise = math.hypot(full.over_seeds, full.over_splits / math.sqrt(len(full.values[0])))
        worse = [row for row in ABLATIONS if (row, column) in cells and cells[row, column].mean < full.mean - noise]
        better = [row for row in ABLATIONS if (row, column) in cells and cells[row, column].mean > full.mean + noise]
        remarks.append(
            f"{column}: worse than the full model by more than {noise:.1f}: {', '.join(worse) or 'none'}; "
            f"better: {', '.join(better) or 'none'}."
        )
    return Table(
        "Table 2: ablations, accuracy of the linear probe in percent",
        list(ABLATIONS),
        columns,
        cells,
        [
            "`as printed` is `preset = paper`; `paper-terms` the recipe; the third the trained columns of the default. "
            "The decoder of the features stays in all but `as printed`."
        ],
        remarks,
        corner="ablation",
        compares_rows=True,
    )


# --- Table 3: GAT ----------------------------------------------------------------------------------------------------


def gat(options: Options, records: Sequence[Record]) -> Table:
    """Table 3: GAT encoders."""
    cells = _by_graph(records, accuracies, numbers.GAT, dssl="dssl")
    note = "As Table 1 with a two-layer GAT of 64 columns; DSSL with the settings of `paper-terms`."
    return _of_graphs(options, cells, "Table 3: GAT encoders, accuracy in percent", note, [], numbers.GRAPHS)


# --- Table 4 and 6: the graphs themselves ----------------------------------------------------------------------------


def statistics(options: Options, records: Sequence[Record]) -> Table:  # noqa: ARG001
    """Table 4: figures of the data sets, beside the paper's."""
    from dssl.data.datasets import compare

    cells: dict[tuple[str, str], Cell] = {}
    remarks = []
    for graph in graphs_of(options, numbers.GRAPHS):
        for line in compare(graph):
            if line.ours is not None:
                printed = None if line.paper is None else (float(line.paper), 0.0)
                cells[graph, line.quantity] = Cell(((float(line.ours),),), printed)
            if line.agrees is False:
                remarks.append(f"{graph}: {line.quantity} is {line.ours}, the paper prints {line.paper}.")
    columns = list(dict.fromkeys(column for _, column in cells))
    return Figures(
        "Table 4: the data sets",
        graphs_of(options, numbers.GRAPHS),
        columns,
        cells,
        ["Measured on the files of this machine; where they are not here, on the published ones."],
        remarks,
    )


def synthetic_statistics(options: Options, records: Sequence[Record]) -> Table:  # noqa: ARG001
    """Table 6: figures of the synthetic graphs."""
    from dssl.data.load import load
    from dssl.graph.statistics import summary

    cells = {}
    quantities = ("nodes", "edges", "classes", "features", "edge_homophily")
    for h in numbers.HOMOPHILY:
        found = summary(load(synthetic_spec(h, options)))
        for quantity in quantities:
            cells[f"h = {h:g}", quantity] = Cell(((float(found[quantity]),),))
    return Figures(
        "Table 6: the synthetic graphs",
        [f"h = {h:g}" for h in numbers.HOMOPHILY],
        quantities,
        cells,
        [
            "Preferential attachment with a compatibility of the classes, as syn-products; the paper prints 10,000 "
            "nodes, 59,640 to 59,648 edges, 10 classes, 100 features. The features are "
            "Gaussian, not those of ogbn-products."
        ],
    )


def synthetic_results(options: Options, records: Sequence[Record]) -> Table:
    """Table 7: accuracy over the range of homophily."""
    cells: dict[tuple[str, str], Cell] = {}
    names = {synthetic_spec(h, options): f"{h:g}" for h in numbers.HOMOPHILY}
    for (graph, column), cell in _by_graph(records, accuracies, {}).items():
        h = names[graph]
        method = "dssl" if column == "dssl, trained part" else column
        cells[h, column] = replace(cell, printed=numbers.SYNTHETIC.get(method, {}).get(h) if column != "dssl" else None)
    return Table(
        "Table 7: the synthetic graphs, accuracy in percent",
        list(names.values()),
        _columns(cells),
        cells,
        [
            "As Table 1 with splits of 25/25/50. The paper's graphs have features of ogbn-products, ours Gaussian "
            "ones: its numbers are of another task, and only the shape over h can be compared."
        ],
        corner="h",
    )


# --- shared parts ----------------------------------------------------------------------------------------------------


def _nothing(_: Options) -> list[Job]:
    return []


TABLES: dict[str, tuple[Callable[[Options], list[Job]], Callable[[Options, Sequence[Record]], Table]]] = {
    "table1": (classification_jobs, classification),
    "table2": (ablation_jobs, ablations),
    "table3": (gat_jobs, gat),
    "table4": (_nothing, statistics),
    "table5": (classification_jobs, clustering),
    "table6": (_nothing, synthetic_statistics),
    "table7": (synthetic_jobs, synthetic_results),
    "published": (published_jobs, published),
    "factors": (factor_jobs, factors),
    "summary": (summary_jobs, summary),
}


def _by_graph(
    records: Sequence[Record],
    measure: Callable[..., tuple[float, ...]],
    printed: numbers.Printed,
    *,
    dssl: str = "paper-terms",
) -> dict[tuple[str, str], Cell]:
    """Cells by graph and row; the paper's DSSL goes with the row called ``dssl``."""
    cells: dict[tuple[str, str], Cell] = {}
    for record in records:
        for view in record["views"]:
            values = measure(record, view)
            if not values:
                continue
            row = "dssl, trained part" if view == "trained" else record["row"]
            key = record["graph"], row
            known = printed.get("dssl" if row == dssl else row, {}).get(record["graph"])
            known = None if row == "dssl" and dssl != "dssl" else known
            cells[key] = Cell((*cells[key].values, values) if key in cells else (values,), known)
    return cells


def accuracies(record: Record, view: str = "embedding") -> tuple[float, ...]:
    """Accuracy of each split in percent; none without labels."""
    return tuple(100 * value for value in record["views"][view].get("probe", {}).get("accuracy", ()))


def _nmi(record: Record, view: str) -> tuple[float, ...]:
    found = record["views"][view].get("kmeans")
    return () if found is None else (100 * found["nmi"],)


def _of_graphs(
    options: Options,
    cells: Mapping[tuple[str, str], Cell],
    title: str,
    note: str,
    remarks: Sequence[str],
    usual: Sequence[str] = (),
) -> Table:
    from dssl.data.datasets import available

    graphs = graphs_of(options, usual or catalogue_graphs())
    missing = {name: "its files are not on this machine" for name in graphs if not available(name)}
    return Table(title, graphs, _columns(cells), cells, [note], remarks, missing=missing)


def _columns(cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    order = [*SANITY, *(name for name in METHODS if name != "dssl"), "paper-terms", "dssl, trained part", "dssl"]
    return sorted({column for _, column in cells}, key=order.index)


def _two_classes(graph: str) -> float | None:
    """Share of the larger of two classes; none for other graphs."""
    import numpy as np

    from dssl.data.datasets import available
    from dssl.data.load import load

    if not available(graph):
        return None
    y = load(graph).y
    counts = np.bincount(y[y >= 0]) if y is not None else np.zeros(0)
    return float(counts.max() / counts.sum()) if (counts > 0).sum() == 2 else None


def _points(table: Table) -> dict[tuple[str, str], tuple[float, float, float | None]]:
    """Mean, deviation and the paper's mean of each cell."""
    return {
        key: (cell.mean, cell.over_splits, None if cell.printed is None else cell.printed[0])
        for key, cell in table.cells.items()
    }


def _entropy(shares: Sequence[float]) -> float:
    return -math.fsum(share * math.log(share) for share in shares if share > 0)
