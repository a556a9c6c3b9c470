"""Campaign (e): torchrun with random kills. Campaign (f): soak, many commands in one process."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.torture import commands, server

EPOCHS = 120
PATIENCE = 90.0  # seconds in which a job must end after one of its processes was killed


def torchrun(folder: Path) -> list[str]:
    """The command line of a job of two processes."""
    settings = ("dim=8", "hidden_dim=8", f"epochs={EPOCHS}", "checkpoint_every=5", "num_factors=2")
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "dssl"),
        *("fit", "edges.csv", "--nodes", "nodes.csv", "--out", "run", "-q"),
        *(part for setting in settings for part in ("--set", setting)),
    ]


def _start(folder: Path) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", server.SHIM)}
    return subprocess.Popen(
        torchrun(folder), cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _workers(process: int) -> list[int]:
    """The processes that torchrun has started."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in found if b"dssl" in Path(f"/proc/{child}/cmdline").read_bytes()]


def reference(root: Path) -> Path:
    """A folder with a job that was not interrupted."""
    folder = root / "job-reference"
    if not (folder / "run" / "environment.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        commands.write_graph(folder)
        out, err = _start(folder).communicate(timeout=300)
        assert (folder / "run" / "environment.json").exists(), (out, err)
    return folder


def kill_one(root: Path, seed: int) -> tuple[str, float]:
    """Kill one process of a job while it trains, run the job again, and compare the vectors."""
    rng = random.Random(f"torchrun {seed}")
    expected = reference(root)
    folder = root / "job"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commands.write_graph(folder)
    process = _start(folder)
    metrics, after = folder / "run" / "metrics.jsonl", rng.randint(1, EPOCHS // 2)
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if metrics.exists() and len(metrics.read_bytes().splitlines()) >= after:
            break
        time.sleep(0.01)
    if process.poll() is not None:
        return f"the job ended before epoch {after}: {process.communicate()[1][-500:]}", 0.0
    victim = rng.choice(_workers(process.pid))
    os.kill(victim, signal.SIGKILL)
    begun = time.monotonic()
    try:
        _, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        for child in (*_workers(process.pid), process.pid):
            os.kill(child, signal.SIGKILL)
        process.communicate()
        return f"the job did not end within {PATIENCE:.0f} s", PATIENCE
    seconds = time.monotonic() - begun
    problems = []
    if "Exception ignored" in err:
        problems.append(f"an ignored exception: {err[-800:]}")
    if not any(line.startswith("dssl: error: process ") for line in err.splitlines()):
        problems.append(f"the survivor prints no line: {err[-800:]}")
    again = _start(folder)
    _, err = again.communicate(timeout=300)
    if again.returncode:
        problems.append(f"the same command again: exit code {again.returncode}: {err[-800:]}")
    for name in ("embeddings.parquet", "weights.safetensors"):
        if (folder / "run" / name).read_bytes() != (expected / "run" / name).read_bytes():
            problems.append(f"{name} has other bytes")
    return "; ".join(problems), seconds


def soak(root: Path, rounds: int) -> dict[str, Any]:
    """Run commands in one process, and compare its memory in the middle of the rounds with that at the end."""
    folder, log = root / "soak", root / "soak.jsonl"
    shutil.rmtree(folder, ignore_errors=True)
    log.unlink(missing_ok=True)
    folder.mkdir(parents=True)
    commands.write_graph(folder)
    lines = [
        (*commands.FIT, "--overwrite"),
        ("embed", "run", *commands.GRAPH, "--separate", "-o", "vectors.csv"),
        ("factors", "run", "-o", "links.parquet"),
        ("pack", *commands.GRAPH, "-o", "packed", "--overwrite", "-q"),
    ]

    def work() -> None:
        for _ in range(rounds):
            for line in lines:
                server.rehearse(*line, folder=folder)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            files = len(list(Path("/proc/self/fd").iterdir()))
            with log.open("a") as file:
                file.write(json.dumps({"mb": pages * os.sysconf("SC_PAGE_SIZE") / 2**20, "files": files}) + "\n")

    ended = server.call(work, scratch=root / "scratch", limit=1800)
    found = [json.loads(line) for line in log.read_text().splitlines()]
    problem = "" if ended.code == 0 else f"exit code {ended.code}: {ended.err[-500:]}"
    third = len(found) // 3
    middle, last = (max(row["mb"] for row in part) for part in (found[third : 2 * third], found[2 * third :]))
    if last > 1.05 * middle:
        problem = f"memory grows: {middle:.0f} MB, then {last:.0f} MB"
    if found[-1]["files"] > found[third]["files"]:
        problem = f"open files grow: {found[third]['files']}, then {found[-1]['files']}"
    return {"problem": problem, "rounds": len(found), "middle_mb": round(middle, 1), "last_mb": round(last, 1)}
