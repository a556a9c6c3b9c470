"""The paper's tables, from stored records: ``dssl reproduce table1``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import entr

from dssl.config.methods import METHODS
from dssl.config.recipes import read_recipe, recipes
from dssl.data.datasets import available, compare
from dssl.data.load import load
from dssl.graph import statistics as graph_statistics
from dssl.studies.entries import AS_PRINTED, PAPER_TERMS, SANITY, TRAINED, Printed, Results, cells
from dssl.studies.paper import numbers
from dssl.studies.paper.authors_code import on_public_splits, on_random_splits
from dssl.studies.paper.plans import (
    ABLATION_GRAPHS,
    ABLATIONS,
    BASES,
    PLANETOID,
    PUBLIC_WIDTH,
    Options,
    ablation_column,
    catalogue_graphs,
    graphs_of,
    synthetic_spec,
)
from dssl.studies.results_table import Cell, PlainTable, Table

BEST = "best without training"
BARS = {"effective rank / 64": (0.25, 1.0), "posterior entropy": (0.1, 0.9), "largest usage": (0.0, 0.6)}
Build = Callable[[Options, Results], Table]


def classification(options: Options, results: Results) -> Table:
    """Table 1: accuracy of the linear probe."""
    found = cells(results, "accuracy", _printed(numbers.CLASSIFICATION, dssl=PAPER_TERMS))
    remarks = [remark for graph in graphs_of(options, catalogue_graphs()) if (remark := _verdict(graph, found))]
    return _of_graphs(
        options,
        found,
        "Table 1: node classification, accuracy in percent",
        "Linear probe on frozen embeddings, ten random 60/20/20 splits, strength and scaling chosen on validation; ± "
        "is the standard deviation over splits. `dssl` is the default: 64 columns, made of the closed form and the "
        "trained vector. `trained part` is the trained vector alone, `paper-terms` our loss on the paper's encoder, a "
        "two-layer GCN of 64 columns, and `as printed` the paper's Algorithm 1 (`preset = paper`) on it. The paper's "
        "DSSL is compared with `paper-terms`.",
        remarks,
    )


def clustering(options: Options, results: Results) -> Table:
    """Table 5: normalised mutual information of k-means."""
    found = cells(results, "nmi", _printed(numbers.CLUSTERING, dssl=PAPER_TERMS))
    remarks = []
    for (graph, column), cell in found.items():
        if column == PAPER_TERMS and cell.printed and (labels := _two_classes(graph)) is not None:
            accuracy = numbers.CLASSIFICATION["dssl"][graph][0] / 100
            bound = 100 * nmi_of_errors(labels, accuracy)
            remarks.append(
                f"{graph}: the paper prints an NMI of {cell.printed[0]:.1f}% for two clusters and an accuracy of "
                f"{100 * accuracy:.1f}% for a classifier that saw labels; a partition into two with that accuracy and "
                f"errors in equal fractions of both classes has an NMI of {bound:.1f}%. We measure {cell.mean:.1f}%."
            )
    return _of_graphs(
        options,
        found,
        "Table 5: node clustering, normalised mutual information in percent",
        "k-means with as many clusters as classes on the embeddings of Table 1, best of ten starts.",
        remarks,
    )


def nmi_of_errors(share: float, accuracy: float) -> float:
    """NMI of a partition into two with equal error rates in both classes; the larger class is a fraction ``share``.

    >>> nmi_of_errors(0.5, 1.0), round(nmi_of_errors(0.5, 0.7), 3)
    (1.0, 0.119)
    """
    table = np.outer([share, 1 - share], [accuracy, 1 - accuracy])
    table[1] = table[1, ::-1]
    joint, first, second = (entr(part).sum() for part in (table, table.sum(axis=1), table.sum(axis=0)))
    return float((first + second - joint) / ((first + second) / 2))


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


def summary(options: Options, results: Results) -> Table:
    """The summary: DSSL and the best training-free baseline on each graph."""
    every = cells(results, "accuracy")
    found: dict[tuple[str, str], Cell] = {}
    for graph in dict.fromkeys(graph for graph, _ in every):
        sanity = [every[graph, name] for name in SANITY if (graph, name) in every]
        if sanity:
            found[graph, BEST] = max(sanity, key=lambda cell: cell.mean)
        for column in ("dssl", TRAINED, PAPER_TERMS):
            if (graph, column) in every:
                found[graph, column] = every[graph, column]
        printed = numbers.CLASSIFICATION["dssl"].get(graph)
        if printed is not None:
            found[graph, "paper's DSSL"] = Cell(((printed[0],),))
    columns = ["paper's DSSL", PAPER_TERMS, BEST, TRAINED, "dssl"]
    return Table(
        "Accuracy of a linear probe, in percent",
        [
            graph
            for graph in graphs_of(options, catalogue_graphs())
            if any((graph, column) in found for column in columns)
        ],
        [column for column in columns if any((graph, column) in found for graph, _ in found)],
        found,
        ["From the records of Table 1, which has every baseline and describes the columns."],
    )


def published(options: Options, results: Results) -> Table:
    """Accuracy on the public splits of Planetoid, next to the published accuracy of each method."""
    headers = {
        method: read_recipe(method).header
        for method in dict.fromkeys(entry.column for entry, _ in results)
        if method in recipes()
    }
    printed = {
        (graph, method): (value, 0.0) for method, header in headers.items() for graph, value in header.published.items()
    }
    authors = {(graph, method): pair for method, header in headers.items() for graph, pair in header.authors.items()}
    wide = {(graph, method): pair for method, header in headers.items() for graph, pair in header.wide.items()}
    found = cells(results, "accuracy", printed)
    table = _of_graphs(
        options,
        found,
        "The public splits of Planetoid, accuracy in percent",
        "Twenty labelled nodes per class train the linear probe, 500 choose its strength and scaling, 1,000 test it. "
        "Settings are those of `METHOD:GRAPH-public`: wide vectors, as in the methods' own papers. `dssl` has its "
        f"defaults and {PUBLIC_WIDTH} columns. `dssl recipes` names the source of each published number; a method "
        "without one is in the first table alone.",
        [],
        PLANETOID,
    )
    return replace(table, sections=[*on_public_splits(authors, found), *on_random_splits(wide, found)])


def factors(options: Options, results: Results) -> Table:
    """Collapse statistics of representation and factors, and whether factors follow the classes (section 4.4)."""
    found: dict[tuple[str, str], Cell] = {}
    for entry, record in results:
        if entry.column != "dssl" or not record.health:
            continue
        health, alike = record.health, record.class_similarity
        figures = {
            "effective rank / 64": (health["effective_rank"] or 0.0) / 64,
            "posterior entropy": health["posterior_entropy"],
            "largest usage": health["factor_usage_max"],
            "class similarity": alike.get("with_diagonal"),
            "without diagonal": alike.get("without_diagonal"),
        }
        for name, value in figures.items():
            if value is not None:
                found[entry.row, name] = found.get((entry.row, name), Cell(())).plus((value,))
    remarks = [
        f"{graph}: {name} is {cell.mean:.2f}, outside {BARS[name][0]:g} to {BARS[name][1]:g}."
        for (graph, name), cell in found.items()
        if name in BARS and not BARS[name][0] <= cell.mean <= BARS[name][1]
    ]
    return PlainTable(
        "The factors of the default preset",
        graphs_of(options, catalogue_graphs()),
        list(dict.fromkeys(column for _, column in found)),
        found,
        [
            "Of the last epoch: effective rank of the trained columns, mean entropy of a link's posterior as a "
            "fraction of ln K, fraction of links of the most used factor. Then the correlation, over pairs of classes, "
            "between the similarity of their mean posteriors and the cross-class neighbourhood similarity, with pairs "
            "of a class with itself and without (which needs three classes)."
        ],
        remarks or ["Every graph is within the bars: rank at least 0.25, entropy 0.1 to 0.9, usage at most 0.6."],
    )


def ablations(options: Options, results: Results) -> Table:
    """Table 2: the contribution of each part of the loss."""
    printed = {(row, ablation_column("texas", PAPER_TERMS)): number for row, number in numbers.ABLATIONS.items()}
    order = list(ABLATIONS)
    found = cells(sorted(results, key=lambda pair: order.index(pair[0].row)), "accuracy", printed)
    columns = [ablation_column(graph, base) for graph in graphs_of(options, ABLATION_GRAPHS) for base in BASES]
    remarks = []
    for column in columns:
        full = found.get(("full", column))
        if full is None:
            continue
        noise = math.hypot(full.over_seeds, full.over_splits / math.sqrt(len(full.values[0])))
        worse = [row for row in order if (row, column) in found and found[row, column].mean < full.mean - noise]
        better = [row for row in order if (row, column) in found and found[row, column].mean > full.mean + noise]
        remarks.append(
            f"{column}: worse than the full model by more than {noise:.1f}: {', '.join(worse) or 'none'}; "
            f"better: {', '.join(better) or 'none'}."
        )
    return Table(
        "Table 2: ablations, accuracy of the linear probe in percent",
        order,
        columns,
        found,
        [
            "`as printed` is the paper's Algorithm 1 (`preset = paper`), `paper-terms` our loss on its encoder, "
            "`raw features` our default on raw features. The decoder of the features stays in all but `as printed`."
        ],
        remarks,
        corner="ablation",
        compares_rows=True,
    )


def gat(options: Options, results: Results) -> Table:
    """Table 3: GAT encoders."""
    note = "As Table 1 with a two-layer GAT of 64 columns; DSSL with the settings of `paper-terms`."
    found = cells(results, "accuracy", _printed(numbers.GAT))
    return _of_graphs(options, found, "Table 3: GAT encoders, accuracy in percent", note, [], numbers.GRAPHS)


def statistics(options: Options, _: Results) -> Table:
    """Table 4: figures of the data sets, next to the paper's."""
    found: dict[tuple[str, str], Cell] = {}
    remarks = []
    for graph in graphs_of(options, numbers.GRAPHS):
        for line in compare(graph):
            if line.ours is not None:
                printed = None if line.paper is None else (float(line.paper), 0.0)
                found[graph, line.quantity] = Cell(((float(line.ours),),), printed)
            if line.agrees is False:
                remarks.append(f"{graph}: {line.quantity} is {line.ours}, the paper prints {line.paper}.")
    return PlainTable(
        "Table 4: the data sets",
        graphs_of(options, numbers.GRAPHS),
        list(dict.fromkeys(column for _, column in found)),
        found,
        ["Measured on the files of this machine; where they are not here, on the published ones."],
        remarks,
    )


