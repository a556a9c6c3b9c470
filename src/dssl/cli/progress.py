"""Progress on stderr while a command works: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.status import Status
from rich.text import Text

from dssl.cli import log
from dssl.runtime import environment

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.studies.experiments import Job
    from dssl.studies.records import Record

# Statistics of a training that are shown, with short names.
SHOWN = {
    "loss": "loss",
    "effective_rank": "rank",
    "posterior_entropy": "entropy",
    "factor_usage_max": "usage",
}


class Progress(ExitStack):
    """Progress of a command on stderr: a bar or a changing line on a terminal, plain lines elsewhere.

    A command calls `plan` with the number of steps, and then `epoch`, `record` or `trial` for each; or `stage` with the
    name of each part.

    Args:
        name: of the work in progress.
        quiet: show nothing but failed jobs.
    """

    def __init__(self, name: str = "", *, quiet: bool) -> None:
        super().__init__()
        self.name, self.quiet = name, quiet
        self.console = Console(stderr=True, emoji=False)
        self.json = log.is_json()
        self.bar: Bar | None = None
        self.status: Status | None = None
        self.task: Any = None
        self.total = self.done = 0
        self.started = time.perf_counter()

    @property
    def terminal(self) -> bool:
        """Whether bars and changing lines can be shown."""
        return self.console.is_terminal and not self.json

    def plan(self, total: int) -> None:
        """Announce the number of steps."""
        self.total = total
        if self.terminal and not self.quiet and total:
            columns = (
                TextColumn("{task.description} {task.completed:.0f}/{task.total:.0f}", markup=False),
                BarColumn(),
            )
            text = TextColumn("{task.fields[text]}", markup=False)
            self.bar = self.enter_context(Bar(*columns, TimeRemainingColumn(), text, console=self.console))
            self.task = self.bar.add_task(self.name, total=total, text="")

    def stage(self, name: str) -> None:
        """Show the part that starts."""
        text = f"{self.name}: {name}" if self.name else name
        if self.quiet:
            return
        if not self.terminal:
            self._print(text)
        elif self.status is None:
            self.status = self.enter_context(self.console.status(Text(text)))
        else:
            self.status.update(Text(text))

    def graph(self, graph: Graph, epochs: int) -> None:
        """Show the graph that was read, and announce the epochs."""
        self.name = self.name or "epoch"
        if not self.quiet:
            self._print(str(graph))
            if not _compiled_before().exists():
                self._print("first run on this machine: compiling, once, takes half a minute")
        self.push(_note_compiled)
        self.plan(epochs)

    def epoch(self, record: Mapping[str, float]) -> None:
        """Show the record of an epoch; about ten of all without a terminal."""
        epoch = int(record["epoch"])
        if self.json and not self.quiet:
            self.done = epoch
            log.event("info", "epoch", **record)
            return
        shown = epoch % max(self.total // 10, 1) == 0 or epoch == self.total
        seconds = time.perf_counter() - self.started
        self._step(epoch, line(record), f"epoch {epoch}/{self.total}  {line(record)}  {seconds:.0f} s" if shown else "")

    def record(self, job: Job, record: Record) -> None:
        """Show a job that is done."""
        what = f"{job.row} on {Path(job.graph).name}{f', seed {job.seed}' if job.seed else ''}"
        took = "stored" if record.stored else f"{record.seconds:.0f} s"
        if record.error:
            self._print(f"{self.name}: {what}: {record.error}")
        self._step(
            self.done + 1, what, "" if record.error else f"{self.done + 1}/{self.total} {self.name}: {what}: {took}"
        )

    def trial(self, done: int, value: float | None, best: float | None) -> None:
        """Show the outcome of a trial, and the best so far."""
        text = f"{'failed' if value is None else number(value)}, best {number(best)}"
        self._step(done, text, f"{self.name} {done}/{self.total}: {text}")

    def _step(self, done: int, text: str, plain: str) -> None:
        """Move the bar, or print a plain line without a terminal."""
        self.done = done
        if self.bar is not None:
            self.bar.update(self.task, completed=done, text=text)
        elif plain and not self.quiet:
            self._print(plain)

    def _print(self, text: str) -> None:
        if self.json:
            log.event("info", text)
            return
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _note_compiled(kind: type[BaseException] | None, *_: object) -> None:
    """At the end of a training: if it ended well, its code is compiled."""
    if kind is None:
        with suppress(OSError):  # the cache may not be writable
            _compiled_before().parent.mkdir(parents=True, exist_ok=True)
            _compiled_before().touch()


def _compiled_before() -> Path:
    """A file that exists once a training has ended well with this Numba and these kernels."""
    from dssl.graph.cache import cache_dir

    kernels = sorted(Path(__file__).parents[1].joinpath("kernels").glob("*.py"))
    state = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in kernels]
    digest = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    return cache_dir() / f"compiled-{environment.version('numba')}-{digest}"


def line(record: Mapping[str, float | None]) -> str:
    """Return the loss and the collapse statistics of a record in one line.

    >>> line({"epoch": 1, "loss": 0.25, "effective_rank": 31.04, "local": 1.0})
    'loss 0.25  rank 31.04'
    """
    return "  ".join(f"{short} {number(record[name])}" for name, short in SHOWN.items() if name in record)


def number(value: float | int | None) -> str:
    """Format a figure: thousands separated, four significant digits, a dash for an unknown one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
