"""A large graph from Parquet to Parquet, and one whose features do not fit the memory that a process may have.

    python benchmarks/scale.py [--nodes 250_000,1_000_000] [--out results/scale.md] [--parts fit,embed,pack,limited]

The graph has ten links per node, power-law degrees, 128 features and eight classes. Every part is a process of its
own that is watched while it runs: seconds of the clock and of the processors, the largest resident size (``VmHWM``) and
the largest anonymous part of it (what the system cannot take back). The yardstick is the size of the links and the
features, in float32. ``--epochs`` cuts the training short (by default `dssl fit` takes four epochs of a million nodes).

The limited part packs a graph of fewer nodes and many features, and trains and embeds it in a process whose private
memory the system limits (``RLIMIT_DATA``): to what it has after a training on a tiny graph, which brings in the
libraries and the compiled code, and a part of the size of the features. That limit, and not ``ulimit -v``, because it
counts what a process allocates and not the files that it maps; a control group would count both and needs rights.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dssl.runtime import environment, files
from dssl.studies.results_table import markdown_rows

FEATURES, DEGREE, CLASSES = 128, 10, 8
RESULTS = Path(__file__).resolve().parents[1] / "results"


def write_tables(folder: Path, nodes: int) -> None:
    """Links between nodes of power-law popularity, half of them inside a class; features around a mean per class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=nodes)
    means = 2 * rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    kind = pa.list_(pa.float32(), FEATURES)
    schema = pa.schema([("id", pa.int64()), ("label", pa.int64()), ("x", kind)])
    with pq.ParquetWriter(folder / "nodes.parquet", schema) as writer:
        for begin in range(0, nodes, 50_000):
            part = labels[begin : begin + 50_000]
            x = rng.standard_normal((part.size, FEATURES), dtype=np.float32) + means[part]
            ids = np.arange(begin, begin + part.size) * 7 + 3
            columns = [pa.array(ids), pa.array(part), pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), FEATURES)]
            writer.write_table(pa.table(columns, schema=schema))
    by_class = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[by_class], np.arange(CLASSES + 1))
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(folder / "edges.parquet", schema) as writer:
        for begin in range(0, nodes * DEGREE, 1_000_000):
            size = min(1_000_000, nodes * DEGREE - begin)
            source = (nodes * rng.random(size) ** 2).astype(np.int64)  # a few nodes have most of the links
            any_one = rng.integers(nodes, size=size)
            low, high = first[labels[source]], first[labels[source] + 1]
            inside = by_class[low + (rng.random(size) * (high - low)).astype(np.int64)]
            target = np.where(rng.random(size) < 0.5, inside, any_one)
            writer.write_table(pa.table([pa.array(end * 7 + 3) for end in (source, target)], schema=schema))


def status(field: str) -> int:
    """A field of ``/proc/self/status`` in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


class Watch:
    """Seconds, processor seconds and the largest anonymous memory of the parts of a process."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.largest = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.largest = max(self.largest, status("RssAnon"))
            time.sleep(0.02)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        environment.forget_peak()
        self.largest = 0
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.add(
            {
                "part": name,
                "seconds": round(time.perf_counter() - start, 1),
                "cpu": round(time.process_time() - cpu, 1),
                "peak_mb": round(environment.peak_memory() / 2**20),
                "private_mb": round(max(self.largest, status("RssAnon")) / 2**20),
            }
        )

    def add(self, record: dict[str, Any]) -> None:
        """Note a part, and say so: a long run shows how far it is."""
        self.records.append(record)
        print(json.dumps(record), file=sys.stderr, flush=True)


def wrap(watch: Watch, owner: Any, name: str, title: str) -> None:
    """Watch a function of ours as a part."""
    function = getattr(owner, name)

    def watched(*args: Any, **options: Any) -> Any:
        with watch.part(title):
            return function(*args, **options)

    setattr(owner, name, watched)


