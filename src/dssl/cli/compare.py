"""Commands that train many models: compare, tune, reproduce."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dssl.cli.app import (
    ClassWeight,
    ConfigFile,
    Directed,
    Encoder,
    Epochs,
    Json,
    Labels,
    Measure,
    Method,
    Names,
    Preset,
    Protocol,
    Quiet,
    Read,
    Recipe,
    Seed,
    Settings,
    Workers,
    app,
    parts,
    reads_graph,
    training_flags,
)

PANEL = "Compare"


@app.command(rich_help_panel=PANEL)
@reads_graph
def tune(
    *,
    trials: Annotated[int, typer.Option(help="Number of trials, including those of earlier calls.")] = 20,
    select: Annotated[
        str, typer.Option(help="Criterion: validation, effective-rank, calinski-harabasz or loss.")
    ] = "validation",
    space: Annotated[str, typer.Option(help="Search space: paper or wide.")] = "paper",
    epochs: Epochs = None,
    workers: Annotated[int, typer.Option(help="Parallel processes, one thread each.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Output folder; default runs/GRAPH-METHOD-SEED-tune.")
    ] = None,
    method: Method = None,
    encoder: Encoder = None,
    settings: Settings = None,
    preset: Preset = None,
    recipe: Recipe = None,
    config: ConfigFile = None,
    seed: Seed = None,
    read: Read,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for settings on a graph and write the best as a recipe for `dssl fit`; the same command resumes.

    Settings that are given are the same in every trial, the others of the search space are varied.
    """
    from dssl.cli import json_output, output, progress
    from dssl.config.fields import locate
    from dssl.config.resolve import resolve
    from dssl.runs import run_folder
    from dssl.studies import search_space
    from dssl.studies import tune as tuning

    flags = training_flags(read, method=method, encoder=encoder, epochs=epochs, preset=preset, recipe=recipe, seed=seed)
    resolved = resolve(flags, file=config, settings=settings or [])
    given = [*flags, *(locate(text.partition("=")[0].strip()) for text in settings or [])]
    folder = out or run_folder.default_folder(resolved.graph.source, resolved.method.name, resolved.seed, "tune")
    with progress.Progress("trial", quiet=quiet) as shown:
        shown.plan(trials)
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
    if as_json:
        json_output.tuned(outcome, select)
    else:
        output.tuned(outcome, graph=resolved.graph, select=select, quiet=quiet)


@app.command(rich_help_panel=PANEL)
@reads_graph
def compare(
    *,
    methods: Names = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings per method.")] = 3,
    epochs: Epochs = None,
    splits: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 10,
    protocol: Protocol = None,
    labels: Labels = None,
    measure: Measure = None,
    class_weight: ClassWeight = None,
    links: Annotated[
        bool | None,
        typer.Option("--links/--no-links", help="Hold out 15% of the edges and rank them; default: without labels."),
    ] = None,
    settings: Settings = None,
    workers: Annotated[int, typer.Option(min=1, help="Parallel trainings. Timings are only comparable with 1.")] = 1,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Output folder; default runs/GRAPH-compare.")
    ] = None,
    read: Read,
    directed: Directed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train several methods on a graph and write one table; the same command resumes.

    Accuracy, NMI, time and memory of each method and of the training-free baselines.
    """
    from dssl.cli import json_output, output, progress
    from dssl.config.resolve import parse, resolve
    from dssl.data.load import with_full_paths
    from dssl.runs import run_folder
    from dssl.studies.compare import ALL
    from dssl.studies.compare import compare as side_by_side

    asked = {
        "graph.directed": directed,
        "evaluate.protocol": protocol,
        "evaluate.labels": labels,
        "evaluate.measure": measure,
        "evaluate.class_weight": class_weight,
    }
    resolved = resolve({**read, **asked})
    terms = resolved.evaluate
    folder = out or run_folder.default_folder(resolved.graph.source, "compare")
    with progress.Progress("compare", quiet=quiet) as shown:
        found, written = side_by_side(
            with_full_paths(resolved.graph),
            folder,
            methods=parts(methods) or (ALL,),
            seeds=seeds,
            splits=splits,
            protocol=terms.protocol,
            labels=terms.labels,
            measure=None if terms.measure == "auto" else terms.measure,
            class_weight=terms.class_weight,
            links=links,
            settings=parse([*([] if epochs is None else [f"epochs={epochs}"]), *(settings or [])]),
            workers=workers,
            on_plan=shown.plan,
            on_record=shown.record,
        )
    if as_json:
        json_output.comparison(found, written)
        return
    if not quiet:
        output.comparison(found)
    for path in written:
        typer.echo(path)


@app.command(rich_help_panel=PANEL)
def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...", help="table1 to table7, published, factors, summary, regret, kinds, figures, or all."
        ),
    ],
    *,
    datasets: Annotated[
        list[str] | None, typer.Option("--datasets", "--graphs", metavar="NAMES", help="Graphs: a,b,c; default: all.")
    ] = None,
    methods: Names = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Trainings per cell; default 1, for table2, published and regret 3.")
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Rows of regret: names, methods or baselines.")
    ] = None,
    budget: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Columns of regret: 60%, 5%, 1%, 20/class, nmi, ….")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smoke test: 10 epochs, 3 splits, small graphs.")] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="Tables from stored records alone; nothing is trained.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the tables and records.")] = Path("results"),
    workers: Workers = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the paper's tables and figures; only missing runs are trained."""
    from dssl.cli import json_output, progress
    from dssl.studies.paper.plans import Options
    from dssl.studies.paper.reproduce import STUDIES
    from dssl.studies.paper.reproduce import reproduce as make

    options = Options(
        datasets=parts(datasets),
        methods=parts(methods),
        seeds=seeds,
        quick=quick,
        rows=parts(rows),
        budgets=parts(budget),
    )
    files: list[Path] = []
    for name in STUDIES if "all" in what else what:
        with progress.Progress(name, quiet=quiet) as shown:
            written = make(
                name, options, out, workers=workers, stored=stored, on_plan=shown.plan, on_record=shown.record
            )
        files += written
        for path in () if as_json else written:
            typer.echo(path)
    if as_json:
        json_output.print_json({"files": files})
