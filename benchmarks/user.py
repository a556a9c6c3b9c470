"""The path of a user with a table of payments, compared with the tools that a user might take instead.

    python -m benchmarks.user [--nodes 50_000] [--rows NAME ...] [--work FOLDER] [--again] [--python PATH]
    python -m benchmarks.user --sizes 40_000 45_000 50_000 55_000 60_000      # how the time of `dssl fit` grows

The graph is that of `benchmarks/payments.py`. Each row is a process of its own: seconds of processor and the largest
resident size. Vectors have 64 columns. One logistic regression (`dssl.evaluation.probe`) is trained on the labelled 5%,
of which a quarter in turn selects its settings, and scored on the other 95%. Records are stored row by row in
``results/user.json``; a row that is there is kept unless ``--again`` is given. Tools that are not installed are named.
They are not dependencies: ``pip install scikit-network gensim pycleora torch-geometric``. A tool that needs older
libraries has an environment, whose interpreter ``--python`` names (``pip install 'numpy<2' pecanpy pandas scipy``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.payments import payments
from numpy.typing import NDArray

RESULTS = Path(__file__).resolve().parents[1] / "results"
DIM = 64
Floats = NDArray[np.float32]
DSSL = [sys.executable, "-m", "dssl"]


def links(folder: Path) -> tuple[pd.Index, NDArray[np.int64]]:
    """Ids of the node table, and both ends of each transaction as positions, shape ``(2, E)``."""
    ids = pd.Index(pd.read_csv(folder / "nodes.csv").id)
    edges = pd.read_csv(folder / "transactions.csv")
    return ids, np.stack([ids.get_indexer(edges[end]) for end in ("source", "target")])


def adjacency(folder: Path) -> Any:
    """The symmetric adjacency matrix of zeros and ones."""
    from scipy import sparse

    ids, (source, target) = links(folder)
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    matrix = sparse.csr_matrix((np.ones(2 * source.size), ends), shape=(len(ids), len(ids)))
    matrix.data[:] = 1
    return matrix


def columns(folder: Path) -> Floats:
    """The node table as numbers, encoded by `dssl`."""
    import dssl

    x = dssl.load(folder / "transactions.csv", nodes=folder / "nodes.csv", label_column="fraud")
    order = pd.Index(x.ids.to_pylist()).get_indexer(pd.read_csv(folder / "nodes.csv").id)
    dense = x.x if isinstance(x.x, np.ndarray) else x.x.toarray()
    return np.asarray(dense[order], np.float32)


def degrees(folder: Path) -> Floats:
    degree = np.asarray(adjacency(folder).sum(axis=1)).ravel()
    return np.stack([np.log1p(degree), degree], axis=1).astype(np.float32)


def spectral(folder: Path) -> Floats:
    from sknetwork.embedding import Spectral

    return np.asarray(Spectral(DIM).fit_transform(adjacency(folder)), np.float32)


def cleora(folder: Path) -> Floats:
    from pycleora import SparseMatrix

    edges = pd.read_csv(folder / "transactions.csv")
    matrix = SparseMatrix.from_iterator(iter((edges.source + " " + edges.target).tolist()), "complex::reflexive::node")
    values = matrix.initialize_deterministically(DIM)
    for _ in range(4):
        values = matrix.left_markov_propagate(values)
        values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
    ids = pd.read_csv(folder / "nodes.csv").id
    at = pd.Index(matrix.entity_ids).get_indexer(ids)
    return np.where((at >= 0)[:, None], np.asarray(values)[at], 0).astype(np.float32)


def deepwalk(folder: Path) -> Floats:
    """Five walks of 40 steps from each node, window 5, one epoch."""
    from gensim.models import Word2Vec

    matrix, draw = adjacency(folder), np.random.default_rng(0)
    pointers, ends, size = matrix.indptr, matrix.indices, matrix.shape[0]
    walks = []
    for _ in range(5):
        steps = [np.arange(size)]
        for _ in range(39):
            now = steps[-1]
            degree = np.diff(pointers)[now]
            pick = pointers[now] + (draw.random(size) * degree).astype(np.int64)
            steps.append(np.where(degree > 0, ends[np.minimum(pick, ends.size - 1)], now))
        walks += np.stack(steps, axis=1).astype(str).tolist()
    model = Word2Vec(walks, vector_size=DIM, window=5, min_count=0, sg=1, workers=1, epochs=1, seed=0)
    return np.asarray([model.wv[str(node)] for node in range(size)], np.float32)


def pecanpy(folder: Path) -> Floats:
    """PecanPy's node2vec with the walks of `deepwalk`, p = 1 and q = 0.5."""
    from pecanpy.pecanpy import SparseOTF

    matrix = adjacency(folder)
    found = SparseOTF(p=1, q=0.5, workers=1, random_state=0)
    found.set_node_ids([str(node) for node in range(matrix.shape[0])])
    found.indptr, found.indices = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    found.data = np.ones(matrix.indices.size, np.float32)
    return np.asarray(found.embed(dim=DIM, num_walks=5, walk_length=40, window_size=5, epochs=1), np.float32)