def measure_fit(source: str, nodes: str | None, folder: str, epochs: int | None) -> dict[str, Any]:
    from dssl.config.resolve import resolve
    from dssl.methods.dssl.model import DSSLModel
    from dssl.model.estimator import Embedder
    from dssl.model.joint import Joint
    from dssl.nn import batches
    from dssl.runs import workflow

    watch = Watch()
    wrap(watch, workflow, "read_graph", "read the graph")
    wrap(watch, DSSLModel, "prepare", "targets of the decoders")
    wrap(watch, batches, "hop_features", "averages over neighbours")
    wrap(watch, DSSLModel, "embed", "vectors, layer by layer")
    wrap(watch, Joint, "start", "topics, positions and roles")
    wrap(watch, Joint, "finish", "projection")
    wrap(watch, Joint, "join", "vectors of closed form and training")
    marks: list[tuple[float, float]] = []

    def mark(*_: Any) -> None:
        marks.append((time.perf_counter(), time.process_time()))

    config = resolve({"graph.source": source, "graph.nodes": nodes, "train.epochs": epochs})
    found: dict[str, Any] = {}

    def graph_read(graph: Any, number: int) -> None:
        found["size"] = graph.indptr.nbytes + graph.indices.nbytes + graph.x.nbytes
        found["chosen"] = Embedder.from_config(config).schedule(graph).batch_size, number
        found["name"] = str(graph)

    hops = batches.hop_features

    def with_mark(*args: Any) -> Any:
        made = hops(*args)
        mark()
        environment.forget_peak()
        watch.largest = 0
        return made

    batches.hop_features = with_mark  # type: ignore[assignment]

    def epoch(record: Any) -> None:
        mark()
        if len(marks) in (2, 3):
            (a, b), (c, d) = marks[-2:]
            part = "first epoch, with groups of links" if len(marks) == 2 else "an epoch"
            shown = {"part": part, "seconds": round(c - a, 1), "cpu": round(d - b, 1)}
            peaks = round(environment.peak_memory() / 2**20), round(watch.largest / 2**20)
            watch.add(shown | {"peak_mb": peaks[0], "private_mb": peaks[1]})
        found["loss"] = record["loss"]

    start, cpu = time.perf_counter(), time.process_time()
    outcome = workflow.fit(config, Path(folder), overwrite=True, on_graph=graph_read, on_epoch=epoch)
    total = {"part": "all of `dssl fit`", "seconds": round(time.perf_counter() - start, 1)}
    total["cpu"] = round(time.process_time() - cpu, 1)
    total["peak_mb"] = max(record["peak_mb"] for record in watch.records)
    total["private_mb"] = max(record["private_mb"] for record in watch.records)
    return found | {"parts": [*watch.records, total], "warnings": outcome.warnings}


def measure_embed(run_folder: str, source: str, nodes: str | None, out: str) -> dict[str, Any]:
    from dssl.config.resolve import resolve
    from dssl.runs import transform

    watch = Watch()
    with watch.part("`dssl embed` of the graph again, to Parquet"):
        vectors = transform.embed(Path(run_folder), resolve({"graph.source": source, "graph.nodes": nodes}).graph)
        vectors.save(out)
    return {"parts": watch.records, "shape": list(vectors.values.shape), "bytes": Path(out).stat().st_size}


def measure_pack(source: str, nodes: str, out: str) -> dict[str, Any]:
    from dssl.config.resolve import resolve
    from dssl.data.load import read_graph
    from dssl.graph import packed

    watch = Watch()
    with watch.part("`dssl pack`"):
        packed.pack(read_graph(resolve({"graph.source": source, "graph.nodes": nodes}).graph), out, overwrite=True)
    with watch.part("`dssl pack --check`"):
        packed.check(out)
    return {"parts": watch.records}


def write_wide(folder: Path, nodes: int, features: int) -> None:
    from dssl.graph import Graph, packed
    from dssl.runtime import out_of_core

    rng = np.random.default_rng(0)
    x = out_of_core.scratch((nodes, features))
    for begin, block in out_of_core.blocks(x):
        x[begin : begin + len(block)] = rng.standard_normal(block.shape, dtype=np.float32)
    edges = rng.integers(nodes, size=(2, 5 * nodes))
    packed.pack(Graph.from_edges(*edges, num_nodes=nodes, x=x, name="wide"), folder)


