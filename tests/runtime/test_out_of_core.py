from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from dssl.rng import stream
from dssl.runtime import out_of_core


def filled(shape: tuple[int, int]) -> np.ndarray:
    made = out_of_core.scratch(shape)
    made[:] = stream(0, "test").normal(size=shape)
    return made


def test_scratch_holds_what_is_written_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = filled((50, 7))
    kept = np.array(made)
    out_of_core.drop(made)
    np.testing.assert_array_equal(made, kept)
    assert not list(tmp_path.iterdir())  # gone with the process, however it ends


def test_scratch_closes_its_file() -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for _ in range(20):
        out_of_core.scratch((10, 10))[:] = 1
    gc.collect()
    after = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    assert after <= before + 1


@pytest.mark.parametrize("where", ["memory", "scratch", "file"])
def test_rows_are_those_of_the_matrix(where: str, tmp_path: Path) -> None:
    x = filled((90, 5))
    if where == "memory":
        x = np.array(x)
    if where == "file":
        path = tmp_path / "x.f32"
        path.write_bytes(b"header--" + np.array(x).tobytes())
        x = np.memmap(path, np.float32, "r", offset=8, shape=(90, 5))
        assert out_of_core.is_mapped(x)
    nodes = np.array([89, 0, 3, 3, 88])
    found = out_of_core.rows(x, nodes)
    np.testing.assert_array_equal(found, np.array(x)[nodes])
    found[:] = 0  # a copy
    assert np.array(x)[nodes].any()
    assert out_of_core.rows(x, nodes[:0]).shape == (0, 5)


def test_a_file_that_was_cut_is_an_error_not_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.f32"
    path.write_bytes(np.ones((100, 4), np.float32).tobytes())
    x = np.memmap(path, np.float32, "r", shape=(100, 4))
    os.truncate(path, 50 * 16)
    with pytest.raises(OSError, match="shorter") as caught:
        out_of_core.rows(x, np.array([3, 70]))
    assert str(caught.value.filename) == str(path)


def test_blocks_cover_the_rows_once_and_columns_go_in_and_out() -> None:
    x = filled((1000, 9))
    seen = [(begin, np.array(block)) for begin, block in out_of_core.blocks(x, at_once=36 * 70)]
    assert len(seen) == 15
    assert [begin for begin, _ in seen] == list(range(0, 1000, 70))
    np.testing.assert_array_equal(np.vstack([block for _, block in seen]), x)
    kept = np.array(x)
    part = out_of_core.take_columns(x, 7, 12)
    np.testing.assert_array_equal(part, kept[:, 7:])
    out_of_core.put_columns(x, 2, -part)
    kept[:, 2:4] = -part
    np.testing.assert_array_equal(x, kept)


def test_small_matrices_stay_in_memory() -> None:
    assert not out_of_core.is_mapped(out_of_core.matrix((10, 10)))
    assert out_of_core.is_mapped(out_of_core.matrix((1 << 20, 32)))


def test_blocks_of_several_threads_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr("dssl.kernels.compile.usable_threads", lambda threads=threads: threads)
        monkeypatch.setattr(out_of_core, "AT_ONCE", 4 * 3 * 3)  # three rows
        made = out_of_core.mapped(lambda block, other: block - 2 * other, x, x)
        np.testing.assert_array_equal(made, -x)
        found.append(out_of_core.added(lambda block: block.T @ block, x, at_once=24))
        np.testing.assert_allclose(found[-1], x.T @ x)
        assert out_of_core.added(lambda block: block.sum(dtype=np.float64), x) == x.sum()  # a number for each block
    np.testing.assert_array_equal(*found)
