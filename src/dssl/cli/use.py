"""Commands that use a run: evaluate, embed, factors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dssl.cli.app import (
    ClassWeight,
    Json,
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
    from dssl.runs.records import Evaluation

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
    targets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table of ids and numbers to predict in place of classes (R²); needs --target."
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(metavar="NAME", help="Column of --targets with the numbers.")] = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate the vectors of a run and training-free baselines; write evaluation.json, splits.npz and embedding.png.

    Runs that differ in the seed alone are grouped, with the spread over seeds separate from the spread over splits.
    """
    from dssl.cli import json_output, output, progress
    from dssl.errors import ConfigError
    from dssl.runs import workflow

    flags = {
        "evaluate.protocol": protocol,
        "evaluate.labels": labels,
        "evaluate.measure": measure,
        "evaluate.class_weight": class_weight,
        "evaluate.links": links,
    }
    if targets is None and target is not None:
        raise ConfigError(f"--target {target} is a column of a table; name the table with --targets")
    for name, value in {**flags, "--set": settings}.items() if targets is not None else ():
        if value is not None:
            raise ConfigError(f"{name} has no effect on numbers, which --targets predicts; leave one of them out")
    results: dict[Path, Evaluation] = {}
    for folder in folders:
        with progress.Progress(str(folder) if len(folders) > 1 else "", quiet=quiet) as shown:
            if targets is not None:
                from dssl.runs import targets as numbers

                results[folder] = numbers.evaluate(folder, targets, target or "", on_stage=shown.stage)
            else:
                results[folder] = workflow.evaluate(folder, flags=flags, settings=settings or [], on_stage=shown.stage)
    if as_json:
        json_output.print_json({str(folder): result for folder, result in results.items()})
        return
    if quiet:
        return
    if targets is not None:
        for folder, result in results.items():
            output.regression(folder, result)
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
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a run, of new nodes, or of another graph.

    Edge files hold new edges and new nodes: the vectors of the new nodes are computed in the context of the fitted
    graph. Any other GRAPH, and files with --separate, are a whole graph with the same feature columns.
    """
    from dssl.cli import json_output
    from dssl.runs import transform

    options = other_graph(read)
    if options is not None and _is_addition(options, separate):
        vectors = transform.embed_new(folder, options, on_note=note)
    else:
        vectors = transform.embed(folder, options, on_note=note)
    vectors.save(out, layout=cast("Layout", layout))
    count, dim = vectors.values.shape
    text = f"{out}: {count:,} vectors of length {dim}"
    json_output.result({"file": str(out), "vectors": count, "dim": dim}, text, as_json=as_json, quiet=quiet)


def _is_addition(options: GraphSettings, separate: bool) -> bool:
    """Whether a graph is made of files with new edges and nodes."""
    from dssl.data.load import is_file

    return is_file(options.source) and not separate


@app.command(rich_help_panel=PANEL)
def similar(
    folder: Run,
    node: Annotated[str, typer.Argument(metavar="ID", help="Node id.")],
    *,
    top: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 10,
    as_json: Json = False,
) -> None:
    """List the nodes with the most similar vectors, by cosine."""
    from dssl.cli import json_output
    from dssl.runs.run_folder import read_embeddings

    vectors = read_embeddings(folder)
    whole = str(vectors.ids.type) == "int64" and re.fullmatch(r"-?\d{1,19}", node) and abs(int(node)) < 2**63
    found = vectors.most_similar(int(node) if whole else node, top)
    if as_json:
        json_output.print_json({"id": node, "similar": [{"id": other, "cosine": cosine} for other, cosine in found]})
    else:
        for other, cosine in found:
            typer.echo(f"{cosine:.3f}  {other}")


@app.command(rich_help_panel=PANEL)
def align(
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Run folder or file with the new vectors.")],
    *,
    old: Annotated[Path, typer.Option("--to", metavar="OLD", help="Run folder or file with the old vectors.")],
    out: OutFile,
    limit: Annotated[float, typer.Option(help="Cosine below which a node counts as moved.")] = 0.8,
    moved: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of id and cosine of all shared nodes: .parquet or .csv.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Rotate new vectors into the axes of old ones, and report the nodes that moved."""
    from dataclasses import asdict

    from dssl.cli import json_output, output
    from dssl.model import alignment
    from dssl.model.embeddings import Embeddings, check_ending, write_table
    from dssl.runs.run_folder import read_embeddings

    if moved is not None:
        check_ending(moved, (".parquet", ".csv"))
    first, second = (
        Embeddings.load(path) if path.suffix and not path.is_dir() else read_embeddings(path) for path in (new, old)
    )
    aligned, drift = alignment.align(first, second, limit=limit)
    aligned.save(out)
    if moved is not None:
        write_table(moved, alignment.cosines(aligned, second))
    if as_json:
        json_output.print_json({"file": str(out), **asdict(drift)})
    else:
        output.drift(drift, out)


@app.command(rich_help_panel=PANEL)
@reads_graph
def factors(
    folder: Run,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Table of links: .parquet or .csv.")],
    nodes_out: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of nodes: .parquet or .csv.")] = None,
    layout: Annotated[str, typer.Option(help="One column q (list), or one column per factor (columns).")] = "list",
    kinds: Annotated[
        bool, typer.Option("--kinds", help="Write the kind of each link instead; for a run with teach=kinds.")
    ] = False,
    separate: Separate = False,
    read: Read,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the probability of each factor on each link of the fitted graph, of new nodes, or of another graph.

    GRAPH and --separate are as for embed; of new nodes, all links are written.
    """
    from dssl.cli import json_output
    from dssl.runs import transform

    options = other_graph(read)
    if options is not None and _is_addition(options, separate):
        found = transform.new_factors(folder, options, on_note=note)
    else:
        found = transform.factors(folder, options, on_note=note)
    if kinds:
        count = transform.save_kinds(folder, found, out)
        text = f"{out}: kinds of {count:,} links"
        json_output.result({"file": str(out), "links": count}, text, as_json=as_json, quiet=quiet)
        return
    found.save(out, nodes=nodes_out, layout=cast("Layout", layout))
    count, number = found.links.shape
    names = [str(each) for each in (found.describe() if found.graph is not None else ())]
    files = {"file": str(out), "nodes_file": None if nodes_out is None else str(nodes_out)}
    lines = [f"{out}: {number} factors on {count:,} links, by default in both directions"]
    if nodes_out is not None:
        lines.append(f"{nodes_out}: {number} factors at {len(found.nodes):,} nodes")
    values = {**files, "links": count, "factors": number, "names": names}
    json_output.result(values, "\n".join([*lines, *names]), as_json=as_json, quiet=quiet)