def synthetic_statistics(options: Options, _: Results) -> Table:
    """Table 6: figures of the synthetic graphs."""
    found = {}
    quantities = ("nodes", "edges", "classes", "features", "edge_homophily")
    for h in numbers.HOMOPHILY:
        figures = graph_statistics.summary(load(synthetic_spec(h, quick=options.quick)))
        for quantity in quantities:
            found[f"h = {h:g}", quantity] = Cell(((float(figures[quantity]),),))
    return PlainTable(
        "Table 6: the synthetic graphs",
        [f"h = {h:g}" for h in numbers.HOMOPHILY],
        quantities,
        found,
        [
            "Preferential attachment with a compatibility of the classes, as syn-products; the paper prints 10,000 "
            "nodes, 59,640 to 59,648 edges, 10 classes, 100 features. The features are "
            "Gaussian, not those of ogbn-products."
        ],
    )


def synthetic_results(_: Options, results: Results) -> Table:
    """Table 7: accuracy over the range of homophily."""
    found = cells(results, "accuracy", _printed(numbers.SYNTHETIC, dssl=TRAINED))
    return Table(
        "Table 7: the synthetic graphs, accuracy in percent",
        [f"{h:g}" for h in numbers.HOMOPHILY],
        _columns(found),
        found,
        [
            "As Table 1 with splits of 25/25/50. The paper's graphs have features of ogbn-products, ours Gaussian "
            "ones: its numbers are of another task, and only the shape over h can be compared."
        ],
        corner="h",
    )


