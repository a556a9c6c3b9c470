"""Columns of a node table become features, the same way every week."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph.column_fit import BadCell
from dssl.graph.encoding import Encoding
from dssl.graph.features import decode, encode, encode_labels

TABLE = pa.table(
    {
        "age": [20, 30, 40, 50],
        "paid": [True, False, False, True],
        "city": ["Rome", "Oslo", None, "Rome"],
        "vector": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], pa.list_(pa.float32(), 2)),
    }
)


def dense(x):
    return x.toarray() if sparse.issparse(x) else x


def test_each_kind_of_column():
    x, names, encoding = encode(TABLE)
    assert names == ("age", "paid", "city=Oslo", "city=Rome", "vector[0]", "vector[1]")
    age = (np.array([20, 30, 40, 50]) - 35) / np.std([20, 30, 40, 50])
    expected = [[1, 0, 1, 1, 2], [0, 1, 0, 3, 4], [0, 0, 0, 5, 6], [1, 0, 1, 7, 8]]
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, np.column_stack([age, expected]), rtol=1e-6)
    assert encoding.names == names


def test_a_table_without_rows_has_features_without_rows():
    _, names, encoding = encode(TABLE.append_column("note", pa.array(["a b", "c", "d", "e"])), kinds={"note": "text"})
    for kind in (pa.string(), pa.null()):
        empty = TABLE.slice(0, 0).append_column("note", pa.array([], kind))
        assert encode(empty, encoding=encoding)[0].shape == (0, len(names))


def test_columns_are_taken_in_the_order_asked_for():
    assert encode(TABLE, ["paid", "age"])[1] == ("paid", "age")
    assert encode(TABLE, [])[0] is None


def test_an_encoding_survives_json_and_treats_the_next_table_alike():
    x, names, encoding = encode(TABLE)
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json(), allow_nan=False)))
    assert again == encoding
    shuffled = TABLE.select(["vector", "city", "age", "paid"]).append_column("new", [["a", "b", "c", "d"]])
    y, others, same = encode(shuffled, encoding=again)
    assert (names, encoding) == (others, same)
    np.testing.assert_array_equal(dense(x), dense(y))


def test_the_next_table_is_scaled_by_the_first():
    encoding = encode(pa.table({"age": [0.0, 2.0], "city": ["a", "b"]}))[2]
    x, _, _ = encode(pa.table({"age": [5], "city": pa.array(["c"]).dictionary_encode()}), encoding=encoding)
    assert x.tolist() == [[4, 0, 0]]  # (5 - 1) / 1, and a city that nobody knew


@pytest.mark.parametrize("values", [[0.1] * 7, [3] * 7, ["x"] * 7, [True] * 7])
def test_a_constant_column_is_left_out_with_a_note(values):
    x, names, encoding = encode(pa.table({"a": values}))
    assert (x, names) == (None, ())
    assert "it is constant" in encoding.ignored[0].note
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding


def test_missing_numbers_and_flags_are_the_mean_and_marked():
    x, names, encoding = encode(pa.table({"a": pa.array([1.0, None, 3.0]), "b": pa.array([True, None, False])}))
    assert names == ("a", "a is missing", "b", "b is missing")
    assert dense(x).tolist() == [[-1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]]
    # A table without missing values in the fitted table has no mark: the mean stands for them.
    known = encode(pa.table({"a": [1.0, 3.0]}))[2]
    assert encode(pa.table({"a": pa.array([None], pa.float64())}), encoding=known)[0].tolist() == [[0]]
    values = {column.name: found.tolist() for column, found in decode(x, encoding)}
    np.testing.assert_allclose(values["a"], [1, np.nan, 3])


def test_a_long_tail_is_taken_by_its_logarithm():
    amounts = np.array([0.0, 1, 2, 3, 1e6])
    x, _, encoding = encode(pa.table({"amount": amounts}))
    logs = np.log1p(amounts)
    np.testing.assert_allclose(x[:, 0], (logs - logs.mean()) / logs.std(), rtol=1e-5)
    np.testing.assert_allclose(next(decode(x, encoding))[1], amounts, rtol=1e-4, atol=1e-4)
    assert not encode(pa.table({"amount": amounts - 1}))[2].columns[0].log  # a negative number has no logarithm


def test_an_outlier_is_cut():
    encoding = encode(pa.table({"a": [0.0, 2.0, 0.0, 2.0]}))[2]
    assert encode(pa.table({"a": [1e9]}), encoding=encoding)[0].tolist() == [[8]]


def test_dates_become_a_number_and_the_cycles_that_they_cover():
    hours = np.arange(0, 24 * 14, 5)
    when = pa.array(hours * 3600, pa.timestamp("s"))
    x, names, _ = encode(pa.table({"when": when}))
    assert names == ("when", "when, day sin", "when, day cos", "when, week sin", "when, week cos")
    np.testing.assert_allclose(x[:, 0], (hours - hours.mean()) / hours.std(), rtol=1e-4)
    np.testing.assert_allclose(x[:, 1], np.sin(2 * np.pi * hours / 24), atol=1e-5)
    np.testing.assert_allclose(x[:, 4], np.cos(2 * np.pi * hours / (24 * 7)), atol=1e-5)
    days = pa.array(np.arange(400, dtype=np.int32), pa.date32())  # without hours there is no cycle of a day
    assert encode(pa.table({"day": days}))[2].columns[0].cycles == ("week", "year")
    stamps = pa.array(10**18 + np.arange(5) * 3_600_000_000_000, pa.timestamp("ns"))
    assert np.isfinite(encode(pa.table({"t": stamps}))[0]).all()


def test_integers_beyond_the_precision_of_floats_are_numbers():
    x, _, _ = encode(pa.table({"stamp": pa.array([2**60 + 10**15 * i for i in range(5)])}))
    np.testing.assert_allclose(x[:, 0], [-np.sqrt(2), -np.sqrt(0.5), 0, np.sqrt(0.5), np.sqrt(2)], atol=1e-5)


def test_free_text_becomes_hashed_words():
    comments = [f"order number {i} arrived late" for i in range(100)]
    x, names, encoding = encode(pa.table({"comment": comments}))
    assert encoding.columns[0].kind == "text"
    assert isinstance(x, sparse.csr_array)
    assert x.shape == (100, len(names))
    assert (x.sum(axis=1) >= 4).all()
    shared = (x.toarray() > 0).all(axis=0).sum()
    assert shared == 4  # order, number, arrived, late
    again, _, _ = encode(pa.table({"comment": ["late late"]}), encoding=encoding)
    assert dense(again).sum() == 2


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("email", [f"user{i}@example.org" for i in range(100)]),
        ("account_id", list(range(1000, 1100))),
        ("uuid", [f"{i:032x}" for i in range(300)]),
    ],
)
def test_identifiers_are_left_out_with_a_note(name, values):
    x, _, encoding = encode(pa.table({name: values}))
    assert x is None
    assert "identifier" in encoding.ignored[0].note


def test_numbers_without_the_name_of_an_identifier_stay():
    assert encode(pa.table({"income": list(range(100))}))[2].columns[0].kind == "number"


def test_the_user_decides_on_a_column():
    table = pa.table({"zip": [10115, 10117, 10115], "email": ["a@b", "c@d", "e@f"], "code": ["1", "2", "4"]})
    kinds = {"zip": "category", "email": "text", "code": "number"}
    _, names, encoding = encode(table, kinds=kinds)
    assert {column.name: column.kind for column in encoding.columns} == kinds
    assert names[:2] == ("zip=10115", "zip=10117")
    assert encode(table, kinds=dict.fromkeys(kinds, "ignore"))[0] is None
    with pytest.raises(BadCell, match="'a@b' is not a number"):
        encode(table, kinds={"email": "number"})


def test_text_that_is_not_utf8_is_refused():
    wrong = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(GraphError, match="column 'a' holds text that is not UTF-8"):
        encode(pa.table({"a": wrong}))


def test_tokens_are_categories_and_words():
    table = pa.table({"age": [1.0, 2.0], "city": ["a", "b"], "paid": [True, False]})
    encoding = encode(table)[2]
    assert encoding.tokens.tolist() == [False, True, True, False]


def test_dictionaries_are_the_values_that_they_stand_for():
    column = pa.DictionaryArray.from_arrays([0, 1, 0], ["x", "y", "unused"])
    assert encode(pa.table({"a": column}))[1] == ("a=x", "a=y")


def test_many_categories_are_sparse_and_few_dense():
    values = [f"c{i % 40:02d}" for i in range(200)]
    wide = encode(pa.table({"a": values}))[0]
    assert isinstance(wide, sparse.csr_array)
    assert (wide.shape, wide.nnz, wide.dtype) == ((200, 40), 200, np.float32)
    np.testing.assert_array_equal(wide.toarray(), np.tile(np.eye(40), (5, 1)))
    assert isinstance(encode(pa.table({"a": ["x", "y"] * 100}))[0], np.ndarray)


def test_sparse_and_dense_columns_are_joined_in_order():
    table = pa.table({"a": [f"c{i % 40:02d}" for i in range(200)], "b": np.arange(200.0), "c": [True, False] * 100})
    x, names, _ = encode(table)
    assert isinstance(x, sparse.csr_array)
    assert names[39:] == ("a=c39", "b", "c")
    b = (np.arange(200) - 99.5) / np.arange(200).std()
    np.testing.assert_allclose(x[:, [40]].toarray()[:, 0], b, rtol=1e-6)
    assert x[:, [41]].toarray()[:, 0].tolist() == [1, 0] * 100


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.int8(), 2)])
def test_vectors_of_any_kind_also_sliced(kind):
    column = pa.array([[9, 9], [1, 2], [3, 4]], kind)[1:]
    assert encode(pa.table({"v": column}))[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("column", "row", "message"),
    [
        (pa.array([float("-inf"), 2.0]), 0, "-inf cannot be a feature"),
        (pa.array([[1.0, 2.0], [3.0]]), 1, "a list of 1 is not a list of 2 numbers"),
        (pa.array([[1.0], None]), 1, "a missing value is not a list of 1 numbers"),
        (pa.array([[1.0, 2.0], [3.0, float("nan")]]), 1, "nan at position 1"),
        (pa.array([[1.0, None]], pa.list_(pa.float64(), 2)), 0, "a missing value at position 1"),
    ],
)
def test_a_bad_value_is_named(column, row, message):
    with pytest.raises(BadCell, match=message) as caught:
        encode(pa.table({"a": column}))
    assert (caught.value.column, caught.value.row) == ("a", row)
    assert "column 'a'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[["x"]], [["y"]]]), "'a' is of type list<"),
        (pa.array([1e308, -1e308, 1e308]), "scale it down"),
    ],
)
def test_columns_that_cannot_be_features_are_refused(column, message):
    with pytest.raises(GraphError, match=message) as caught:
        encode(pa.table({"a": column}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"ages": [1]}, "no column 'age', which the features need; it has 'ages', did you mean 'ages'"),
        ({"age": ["old"]}, "'old' is not a number"),
        ({"age": [[1]]}, "'age' is of type list<.*>, but was a column of numbers before"),
    ],
)
def test_a_table_that_does_not_fit_the_encoding_is_refused(column, message):
    with pytest.raises(GraphError, match=message):
        encode(pa.table(column), encoding=encode(pa.table({"age": [1, 2]}))[2])


def test_a_damaged_encoding_is_refused():
    with pytest.raises(GraphError, match="damaged"):
        Encoding.from_json({"columns": [{"name": "a"}]})


@pytest.mark.parametrize(
    ("values", "y", "names"),
    [
        (["b", "a", None, "", "b"], [1, 0, -1, -1, 1], ("a", "b")),
        ([5, 1, None, 10], [1, 0, -1, 2], ("1", "5", "10")),
        (["5", "1", "", "10"], [1, 0, -1, 2], ("1", "5", "10")),
        (["5", "01"], [1, 0], ("01", "5")),
        ([1.0, float("nan"), 0.0], [1, -1, 0], ("0", "1")),
        ([-1, 1], [0, 1], ("-1", "1")),
        ([True, False], [1, 0], ("false", "true")),
        (pa.array(["x", "y", "x"]).dictionary_encode(), [0, 1, 0], ("x", "y")),
    ],
)
def test_labels_become_classes_in_the_order_of_their_values(values, y, names):
    array = values if isinstance(values, pa.Array) else pa.array(values)
    got, classes = encode_labels(array, "label")
    assert got.tolist() == y
    assert got.dtype == np.int64
    assert classes == names


def test_no_label_at_all():
    assert encode_labels(pa.array([None, None], pa.string()), "label") == (None, ())


def test_labels_with_decimals_are_refused():
    with pytest.raises(BadCell, match=r"0\.5 is not a class"):
        encode_labels(pa.array([1.0, 0.5]), "label")
    with pytest.raises(GraphError, match="label column 'when' is of type date32"):
        encode_labels(pa.array([1], pa.date32()), "when")
