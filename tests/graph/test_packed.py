from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import dssl
from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph import packed as store
from dssl.graph.packed import StoredGraph
from dssl.runtime import out_of_core
from tests import graphs

MADE = [*graphs.ALL]


def with_everything(*, wide: bool = False) -> Graph:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 5)).astype(np.float32)
    return Graph.from_edges(
        *draw.integers(60, size=(2, 200)),
        num_nodes=60,
        weights=draw.random(200),
        ids=[f"knoten-{i}" for i in range(60)],
        x=sparse.csr_array(np.where(x > 0.5, x, 0)) if wide else x,
        feature_names=list("abcde"),
        y=draw.integers(-1, 3, size=60),
        class_names=["p", "q", "r"],
        name="everything",
    )


def same(one: Graph, other: Graph) -> bool:
    for field in dataclasses.fields(Graph):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, sparse.csr_array):
            equal = isinstance(b, sparse.csr_array) and not (a != b).nnz and a.shape == b.shape
        elif isinstance(a, np.ndarray):
            equal = np.array_equal(a, b) and a.dtype == b.dtype
        elif isinstance(a, pa.Array):
            equal = a.equals(b)
        else:
            equal = a == b
        if not equal:
            return False
    return True


@pytest.mark.parametrize("make", MADE)
def test_a_packed_graph_is_the_graph(make, tmp_path: Path) -> None:
    graph = make()
    store.pack(graph, tmp_path / "a" / "packed")
    found = dssl.load(tmp_path / "a" / "packed")
    assert same(graph, found)
    assert found.fingerprint() == graph.fingerprint()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["packed"]


@pytest.mark.parametrize("wide", [False, True])
def test_every_field_comes_back_as_a_map_of_its_file(wide: bool, tmp_path: Path) -> None:
    graph = with_everything(wide=wide)
    store.pack(graph, tmp_path / "packed")
    found = dssl.load(str(tmp_path / "packed"))
    assert same(graph, found)
    assert isinstance(found, StoredGraph)
    assert out_of_core.is_mapped(found.indices)
    assert wide or out_of_core.is_mapped(found.x)
    assert store.check(tmp_path / "packed") > 0
    changed = found.replace(name="other", y=None)
    assert type(changed) is Graph
    assert changed.fingerprint() == graph.replace(y=None).fingerprint()
    if not wide:  # a map of the user's own stays on disk too
        assert out_of_core.is_mapped(Graph.from_edges([0], [1], x=found.x).x)


def test_training_on_it_is_training_on_the_graph(tmp_path: Path) -> None:
    graph = with_everything()
    store.pack(graph, tmp_path / "packed")
    settings = {"epochs": 3, "dim": 4, "num_factors": 2, "batch_size": 20, "fanout": [3]}
    wanted = dssl.DSSL(**settings).fit(graph)
    packed = dssl.load(tmp_path / "packed")
    found = dssl.DSSL(**settings).fit(packed)
    np.testing.assert_array_equal(found.embeddings_.values, wanted.embeddings_.values)
    np.testing.assert_array_equal(found.transform(packed), wanted.transform(graph))


def test_what_is_there_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    store.pack(graphs.star(), folder)
    with pytest.raises(GraphError, match="exists already; replace it with --overwrite"):
        store.pack(graphs.path(), folder)
    assert dssl.load(folder).name == "star"
    store.pack(graphs.path(), folder, overwrite=True)
    assert dssl.load(folder).name == "path"
    (tmp_path / "mine").mkdir()
    with pytest.raises(GraphError, match="choose another folder"):
        store.pack(graphs.path(), tmp_path / "mine", overwrite=True)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(store.files, "write_json", fail)
    with pytest.raises(OSError, match="no space left"):
        store.pack(graphs.star(), tmp_path / "packed")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["indptr", "indices", "weights", "x", "y", "ids.arrow"])