def _printed(table: numbers.Printed, *, dssl: str = "dssl") -> Printed:
    """The paper's numbers by row and column; ``dssl`` is the column of ours that its DSSL is compared with."""
    return {
        (graph, dssl if method == "dssl" else method): number
        for method, row in table.items()
        for graph, number in row.items()
    }


def _of_graphs(
    options: Options,
    found: Mapping[tuple[str, str], Cell],
    title: str,
    note: str,
    remarks: Sequence[str],
    usual: Sequence[str] = (),
) -> Table:
    graphs = graphs_of(options, usual or catalogue_graphs())
    missing = {name: "its files are not on this machine" for name in graphs if not available(name)}
    return Table(title, graphs, _columns(found), found, [note], remarks, missing=missing)


def _columns(found: Mapping[tuple[str, str], Cell]) -> list[str]:
    order = [*SANITY, *(name for name in METHODS if name != "dssl"), AS_PRINTED, PAPER_TERMS, TRAINED, "dssl"]
    return sorted({column for _, column in found}, key=order.index)


def _two_classes(graph: str) -> float | None:
    """Fraction of the larger of two classes; none for other graphs."""
    if not available(graph):
        return None
    y = load(graph).y
    counts = np.bincount(y[y >= 0]) if y is not None else np.zeros(0)
    return float(counts.max() / counts.sum()) if (counts > 0).sum() == 2 else None
