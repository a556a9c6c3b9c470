"""Several processes that train one model: the same loss, gradients and vectors as one process with the whole batch."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from dssl import rng
from dssl.config.methods import METHODS
from dssl.config.resolve import resolve
from dssl.errors import ConfigError, DsslError, RunError
from dssl.graph import Graph
from dssl.model.estimator import Embedder
from dssl.nn.batches import ALL, Sampling
from dssl.nn.encoders import BatchNorm
from dssl.runs import run_folder, workflow
from dssl.runs.records import Environment
from dssl.runtime import distributed

pytestmark = pytest.mark.distributed
BY_TABLE = [name for name, section in METHODS.items() if not section.traits.encoder]
WITH_ENCODER = [name for name in METHODS if name not in BY_TABLE]


def in_processes(work: Callable[..., Any], *given: Any, folder: Path, world: int = 2) -> list[Any]:
    """Have each process of a group do the work; return what each of them returned, or a `DsslError` that it raised.

    They are forks of a server that has imported everything and done nothing: on a busy machine torchrun takes a minute.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.runtime.test_distributed", "dssl.methods.dssl", "dssl.train", "dssl.model.embeddings"]
    )
    results = context.SimpleQueue()
    meeting = folder / f"meeting-{time.monotonic_ns()}"
    processes = [
        context.Process(target=_member, args=(results, meeting, rank, world, work, given)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    found = dict(results.get() for _ in processes)
    for process in processes:
        process.join()
    for value in found.values():
        assert not isinstance(value, str), value
    return [found[rank] for rank in range(world)]


def _member(results: Any, meeting: Path, rank: int, world: int, work: Callable[..., Any], given: Any) -> None:
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timedelta(minutes=30)
        )
        results.put((rank, work(*given)))
        dist.destroy_process_group()
    except DsslError as error:
        results.put((rank, error))
    except BaseException:
        results.put((rank, traceback.format_exc()))


def graph(nodes: int = 60, *, links: int = 200) -> Graph:
    """A random graph with features, of which the last two nodes have no links."""
    draw = rng.stream(0, "test")
    x = draw.normal(size=(nodes, 8)).astype(np.float32)
    return Graph.from_edges(*draw.integers(nodes - 2, size=(2, links)), num_nodes=nodes, x=x, name="small")


SMALL = {"dim": 6, "hidden_dim": 7, "epochs": 3, "seed": 1, "features": "raw", "batch_size": 20, "fanout": [4, 4]}
CASES: dict[str, dict[str, Any]] = {
    "hops": {"encoder": "hops"},
    "gcn": {"encoder": "gcn"},
    "hops with batch normalisation": {"encoder": "hops", "batch_norm": True},
    "gcn with batch normalisation": {"encoder": "gcn", "batch_norm": True},
    "gat": {"encoder": "gat"},
    "all at once": {"encoder": "gcn", "batch_size": 0},
    "hops, all at once": {"encoder": "hops", "batch_size": 0, "batch_norm": True},
    "product head": {"encoder": "gcn", "head": "product"},
    "uniform": {"encoder": "gcn", "inference": "uniform"},
    "a sample of links teaches": {"encoder": "gcn", "distilled": 30},
    "a last batch of two nodes": {"encoder": "gcn", "batch_size": 58, "prototype_update": False},
    "a last batch of one node": {"encoder": "gcn", "batch_size": 59, "prototype_update": False},
    "mlp": {"encoder": "mlp"},
}


# --- the same as one process -----------------------------------------------------------------------------------------


def gradients(settings: dict[str, Any]) -> tuple[list[tuple[float, dict[str, np.ndarray]]], np.ndarray]:
    """Return the loss and the gradients of each batch of an epoch without steps, and the prototypes after it."""
    from dssl.methods.dssl import teacher

    settings = {**SMALL, "num_factors": 3, **settings}
    teacher.DISTILLED = settings.pop("distilled", 8192)
    model = Embedder.from_config(resolve(settings))
    ready = model._start(graph())
    method: Any = model._fitted().module
    method.prepare(ready, seed=1)
    method.train()
    size, fanout = settings["batch_size"], settings["fanout"]
    size, fanout = (size, fanout) if size else (ready.num_nodes, (ALL,))
    parameters = dict(method.named_parameters())
    found = []
    with rng.seeded(1, "train", 0):
        sampling = Sampling(batch_size=size, fanout=fanout, seed=1, epoch=0, device=torch.device("cpu"))
        for batch in method.batches(ready, sampling):
            method.zero_grad()
            loss = method(batch)
            loss.backward()
            distributed.average_gradients([p for p in parameters.values() if p.requires_grad])
            grads = {name: p.grad.numpy().copy() for name, p in parameters.items() if p.grad is not None}
            found.append((float(loss.detach()), grads))
            method.after_step()
    method.after_epoch()
    return found, method.prototypes.detach().numpy()


def gradients_of_all() -> dict[str, Any]:
    return {case: gradients(settings) for case, settings in CASES.items()}


@pytest.fixture(scope="module")
def by_world(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """What `gradients` finds for all cases in each process, by the number of processes."""
    folder = tmp_path_factory.mktemp("meetings")
    return {world: in_processes(gradients_of_all, folder=folder, world=world) for world in (1, 2, 3)}


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_and_its_gradients_are_those_of_one_process(
    case: str, world: int, by_world: dict[int, list[dict[str, Any]]]
) -> None:
    one, prototypes = by_world[1][0][case]
    assert len(one) > 1 or CASES[case].get("batch_size") == 0
    for several, others in (found[case] for found in by_world[world]):
        for (loss, wanted), (found, grads) in zip(one, several, strict=True):
            assert found == pytest.approx(loss, rel=1e-6)
            assert grads.keys() == wanted.keys()
            size = np.sqrt(sum(np.square(grad).sum() for grad in wanted.values()))
            assert size > 0.01
            for name, grad in wanted.items():
                np.testing.assert_allclose(grads[name], grad, rtol=1e-4, atol=2e-6 * size, err_msg=name)
        np.testing.assert_allclose(others, prototypes, atol=2e-6)


def trained(settings: dict[str, Any]) -> tuple[list[dict[str, float]], dict[str, bytes], bool]:
    """Return the records, the bytes of the weights, and whether there are vectors."""
    model = Embedder.from_config(resolve({**SMALL, **settings})).fit(graph())
    weights = {name: value.numpy().tobytes() for name, value in model._fitted().module.state_dict().items()}
    return model.metrics_, weights, hasattr(model, "embeddings_")


@pytest.mark.parametrize("batch_size", [0, 20])
def test_the_loss_curve_is_that_of_one_process_and_the_weights_the_same_everywhere(
    batch_size: int, tmp_path: Path
) -> None:
    settings = {"method": "dssl", "batch_size": batch_size, "epochs": 4, "num_factors": 3, "encoder": "gcn"}
    ((one, _, _),) = in_processes(trained, settings, folder=tmp_path, world=1)
    first, second = in_processes(trained, settings, folder=tmp_path)
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == (True, False)  # the first alone makes the vectors
    for name in ("loss", "local", "global", "entropy", "reconstruction"):
        wanted = [record[name] for record in one]
        # Adam takes a full step also where the gradient is next to nothing but rounding.
        near = 1e-3 if name == "loss" else 5e-3
        np.testing.assert_allclose([record[name] for record in first[0]], wanted, rtol=near, atol=1e-4, err_msg=name)
    assert one[0]["loss"] - one[-1]["loss"] > 0.1


def test_every_method_with_an_encoder_trains(tmp_path: Path) -> None:
    first, second = in_processes(all_trained, folder=tmp_path)
    for case, (records, weights, _) in first.items():
        assert (records, weights) == second[case][:2], case
        assert all(np.isfinite(record["loss"]) for record in records), case


def all_trained() -> dict[str, Any]:
    cases = [(method, size) for method in WITH_ENCODER for size in (0, 25)]
    return {f"{method} {size}": trained({"method": method, "batch_size": size, "epochs": 2}) for method, size in cases}


def all_refused() -> list[str]:
    given: list[dict[str, Any]] = [{"method": method} for method in BY_TABLE]
    said = []
    for settings in [*given, {"encoder": Normalising(), "dim": 4}]:
        with pytest.raises(ConfigError) as error:
            Embedder(**{**SMALL, **settings}).fit(graph())
        said.append(str(error.value))
    return said


def test_what_several_processes_cannot_do_is_refused_in_one_line(tmp_path: Path) -> None:
    assert BY_TABLE
    for errors in in_processes(all_refused, folder=tmp_path):
        *tables, normalising = errors
        for method, error in zip(BY_TABLE, tables, strict=True):
            assert method in error and "one process" in error and "\n" not in error
        assert "normalises over the rows of its own process (BatchNorm1d)" in normalising


class Normalising(nn.Module):
    """An encoder whose normalisation knows nothing of other processes."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.norm = nn.Linear(8, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.norm(self.map(x))


# --- run folders -----------------------------------------------------------------------------------------------------


def write_files(folder: Path) -> Path:
    """The graph as CSV files."""
    given = graph()
    lines = [f"n{a},n{b}" for a, b in zip(given.sources(), given.indices, strict=True) if a < b]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    rows = [f"n{i}," + ",".join(f"{value:.3f}" for value in row) for i, row in enumerate(np.asarray(given.x))]
    (folder / "nodes.csv").write_text(f"id,{','.join(f'c{i}' for i in range(8))}\n" + "\n".join(rows) + "\n")
    return folder / "edges.csv"


def config(edges: Path, **changes: Any) -> Any:
    source = {"source": str(edges), "nodes": str(edges.with_name("nodes.csv"))}
    return resolve({**source, **SMALL, "num_factors": 3, "epochs": 6, "checkpoint_every": 2, **changes})


def fitted(options: Any, folder: Path, stop: int = 0) -> Any:
    """Fit in a run folder, and stop in an epoch as a kill would; return the outcome, or what was wrong."""

    def on_epoch(record: dict[str, float]) -> None:
        if record["epoch"] == stop:
            raise RunError("stopped")

    if stop and distributed.rank():  # the others have no callback; their last epoch is this one
        options = options.model_copy(update={"train": options.train.model_copy(update={"epochs": stop})})
    try:
        return workflow.fit(options, folder, on_epoch=on_epoch)
    except DsslError as error:
        return error


def contents(folder: Path) -> dict[str, bytes]:
    names = ("embeddings.parquet", "weights.safetensors", "metrics.jsonl", "features.json")
    return {name: (folder / name).read_bytes() for name in names}


def stopped_and_resumed(edges: Path, folder: Path) -> list[Any]:
    whole = fitted(config(edges), folder / "whole")
    stopped = fitted(config(edges), folder / "parts", stop=5)
    if distributed.rank() == 0:
        shutil.copytree(folder / "parts", folder / "fewer")
    return [whole, stopped, fitted(config(edges), folder / "parts")]


def test_the_first_process_alone_writes_and_a_stopped_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    edges = write_files(tmp_path)
    first, second = in_processes(stopped_and_resumed, edges, tmp_path, folder=tmp_path)
    assert first[0].graph["nodes"] == 60
    assert (second[0].graph, second[0].environment) == ({}, Environment())
    assert first[0].record == second[0].record
    assert not (tmp_path / "whole" / run_folder.CHECKPOINT).exists()
    assert run_folder.read_embeddings(tmp_path / "whole").values.shape == (60, 6)
    assert len(run_folder.read_metrics(tmp_path / "whole")) == 6

    assert isinstance(first[1], RunError)
    assert (tmp_path / "fewer" / run_folder.CHECKPOINT).exists()
    assert first[2].environment.resumed_at_epoch == 4
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")

    # Another number of processes goes on as well: the steps are the same but for rounding.
    assert workflow.fit(config(edges), tmp_path / "fewer").environment.resumed_at_epoch == 4
    losses = [[record["loss"] for record in run_folder.read_metrics(tmp_path / name)] for name in ("fewer", "whole")]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def mistaken(edges: Path, folder: Path) -> list[str]:
    """What is said of a finished run, of a file that one machine lacks, and of graphs that differ."""
    found = [fitted(config(edges), folder / "r"), fitted(config(edges), folder / "r")]
    for name in ("missing.csv", "other.csv"):
        own = edges.with_name(name) if distributed.rank() else edges
        found.append(fitted(config(own), folder / f"run-{name}"))
    return [str(each) for each in found[1:]]


def test_what_one_process_finds_wrong_ends_all(tmp_path: Path) -> None:
    edges = write_files(tmp_path)
    edges.with_name("other.csv").write_text(edges.read_text() + "n1,n2\nn0,n5\nn0,n7\n")
    first, second = in_processes(mistaken, edges, tmp_path, folder=tmp_path)
    assert "holds a finished run" in first[0]
    assert second[0] == distributed.OTHERS == first[1] == first[2]
    assert "missing.csv" in second[1]
    assert "process 1 has a graph" in second[2] and "other than process 0" in second[2]
    assert not (tmp_path / "run-missing.csv" / "embeddings.parquet").exists()


# --- the parts -------------------------------------------------------------------------------------------------------


def test_alone_everything_is_as_without_processes() -> None:
    values = torch.arange(3.0)
    assert distributed.world() == 1 and distributed.rank() == 0
    assert distributed.total(values) is values
    assert (distributed.count(5), distributed.share(5), distributed.gather(5)) == (5, 1.0, [5])
    assert distributed.part([1, 2, 3]) == [1, 2, 3]
    with distributed.together(), pytest.raises(RunError):
        raise RunError("own")


def sums() -> dict[str, Any]:
    rank = distributed.rank()
    x = torch.full((2,), float(rank + 1), requires_grad=True)
    # f = (Σ over processes of x)²: the derivative of all processes' f by the own x is world · 2 Σ.
    distributed.total(x).square().sum().backward()
    used, by_one, unused = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    used.grad = torch.full((2,), float(rank))
    by_one.grad = torch.ones(2) if rank == 0 else None
    distributed.average_gradients([used, by_one, unused])
    assert used.grad is not None and by_one.grad is not None and x.grad is not None
    rows = torch.arange(12.0).reshape(6, 2)
    return {
        "gradient": x.grad.tolist(),
        "averages": [used.grad.tolist(), by_one.grad.tolist(), unused.grad],
        "part": distributed.part(list(range(11))),
        "few": distributed.part([7, 8]),
        "mean": distributed.mean_rows(distributed.part(rows))[0].tolist(),
        "share": distributed.share(rank),
        "first": distributed.from_first(torch.tensor([rank + 5])).tolist(),
        "gathered": distributed.gather(rank * 10),
    }


def test_sums_parts_and_averages_of_three_processes(tmp_path: Path) -> None:
    found = in_processes(sums, folder=tmp_path, world=3)
    assert [part["gradient"] for part in found] == [[36.0, 36.0]] * 3
    third = pytest.approx(1 / 3)
    assert all(part["averages"] == [[1.0, 1.0], [third, third], None] for part in found)
    assert [node for part in found for node in part["part"]] == list(range(11))
    assert [len(part["part"]) for part in found] == [3, 4, 4]
    assert all(part["few"] == [7, 8] for part in found)
    assert all(part["mean"] == [5.0, 6.0] for part in found)
    assert [part["share"] for part in found] == [0.0, 1.0, 2.0]
    assert all(part["first"] == [5] and part["gathered"] == [0, 10, 20] for part in found)


def test_batch_normalisation_looks_at_the_centres() -> None:
    h = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)) * 3 + 1
    ours, theirs = BatchNorm(4), nn.BatchNorm1d(4)
    torch.testing.assert_close(ours(h, 9), theirs(h))
    few, plain = BatchNorm(4), nn.BatchNorm1d(4)
    out = few(h, 5)
    torch.testing.assert_close(out[:5], plain(h[:5]))
    scale = torch.sqrt(h[:5].var(dim=0, correction=0) + few.eps)
    torch.testing.assert_close(out[5:], (h[5:] - h[:5].mean(dim=0)) / scale)
    torch.testing.assert_close(few.state_dict(), plain.state_dict())
    torch.testing.assert_close(few(h[:1], 1), few.eval()(h[:1]))


# --- started by torchrun ---------------------------------------------------------------------------------------------


def torchrun(edges: Path, out: Path, *options: str, restarts: int = 0, **settings: Any) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", str(restarts)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "-m", "dssl", "fit", str(edges)]
    given = {**SMALL, "num_factors": 3, "fanout": "[4, 4]", "features": "raw", **settings}
    given.pop("seed")
    command += ["--nodes", str(edges.with_name("nodes.csv")), "--seed", "1", "--out", str(out), *options]
    return command + [part for name, value in given.items() for part in ("--set", f"{name}={value}")]


def children(parent: int) -> list[int]:
    """The workers of a torchrun, in the order of their ranks."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            names = (folder / "environ").read_text()
        except OSError:
            continue
        if int(fields[1]) == parent and "\0LOCAL_RANK=" in names:
            found.append((names.partition("\0LOCAL_RANK=")[2][0], int(folder.name)))
    return [pid for _, pid in sorted(found)]


def kill_a_worker(command: list[str], folder: Path, which: int) -> subprocess.CompletedProcess[str]:
    """Start a job, kill one of its processes once there is a checkpoint, and return how the job ended."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        for _ in range(6000):
            if (folder / run_folder.CHECKPOINT).exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        os.kill(children(process.pid)[which], signal.SIGKILL)
        out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


LONG = {"epochs": 200, "checkpoint_every": 10}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the workers are found in /proc")
def test_a_killed_worker_ends_the_job_or_restarts_it_with_nothing_lost(tmp_path: Path) -> None:
    edges = write_files(tmp_path)
    killed = kill_a_worker(torchrun(edges, tmp_path / "killed", **LONG), tmp_path / "killed", 1)
    assert killed.returncode != 0
    lines = [line for line in killed.stderr.splitlines() if line.startswith("dssl: error:")]
    assert len(lines) == 1
    assert "process 0 of 2 ends" in lines[0] and "the same command resumes from the last checkpoint" in lines[0]
    assert (tmp_path / "killed" / run_folder.CHECKPOINT).exists()
    assert not (tmp_path / "killed" / run_folder.ENVIRONMENT).exists()

    for which in (0, 1):
        folder = tmp_path / f"restarted{which}"
        done = kill_a_worker(torchrun(edges, folder, "--overwrite", restarts=1, **LONG), folder, which)
        assert done.returncode == 0, done.stderr
        assert json.loads((folder / run_folder.ENVIRONMENT).read_text())["resumed_at_epoch"] > 0
    again = subprocess.run(torchrun(edges, tmp_path / "killed", **LONG), capture_output=True, text=True, check=True)
    assert again.stdout.count("dssl evaluate") == 1  # one process alone says where the run is
    assert str(tmp_path / "killed") not in again.stdout.splitlines()
    whole = subprocess.run(torchrun(edges, tmp_path / "whole", **LONG), capture_output=True, text=True, check=True)
    assert "200" in whole.stdout + whole.stderr
    for name in ("killed", "restarted0", "restarted1"):
        assert contents(tmp_path / name) == contents(tmp_path / "whole"), name


@pytest.mark.slow
def test_mistakes_are_told_once(tmp_path: Path) -> None:
    edges = write_files(tmp_path)
    command = torchrun(edges, tmp_path / "r", dim="many")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.count("dssl: error:") == 1
    (tmp_path / "r").write_text("a file")
    done = subprocess.run(torchrun(edges, tmp_path / "r"), capture_output=True, text=True)
    assert done.stderr.count("dssl: error:") == 1
    assert "is a file; choose a folder with --out" in done.stderr
