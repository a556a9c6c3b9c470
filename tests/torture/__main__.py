"""``make torture``: kills, failing operations, damaged inputs, random settings, torchrun and soak.

Every case has a seed or a number. A case is stored when it has ended, in ``build/torture/results.jsonl``: the same call
resumes, and ``--fresh`` begins anew. The table is ``results/torture.md``; a campaign that was not run, or only in part,
keeps its section there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.torture import server

TOP = Path(__file__).parents[2]
BUILD = TOP / "build" / "torture"
# Cases per command: of the long commands a random part of all operations is taken.
KILLS = {"fit": 400, "fit, mini-batches": 60, "fit --overwrite": 400, "tune": 60, "compare": 25, "evaluate": 25}
ERRORS = {"fit": 120, "fit --overwrite": 80, "explore --export": 60, "tune": 25, "compare": 15, "evaluate": 15}
MOST_KILLS, MOST_ERRORS = 200, 50
SHARES = {"fuzz": 4, "kills": 10, "options": 2, "errors": 4, "jobs": 3, "soak": 1}  # of the time
BATCH = 200  # inputs of a fork


class Results:
    """Stored cases."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.known = {row["key"] for row in self.rows}
        asked = ("git", "describe", "--always", "--dirty", "--exclude=*")
        self.commit = subprocess.run(asked, cwd=TOP, capture_output=True, text=True, check=False).stdout.strip()

    def __contains__(self, key: str) -> bool:
        return key in self.known

    def add(self, key: str, **row: Any) -> None:
        """Store a case."""
        row |= {"key": key, "commit": self.commit}
        self.rows.append(row)
        self.known.add(key)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if row["problems"]:
            sys.stderr.write(f"{key}: {row['problems'][0][:1500]}\n")


