"""Vectors on disk, by id, and nearest to one another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import dssl.model.embeddings
from dssl.errors import DsslError
from dssl.model.embeddings import Embeddings, EmbeddingsError

VALUES = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
NAMES = ["a", "b", "ç,d", 'quo"te', "e f", "007", "NA"]


@pytest.mark.parametrize("ids", [[5, -2, 9, 1 << 40, 0, 3, 4], NAMES])
@pytest.mark.parametrize(
    ("name", "layout"), [("v.parquet", "list"), ("v.parquet", "columns"), ("v.csv", "list"), ("v.npz", "list")]
)
def test_round_trip_is_exact(tmp_path, ids, name, layout, monkeypatch):
    monkeypatch.setattr(dssl.model.embeddings, "ROWS_AT_ONCE", 3)  # several blocks
    Embeddings(ids, VALUES).save(tmp_path / "new" / name, layout=layout)
    back = Embeddings.load(tmp_path / "new" / name)
    assert back.ids.to_pylist() == ids
    np.testing.assert_array_equal(back.values, VALUES)
    assert back.values.dtype == np.float32
    assert [file.name for file in (tmp_path / "new").iterdir()] == [name]  # no temporary file stays


def test_string_ids_that_look_like_numbers_stay_strings_in_csv(tmp_path):
    Embeddings(["001", "2"], VALUES[:2]).save(tmp_path / "v.csv")
    assert Embeddings.load(tmp_path / "v.csv").ids.to_pylist() == ["001", "2"]


def test_parquet_layouts(tmp_path):
    e = Embeddings(NAMES, VALUES)
    e.save(tmp_path / "l.parquet")
    e.save(tmp_path / "c.parquet", layout="columns")
    assert parquet.read_schema(tmp_path / "l.parquet").field("embedding").type == pa.list_(pa.float32(), 3)
    assert parquet.read_schema(tmp_path / "c.parquet").names == ["id", "z0", "z1", "z2"]


def test_vector_and_most_similar_against_a_literal_loop():
    e = Embeddings(NAMES, VALUES)
    np.testing.assert_array_equal(e.vector("e f"), VALUES[4])
    ids, cosines = zip(*e.most_similar("b", top=4), strict=True)
    norm = np.linalg.norm
    literal = {n: float(v @ VALUES[1] / norm(v) / norm(VALUES[1])) for n, v in zip(NAMES, VALUES, strict=True)}
    del literal["b"]
    expected = sorted(literal, key=lambda n: -literal[n])[:4]
    assert list(ids) == expected
    np.testing.assert_allclose(cosines, [literal[n] for n in expected], rtol=1e-5)


def test_most_similar_at_the_edges():
    assert Embeddings([1], [[1.0]]).most_similar(1) == []
    ids, cosines = zip(*Embeddings([1, 2, 3], [[0.0, 0], [1, 0], [2, 0]]).most_similar(1, top=10), strict=True)
    assert ids == (2, 3)
    assert cosines == (0, 0)


def test_vectors_as_tables_and_by_id() -> None:
    e = Embeddings(NAMES, VALUES)
    np.testing.assert_array_equal(np.asarray(e), VALUES)
    assert np.asarray(e, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(e[NAMES[2]], VALUES[2])
    np.testing.assert_array_equal(e[[NAMES[3], NAMES[1], NAMES[3]]], VALUES[[3, 1, 3]])
    assert [name for name, _ in e] == NAMES
    assert NAMES[0] in e
    assert 7 not in e
    with pytest.raises(EmbeddingsError, match="no vector for the node 'nosuch'"):
        e[["nosuch"]]
    frame = e.to_pandas()
    np.testing.assert_array_equal(frame.loc[NAMES[1]].to_numpy(), VALUES[1])
    assert frame.index.name == "id"
    polars = e.to_polars()
    assert polars.columns == ["id", *frame.columns]
    np.testing.assert_array_equal(polars.drop("id").to_numpy(), VALUES)
    table = e.to_arrow()
    assert table.column_names == ["id", "embedding"]
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist(), np.float32), VALUES)
    np.testing.assert_array_equal(e.as_dict()[NAMES[4]], VALUES[4])
    integers = Embeddings([5, 3], [[1.0], [2.0]])
    assert integers[np.int64(3)] == 2
    assert integers[np.array([3, 5])].tolist() == [[2.0], [1.0]]
    assert "<td>a</td>" in Embeddings(["a"], [[1.0]])._repr_html_()


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "v.parquet"
    Embeddings(NAMES, VALUES).save(path)
    monkeypatch.setattr(pa, "record_batch", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("crash")))
    with pytest.raises(RuntimeError):
        Embeddings(NAMES, VALUES * 2).save(path)
    np.testing.assert_array_equal(Embeddings.load(path).values, VALUES)


def _files(folder: Path) -> dict[str, Path]:
    def put(name: str, content: bytes) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    np.savez(folder / "other.npz", a=np.zeros(2))
    np.savez(folder / "pickle.npz", ids=np.array([{}], dtype=object), values=np.zeros((1, 1)))
    parquet.write_table(pa.table({"id": [1], "embedding": [[1.0]]}), folder / "ragged.parquet")
    nulls = pa.array([None, [1.0, 2.0]], pa.list_(pa.float32(), 2))
    parquet.write_table(pa.table({"id": [1, 2], "embedding": nulls}), folder / "nulls.parquet")
    return {
        "does not exist": folder / "none.parquet",
        "unknown extension '.txt'": folder / "v.txt",
        "does not contain embeddings as parquet": put("no.parquet", b"hello"),
        "does not contain embeddings as npz": put("no.npz", b"hello"),
        "first column": put("first.csv", b"name,z0\n1,2\n"),
        "has only the column": put("only.csv", b"id\n1\n"),
        "column 'z1'": put("word.csv", b"id,z0,z1\n1,2,x\n"),
        "does not contain embeddings as csv": put("ragged.csv", b"id,z0\n1,2\n1,2,3\n"),
        "occurs more than once": put("twice.csv", b"id,z0\n1,2\n1,3\n"),
        "need ids and values": folder / "other.npz",
        "pickle": folder / "pickle.npz",
        "fixed-size list": folder / "ragged.parquet",
        "missing vectors": folder / "nulls.parquet",
    }


def test_malformed_files_give_one_line_that_names_the_file(tmp_path):
    for words, path in _files(tmp_path).items():
        with pytest.raises(EmbeddingsError) as caught:
            Embeddings.load(path)
        assert words in str(caught.value)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_values_that_no_id_can_have_are_not_contained():
    texts, numbers = Embeddings(["a", "b"], [[1.0], [2.0]]), Embeddings([0, 1], [[1.0], [2.0]])
    assert np.int64(1) in numbers and numbers[np.int64(1)] == 2
    assert not any(value in numbers for value in (True, 2**70, "1", None, 1.0))
    assert not any(value in texts for value in ("\ud800", 1, None))
    assert texts[[]].shape == numbers[[]].shape == (0, 1)
    for vectors, wanted in ((texts, [1]), (numbers, ["a"]), (texts, ["a", "c"])):
        with pytest.raises(EmbeddingsError, match=f"no vector for the node {wanted[-1]!r}"):
            vectors[wanted]
    with pytest.raises(EmbeddingsError, match="no vector for the node 1180591620717411303424"):
        numbers[2**70]


def test_unknown_ids_and_arguments_are_named(tmp_path):
    e = Embeddings(["node", "edge"], [[1.0], [2.0]])
    with pytest.raises(EmbeddingsError, match=r"'nod', did you mean 'node'"):
        e.vector("nod")
    with pytest.raises(EmbeddingsError, match="no vector for the node 3; ids are strings"):
        e.most_similar(3)
    for top in (0, None, "3", 1.5):
        with pytest.raises(EmbeddingsError, match=f"top is {top!r}"):
            e.most_similar("node", top=top)
    with pytest.raises(EmbeddingsError, match="unknown layout 'wide'"):
        e.save(tmp_path / "v.parquet", layout="wide")
    with pytest.raises(EmbeddingsError, match="one row per id"):
        Embeddings([1, 2], [[1.0]])


def test_an_index_finds_the_nearest_of_many_vectors(monkeypatch):
    """The index returns nearly all of the exact neighbours, with their exact cosines."""
    centres = np.random.default_rng(1).normal(size=(50, 16))
    rng = np.random.default_rng(0)
    vectors = Embeddings(np.arange(2000), centres[rng.integers(50, size=2000)] + 0.3 * rng.normal(size=(2000, 16)))
    vectors.build_index()
    shared = 0
    for node in range(0, 2000, 100):
        exact, found = vectors.most_similar(node, exact=True), dict(vectors.most_similar(node))
        assert node not in found
        assert len(found) == 10
        shared += len(found.keys() & dict(exact).keys())
        for other, cosine in exact:
            assert other not in found or found[other] == pytest.approx(cosine, abs=1e-6)
    assert shared >= 0.95 * 200
    monkeypatch.setattr("dssl.errors.find_spec", lambda _: None)
    with pytest.raises(DsslError, match=r"pip install 'dssl\[index\]'"):
        vectors.build_index()