def test_a_damaged_byte_is_found_and_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    store.pack(with_everything(), folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(GraphError, match=rf"{name} is damaged"):
        store.check(folder)


def test_damage_in_a_later_part_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK", 100)
    folder = tmp_path / "packed"
    store.pack(with_everything(), folder)
    content = bytearray((folder / "x").read_bytes())
    content[250] ^= 1
    (folder / "x").write_bytes(content)
    with pytest.raises(GraphError, match=r"x is damaged between byte 200 and 300"):
        store.check(folder)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "x").write_bytes(b"short"), "x has 5 bytes instead of 1,200"),
        (lambda folder: (folder / "y").unlink(), "y is missing"),
        (lambda folder: (folder / "header.json").write_text("{"), "header.json is damaged"),
        (lambda folder: (folder / "header.json").write_text('{"format": "x", "version": 1}'), "header.json is damaged"),
        (lambda folder: (folder / "header.json").write_text("[]"), "header.json is damaged"),
        (lambda folder: _set_version(folder, 99), "has version 99 of the layout"),
    ],
)
def test_a_folder_that_cannot_be_opened_is_one_line(damage, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    store.pack(with_everything(), folder)
    damage(folder)
    with pytest.raises(GraphError, match=words) as caught:
        dssl.load(folder)
    assert "\n" not in str(caught.value)


def _set_version(folder: Path, version: int) -> None:
    header = json.loads((folder / "header.json").read_text())
    (folder / "header.json").write_text(json.dumps(header | {"version": version}))


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
import dssl, dssl.train, dssl.model.joint, dssl.nn.layerwise
from dssl.graph import adjacency
from dssl.runtime import out_of_core
out_of_core.SMALL, adjacency.SLAB = 1 << 20, 1 << 20
settings = {"dim": 8, "hidden_dim": 8, "batch_size": 256, "fanout": [3]}
settings |= {"reconstruction_dim": 16, "link_reconstruction_dim": 8, "threads": 1, "in_memory_nodes": 1000}
small = dssl.load(sys.argv[1])
dssl.DSSL(epochs=1, **settings).fit(small).embeddings_.save(sys.argv[3])  # imports and compiled code are not counted
used = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
limit = 1024 * used + (ROOM << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
graph = dssl.load(sys.argv[2])
features = graph.x.nbytes
assert features > 3 * (ROOM << 20), features
try:
    np.empty(features, np.uint8)
    raise SystemExit("the limit does not hold")
except MemoryError:
    pass
model = dssl.DSSL(epochs=1, **settings).fit(graph)
model.embed(graph).save(sys.argv[3])
print("done", features >> 20, model.metrics_[-1]["loss"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are the system's")
def test_features_that_do_not_fit_are_trained_on_and_embedded(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)

    def write(nodes: int, folder: Path) -> None:
        x = out_of_core.scratch((nodes, 768 if nodes > 5000 else 16))
        for begin, block in out_of_core.blocks(x):
            x[begin : begin + len(block)] = draw.standard_normal(block.shape, dtype=np.float32)
        store.pack(Graph.from_edges(*draw.integers(nodes, size=(2, 4 * nodes)), num_nodes=nodes, x=x), folder)

    write(2000, tmp_path / "small")
    write(100_000, tmp_path / "large")  # 293 MB of features
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.replace("ROOM", "96"), "small", "large", "v.parquet"],
        cwd=tmp_path,
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000"},  # what is freed goes back to the system at once
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("done 292")
    assert len(dssl.Embeddings.load(tmp_path / "v.parquet")) == 100_000


def spoil(folder: Path, name: str, at: int, value: int, kind: str) -> None:
    """Change one number of an array on disk."""
    array = np.fromfile(folder / name, kind)
    array[at] = value
    array.tofile(folder / name)


@pytest.mark.parametrize(
    ("name", "at", "value", "kind"),
    [
        ("indices", 3, 60, "<i4"),
        ("indices", -1, 2**31 - 1, "<i4"),
        ("indices", 0, -1, "<i4"),
        ("indptr", 0, 1, "<i8"),
        ("indptr", 5, 2**40, "<i8"),
        ("indptr", -1, 3, "<i8"),
        ("x_indices", 2, 5, "<i4"),
        ("x_indptr", 4, 10**6, "<i4"),
        ("y", 7, 3, "<i8"),
        ("y", 7, 2**40, "<i8"),
    ],
)
def test_an_address_outside_the_graph_never_reaches_a_compiled_loop(
    name: str, at: int, value: int, kind: str, tmp_path: Path
) -> None:
    store.pack(with_everything(wide=True), tmp_path / "packed")
    spoil(tmp_path / "packed", name, at, value, kind)
    for read in (store.open_graph, store.read_graph):
        with pytest.raises(GraphError, match="is damaged"):
            read(tmp_path / "packed")


def test_a_wrong_number_that_fits_is_found_when_everything_is_read(tmp_path: Path) -> None:
    store.pack(with_everything(), tmp_path / "packed")
    spoil(tmp_path / "packed", "indices", 3, 59, "<i4")
    store.open_graph(tmp_path / "packed")
    with pytest.raises(GraphError, match="indices is damaged between byte 0"):
        store.read_graph(tmp_path / "packed")


@pytest.mark.parametrize(("name", "words"), [("x", "NaN or infinite"), ("weights", "weight")])
def test_values_that_are_no_numbers_are_refused_before_training(name: str, words: str, tmp_path: Path) -> None:
    store.pack(with_everything(), tmp_path / "packed")
    spoil(tmp_path / "packed", name, 3, -1, "<i4")  # the bits of a NaN
    graph = store.open_graph(tmp_path / "packed")
    model = dssl.DSSL(dim=4, hidden_dim=4, epochs=1, num_factors=2)
    for use in (model.fit, dssl.DSSL(dim=4, features="raw", epochs=1).fit):
        with pytest.raises(GraphError, match=words):
            use(graph)


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": 59},
        {"nodes": "60"},
        {"nodes": -1},
        {"arcs": 10**14},
        {"files": {}},
        {"files": []},
        {"feature_names": 7},
        {"history": [["x"]]},
        {"encoding": {"columns": 3}},
        {"x_shape": [60]},
        {"x_shape": None},
        {"name": None},
        {"directed": "yes"},
        {"version": "1"},
    ],
    ids=str,
)
def test_a_header_with_other_values_is_one_line(change: dict[str, object], tmp_path: Path) -> None:
    store.pack(with_everything(), tmp_path / "packed")
    path = tmp_path / "packed" / "header.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(GraphError, match="damaged") as caught:
        store.open_graph(tmp_path / "packed")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["../../secret", "/etc/passwd", "header.json"],
)
def test_a_header_names_no_file_outside_the_format(name: str, tmp_path: Path) -> None:
    store.pack(with_everything(), tmp_path / "packed")
    path = tmp_path / "packed" / "header.json"
    header = json.loads(path.read_text())
    header["files"][name] = header["files"].pop("y")
    path.write_text(json.dumps(header))
    with pytest.raises(GraphError, match=r"header\.json is damaged"):
        store.open_graph(tmp_path / "packed")


def test_a_pipe_in_the_folder_is_refused(tmp_path: Path) -> None:
    store.pack(with_everything(), tmp_path / "packed")
    (tmp_path / "packed" / "y").unlink()
    os.mkfifo(tmp_path / "packed" / "y")
    with pytest.raises(GraphError, match="y is missing"):
        store.open_graph(tmp_path / "packed")


def test_pack_killed_at_any_step_leaves_a_graph_under_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    store.pack(graphs.star(), folder)
    code = """
import os, sys
from dssl.graph import packed
from dssl.runtime import files
from tests import graphs
kept = files._exchange
def stop(*names):
    if sys.argv[2] == "after":
        assert kept(*names)
    os.kill(os.getpid(), 9)
files._exchange = stop
packed.pack(graphs.path(), sys.argv[1], overwrite=True)
"""
    for when, name in {"before": "star", "after": "path"}.items():
        done = subprocess.run([sys.executable, "-c", code, str(folder), when], check=False)
        assert done.returncode == -9
        assert store.open_graph(folder).name == name
    store.pack(graphs.star(), folder, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["packed"]
