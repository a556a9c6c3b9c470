"""Many methods on one graph, side by side: ``dssl compare GRAPH``.

Each method is trained in a separate process, one after the other, so that seconds and memory are its own. All are
evaluated on the same splits, together with training-free baselines. Records go to ``OUT/runs`` (see
`dssl.studies.experiments`): a stored training is not repeated. Without labels, some links are held out and ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dssl.config.resolve import resolve, uses
from dssl.config.schema import GraphSettings
from dssl.data.load import FOR_FILES, is_file, read_graph
from dssl.errors import ConfigError, RunError, require
from dssl.evaluation.metrics import Measure, suitable_measure
from dssl.evaluation.probe import ClassWeight
from dssl.evaluation.splits import DRAWN
from dssl.graph import Graph
from dssl.model.storage import CONFIG
from dssl.runtime import files
from dssl.studies import charts, experiments, judge
from dssl.studies.entries import SANITY, Entry, Results, method_entries, method_names
from dssl.studies.experiments import Job
from dssl.studies.records import Record
from dssl.studies.results_table import Cell, bold, csv_text, deviation, markdown_rows

ALL = "all"
OF_FEATURES = ("raw", "smoothed", "hops")  # baselines


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one method.

    Args:
        name: the method or baseline.
        score: measure of the linear probe, in percent, by seed and split.
        nmi: of k-means, in percent, by seed.
        links: area under the curve of hidden links, in percent, by seed.
        seconds: of each training.
        memory: megabytes of each training beyond the process with the graph in it.
        width: columns of the embedding.
    """

    name: str
    score: Cell | None
    nmi: Cell | None
    links: Cell | None
    seconds: tuple[float, ...]
    memory: tuple[float, ...]
    width: int

    @property
    def cost(self) -> tuple[str, str]:
        """Mean seconds, with their deviation over seeds, and the most memory, as text."""
        if not self.seconds:
            return "", ""
        mean = sum(self.seconds) / len(self.seconds)
        spread = f" ± {deviation(self.seconds):.1f}" if len(self.seconds) > 1 else ""
        most = max(self.memory)
        return f"{mean:.1f}{spread}", f"{most:,.0f}" if most >= 1 else "<1"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All methods on one graph.

    Args:
        graph: its name.
        lines: results, baselines first.
        notes: the terms of the comparison, and then sentences on how to read it.
        failed: sentences on methods that could not be trained.
        measure: measure of the linear probe.
    """

    graph: str
    lines: Sequence[Line]
    notes: Sequence[str]
    failed: Sequence[str] = field(default_factory=list)
    measure: Measure = "accuracy"

    @property
    def measures(self) -> dict[str, str]:
        """Attribute of a `Line` by its name in the table, for the measures that were taken."""
        every = {self.measure.replace("_", " "): "score", "NMI": "nmi", "link AUC": "links"}
        return {name: at for name, at in every.items() if any(getattr(line, at) is not None for line in self.lines)}

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return ["method", *self.measures, "columns", "seconds", "memory, MB"]

    def rows(self) -> list[list[str]]:
        """The texts of the table, the best of each measure in bold."""
        found = []
        for line in self.lines:
            texts = [line.name]
            for at in self.measures.values():
                cell = getattr(line, at)
                best = max(other.mean for other in (getattr(one, at) for one in self.lines) if other is not None)
                texts.append("–" if cell is None else bold(cell.text, best=cell.mean == best))
            found.append([*texts, str(line.width) if line.width else "", *line.cost])
        return found

    def markdown(self) -> str:
        """The table as a page."""
        lines = [f"# Methods on {self.graph}", "", self.notes[0], "", *markdown_rows(self.header, self.rows())]
        lines += ["", *(f"- {words}" for words in self.notes[1:])]
        if self.failed:
            lines += ["", "## Left out", "", *(f"- {words}" for words in self.failed)]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """A line per method and measure."""
        rows: list[list[Any]] = []
        for line in self.lines:
            for name, at in self.measures.items():
                if (cell := getattr(line, at)) is not None:
                    rows.append([line.name, name, *cell.figures])
            if line.width:
                rows.append([line.name, "columns", line.width, "", "", "", ""])
            for name, values in (("seconds", line.seconds), ("memory, MB", line.memory)):
                if values:
                    mean = sum(values) / len(values)
                    rows.append([line.name, name, f"{mean:.2f}", "", f"{deviation(values):.2f}", len(values), ""])
        return csv_text(["method", "measure", "mean", "std_splits", "std_seeds", "seeds", "splits"], rows)


def compare(
    source: GraphSettings,
    out: Path,
    *,
    methods: Sequence[str] = (ALL,),
    seeds: int = 3,
    splits: int = 10,
    protocol: str = "random",
    labels: str = "",
    measure: Measure | None = None,
    class_weight: ClassWeight = "none",
    links: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int = 1,
    on_plan: Callable[[int], None] = lambda _: None,
    on_record: Callable[[Job, Record], None] = lambda _job, _record: None,
) -> tuple[Comparison, list[Path]]:
    """Train methods on a graph and compare them; also return the paths of the files.

    Args:
        source: the graph and how it is read.
        out: folder for the table and the records.
        methods: names of methods, ``sanity`` for the baselines, ``all`` for everything.
        seeds: trainings of each method.
        splits: random splits that each is evaluated on.
        protocol: ``random``, ``balanced``, ``one-per-group``, or the name of published splits.
        labels: number of training labels, ``20/class`` or ``1%``.
        measure: measure of the linear probe; by default the one that suits the labels.
        class_weight: weights of the classes in the probe.
        links: whether links are hidden and ranked; by default only where there are no labels.
        settings: settings of the encoder and the training for every method, by dotted path.
        workers: parallel trainings; timings are only comparable with 1.
        on_plan: called with the number of jobs.
        on_record: called with each job and its record.
    """
    require("matplotlib", extra="plots")
    if (out / CONFIG).exists():
        raise RunError(f"{out} holds a fitted model; give another folder for the comparison")
    graph = read_graph(source)
    links = graph.y is None if links is None else links
    if not links and graph.y is None:
        raise ConfigError(f"graph {source.source!r} has no labels; leave out --no-links, so that links are ranked")
    if links and source.directed:
        raise ConfigError("links are hidden and ranked without their direction; leave out --directed")
    suited, reason = suitable_measure([] if graph.y is None else graph.y)
    by = measure or suited
    terms = {
        "hide_links": links,
        "splits": splits,
        "protocol": protocol,
        "labels": labels,
        "measure": by,
        "class_weight": class_weight,
    }
    entries = _entries(source, graph, methods, terms, seeds=seeds, settings=settings or {})
    jobs = list(experiments.jobs_by_key(entry.job for entry in entries).values())
    for job in jobs[:1]:
        judge.splits_of(job)  # a protocol that the graph does not have is reported before anything is trained
    on_plan(len(jobs))
    done = experiments.run(jobs, out / "runs", workers=workers, fresh=True, on_record=on_record)
    failed = [f"{record.row}: {record.error}" for record in done if record.error]
    if len(failed) == len(jobs):
        causes = dict.fromkeys(record.error for record in done)
        raise RunError("nothing could be compared: " + "; ".join(causes if len(causes) == 1 else dict.fromkeys(failed)))
    records = {record.key: record for record in done if not record.error}
    results = [(entry, records[entry.job.key]) for entry in entries if entry.job.key in records]
    notes = _notes(graph, jobs[0], directed=source.directed, seeds=seeds)
    if by != "accuracy":
        notes.append(f"Measure: {by.replace('_', ' ')}, {'as requested' if by == measure else 'since ' + reason}.")
    if settings:
        given = ", ".join(f"`{path}={value}`" for path, value in settings.items())
        notes.append(f"Set for all methods that have it: {given}.")
    found = Comparison(graph.name or source.source, _lines(results), notes, list(dict.fromkeys(failed)), by)
    written = [out / "compare.md", out / "compare.csv"]
    files.write_text(written[0], found.markdown())
    files.write_text(written[1], found.csv())
    written += _picture(found, out / "compare.svg")
    return found, written


def _entries(
    source: GraphSettings,
    graph: Graph,
    methods: Sequence[str],
    terms: Mapping[str, Any],
    *,
    seeds: int,
    settings: Mapping[str, Any],
) -> list[Entry]:
    """The entries of the methods that the graph allows; ``terms`` are the fields of their jobs about evaluation."""
    if method := next((path for path in settings if not path.startswith(("encoder.", "train."))), None):
        raise ConfigError(f"--set {method}: a comparison takes settings of the encoder and of the training only")
    read = _read(source)
    found = []
    for name in method_names(() if ALL in methods else methods):
        if (name in OF_FEATURES and graph.x is None) or (name == "majority" and graph.y is None):
            continue
        for entry in method_entries(name, source.source, seeds=range(seeds)):
            taken = {} if name in SANITY else {path: value for path, value in settings.items() if uses(name, path)}
            own = {**entry.job.settings, **taken}
            if not entry.job.baseline:
                own |= {"directed": True} if source.directed else {}
                resolve(own)  # a wrong setting is reported before anything is trained
            found.append(replace(entry, job=replace(entry.job, settings=own, read=read, **terms)))
    return found


def _read(source: GraphSettings) -> dict[str, Any]:
    """The options to read a graph from files, and the state of these files."""
    way = {"directed": True} if source.directed else {}
    if not is_file(source.source):
        return way
    read = {name: value for name in FOR_FILES if (value := getattr(source, name)) is not None}
    states = [Path(path).stat() for path in (source.source, source.nodes) if path]
    return {**read, **way, "stamp": " ".join(f"{state.st_size}:{state.st_mtime_ns}" for state in states)}


def _lines(results: Results) -> list[Line]:
    """A line per method, in the order of the entries; those with other seeds together."""
    together: dict[str, list[tuple[Entry, Record]]] = {}
    for entry, record in results:
        together.setdefault(entry.column, []).append((entry, record))
    return [
        Line(
            name,
            _cell(found, found[0][0].job.measure),
            _cell(found, "nmi"),
            _cell(found, "link_auc"),
            tuple(record.fit_seconds for _, record in found if record.fit_seconds is not None),
            tuple(record.fit_memory_mb for _, record in found if record.fit_memory_mb is not None),
            found[0][1].views[found[0][0].view].width,
        )
        for name, found in together.items()
    ]


def _cell(found: Results, measure: str) -> Cell | None:
    known = tuple(values for entry, record in found if (values := record.views[entry.view].percent(measure)))
    return Cell(known) if known else None


def _notes(graph: Graph, job: Job, *, directed: bool, seeds: int) -> list[str]:
    ways = "one way (for baselines both ways)" if directed else "both ways"
    what = f"{graph.num_nodes:,} nodes, links {ways}; {seeds} seed{'s' if seeds > 1 else ''}."
    if graph.y is not None:
        measure = job.measure.replace("_", " ").capitalize()
        what += f" {measure} of a linear probe on {_splits(job)} and NMI of k-means, in percent."
    if job.hide_links:
        what += (
            " Link AUC in percent: 15% of the links, the same for all, are held out and ranked against random pairs."
        )
    return [
        what,
        "± is the deviation over splits, (seeds …) that of the means of seeds, ± of the seconds over seeds. Baselines "
        "have one seed.",
        "Seconds and memory are those of the training alone, memory beyond that of the process with the graph in it.",
        "Methods have the settings of their recipe, which validation chose, where it covers the graph; else defaults.",
        "`dssl` is the default, made of closed form and trained vector; `paper-terms` is DSSL on the terms of its "
        "paper: a GCN of 64 columns on the features as they are.",
    ]


def _splits(job: Job) -> str:
    if job.protocol not in DRAWN:
        return f"the {job.protocol} splits"
    kind = f"{job.splits} {DRAWN[job.protocol]}"
    return f"{kind} splits with {job.labels} labels" if job.labels else f"{kind} 60/20/20 splits"


def _picture(found: Comparison, path: Path) -> list[Path]:
    """Accuracy (or the AUC of links) over the seconds of training."""
    at = "score" if "score" in found.measures.values() else "links"
    points = {
        line.name: (sum(line.seconds) / len(line.seconds), cell.mean, cell.over_splits)
        for line in found.lines
        if line.seconds and (cell := getattr(line, at)) is not None
    }
    if not points:
        return []
    what = found.measure.replace("_", " ") if at == "score" else "AUC of hidden links"
    charts.trade_off(points, path, title=f"Methods on {found.graph}", measure=f"{what}, percent", hollow=SANITY)
    return [path]
