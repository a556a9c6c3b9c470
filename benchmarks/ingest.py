"""Reading an edge list: `dssl.load` beside ``pandas.read_csv`` + ``factorize``, time and memory.

    python benchmarks/ingest.py [--edges 10_000_000] [--rounds 3] [--json FILE]

Ours goes all the way to the graph (ids in order, both directions of each link, rows sorted, repeats merged); pandas
only gets as far as positions and distinct ids. Each measurement is a process of its own, which first reads a tiny file
(imports, compiled code); the two take turns, and the medians are given. Memory is the growth of the largest resident
size over that before the reading; for ours it is also given as a multiple of the arrays of the final graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dssl.runtime import environment
from dssl.studies.results_table import markdown_rows


def write_file(path: Path, edges: int, text: bool) -> None:
    """Random links between a tenth as many nodes; integer ids have gaps, text ids are like ``user_0000007``."""
    rng = np.random.default_rng(0)
    nodes = max(edges // 10, 2)
    ids = pa.array([f"user_{i:07d}" for i in range(nodes)]) if text else pa.array(np.arange(nodes) * 7 + 3)
    schema = pa.schema([("source", ids.type), ("target", ids.type)])
    with pa.csv.CSVWriter(path, schema, write_options=pa.csv.WriteOptions(quoting_style="none")) as writer:
        for begin in range(0, edges, 1_000_000):
            size = min(1_000_000, edges - begin)
            columns = [ids.take(pa.array(rng.integers(0, nodes, size))) for _ in range(2)]
            writer.write_table(pa.table(columns, schema=schema))


def read_ours(path: Path) -> int:
    from dssl import load

    graph = load(path)
    return int(graph.indptr.nbytes + graph.indices.nbytes + graph.ids.nbytes)


def read_pandas(path: Path) -> int:
    import pandas as pd

    table = pd.read_csv(path)
    codes, ids = pd.factorize(pd.concat([table["source"], table["target"]], ignore_index=True))
    return int(codes.nbytes + ids.nbytes)


RESULTS = Path(__file__).resolve().parents[1] / "results"
READERS = {"ours": read_ours, "pandas": read_pandas}
COLUMNS = {
    "ids": "{ids}",
    "edges": "{edges:,}",
    "file, MB": "{file_mb:,.0f}",
    "pandas, s": "{pandas_s:.2f}",
    "dssl, s": "{ours_s:.2f}",
    "faster": "**{speedup:.2f} ×**",
    "pandas, MB": "{pandas_mb:,.0f}",
    "dssl, MB": "{ours_mb:,.0f}",
    "of the graph itself": "{memory_ratio:.2f} ×",
}


def measure(reader: str, path: Path, tiny: Path) -> None:
    """Print seconds, growth of memory and size of the result as JSON; run in a process of its own."""
    read = READERS[reader]
    read(tiny)
    environment.forget_peak()
    before = environment.memory()
    start, cpu = time.perf_counter(), time.process_time()
    size = read(path)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": environment.peak_memory() - before, "result": size}))


def compare(edges: int, rounds: int, text: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path, tiny = Path(folder) / "edges.csv", Path(folder) / "tiny.csv"
        write_file(path, edges, text)
        write_file(tiny, 1000, text)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in READERS}
        for _ in range(rounds):
            for name in READERS:
                command = [sys.executable, __file__, "--measure", name, str(path), str(tiny)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[name].append(json.loads(done.stdout))
        megabytes = path.stat().st_size / 1e6
    middle = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in found.items()
    }
    ours, pandas = middle["ours"], middle["pandas"]
    return {
        "ids": "text" if text else "integers",
        "edges": edges,
        "file_mb": round(megabytes, 1),
        "ours_s": round(ours["seconds"], 3),
        "pandas_s": round(pandas["seconds"], 3),
        "speedup": round(pandas["seconds"] / ours["seconds"], 2),
        "ours_cpu_s": round(ours["cpu"], 3),
        "pandas_cpu_s": round(pandas["cpu"], 3),
        "ours_mb": round(ours["peak"] / 1e6, 1),
        "pandas_mb": round(pandas["peak"] / 1e6, 1),
        "graph_mb": round(ours["result"] / 1e6, 1),
        "memory_ratio": round(ours["peak"] / ours["result"], 2),
    }


def page(records: list[dict[str, Any]], started: datetime) -> str:
    """The records as a table."""
    about = environment.describe("python benchmarks/ingest.py", started=started, resumed_at=0)
    lines = [
        "# Reading a file of edges",
        "",
        "Written by `python benchmarks/ingest.py`: `dssl.load` beside `pandas.read_csv` and `factorize`,",
        "processes of their own that take turns; medians. Memory is what is needed beyond the libraries, at the most.",
        "",
        f"Machine: {about['processor']}, {about['cores']} cores, {about['system']}; Python {about['python']}, "
        f"{about['finished'][:10]}.",
        "",
        *markdown_rows(
            COLUMNS, [[form.format(**record) for form in COLUMNS.values()] for record in records], align="lr"
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--out", type=Path, default=RESULTS / "ingest.md", help="write the page here")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        reader, path, tiny = options.measure
        measure(reader, Path(path), Path(tiny))
        return
    started = datetime.now(UTC)
    records = [compare(options.edges, options.rounds, text) for text in (False, True)]
    for record in records:
        print(
            f"{record['edges']:,} edges, {record['ids']}: ours {record['ours_s']} s, pandas {record['pandas_s']} s "
            f"({record['speedup']}x; processor {record['ours_cpu_s']} s and {record['pandas_cpu_s']} s); "
            f"memory ours {record['ours_mb']} MB = {record['memory_ratio']} x the graph, pandas "
            f"{record['pandas_mb']} MB"
        )
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    options.out.write_text(page(records, started), encoding="utf-8")


if __name__ == "__main__":
    main()
