"""The command line: a thin layer of words over `dssl.run`. Heavy modules are imported inside the commands."""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from dssl.errors import DsslError

if TYPE_CHECKING:
    from dssl.config import GraphSettings
    from dssl.embeddings import Layout

app = typer.Typer(
    name="dssl",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Node embeddings without labels, for any graph.

    GRAPH is a data set (see dssl datasets), the code of a package (python:PACKAGE), a made-up graph
    (synthetic:h=0.25,nodes=10000), or a file of edges (.csv, .tsv, .parquet, .npz).

    Examples:

    dssl fit texas

    dssl evaluate runs/texas-dssl-0

    dssl fit edges.csv --nodes nodes.csv --out runs/mine

    dssl embed runs/mine -o vectors.parquet

    dssl embed runs/mine new-edges.csv --nodes new-nodes.csv -o new.csv

    dssl fit grown-edges.csv --nodes grown-nodes.csv --from runs/mine --out runs/grown

    dssl factors runs/mine -o links.parquet

    dssl tune texas --trials 20
    """,
)


class _WithSettings(typer.core.TyperCommand):
    """A command whose help ends with the table of all settings, made from the configuration when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        _print_settings()


Source = Annotated[str | None, typer.Argument(metavar="GRAPH", help="Data set, python: or synthetic: spec, or file.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `dssl fit` writes it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no more than needed.")]
Nodes = Annotated[str | None, typer.Option(metavar="FILE", help="Table of nodes: id, label, features.")]
SourceColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the start of each link.")]
TargetColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the end of each link.")]
WeightColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the weight of each link.")]
IdColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the ids of the nodes.")]
LabelColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column with the classes of the nodes.")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first line names columns.")]


