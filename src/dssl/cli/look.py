"""Commands that show runs, data sets, methods and settings: info, report, explore, datasets, methods, …."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from dssl.cli.app import Json, Quiet, Read, Run, Runs, app, print_settings, reads_graph

PANEL = "Look"


@app.command(rich_help_panel=PANEL)
def info(folder: Run, *, as_json: Json = False) -> None:
    """Show the content of a run folder."""
    from dssl.cli import json_output, output

    if as_json:
        json_output.info(folder)
    else:
        output.info(folder)


@app.command(rich_help_panel=PANEL)
def card(
    folder: Run,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Markdown file; default: standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model card: data, settings, training, evaluation and limits of a run as Markdown."""
    from dssl.cli import json_output
    from dssl.runs.card import card as text_of
    from dssl.runtime import files

    text = text_of(folder)
    if out is not None:
        files.write_text(out, text)
    if as_json:
        json_output.print_json({"file": None if out is None else str(out), "markdown": text})
    elif out is None:
        typer.echo(text, nl=False)


@app.command(rich_help_panel=PANEL)
def report(
    folders: Runs,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Output file; default RUN/report.html, or comparison.html."),
    ] = None,
    show_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a run, or a comparison of several, as one self-contained HTML page."""
    from dssl.cli import json_output, progress
    from dssl.report import page as pages

    with progress.Progress(quiet=quiet) as shown:
        path = pages.write(folders, out, on_stage=shown.stage)
    size = path.stat().st_size
    text = f"{path}" if quiet else f"{path}: {size / 1e6:.1f} MB, open it in a browser"
    json_output.result({"file": str(path), "bytes": size}, text, as_json=as_json)
    if show_it:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


@app.command(rich_help_panel=PANEL)
def explore(
    folder: Run,
    *,
    port: Annotated[int, typer.Option(metavar="PORT", help="Port on this machine; 0: any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to export the page to, for any web server.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explore a run in the browser: a map of all nodes, and the factors of every link."""
    from dssl.cli import json_output, progress
    from dssl.errors import ConfigError
    from dssl.explore import pages
    from dssl.explore import server as explore_server
    from dssl.explore import view as views

    if export is not None:
        pages.check_empty(export)
    elif as_json:
        raise ConfigError("--json applies to an exported page; give its folder with --export")
    with progress.Progress(quiet=quiet) as shown:
        view = views.of_run(folder, on_stage=shown.stage)
        count, size = (0, 0) if export is None else pages.export(view, export, on_part=shown.stage)
    if export is None:
        explore_server.serve(view, port=port, browser=browser, say=typer.echo)
        return
    server = shlex.join(["python", "-m", "http.server", "-d", str(export)])
    text = f"{export}: {count:,} files, {size / 1e6:,.1f} MB; try it with: {server}"
    json_output.result({"folder": str(export), "files": count, "bytes": size}, text, as_json=as_json)


@app.command(rich_help_panel=PANEL)
@reads_graph
def inspect(
    *,
    read: Read,
    as_json: Json = False,
) -> None:
    """Describe a graph before training: size, degrees, and the encoding of each column of the node table."""
    from dssl.cli import json_output, listings
    from dssl.config.resolve import resolve
    from dssl.data import inspection

    found = inspection.inspect(resolve(read).graph)
    if as_json:
        json_output.print_json(found.to_json())
    else:
        listings.inspection(found)


@app.command(rich_help_panel=PANEL)
def datasets(
    name: Annotated[str | None, typer.Argument(help="Data set to show in full.")] = None, *, as_json: Json = False
) -> None:
    """List the data sets with sizes and homophily, or compare one with the published figures."""
    from dssl.cli import json_output, listings

    if as_json:
        json_output.datasets(name)
    else:
        listings.datasets(name)


@app.command(rich_help_panel=PANEL)
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Method to show with its settings.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the methods for `dssl fit --method` and their properties."""
    from dssl.cli import json_output, listings
    from dssl.config.methods import METHODS
    from dssl.errors import ConfigError, nearest

    if name is not None and name not in METHODS:
        raise ConfigError(f"unknown method {name!r}{nearest(name, METHODS) or '; see `dssl methods`'}")
    if as_json:
        json_output.methods(name)
        return
    listings.methods(name)
    if name is not None:
        print_settings(name)


@app.command(rich_help_panel=PANEL)
def recipes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Recipe to print as a file.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List the published settings for `dssl fit --recipe`, with the published accuracies."""
    from dssl.cli import json_output, listings
    from dssl.config import recipes as packaged

    if as_json:
        json_output.recipes(name)
    elif name is None:
        listings.recipes()
    else:
        typer.echo(packaged.recipe_text(packaged.split_recipe(name)[0]), nl=False)


configuration = typer.Typer(help="Configuration files.", context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(configuration, name="config", rich_help_panel=PANEL)


@configuration.callback()
def _configuration() -> None:
    pass


@configuration.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="File with settings, or a recipe.")],
    *,
    as_json: Json = False,
) -> None:
    """Check a configuration file without training; all problems are in one line."""
    from dssl.cli import json_output
    from dssl.config.fields import changed
    from dssl.config.resolve import resolve

    found = resolve({}, file=file)
    values = {"file": str(file), "method": found.method.name, "settings": changed(found)}
    others = ", ".join(f"{path}={value}" for path, value in changed(found).items())
    text = f"{file}: valid, method {found.method.name}; {others or 'all settings have their defaults'}"
    json_output.result(values, text, as_json=as_json)


@app.command(rich_help_panel=PANEL)
def settings(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown, as in docs/configuration.md.")] = False,
    as_json: Json = False,
) -> None:
    """List every setting with its values, default and meaning."""
    from dssl.cli import json_output
    from dssl.config.reference import reference

    if as_json:
        json_output.settings()
    elif markdown:
        typer.echo(reference(), nl=False)
    else:
        print_settings()
