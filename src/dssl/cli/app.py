"""The application that the commands of the ``cli_*`` modules join, and the options that several of them share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

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


class WithSettings(typer.core.TyperCommand):
    """A command whose help ends with the table of all settings, made from the configuration when it is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the usual help, then the table."""
        super().format_help(ctx, formatter)
        print_settings()


Source = Annotated[str | None, typer.Argument(metavar="GRAPH", help="Data set, python: or synthetic: spec, or file.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as `dssl fit` writes it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no more than needed.")]
Read = dict[str, Any]
FILE_OPTIONS = {
    "nodes": Annotated[str | None, typer.Option(metavar="FILE", help="Table of nodes: id, label, features.")],
    "source_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the start of each link.")],
    "target_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the end of each link.")],
    "weight_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the weight of each link.")],
    "id_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the ids of the nodes.")],
    "label_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the classes of the nodes.")],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first line names columns.")
    ],
}


def reads_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument GRAPH and the options on how its files are read; it gets them all as ``read``.

    Their keys are the paths of the settings. GRAPH is the last argument; the options stand before the command's last.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "read"]
    arguments = [parameter for parameter in own if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    options = own[len(arguments) :]
    source = inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Source)
    files = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in FILE_OPTIONS.items()
    ]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        read = {f"graph.{name}": given.pop(name) for name in ("source", *FILE_OPTIONS)}
        command(read=read, **given)

    wrapped.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*arguments, source, *options[:-1], *files, options[-1]]
    )
    return wrapped


def _version(asked: bool) -> None:
    if asked:
        from dssl.runtime.environment import version

        typer.echo(f"dssl {version('dssl')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


def parts(given: list[str] | None) -> tuple[str, ...]:
    """Values of an option that may be repeated, or be a list with commas."""
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())


def print_settings(of: str = "") -> None:
    """Print every setting, or those that a method looks at, with its values, default and meaning."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from dssl.config.fields import every_setting, settings_of
    from dssl.config.resolve import uses

    table = Table(title="Settings for --set", title_justify="left", box=None, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    for name in ("value", "default", "meaning"):
        table.add_column(name)
    method = of
    for row in settings_of(of) if of else every_setting():
        asked = row.path.startswith(("method.", "encoder.", "train.")) and row.path != "method.name"
        if of and not (asked and uses(of, row.path)):
            continue
        if row.method not in (method, "", "dssl"):
            method = row.method
            table.add_row(f"[bold]with method={method}[/bold]", "", "", "")
        table.add_row(row.path, escape(row.allowed), escape(row.default), escape(row.help))
    Console().print(table)
