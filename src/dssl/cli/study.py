"""Commands that train many models: tune, compare, reproduce."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dssl.cli.app import Quiet, Read, app, parts, reads_graph


@app.command(rich_help_panel="Compare and reproduce")
@reads_graph
def tune(
    *,
    trials: Annotated[int, typer.Option(help="Settings to try in all, those of earlier calls included.")] = 20,
    select: Annotated[
        str, typer.Option(help="Criterion: validation, effective-rank, calinski-harabasz or loss.")
    ] = "validation",
    space: Annotated[str, typer.Option(help="What is varied: paper or wide.")] = "paper",
    epochs: Annotated[int | None, typer.Option(help="Epochs of every trial, in place of varying them.")] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with one thread.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="By default runs/GRAPH-METHOD-SEED-tune.")] = None,
    method: Annotated[str | None, typer.Option(help="Method that trains the encoder.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Kind of encoder, in place of varying it.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of every trial, which is not varied; repeatable."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Named settings to start from: default or paper.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Published settings to start from, or a .toml file.")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File with settings.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the search and of every training.")] = None,
    read: Read,
    quiet: Quiet = False,
) -> None:
    """Try settings on a graph and write the best as a recipe for `dssl fit`; the same command goes on if stopped."""
    from dssl.cli import output, progress
    from dssl.config.fields import locate
    from dssl.config.resolve import resolve
    from dssl.runs import run_folder
    from dssl.studies import search_space
    from dssl.studies import tune as tuning

    flags = {
        **read,
        "method.name": method,
        "encoder.name": encoder,
        "train.epochs": epochs,
        "preset": preset,
        "recipe": recipe,
        "seed": seed,
    }
    resolved = resolve(flags, file=config, settings=settings or [])
    given = [path for path, value in flags.items() if value is not None]
    given += [locate(text.partition("=")[0].strip()) for text in settings or []]
    folder = out or run_folder.default_folder(resolved).with_name(f"{run_folder.default_folder(resolved).name}-tune")
    with progress.Trials(trials, quiet=quiet) as shown:
        outcome = tuning.search(
            resolved,
            folder,
            trials=trials,
            varied=search_space.space(space, resolved, fixed=given),
            select=select,
            workers=workers,
            command=shlex.join(["dssl", *sys.argv[1:]]),
            on_trial=shown.trial,
        )
    output.tuned(outcome, source=resolved.graph.source, select=select, quiet=quiet)


@app.command(rich_help_panel="Compare and reproduce")
@reads_graph
def compare(
    *,
    methods: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Methods: a,b,c; sanity for the baselines; or all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each method.")] = 3,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of every method, in place of those of its recipe or its defaults.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits that each is judged on.")] = 10,
    protocol: Annotated[str, typer.Option(help="Splits: random, geom-gcn, linkx, heterophilous or public.")] = "random",
    links: Annotated[
        bool | None, typer.Option("--links/--no-links", help="Hide links and rank them; by default without labels.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the encoder or the training; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Trainings at a time; more make the seconds say less.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="By default runs/GRAPH-compare.")] = None,
    read: Read,
    directed: Annotated[
        bool | None, typer.Option("--directed/--undirected", help="Keep the direction of links.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train several methods on a graph and write one table; the same command goes on if stopped.

    Accuracy, NMI, seconds and memory of each method, beside baselines that need no training.
    """
    from dssl.cli import output, progress
    from dssl.config.resolve import parse, resolve
    from dssl.data.load import with_full_paths
    from dssl.runs import run_folder
    from dssl.studies.compare import ALL
    from dssl.studies.compare import compare as side_by_side

    resolved = resolve({**read, "graph.directed": directed})
    usual = run_folder.default_folder(resolved)
    folder = out or usual.with_name(usual.name.removesuffix("-dssl-0") + "-compare")
    with progress.Jobs("compare", quiet=quiet) as shown:
        found, written = side_by_side(
            with_full_paths(resolved.graph),
            folder,
            methods=parts(methods) or (ALL,),
            seeds=seeds,
            splits=splits,
            protocol=protocol,
            links=links,
            settings=parse([*([] if epochs is None else [f"epochs={epochs}"]), *(settings or [])]),
            workers=workers,
            on_plan=shown.plan,
            on_record=shown.record,
        )
    if not quiet:
        output.comparison(found)
    for path in written:
        typer.echo(path)


@app.command(rich_help_panel="Compare and reproduce")
def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(metavar="WHAT...", help="table1 to table7, published, factors, summary, figures, or all."),
    ],
    *,
    datasets: Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Graphs: a,b,c or repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Methods; sanity for baselines.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings per cell; by default 1, of table2 and published 3.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few epochs and splits, small graphs: does it work?")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where they and the records go.")] = Path("results"),
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 takes one per core.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Make tables and figures of the paper again: train what is not stored yet; write Markdown, CSV and pictures."""
    from dssl.cli import progress
    from dssl.studies.paper.plans import Options
    from dssl.studies.paper.reproduce import STUDIES
    from dssl.studies.paper.reproduce import reproduce as make

    options = Options(datasets=parts(datasets), methods=parts(methods), seeds=seeds, quick=quick)
    for name in STUDIES if "all" in what else what:
        with progress.Jobs(name, quiet=quiet) as shown:
            written = make(name, options, out, workers=workers, on_plan=shown.plan, on_record=shown.record)
        for path in written:
            typer.echo(path)
