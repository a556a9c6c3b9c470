from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import dssl
from dssl.data import feature_blocks
from dssl.errors import GraphError
from dssl.graph.column_fit import BadCell
from dssl.graph.features import encode
from dssl.runtime import out_of_core


def table(rows: int = 500) -> pa.Table:
    draw = np.random.default_rng(0)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(draw.normal(size=rows * 3).astype(np.float32)), 3)
    return pa.table(
        {
            "age": 1e6 + draw.normal(size=rows),  # far from zero: sums of squares would lose the spread
            "member": draw.random(rows) < 0.5,
            "city": pa.array(draw.choice(["Rome", "Oslo", ""], size=rows)).dictionary_encode(),
            "vector": vectors,
            "constant": np.full(rows, 0.1),
            "count": draw.integers(0, 9, size=rows),
            "amount": pa.array(
                [None if i % 9 == 0 else float(v) for i, v in enumerate(np.exp(3 * draw.normal(size=rows)))]
            ),
            "when": pa.array(draw.integers(10**9, size=rows), pa.timestamp("s")),
            "comment": [f"number {i} of many" for i in range(rows)],
        }
    )


def blocks_of(whole: pa.Table, size: int = 70) -> feature_blocks.Blocks:
    def blocks(columns):
        for begin in range(0, whole.num_rows, size):
            yield whole.select(list(columns)).slice(begin, size)

    return blocks


def dense(x: object) -> np.ndarray:
    return x.toarray() if isinstance(x, sparse.csr_array) else np.array(x)


@pytest.mark.parametrize("widest", [1024, 2])
def test_blocks_become_the_features_of_the_whole_table(widest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_blocks, "WIDEST", widest)
    whole = table()
    names = whole.column_names
    wanted, wanted_names, encoding = encode(whole)
    found, found_names, fitted = feature_blocks.encode_blocks(blocks_of(whole), 500, names)
    np.testing.assert_allclose(dense(found), dense(wanted), atol=1e-5)
    assert isinstance(found, sparse.csr_array) == (widest == 2)
    assert found_names == wanted_names
    for one, other in zip(fitted.columns, encoding.columns, strict=True):
        for name in ("name", "kind", "log", "missing", "categories", "length", "cycles", "note"):
            assert getattr(one, name) == getattr(other, name)
        assert one.mean == pytest.approx(other.mean, rel=1e-12)
        assert one.std == pytest.approx(other.std, rel=1e-9)
    again, _, same = feature_blocks.encode_blocks(blocks_of(whole.slice(100)), 400, [], encoding)
    assert same is encoding
    np.testing.assert_allclose(dense(again), dense(wanted)[100:], atol=1e-5)


def test_what_is_wrong_is_named_by_its_row_in_the_table() -> None:
    ages = np.ones(500)
    ages[333] = np.inf
    with pytest.raises(BadCell) as caught:
        feature_blocks.encode_blocks(blocks_of(pa.table({"age": ages})), 500, ["age"])
    assert caught.value.row == 333
    with pytest.raises(GraphError, match="numbers up to 1e\\+200"):
        feature_blocks.encode_blocks(blocks_of(pa.table({"age": np.full(500, 1e200)})), 500, ["age"])
    names = pa.table({"name": [f"n{i}" for i in range(500)]})
    x, _, encoding = feature_blocks.encode_blocks(blocks_of(names), 500, ["name"])
    assert x is None
    assert "500 different values in 500 rows" in encoding.ignored[0].note


def test_a_long_parquet_table_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = table().append_column("id", pa.array([f"v{i}" for i in range(500)]))
    nodes = nodes.append_column("label", pa.array(np.arange(500) % 3))
    pq.write_table(nodes, tmp_path / "nodes.parquet", row_group_size=99)
    edges = np.random.default_rng(0).integers(500, size=(2, 900))
    ends = {name: [f"v{i}" for i in side] for name, side in zip(("source", "target"), edges, strict=True)}
    pq.write_table(pa.table(ends), tmp_path / "edges.parquet")

    def load() -> dssl.Graph:
        return dssl.load(tmp_path / "edges.parquet", nodes=tmp_path / "nodes.parquet")

    wanted = load()
    monkeypatch.setattr("dssl.data.tables.LONG", 400)
    monkeypatch.setattr(out_of_core, "SMALL", 0)
    found = load()
    assert out_of_core.is_mapped(found.x)
    np.testing.assert_allclose(found.x, dense(wanted.x), atol=1e-5)
    assert found.feature_names == wanted.feature_names
    np.testing.assert_array_equal(found.y, wanted.y)
    assert found.ids.equals(wanted.ids)
    np.testing.assert_array_equal(found.indices, wanted.indices)
