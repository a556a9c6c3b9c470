"""Commands that show what there is: info, report, explore, datasets, methods, recipes, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dssl.cli.app import (
    Quiet,
    Run,
    app,
    print_settings,
)


@app.command(rich_help_panel="Look")
def info(folder: Run) -> None:
    """Show what is in a run folder."""
    from dssl.cli import output

    output.info(folder)


@app.command(rich_help_panel="Look")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are compared.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The page; by default RUN/report.html, or comparison.html."),
    ] = None,
    show_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a run, or several beside each other, as one HTML page that needs nothing else."""
    from dssl.cli import progress
    from dssl.report import page as pages

    with progress.Stages(quiet=quiet) as stages:
        path = pages.write(folders, out, on_stage=stages.show)
    typer.echo(f"{path}" if quiet else f"{path}: {path.stat().st_size / 1e6:.1f} MB, to be opened in any browser")
    if show_it:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


@app.command(rich_help_panel="Look")
def explore(
    folder: Run,
    *,
    port: Annotated[int, typer.Option(metavar="PORT", help="Where to listen on this machine; 0 is any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page to a folder, for any web server, and end.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Look at a run in the browser: a map of all nodes, and the factors behind every link."""
    from dssl.cli import progress
    from dssl.explore import pages
    from dssl.explore import server as explore_server
    from dssl.explore import view as views

    if export is not None:
        pages.check_empty(export)
    with progress.Stages(quiet=quiet) as stages:
        view = views.of_run(folder, on_stage=stages.show)
        count, size = (0, 0) if export is None else pages.export(view, export, on_part=stages.show)
    if export is None:
        explore_server.serve(view, port=port, browser=browser, say=typer.echo)
    else:
        typer.echo(f"{export}: {count:,} files, {size / 1e6:,.1f} MB; try it with: python -m http.server -d {export}")


@app.command(rich_help_panel="Look")
def datasets(name: Annotated[str | None, typer.Argument(help="One data set, in full.")] = None) -> None:
    """List the known graphs with their sizes and homophily, or show one beside the published figures."""
    from dssl.cli import output

    output.datasets(name)


@app.command(rich_help_panel="Look")
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method, with its settings.")] = None,
) -> None:
    """List the methods for `dssl fit --method`: which are inductive, use features, directions, weights, and scale."""
    from dssl.cli import output

    output.methods(name)
    if name is not None:
        print_settings(name)


@app.command(rich_help_panel="Look")
def recipes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One recipe, as the file that it is.")] = None,
) -> None:
    """List the published settings for `dssl fit --recipe`, with the data sets that they have numbers for."""
    from dssl.cli import output
    from dssl.config import recipes as packaged

    if name is None:
        output.recipes()
    else:
        typer.echo(packaged.recipe_text(packaged.split_recipe(name)[0]), nl=False)


@app.command(rich_help_panel="Look")
def settings(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="As the page docs/configuration.md.")] = False
) -> None:
    """List every setting with its values, default and meaning."""
    from dssl.config.reference import reference

    if markdown:
        typer.echo(reference(), nl=False)
    else:
        print_settings()
