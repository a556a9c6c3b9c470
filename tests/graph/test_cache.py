from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.cache import cache_dir, cached_graph, load_graph, save_graph
from dssl.graph.features import Column, Encoding


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


def rich_graph() -> Graph:
    """Every field is used: loops and repeats in the history, weights, string ids, sparse features, names."""
    return Graph.from_edges(
        [0, 1, 1, 2],
        [1, 0, 1, 2],
        num_nodes=3,
        weights=[1.0, 0.5, 2.0, 3.0],
        directed=True,
        ids=["a", "ü", "c d"],
        x=sparse.csr_array(np.eye(3, 2, dtype=np.float32)),
        feature_names=["first", "second"],
        y=[0, -1, 1],
        class_names=["no", "yes"],
        encoding=Encoding(
            (Column("first", "number", mean=0.1, std=1 / 3), Column("second", "category", categories=("ß",)))
        ),
        name="rich",
    )


def plain_graph() -> Graph:
    return Graph.from_edges([0], [1], num_nodes=3, x=np.arange(6.0).reshape(3, 2))


class Builder:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls = 0

    def __call__(self) -> Graph:
        self.calls += 1
        return self.graph


def assert_same(one: Graph, other: Graph) -> None:
    assert one.fingerprint() == other.fingerprint()
    for field in ("name", "directed", "history", "feature_names", "class_names", "encoding"):
        assert getattr(one, field) == getattr(other, field), field
    assert type(one.x) is type(other.x)
    for field in ("indptr", "indices", "weights", "y"):
        a, b = getattr(one, field), getattr(other, field)
        assert (a is None) == (b is None)
        assert a is None or (a.dtype == b.dtype and np.array_equal(a, b))


@pytest.mark.parametrize("graph", [rich_graph(), plain_graph(), Graph.from_edges([], [], ids=[7])])
def test_every_field_comes_back(graph: Graph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path / "g.npz")
    assert_same(load_graph(tmp_path / "g.npz"), graph)


def test_second_call_does_not_build() -> None:
    build = Builder(rich_graph())
    first, second = cached_graph("k", build), cached_graph("k", build)
    assert build.calls == 1
    assert_same(first, second)


def test_another_key_is_another_graph() -> None:
    build = Builder(rich_graph())
    cached_graph("a/b", build)
    cached_graph("a-b", build)  # the same readable file name
    assert build.calls == 2


def test_a_new_key_replaces_the_graph_in_its_slot(cache: Path) -> None:
    old, new = Builder(rich_graph()), Builder(plain_graph())
    cached_graph("package 1.0", old, slot="package")
    assert_same(cached_graph("package 1.1", new, slot="package"), plain_graph())
    assert len(list(cache.iterdir())) == 1
    cached_graph("package 1.1", new, slot="package")
    assert (old.calls, new.calls) == (1, 1)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text"])
def test_damaged_file_is_built_anew(damage: str, cache: Path) -> None:
    build = Builder(rich_graph())
    cached_graph("k", build)
    (path,) = cache.iterdir()
    raw = path.read_bytes()
    middle = raw.index(np.float32(0.5).tobytes())  # inside the weights: still a valid file, but for its checksum
    path.write_bytes(
        {
            "empty": b"",
            "cut": raw[: len(raw) // 2],
            "flipped": raw[:middle] + b"\x01" + raw[middle + 1 :],
            "text": b"not an archive",
        }[damage]
    )
    assert_same(cached_graph("k", build), rich_graph())
    assert build.calls == 2
    cached_graph("k", build)
    assert build.calls == 2


def test_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "file"))
    build = Builder(plain_graph())
    cached_graph("k", build)
    assert_same(cached_graph("k", build), plain_graph())
    assert build.calls == 2


def test_no_pickle_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", about=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_graph(tmp_path / "g.npz")


def test_environment_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("DSSL_CACHE")
    assert cache_dir().name == "dssl"
