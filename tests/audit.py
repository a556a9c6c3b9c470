"""Known vulnerabilities of the tested versions in constraints.txt, by osv.dev; skipped without a network."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ADDRESS = "https://api.osv.dev/v1/querybatch"
SECONDS = 20
Ask = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def pinned(text: str) -> dict[str, str]:
    """The versions that a file of constraints pins; a local part such as ``+cpu`` is left out."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([A-Za-z0-9._-]+)==([^\s;+]+)", line)
        if match:
            found[match[1]] = match[2]
    return found


def ask(queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send the queries to the database."""
    body = json.dumps({"queries": queries}).encode()
    request = urllib.request.Request(ADDRESS, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found: list[dict[str, Any]] = json.load(answer)["results"]
        return found


def main(pins: Mapping[str, str], asked: Ask = ask) -> int:
    """Print the vulnerable versions; return 1 if there are any."""
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in pins.items()]
    try:
        results = asked(queries)
    except OSError as error:
        sys.stdout.write(f"audit: skipped, osv.dev cannot be reached ({error})\n")
        return 0
    bad = 0
    for (name, version), result in zip(pins.items(), results, strict=True):
        if vulnerabilities := result.get("vulns"):
            bad += 1
            sys.stdout.write(f"audit: {name} {version}: {', '.join(one['id'] for one in vulnerabilities)}\n")
    if not bad:
        sys.stdout.write(f"audit: no known vulnerability in {len(pins)} packages\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(pinned((Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8"))))
