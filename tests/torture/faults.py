"""Campaigns (a) and (b): a command is killed, or an operation fails, at the n-th operation on files.

The same command is then called again, and must end with the bytes of a run without a fault.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.torture.commands import CACHED, COMMANDS, Command, Place, contents, hidden, torn
from tests.torture.server import COUNT, FAIL, FAIL_FROM, KILL, TEAR, Fault, Result

READS = ("open-read", "read")
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EACCES": errno.EACCES}


@dataclass(frozen=True, slots=True)
class Reference:
    """A command without a fault: the files before and after it, and its operations."""

    before: dict[str, bytes]
    after: dict[str, bytes]
    changes: tuple[str, ...]
    all: tuple[str, ...]


def reference(place: Place, command: Command) -> Reference:
    """Run a command without a fault, with and without counting reads; the two must agree."""
    found = []
    for reads in (False, True):
        place.begin(command)
        before = contents(place.case)
        done = place.run(command, Fault(place.case, reads=reads))
        assert done.code == 0, (command.name, done)
        found.append((contents(place.case), done.trace))
    assert found[0][0] == found[1][0], f"{command.name}: two runs differ: {_difference(found[0][0], found[1][0])}"
    assert not hidden(found[0][0]), hidden(found[0][0])
    return Reference(before, found[0][0], found[0][1], found[1][1])


def kill_cases(known: Reference, most: int, seed: str) -> list[dict[str, Any]]:
    """Every operation that changes files, and every write once more torn; a random part of them if they are many."""
    cases = [{"at": at, "action": "kill"} for at in range(len(known.changes))]
    cases += [{"at": at, "action": "tear"} for at, kind in enumerate(known.changes) if kind.startswith("write")]
    return _some(cases, most, seed)


def error_cases(known: Reference, most: int, seed: str) -> list[dict[str, Any]]:
    """Each error at each operation that changes files, once and from then on, and errors of reading."""
    cases: list[dict[str, Any]] = []
    for at in range(len(known.changes)):
        cases += [{"at": at, "action": "fail", "error": name} for name in ERRORS]
        cases += [{"at": at, "action": "fail from", "error": "ENOSPC"}]
    for at, kind in enumerate(known.all):
        if kind.startswith(READS):
            cases += [{"at": at, "action": "fail", "error": name, "reads": True} for name in ("EIO", "EACCES")]
    return _some(cases, most, seed)


def _some(cases: list[dict[str, Any]], most: int, seed: str) -> list[dict[str, Any]]:
    if len(cases) <= most:
        return cases
    chosen = set(random.Random(seed).sample(range(len(cases)), most))
    return [case for at, case in enumerate(cases) if at in chosen]


def run(place: Place, command: Command, known: Reference, case: dict[str, Any]) -> str:
    """Do one case; return an empty text if all is well, or the problem."""
    actions = {"kill": KILL, "tear": TEAR, "fail": FAIL, "fail from": FAIL_FROM}
    reads = case.get("reads", False)
    error = ERRORS.get(case.get("error", ""), 0)
    place.begin(command)
    first = place.run(command, Fault(place.case, case["at"], actions[case["action"]], error, reads))
    return "; ".join(_problems(place, command, known, case, first))


def _problems(place: Place, command: Command, known: Reference, case: dict[str, Any], first: Result) -> Iterator[str]:
    if case["action"] in ("kill", "tear"):
        if first.code != -9:
            yield f"it was not killed: exit code {first.code}, {first.err[-300:]!r}"
    elif not first.one_line:
        yield f"exit code {first.code}: {first.err[-600:]!r}"
    elif "a file:" in first.err:
        yield f"no file is named: {first.err!r}"
    if half := torn(place.case, known.before, known.after):
        yield f"torn files: {half}"
    again = place.run(command, Fault(place.case, action=COUNT))
    now = contents(place.case)
    if not again.one_line:
        yield f"the same command again: exit code {again.code}: {again.err[-600:]!r}"
    elif now != known.after and not _only_cached(known.after, now, case):
        yield f"other bytes: {_difference(known.after, now)}; {again.err[-200:]!r}"


def _only_cached(one: dict[str, bytes], other: dict[str, bytes], case: dict[str, Any]) -> bool:
    """Whether an error, not a kill, has left out nothing but a file that is computed again when it is missing."""
    missing = [name for name in one if name not in other]
    rest = {name: content for name, content in one.items() if name not in missing}
    return case["action"] not in ("kill", "tear") and rest == other and all(name.endswith(CACHED) for name in missing)


def _difference(one: dict[str, bytes], other: dict[str, bytes]) -> str:
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    kinds = {name: "new" if name not in one else "missing" if name not in other else "changed" for name in names}
    return ", ".join(f"{name} ({kind})" for name, kind in list(kinds.items())[:6])


def by_name(name: str) -> Command:
    """The command of a name."""
    return next(command for command in COMMANDS if command.name == name)
