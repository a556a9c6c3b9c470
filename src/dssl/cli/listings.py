"""Listings: an inspected graph, the data sets, the methods, the recipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from dssl.cli.output import console, graph_line, pairs
from dssl.cli.progress import number

if TYPE_CHECKING:
    from dssl.data.inspection import Inspection


def inspection(found: Inspection) -> None:
    """Print the size of a graph, its degrees, and the columns of its node table."""
    out, shown = console(), found.summary
    out.print(graph_line(shown))
    quantiles = ", ".join(f"{float(q):.0%} {value:,.0f}" for q, value in shown["degree_quantiles"].items())
    out.print(
        f"components {shown['components']:,}, isolated nodes {shown['isolated_nodes']:,}; degree quantiles {quantiles}"
    )
    if found.spectrum is not None:
        out.print(_spectrum_line(found.spectrum))
    for change in found.changes:
        out.print(escape(change))
    if not found.columns:
        return
    table = Table("column", "stored as", "missing", "type", "encoding", "homophily", box=None, pad_edge=False)
    for column in found.columns:
        score = "" if column.homophily is None else f"{column.homophily:+.2f}"
        missing = f"{column.missing:.0%}" if column.missing else ""
        table.add_row(*map(escape, (column.name, column.stored, missing, column.kind, column.encoding, score)))
    out.print(table)
    out.print("homophily: adjusted, if the column were the label; change a type with --column NAME=TYPE")


def _spectrum_line(found: Mapping[str, float]) -> str:
    count = int(found["directions"])
    ends = f", from {found['smallest']:+.2f} to {found['largest']:+.2f}" if count else ""
    plural = "" if count == 1 else "s"
    return f"homophily without labels: {count} direction{plural} of the features above chance{ends} (docs/topics.md)"


def _spectrum_cells(found: Mapping[str, float] | None) -> list[str]:
    if found is None:
        return ["–"] * 3
    return [f"{found['directions']}", *(f"{found[end]:+.2f}" for end in ("smallest", "largest"))]


def datasets(name: str | None) -> None:
    """Print the known graphs, or one of them compared with the paper's figures."""
    from dssl.data import datasets as known

    out = console()
    if name is None:
        names = ("nodes", "edges", "features", "classes")
        measures = ("edge_homophily", "class_average_homophily", "node_homophily", "adjusted_homophily")
        other = ("h", "ĥ", "node", "adjusted", "duplicates", "directions", "from", "to", "here")
        table = Table("name", *names, *other, box=None, pad_edge=False)
        for entry in known.catalogue():
            figures = [number(entry[key]) for key in (*names, *measures, "duplicates")]
            table.add_row(entry["name"], *figures, *_spectrum_cells(entry["spectrum"]), "yes" if entry["raw"] else "no")
        out.print(table)
        out.print("directions, from, to: homophily of the features, without labels (docs/topics.md)")
        out.print("also: python:PACKAGE (python:stdlib), synthetic:h=0.25,nodes=10000, or a file of edges")
        return
    dataset = known.find(name)
    table = Table(escape(dataset.name), "measured", "paper", "", box=None, pad_edge=False)
    for row in known.compare(name):
        agrees = {None: "", True: "as published", False: "differs"}[row.agrees]
        table.add_row(row.quantity.replace("_", " "), number(row.ours), number(row.paper), agrees)
    out.print(table)
    if (spectrum := known.spectrum(dataset.name)) is not None:
        out.print(_spectrum_line(spectrum))
    for text in (dataset.note, f"from {dataset.origin}"):
        if text:
            out.print(escape(text), highlight=False, soft_wrap=True)


def methods(only: str | None = None) -> None:
    """Print the methods, or one of them, with the abilities of each."""
    from dssl.config.methods import METHODS

    traits = ("inductive", "features", "directed", "weighted")
    table = Table("name", *traits, "a step costs", "published", box=None, pad_edge=False)
    for name in METHODS if only is None else (only,):
        known = METHODS[name].traits
        marks = ["yes" if getattr(known, trait) else "no" for trait in traits]
        table.add_row(name, *marks, known.scales, known.citation)
    console().print(table, highlight=False)


def recipes() -> None:
    """Print the packaged recipes: name, title, and the data sets with the published accuracy."""
    from dssl.config import recipes as packaged

    for name in packaged.recipes():
        recipe = packaged.read_recipe(name)
        table = pairs()
        table.add_row(escape(name), escape(recipe.header.title))
        for text in (recipe.header.source, recipe.header.notes):
            if text:
                table.add_row("", escape(text))
        numbers = recipe.header.paper
        known = [f"{each} {numbers[each]:g}" if each in numbers else each for each in recipe.names]
        table.add_row("", escape(f"data sets: {', '.join(known)}"))
        if public := recipe.header.published:
            table.add_row("", escape(f"public split: {', '.join(f'{each} {public[each]:g}' for each in public)}"))
        console().print(table, highlight=False)
