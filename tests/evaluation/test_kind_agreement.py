"""Agreement of factors with kinds against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.errors import GraphError
from dssl.evaluation.kind_agreement import kind_agreement, known_links, scores
from dssl.graph import Graph

SOURCE, TARGET = [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]


def ring(kinds: list[str], **rest: object) -> Graph:
    return Graph.from_edges(SOURCE, TARGET, kinds=kinds, directed=True, **rest)  # type: ignore[arg-type]


def posteriors(factors: list[int]) -> np.ndarray:
    return np.eye(3, dtype=np.float32)[factors]


def test_table_purity_and_chance_by_hand() -> None:
    graph = ring(["a", "a", "a", "b", "b", ""], x=np.eye(6), y=[0, 1, 0, 1, 0, 1])
    found = kind_agreement(graph, graph.sources(), graph.indices, posteriors([0, 0, 1, 1, 2, 2]))
    assert found["links"] == 5 and found["names"] == ["a", "b"]
    assert found["table"] == [[2, 0], [1, 1], [0, 1]]
    assert found["rows"]["factors"]["purity"] == pytest.approx(4 / 5)
    assert found["rows"]["chance"] == {"ami": 0.0, "purity": pytest.approx(3 / 5)}
    assert set(found["rows"]) == {"factors", "k-means on pairs", "classes of the ends", "chance"}


def test_only_links_in_the_given_direction_count() -> None:
    graph = ring(["a", "a", "a", "b", "b", "b"])
    both = graph.undirected()
    known, kinds = known_links(graph, both.sources(), both.indices)
    links = {(int(i), int(j)) for i, j in zip(both.sources()[known], both.indices[known], strict=True)}
    assert links == set(zip(SOURCE, TARGET, strict=True))
    assert sorted(kinds.tolist()) == [0, 0, 0, 1, 1, 1]
    once, _ = known_links(both, both.sources(), both.indices)
    assert once.sum() == 6


def test_perfect_and_independent_groups() -> None:
    kinds = np.array([0, 0, 1, 1] * 50, np.int32)
    assert scores(1 - kinds, kinds) == {"ami": pytest.approx(1), "purity": 1.0}
    assert scores(np.arange(200) % 2, kinds)["ami"] == pytest.approx(0, abs=0.02)


def test_one_kind_is_skipped_and_none_is_refused() -> None:
    graph = ring(["a"] * 6)
    assert "1 kind" in kind_agreement(graph, graph.sources(), graph.indices, posteriors([0] * 6))["skipped"]
    bare = Graph.from_edges(SOURCE, TARGET)
    with pytest.raises(GraphError, match="has no kinds of links; read them with kind_column"):
        kind_agreement(bare, bare.sources(), bare.indices, posteriors([0] * 12))


def test_more_kinds_than_factors_are_compared_and_stay_below_one() -> None:
    graph = ring(["a", "b", "c", "a", "b", "c"])
    found = kind_agreement(graph, graph.sources(), graph.indices, posteriors([0, 0, 1, 0, 0, 1])[:, :2])
    assert len(found["table"]) < len(found["names"]) == 3
    assert found["rows"]["factors"]["ami"] < 1 and found["rows"]["factors"]["purity"] < 1
