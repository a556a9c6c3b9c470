"""Deliberate mistakes in the methods, one at a time: do the tests fail? Writes results/mutants.md.

    python tests/mutants.py              all mistakes (`make mutants`)
    python tests/mutants.py bgrl         those of one file, or with words in their description
    python tests/mutants.py --fresh      try mistakes again whose file and tests have not changed

A mistake (tests/mutants.toml) replaces one piece of text of a module. It is caught if the tests of its group fail. The
same tests must pass without it. A text that is not found exactly once is an error: the list follows the code.

Each mistake runs in a fork of one process that has imported the heavy libraries. The fork imports dssl from ``src``,
except for the changed module. Therefore the compiled loops come from Numba's cache, which has a folder for each file; a
changed loop that loops of other files call gets an empty cache. Verdicts are stored in build/mutants.json, so that an
interrupted run resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import re
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
RESULT = ROOT / "results" / "mutants.md"
STORE = ROOT / "build" / "mutants.json"
LEAST = 0.95  # of the mistakes are to be caught
SURVIVED = "**survived**"
SECONDS = 600  # of one selection of tests; a mistake that takes longer counts as caught
HEAVY = ("torch", "torch_geometric", "torch_geometric.nn", "numba", "pytest", "sklearn.linear_model", "networkx")
COMPILED = re.compile(r"^@(compiled|numba)", re.MULTILINE)
OPTIONS = ("-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov")


class Mistake(NamedTuple):
    """A wrong text in place of a right one in a file below ``src/dssl``, and the tests that should fail."""

    what: str
    file: str
    right: str
    wrong: str
    tests: str
    reason: str = ""  # why it may survive

    @property
    def name(self) -> str:
        return f"{self.file}: {self.what}"

    @property
    def module(self) -> str:
        return ".".join(["dssl", *Path(self.file).with_suffix("").parts])

    def text(self) -> str:
        """The text of the file with the mistake."""
        text = (ROOT / "src" / "dssl" / self.file).read_text(encoding="utf-8")
        if (times := text.count(self.right)) != 1:
            raise SystemExit(f"{self.file}: {self.right!r} is there {times} times ({self.what})")
        return text.replace(self.right, self.wrong)

    def fingerprint(self) -> str:
        """A hash of the changed file, and of the test files of the group with the helpers next to them."""
        chosen = [ROOT / name for name in test_files(self.tests)]
        helpers = [path for file in chosen for path in file.parent.glob("*.py") if not path.name.startswith("test_")]
        texts = [path.read_bytes() for path in sorted({*chosen, *helpers})]
        return hashlib.sha256(b"".join([self.text().encode(), self.tests.encode(), *texts])).hexdigest()[:16]


class Changed:
    """A finder of one module in another file."""

    def __init__(self, module: str, file: Path) -> None:
        self.module, self.file = module, file

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.file) if name == self.module else None


class FirstFailure:
    """A pytest plugin: the name of the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: object) -> None:
        if getattr(report, "failed", False) and not self.name:
            self.name = re.sub(r".*::|\[.*", "", getattr(report, "nodeid", ""), flags=re.DOTALL)


def mistakes() -> list[Mistake]:
    """The list of tests/mutants.toml."""
    groups = tomllib.loads(LIST.read_text(encoding="utf-8"))["group"]
    return [Mistake(**one, tests=group["tests"]) for group in groups for one in group["mistake"]]


def words_of(tests: str) -> list[str]:
    return [word.strip("'") for word in re.findall(r"'[^']*'|\S+", tests)]


def test_files(tests: str) -> list[str]:
    return [word.partition("::")[0] for word in words_of(tests) if word.startswith("tests/")]


def run(tests: str, mistake: Mistake | None = None) -> tuple[int, str]:
    """Run tests in a fork; return pytest's exit code and the first test that failed, or the output."""
    with tempfile.TemporaryDirectory() as folder:
        output, failed = Path(folder) / "output.txt", Path(folder) / "failed.txt"
        child = os.fork()
        if child == 0:
            _perform(tests, mistake, Path(folder), output, failed)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            return 1, "time limit" if os.WTERMSIG(status) == signal.SIGALRM else f"signal {os.WTERMSIG(status)}"
        return os.WEXITSTATUS(status), failed.read_text() if failed.exists() else output.read_text()[-600:]