def _version(asked: bool) -> None:
    if asked:
        from dssl.environment import version

        typer.echo(f"dssl {version('dssl')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command(cls=_WithSettings, rich_help_panel="Train and use")
def fit(
    graph: Source = None,
    *,
    method: Annotated[str | None, typer.Option(help="Method that trains (see dssl methods).")] = None,
    encoder: Annotated[str | None, typer.Option(help="Kind of encoder.")] = None,
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
    nodes: Nodes = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    weight_column: WeightColumn = None,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    header: Header = None,
    directed: Annotated[
        bool | None, typer.Option("--directed/--undirected", help="Keep the direction of links.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train on a graph and write a run folder; after an interruption, the same command goes on where it stopped."""
    from dssl import run, show
    from dssl.errors import ConfigError
    from dssl.resolve import resolve

    flags = {
        "graph.source": graph,
        "graph.nodes": nodes,
        "graph.source_column": source_column,
        "graph.target_column": target_column,
        "graph.weight_column": weight_column,
        "graph.id_column": id_column,
        "graph.label_column": label_column,
        "graph.header": header,
        "graph.directed": directed,
        "method.name": method,
        "encoder.name": encoder,
        "preset": preset,
        "recipe": recipe,
        "seed": seed,
    }
    if start is not None and config is not None:
        raise ConfigError(f"--from takes its settings from {start}; leave out --config")
    if start is None:
        resolved = resolve(flags, file=config, settings=settings or [])
    else:
        resolved = run.continued(start, flags, settings or [])
    folder = out or run.default_folder(resolved)
    with show.Progress(resolved.train.epochs, quiet=quiet) as progress:
        outcome = run.fit(
            resolved,
            folder,
            overwrite=overwrite,
            command=shlex.join(["dssl", *sys.argv[1:]]),
            on_graph=progress.graph,
            on_epoch=progress.epoch,
        )
    show.outcome(outcome, quiet=quiet)


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
    from dssl import run, show

    results = {}
    for folder in folders:
        with show.Stages(quiet=quiet, name=str(folder) if len(folders) > 1 else "") as stages:
            flags = {"evaluate.protocol": protocol, "evaluate.links": links}
            results[folder] = run.evaluate(folder, flags=flags, settings=settings or [], on_stage=stages.show)
    if quiet:
        return
    if len(folders) == 1:
        show.evaluation(folders[0], results[folders[0]])
    else:
        show.evaluations(results)


@app.command(rich_help_panel="Train and use")
def tune(
    graph: Source = None,
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
    nodes: Nodes = None,
    label_column: LabelColumn = None,
    quiet: Quiet = False,
) -> None:
    """Try settings on a graph and write the best as a recipe for `dssl fit`; the same command goes on if stopped."""
    from dssl import run, show, spaces
    from dssl import tune as tuning
    from dssl.config import locate
    from dssl.resolve import resolve

    flags = {
        "graph.source": graph,
        "graph.nodes": nodes,
        "graph.label_column": label_column,
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
    folder = out or run.default_folder(resolved).with_name(f"{run.default_folder(resolved).name}-tune")
    with show.Trials(trials, quiet=quiet) as progress:
        outcome = tuning.search(
            resolved,
            folder,
            trials=trials,
            varied=spaces.space(space, resolved, fixed=given),
            select=select,
            workers=workers,
            command=shlex.join(["dssl", *sys.argv[1:]]),
            on_trial=progress.trial,
        )
    show.tuned(outcome, source=graph or resolved.graph.source, select=select, quiet=quiet)


@app.command(rich_help_panel="Train and use")
def embed(
    folder: Run,
    graph: Source = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output: .parquet, .csv or .npz.")],
    layout: Annotated[str, typer.Option(help="list: one vector column; columns: one column a dimension.")] = "list",
    nodes: Nodes = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    weight_column: WeightColumn = None,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    header: Header = None,
    quiet: Quiet = False,
) -> None:
    """Write the vectors of a run, or those that its model gives to another GRAPH with the same feature columns."""
    from dssl import run

    options = _other_graph(
        graph, nodes, source_column, target_column, weight_column, id_column, label_column, header=header
    )
    vectors = run.embed(folder, options)
    vectors.save(out, layout=cast("Layout", layout))
    if not quiet:
        count, dim = vectors.values.shape
        typer.echo(f"{out}: {count:,} vectors of length {dim}")


@app.command(rich_help_panel="Train and use")
def factors(
    folder: Run,
    graph: Source = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Table of links: .parquet or .csv.")],
    nodes_out: Annotated[Path | None, typer.Option(metavar="FILE", help="Table of nodes: .parquet or .csv.")] = None,
    layout: Annotated[str, typer.Option(help="list: one column q; columns: one column a factor.")] = "list",
    nodes: Nodes = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    weight_column: WeightColumn = None,
    id_column: IdColumn = None,
    label_column: LabelColumn = None,
    header: Header = None,
    quiet: Quiet = False,
) -> None:
    """Write how probable each factor is on each link of the fitted graph, or of another GRAPH, with its ids."""
    from dssl import run

    options = _other_graph(
        graph, nodes, source_column, target_column, weight_column, id_column, label_column, header=header
    )
    found = run.factors(folder, options)
    found.save(out, nodes=nodes_out, layout=cast("Layout", layout))
    if not quiet:
        count, number = found.links.shape
        typer.echo(f"{out}: {number} factors on {count:,} links as the model sees them, by default both ways")
        if nodes_out is not None:
            typer.echo(f"{nodes_out}: {number} factors at {len(found.nodes):,} nodes")


def _other_graph(
    graph: str | None,
    nodes: str | None,
    source_column: str | None,
    target_column: str | None,
    weight_column: str | None,
    id_column: str | None,
    label_column: str | None,
    *,
    header: bool | None,
) -> GraphSettings | None:
    """The settings of a graph other than the fitted one, if one is given."""
    from dssl.resolve import resolve

    if graph is None:
        return None
    flags = {
        "graph.source": graph,
        "graph.nodes": nodes,
        "graph.source_column": source_column,
        "graph.target_column": target_column,
        "graph.weight_column": weight_column,
        "graph.id_column": id_column,
        "graph.label_column": label_column,
        "graph.header": header,
    }
    return resolve(flags).graph


@app.command(rich_help_panel="Look")
def info(folder: Run) -> None:
    """Show what is in a run folder."""
    from dssl import show

    show.info(folder)


@app.command(rich_help_panel="Look")
def datasets(name: Annotated[str | None, typer.Argument(help="One data set, in full.")] = None) -> None:
    """List the known graphs with their sizes and homophily, or show one beside the published figures."""
    from dssl import show

    show.datasets(name)


@app.command(rich_help_panel="Look")
def methods() -> None:
    """List the methods for `dssl fit --method`: which are inductive, use features, directions, weights, and scale."""
    from dssl import show

    show.methods()


@app.command()
def reproduce(
    what: Annotated[list[str], typer.Argument(metavar="WHAT...", help="table1 to table7, factors, figures, or all.")],
    *,
    datasets: Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Graphs: a,b,c or repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Methods; sanity for baselines.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Trainings per cell.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few epochs and splits, small graphs: does it work?")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where they and the records go.")] = Path("results"),
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 takes one per core.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Make tables and figures of the paper again: train what is not stored yet; write Markdown, CSV and pictures."""
    from dssl import show
    from dssl.figures import figures
    from dssl.plans import Options
    from dssl.reproduce import FIGURES, TABLES
    from dssl.reproduce import reproduce as table

    options = Options(datasets=_parts(datasets), methods=_parts(methods), seeds=seeds, quick=quick)
    for name in [*TABLES, FIGURES] if what == ["all"] else what:
        make = figures if name == FIGURES else partial(table, name)
        with show.Jobs(name, quiet=quiet) as progress:
            written = make(options, out, workers=workers, on_plan=progress.plan, on_record=progress.record)
        for path in written:
            typer.echo(path)


def _parts(given: list[str] | None) -> tuple[str, ...]:
    """Values of an option that may be repeated, or be a list with commas."""
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())


@app.command(rich_help_panel="Look")
def recipes() -> None:
    """List the published settings for `dssl fit --recipe`, with the data sets that they have numbers for."""
    from dssl import show

    show.recipes()


@app.command(rich_help_panel="Look")
def settings(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/configuration.md.")] = False
) -> None:
    """List every setting with its values, default and meaning."""
    from dssl.config import reference

    if markdown:
        typer.echo(reference(), nl=False)
    else:
        _print_settings()


def _print_settings() -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from dssl.config import every_setting

    table = Table(title="Settings for --set", title_justify="left", box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for name in ("value", "default", "meaning"):
        table.add_column(name)
    method = ""
    for row in every_setting():
        if row.method not in (method, "", "dssl"):
            method = row.method
            table.add_row(f"[bold]with method={method}[/bold]", "", "", "")
        table.add_row(row.path, escape(row.allowed), escape(row.default), escape(row.help))
    Console().print(table)


def main() -> None:
    """Run the command line; what a user can cause is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except DsslError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _interrupted()
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong. Keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # no usage error of Typer's, but a bug of ours: show all of it
            raise
        _fail(f"{error.format_message()} (see `dssl --help`)")
    else:
        if code == 130:
            _interrupted()
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    sys.stderr.write(f"dssl: error: {' '.join(message.split())}\n")
    sys.exit(2)


def _interrupted() -> None:
    sys.stderr.write("dssl: interrupted; if this was a fit, the same command goes on from the last checkpoint\n")
    sys.exit(130)


if __name__ == "__main__":
    main()
