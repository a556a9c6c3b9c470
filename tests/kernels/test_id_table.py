"""Both tables against a dictionary, and the fast parser against the slow one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dssl.kernels.id_table import IntegerTable, TextTable, parse_integers

texts = st.lists(st.text(st.sampled_from("ab\x00\x01é"), max_size=20), max_size=60)
integers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), max_size=60)


def check(table, kind, blocks):
    positions: dict[object, int] = {}
    for block in blocks:
        expected = [positions.setdefault(value, len(positions)) for value in block]
        assert table.add(pa.array(block, kind)).tolist() == expected
        assert len(table) == len(positions)
    table.ids().validate(full=True)
    assert table.ids().to_pylist() == list(positions)


@settings(deadline=None)
@given(blocks=st.lists(texts, max_size=4))
@example(blocks=[["", "\x00", "\x00" * 8, "\x01", "abcdefgh", "abcdefgh\x01" + "\x00" * 7, "abcdefgh\x01"]])
def test_texts_get_positions_in_order_of_appearance(blocks):
    check(TextTable(), pa.string(), blocks)


@settings(deadline=None)
@given(blocks=st.lists(integers, max_size=4))
def test_integers_get_positions_in_order_of_appearance(blocks):
    check(IntegerTable(), pa.int64(), blocks)


def test_tables_grow():
    numbers = np.random.default_rng(0).integers(0, 20_000, 60_000)
    check(IntegerTable(), pa.int64(), [numbers[:10].tolist(), (numbers * 4096).tolist()])
    check(TextTable(), pa.string(), [[f"node {n}" for n in numbers[:30_000]], [f"node {n}" for n in numbers]])
    check(TextTable(), pa.string(), [["x" * 300_000, "y"], ["x" * 300_000 + "y"]])


def test_a_slice_of_an_array_is_read_from_where_it_starts():
    assert TextTable().add(pa.array(["a", "b", "c", "b"])[1:]).tolist() == [0, 1, 0]


def parsed(text: bytes, columns=(0, 1), width=2):
    out = np.empty((2, text.count(b"\n")), np.int64)
    rows = parse_integers(np.frombuffer(text, np.uint8), ord(","), width, columns, out)
    return rows if rows < 0 else out[:, :rows].T.tolist()


@settings(deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(-(10**18) + 1, 10**18 - 1)] * 2)))
def test_plain_integers_are_parsed(rows):
    text = "".join(f"{a},{b}\n" for a, b in rows).encode()
    assert parsed(text) == [list(row) for row in rows]


def test_other_columns_and_ends_of_lines_are_passed_over():
    assert parsed(b"x,1,0.5,2\r\n\r\n,3,,4\r\n\n", (3, 1), 4) == [[2, 1], [4, 3]]


@pytest.mark.parametrize(
    "line", ["1", "1,", ",1", "1,2,3", "1, 2", "01,2", "-0,1", "+1,2", '"1",2', "1.0,2", "a,2", "1" * 19 + ",1", "-,1"]
)
def test_the_fast_parser_is_in_doubt_about_all_else(line):
    assert parsed(b"1,2\r3,4\r\n") == -1  # more lines than newlines
    assert parsed(f"5,6\n{line}\n7,8\n".encode()) == -1
