"""The final output of the commands: tables with Rich on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from dssl.cli import log
from dssl.cli.progress import line, number
from dssl.config.fields import changed
from dssl.config.toml import to_toml
from dssl.data.load import FOR_FILES
from dssl.errors import DsslError
from dssl.model.storage import FEATURES
from dssl.runs import records, run_folder, workflow
from dssl.runs.records import Environment, Evaluation, GraphRecord, InputRecord

if TYPE_CHECKING:
    from dssl.config.schema import GraphSettings
    from dssl.model.alignment import Drift
    from dssl.studies.compare import Comparison
    from dssl.studies.tune import Outcome

_Value = TypeVar("_Value")


def outcome(found: workflow.Outcome, *, quiet: bool) -> None:
    """Print the end of a training: what, how long, how it went, where the files are, and what to do next."""
    for sentence in found.warnings:
        if log.is_json():
            log.event("warning", sentence)
            continue
        Console(stderr=True, emoji=False).print(
            f"[yellow]warning:[/yellow] {escape(sentence)}", highlight=False, soft_wrap=True
        )
    if quiet:
        _say(str(found.folder))
        return
    seconds, memory = found.environment.seconds, found.environment.peak_memory_mb
    table = pairs()
    table.add_row("graph", graph_line(found.graph))
    if found.changes:
        table.add_row("prepared", escape("; ".join(found.changes)))
    table.add_row("time", f"{seconds:.1f} s, {memory:,.0f} MB at most")
    if found.record:
        table.add_row("training", f"{int(found.record['epoch'] or 0)} epochs, {line(found.record)}")
    table.add_row("folder", escape(str(found.folder)))
    table.add_row("next", escape(shlex.join(["dssl", "evaluate", str(found.folder)])))
    console().print(table)


def drift(found: Drift, out: Path) -> None:
    """Print how much vectors changed between two runs."""
    table = pairs()
    table.add_row("vectors", escape(f"{out}, in the axes of the old ones"))
    table.add_row("nodes", f"{found.shared:,} shared, {found.added:,} added, {found.removed:,} removed")
    table.add_row("moved", f"{found.moved:,} nodes with a cosine to their old vector below {found.limit:g}")
    table.add_row("cosine", ", ".join(f"{float(q):.0%} below {value:.3f}" for q, value in found.quantiles.items()))
    table.add_row("most", escape(", ".join(f"{node} ({cosine:.2f})" for node, cosine in found.most)))
    console().print(table, highlight=False)


def tuned(found: Outcome, *, graph: GraphSettings, select: str, quiet: bool) -> None:
    """Print the result of a search, its location, and the command that uses it."""
    if quiet:
        _say(str(found.recipe))
        return
    table = pairs()
    table.add_row("best", f"{select} {number(found.value)} of {found.done} trials")
    for path, value in found.changes.items():
        table.add_row("", escape(f"{path} = {value}"))
    if found.failed:
        table.add_row("failed", escape(f"{len(found.failed)} trials, the first with: {found.failed[0]}"))
    table.add_row("recipe", escape(str(found.recipe)))
    table.add_row("next", escape(shlex.join(["dssl", "fit", *graph_arguments(graph), "--recipe", str(found.recipe)])))
    console().print(table)


def graph_arguments(graph: GraphSettings) -> list[str]:
    """Return the arguments of the command line that read a graph: its name or file, and the options that are set."""
    found = [graph.source]
    for name in FOR_FILES:
        option, value = f"--{name.replace('_', '-')}", getattr(graph, name)
        if name == "column_types":
            found += [text for part in value or () for text in ("--column", part)]
        elif name == "feature_columns":
            found += [] if value is None else ["--set", f"feature_columns={json.dumps(list(value))}"]
        elif isinstance(value, bool):
            found.append(option if value else f"--no-{option[2:]}")
        elif value is not None:
            found += [option, value]
    return [*found, "--directed"] if graph.directed else found


def evaluation(folder: Path, result: Mapping[str, Any]) -> None:
    """Print an evaluation with the training-free baselines."""
    console().print(_evaluation_table(result))
    _say(_splits_line(result))
    reasons = [f"no {part}: {reason}" for part, reason in result.get("skipped", {}).items()]
    drawn = f"open {folder / run_folder.PICTURE}, or see all: {shlex.join(['dssl', 'report', str(folder)])}"
    for text in [
        *reasons,
        _measure_line(result),
        result.get("verdict", ""),
        result.get("links_verdict", ""),
        "" if "map" in result.get("skipped", {}) else drawn,
    ]:
        if text:
            _say(text)


def regression(folder: Path, result: Mapping[str, Any]) -> None:
    """Print the evaluation of numbers: R² of the ridge probe and of the training-free baselines."""
    table = Table("", "R²", "±", "95% interval", box=None, pad_edge=False)
    table.add_row(escape(str(folder)), *_figures(result["probe"]["r2"]))
    for name, found in sorted(result["sanity"].items(), key=lambda item: -item[1]["r2"]["mean"]):
        table.add_row(f"  {name}", *_figures(found["r2"]))
    console().print(table)
    _say(result["verdict"])


def evaluations(results: Mapping[Path, Mapping[str, Any]]) -> None:
    """Print the scores of several runs, and for those of one configuration the spread over seeds and over splits."""
    from dssl.evaluation.metrics import across_seeds

    out = console()
    table = Table("run", "seed", "measure", "mean", "± over splits", "verdict", box=None, pad_edge=False)
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for folder, result in results.items():
        config = run_folder.read_config(folder)
        measure = result.get("probe", {}).get("measure", "accuracy")
        score = result.get("probe", {}).get(measure, {"mean": None, "std": None})
        figures = [measure.replace("_", " "), *(number(score[name]) for name in ("mean", "std"))]
        table.add_row(escape(str(folder)), str(config.seed), *figures, escape(result.get("verdict", "no probe")))
        if "probe" in result:
            alike = to_toml(config.model_copy(update={"seed": 0}))
            groups.setdefault(alike, {})[config.seed] = result
    out.print(table)
    for found in groups.values():
        if len(found) > 1:
            seeds = sorted(found)
            out.print()
            out.print(_spread_table(across_seeds([found[seed] for seed in seeds])))
            _say(f"seeds {', '.join(map(str, seeds))}; {_splits_line(found[seeds[0]])}")


def _spread_table(spread: Mapping[str, Mapping[str, Any]]) -> Table:
    """Means of the measures, with standard deviation and 95% interval over seeds, and the same over splits."""
    table = Table("", "mean", box=None, pad_edge=False)
    for over in ("seeds", "splits"):
        table.add_column(f"± over {over}")
        table.add_column("interval of the mean")
    for name, score in spread.items():
        cells = []
        for over in ("seeds", "splits"):
            interval = score[over]["interval"]
            cells += [number(score[over]["std"]), " to ".join(map(number, interval)) if interval else "–"]
        table.add_row(f"probe {name}".replace("_", " "), number(score["mean"]), *cells)
    return table


def comparison(found: Comparison) -> None:
    """Show methods side by side, the best of each measure in bold."""
    table = Table(*found.header, box=None, pad_edge=False)
    for row in found.rows():
        table.add_row(*(Text(text.strip("*"), style="bold" if text.startswith("**") else "") for text in row))
    out = console()
    out.print(f"Methods on {found.graph}. {found.notes[0]}", markup=False, highlight=False)
    out.print(table)
    for words in found.notes[1:]:
        out.print(words, style="dim", markup=False, highlight=False)
    for words in found.failed:
        out.print(f"left out: {words}", markup=False, soft_wrap=True)


def info(folder: Path) -> None:
    """Print the content of a run folder; a damaged part is named, and the rest is shown."""
    config = run_folder.read_config(folder, finished=False)
    out = console()
    table = pairs()
    table.add_row("run", escape(str(folder)) + ("" if (folder / run_folder.ENVIRONMENT).exists() else " (unfinished)"))
    described = _part(table, folder / run_folder.GRAPH, GraphRecord)
    if described:
        table.add_row("graph", graph_line(described.summary))
        if described.packed:
            table.add_row("packed graph", escape(described.packed))
        if described.changes:
            table.add_row("prepared", escape("; ".join(described.changes)))
        for sentence in described.warnings:
            table.add_row("warning", f"[yellow]{escape(sentence)}[/yellow]")
        for part, reason in described.left_out.items():
            table.add_row("left out", escape(f"{part} ({reason})"))
    others = [f"{path}={value}" for path, value in changed(config).items()]
    table.add_row("settings", escape(", ".join(others) or "all as by default"))
    made_of = _part(table, folder / FEATURES, InputRecord)
    if made_of and made_of.shares:
        table.add_row("vector", f"{config.encoder.dim} columns, from " + words_of_shares(made_of.shares))
    epochs = run_folder.read_metrics(folder)
    if epochs:
        table.add_row("training", f"{int(epochs[-1]['epoch'] or 0)} epochs, {line(epochs[-1])}")
    made = _part(table, folder / run_folder.ENVIRONMENT, Environment)
    if made:
        table.add_row("made", escape(f"{made.finished} in {made.seconds} s by dssl {made.packages.get('dssl')}"))
        table.add_row("command", escape(made.command))
    result = _part(table, folder / run_folder.EVALUATION, Evaluation)
    out.print(table)
    if result:
        out.print(_evaluation_table(result))
        if "verdict" in result:
            _say(result["verdict"])
    files = Table("file", "bytes", "content", box=None, pad_edge=False)
    sizes = run_folder.sizes(folder)
    for name, size in sizes.items():
        files.add_row(name, f"{size:,}", run_folder.FILES[name])
    files.add_row("total", f"{sum(sizes.values()):,}")
    out.print(files)


def words_of_shares(shares: Mapping[str, float]) -> str:
    """The parts of the input in words, the largest first.

    >>> words_of_shares({"topics": 0.25, "positions": 0.75})
    'positions 75%, topics 25%'
    """
    return ", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda part: -part[1]))


def console() -> Console:
    """The console of standard output; tables in a file or a pipe do not depend on a window."""
    found = Console(emoji=False)
    if not found.is_terminal:
        found.width = 160
    return found


def _say(text: str) -> None:
    """Print a text as it is, without line breaks by the width of a window."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def pairs() -> Table:
    """An empty table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def _part(table: Table, path: Path, kind: type[_Value]) -> _Value | None:
    """A file of the run; none if it is missing, with a line in the table if it is damaged."""
    try:
        return records.read(path, kind) if path.exists() else None
    except DsslError as error:
        table.add_row("damaged", f"[red]{escape(str(error))}[/red]")
        return None


def graph_line(summary: Mapping[str, Any]) -> str:
    """Name and sizes of a graph, escaped."""
    text = (
        f"{summary.get('name', '?')}: {summary.get('nodes', 0):,} nodes, {summary.get('edges', 0):,} edges, "
        f"{summary.get('features', 0):,} features, {summary.get('classes', 0):,} classes"
    )
    homophily = summary.get("edge_homophily")
    return escape(text) + ("" if homophily is None else f", edge homophily {homophily:.2f}")


def _splits_line(result: Mapping[str, Any]) -> str:
    """The nodes that trained, selected and tested the probe, in one line; empty without a probe."""
    splits = result.get("splits")
    if not splits:
        return ""
    sizes = "/".join(f"{size:,}" for size in splits["sizes"][0])
    count = f"{splits['count']} "
    text = ("" if splits["origin"].startswith(count) else count) + f"{splits['origin']}; the first has {sizes} nodes"
    most = max(splits["left_out"])
    return text if not most else f"{text}; up to {most:,} labelled nodes are in no part"


def _evaluation_table(result: Mapping[str, Any]) -> Table:
    """The linear probe, the training-free baselines by its measure, best first, and all other measures."""
    table = Table("", "value", "±", "95% interval", box=None, pad_edge=False)
    probe = result.get("probe", {})
    for name, score in probe.items():
        if isinstance(score, Mapping):
            table.add_row(f"probe {name}".replace("_", " "), *_figures(score))
    measure = probe.get("measure", "accuracy")
    baselines = {name: found[measure] for name, found in result.get("sanity", {}).items()}
    for name, score in sorted(baselines.items(), key=lambda item: -item[1]["mean"]):
        table.add_row(f"  {measure.replace('_', ' ')} of {name}", *_figures(score))
    for part in ("kmeans", "links", "label_free"):
        for name, value in result.get(part, {}).items():
            table.add_row(f"{part} {name}".replace("_", " "), number(value), "", "")
    for name, scores in result.get("kinds", {}).get("rows", {}).items():
        for measure, value in scores.items():
            table.add_row(f"kinds of links, {measure} of {name}", number(value), "", "")
    return table


def _figures(score: Mapping[str, Any]) -> list[str]:
    """Mean, standard deviation and interval of a score over splits."""
    interval = score.get("interval")
    return [number(score["mean"]), number(score["std"]), " to ".join(map(number, interval)) if interval else "–"]


def _measure_line(result: Mapping[str, Any]) -> str:
    """The measure of the probe and its reason, where it is not accuracy."""
    probe = result.get("probe", {})
    if probe.get("measure", "accuracy") == "accuracy":
        return ""
    return f"measured by {probe['measure'].replace('_', ' ')}: {probe['reason']}"
