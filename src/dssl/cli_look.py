"""Commands that show what there is: info, datasets, methods, recipes, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dssl.commands import (
    Run,
    app,
    print_settings,
)

if TYPE_CHECKING:
    pass


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
        print_settings()
