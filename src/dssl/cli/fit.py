"""Commands that train a model and use it: fit, evaluate, embed, factors, pack."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dssl.cli.app import Quiet, Read, Run, WithSettings, app, reads_graph

if TYPE_CHECKING:
    from dssl.config.schema import GraphSettings
    from dssl.model.embeddings import Layout


@app.command(cls=WithSettings, rich_help_panel="Train and use")
@reads_graph
def fit(
    *,
    method: Annotated[str | None, typer.Option(help="Method that trains (see dssl methods).")] = None,
    encoder: Annotated[str | None, typer.Option(help="Kind of encoder.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over all nodes.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the table below; repeatable.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Named settings: default or paper.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Published settings (see dssl recipes), or a .toml file.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File with settings.")] = None,
    seed: Annotated[int | None, typer.Option(help="Every use of chance follows from it.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder; by default runs/GRAPH-METHOD-SEED.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run that is there already.")] = False,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Start from the weights and settings of a run, on a grown graph."),
    ] = None,
    read: Read,
    directed: Annotated[
        bool | None, typer.Option("--directed/--undirected", help="Keep the direction of links.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train on a graph and write a run folder; after an interruption, the same command goes on where it stopped.

    Several processes or machines train together when torchrun starts it: torchrun --nproc-per-node 2 -m dssl fit ...
    """
    from dssl.cli import output, progress
    from dssl.config.resolve import resolve
    from dssl.errors import ConfigError
    from dssl.runs import run_folder, workflow

    flags = {
        **read,
        "graph.directed": directed,
        "method.name": method,
        "encoder.name": encoder,
        "train.epochs": epochs,
        "preset": preset,
        "recipe": recipe,
        "seed": seed,
    }
    if start is not None and config is not None:
        raise ConfigError(f"--from takes its settings from {start}; leave out --config")
    if start is None:
        resolved = resolve(flags, file=config, settings=settings or [])
    else:
        resolved = workflow.continued(start, flags, settings or [])
    folder = out or run_folder.default_folder(resolved)
    from dssl.runtime import distributed  # not before the settings are known to be right: it takes a second

    with distributed.joined(resolved.train.device):
        first = distributed.rank() == 0
        with progress.Training(resolved.train.epochs, quiet=quiet or not first) as shown:
            outcome = workflow.fit(
                resolved,
                folder,
                overwrite=overwrite and not distributed.restarted(),
                command=shlex.join(["dssl", *sys.argv[1:]]),
                on_graph=shown.graph,
                on_epoch=shown.epoch,
            )
        if first:
            output.outcome(outcome, quiet=quiet)


@app.command(rich_help_panel="Train and use")
def evaluate(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, as `dssl fit` writes them.")],
    *,
    protocol: Annotated[
        str | None, typer.Option(help="Splits: random, geom-gcn, linkx, heterophilous or public.")
    ] = None,
    links: Annotated[
        bool | None, typer.Option("--links", help="Also train without some of the links, and rank those.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the evaluation, such as splits=5; repeatable."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Judge the vectors of a run beside simple baselines; writes evaluation.json, splits.npz and embedding.png.

    With several runs, those that differ in the seed alone are put together, and the spread over seeds is told apart
    from the spread over splits.
    """
    from dssl.cli import output, progress
    from dssl.runs import workflow

    results = {}
    for folder in folders:
        with progress.Stages(quiet=quiet, name=str(folder) if len(folders) > 1 else "") as stages:
            flags = {"evaluate.protocol": protocol, "evaluate.links": links}
            results[folder] = workflow.evaluate(folder, flags=flags, settings=settings or [], on_stage=stages.show)
    if quiet:
        return
    if len(folders) == 1:
        output.evaluation(folders[0], results[folders[0]])
    else:
        output.evaluations(results)


@app.command(rich_help_panel="Train and use")
@reads_graph
def embed(
    folder: Run,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output: .parquet, .csv or .npz.")],
    layout: Annotated[str, typer.Option(help="list: one vector column; columns: one column a dimension.")] = "list",
    read: Read,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a run, or those that its model gives to another GRAPH with the same feature columns."""
    from dssl.runs import workflow

    options = _other_graph(read)
    vectors = workflow.embed(folder, options)
    vectors.save(out, layout=cast("Layout", layout))
    if not quiet:
        count, dim = vectors.values.shape
        typer.echo(f"{out}: {count:,} vectors of length {dim}")


@app.command(rich_help_panel="Train and use")
@reads_graph
def factors(
    folder: Run,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Table of links: .parquet or .csv.")],
    nodes_out: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of nodes: .parquet or .csv.")] = None,
    layout: Annotated[str, typer.Option(help="list: one column q; columns: one column a factor.")] = "list",
    read: Read,
    quiet: Quiet = False,
) -> None:
    """Write how probable each factor is on each link of the fitted graph, or of another GRAPH, with its ids."""
    from dssl.runs import workflow

    options = _other_graph(read)
    found = workflow.factors(folder, options)
    found.save(out, nodes=nodes_out, layout=cast("Layout", layout))
    if not quiet:
        count, number = found.links.shape
        typer.echo(f"{out}: {number} factors on {count:,} links as the model sees them, by default both ways")
        if nodes_out is not None:
            typer.echo(f"{nodes_out}: {number} factors at {len(found.nodes):,} nodes")


@app.command(rich_help_panel="Train and use")
@reads_graph
def pack(
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: read a packed GRAPH and compare its checksums.")
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Run, or packed graph, whose means and categories the features are made with."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a packed graph that is there already.")
    ] = False,
    read: Read,
    directed: Annotated[
        bool | None, typer.Option("--directed/--undirected", help="Keep the direction of links.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a graph as a folder of arrays that fit and embed read from disk as they need them."""
    from dssl.data.load import read_graph
    from dssl.errors import RunError
    from dssl.graph import packed
    from dssl.runs import workflow

    options = _other_graph(read)
    if options is None:
        raise RunError("no graph is named; give a file of edges, any other graph, or with --check a packed one")
    if check:
        total = packed.check(options.source)
        if not quiet:
            typer.echo(f"{options.source}: {total:,} bytes, all as they were written")
        return
    if out is None:
        raise RunError("no folder is named; say with -o where the packed graph goes")
    if directed is not None:
        options = options.model_copy(update={"directed": directed})
    made = read_graph(options, encoding=None if like is None else workflow.encoding_of(like))
    packed.pack(made, out, overwrite=overwrite)
    if not quiet:
        typer.echo(f"{out}: {made}")


def _other_graph(read: Read) -> GraphSettings | None:
    """The settings of a graph other than the fitted one, if one is given."""
    from dssl.config.resolve import resolve

    return None if read["graph.source"] is None else resolve(read).graph
