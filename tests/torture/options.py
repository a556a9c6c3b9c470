"""Campaign (d): random settings of every method and encoder, on odd graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.torture import server

ODD_GRAPHS = {
    "one edge": ("a,b\n", ""),
    "path": ("a,b\nb,c\nc,d\n", ""),
    "star": ("".join(f"a,n{i}\n" for i in range(12)), ""),
    "two parts": ("a,b\nb,c\nx,y\ny,z\n", ""),
    "isolated nodes": ("a,b\n", "id,f\na,1\nb,2\nc,3\nd,4\n"),
    "self loops and repeats": ("a,a\na,b\na,b\nb,a\nb,c\n", ""),
    "constant features": ("a,b\nb,c\nc,a\n", "id,f,g\na,1,x\nb,1,x\nc,1,x\n"),
    "one label": ("a,b\nb,c\nc,a\n", "id,label,f\na,k,1\nb,k,2\nc,k,3\n"),
    "weights": ("source,target,weight\na,b,0.5\nb,c,1e-30\nc,a,1e30\n", ""),
    "labels and text": (
        "".join(f"n{i},n{(i * 7 + 1) % 20}\n" for i in range(20)),
        "id,label,note,size\n" + "".join(f"n{i},{'xy'[i % 2]},word{i % 3} and word{i % 5},{i}\n" for i in range(20)),
    ),
}


ENCODERS = ("hops", "gcn", "gat", "sage", "gin", "mlp")


def line(seed: str, folder: Path) -> tuple[str, ...]:
    """Write a graph and return a random command line for it, with values that the settings allow one by one."""
    from dssl.config.fields import settings_of
    from dssl.config.methods import METHODS
    from dssl.config.resolve import uses

    rng = random.Random(seed)
    edges, nodes = rng.choice(list(ODD_GRAPHS.values()))
    head = "" if edges.startswith("source") else "source,target\n"
    (folder / "edges.csv").write_text(head + edges)
    found = ["fit", "edges.csv", "--out", "run", "-q"]
    if nodes:
        (folder / "nodes.csv").write_text(nodes)
        found += ["--nodes", "nodes.csv"]
    method = rng.choice(sorted(METHODS))
    chosen: dict[str, Any] = {"method.name": method, "train.epochs": rng.choice([0, 1, 2, 2])}
    sections = ("method.", "encoder.", "train.", "graph.", "run.")
    usable = [row for row in settings_of(method) if row.path.startswith(sections) and uses(method, row.path)]
    for row in rng.sample(usable, min(rng.randint(0, 6), len(usable))):
        values = list(_values(rng, row))
        if values and row.path not in chosen:
            chosen[row.path] = rng.choice(values)
    if rng.random() < 0.3 and uses(method, "encoder.name"):
        chosen["encoder.name"] = rng.choice(ENCODERS)
    if rng.random() < 0.3:
        chosen["train.batch_size"] = rng.choice([1, 2, 16])
    chosen.setdefault("encoder.dim", rng.choice([1, 2, 8]))
    if rng.random() < 0.2:
        found.append("--directed")
    for path, value in chosen.items():
        found += ["--set", f"{path}={str(value).lower() if isinstance(value, bool) else value}"]
    return tuple(found)


def _values(rng: random.Random, row: Any) -> Iterator[Any]:
    """Values of a setting: those of the search space, its choices, both answers, numbers near its default."""
    from dssl.config.registry import Range

    if row.path in (
        "method.name",
        "train.device",
        "train.start_from",
        "train.threads",
        "encoder.name",
        "graph.structure_dim",
    ):
        return
    if isinstance(row.search, Range):
        yield f"{rng.uniform(row.search.low, row.search.high):.3g}"
    elif row.search:
        yield from row.search
    yield from row.choices
    if isinstance(row.value, bool):
        yield from (True, False)
    elif isinstance(row.value, int):
        yield from (row.value, row.value + 1, max(row.value // 2, 1), 1)
    elif isinstance(row.value, float):
        yield from (row.value, row.value / 2, min(row.value * 2, max(row.value, 0.9)))


def run(seed: str, folder: Path, scratch: Path) -> tuple[str, tuple[str, ...], server.Result]:
    """Do one case; return a problem or an empty text, the command line and its end."""
    command = line(seed, folder)
    ended = server.dssl(*command, folder=folder, scratch=scratch)
    return ("" if ended.one_line else f"exit code {ended.code}: {ended.err[-2000:]}"), command, ended
