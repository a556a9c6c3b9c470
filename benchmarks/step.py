"""One training step of DSSL beside a straightforward one of PyG: time, memory, and how both grow.

    python benchmarks/step.py [--graphs cora,cornell5,synthetic:nodes=100000,degree=20] [--threads 1] [--json FILE]

A step is forward, backward, Adam, the moving average of the target encoder and the prototypes, on the whole graph, with
the terms of the paper (Eq. 5: local, global, entropy), GCN of two layers, 64 columns, K = 8. The straightforward
implementation (`naive_step`) is what one writes with PyG: ``GCNConv`` on dense features, ``v[start]`` and ``z[end]``
with a row per link, a concatenation, an MLP. Before anything is timed, the two losses must agree to 1e-5 and the
gradients to 1e-3, from the same weights; otherwise the benchmark fails.

The two are processes of their own, each with the allocator that it has by default, and take turns; medians are given.
With one thread, time is that of the processor: on an idle machine it is what the clock says, and other work on the
machine does not count. With several threads it is the clock's.
Memory is the growth of the largest resident size over two steps above that with graph, features and libraries loaded
(a step on a tiny graph was made before): what the step needs beyond its input. ``memory_ratio`` is ours over naive.
Links count both ways. A graph on which the naive step would need more memory than is free is measured without it.

Without ``--graphs`` all graphs are measured, then the growth from 10⁴ to 10⁷ links, and results/step.md and
results/step-scaling.svg are written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

POWER_LAW = "synthetic:nodes={nodes},degree=20,features={features}"
GRAPHS = [
    "cora",
    "twitch-de",
    "cornell5",
    POWER_LAW.format(nodes=100_000, features=128),
    POWER_LAW.format(nodes=1_000_000, features=128),
]
BARS = {GRAPHS[0]: (3, None), GRAPHS[1]: (12, 1 / 10), GRAPHS[2]: (25, 1 / 20), GRAPHS[3]: (7, 1 / 3)}
LINKS = [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000]
DIM, FACTORS = 64, 8
LOCAL = {"beta": 0.6, "sigma1": 0.2, "sigma2": 0.1}
NAIVE_ROWS = 9  # tensors with a row of 64 floats per link that the naive step holds at its peak
SECONDS = 45.0  # for the turns of a graph
NAIVE, OURS = "naive", "ours"


# --- the straightforward step: torch and PyG, nothing of ours -------------------------------------------------------


def naive_step(folder: Path) -> Any:
    """Return a function that makes one step and returns loss and norm of the gradient."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch_geometric.nn import GCNConv

    data = np.load(folder / "graph.npz")
    weights = {name: torch.from_numpy(value) for name, value in np.load(folder / "weights.npz").items()}
    x, edge_index = torch.from_numpy(data["x"]), torch.from_numpy(data["edge_index"])
    neighbour, centre = edge_index
    degrees = torch.bincount(centre, minlength=len(x))
    share, active = 1 / degrees[centre].float(), int((degrees > 0).sum())

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(x.shape[1], DIM, cached=True), GCNConv(DIM, DIM, cached=True)
            self.activation = nn.PReLU()

        def forward(self) -> torch.Tensor:
            return F.normalize(self.second(self.activation(self.first(x, edge_index)), edge_index), dim=1)

    class Naive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.online, self.target = Encoder(), Encoder().requires_grad_(False)
            self.shifts = nn.Sequential(nn.Linear(FACTORS, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
            self.head = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU(), nn.Linear(DIM, FACTORS))
            self.prototypes = nn.Parameter(torch.empty(FACTORS, DIM))

        def forward(self) -> torch.Tensor:
            v = self.online()
            with torch.no_grad():
                z = self.target()
            ours, theirs = v[centre], z[neighbour]
            logits = self.head(DIM**0.5 * torch.cat([ours, theirs], dim=1))
            q, log_q = torch.softmax(logits, dim=1), torch.log_softmax(logits, dim=1)
            shifts = LOCAL["beta"] * self.shifts(torch.eye(FACTORS))
            gap = ours - theirs
            distances = gap.square().sum(dim=1, keepdim=True) + 2 * gap @ shifts.T + shifts.square().sum(dim=1)
            local = (share * (q * distances).sum(dim=1)).sum()
            log_p = torch.log_softmax(v @ F.normalize(self.prototypes, dim=1).T / LOCAL["sigma1"], dim=1)
            by_node = torch.zeros(len(x), FACTORS).index_add(0, centre, share[:, None] * q)
            entropy = -(share * (q * log_q).sum(dim=1)).sum()
            self.sums = (by_node.T @ v).detach()
            return (local - LOCAL["sigma2"] * (by_node * log_p).sum() - entropy) / active

        def after(self) -> None:
            with torch.no_grad():
                for kept, new in zip(self.target.parameters(), self.online.parameters(), strict=True):
                    kept.lerp_(new, 0.01)
                self.prototypes.copy_(F.normalize(self.sums, dim=1))

    model = Naive()
    with torch.no_grad():
        for part in (model.online, model.target):
            part.first.lin.weight.copy_(weights["encoder.layers.0.weight"].T)
            part.second.lin.weight.copy_(weights["encoder.layers.1.weight"].T)
        for number in (0, 2):
            model.shifts[number].weight.copy_(weights[f"shift_network.{number}.weight"].T)
            model.shifts[number].bias.zero_()
            model.head[number].bias.zero_()
        model.head[0].weight.copy_(torch.cat([weights["head.first.weight"], weights["head.second.weight"]]).T)
        model.head[2].weight.copy_(weights["head.out.weight"].T)
        model.prototypes.copy_(weights["prototypes"])
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.005)

    def step() -> tuple[float, float]:
        loss = model()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.stack([parameter.grad.norm() for parameter in trained]).norm()
        optimizer.step()
        model.after()
        return loss.item(), norm.item()

    return step


