"""Campaign (c): nearly right and damaged inputs of every reader, and every file of a run folder and a packed graph.

The readers run in a fork that takes many inputs. An input is accepted, or refused by an error that the command line
prints as one line; any other exception, a crash, or an input that takes too long is a problem.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.torture import inputs, server
from tests.torture.inputs import Draw

SLOW = 20.0  # seconds that one input may take


@dataclass(frozen=True, slots=True)
class Target:
    """A reader: writes an input to a folder, and returns the work that reads it."""

    name: str
    prepare: Callable[[Draw, random.Random, Path, Path], Callable[[], object]]


def _edges(draw: Draw, rng: random.Random, folder: Path, _: Path) -> Callable[[], object]:
    import dssl

    path = folder / f"edges{draw(st.sampled_from(['.csv', '.tsv', '.txt', '.csv.gz']))}"
    content = inputs.table_text(draw, columns=draw(st.sampled_from([2, 2, 3, 1])), ids_only=True)
    inputs.written(path, inputs.damaged(content, rng) if draw(st.booleans()) else content)
    options = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "header": st.booleans(),
                "directed": st.booleans(),
                "weight_column": st.sampled_from(["weight", "3"]),
            },
        )
    )
    return lambda: dssl.load(path, **options)


def _nodes(draw: Draw, rng: random.Random, folder: Path, _: Path) -> Callable[[], object]:
    import dssl

    edges = inputs.written(folder / "edges.csv", b"source,target\nn0,n1\nn1,n2\nn2,n3\n")
    ids = b"".join(
        b"n%d,%s\n" % (i, ",".join(draw(inputs.cells) for _ in range(3)).encode("utf-8", "replace"))
        for i in range(draw(st.sampled_from([4, 4, 4, 3, 6])))
    )
    content = b"id,label,a,b\n" + ids if draw(st.booleans()) else inputs.table_text(draw, columns=4)
    path = inputs.written(folder / "nodes.csv", inputs.damaged(content, rng) if draw(st.booleans()) else content)
    kinds = draw(
        st.dictionaries(
            st.sampled_from(["a", "b", "label", "z"]),
            st.sampled_from(["number", "flag", "category", "text", "date", "vector", "ignore", "x"]),
            max_size=2,
        )
    )
    return lambda: dssl.load(edges, nodes=path, column_types=kinds or None)


def _parquet(draw: Draw, rng: random.Random, folder: Path, _: Path) -> Callable[[], object]:
    import dssl

    content = inputs.parquet_bytes(inputs.arrow_table(draw, ["source", "target"] + ["weight"] * draw(st.booleans())))
    edges = inputs.written(folder / "edges.parquet", inputs.damaged(content, rng) if draw(st.booleans()) else content)
    if draw(st.booleans()):
        table = inputs.parquet_bytes(inputs.arrow_table(draw, ["id", "label", "a", "b"]))
        nodes = inputs.written(folder / "nodes.parquet", table)
        return lambda: dssl.load(edges, nodes=nodes)
    return lambda: dssl.load(edges)


def _npz(draw: Draw, rng: random.Random, folder: Path, _: Path) -> Callable[[], object]:
    import dssl
    from dssl.model.embeddings import Embeddings

    content = inputs.npz_bytes(draw)
    path = inputs.written(folder / "graph.npz", inputs.damaged(content, rng) if draw(st.booleans()) else content)
    return (lambda: dssl.load(path)) if draw(st.booleans()) else (lambda: Embeddings.load(path))


def _packed(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.graph import packed, statistics

    shutil.copytree(state / "packed", folder / "packed")
    _spoil(draw, rng, folder / "packed")

    def work() -> None:
        graph = packed.open_graph(folder / "packed")
        statistics.summary(graph)
        packed.read_graph(folder / "packed")

    return work


def _run(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.evaluation import splits
    from dssl.explore import pages, view
    from dssl.model.estimator import Embedder
    from dssl.runs import run_folder, workflow
    from dssl.runs.node_map import map_of

    run = folder / "run"
    shutil.copytree(state / "run", run)
    _spoil(draw, rng, run)
    works: list[Callable[[], object]] = [
        lambda: [
            run_folder.read_config(run),
            run_folder.read_metrics(run),
            run_folder.read_environment(run),
            run_folder.read_evaluation(run),
        ],
        lambda: run_folder.read_graph(run, "dssl x"),
        lambda: workflow.embed(run),
        lambda: workflow.factors(run),
        lambda: Embedder.load(run).embed(run_folder.read_graph(run, "dssl x")),
        lambda: workflow.Outcome.of(run),
        lambda: workflow.encoding_of(run),
        lambda: map_of(run),
        lambda: splits.load(run / run_folder.SPLITS, [0, 1, 2] * 13 + [0]),
        lambda: pages.data_files(view.of_run(run), per=100),
    ]
    return lambda: [_refusable(work) for work in works]


def _pages(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.report import page

    run = folder / "run"
    shutil.copytree(state / "run", run)
    _spoil(draw, rng, run)
    return lambda: page.write([run], folder / "report.html")


def _refusable(work: Callable[[], object]) -> None:
    from dssl.errors import DsslError

    try:
        work()
    except (DsslError, OSError) as error:
        _check_line(error)


def _embeddings(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.model.embeddings import Embeddings

    kind = draw(st.sampled_from([".csv", ".parquet", ".csv"]))
    if kind == ".csv":
        content = b"id,z0,z1\nn0,1,2\nn1,3,4\n" if draw(st.booleans()) else inputs.table_text(draw, columns=3)
    else:
        content = inputs.parquet_bytes(
            inputs.arrow_table(draw, ["id", *draw(st.sampled_from([["embedding"], ["z0", "z1"]]))])
        )
    path = inputs.written(folder / f"vectors{kind}", inputs.damaged(content, rng) if draw(st.booleans()) else content)
    return lambda: Embeddings.load(path)


def _settings(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.config.fields import every_setting
    from dssl.config.resolve import resolve

    if draw(st.booleans()):
        content = (state / "run" / "config.toml").read_bytes()
        path = inputs.written(folder / "config.toml", inputs.damaged(content, rng))
        return lambda: resolve({}, file=path)
    paths = [row.path for row in every_setting()]
    values = st.one_of(
        inputs.cells, st.sampled_from(["dssl", "bgrl", "gcn", "auto", "0", "1", "0.5", "64", "true", "[1, 2]"])
    )
    given_settings = [f"{draw(st.sampled_from(paths))}={draw(values)}" for _ in range(draw(st.integers(1, 4)))]
    return lambda: resolve({"source": "edges.csv"}, settings=given_settings)


def _sources(draw: Draw, rng: random.Random, folder: Path, _: Path) -> Callable[[], object]:
    from dssl.data.load import load

    keys = st.sampled_from(["h", "nodes", "classes", "degree", "seed", "features", "factors", "x", ""])
    values = st.sampled_from(["0", "1", "0.5", "-1", "3", "50", "nan", "1e9x", "", "texas", "x=1"])
    parts = ",".join(f"{draw(keys)}={draw(values)}" for _ in range(draw(st.integers(0, 3))))
    text = draw(st.sampled_from(["synthetic:", "planted:", "python:", "", "./"])) + draw(
        st.one_of(st.just(parts), inputs.cells)
    )
    return lambda: load(text)


def _records(draw: Draw, rng: random.Random, folder: Path, state: Path) -> Callable[[], object]:
    from dssl.config.recipes import as_recipe
    from dssl.studies.records import records

    lines = [
        inputs.damaged(
            json.dumps({"key": "k", "graph": "g", "row": "r", "views": {"embedding": {"width": 3}}}).encode(), rng
        )
        for _ in range(3)
    ]
    inputs.written(folder / "x.jsonl", b"\n".join(lines))
    tables = draw(
        st.dictionaries(
            st.sampled_from(["recipe", "graph", "method", "train", "encoder", "x"]), inputs.json_values, max_size=3
        )
    )
    return lambda: [_refusable(lambda: records(folder)), _refusable(lambda: as_recipe(tables, "x.toml"))]


TARGETS = tuple(
    Target(name, work)
    for name, work in {
        "edge lists (text)": _edges,
        "node tables (text)": _nodes,
        "edges and nodes (Parquet)": _parquet,
        "matrices and vectors (npz)": _npz,
        "packed graphs": _packed,
        "run folders": _run,
        "reports of run folders": _pages,
        "embeddings": _embeddings,
        "settings": _settings,
        "graph names": _sources,
        "records and recipes": _records,
    }.items()
)


def _spoil(draw: Draw, rng: random.Random, folder: Path) -> None:
    """Damage one file of a folder: JSON by its grammar or its bytes, others by their bytes."""
    path = rng.choice(sorted(entry for entry in folder.rglob("*") if entry.is_file()))
    content = path.read_bytes()
    if path.suffix == ".json" and rng.random() < 0.7:
        path.write_bytes(inputs.other_json(draw, content, rng))
    elif rng.random() < 0.05:
        path.unlink()
    else:
        path.write_bytes(inputs.damaged(content, rng))


def _check_line(error: Exception) -> None:
    text = " ".join(str(error).split())
    assert text, f"an empty message: {error!r}"
    assert len(text) < 2000, f"a message of {len(text)} characters: {text[:200]}"


def batch(target: Target, number: int, count: int, *, state: Path, folder: Path, log: Path) -> None:
    """Give inputs to a reader, and log a line for each: the outcome, seconds and, of a problem, the traceback."""
    from dssl.errors import DsslError

    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
    done = 0

    @seed(number)
    @settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=_phases()
    )
    @given(st.data(), st.integers(0, 2**32))
    def one(data: Any, chance: int) -> None:
        nonlocal done
        if done >= count:
            return
        case = folder / f"{os.getpid()}-{done}"
        shutil.rmtree(case, ignore_errors=True)  # of an input that Hypothesis gave up
        case.mkdir()
        outcome, detail, begun = "accepted", "", time.monotonic()
        try:
            work = target.prepare(data.draw, random.Random(chance), case, state)
            with log.open("a") as file:
                file.write(json.dumps({"begun": done}) + "\n")
            begun = time.monotonic()
            try:
                work()
            except (DsslError, OSError) as error:
                outcome = "refused"
                _check_line(error)
        except Exception:
            outcome, detail = "problem", traceback.format_exc()[-3000:]
        seconds = time.monotonic() - begun
        if seconds > SLOW:
            outcome, detail = "problem", f"took {seconds:.0f} s"
        with log.open("a") as file:
            file.write(
                json.dumps({"input": done, "outcome": outcome, "detail": detail, "seconds": round(seconds, 3)}) + "\n"
            )
        if outcome == "problem":
            shutil.copytree(case, log.parent / "problems" / f"{target.name}-{number}-{done}", dirs_exist_ok=True)
        shutil.rmtree(case, ignore_errors=True)
        done += 1

    one()


def _phases() -> list[Any]:
    from hypothesis import Phase

    return [Phase.generate]  # nothing is shrunk: an input is stored as it is


def run(target: Target, number: int, count: int, *, state: Path, root: Path, limit: float) -> list[dict[str, Any]]:
    """Do a batch in a fork; a crash is a problem of the input that was being read."""
    folder, log = root / "inputs", root / "fuzz" / "log.jsonl"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    work = server.call(
        lambda: batch(target, number, count, state=state, folder=folder, log=log), scratch=root / "scratch", limit=limit
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = [line for line in lines if "input" in line]
    if work.code:
        found.append(
            {
                "input": len(found),
                "outcome": "problem",
                "detail": f"exit code {work.code}: {work.err[-1500:]}",
                "seconds": 0.0,
            }
        )
    return found
