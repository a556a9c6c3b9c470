"""Commands that train: fit, pack."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dssl.cli.app import (
    ConfigFile,
    Directed,
    Encoder,
    Epochs,
    Json,
    Method,
    Overwrite,
    Preset,
    Quiet,
    Read,
    Recipe,
    Seed,
    Settings,
    WithSettings,
    app,
    note,
    other_graph,
    reads_graph,
    training_flags,
)

if TYPE_CHECKING:
    from dssl.graph import Graph

PANEL = "Train"


@app.command(cls=WithSettings, rich_help_panel=PANEL)
@reads_graph
def fit(
    *,
    method: Method = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    settings: Settings = None,
    preset: Preset = None,
    recipe: Recipe = None,
    config: ConfigFile = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Run folder; default runs/GRAPH-METHOD-SEED.")] = None,
    overwrite: Overwrite = False,
    start: Annotated[
        Path | None,
        typer.Option("--from", metavar="RUN", help="Run with the initial weights and the settings, for a grown graph."),
    ] = None,
    read: Read,
    directed: Directed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train on a graph and write a run folder; after an interruption, the same command resumes.

    Several processes or machines train together under torchrun: torchrun --nproc-per-node 2 -m dssl fit ...
    """
    from dssl.cli import json_output, output, progress
    from dssl.config.resolve import resolve
    from dssl.errors import ConfigError
    from dssl.graph.statistics import few_features
    from dssl.runs import run_folder, transform, workflow

    if start is not None and config is not None:
        raise ConfigError(f"--from takes its settings from {start}; leave out --config")
    read |= {"graph.directed": directed}
    flags = training_flags(read, method=method, encoder=encoder, epochs=epochs, preset=preset, recipe=recipe, seed=seed)
    if start is None:
        resolved = resolve(flags, file=config, settings=settings or [])
    else:
        resolved = workflow.continued(start, flags, settings or [])
        before = run_folder.read_config(start, finished=False).graph
        for sentence in transform.differing_columns(before, resolved.graph):
            note(sentence)
    folder = out or run_folder.default_folder(resolved.graph.source, resolved.method.name, resolved.seed)
    from dssl.runtime import distributed  # imported after the settings are checked: it takes a second

    with distributed.joined(resolved.train.device):
        first = distributed.rank() == 0

        def read_in(graph: Graph, epochs: int) -> None:
            shown.graph(graph, epochs)
            sentence = few_features(graph) if resolved.graph.features == "raw" and first else ""
            if sentence:
                note(f"{sentence}; compare a fit without them (--column NAME=ignore), or --set features=topics")

        with progress.Progress(quiet=quiet or not first) as shown:
            outcome = workflow.fit(
                resolved,
                folder,
                overwrite=overwrite and not distributed.restarted(),
                command=shlex.join(["dssl", *sys.argv[1:]]),
                on_graph=read_in,
                on_epoch=shown.epoch,
            )
        if first and as_json:
            json_output.outcome(outcome)
        elif first:
            output.outcome(outcome, quiet=quiet)


@app.command(rich_help_panel=PANEL)
@reads_graph
def pack(
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; verify the checksums of a packed GRAPH.")
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Run, or packed graph, with the means and categories to encode the features by."
        ),
    ] = None,
    overwrite: Overwrite = False,
    read: Read,
    directed: Directed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a graph as a folder of arrays that fit and embed read from disk block by block."""
    from dssl.cli import json_output
    from dssl.data.load import read_graph
    from dssl.errors import RunError
    from dssl.graph import packed
    from dssl.runs import transform

    options = other_graph(read)
    if options is None:
        raise RunError("no graph is named; give a file of edges, any other graph, or with --check a packed one")
    if check:
        total = packed.check(options.source)
        text = f"{options.source}: {total:,} bytes, all checksums match"
        json_output.result({"folder": options.source, "bytes": total}, text, as_json=as_json, quiet=quiet)
        return
    if out is None:
        raise RunError("no folder is named; give the folder of the packed graph with -o")
    if directed is not None:
        options = options.model_copy(update={"directed": directed})
    made = read_graph(options, encoding=None if like is None else transform.encoding_of(like))
    packed.pack(made, out, overwrite=overwrite)
    changes = list(map(str, made.history))
    sizes = {"nodes": made.num_nodes, "edges": made.num_edges, "features": made.num_features}
    values = {"folder": str(out), **sizes, "changes": changes}
    json_output.result(values, "\n".join([f"{out}: {made}", *changes]), as_json=as_json, quiet=quiet)