# --- ours -----------------------------------------------------------------------------------------------------------


def our_graph(name: str) -> Any:
    from dssl.data.load import load

    return load(name).undirected()


def our_model(in_dim: int) -> Any:
    from dssl import rng
    from dssl.config.methods import DSSLSettings
    from dssl.model.build import build
    from dssl.nn import encoders

    settings = DSSLSettings(
        num_factors=FACTORS,
        shift_scale=LOCAL["beta"],
        prototype_variance=LOCAL["sigma1"],
        link_variance=LOCAL["sigma2"],
        entropy_weight=1.0,
        balance_weight=0.0,
        center=False,
        projector=False,
        reconstruction_weight=0.0,
        link_reconstruction_weight=0.0,
        distillation_weight=0.0,
    )
    with rng.seeded(0, "init"):
        encoder = encoders.build("gcn", in_dim=in_dim, dim=DIM, hidden_dim=DIM, layers=2, dropout=0.0, batch_norm=False)
        return build(settings, encoder=encoder, dim=DIM)


def our_step(graph: Any) -> Any:
    """Return a function that makes one step, as `dssl.train` does, and returns loss and norm of the gradient."""
    import torch

    from dssl.nn.batches import full_batch

    model = our_model(graph.num_features).train()
    batch = full_batch(graph, torch.device("cpu"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=0.005)

    def step() -> tuple[float, float]:
        loss = model(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.stack([parameter.grad.norm() for parameter in trained if parameter.grad is not None]).norm()
        optimizer.step()
        model.after_step()
        model.after_epoch()
        return loss.item(), norm.item()

    return step


def machine(threads: int) -> dict[str, float]:
    """Bytes per second of a copy and operations per second of a matrix product, the best of a few."""
    import torch

    a, b = torch.zeros(32_000_000), torch.ones(32_000_000)
    c = torch.rand(1024, 1024)
    torch.set_num_threads(threads)
    copies, products = [], []
    for _ in range(5):
        start = time.perf_counter()
        a.copy_(b)
        copies.append(time.perf_counter() - start)
        start = time.perf_counter()
        c @ c
        products.append(time.perf_counter() - start)
    return {"copy": 2 * a.nbytes / min(copies), "gemm": 2 * 1024**3 / min(products)}


def traffic(nodes: int, arcs: int, entries: int, sparse: bool) -> tuple[float, float]:
    """Bytes and operations of a step of ours, by the model that results/step.md states."""
    row = 4 * DIM
    sparse_products = 7 * arcs * (row + 8)
    head = arcs * ((row + 8 + 8 * FACTORS) + (3 * row + 8 + 4 * FACTORS))
    inputs = 3 * entries * (row + 8 if sparse else 4)
    node_level = 50 * nodes * row
    operations = arcs * (7 * 2 * DIM + 4 * 2 * DIM * FACTORS) + 2 * DIM * DIM * nodes * 12 + 3 * entries * 2 * DIM
    return sparse_products + head + inputs + node_level, operations


# --- a process of its own that makes steps when told to -------------------------------------------------------------


def resident(field: str) -> int:
    """``VmRSS`` or ``VmHWM`` (the largest so far) of this process in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def tell(value: object) -> None:
    print(json.dumps(value), flush=True)


def work(kind: str, name: str, folder: Path, threads: int, stack: contextlib.ExitStack) -> None:
    """Answer each line of the input: a step, or what the machine can do."""
    if kind == OURS:
        import dssl  # first: it chooses how torch takes memory

        assert dssl.__name__
    import torch

    torch.set_num_threads(threads)
    tiny = folder / "tiny"
    if kind == NAIVE:
        naive_step(tiny)()
        step = naive_step(folder)
    else:
        our_step(our_graph("synthetic:nodes=300,degree=4,classes=3,features=16"))()
        step = our_step(our_graph(name))
        from dssl.kernels import buffers

        stack.enter_context(buffers.reused())  # as `dssl.train` does
    Path("/proc/self/clear_refs").write_text("5")  # start the record of the largest resident size anew
    before = resident("VmRSS")
    tell(before)
    for line in sys.stdin:
        if line.strip() == "machine":
            tell(machine(threads))
            continue
        start, cpu, system = time.perf_counter(), time.process_time(), os.times().system
        loss, norm = step()
        seconds, cpu, system = time.perf_counter() - start, time.process_time() - cpu, os.times().system - system
        milliseconds = {
            "ms": 1e3 * (cpu if threads == 1 else seconds),
            "wall_ms": 1e3 * seconds,
            "system_ms": 1e3 * system,
        }
        tell({"loss": loss, "norm": norm, "peak": resident("VmHWM") - before} | milliseconds)


class Worker:
    """The other end of `work`."""

    def __init__(self, kind: str, name: str, folder: Path, threads: int) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("THP_")}
        for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            environment[key] = str(threads)
        command = [sys.executable, __file__, "--work", kind, name, str(folder), str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process of the benchmark ended with code {self.process.wait()}")
        return json.loads(line)

    def ask(self, question: str = "step") -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        found: dict[str, float] = self.answer()
        return found

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def workers(kinds: dict[str, tuple[str, int]], name: str, folder: Path) -> Iterator[dict[str, Worker]]:
    made: dict[str, Worker] = {}
    try:
        for label, (kind, threads) in kinds.items():
            made[label] = Worker(kind, name, folder, threads)
        yield made
    finally:
        for worker in made.values():
            worker.close()


# --- measuring ------------------------------------------------------------------------------------------------------


def write_graph(graph: Any, folder: Path) -> None:
    """The graph and our first weights, for the process that knows nothing of us."""
    import numpy as np
    from scipy import sparse

    folder.mkdir(exist_ok=True)
    x = graph.x.toarray() if sparse.issparse(graph.x) else np.asarray(graph.x)
    edge_index = np.stack([graph.indices.astype(np.int64), graph.sources().astype(np.int64)])
    np.savez(folder / "graph.npz", x=x, edge_index=edge_index)
    weights = {name: value.numpy() for name, value in our_model(graph.num_features).state_dict().items()}
    np.savez(folder / "weights.npz", **weights)


def free_memory() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


def check_equal(first: dict[str, dict[str, float]], name: str) -> None:
    """Fail loudly where the two steps are not the same."""
    naive, ours = first[NAIVE], first[OURS]
    if abs(naive["loss"] - ours["loss"]) > 1e-5 * max(1.0, abs(naive["loss"])):
        raise SystemExit(f"{name}: the losses differ: naive {naive['loss']}, ours {ours['loss']}")
    if abs(naive["norm"] - ours["norm"]) > 1e-3 * naive["norm"]:
        raise SystemExit(f"{name}: the gradients differ: norm {naive['norm']} and {ours['norm']}")


def middle(steps: list[dict[str, float]], key: str) -> float:
    return statistics.median(step[key] for step in steps)


def measure(name: str, threads: int, seconds: float) -> dict[str, Any]:
    """Let the two take turns on one graph."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        graph = our_graph(name)
        sparse = hasattr(graph.x, "nnz")
        entries = int(graph.x.nnz if sparse else graph.x.size)
        needed = NAIVE_ROWS * 4 * DIM * graph.num_arcs
        fits = needed < 0.6 * free_memory()
        if fits:
            write_graph(our_graph("synthetic:nodes=300,degree=4,classes=3,features=16"), folder / "tiny")
            write_graph(graph, folder)
        record: dict[str, Any] = {
            "graph": name,
            "nodes": graph.num_nodes,
            "links": graph.num_edges,
            "arcs": graph.num_arcs,
            "features": graph.num_features,
            "threads": threads,
        }
        del graph
        kinds = {OURS: (OURS, threads)} | ({NAIVE: (NAIVE, threads)} if fits else {})
        cores = os.cpu_count() or 1
        if threads == 1 and cores > 1 and record["arcs"] < 5_000_000:
            kinds["two"] = (OURS, 2)
        steps: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        with workers(kinds, name, folder) as made:
            first = {label: worker.ask() for label, worker in made.items()}
            if fits:
                check_equal(first, name)
            second = {label: worker.ask() for label, worker in made.items()}
            peaks = {label: step["peak"] / 1e6 for label, step in second.items()}
            begin = time.perf_counter()
            while len(steps[OURS]) < 4 or (time.perf_counter() - begin < seconds and len(steps[OURS]) < 60):
                for label, worker in made.items():
                    for _ in range(2 if label == OURS else 1):
                        steps[label].append(worker.ask())
            able = made[OURS].ask("machine")
    ours = middle(steps[OURS], "ms")
    moved, computed = traffic(record["nodes"], record["arcs"], entries, sparse)
    record |= {
        "speedup": None,
        "memory_ratio": None,
        "naive_ms": None,
        "ours_ms": round(ours, 2),
        "naive_mb": None,
        "ours_mb": round(peaks[OURS], 1),
        "steps": len(steps[OURS]),
        "ours_wall_ms": round(middle(steps[OURS], "wall_ms"), 2),
        "ours_system_ms": round(middle(steps[OURS], "system_ms"), 2),
        "bandwidth": round(moved / (ours / 1e3) / able["copy"], 3),
        "gemm_rate": round(computed / (ours / 1e3) / able["gemm"], 3),
        "copy_gb_s": round(able["copy"] / 1e9, 1),
        "gemm_gflop_s": round(able["gemm"] / 1e9, 1),
        "model_mb": round(moved / 1e6, 1),
        "model_gflop": round(computed / 1e9, 2),
    }
    if "two" in steps:
        record["two_threads_wall_ms"] = round(middle(steps["two"], "wall_ms"), 2)
        record["two_threads_difference"] = max(
            abs(a["loss"] - b["loss"]) for a, b in zip(steps[OURS], steps["two"], strict=False)
        )
    if fits:
        record |= {
            "naive_ms": round(middle(steps[NAIVE], "ms"), 2),
            "naive_mb": round(peaks[NAIVE], 1),
            "naive_wall_ms": round(middle(steps[NAIVE], "wall_ms"), 2),
            "speedup": round(middle(steps[NAIVE], "ms") / ours, 2),
            "memory_ratio": round(peaks[OURS] / peaks[NAIVE], 4),
        }
    else:
        record["note"] = f"the naive step does not fit: it needs about {needed / 1e9:.0f} GB"
    return record


def growth(threads: int, records: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Time and memory of our step on power-law graphs of more and more links; some are measured already."""
    found = []
    known = {record["graph"]: record for record in records}
    for links in LINKS:
        name = POWER_LAW.format(nodes=links // 10, features=128)
        if name in known:
            ms, system, mb = (known[name][f"ours_{key}"] for key in ("ms", "system_ms", "mb"))
            found.append({"links": links, "ms": ms, "system_ms": system, "mb": mb})
            continue
        with tempfile.TemporaryDirectory() as text, workers({OURS: (OURS, threads)}, name, Path(text)) as made:
            peak = [made[OURS].ask() for _ in range(2)][-1]["peak"]
            begin = time.perf_counter()
            steps: list[Any] = []
            while len(steps) < 3 or (time.perf_counter() - begin < 3 and len(steps) < 50):
                steps.append(made[OURS].ask())
        times = {key: middle(steps, key) for key in ("ms", "system_ms")}
        found.append({"links": links, **times, "mb": peak / 1e6})
        print(f"growth: {links:,} links: {found[-1]['ms']:.1f} ms, {found[-1]['mb']:.0f} MB", flush=True)
    return found


def exponent(found: list[dict[str, float]], key: str) -> float:
    """Slope of a line through the logarithms."""
    import numpy as np

    x, y = np.log([[row["links"], row[key]] for row in found]).T
    return float(np.polyfit(x, y, 1)[0])


# --- what was found -------------------------------------------------------------------------------------------------


def draw(found: list[dict[str, float]], path: Path) -> None:
    from dssl.evaluation.pictures import new_figure, save

    figure, _ = new_figure(7.5, 3.4, panels=False)
    panels = figure.subplots(1, 2)
    for panel, key, label in zip(
        panels, ("ms", "mb"), ("milliseconds per step", "memory of a step in MB"), strict=True
    ):
        links = [row["links"] for row in found]
        panel.loglog(links, [row[key] for row in found], marker="o", label=f"exponent {exponent(found, key):.2f}")
        last = found[-1]
        panel.loglog(links, [last[key] * n / last["links"] for n in links], "--", color="0.6", label="linear")
        panel.set_xlabel("links")
        panel.set_ylabel(label)
        panel.legend(frameon=False)
    save(figure, path)


def table(records: list[dict[str, Any]]) -> list[str]:
    head = (
        "| graph | nodes | links | naive ms | ours ms | speed-up | bar | naive MB | ours MB | memory ratio | bar "
        "| clock, one and two threads | of copy bandwidth | of GEMM rate |"
    )
    lines = [head, "| --- " + "| --: " * 13 + "|"]
    for record in records:
        least, most = BARS.get(record["graph"], (None, None))
        known = record["speedup"] is not None
        cells = [
            record["graph"],
            f"{record['nodes']:,}",
            f"{record['links']:,}",
            f"{record['naive_ms']:,.0f}" if known else "does not fit",
            f"{record['ours_ms']:,.1f}",
            f"**{record['speedup']:.1f}**" if known else "–",
            f"≥ {least}" if least else "–",
            f"{record['naive_mb']:,.0f}" if known else "–",
            f"{record['ours_mb']:,.0f}",
            f"**1/{1 / record['memory_ratio']:.0f}**" if known else "–",
            f"≤ 1/{1 / most:.0f}" if most else "–",
            " / ".join(f"{record[key]:,.0f}" for key in ("ours_wall_ms", "two_threads_wall_ms") if key in record),
            f"{record['bandwidth']:.0%}",
            f"{record['gemm_rate']:.0%}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def short(records: list[dict[str, Any]]) -> list[str]:
    """The rows that the README quotes: those with something to compare with."""
    lines = ["| graph | nodes | links | PyG, ms | dssl, ms | faster | memory |", "| --- " + "| --: " * 6 + "|"]
    for record in records:
        if record["speedup"] is not None:
            lines.append(
                f"| {record['graph'].partition(':')[0]} | {record['nodes']:,} | {record['links']:,} "
                f"| {record['naive_ms']:,.0f} | {record['ours_ms']:,.0f} | **{record['speedup']:.1f} ×** "
                f"| 1/{1 / record['memory_ratio']:.0f} |"
            )
    return lines


def page(records: list[dict[str, Any]], found: list[dict[str, float]], started: datetime, threads: int) -> str:
    from dssl.runtime import environment

    about = environment.describe("python benchmarks/step.py", started=started, resumed_at=0)
    packages = ", ".join(f"{name} {about['packages'][name]}" for name in ("torch", "torch_geometric", "numba", "numpy"))
    copies, rates = ([record[key] for record in records] for key in ("copy_gb_s", "gemm_gflop_s"))
    notes = [f"{record['graph']}: {record['note']}." for record in records if "note" in record]
    last, before = found[-1], next(row for row in found if row["links"] == found[-1]["links"] // 10)
    newline = "\n"
    rows = [
        f"| {row['links']:,} | {row['ms']:,.1f} | {row['system_ms'] / row['ms']:.0%} | "
        f"{1e6 * row['ms'] / row['links']:,.0f} | {row['mb']:,.0f} |"
        for row in found
    ]
    spread = max(record.get("two_threads_difference", 0.0) for record in records)
    tail = [before, last]
    load = os.getloadavg()[1]
    text = f"""# The step: time and memory of one training step

Made by `python benchmarks/step.py`, whose first lines say what is compared and how. A step is forward, backward, Adam,
moving average and prototypes on the whole graph: GCN, 64 columns, K = 8. Threads on both sides: {threads}; medians of
steps that take turns. In short:

{newline.join(short(records))}

## Measured

*Clock* is what the clock said of ours, in milliseconds; it is that of the step alone only on an idle machine, and the
load average was {load:.1f} at the end on {about["cores"]} cores. All other times are the processor's.

Machine: {about["processor"]}, {about["cores"]} cores, {about["system"]}; Python {about["python"]}, {packages};
{about["finished"][:10]}. Measured beside each graph, with one thread: a copy moves {min(copies):g} to {max(copies):g}
GB/s, a matrix product makes {min(rates):g} to {max(rates):g} Gflop/s.

{newline.join(table(records))}

{newline.join(notes)}

The bars are the least that was asked for. *Memory* is what the step needs beyond graph, features and libraries. With
two threads the loss of every step differs from that with one by at most {spread:.1e}: our own loops give the same bits
with any number of threads; what torch's matrix products give is up to torch.

## What the machine is used for

The model of the traffic, for N nodes, A arcs (links both ways), nnz entries of the features and rows of 64 floats,
which are 256 bytes: seven sparse products (four forward, two backward, one for the alignment) read a row, an index and
a weight per arc, 7 · 264 A; the head reads a row per arc forward, and backward reads one and changes another, with the
rows of K sums, 328 A + 808 A; the features are multiplied three times, 3 · 264 nnz, or 3 · 4 nnz if they are dense;
some 50 arrays of N rows are read or written, 50 · 256 N. Operations: 128 per arc in each sparse product, 1,024 per arc
in each of the head's four products, twelve products of N × 64 by 64 × 64, 3 · 128 nnz for the features. *Of copy
bandwidth* is bytes over time over the bandwidth of a copy; a row that a cache still holds counts as if it came from
memory. *Of GEMM rate* is operations over time over the rate of a large matrix product.

## Growth

Power-law graphs of ten links per node and 128 features, {threads} thread.

![time and memory of a step](step-scaling.svg)

| links | ms | of it in the system, for fresh memory | ns per link | MB |
| --: | --: | --: | --: | --: |
{newline.join(rows)}

Fitted exponents from {found[0]["links"]:,} to {last["links"]:,} links: time {exponent(found, "ms"):.2f}, memory
{exponent(found, "mb"):.2f}; over the last factor of ten alone: time {exponent(tail, "ms"):.2f}, memory
{exponent(tail, "mb"):.2f}. Where it is above one, caches and fresh memory are the cause: see *The step* in
[docs/scale.md](../docs/scale.md).
"""
    return text


def names(text: str) -> list[str]:
    """Split at commas, but not at those inside the spec of a synthetic graph.

    >>> names("cora,synthetic:nodes=100,degree=4,texas")
    ['cora', 'synthetic:nodes=100,degree=4', 'texas']
    """
    found: list[str] = []
    for part in text.split(","):
        if "=" in part and ":" not in part and found:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, help="names of data sets and specs of synthetic graphs")
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the turns of each graph")
    parser.add_argument("--json", type=Path, help="write the records here")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        kind, name, folder, threads = options.work
        with contextlib.ExitStack() as stack:
            work(kind, name, Path(folder), int(threads), stack)
        return
    from dssl.errors import DsslError  # not before: the naive process must not know us

    try:
        run(options)
    except DsslError as error:
        parser.error(str(error))


def run(options: argparse.Namespace) -> None:
    started = datetime.now(UTC)
    records = []
    for name in options.graphs or GRAPHS:
        record = measure(name, options.threads, options.seconds)
        records.append(record)
        said = record.get("note") or (
            f"naive {record['naive_ms']} ms, {record['speedup']}x; memory {record['naive_mb']} MB, "
            f"ratio {record['memory_ratio']}"
        )
        print(f"{name}: ours {record['ours_ms']} ms, {record['ours_mb']} MB; {said}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    if options.graphs is None:
        from dssl.runtime import files

        found = growth(options.threads, records)
        results = Path(__file__).resolve().parents[1] / "results"
        draw(found, results / "step-scaling.svg")
        files.write_text(results / "step.md", page(records, found, started, options.threads))


if __name__ == "__main__":
    main()
