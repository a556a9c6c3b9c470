"""``later_links.parquet``: the links that a split by time holds out of a run, with the ids of their ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dssl.data.later_links import LaterLinks
from dssl.errors import DsslError, RunError
from dssl.graph import Graph
from dssl.runs.run_folder import LATER
from dssl.runtime import files


def write_later(folder: Path, later: LaterLinks, graph: Graph) -> None:
    """Write the links, in the order of their time."""
    ends = {name: graph.ids.take(pa.array(later.pairs[:, at])) for at, name in enumerate(("source", "target"))}
    described = {"moment": later.moment, "unknown": str(later.unknown)}
    with files.replacing(folder / LATER) as path:
        parquet.write_table(pa.table(ends).replace_schema_metadata(described), path)


def read_later(folder: Path, graph: Graph) -> LaterLinks | None:
    """Read the links; none if the run has no split by time."""
    path = folder / LATER
    if not path.exists():
        return None
    try:
        table = parquet.read_table(path)
        described = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        ends = [graph.positions(table[name].combine_chunks()) for name in ("source", "target")]
        return LaterLinks(np.stack(ends, axis=1).astype(np.int64), described["moment"], int(described["unknown"]))
    except (pa.ArrowException, OSError, KeyError, ValueError, DsslError):
        raise RunError(f"{path} is damaged; fit the run again") from None
