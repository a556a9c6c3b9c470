"""Campaign (c): nearly right and damaged inputs of every reader, and every file of a run folder and a packed graph.

The readers run in a fork that takes many inputs. An input is accepted, or refused by an error that the command line
prints as one line; any other exception, a warning, a crash, or an input that takes too long is a problem. The seed of
an input is made of the reader, the number of the batch and its own number.
"""

from __future__ import annotations

import json
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from tests.torture import inputs, server
from tests.torture.inputs import Rng

SLOW = 20.0  # seconds of processor time that one input may take
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Target:
    """A reader: ``prepare`` writes an input to a folder and returns the work that reads it; ``cost`` is its share."""

    name: str
    prepare: Callable[[Rng, Path, Path], Work]
    cost: int = 1


def _edges(rng: Rng, folder: Path, _: Path) -> Work:
    import dssl

    names = ["source", "target", *["weight"] * rng.randint(0, 1)]
    content = inputs.table_text(rng, names if rng.random() < 0.9 else names[:1], ids=2)
    path = inputs.written(folder / f"edges{rng.choice(['.csv', '.tsv', '.txt', '.csv.gz'])}", content, rng)
    options: dict[str, Any] = {}
    for name, values in {"header": [True, False], "directed": [True], "weight_column": ["weight", "3"]}.items():
        if rng.random() < 0.15:
            options[name] = rng.choice(values)
    return lambda: dssl.load(path, **options)


def _nodes(rng: Rng, folder: Path, _: Path) -> Work:
    import dssl

    edges = folder / "edges.csv"
    edges.write_text("source,target\nn0,n1\nn1,n2\nn2,n3\n")
    path = inputs.written(folder / "nodes.csv", inputs.table_text(rng, ["id", "label", "a", "b"], ids=1), rng)
    kinds = ["number", "number", "category", "text", "ignore", "flag", "date", "vector", "x"]
    chosen = {rng.choice(["a", "a", "b", "b", "z"]): rng.choice(kinds) for _ in range(rng.choice([0, 0, 0, 1, 2]))}
    return lambda: dssl.load(edges, nodes=path, column_types=chosen or None)


def _parquet(rng: Rng, folder: Path, _: Path) -> Work:
    import dssl

    names = ["source", "target", *["weight"] * rng.randint(0, 1)]
    content = inputs.parquet_bytes(inputs.arrow_table(rng, names, ids=2))
    if rng.random() < 0.4:
        return lambda: dssl.load(inputs.written(folder / "edges.parquet", content, rng))
    (folder / "edges.parquet").write_bytes(content)
    table = inputs.parquet_bytes(inputs.arrow_table(rng, ["id", "label", "a", "b"], ids=1))
    nodes = inputs.written(folder / "nodes.parquet", table, rng)
    return lambda: dssl.load(folder / "edges.parquet", nodes=nodes)


def _npz(rng: Rng, folder: Path, _: Path) -> Work:
    import dssl
    from dssl.model.embeddings import Embeddings

    path = inputs.written(folder / "graph.npz", inputs.npz_bytes(rng), rng)
    reader = rng.choice([dssl.load, Embeddings.load])
    return lambda: reader(path)


def _packed(rng: Rng, folder: Path, state: Path) -> Work:
    from dssl.graph import packed, statistics

    shutil.copytree(state / "packed", folder / "packed")
    _spoil(rng, folder / "packed")

    def work() -> None:
        graph = packed.open_graph(folder / "packed")
        with np.errstate(invalid="ignore"):  # features that are no numbers: opening checks the structure alone
            statistics.summary(graph)
        packed.read_graph(folder / "packed")

    return work