def dgi(folder: Path) -> Floats:
    """PyG's DeepGraphInfomax with a layer of GCN, on the columns of the node table, 100 epochs."""
    import torch
    from torch_geometric.nn import DeepGraphInfomax, GCNConv

    torch.manual_seed(0)
    matrix = adjacency(folder).tocoo()
    edges = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    x = torch.from_numpy(columns(folder))

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act = GCNConv(x.shape[1], DIM), torch.nn.PReLU(DIM)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.act(self.conv(x, edges))

    model = DeepGraphInfomax(
        hidden_channels=DIM,
        encoder=Encoder(),
        summary=lambda z, *_: z.mean(dim=0).sigmoid(),
        corruption=lambda x, edges: (x[torch.randperm(len(x))], edges),
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(100):
        optimiser.zero_grad()
        model.loss(*model(x, edges)).backward()
        optimiser.step()
    with torch.no_grad():
        return np.asarray(model.encoder(x, edges).numpy(), np.float32)


OTHERS: dict[str, tuple[Callable[[Path], Floats], str, str]] = {
    "columns": (columns, "", "the node table alone"),
    "degrees": (degrees, "", "degree and its logarithm"),
    "spectral": (spectral, "sknetwork", "scikit-network, `Spectral(64)`"),
    "cleora": (cleora, "pycleora", "Cleora, four steps"),
    "dgi": (dgi, "torch_geometric", "PyG, `DeepGraphInfomax` on the node table"),
    "deepwalk": (deepwalk, "gensim", "DeepWalk by gensim, one thread"),
    "pecanpy": (pecanpy, "pecanpy.pecanpy", "PecanPy, node2vec, one thread"),
}
UNUSED = ("karateclub",)  # tools that are only tried


LAUNCHER = """
import json, os, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
found = {"cpu": round(usage.ru_utime + usage.ru_stime, 1), "seconds": round(time.perf_counter() - start, 1)}
open(sys.argv[1], "w").write(json.dumps(found | {"peak_mb": round(usage.ru_maxrss / 1024)}))
sys.exit(code)
"""


def watched(command: list[str], **environment: str) -> dict[str, Any]:
    """Run a command; return its seconds of processor and of the clock, and its largest resident size.

    A small process starts it: the system counts the size of the parent at the start as that of the child.
    """
    with tempfile.NamedTemporaryFile("r") as record:
        start = [sys.executable, "-S", "-c", LAUNCHER, record.name, *command]
        if subprocess.run(start, env=os.environ | environment, check=False).returncode:
            sys.exit(f"{' '.join(command)} failed")
        return dict(json.loads(Path(record.name).read_text()))


def of_run(run: Path, folder: Path) -> Floats:
    """The vectors of a run, in the order of the node table."""
    from dssl.model.embeddings import Embeddings

    found = Embeddings.load(run / "embeddings.parquet")
    return found.values[pd.Index(found.ids.to_pylist()).get_indexer(pd.read_csv(folder / "nodes.csv").id)]


def score(values: Floats, folder: Path) -> dict[str, float]:
    """AUC and average precision on the nodes without a label, means over four choices of the validation part."""
    from dssl.evaluation.probe import linear_probe
    from dssl.evaluation.splits import Split

    y = pd.read_csv(folder / "truth.csv").fraud.to_numpy()
    known = pd.read_csv(folder / "nodes.csv").fraud.notna().to_numpy()
    order = np.random.default_rng(0).permutation(np.flatnonzero(known))
    order = order[np.argsort(y[order], kind="stable")]  # every part has fraudsters
    parts = [order[number::4] for number in range(4)]
    test = np.flatnonzero(~known)
    splits = [Split(np.setdiff1d(order, part), np.sort(part), test) for part in parts]
    scores = linear_probe(values, y, splits, measure="average_precision").scores
    return {name: round(scores[name].mean, 3) for name in ("roc_auc", "average_precision")}


def measure(name: str, folder: Path, cache: Path, python: str = sys.executable) -> dict[str, Any]:
    """The record of one row; ``python`` is the interpreter of another tool."""
    run = folder / "run"
    source = [str(folder / "transactions.csv"), "--nodes", str(folder / "nodes.csv"), "--label-column", "fraud"]
    if name in ("fit", "first fit", "closed form"):
        target = run if name == "fit" else folder / "other"
        options = ["--epochs", "0"] if name == "closed form" else []
        empty = {"NUMBA_CACHE_DIR": str(folder / "empty")} if name == "first fit" else {}
        shutil.rmtree(folder / "empty", ignore_errors=True)
        command = [*DSSL, "fit", *source, "--out", str(target), "--overwrite", "-q", *options]
        return watched(command, **({"NUMBA_CACHE_DIR": str(cache)} | empty)) | score(of_run(target, folder), folder)
    commands = {
        "evaluate": ["evaluate", str(run)],
        "evaluate --links": ["evaluate", str(run), "--links"],
        "report": ["report", str(run)],
        "explore --export": ["explore", str(run), "--export", str(folder / "explore.html")],
    }
    if name in commands:
        return watched([*DSSL, *commands[name]], NUMBA_CACHE_DIR=str(cache))
    out = folder / f"{name}.npy"
    command = [python, "-m", "benchmarks.user", "--vectors", name, "--work", str(folder)]
    found = watched(command, NUMBA_CACHE_DIR=str(cache))
    return found | score(np.load(out), folder)


OURS = {
    "fit": "`dssl fit`",
    "closed form": "`dssl fit --epochs 0`",
    "first fit": "`dssl fit`, compiled code not yet stored",
    "evaluate": "`dssl evaluate`",
    "evaluate --links": "`dssl evaluate --links`",
    "report": "`dssl report`",
    "explore --export": "`dssl explore --export`",
}


def page(found: dict[str, Any]) -> str:
    """The page of the records."""
    titles = OURS | {name: title for name, (_, _, title) in OTHERS.items()}
    lines = [
        "# A table of payments: the path of a user",
        "",
        f"Written by `python benchmarks/user.py`. {found['graph']}, 5% of the nodes are labelled, 3% are fraudsters. "
        "Every row is a process of its own with one compute thread, files and imports included. The same logistic "
        "regression is trained on the labelled nodes and scored on the others. Vectors have 64 columns.",
        "",
        f"{os.cpu_count()} cores, Python {platform.python_version()}. Other jobs ran on the machine at times, so the "
        "seconds of the processor say more than those of the clock.",
        "",
        "| | seconds of processor | of the clock | largest memory, MB | ROC AUC | average precision |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for name, title in titles.items():
        if name in found["rows"]:
            row = found["rows"][name]
            marks = [f"{row[key]:.3f}" if key in row else "" for key in ("roc_auc", "average_precision")]
            lines.append(f"| {title} | {row['cpu']} | {row['seconds']} | {row['peak_mb']:,} | {' | '.join(marks)} |")
    if sizes := found.get("sizes", {}):
        lines += [
            "",
            "`dssl fit` of smaller and larger graphs of the same kind, each in a separate process:",
            "",
            "| nodes | transactions | seconds of processor | per 1,000 nodes, ms | of the clock | largest memory, MB |",
            "| --: | --: | --: | --: | --: | --: |",
        ]
        for nodes, row in sorted(sizes.items(), key=lambda item: int(item[0])):
            each = f"{row['cpu']} | {1e6 * row['cpu'] / int(nodes):,.0f} | {row['seconds']} | {row['peak_mb']:,}"
            lines.append(f"| {int(nodes):,} | {row['transactions']:,} | {each} |")
    if found["missing"]:
        lines += ["", "Not measured, because they are not installed or not importable here:", ""]
        lines += [f"- {name}: {reason}" for name, reason in sorted(found["missing"].items())]
    return "\n".join(lines) + "\n"


def importable(module: str, python: str) -> str:
    """The reason why a module cannot be imported, as some that do not follow current NumPy; or nothing."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1][:100] if done.returncode else ""


def grow(found: dict[str, Any], sizes: list[int], cache: Path, store: Path) -> None:
    """Fit graphs of several sizes; compiled code is there before."""
    from dssl.runtime import files

    for nodes in sizes:
        with tempfile.TemporaryDirectory() as made:
            tables = payments(nodes)
            tables.write(Path(made))
            row = measure("fit", Path(made), cache) | {"transactions": len(tables.transactions)}
        found.setdefault("sizes", {})[str(nodes)] = row
        print(nodes, row, flush=True)
        files.write_text(store, json.dumps(found, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--rows", nargs="*", help="rows to measure; default all")
    parser.add_argument("--work", type=Path, help="folder for the files; by default a temporary one")
    parser.add_argument("--again", action="store_true", help="measure rows again")
    parser.add_argument("--sizes", nargs="*", type=int, default=[], help="fit graphs of these sizes, and nothing else")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the rows of other tools")
    parser.add_argument("--vectors", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.vectors:
        np.save(options.work / f"{options.vectors}.npy", OTHERS[options.vectors][0](options.work))
        return
    from dssl.runtime import files

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    store = RESULTS / "user.json"
    found: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {"rows": {}, "missing": {}}
    with tempfile.TemporaryDirectory() as made:
        work = options.work or Path(made)
        tables = payments(options.nodes)
        tables.write(work)
        found["graph"] = f"{len(tables.nodes):,} nodes, {len(tables.transactions):,} transactions"
        cache = work / "compiled"
        if not cache.exists():  # compiled code is stored by the first run; `first fit` starts from an empty folder
            measure("closed form", work, cache)
        grow(found, options.sizes, cache, store)
        for name in [] if options.sizes else options.rows or [*OURS, *OTHERS]:
            if name in found["rows"] and not options.again:
                continue
            if name not in OURS and (module := OTHERS[name][1]) and (reason := importable(module, options.python)):
                found["missing"][module.partition(".")[0]] = reason
                continue
            if name in OTHERS:
                found["missing"].pop(name, None)
            found["rows"][name] = measure(name, work, cache, options.python if name in OTHERS else sys.executable)
            print(name, found["rows"][name], flush=True)
            files.write_text(store, json.dumps(found, indent=2) + "\n")
        for module in UNUSED:
            if reason := importable(module, options.python):
                found["missing"][module] = reason
        files.write_text(store, json.dumps(found, indent=2) + "\n")
    files.write_text(RESULTS / "user.md", page(found))


if __name__ == "__main__":
    main()
