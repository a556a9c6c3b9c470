"""The page ``results/torture.md``, made from the stored cases alone."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

TITLES = {
    "kills": (
        "a",
        "Kills",
        "Killed at an operation on files, some inside a write; the same command again ends with the same bytes.",
    ),
    "errors": (
        "b",
        "Failing operations",
        "ENOSPC, EIO or EACCES at an operation; one line, and the same command again ends with the same bytes.",
    ),
    "fuzz": ("c", "Inputs", "Nearly right and damaged inputs; accepted, or refused in one line."),
    "options": (
        "d",
        "Settings",
        "Random settings of all methods and encoders on odd graphs; exit code 0, or 2 with one line.",
    ),
    "jobs": (
        "e",
        "torchrun",
        "One of two processes is killed in training; the same command again ends with the same vectors.",
    ),
    "soak": ("f", "Soak", "Rounds of commands in one process; memory and open files do not grow."),
}


def markdown(rows: list[dict[str, Any]], stored: str = "") -> str:
    """Return the page.

    Args:
        rows: stored cases.
        stored: the page so far. A campaign keeps its section there until as many cases, or a problem, are known.
    """
    sections = []
    for name, (letter, title, words) in TITLES.items():
        head = f"## ({letter}) {title}"
        old = next((f"## {text.strip()}" for text in stored.split("\n## ") if f"## {text}".startswith(head)), "")
        found = [row for row in rows if row["campaign"] == name]
        new = "\n".join([head, "", words, "", *_table(name, found), *_more(name, found)]) if found else ""
        if new and (_counts(new)[0] >= _counts(old)[0] or _counts(new)[1]):
            sections.append(new)
        elif old:
            sections.append(old)
    total, bad = (sum(numbers) for numbers in zip((0, 0), *map(_counts, sections), strict=True))
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    begin = [
        "# Torture",
        f"`make torture` writes this page. {total:,} cases, {bad:,} problems. A problem is a traceback, crash, hang,\n"
        "torn or temporary file, a line that names no file, or other bytes than those of an uninterrupted command.",
        f"dssl {version('dssl')}, {system}, one process at a time.",
    ]
    return "\n\n".join([*begin, *sections]) + "\n"


def _counts(section: str) -> tuple[int, int]:
    """Cases and problems of a section, from the last row of its table."""
    last = next((line for line in section.splitlines() if line.startswith("| all |")), "| all | 0 | 0 | 0 |")
    numbers = [int(cell.replace(",", "")) for cell in last.split("|")[2:-1]]
    return numbers[0], numbers[-2]


def _table(name: str, found: list[dict[str, Any]]) -> Iterator[str]:
    counted = name in ("fuzz", "options")
    head = ["", "cases", *(("accepted", "refused") if counted else ()), "problems", "seconds"]
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' --: |' * (len(head) - 1)}"
    for part in [*dict.fromkeys(row["name"] for row in found), "all"]:
        of = [row for row in found if part in (row["name"], "all")]
        cells = [f"{sum(row['cases'] for row in of):,}"]
        cells += [f"{sum(row.get(kind, 0) for row in of):,}" for kind in ("accepted", "refused")] if counted else []
        cells += [f"{sum(len(row['problems']) for row in of):,}", f"{sum(row['seconds'] for row in of):,.0f}"]
        yield f"| {part} | {' | '.join(cells)} |"


def _more(name: str, found: list[dict[str, Any]]) -> Iterator[str]:
    """Further lines of a section: its own figure, the commits, and the first problems."""
    if name == "soak":
        row = found[-1]
        yield from ("", f"Largest memory: {row['middle_mb']} MB in the second third, {row['last_mb']} MB in the last.")
    if name == "jobs":
        yield from ("", f"Longest time from the kill to the end of the job: {max(row['end'] for row in found):.1f} s.")
    if name == "fuzz":
        yield from (
            "",
            "Batches of 200 inputs are numbered from 0; the seed of an input is the reader, the batch and its number.",
        )
    commits = dict.fromkeys(row["commit"] for row in found if "commit" in row)
    yield from ("", f"Commits: {', '.join(commits) or 'unknown'}.")
    problems = [(row["key"], text) for row in found for text in row["problems"]]
    if problems:
        yield ""
        yield from (f"- `{key}`: {_short(text)}" for key, text in problems[:20])


def _short(text: str) -> str:
    """The first and the last line of a problem: a traceback without its paths."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return " … ".join(dict.fromkeys((lines[0], lines[-1])))[:300].replace("|", "/")
