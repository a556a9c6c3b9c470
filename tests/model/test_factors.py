"""Factors with ids: tables and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from dssl.errors import DsslError
from dssl.model.factors import Factors


@pytest.fixture(params=[["a", "b", "alone"], [7, 1 << 40, -3]])
def factors(request: pytest.FixtureRequest) -> Factors:
    """Two nodes with a link, seen from both ends, and one without."""
    links = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
    nodes = np.vstack([links, np.zeros((1, 3), np.float32)])
    return Factors(pa.array(request.param), np.array([0, 1], np.int32), np.array([1, 0], np.int32), links, nodes)


def test_tables_carry_ids_the_best_factor_and_all_of_them(factors: Factors) -> None:
    first, second, alone = factors.ids.to_pylist()
    links, nodes = factors.links_table(), factors.nodes_table()
    assert links.column_names == ["source", "target", "factor", "q"]
    assert links.column("source").to_pylist() == [first, second]
    assert links.column("target").to_pylist() == [second, first]
    assert links.column("factor").to_pylist() == [0, 2]
    assert links.schema.field("q").type == pa.list_(pa.float32(), 3)
    np.testing.assert_array_equal(np.array(links.column("q").to_pylist(), np.float32), factors.links)
    assert nodes.column("id").to_pylist() == [first, second, alone]
    assert nodes.column("factor").to_pylist() == [0, 2, None]  # nothing is known of a node without links


@pytest.mark.parametrize("layout", ["list", "columns"])
def test_parquet_gives_the_tables_back(factors: Factors, tmp_path: Path, layout: str) -> None:
    factors.save(tmp_path / "new" / "l.parquet", nodes=tmp_path / "n.parquet", layout=layout)  # type: ignore[arg-type]
    for name, table in {"new/l.parquet": factors.links_table(), "n.parquet": factors.nodes_table()}.items():
        back = parquet.read_table(tmp_path / name)
        if layout == "list":
            assert back.equals(table)
        else:
            assert back.column_names[-3:] == ["q0", "q1", "q2"]
            columns = np.stack([column.to_numpy() for column in back.columns[-3:]], axis=1)
            np.testing.assert_array_equal(columns, np.array(table.column("q").to_pylist(), np.float32))


def test_csv_has_a_column_a_factor(factors: Factors, tmp_path: Path) -> None:
    factors.save(tmp_path / "l.csv", nodes=tmp_path / "n.csv")
    back = csv.read_csv(tmp_path / "l.csv")
    assert back.column_names == ["source", "target", "factor", "q0", "q1", "q2"]
    assert back.column("q2").to_pylist() == pytest.approx([0.1, 0.6])
    assert (tmp_path / "n.csv").read_text().splitlines()[3].endswith(",,0,0,0")


def test_wrong_files_are_refused_before_anything_is_written(factors: Factors, tmp_path: Path) -> None:
    for links, nodes in [("l.npz", None), ("l.csv", "n.xlsx")]:
        with pytest.raises(DsslError, match=r"unknown extension .*; use one of \.parquet, \.csv$"):
            factors.save(tmp_path / links, nodes=None if nodes is None else tmp_path / nodes)
    with pytest.raises(DsslError, match="unknown layout 'rows'"):
        factors.save(tmp_path / "l.csv", layout="rows")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
