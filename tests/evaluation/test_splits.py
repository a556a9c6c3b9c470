"""Protocols, the file of splits, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data.catalogue import MEASURED
from dssl.data.load import load
from dssl.errors import DatasetError, ProbeError, RunError
from dssl.evaluation import splits
from dssl.evaluation.splits import Budget, Protocol, Split, check_splits, one_per_group, random_splits
from dssl.graph import Graph
from dssl.graph.duplicates import duplicate_groups

Y = np.array([0, 1, -1, 1, 0, 1, 0, 0, 1, 1, -1, 0])
GRAPH = Graph.from_edges([0], [1], num_nodes=len(Y), y=Y)


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
    first = splits.kept(path, GRAPH, protocol())
    assert same(first, random_splits(Y, count=3, seed=1))
    other = random_splits(Y, count=3, seed=9)
    splits.save(path, other, num_nodes=len(Y), origin=protocol().origin)
    assert same(splits.kept(path, GRAPH, protocol()), other)  # as stored, not made anew
    for change in ({"count": 2}, {"seed": 4}, {"shares": (0.25, 0.25, 0.5)}):
        asked = protocol(**change)
        made = splits.kept(path, GRAPH, asked)
        assert same(made, asked.splits(GRAPH))
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
        graph = load(source)
        y = graph.y
        assert y is not None
        asked = protocol(name, source=source)
        found = splits.summary(asked.splits(graph), y, asked)
        assert (tuple(found["sizes"][0]), found["count"], set(found["left_out"])) == (first, count, left_out)


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("mine.csv", "geom-gcn", "graph 'mine.csv' is not a published data set, so it has no geom-gcn splits; use"),
        ("python:json", "public", "is not a published data set"),
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
        protocol(name, source=source).splits(GRAPH)
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


LABELS = np.repeat([0, 1, 2, -1], [60, 30, 5, 5])


def test_a_number_of_labels_per_class_takes_half_of_a_small_class_at_most() -> None:
    for split in random_splits(LABELS, count=3, budget=Budget.parse("20/class")):
        assert np.bincount(LABELS[split.train]).tolist() == [20, 15, 2]
        assert split.val.size == round(0.2 * 95)
        np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.flatnonzero(LABELS >= 0))
    first, second = random_splits(LABELS, count=2, budget=Budget.parse("20/class"))
    assert not np.array_equal(first.train, second.train)


def test_a_percentage_is_the_first_fraction() -> None:
    found = random_splits(LABELS, count=2, budget=Budget.parse("10%"))
    assert same(found, random_splits(LABELS, count=2, shares=(0.1, 0.2, 0.7)))


@pytest.mark.parametrize("balanced", [False, True])
def test_validation_and_test_have_the_same_classes_after_a_number_of_labels_per_class(balanced: bool) -> None:
    labels = np.repeat([0, 1], [160, 40])
    budget = Budget.parse("20/class")
    splits = random_splits(labels, count=400, budget=budget, balanced=balanced, shares=(0.5, 0.25, 0.25))
    val, test = (np.mean([labels[part].mean() for part in parts]) for parts in list(zip(*splits, strict=True))[1:])
    assert val == pytest.approx(test, abs=0.01)


def test_balanced_splits_have_as_many_training_nodes_of_each_class_and_all_of_a_small_one() -> None:
    for split in random_splits(LABELS, count=3, balanced=True):  # 57 training nodes would be 19 a class
        assert np.bincount(LABELS[split.train]).tolist() == [19, 19, 5]
        assert split.val.size == 19
        assert 2 not in LABELS[split.test]
    (split,) = random_splits(LABELS, count=1, balanced=True, budget=Budget.parse("3/class"))
    assert np.bincount(LABELS[split.train]).tolist() == [3, 3, 3]


def duplicate_fraction(graph: Graph) -> float:
    """Fraction of nodes that share their links, and their label if there are labels, with another node."""
    groups = duplicate_groups(graph)
    keys = np.stack([groups, np.zeros_like(groups) if graph.y is None else graph.y], axis=1)
    _, at, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return float((counts[at.ravel()] > 1).mean())


def test_one_node_per_group_of_duplicates_is_in_a_part() -> None:
    draw = np.random.default_rng(0)
    hubs = 40
    target = np.repeat(np.arange(hubs), 3)  # three nodes have each hub as their only neighbour
    leaves = hubs + np.arange(len(target))
    y = draw.integers(2, size=hubs + len(target))
    ring = (np.arange(hubs), (np.arange(hubs) + 1) % hubs)
    graph = Graph.from_edges(
        np.concatenate([leaves, ring[0]]), np.concatenate([target, ring[1]]), num_nodes=len(y), y=y
    )
    groups = duplicate_groups(graph)
    neighbours = [frozenset(graph.indices[slice(*graph.indptr[i : i + 2])].tolist()) for i in range(len(y))]
    for i in range(len(y)):
        for j in range(i):
            assert (groups[i] == groups[j]) == (neighbours[i] == neighbours[j])
    keys = [(neighbours[i], y[i]) for i in range(len(y))]
    assert duplicate_fraction(graph) == pytest.approx(np.mean([keys.count(key) > 1 for key in keys]))
    kept = np.flatnonzero(one_per_group(graph, seed=0) >= 0)
    assert len({keys[i] for i in kept}) == len(kept) == len(set(keys))
    for split in protocol("one-per-group").splits(graph):
        nodes = np.concatenate(split)
        assert len({keys[i] for i in nodes}) == len(nodes) == len(kept)
    assert protocol("one-per-group").origin == ("3 random (one node per group of duplicates) splits, 60/20/20, seed 1")


def test_nodes_without_links_are_no_duplicates_and_directions_count() -> None:
    assert duplicate_fraction(Graph.from_edges([], [], num_nodes=4, y=[0, 0, 0, 0])) == 0
    sent = Graph.from_edges([0, 1, 2], [3, 3, 4], num_nodes=5, directed=True)
    assert duplicate_groups(sent).tolist() == [0, 0, 1, 2, 3]
    assert duplicate_fraction(sent) == 0.4


@pytest.mark.parametrize("text", ["20", "0/class", "20/clas", "0%", "100%", "1.5", "-1%"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ProbeError, match="neither a number per class"):
        Budget.parse(text)


def test_a_budget_changes_the_origin_and_is_not_for_published_splits() -> None:
    assert protocol(labels="1%").origin == "3 random splits, 1%, 20% validation, seed 1"
    with pytest.raises(ProbeError, match="applies to random splits"):
        protocol("public", labels="1%").splits(GRAPH)
    with pytest.raises(ProbeError, match="too few for a split into 1%"):
        protocol(labels="1%").splits(GRAPH)


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("name", ["texas", "chameleon", "reed98", "syn-cora-0.8"])
def test_the_catalogue_has_the_measured_fraction_of_duplicates(
    name: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    assert MEASURED[name].duplicates == pytest.approx(duplicate_fraction(load(name)), abs=5e-4)