def _run(rng: Rng, folder: Path, state: Path) -> Work:
    from dssl.evaluation import splits
    from dssl.explore import pages, view
    from dssl.model.estimator import Embedder
    from dssl.runs import run_folder, transform, workflow
    from dssl.runs.node_map import map_of

    run = folder / "run"
    shutil.copytree(state / "run", run)
    _spoil(rng, run)
    works: tuple[Work, ...] = (
        lambda: [run_folder.read_config(run), run_folder.read_metrics(run), run_folder.read_environment(run)],
        lambda: run_folder.read_evaluation(run),
        lambda: run_folder.read_graph(run, "dssl x"),
        lambda: transform.embed(run),
        lambda: transform.factors(run),
        lambda: Embedder.load(run).embed(run_folder.read_graph(run, "dssl x")),
        lambda: workflow.Outcome.of(run),
        lambda: transform.encoding_of(run),
        lambda: map_of(run),
        lambda: splits.load(run / run_folder.SPLITS, [0, 1, 2] * 13 + [0]),
        lambda: pages.data_files(view.of_run(run), per=100),
    )
    return lambda: _each(*works)


def _pages(rng: Rng, folder: Path, state: Path) -> Work:
    from dssl.report import page

    run = folder / "run"
    shutil.copytree(state / "run", run)
    _spoil(rng, run)
    return lambda: page.write([run], folder / "report.html")


def _embeddings(rng: Rng, folder: Path, _: Path) -> Work:
    from dssl.model.embeddings import Embeddings

    kind = rng.choice([".csv", ".parquet"])
    if kind == ".csv":
        content = inputs.table_text(rng, ["id", "z0", "z1"], ids=1)
    else:
        names = ["id", *rng.choice([["embedding"], ["z0", "z1"]])]
        content = inputs.parquet_bytes(inputs.arrow_table(rng, names, ids=1))
    path = inputs.written(folder / f"vectors{kind}", content, rng)
    return lambda: Embeddings.load(path)


def _settings(rng: Rng, folder: Path, state: Path) -> Work:
    from dssl.config.fields import every_setting
    from dssl.config.resolve import resolve

    if rng.random() < 0.4:
        path = folder / "config.toml"
        path.write_bytes(inputs.damaged((state / "run" / "config.toml").read_bytes(), rng))
        return lambda: resolve({}, file=path)
    paths = [row.path for row in every_setting()]
    usual = ["dssl", "bgrl", "gcn", "auto", "0", "1", "0.5", "64", "true", "[1, 2]", "paper"]
    value = lambda: rng.choice(usual) if rng.random() < 0.5 else inputs.cell(rng)  # noqa: E731
    chosen = [f"{rng.choice(paths)}={value()}" for _ in range(rng.randint(1, 3))]
    return lambda: resolve({"source": "edges.csv"}, settings=chosen)


def _sources(rng: Rng, folder: Path, _: Path) -> Work:
    from dssl.data.load import load

    keys = ["h", "nodes", "classes", "degree", "seed", "features", "factors", "graph", ""]
    values = ["0", "1", "0.5", "-1", "3", "50", "nan", "1e9x", "", "x=1"]
    parts = ",".join(f"{rng.choice(keys)}={rng.choice(values)}" for _ in range(rng.randint(0, 4)))
    kind = rng.choice(["synthetic:", "synthetic:", "planted:", "python:", "", "./", f"{folder}/"])
    text = kind + (parts if rng.random() < 0.7 else inputs.cell(rng))
    return lambda: load(text)


def _records(rng: Rng, folder: Path, _: Path) -> Work:
    from dssl.config.resolve import resolve
    from dssl.studies.records import records

    if rng.random() < 0.5:
        line = json.dumps({"key": "k", "graph": "g", "row": "r", "views": {"embedding": {"width": 3}}}).encode()
        lines = [inputs.damaged(line, rng) if rng.random() < 0.5 else inputs.other_json(line, rng) for _ in range(3)]
        (folder / "x.jsonl").write_bytes(b"\n".join(lines))
        return lambda: records(folder)
    header = {"title": "t", "source": "s", "notes": "n", "paper": {"cora": 80.0}}
    header |= {rng.choice([*header, "authors"]): inputs.json_value(rng) for _ in range(rng.randint(0, 1))}
    tables = {"recipe": header} if rng.random() < 0.9 else {}
    names = ["recipe", "graph", "method", "train", "encoder", "datasets", "x"]
    tables |= {rng.choice(names): inputs.json_value(rng) for _ in range(rng.randint(0, 2))}
    text = tomli_w.dumps({name: _without_none(value) for name, value in tables.items()})
    path = inputs.written(folder / "x.toml", text.encode(), rng)
    return lambda: resolve({"recipe": f"{path}", "source": "cora"})