def measure_limited(source: str, tiny: str, folder: str, room: int) -> dict[str, Any]:
    from dssl import load
    from dssl.config.resolve import resolve
    from dssl.runs import transform, workflow

    settings = ["epochs=1", "batch_size=256", "fanout=[5]", "threads=1"]
    blocks = [*settings, "in_memory_nodes=1000"]  # the tiny graph is computed as the large one
    workflow.fit(resolve({"graph.source": tiny}, settings=blocks), Path(folder), overwrite=True)
    before = status("VmData")
    resource.setrlimit(resource.RLIMIT_DATA, (before + room,) * 2)
    size = load(source).x.nbytes
    try:
        np.empty(size, np.uint8)
        sys.exit("the limit does not hold")
    except MemoryError:
        pass
    watch = Watch()
    with watch.part("`dssl fit`, one epoch"):
        workflow.fit(resolve({"graph.source": source}, settings=settings), Path(folder), overwrite=True)
    with watch.part("`dssl embed`, to Parquet"):
        transform.embed(Path(folder), resolve({"graph.source": source}).graph).save(Path(folder) / "again.parquet")
    return {"parts": watch.records, "size": size, "room": room, "before": before}


def call(*arguments: Any) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", json.dumps(arguments)]
    # What is freed goes back at once.
    tight = {"MALLOC_MMAP_THRESHOLD_": "1000000"} if arguments[0] == "limited" else {}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | tight)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(parts: list[dict[str, Any]], size: int) -> list[str]:
    rows = [
        [
            part["part"],
            *(f"{part[key]:,}" for key in ("seconds", "cpu", "peak_mb")),
            f"{part['peak_mb'] * 2**20 / size:.2f}",
            f"{part['private_mb']:,}",
        ]
        for part in parts
    ]
    header = ["part", "seconds", "of processors", "largest memory, MB", "× size", "private, MB"]
    return markdown_rows(header, rows, align="lr")


def short(nodes: int, parts: dict[str, Any]) -> str:
    """The sentence that the README quotes."""
    known = {part["part"]: part for name in ("fit", "embed") for part in parts[name]["parts"]}
    whole = next(part for name, part in known.items() if "all of" in name)
    again = next(part for name, part in known.items() if "again" in name)
    return (
        f"{nodes:,} nodes with {DEGREE * nodes:,} links and {FEATURES} features: `dssl fit` takes "
        f"{whole['seconds'] / 60:.0f} minutes on {os.cpu_count()} cores (an epoch {known['an epoch']['seconds']:.0f} "
        f"seconds), `dssl embed` {again['seconds']:.0f} seconds, with at most "
        f"{whole['peak_mb'] * 2**20 / parts['fit']['size']:.1f} times the size of links and features in memory."
    )


