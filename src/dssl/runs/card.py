"""``dssl card``: a run as a Markdown page: data, settings, training, evaluation, limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dssl.config.fields import changed
from dssl.runs import run_folder

LIMITS = """- The vectors describe the graph of the training. `dssl embed` computes those of new nodes.
- Training uses no labels. Vectors can still contain attributes that a decision must not use: check them first.
- Links can identify people. Treat vectors as carefully as the graph.
- Another seed gives other axes. Compare vectors within one run, or align them first (`dssl align`)."""


def card(folder: Path) -> str:
    """Return the model card of a finished run as Markdown."""
    config = run_folder.read_config(folder)
    described, made = run_folder.read_graph_record(folder), run_folder.read_environment(folder)
    summary, epochs = described.summary, run_folder.read_metrics(folder)
    shown = {
        name.replace("_", " "): summary.get(name)
        for name in ("nodes", "edges", "directed", "weighted", "features", "classes", "labelled_nodes", "components")
    }
    settings = {path: repr(value) for path, value in changed(config).items() if not path.startswith("graph.")}
    training = {
        "epochs": int(epochs[-1]["epoch"] or 0) if epochs else 0,
        "time": f"{made.seconds:.0f} s, {made.peak_memory_mb:,.0f} MB at most",
        "finished": made.finished,
        "versions": ", ".join(f"{name} {number}" for name, number in made.packages.items()),
        "machine": f"{made.processor}, {made.cores} cores, {made.system}",
        "command": f"`{made.command}`",
    }
    parts = [
        "---\nlibrary_name: dssl\ntags:\n- node-embeddings\n- graph\n---",
        f"# Vectors of {summary.get('name', 'a graph')}",
        f"Node embeddings by the method `{config.method.name}` of dssl: {config.encoder.dim} numbers per node.",
        "## Data",
        _table(shown),
        "\n".join(f"- {change}" for change in described.changes),
        "## Settings",
        "All other settings have their defaults; `config.toml` lists every one.",
        _table(settings),
        "## Training",
        _table(training),
        "\n".join(f"- **Warning:** {sentence}" for sentence in described.warnings) or "No warnings.",
        "## Evaluation",
        _evaluation(run_folder.read_evaluation(folder)),
        "## Limits",
        LIMITS,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {name} | {'–' if value in (None, 'None') else value} |" for name, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _evaluation(result: Mapping[str, Any]) -> str:
    if not result:
        return "Not evaluated; run `dssl evaluate`."
    probe = result.get("probe", {})
    by = probe.get("measure", "accuracy")
    rows = {f"linear probe, {by.replace('_', ' ')}": _figure(probe[by])} if by in probe else {}
    rows |= {
        f"{found.get('title', name)}, training-free": _figure(found[by])
        for name, found in result.get("sanity", {}).items()
        if by in found
    }
    verdicts = [result[name] for name in ("verdict", "links_verdict") if name in result]
    skipped = [f"No {part}: {reason}" for part, reason in result.get("skipped", {}).items()]
    return "\n\n".join(text for text in (_table(rows), *verdicts, *skipped) if text)


def _figure(score: Mapping[str, Any]) -> str:
    return f"{score['mean']:.3f} ± {score['std']:.3f}"