def _without_none(value: Any) -> Any:
    """The value with empty texts in place of None, which TOML does not have."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_none(part) for part in value]
    return "" if value is None else value


TARGETS = (
    Target("edge lists (text)", _edges),
    Target("node tables (text)", _nodes),
    Target("edges and nodes (Parquet)", _parquet),
    Target("matrices and vectors (npz)", _npz),
    Target("packed graphs", _packed),
    Target("run folders", _run, 2),
    Target("reports of run folders", _pages, 10),
    Target("embeddings", _embeddings),
    Target("settings", _settings),
    Target("graph names", _sources, 4),
    Target("records and recipes", _records),
)


def _spoil(rng: Rng, folder: Path) -> None:
    """Damage one file of a folder: JSON by its grammar or its bytes, others by their bytes."""
    path = rng.choice(sorted(entry for entry in folder.rglob("*") if entry.is_file()))
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_bytes(inputs.other_json(content, rng))
    elif path.suffix == ".jsonl" and rng.random() < 0.7:
        lines = content.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = inputs.other_json(lines[at], rng)
        path.write_bytes(b"\n".join(lines))
    elif rng.random() < 0.05:
        path.unlink()
    else:
        path.write_bytes(inputs.damaged(content, rng))


def _each(*works: Work) -> None:
    """Let several readers work on one input; it is refused if one of them refuses it."""
    from dssl.errors import DsslError

    refused = None
    for work in works:
        try:
            work()
        except (DsslError, OSError) as error:
            _check_line(error)
            refused = error
    if refused is not None:
        raise refused


def _check_line(error: Exception) -> None:
    text = " ".join(str(error).split())
    assert text, f"an empty message: {error!r}"
    assert len(text) < 10_000, f"a message of {len(text)} characters: {text[:200]}"


def batch(target: Target, number: int, count: int, *, state: Path, folder: Path, log: Path) -> None:
    """Give inputs to a reader, and log a line for each: the outcome, seconds and, of a problem, the traceback."""
    from dssl.errors import DsslError

    warnings.simplefilter("error")
    for at in range(count):
        case = folder / str(at)
        case.mkdir()
        outcome, detail = "accepted", ""
        rng = random.Random(f"{target.name} {number} {at}")
        begun = time.process_time()
        try:
            work = target.prepare(rng, case, state)
            with log.open("a") as file:
                file.write(json.dumps({"begun": at}) + "\n")
            try:
                work()
            except (DsslError, OSError) as error:
                outcome, detail = "refused", " ".join(str(error).split())[:200]
                _check_line(error)
        except Exception:
            outcome, detail = "problem", traceback.format_exc()[-3000:]
        seconds = time.process_time() - begun
        if seconds > SLOW:
            outcome, detail = "problem", f"took {seconds:.0f} s"
        line = {"input": at, "outcome": outcome, "detail": detail, "seconds": round(seconds, 3)}
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if outcome == "problem":
            shutil.copytree(case, log.parent / "problems" / f"{target.name}-{number}-{at}", dirs_exist_ok=True)
        shutil.rmtree(case, ignore_errors=True)


def run(target: Target, number: int, count: int, *, state: Path, root: Path, limit: int) -> list[dict[str, Any]]:
    """Do a batch in a fork; a crash is a problem of the input that was being read."""
    folder, log = root / "inputs", root / "fuzz" / "log.jsonl"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    ended = server.call(
        lambda: batch(target, number, count, state=state, folder=folder, log=log), scratch=root / "scratch", limit=limit
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = [line for line in lines if "input" in line]
    if ended.code:
        crash = f"exit code {ended.code}: {ended.err[-1500:]}"
        found.append({"input": len(found), "outcome": "problem", "detail": crash, "seconds": 0.0})
    return found