def page(found: dict[str, Any]) -> str:
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    processor = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    lines = [
        "# Large graphs",
        "",
        "Written by `python benchmarks/scale.py`; what is measured, and how, is in its first lines. "
        f"{os.cpu_count()} cores ({processor.partition(':')[2].strip()}), {int(memory.split()[1]) >> 20} GB, "
        f"Python {platform.python_version()}, as many threads as cores. When it began, the load of the machine was "
        f"{found['load']:.1f}; where that is more than a core's worth, the seconds of processors say more than "
        "those of the clock.",
    ]
    whole = {int(nodes): parts for nodes, parts in found["sizes"].items() if {"fit", "embed"} <= parts.keys()}
    if whole:
        lines += ["", f"In short: {short(max(whole), whole[max(whole)])}"]
    for nodes, parts in sorted(found["sizes"].items(), key=lambda item: int(item[0])):
        fit = parts["fit"]
        batch, epochs = fit["chosen"]
        every = [part for name in ("fit", "embed", "pack") for part in parts.get(name, {}).get("parts", [])]
        lines += [
            "",
            f"## {int(nodes):,} nodes, from Parquet to Parquet",
            "",
            f"{fit['name']}: links and features take {fit['size'] / 2**20:,.0f} MB in float32. `dssl fit edges.parquet "
            f"--nodes nodes.parquet` chose batches of {batch:,}; epochs trained here: {epochs}.",
            "",
            *table(every, fit["size"]),
        ]
        if "embed" in parts:
            (rows, columns), size = parts["embed"]["shape"], parts["embed"]["bytes"] / 2**20
            lines += ["", f"The result is {rows:,} vectors of length {columns}, {size:,.0f} MB."]
        if not any("all of" in part["part"] for part in every):
            lines += ["", "The run was stopped before it came to its end."]
    for limited in found["limited"].values():
        lines += [
            "",
            "## Features larger than the memory that the process may have",
            "",
            f"{limited['nodes']:,} nodes with {limited['features']:,} features: {limited['size'] / 2**20:,.0f} MB, "
            f"{limited['size'] / limited['room']:.1f} times the {limited['room'] / 2**20:,.0f} MB that the process may "
            f"allocate beside the {limited['before'] / 2**20:,.0f} MB of Python, its libraries and compiled code. In "
            "this table × size is of the features.",
            "",
            *table(limited["parts"], limited["size"]),
        ]
    return "\n".join(lines) + "\n"


def measure(work: Path, count: int, wanted: set[str], epochs: int | None) -> dict[str, Any]:
    """Measure the parts of one size."""
    work.mkdir(parents=True, exist_ok=True)
    edges, nodes = str(work / "edges.parquet"), str(work / "nodes.parquet")
    if not Path(edges).exists():
        write_tables(work, count)
    found = {}
    if "fit" in wanted:
        found["fit"] = call("fit", edges, nodes, str(work / "run"), epochs)
    if "embed" in wanted:
        found["embed"] = call("embed", str(work / "run"), edges, nodes, str(work / "vectors.parquet"))
    if "pack" in wanted:
        found["pack"] = call("pack", edges, nodes, str(work / "graph"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="250_000,1_000_000")
    parser.add_argument("--epochs", type=int, help="of training; by default what `dssl fit` chooses")
    parser.add_argument("--parts", default="fit,embed,pack,limited")
    parser.add_argument("--limited", type=int, nargs=3, default=(100_000, 4096, 700), help="nodes, features, MB")
    parser.add_argument("--work", type=Path, help="folder for the files; by default a temporary one")
    parser.add_argument("--out", type=Path, default=RESULTS / "scale.md", help="write the page here")
    parser.add_argument("--json", type=Path, help="write the records here; what is there already is kept")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, *arguments = json.loads(options.measure)
        print(json.dumps(globals()[f"measure_{name}"](*arguments)))
        return
    wanted = set(options.parts.split(","))
    found: dict[str, Any] = {"sizes": {}, "limited": {}}
    if options.json and options.json.exists():
        found |= json.loads(options.json.read_text())
    found["load"] = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as made:
        work = options.work or Path(made)
        for count in map(int, options.nodes.split(",") if wanted & {"fit", "embed", "pack"} else []):
            known = found["sizes"].setdefault(str(count), {})
            known |= measure(work / str(count), count, wanted, options.epochs)
            files.write_text(options.out, page(found))  # kept if a later part fails
        if "limited" in wanted:
            count, features, limit = options.limited
            shutil.rmtree(work / "wide", ignore_errors=True)
            work.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(work / "tiny", ignore_errors=True)
            write_wide(work / "wide", count, features)
            write_wide(work / "tiny", 2000, 32)
            names = (str(work / name) for name in ("wide", "tiny", "wide-run"))
            measured = call("limited", *names, limit << 20)
            found["limited"][str(count)] = measured | {"nodes": count, "features": features}
            shutil.rmtree(work / "wide")
        if options.json:
            options.json.write_text(json.dumps(found, indent=2) + "\n")
    text = page(found)
    print(text)
    files.write_text(options.out, text)


if __name__ == "__main__":
    main()
