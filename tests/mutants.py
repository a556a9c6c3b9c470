"""Deliberate mistakes in the methods, one at a time: do the tests fail? Writes results/mutants.md.

    python tests/mutants.py            all mistakes (`make mutants`; about twenty minutes on two cores)
    python tests/mutants.py bgrl       those of one method, or with words in their description; other rows stay

A mistake (tests/mutants.toml) changes one piece of text in a copy of ``src``. It is caught if the tests beside it fail
there. They must pass on the unchanged copy. A text that is not found exactly once is an error: the list follows the
code.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
RESULT = ROOT / "results" / "mutants.md"
LEAST = 0.95  # of the mistakes are to be caught
SURVIVED = "**survived**"


class Mistake(NamedTuple):
    """A wrong text in place of a right one in a file below ``src/dssl``, and the tests that should fail."""

    what: str
    file: str
    right: str
    wrong: str
    tests: str
    reason: str = ""  # why it may survive


def mistakes() -> list[Mistake]:
    """The list of tests/mutants.toml."""
    groups = tomllib.loads(LIST.read_text(encoding="utf-8"))["group"]
    return [Mistake(**one, tests=group["tests"]) for group in groups for one in group["mistake"]]


def run(source: Path, tests: str) -> tuple[int, str]:
    """Run tests against a copy of the source; return pytest's exit code and the first test that failed."""
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", tests)]
    settings = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    options = ["-q", "-x", "-rf", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *words],
        cwd=ROOT, env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed = re.search(r"^FAILED \S*::([^\s\[]+)", done.stdout, re.MULTILINE)
    return done.returncode, failed[1] if failed else done.stdout[-400:]


def mutated(mistake: Mistake) -> str:
    """The text of a file with a mistake."""
    text = (ROOT / "src" / "dssl" / mistake.file).read_text(encoding="utf-8")
    if (times := text.count(mistake.right)) != 1:
        raise SystemExit(f"{mistake.file}: {mistake.right!r} is there {times} times ({mistake.what})")
    return text.replace(mistake.right, mistake.wrong)


def verdict(clean: Path, mistake: Mistake) -> str:
    """Try a mistake in a copy of its own; return the test that catches it, or that it survived."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(shutil.copytree(clean, Path(folder) / "src"))
        (copied / "dssl" / mistake.file).write_text(mutated(mistake), encoding="utf-8")
        code, said = run(copied, mistake.tests)
    if code not in (0, 1):
        raise SystemExit(f"{mistake.what} ({mistake.file}) breaks the tests instead of failing them: {said}")
    return f"`{said}`" if code else f"{SURVIVED} {mistake.reason}".strip()


def known() -> dict[tuple[str, str], str]:
    """The rows of the last results."""
    lines = RESULT.read_text(encoding="utf-8").splitlines() if RESULT.exists() else []
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {(file, what): found for file, what, found in cells}


def main(chosen: str) -> int:
    """Try the chosen mistakes; return 1 if too few of all are caught."""
    listed = mistakes()
    picked = [mistake for mistake in listed if chosen in f"{mistake.file} {mistake.what}"]
    for mistake in listed:
        mutated(mistake)  # all can be put in, before any is tried
    found = known()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=2) as pool:
        clean = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        selections = list(dict.fromkeys(mistake.tests for mistake in picked))
        for tests, (code, said) in zip(selections, pool.map(partial(run, clean), selections), strict=True):
            if code:
                raise SystemExit(f"{tests} fails without a mistake: {said}")
        for mistake, result in zip(picked, pool.map(partial(verdict, clean), picked), strict=True):
            print(f"{mistake.file}: {mistake.what}: {result}", flush=True)  # noqa: T201
            found[mistake.file, mistake.what] = result
    results = {(one.file, one.what): found.get((one.file, one.what), "not tried") for one in listed}
    caught = sum(result.startswith("`") for result in results.values())
    summary = f"{caught} of {len(results)} mistakes are caught ({caught / len(results):.0%})."
    head = ["# Deliberate mistakes", "", f"`make mutants`, Python {platform.python_version()}. {summary}", ""]
    table = ["| file | mistake | caught by |", "| --- | --- | --- |"]
    table += [f"| {file} | {what} | {result} |" for (file, what), result in results.items()]
    RESULT.write_text("\n".join([*head, *table]) + "\n", encoding="utf-8")
    print(summary)  # noqa: T201
    return int(caught < LEAST * len(results))


if __name__ == "__main__":
    raise SystemExit(main(" ".join(sys.argv[1:])))
