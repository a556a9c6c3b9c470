"""The application that the commands join, and the options that several of them share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dssl.cli import log

if TYPE_CHECKING:
    from dssl.config.schema import GraphSettings

app = typer.Typer(
    name="dssl",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Node embeddings without labels, for any graph.

    GRAPH is a data set (see dssl datasets), the code of a package (python:PACKAGE), a made-up graph
    (synthetic:h=0.25,nodes=10000), a file of edges (.csv, .tsv, .parquet, .npz, .graphml), or - for standard input.

    Examples:

    dssl fit texas

    dssl evaluate runs/texas-dssl-0

    dssl fit edges.csv --nodes nodes.csv --out runs/mine

    dssl embed runs/mine -o vectors.parquet

    dssl embed runs/mine new-edges.csv --nodes new-nodes.csv -o new.parquet

    dssl fit grown-edges.csv --nodes grown-nodes.csv --from runs/mine --out runs/grown

    dssl factors runs/mine -o links.parquet

    dssl tune texas --trials 20
    """,
)


class WithSettings(typer.core.TyperCommand):
    """A command whose help ends with the table of all settings, generated from the configuration on request."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help and the table of settings."""
        super().format_help(ctx, formatter)
        print_settings()


def _methods(incomplete: str) -> list[str]:
    from dssl.config.methods import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


def _recipes(incomplete: str) -> list[str]:
    from dssl.config.recipes import recipes

    return [name for name in recipes() if name.startswith(incomplete)]


def _datasets(incomplete: str) -> list[str]:
    """Names of data sets; without one the shell completes file names."""
    from dssl.data.catalogue import DATASETS

    return [name for name in DATASETS if incomplete and name.startswith(incomplete)]


Source = Annotated[
    str | None,
    typer.Argument(metavar="GRAPH", help="Data set, python: or synthetic: spec, or file.", autocompletion=_datasets),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of `dssl fit`.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of `dssl fit`.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
Method = Annotated[
    str | None, typer.Option(help="Training method (see dssl methods); default dssl.", autocompletion=_methods)
]
Encoder = Annotated[str | None, typer.Option(help="Encoder architecture; default: the method's.")]
Epochs = Annotated[int | None, typer.Option(help="Training epochs; default: the method's.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting (dssl settings); repeatable.")
]
Preset = Annotated[str | None, typer.Option(help="Named settings: default or paper.")]
Recipe = Annotated[
    str | None, typer.Option(help="Published settings (see dssl recipes), or a .toml file.", autocompletion=_recipes)
]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE.toml", help="File with settings.")]
Seed = Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same result. Default 0.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
Separate = Annotated[
    bool, typer.Option("--separate", help="Take the files as a whole graph, not as additions to the fitted one.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing result.")]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="Splits for the probe: random, balanced, one-per-group, geom-gcn, linkx, heterophilous or public; "
        "default random."
    ),
]
Labels = Annotated[
    str | None, typer.Option(metavar="BUDGET", help="Training labels: 20/class or 1%; default 60% of the labels.")
]
Measure = Annotated[
    str | None,
    typer.Option(
        help="Measure of the probe: accuracy, balanced_accuracy, macro_f1, average_precision or roc_auc; "
        "default: suited to the labels."
    ),
]
ClassWeight = Annotated[
    str | None, typer.Option(help="Weights of the classes in the probe: none or balanced; default none.")
]
Directed = Annotated[
    bool | None, typer.Option("--directed/--undirected", help="Keep the direction of edges; default undirected.")
]
OutFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file: .parquet, .csv or .npz.")]
Names = Annotated[list[str] | None, typer.Option(metavar="NAMES", help="Methods: a,b,c; sanity for baselines; or all.")]
Workers = Annotated[int, typer.Option(min=0, help="Parallel processes, one thread each; 0: one per core.")]
Read = dict[str, Any]
FILE_OPTIONS = {
    "nodes": Annotated[str | None, typer.Option(metavar="FILE", help="Node table: id, label, features.")],
    "source_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the source of each edge.")],
    "target_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the target of each edge.")],
    "weight_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the weight of each edge.")],
    "kind_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the kind of each edge.")],
    "time_column": Annotated[
        str | None, typer.Option(metavar="NAME", help="Column with the time of each edge; later edges are held out.")
    ],
    "until": Annotated[
        str | None, typer.Option(metavar="TIME", help="First held-out time: a date, a number or 85%; default 85%.")
    ],
    "id_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the node ids.")],
    "label_column": Annotated[str | None, typer.Option(metavar="NAME", help="Column with the class labels.")],
    "column_types": Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME=TYPE", help="Type of a column (dssl inspect shows them); repeatable."),
    ],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Column names in the first line; default: detected.")
    ],
    "count_edges": Annotated[
        bool | None, typer.Option("--count-edges", help="Take the number of rows of an edge as its weight.")
    ],
    "trim": Annotated[bool | None, typer.Option("--trim", help="Remove spaces around node ids.")],
}


def reads_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument GRAPH and the options to read its files, in place of its parameter ``read``.

    GRAPH is the last argument. The command gets all of them as ``read``, by the paths of the settings.
    """
    signature = inspect.signature(command, eval_str=True)
    source = inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Source)
    files = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in FILE_OPTIONS.items()
    ]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        read = {f"graph.{name}": given.pop(name) for name in ("source", *FILE_OPTIONS)}
        command(read=read, **given)

    shown: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        shown += files if name == "read" else [parameter]
    arguments = sum(parameter.kind is not inspect.Parameter.KEYWORD_ONLY for parameter in shown)
    shown.insert(arguments, source)
    wrapped.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return wrapped


def other_graph(read: Read) -> GraphSettings | None:
    """The settings of a graph other than the fitted one, if one is given."""
    from dssl.config.resolve import resolve

    return None if read["graph.source"] is None else resolve(read).graph


def training_flags(
    read: Read,
    *,
    method: str | None,
    encoder: str | None,
    epochs: int | None,
    preset: str | None,
    recipe: str | None,
    seed: int | None,
) -> dict[str, Any]:
    """The given options of a training by the paths of their settings; environment variables stand for others."""
    from dssl.config.environment import from_environment

    flags = {
        **read,
        "method.name": method,
        "encoder.name": encoder,
        "train.epochs": epochs,
        "preset": preset,
        "recipe": recipe,
        "seed": seed,
    }
    return from_environment(os.environ) | {path: value for path, value in flags.items() if value is not None}


def note(sentence: str) -> None:
    """Print a sentence that a user should read, on standard error."""
    if log.is_json():
        log.event("note", sentence)
    else:
        typer.echo(f"note: {sentence}", err=True)


def _version(asked: bool) -> None:
    if asked:
        from dssl.runtime.environment import torch_build, version

        typer.echo(f"dssl {version('dssl')}, PyTorch {version('torch')} ({torch_build()} build)")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    log_format: Annotated[
        str | None,
        typer.Option(help="Messages on standard error: text, or json for one object per line; default text."),
    ] = None,
) -> None:
    if log_format is not None:
        log.choose(log_format)


def parts(given: list[str] | None) -> tuple[str, ...]:
    """Values of an option that may be repeated, or be a list with commas."""
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())


def print_settings(of: str = "") -> None:
    """Print every setting, or those of one method, with its values, default and meaning."""
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
