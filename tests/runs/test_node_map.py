from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dssl.evaluation.projection import project
from dssl.model.embeddings import Embeddings, EmbeddingsError
from dssl.model.storage import EMBEDDINGS
from dssl.runs import node_map
from dssl.runs.node_map import map_of
from dssl.runs.run_folder import MAP
from tests.evaluation.test_projection import clusters


def save(folder: Path, values: np.ndarray) -> None:
    Embeddings([f"n{i}" for i in range(len(values))], values).save(folder / EMBEDDINGS)


def test_a_map_is_made_once_for_the_embeddings_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, _ = clusters(60)
    save(tmp_path, values)
    first = map_of(tmp_path)
    np.testing.assert_array_equal(first.points, project(values))
    assert (first.kind, first.words) == ("tsne", "t-SNE of 60 nodes")
    with monkeypatch.context() as patch:
        patch.setattr(node_map, "project", lambda _: pytest.fail("made again"))
        again = map_of(tmp_path)
    np.testing.assert_array_equal(again.points, first.points)
    assert again.kind == first.kind
    save(tmp_path, values[::-1])
    assert not np.array_equal(map_of(tmp_path).points, first.points)
    (tmp_path / MAP).write_bytes(b"PAR1 damaged")
    np.testing.assert_array_equal(map_of(tmp_path).points, project(values[::-1]))


def test_a_map_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, np.ones((4, 2), np.float32))

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(node_map, "_store", refuse)
    found = map_of(tmp_path)
    assert found.words == "principal components of 4 nodes"
    assert not (tmp_path / MAP).exists()


def test_missing_embeddings_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingsError, match=r"embeddings\.parquet cannot be read"):
        map_of(tmp_path)
