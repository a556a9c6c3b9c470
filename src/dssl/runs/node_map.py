"""The map of a run: coordinates in the plane of each node, stored with the embeddings that they belong to."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dssl.evaluation.projection import SAMPLE, checked, kind_of, project
from dssl.model.embeddings import Embeddings, EmbeddingsError
from dssl.model.storage import EMBEDDINGS
from dssl.runs.run_folder import MAP
from dssl.runtime import files

FORMAT = b"4"  # raise it when coordinates come out differently: stored ones are then computed again


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """The nodes in the plane.

    Args:
        points: coordinates in the order of the embeddings, float32, shape ``(N, 2)``.
        kind: the projection, ``"tsne"`` or ``"pca"``.
    """

    points: NDArray[np.float32]
    kind: str

    @property
    def words(self) -> str:
        """The projection in words.

        >>> Map(np.zeros((20_000, 2), np.float32), "tsne").words
        't-SNE of 10,000 of 20,000 nodes, the others next to their nearest'
        """
        count = len(self.points)
        if self.kind == "pca":
            return f"principal components of {count:,} nodes"
        if count <= SAMPLE:
            return f"t-SNE of {count:,} nodes"
        return f"t-SNE of {SAMPLE:,} of {count:,} nodes, the others next to their nearest"


def map_of(folder: Path) -> Map:
    """Return the map of a run's embeddings: from ``map.parquet`` if that belongs to them, or computed and stored there.

    Args:
        folder: a run folder.
    """
    source = folder / EMBEDDINGS
    try:
        files.check_regular(source)
        with source.open("rb") as handle:
            digest = hashlib.file_digest(handle, lambda: hashlib.sha256(FORMAT)).hexdigest()
    except OSError as error:
        raise EmbeddingsError(f"{source} cannot be read ({error.strerror}); fit the run again") from None
    stored = _stored(folder / MAP, digest)
    if stored is not None:
        return stored
    vectors = Embeddings.load(source)
    made = Map(project(vectors.values), kind_of(checked(vectors.values), "auto"))
    with suppress(OSError):  # a run folder may be read-only
        _store(folder / MAP, vectors.ids, made, digest)
    return made


def _store(path: Path, ids: pa.Array, found: Map, digest: str) -> None:
    from pyarrow import parquet

    table = pa.table({"id": ids, "x": found.points[:, 0], "y": found.points[:, 1]})
    with files.replacing(path) as temporary:
        parquet.write_table(table.replace_schema_metadata({"digest": digest, "kind": found.kind}), temporary)


def _stored(path: Path, digest: str) -> Map | None:
    """The map in a file; none if it is missing, damaged, or of other embeddings."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
        notes = table.schema.metadata or {}
        if notes.get(b"digest") != digest.encode():
            return None
        points: NDArray[np.float32] = np.stack([table.column(name).to_numpy() for name in ("x", "y")], axis=1)
        return Map(points.astype(np.float32, copy=False), notes[b"kind"].decode())
    except (OSError, KeyError, ValueError, pa.ArrowException):  # ValueError: a text that is not UTF-8
        return None