def _perform(tests: str, mistake: Mistake | None, folder: Path, output: Path, failed: Path) -> None:
    """In the fork: import the changed module from a temporary file, run pytest, and exit."""
    import pytest
    from numba.core import config

    signal.alarm(SECONDS)
    os.chdir(ROOT)
    with output.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    code = 3
    try:
        if mistake is not None:
            changed = folder / Path(mistake.file).name
            changed.write_text(mistake.text(), encoding="utf-8")
            sys.meta_path.insert(0, Changed(mistake.module, changed))
            if has_compiled_callers(mistake):
                config.CACHE_DIR = str(folder)
        first = FirstFailure()
        code = int(pytest.main([*OPTIONS, *words_of(tests)], plugins=[first]))
        if first.name:
            failed.write_text(first.name)
    finally:
        sys.stdout.flush()
        os._exit(code)


def has_compiled_callers(mistake: Mistake) -> bool:
    """Whether another file with compiled loops imports the module: its cache would contain the right loops."""
    if not COMPILED.search(mistake.text()):
        return False
    others = [path for path in (ROOT / "src" / "dssl").rglob("*.py") if path != ROOT / "src" / "dssl" / mistake.file]
    texts = (path.read_text(encoding="utf-8") for path in others)
    return any(mistake.module in text and COMPILED.search(text) for text in texts)


def verdict(mistake: Mistake) -> str:
    """Try a mistake; return the test that catches it, or that it survived."""
    code, message = run(mistake.tests, mistake)
    if code not in (0, 1):
        raise SystemExit(f"{mistake.name}: the tests cannot run: {message}")
    return f"`{message}`" if code else f"{SURVIVED} {mistake.reason}".strip()


def write(listed: list[Mistake], stored: dict[str, list[str]]) -> float:
    """Write results/mutants.md; return the fraction that is caught."""
    results = {one: stored.get(one.name, ["", "not tried"])[1] for one in listed}
    caught = sum(result.startswith("`") for result in results.values())
    summary = f"{caught} of {len(results)} mistakes are caught ({100 * caught / len(results):.1f} %)."
    head = ["# Deliberate mistakes", "", f"`make mutants`, Python {platform.python_version()}. {summary}", ""]
    table = ["| file | mistake | caught by |", "| --- | --- | --- |"]
    table += [f"| {one.file} | {one.what} | {result} |" for one, result in results.items()]
    RESULT.write_text("\n".join([*head, *table]) + "\n", encoding="utf-8")
    print(summary)  # noqa: T201
    return caught / len(results)


def main() -> int:
    """Try the chosen mistakes; return 1 if too few of all are caught."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="of the file or the description; by default all mistakes")
    parser.add_argument("--fresh", action="store_true", help="ignore the stored verdicts")
    options = parser.parse_args()
    listed = mistakes()
    if len({one.name for one in listed}) < len(listed):
        raise SystemExit("two mistakes have the same file and description")
    stored: dict[str, list[str]] = json.loads(STORE.read_text()) if STORE.exists() else {}
    prints = {one: one.fingerprint() for one in listed}  # all can be put in, before any is tried
    stored = {one.name: stored[one.name] for one in listed if stored.get(one.name, [""])[0] == prints[one]}
    chosen = [one for one in listed if " ".join(options.words) in one.name]
    picked = [one for one in chosen if options.fresh or one.name not in stored]
    os.environ.update(OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in HEAVY:
        importlib.import_module(name)
    STORE.parent.mkdir(exist_ok=True)
    passing: set[str] = set()
    for one in picked:
        if one.tests not in passing:
            code, message = run(one.tests)
            if code:
                raise SystemExit(f"{one.tests} fails without a mistake: {message}")
            passing.add(one.tests)
        start = time.perf_counter()
        stored[one.name] = [prints[one], verdict(one)]
        STORE.write_text(json.dumps(stored, indent=0, ensure_ascii=False))
        print(f"{time.perf_counter() - start:5.1f} s  {one.name}: {stored[one.name][1]}", flush=True)  # noqa: T201
    return int(write(listed, stored) < LEAST)


if __name__ == "__main__":
    raise SystemExit(main())
