"""Progress on stderr while a command works: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dssl.runtime import environment

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.studies.experiments import Job
    from dssl.studies.records import Record

# What the progress line shows of a record, with short names.
SHOWN = {
    "loss": "loss",
    "effective_rank": "rank",
    "posterior_entropy": "entropy",
    "factor_usage_max": "usage",
}


class Training(ExitStack):
    """Progress of a training on stderr: a bar on a terminal, about ten plain lines elsewhere.

    Args:
        epochs: how many there will be.
        quiet: show nothing.
    """

    def __init__(self, epochs: int, *, quiet: bool) -> None:
        super().__init__()
        self.epochs, self.quiet = epochs, quiet
        self.console = Console(stderr=True)
        self.bar: Bar | None = None
        self.task: Any = None
        self.started = time.perf_counter()
        self.push(_note_compiled)

    def graph(self, graph: Graph, epochs: int | None = None) -> None:
        """Say what was read; its size may decide on the number of epochs."""
        self.epochs = self.epochs if epochs is None else epochs
        if self.quiet:
            return
        self.console.print(escape(str(graph)), highlight=False, soft_wrap=True)
        if not _compiled_before().exists():
            self.console.print("first run on this machine: compiling, once, takes half a minute", highlight=False)
        if self.console.is_terminal and self.epochs:
            columns = (TextColumn("epoch {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn())
            self.bar = self.enter_context(Bar(*columns, TextColumn("{task.fields[text]}"), console=self.console))
            self.task = self.bar.add_task("", total=self.epochs, text="")

    def epoch(self, record: Mapping[str, float]) -> None:
        """Show the record of an epoch."""
        epoch = int(record["epoch"])
        if self.bar is not None:
            self.bar.update(self.task, completed=epoch, text=line(record))
        elif not self.quiet and (epoch % max(self.epochs // 10, 1) == 0 or epoch == self.epochs):
            seconds = time.perf_counter() - self.started
            self.console.print(f"epoch {epoch}/{self.epochs}  {line(record)}  {seconds:.0f} s", soft_wrap=True)


class Stages(ExitStack):
    """Names of the parts of a longer work on stderr: one changing line on a terminal, plain lines elsewhere.

    Args:
        quiet: show nothing.
        name: what is worked on, if there are several.
    """

    def __init__(self, *, quiet: bool, name: str = "") -> None:
        super().__init__()
        self.console = Console(stderr=True, quiet=quiet)
        self.prefix = f"{name}: " if name else ""
        self.status = self.console.status(escape(f"{self.prefix}reading the graph"))
        if self.console.is_terminal:
            self.enter_context(self.status)

    def show(self, stage: str) -> None:
        """Say which part starts."""
        if self.console.is_terminal:
            self.status.update(escape(self.prefix + stage))
        else:
            self.console.print(self.prefix + stage, markup=False, highlight=False, soft_wrap=True)


class Jobs(ExitStack):
    """Progress over many trainings on stderr: a bar on a terminal, a line for each elsewhere.

    Args:
        name: what they are for.
        quiet: show nothing but what failed.
    """

    def __init__(self, name: str, *, quiet: bool) -> None:
        super().__init__()
        self.name, self.quiet = name, quiet
        self.console = Console(stderr=True)
        bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.bar = self.enter_context(bar)
        self.task: Any = None
        self.total = self.done = 0

    def plan(self, count: int) -> None:
        """Say how many there are."""
        self.total = count
        self.task = self.bar.add_task(self.name, total=count)

    def record(self, job: Job, record: Record) -> None:
        """Count one that is done."""
        self.done += 1
        what = f"{self.name}: {job.row} on {Path(job.graph).name}{f', seed {job.seed}' if job.seed else ''}"
        self.bar.update(self.task, advance=1, description=what)
        if record.error:
            self.console.print(f"{what}: {record.error}", markup=False, soft_wrap=True)
        elif not self.quiet and not self.console.is_terminal:
            took = "stored" if record.stored else f"{record.seconds:.0f} s"
            self.console.print(f"{self.done}/{self.total} {what}: {took}", markup=False, soft_wrap=True)


class Trials(ExitStack):
    """Progress of a search on stderr: a bar on a terminal, a line for each trial elsewhere.

    Args:
        trials: how many there will be.
        quiet: show nothing.
    """

    def __init__(self, trials: int, *, quiet: bool) -> None:
        super().__init__()
        self.trials = trials
        self.console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("trial {task.completed}/{task.total}"), BarColumn(), TimeRemainingColumn())
        text = TextColumn("{task.fields[text]}")
        bar = Bar(*columns, text, console=self.console, disable=not self.console.is_terminal)
        self.bar = self.enter_context(bar)
        self.task = self.bar.add_task("", total=trials, text="")

    def trial(self, done: int, value: float | None, best: float | None) -> None:
        """Show the outcome of a trial, and the best so far."""
        text = f"{'failed' if value is None else number(value)}, best {number(best)}"
        if self.console.is_terminal:
            self.bar.update(self.task, completed=done, text=text)
        else:
            self.console.print(f"trial {done}/{self.trials}: {text}", highlight=False)


def _note_compiled(kind: type[BaseException] | None, *_: object) -> None:
    """At the end of a training: if it ended well, its code is compiled."""
    if kind is None:
        with suppress(OSError):  # the cache may not be writable
            _compiled_before().parent.mkdir(parents=True, exist_ok=True)
            _compiled_before().touch()


def _compiled_before() -> Path:
    """A file that is there once a training has ended well with this Numba and this code."""
    from dssl.graph.cache import cache_dir

    code = Path(__file__).parents[1].joinpath("kernels", "csr.py").stat()
    return cache_dir() / f"compiled-{environment.version('numba')}-{code.st_mtime_ns}-{code.st_size}"


def line(record: Mapping[str, float | None]) -> str:
    """Return the loss and the collapse statistics of a record in one line.

    >>> line({"epoch": 1, "loss": 0.25, "effective_rank": 31.04, "local": 1.0})
    'loss 0.25  rank 31.04'
    """
    return "  ".join(f"{short} {number(record[name])}" for name, short in SHOWN.items() if name in record)


def number(value: float | int | None) -> str:
    """A figure for people: thousands separated, four significant digits, a dash for what is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
