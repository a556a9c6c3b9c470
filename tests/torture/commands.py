"""The commands that the campaigns interrupt, on a graph of 40 nodes, and the comparison of two states of a folder."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.torture import server

SMALL = ("epochs=3", "dim=8", "hidden_dim=8", "splits=2", "checkpoint_every=1", "num_factors=2")
SET = tuple(part for setting in SMALL for part in ("--set", setting))
GRAPH = ("edges.csv", "--nodes", "nodes.csv")
GROWING = ("metrics.jsonl", "study.db", "study.db-journal")  # written line by line, or by transactions
CACHED = "map.parquet"  # an error when it is stored is passed over, since a run folder may be read-only
FIT = ("fit", *GRAPH, "--out", "run", "-q", *SET)


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and the files that it starts from."""

    name: str
    line: tuple[str, ...]
    start: tuple[str, ...] = ("edges.csv", "nodes.csv")
    before: tuple[tuple[str, ...], ...] = ()


COMMANDS = (  # the quick ones first
    Command("embed", ("embed", "run", "-o", "vectors.csv"), before=(FIT,)),
    Command("embed, new graph", ("embed", "run", *GRAPH, "--separate", "-o", "vectors.parquet"), before=(FIT,)),
    Command("factors", ("factors", "run", "-o", "links.parquet"), before=(FIT,)),
    Command("explore --export", ("explore", "run", "--export", "page", "-q"), before=(FIT,)),
    Command("pack", ("pack", *GRAPH, "-o", "packed", "-q")),
    Command(
        "pack --overwrite",
        ("pack", *GRAPH, "-o", "packed", "-q", "--overwrite"),
        before=(("pack", "edges.csv", "-o", "packed", "-q"),),
    ),
    Command("pack, cold cache", ("pack", "python:json", "-o", "packed", "-q")),
    Command("fit", FIT),
    Command("fit --overwrite", (*FIT, "--overwrite", "--seed", "1"), before=(FIT,)),
    Command("fit, mini-batches", (*FIT, "--set", "batch_size=16")),
    Command("report", ("report", "run", "-q"), before=(FIT, ("evaluate", "run", "-q"))),
    Command("evaluate", ("evaluate", "run", "-q"), before=(FIT,)),
    Command("tune", ("tune", *GRAPH, "--out", "search", "--trials", "2", "-q", *SET)),
    Command(
        "compare",
        (
            "compare",
            *GRAPH,
            "--methods",
            "dgi,sanity",
            "--seeds",
            "1",
            "--splits",
            "2",
            "--epochs",
            "2",
            "--out",
            "found",
            "-q",
        ),
    ),
    Command(
        "reproduce", ("reproduce", "table6", "--quick", "--workers", "1", "--out", "found", "-q", "--datasets", "texas")
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of a campaign: ``case`` is watched, and every case starts from a copy of a state of it."""

    root: Path

    @property
    def case(self) -> Path:
        """The folder that commands work in; always the same, since run folders hold full paths."""
        return self.root / "case"

    @property
    def scratch(self) -> Path:
        """Output of the commands."""
        return self.root / "scratch"

    def state_of(self, command: Command) -> Path:
        """A folder in the state from which a command starts."""
        digest = hashlib.sha256(repr((command.start, command.before)).encode()).hexdigest()[:12]
        state = self.root / f"state-{digest}"
        if not state.exists():
            self.clear()
            self.scratch.mkdir(parents=True, exist_ok=True)
            self.case.mkdir()
            write_graph(self.case)
            for line in command.before:
                done = server.dssl(*line, folder=self.case, scratch=self.scratch)
                assert done.code == 0, (line, done)
            shutil.copytree(self.case, state)
        return state

    def clear(self) -> None:
        """Remove the folder of the last case."""
        if self.case.exists():
            shutil.rmtree(self.case)

    def begin(self, command: Command) -> None:
        """Bring the watched folder to the state from which a command starts."""
        state = self.state_of(command)
        self.clear()
        shutil.copytree(state, self.case, symlinks=True)

    def run(self, command: Command, fault: server.Fault | None = None) -> server.Result:
        """Run a command in the watched folder."""
        os.environ["DSSL_CACHE"] = str(self.case / "cache" if "cold cache" in command.name else self.root / "cache")
        return server.dssl(*command.line, folder=self.case, scratch=self.scratch, fault=fault)


def write_graph(folder: Path) -> None:
    """Write the edge list and the node table of a small graph."""
    rng = random.Random(0)
    edges = [(i, (i + step) % 40) for i in range(40) for step in (1, rng.randrange(2, 30))]
    nodes = [
        f"n{i},{'xyz'[i % 3]},{rng.random():.3f},{rng.random():.3f},{i % 3 + rng.random():.3f}\n" for i in range(40)
    ]
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in edges))
    (folder / "nodes.csv").write_text("id,label,a,b,c\n" + "".join(nodes))


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder, with the fields left out that differ between a run and a resumed one."""
    return {str(path.relative_to(folder)): _comparable(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _comparable(path: Path) -> bytes:
    content = path.read_bytes()
    if path.name == "environment.json":
        values = json.loads(content)
        values["resumed_at_epoch"] = values["command"] = None
        return json.dumps(values).encode()
    if path.name == "study.db":  # compared as trials.jsonl
        return b""
    return content


def hidden(names: dict[str, bytes]) -> list[str]:
    """Files under hidden names: temporary files and locks."""
    return [
        name for name in names if any(part.startswith(".") for part in name.split("/")) or name.endswith("-journal")
    ]


def torn(folder: Path, before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Visible files that are neither as before, nor as at the end, nor complete files of their format."""
    found = []
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if not path.is_file() or hidden({name: b""}) or path.name in GROWING or path.suffix == ".jsonl":
            continue
        content = path.read_bytes()
        if content not in (before.get(name), after.get(name)) and not _complete(path, content):
            found.append(name)
    return found


def _complete(path: Path, content: bytes) -> bool:
    try:
        if path.suffix == ".json":
            json.loads(content)
        elif path.suffix == ".toml":
            tomllib.loads(content.decode())
        elif path.suffix == ".safetensors":
            from safetensors import safe_open

            with safe_open(path, framework="np"):
                pass
        elif path.suffix == ".parquet":
            from pyarrow import parquet

            parquet.read_table(io.BytesIO(content))
        elif path.suffix == ".npz":
            zipfile.ZipFile(io.BytesIO(content)).testzip()
        elif path.suffix == ".html":
            return content.rstrip().endswith(b"</html>")
        else:
            return False
    except Exception:
        return False
    return True
