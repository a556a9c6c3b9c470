"""Two processes beside one, on one machine, with the same batches: seconds per epoch, and bytes that are exchanged.

    python benchmarks/distributed.py [--nodes 100_000] [--batch-size 8192] [--rounds 2] [--out results/distributed.md]

Every process has one thread, and one more that makes the batches, so that a single process already keeps two cores
busy: with two cores the clock gains less than each process is spared. Jobs with one and with two processes take turns,
each a torchrun of its own; the first epoch, which compiles, does not count. Beside the time on the clock stands the
time that each process computed: on a machine that others use as well it tells more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EPOCHS = 4


def worker(nodes: int, batch_size: int, out: Path) -> None:
    """Train, and write the times, the losses and the exchanged bytes of one process."""
    import torch.distributed as dist

    from dssl import load
    from dssl.model.estimator import DSSL
    from dssl.runtime import distributed

    exchanged = {"calls": 0, "bytes": 0}

    def counted(call: Any) -> Any:
        def counting(tensor: Any, *rest: Any) -> Any:
            exchanged["calls"] += 1
            exchanged["bytes"] += tensor.numel() * tensor.element_size()
            return call(tensor, *rest)

        return counting

    dist.all_reduce, dist.broadcast = counted(dist.all_reduce), counted(dist.broadcast)
    graph = load(f"synthetic:h=0.3,nodes={nodes},degree=20,features=128")
    marks: list[tuple[float, float, int, int]] = []
    losses: list[float] = []

    def mark(record: dict[str, float]) -> None:
        losses.append(record["loss"])
        marks.append((time.perf_counter(), time.process_time(), exchanged["calls"], exchanged["bytes"]))

    with distributed.joined("cpu"):
        model = DSSL(epochs=EPOCHS, batch_size=batch_size, features="raw", threads=1, seed=0)
        model.fit(graph, on_epoch=mark)
        steps = -(-graph.num_nodes // batch_size)
        pairs = list(itertools.pairwise(marks))
        found = {
            "seconds": statistics.median(b[0] - a[0] for a, b in pairs),
            "computed": statistics.median(b[1] - a[1] for a, b in pairs),
            "calls": (marks[-1][2] - marks[0][2]) / (len(pairs) * steps),
            "bytes": (marks[-1][3] - marks[0][3]) / (len(pairs) * steps),
            "losses": losses,
            "parameters": sum(p.numel() for p in model._fitted().module.parameters() if p.requires_grad),
            "links": graph.num_arcs,
        }
        (out / f"{distributed.world()}-{distributed.rank()}.json").write_text(json.dumps(found))


def job(processes: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a job and return what each process measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", __file__, "--worker", folder]
        command += ["--nodes", str(options.nodes), "--batch-size", str(options.batch_size)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        return [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]


def table(options: argparse.Namespace, found: dict[int, list[list[dict[str, Any]]]]) -> str:
    """Return the page with the results."""
    rows, middle = [], {}
    for processes, rounds in found.items():
        seconds = statistics.median(parts[0]["seconds"] for parts in rounds)
        computed = statistics.median(max(part["computed"] for part in parts) for parts in rounds)
        first = rounds[0][0]
        middle[processes] = seconds, computed
        rows.append(
            f"| {processes} | {seconds:.2f} | {computed:.2f} | {first['calls']:.0f} | {first['bytes'] / 1e3:.0f} KB "
            f"| {first['losses'][-1]:.6f} |"
        )
    one, two = (found[processes][0][0] for processes in (1, 2))
    apart = max(abs(a / b - 1) for a, b in zip(two["losses"], one["losses"], strict=True))
    ratio = [middle[1][kind] / middle[2][kind] for kind in (0, 1)]
    return f"""# Two processes beside one

Written by `python benchmarks/distributed.py`: DSSL with its default encoder on a synthetic graph of {options.nodes:,}
nodes, {one["links"]:,} links (both ways) and 128 features, {options.batch_size:,} centres per step whatever the number
of processes, one thread each and one that makes its batches, medians of {len(found[1])} jobs with {EPOCHS - 1}
epochs. {os.cpu_count()} cores, {platform.machine()}; load of the machine at the end: {os.getloadavg()[0]:.1f}.

| processes | seconds per epoch | computed per process | exchanges per step | bytes per step | last loss |
| --: | --: | --: | --: | --: | --: |
{chr(10).join(rows)}

Two processes are {ratio[0]:.2f} times as fast by the clock and {ratio[1]:.2f} times by what each computes; one
process already keeps two cores busy, training on one and making batches on the other. The losses of
{EPOCHS} epochs differ by at most {apart:.1e} of themselves. The bytes are those of the tensors that a process
gives to be added up, {one["parameters"]:,} gradients first of all; a ring moves 2 (W − 1)/W of them in and out of each
of W processes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "distributed.md")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options.nodes, options.batch_size, options.worker)
        return
    found: dict[int, list[list[dict[str, Any]]]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for processes in found:
            found[processes].append(job(processes, options))
    options.out.write_text(table(options, found), encoding="utf-8")
    print(options.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
