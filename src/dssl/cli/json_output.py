"""Results as one JSON object on standard output, for programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer

from dssl.runs import run_folder, workflow


def print_json(value: object) -> None:
    """Print a result as one JSON object; numbers that are not finite are null."""
    typer.echo(json.dumps(_finite(value), default=str))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
            "input": run_folder.input_shares(folder),
            "record": dict(*run_folder.read_metrics(folder)[-1:]),
            "environment": run_folder.read_environment(folder).model_dump() if finished else None,
            "evaluation": run_folder.read_evaluation(folder),
            "bytes": run_folder.sizes(folder),
        }
    )
