from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dssl.errors import ProbeError, RunError
from dssl.runs.targets import read_target


def table(folder: Path, **columns: object) -> Path:
    parquet.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.mark.parametrize("ids", [[3, 1, 7], ["3", "1", "7"]])
@pytest.mark.parametrize("given", [[1, 3, 9, 1], ["1", "3", "9", "1"], ["1", "3", "other", "1"]])
def test_each_node_gets_the_last_number_of_its_id(ids: list[object], given: list[object], tmp_path: Path) -> None:
    file = table(tmp_path, id=given, value=[1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(read_target(file, "value", pa.array(ids)), [2.0, 4.0, np.nan])


def test_a_table_of_other_nodes_or_without_a_column_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"no id of .* is a node of the run"):
        read_target(table(tmp_path, id=["x"], value=[1.0]), "value", pa.array([1]))
    with pytest.raises(RunError, match="--target NAME"):
        read_target(table(tmp_path, id=["x"], value=[1.0]), "", pa.array([1]))
