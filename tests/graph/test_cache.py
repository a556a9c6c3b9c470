from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph, packed
from dssl.graph.cache import cache_dir, cached_graph
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
    packed.pack(graph, tmp_path / "g")
    assert_same(packed.read_graph(tmp_path / "g"), graph)


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


@pytest.mark.parametrize("name", ["weights", "indices", "ids.arrow", "header.json"])
@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "missing"])
def test_a_damaged_graph_is_rebuilt(damage: str, name: str, cache: Path) -> None:
    build = Builder(rich_graph())
    cached_graph("k", build)
    (folder,) = cache.iterdir()
    path = folder / name
    raw = path.read_bytes()
    middle = len(raw) // 2
    changed = {
        "empty": b"",
        "cut": raw[:middle],
        "flipped": raw[:middle] + bytes([raw[middle] ^ 0x80]) + raw[middle + 1 :],
        "text": b"not an array",
        "missing": None,
    }[damage]
    path.unlink() if changed is None else path.write_bytes(changed)
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


def test_environment_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("DSSL_CACHE")
    assert cache_dir().name == "dssl"
