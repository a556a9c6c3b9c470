"""Results as one JSON object on standard output, for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dssl.cli.log import finite
from dssl.runs import run_folder, workflow

if TYPE_CHECKING:
    from dssl.config.fields import Setting
    from dssl.studies.compare import Comparison
    from dssl.studies.tune import Outcome


def print_json(value: object) -> None:
    """Print a result as one JSON object; numbers that are not finite are null."""
    typer.echo(json.dumps(finite(value), default=str))


def result(values: object, text: str, *, as_json: bool, quiet: bool = False) -> None:
    """Print the result of a command as one JSON object, or else as text unless it is to be quiet."""
    if as_json:
        print_json(values)
    elif not quiet:
        typer.echo(text)


def outcome(found: workflow.Outcome) -> None:
    """Print the end of a training as one JSON object."""
    print_json(
        {
            "folder": str(found.folder),
            "graph": found.graph,
            "seconds": found.environment.seconds,
            "peak_memory_mb": found.environment.peak_memory_mb,
            "record": found.record,
            "changes": found.changes,
            "warnings": found.warnings,
        }
    )


def info(folder: Path) -> None:
    """Print the content of a run folder as one JSON object."""
    config, finished = run_folder.read_config(folder, finished=False), run_folder.is_finished(folder)
    print_json(
        {
            "folder": str(folder),
            "finished": finished,
            "graph": run_folder.read_graph_record(folder).model_dump(),
            "settings": config.model_dump(),
            "input": run_folder.read_input_record(folder).shares,
            "record": dict(*run_folder.read_metrics(folder)[-1:]),
            "environment": run_folder.read_environment(folder).model_dump() if finished else None,
            "evaluation": run_folder.read_evaluation(folder),
            "bytes": run_folder.sizes(folder),
        }
    )


def comparison(found: Comparison, files: list[Path]) -> None:
    """Print methods side by side as one JSON object, with the figures of ``results.csv``."""
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    figures = [{name: _number(text) for name, text in row.items()} for row in rows]
    shown = {"graph": found.graph, "measure": found.measure, "rows": figures, "failed": list(found.failed)}
    print_json({**shown, "files": files})


def _number(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def tuned(found: Outcome, select: str) -> None:
    """Print the result of a search as one JSON object."""
    best = {"criterion": select, "value": found.value, "settings": found.changes, "recipe": found.recipe}
    print_json({**best, "trials": found.done, "failed": found.failed})


def datasets(name: str | None) -> None:
    """Print the known graphs, or one of them compared with the paper's figures, as one JSON object."""
    from dssl.data import datasets as known

    if name is None:
        print_json({"datasets": known.catalogue()})
    else:
        found = known.find(name).name
        figures = [asdict(row) for row in known.compare(name)]
        print_json({"name": found, "figures": figures, "spectrum": known.spectrum(found)})


def methods(only: str | None) -> None:
    """Print the methods, or one of them with its settings, as one JSON object."""
    from dssl.config.fields import settings_of
    from dssl.config.methods import METHODS

    shown = METHODS if only is None else {only: METHODS[only]}
    found = {name: asdict(method.traits) for name, method in shown.items()}
    print_json({"methods": found} if only is None else {**found[only], "settings": _settings(settings_of(only))})


def recipes(name: str | None) -> None:
    """Print the packaged recipes, or one of them, as one JSON object."""
    from dssl.config import recipes as packaged

    if name is None:
        print_json({"recipes": {each: packaged.read_recipe(each).header.model_dump() for each in packaged.recipes()}})
    else:
        found = packaged.read_recipe(packaged.split_recipe(name)[0])
        print_json({"recipe": found.header.model_dump(), **found.tables, "datasets": found.datasets})


def settings() -> None:
    """Print every setting as one JSON object."""
    from dssl.config.fields import every_setting

    print_json({"settings": _settings(every_setting())})


def _settings(rows: Iterable[Setting]) -> list[dict[str, Any]]:
    names = ("path", "value", "allowed", "help", "method")
    return [{name: getattr(row, name) for name in names} for row in rows]
