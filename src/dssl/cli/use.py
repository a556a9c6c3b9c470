"""Commands that use a run: evaluate, embed, factors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dssl.cli.app import (
    ClassWeight,
    Labels,
    Measure,
    OutFile,
    Protocol,
    Quiet,
    Read,
    Run,
    Runs,
    Separate,
    Settings,
    app,
    note,
    other_graph,
    reads_graph,
)

if TYPE_CHECKING:
    from dssl.config.schema import GraphSettings
    from dssl.model.embeddings import Layout

PANEL = "Use"


@app.command(rich_help_panel=PANEL)
def evaluate(
    folders: Runs,
    *,
    protocol: Protocol = None,
    labels: Labels = None,
    measure: Measure = None,
    class_weight: ClassWeight = None,
    links: Annotated[
        bool | None,
        typer.Option("--links", help="Also report link prediction: hold out 15% of the edges, retrain, rank them."),
    ] = None,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Evaluate the vectors of a run and training-free baselines; write evaluation.json, splits.npz and embedding.png.

    Runs that differ in the seed alone are grouped, with the spread over seeds separate from the spread over splits.
    """
    from dssl.cli import output, progress
    from dssl.runs import workflow

    results = {}
    for folder in folders:
        with progress.Progress(str(folder) if len(folders) > 1 else "", quiet=quiet) as shown:
            flags = {
                "evaluate.protocol": protocol,
                "evaluate.labels": labels,
                "evaluate.measure": measure,
                "evaluate.class_weight": class_weight,
                "evaluate.links": links,
            }
            results[folder] = workflow.evaluate(folder, flags=flags, settings=settings or [], on_stage=shown.stage)
    if quiet:
        return
    if len(folders) == 1:
        output.evaluation(folders[0], results[folders[0]])
    else:
        output.evaluations(results)


@app.command(rich_help_panel=PANEL)
@reads_graph
def embed(
    folder: Run,
    *,
    out: OutFile,
    layout: Annotated[
        str, typer.Option(help="One column of vectors (list), or one column per dimension (columns).")
    ] = "list",
    separate: Separate = False,
    read: Read,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a run, of new nodes, or of another graph.

    Edge files hold new edges and new nodes: the vectors of the new nodes are computed in the context of the fitted
    graph. Any other GRAPH, and files with --separate, are a whole graph with the same feature columns.
    """
    from dssl.runs import transform

    options = other_graph(read)
    if options is not None and _is_addition(options, separate):
        vectors = transform.embed_new(folder, options, on_note=note)
    else:
        vectors = transform.embed(folder, options, on_note=note)
    vectors.save(out, layout=cast("Layout", layout))
    if not quiet:
        count, dim = vectors.values.shape
        typer.echo(f"{out}: {count:,} vectors of length {dim}")


def _is_addition(options: GraphSettings, separate: bool) -> bool:
    """Whether a graph is made of files with new edges and nodes."""
    from dssl.data.load import is_file

    return is_file(options.source) and not separate


@app.command(rich_help_panel=PANEL)
@reads_graph
def factors(
    folder: Run,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Table of links: .parquet or .csv.")],
    nodes_out: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of nodes: .parquet or .csv.")] = None,
    layout: Annotated[str, typer.Option(help="One column q (list), or one column per factor (columns).")] = "list",
    separate: Separate = False,
    read: Read,
    quiet: Quiet = False,
) -> None:
    """Write the probability of each factor on each link of the fitted graph, of new nodes, or of another graph.

    GRAPH and --separate are as for embed; of new nodes, all links are written.
    """
    from dssl.runs import transform

    options = other_graph(read)
    if options is not None and _is_addition(options, separate):
        found = transform.new_factors(folder, options, on_note=note)
    else:
        found = transform.factors(folder, options, on_note=note)
    found.save(out, nodes=nodes_out, layout=cast("Layout", layout))
    if not quiet:
        count, number = found.links.shape
        typer.echo(f"{out}: {number} factors on {count:,} links, by default in both directions")
        if nodes_out is not None:
            typer.echo(f"{nodes_out}: {number} factors at {len(found.nodes):,} nodes")
