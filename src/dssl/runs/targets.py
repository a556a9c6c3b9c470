"""``dssl evaluate --targets``: numbers of a table, predicted from the vectors of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dssl.config.schema import ReadOptions
from dssl.data.columns import choose_column, open_columns
from dssl.data.tables import id_and_label
from dssl.errors import ProbeError, RunError
from dssl.graph.column_fit import numbers_of, plain
from dssl.graph.preparation import links
from dssl.runs import run_folder

if TYPE_CHECKING:
    from dssl.runs.records import Evaluation


def evaluate(folder: Path, file: Path, column: str, *, on_stage: Callable[[str], None] = lambda _: None) -> Evaluation:
    """Return the R² of a ridge probe on the vectors of a run, and of the training-free baselines.

    Args:
        folder: the run folder.
        file: a table with the ids of nodes and numbers; nodes without a row are left out.
        column: the column with the numbers.
        on_stage: called with the name of each part before it starts.
    """
    from dssl.evaluation.regression import evaluate_target

    config, vectors = run_folder.read_config(folder), run_folder.read_embeddings(folder)
    graph = run_folder.read_graph(folder, "dssl evaluate")
    target = read_target(file, column, vectors.ids, id_column=config.graph.id_column)
    options = config.evaluate
    found: dict[str, Any] = evaluate_target(
        links(graph, directed=config.graph.directed, self_loops=config.graph.self_loops),
        vectors.values,
        target,
        splits=options.splits,
        shares=options.shares,
        seed=options.split_seed,
        on_stage=on_stage,
    )
    return cast("Evaluation", found)


def read_target(file: Path, column: str, ids: pa.Array, *, id_column: str | None = None) -> NDArray[np.float64]:
    """Return the number of each id of a table, NaN where there is none, shape ``(N,)``.

    Args:
        file: the table.
        column: the column with the numbers.
        ids: the ids of the nodes, shape ``(N,)``.
        id_column: column with the ids; by default one with a usual name, or the first.
    """
    if not column:
        raise RunError(f"name the column of {file} with the numbers: --target NAME")
    table = open_columns(file)
    choose_column(table, column, "target")
    key, _ = id_and_label(table, ReadOptions(id_column=id_column if id_column in table.names else None))
    rows = table.read({key: ids.type, column: pa.float64()})
    values = numbers_of(column, plain(rows[column], column))
    keys = plain(rows[key], key)
    if keys.type != ids.type:
        try:
            keys = keys.cast(ids.type)
        except pa.ArrowInvalid:  # text that no node of the run can have
            keys, ids = keys.cast(pa.string()), ids.cast(pa.string())
    place = np.asarray(pc.index_in(keys, value_set=ids).fill_null(-1), np.int64)
    found = np.full(len(ids), np.nan)
    found[place[place >= 0]] = values[place >= 0]
    if np.isnan(found).all():
        raise ProbeError(f"no id of {file} is a node of the run with a number in column {column!r}")
    return found
