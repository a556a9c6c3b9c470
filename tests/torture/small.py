"""The small fixed part of campaign (a), for the tests: the layer of files alone, killed at each operation.

Run as a program with the shim below it; prints the number of kills.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dssl.runtime import files
from tests.torture.commands import contents, hidden
from tests.torture.server import KILL, TEAR, Fault, Result, call


def work(folder: Path) -> None:
    """Write a file, a folder and a file under a lock, each in place of an older one."""
    files.write_text(folder / "text.txt", "new" * 1000)
    with files.replacing_folder(folder / "graph") as making:
        (making / "a").write_text("new a")
        (making / "b").write_text("new b")
    with files.locked(folder / ".lock"):
        files.write_json(folder / "record.json", {"value": "new"})


def begin(folder: Path) -> None:
    """Write the older state."""
    files.remove(folder)
    (folder / "graph").mkdir(parents=True)
    for name in ("text.txt", "graph/a", "record.json"):
        (folder / name).write_text("old")


def main(root: Path) -> int:
    """Kill at each operation; every file is then old or new, and the second call ends like one without a kill."""
    case, scratch = root / "case", root / "scratch"
    scratch.mkdir()
    begin(case)
    before = contents(case)

    def run(fault: Fault) -> Result:
        return call(lambda: work(case), scratch=scratch, fault=fault)

    operations = run(Fault(case)).trace
    after = contents(case)
    kills = [(at, KILL) for at in range(len(operations))]
    kills += [(at, TEAR) for at, kind in enumerate(operations) if kind.startswith("write")]
    for at, action in kills:
        begin(case)
        assert run(Fault(case, at, action)).code == -9, at
        found = contents(case)
        graph = {name: text for name, text in found.items() if name.startswith("graph/")}
        states = [
            {name: text for name, text in state.items() if name.startswith("graph/")} for state in (before, after)
        ]
        assert graph in states, (operations[at], graph)
        for name in ("text.txt", "record.json"):
            assert found[name] in (before[name], after[name]), (operations[at], name)
        assert run(Fault(case)).code == 0
        assert contents(case) == after, (operations[at], hidden(contents(case)))
    return len(kills)


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]))}\n")
    sys.stdout.flush()
    os._exit(0)
