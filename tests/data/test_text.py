"""Whether the first line of an edge list is a header, and how its columns are told apart."""

from __future__ import annotations

import pytest

from dssl.data.columns import ending
from dssl.data.text import TextColumns, see_header
from dssl.errors import GraphError


@pytest.mark.parametrize(
    ("rows", "wanted", "answer"),
    [
        (["source,target", "a,b"], [], True),
        (["From,To", "a,b"], [], True),
        (["x,dst,src", "1,a,b"], [], True),
        (["source,target"], [], True),
        (["person,friend", "1,2"], [], True),
        (["person,friend,kg", "a,b,1.5"], [], True),  # a word above numbers
        (["1,2", "2,3"], [], False),
        (["a,b,1.5", "b,c,2"], [], False),
        (["a,b", "b,c"], [], False),  # b comes again
        (["source,b", "b,c"], [], False),
        (["person,friend", "a,b"], ["person"], True),
        (["a,b", "c,d"], ["2", "1"], False),  # columns by number
        (["a,b", "c,d"], [], None),
        (["a,b"], [], None),
    ],
)
def test_the_rule(rows, wanted, answer):
    split = [row.split(",") for row in rows]
    if answer is not None:
        assert see_header(split, wanted, "e.csv") is answer
        return
    with pytest.raises(GraphError, match="it is unclear whether"):
        see_header(split, wanted, "e.csv")


@pytest.mark.parametrize(
    ("line", "kind", "names"),
    [
        ("a,b c", ".csv", ["a", "b c"]),
        ("a\tb,c", ".tsv", ["a", "b,c"]),
        ("a;b", ".csv", ["a", "b"]),
        ("a b", ".txt", ["a", "b"]),
        ("a,b", ".tsv", ["a", "b"]),
        ('"a,1",b', ".csv", ["a,1", "b"]),
    ],
)
def test_delimiters(tmp_path, line, kind, names):
    path = tmp_path / f"e{kind}"
    path.write_text(line + "\n")
    assert TextColumns(path, kind, header=True, wanted=[], edges=True).names == names


def test_the_header_can_be_told(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("a,b\nc,d\n")
    for header, names, rows in ((True, ["a", "b"], 1), (False, ["1", "2"], 2)):
        columns = TextColumns(path, ".csv", header=header, wanted=[], edges=True)
        assert columns.names == names
        assert sum(block.num_rows for block in columns.blocks(names, [], [], integers=False)) == rows


def test_endings(tmp_path):
    path = tmp_path / "my.edges.CSV.gz"
    path.write_bytes(b"x")
    assert ending(path) == ".csv.gz"
