"""Protocols, the file of splits, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data.load import load
from dssl.errors import DatasetError, ProbeError, RunError
from dssl.evaluation import splits
from dssl.evaluation.splits import Protocol, Split, check_splits, random_splits

Y = np.array([0, 1, -1, 1, 0, 1, 0, 0, 1, 1, -1, 0])


def protocol(name: str = "random", **changes: object) -> Protocol:
    given = {"name": name, "source": "mine.csv", "count": 3, "shares": (0.6, 0.2, 0.2), "seed": 1, **changes}
    return Protocol(**given)  # type: ignore[arg-type]


def same(a: list[Split], b: list[Split]) -> bool:
    pairs = zip(a, b, strict=True)
    return all(np.array_equal(x, y) for one, other in pairs for x, y in zip(one, other, strict=True))


def test_a_file_gives_the_splits_back_and_holds_no_pickle(tmp_path: Path) -> None:
    made = random_splits(Y, count=4, seed=2)
    splits.save(tmp_path / "s.npz", made, num_nodes=len(Y), origin="four")
    found, origin = splits.load(tmp_path / "s.npz", Y)
    assert same(found, made)
    assert origin == "four"
    assert [path.name for path in tmp_path.iterdir()] == ["s.npz"]
    with np.load(tmp_path / "s.npz", allow_pickle=False) as content:
        assert content["parts"].shape == (4, 12)
        assert (content["parts"][:, Y < 0] == -1).all()


def test_stored_splits_are_taken_while_the_protocol_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    first = splits.kept(path, Y, protocol())
    assert same(first, random_splits(Y, count=3, seed=1))
    other = random_splits(Y, count=3, seed=9)
    splits.save(path, other, num_nodes=len(Y), origin=protocol().origin)
    assert same(splits.kept(path, Y, protocol()), other)  # as stored, not made anew
    for change in ({"count": 2}, {"seed": 4}, {"shares": (0.25, 0.25, 0.5)}):
        asked = protocol(**change)
        made = splits.kept(path, Y, asked)
        assert same(made, asked.splits(Y))
        assert splits.load(path, Y)[1] == asked.origin
        assert asked.origin != protocol().origin
    assert [part.size for part in made[0]] == [2, 2, 6]


def test_summary_counts_what_is_left_out() -> None:
    made = [Split(np.array([0, 1]), np.array([3]), np.array([4, 5, 6]))]
    assert splits.summary(made, Y, protocol("public")) == {
        "protocol": "public",
        "origin": "public splits as published",
        "count": 1,
        "labelled": 10,
        "sizes": [[2, 1, 3]],
        "left_out": [4],
    }


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (([0, 1], [1], [3]), "has a node twice"),
        (([0, 0], [1], [3]), "has a node twice"),
        (([0, 1], [], [3]), "has an empty part"),
        (([0, 1], [2], [3]), "without a label"),
        (([0, 1], [12], [3]), "graph of 12 nodes does not have"),
        (([-1, 1], [4], [3]), "graph of 12 nodes does not have"),
    ],
)
def test_splits_that_cannot_be_are_refused(split: tuple[list[int], ...], words: str) -> None:
    with pytest.raises(ProbeError, match=f"split 0 .*{words}"):
        check_splits([Split(*(np.array(part, dtype=np.int64) for part in split))], Y)


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    cases = {"no splits of nodes": b"x", "damaged": b""}
    for words, content in cases.items():
        path.write_bytes(content)
        with pytest.raises(RunError, match=words):
            splits.load(path, Y)
    np.savez(path, parts=np.array([{}], dtype=object), origin=np.array("x"))
    with pytest.raises(RunError, match="damaged"):
        splits.load(path, Y)
    splits.save(path, random_splits(Y), num_nodes=len(Y), origin="x")
    with pytest.raises(RunError, match="does not hold splits of 11 nodes"):
        splits.load(path, Y[:-1])
    with pytest.raises(RunError, match=r"without a label.*; delete the file"):
        splits.load(path, np.full(12, -1))


def test_published_splits_cover_what_they_cover(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    sizes = {
        ("texas", "geom-gcn"): ((87, 59, 37), 10, {0}),
        ("citeseer", "geom-gcn"): ((1596, 1065, 666), 10, {0, 1207}),
        ("cora", "public"): ((140, 500, 1000), 1, {1068}),
        ("twitch-de", "linkx"): ((4749, 2374, 2375), 5, {0}),
        ("minesweeper", "heterophilous"): ((5000, 2500, 2500), 10, {0}),
    }
    for (source, name), (first, count, left_out) in sizes.items():
        y = load(source).y
        assert y is not None
        asked = protocol(name, source=source)
        found = splits.summary(asked.splits(y), y, asked)
        assert (tuple(found["sizes"][0]), found["count"], set(found["left_out"])) == (first, count, left_out)


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("mine.csv", "geom-gcn", "graph 'mine.csv' is no published data set, so it has no geom-gcn splits; use"),
        ("python:json", "public", "is no published data set"),
        (
            "cora",
            "linkx",
            "no linkx splits of 'cora' are on this machine; use the protocol geom-gcn or public or random",
        ),
        ("reed98", "linkx", "no linkx splits of 'reed98' are on this machine; use the protocol random"),
    ],
)
def test_where_there_are_no_files_the_error_says_which_there_are(
    source: str, name: str, words: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    with pytest.raises(DatasetError, match=words) as caught:
        protocol(name, source=source).splits(Y)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60), st.integers(0, 5), st.integers(1, 4))
def test_splits_are_disjoint_cover_the_labelled_nodes_and_follow_the_seed(labels, seed, count):
    labelled = np.flatnonzero(np.array(labels) >= 0)
    if labelled.size < 4:
        return
    splits = random_splits(labels, count=count, seed=seed)
    assert len(splits) == count
    for split, again in zip(splits, random_splits(labels, count=count, seed=seed), strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate(split)), labelled)  # also: no node twice
        assert split.train.size == round(0.6 * labelled.size)
        assert split.val.size == round(0.2 * labelled.size)
        assert all(np.array_equal(a, b) for a, b in zip(split, again, strict=True))


def test_splits_differ_by_number_and_seed_and_more_splits_keep_the_first():
    y = np.zeros(100, int)
    first, second = random_splits(y, count=2)
    assert not np.array_equal(first.train, second.train)
    assert not np.array_equal(first.train, random_splits(y, seed=1)[0].train)
    np.testing.assert_array_equal(first.train, random_splits(y, count=7)[0].train)