def main() -> None:
    """Run the campaigns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SHARES))
    parser.add_argument("--seconds", type=float, default=7200, help="stop after this time; the next call resumes")
    parser.add_argument("--inputs", type=int, default=11_000, help="inputs of the readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    given = parser.parse_args()
    if not server.restart_with_shim(BUILD):
        os.environ.update(server.ENVIRONMENT)
        given.only = ",".join(name for name in given.only.split(",") if name not in ("kills", "errors"))
        sys.stderr.write("torture: no C compiler for shim.c: no kills and no failing operations\n")
    results = Results(BUILD / "results.jsonl")
    if given.fresh:
        results.path.unlink(missing_ok=True)
        results = Results(results.path)
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="dssl-torture-", dir=shared if shared.is_dir() else None))
    try:
        campaign(given, results, root)
    finally:
        os.chdir(TOP)
        shutil.rmtree(root, ignore_errors=True)
        from tests.torture import table

        page = TOP / "results" / "torture.md"
        stored = page.read_text(encoding="utf-8") if page.exists() and not given.fresh else ""
        page.write_text(table.markdown(results.rows, stored), encoding="utf-8")


def campaign(given: argparse.Namespace, results: Results, root: Path) -> None:
    """Run the chosen campaigns, each for its share of the time."""
    os.environ["DSSL_CACHE"] = str(root / "cache")
    names = given.only.split(",")
    server.warm()
    rehearsed = rehearse(root)
    parts = {
        "kills": lambda: faults_campaign(results, root, "kills", given.seed),
        "fuzz": lambda: fuzz_campaign(results, root, rehearsed, given.inputs, given.seed),
        "options": lambda: options_campaign(results, root, given.seed),
        "errors": lambda: faults_campaign(results, root, "errors", given.seed),
        "jobs": lambda: jobs_campaign(results, root, given.seed),
        "soak": lambda: soak_campaign(results, root),
    }
    whole = sum(SHARES[name] for name in names)
    for name in names:
        end = time.monotonic() + given.seconds * SHARES[name] / whole
        for _ in parts[name]():
            if time.monotonic() > end:
                break


def rehearse(root: Path) -> Path:
    """Run each command once in this process, so that the forks find everything imported and compiled."""
    from tests.torture import commands, faults

    folder = root / "rehearsed"
    folder.mkdir()
    (root / "scratch").mkdir()
    commands.write_graph(folder)
    shown, sys.stdout = sys.stdout, (root / "out").open("w")
    try:
        for name in ("fit", "evaluate", "report", "pack", "tune"):
            server.rehearse(*faults.by_name(name).line, folder=folder)
        small = faults.by_name("fit, mini-batches").line
        server.rehearse(*("batches" if part == "run" else part for part in small), folder=folder)
    finally:
        sys.stdout = shown
    return folder


def faults_campaign(results: Results, root: Path, kind: str, seed: int) -> Iterator[None]:
    """Campaigns (a) and (b)."""
    from tests.torture import commands, faults

    place = commands.Place(root)
    for command in commands.COMMANDS:
        most = KILLS.get(command.name, MOST_KILLS) if kind == "kills" else ERRORS.get(command.name, MOST_ERRORS)
        try:
            known = faults.reference(place, command)
        except AssertionError as error:
            results.add(
                f"{kind} {command.name} reference",
                campaign=kind,
                name=command.name,
                cases=0,
                seconds=0.0,
                problems=[str(error)],
            )
            continue
        cases = faults.kill_cases if kind == "kills" else faults.error_cases
        for case in cases(known, most, f"{kind} {command.name} {seed}"):
            operations = known.all if case.get("reads") else known.changes
            key = f"{kind} {command.name} {json.dumps(case)}"
            if key in results:
                continue
            begun = time.monotonic()
            problem = faults.run(place, command, known, case)
            seconds = time.monotonic() - begun
            problems = [f"{operations[case['at']]}: {problem}"] if problem else []
            results.add(key, campaign=kind, name=command.name, cases=1, seconds=seconds, problems=problems)
            yield


def fuzz_campaign(results: Results, root: Path, state: Path, count: int, seed: int) -> Iterator[None]:
    """Campaign (c)."""
    from tests.torture import fuzz

    whole = sum(1 / target.cost for target in fuzz.TARGETS)
    for target in fuzz.TARGETS:
        wanted = round(count / target.cost / whole)
        for number in range(-(-wanted // BATCH)):
            size = min(BATCH, wanted - number * BATCH)
            key = f"fuzz {target.name} {seed} {number} {size}"
            if key in results:
                continue
            begun = time.monotonic()
            found = fuzz.run(target, seed * 1000 + number, size, state=state, root=root, limit=900)
            row = {kind: sum(line["outcome"] == kind for line in found) for kind in ("accepted", "refused")}
            problems = [f"input {line['input']}: {line['detail']}" for line in found if line["outcome"] == "problem"]
            results.add(
                key,
                campaign="fuzz",
                name=target.name,
                cases=len(found),
                seconds=time.monotonic() - begun,
                problems=problems,
                **row,
            )
            yield


def options_campaign(results: Results, root: Path, seed: int) -> Iterator[None]:
    """Campaign (d)."""
    from tests.torture import options

    for number in range(1000):
        key = f"options {seed} {number}"
        if key in results:
            continue
        folder = root / "options"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        begun = time.monotonic()
        problem, line, ended = options.run(f"{seed} {number}", folder, root / "scratch")
        row = {"accepted": int(ended.code == 0), "refused": int(ended.code == 2)}
        problems = [f"dssl {' '.join(line)}: {problem}"] if problem else []
        results.add(
            key, campaign="options", name="fit", cases=1, seconds=time.monotonic() - begun, problems=problems, **row
        )
        yield


def jobs_campaign(results: Results, root: Path, seed: int) -> Iterator[None]:
    """Campaign (e)."""
    from tests.torture import jobs

    for number in range(seed, seed + 8):
        key = f"jobs {number}"
        if key in results:
            continue
        begun = time.monotonic()
        problem, end = jobs.kill_one(root, number)
        seconds = time.monotonic() - begun
        results.add(
            key,
            campaign="jobs",
            name="torchrun fit",
            cases=1,
            seconds=seconds,
            problems=[problem] if problem else [],
            end=end,
        )
        yield


def soak_campaign(results: Results, root: Path) -> Iterator[None]:
    """Campaign (f)."""
    from tests.torture import jobs

    if "soak" not in results:
        begun = time.monotonic()
        found = jobs.soak(root, 150)
        problem = found.pop("problem")
        rounds = found.pop("rounds")
        seconds = time.monotonic() - begun
        results.add(
            "soak",
            campaign="soak",
            name="fit, embed, factors, pack",
            cases=rounds,
            seconds=seconds,
            problems=[problem] if problem else [],
            **found,
        )
        yield


if __name__ == "__main__":
    main()
