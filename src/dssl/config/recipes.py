"""Recipes: published settings and numbers, as TOML files.

A recipe contains a ``[recipe]`` table, the sections of a configuration, and ``[datasets.NAME.…]`` tables with the
settings that differ for a graph. The name of the graph selects these, or ``--recipe RECIPE:NAME`` for any graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from dssl.config.registry import Section
from dssl.config.toml import parse_toml, read_toml
from dssl.errors import ConfigError, nearest


class RecipeHeader(Section):
    """The ``[recipe]`` table: title, source, notes and published numbers."""

    title: str = Field(description="The recipe in one sentence.")
    source: str = Field(default="", description="Origin of the settings.")
    notes: str = Field(default="", description="Remarks for the user.")
    paper: dict[str, float] = Field(default_factory=dict, description="Published accuracy in percent by data set.")
    published: dict[str, float] = Field(
        default_factory=dict, description="Published accuracy in percent on the public split of a data set."
    )
    authors: dict[str, Annotated[tuple[float, float], Field(strict=False)]] = Field(
        default_factory=dict,
        description="Accuracy in percent of the authors' code on the same split, with its own probe and with this one.",
    )
    wide: dict[str, Annotated[tuple[int, float], Field(strict=False)]] = Field(
        default_factory=dict,
        description="Columns of the authors' code, and its accuracy in percent on ten random splits with this probe.",
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """Published settings and numbers.

    Args:
        header: its ``[recipe]`` table.
        tables: settings for every graph, as the sections of a configuration.
        datasets: settings that differ for a graph, by its name.
    """

    header: RecipeHeader
    tables: Mapping[str, Any]
    datasets: Mapping[str, Mapping[str, Any]]

    @property
    def names(self) -> list[str]:
        """The data sets with settings or a published number."""
        return list(dict.fromkeys([*self.header.paper, *self.datasets]))

    def layers(self, origin: str, dataset: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the settings for a data set as layers with their origin; later ones win."""
        own = self.datasets.get(dataset)
        return [(origin, self.tables), *([] if own is None else [(f"{origin}, datasets.{dataset}", own)])]


def recipes() -> list[str]:
    """Return the names of the packaged recipes."""
    folder = resources.files("dssl") / "recipes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def split_recipe(text: str) -> tuple[str, str]:
    """Return the name or file of a recipe, and the requested data set, which may be empty.

    >>> split_recipe("paper-terms:Cora"), split_recipe("mine.toml")
    (('paper-terms', 'cora'), ('mine.toml', ''))
    """
    name, colon, dataset = text.rpartition(":")
    if not colon or text.endswith(".toml"):
        return text, ""
    return name, dataset_name(dataset)


def read_recipe(name: str) -> Recipe:
    """Read a packaged recipe by name, or a recipe file."""
    tables = read_toml(Path(name)) if name.endswith(".toml") else parse_toml(recipe_text(name), f"recipe {name}")
    return as_recipe(tables, f"recipe {name}")


def recipe_text(name: str) -> str:
    """Return the text of a packaged recipe."""
    known = recipes()
    if name not in known:
        hint = nearest(name, known) or f"; known are {', '.join(known) or 'none'}, or give a .toml file"
        raise ConfigError(f"unknown recipe {name!r}{hint}")
    return (resources.files("dssl") / "recipes" / f"{name}.toml").read_text("utf-8")


def as_recipe(tables: Mapping[str, Any], origin: str) -> Recipe:
    """Return the tables of a TOML file as a recipe; ``origin`` names it in errors."""
    datasets = tables.get("datasets", {})
    if not isinstance(datasets, dict) or not all(isinstance(table, dict) for table in datasets.values()):
        raise ConfigError(f"{origin}: datasets must contain a table of sections per graph: [datasets.NAME.train]")
    try:
        header = RecipeHeader.model_validate(tables.get("recipe"))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(["recipe", *map(str, first["loc"])])
        raise ConfigError(
            f"{origin}: {at}: {first['msg']}; [recipe] contains title, source, notes, paper, published, "
            "authors and wide, the last four by data set"
        ) from None
    common = {name: value for name, value in tables.items() if name not in ("recipe", "datasets")}
    return Recipe(header, common, {dataset_name(name): table for name, table in datasets.items()})


def dataset_name(name: str) -> str:
    """Return the name of a data set in lower case, with dashes."""
    return name.lower().replace("_", "-")
