"""One grouping of links from several: the cost as a literal loop, what is joined, and how sure the result is."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.graph import link_consensus, link_mixture
from dssl.graph.link_consensus import central, consensus, costs, joined, voted
from dssl.graph.link_mixture import LinkGroups
from tests.graph.test_link_mixture import agreement, stars


def surroundings(link: int, start: list[int], end: list[int], label: list[int], count: int) -> np.ndarray:
    """Shares of the groups of the other links in the four places around a link; the last column is *none*."""
    out = np.zeros((4, count + 1))
    for place, (node, side) in enumerate(
        [(start[link], start), (start[link], end), (end[link], start), (end[link], end)]
    ):
        groups = {label[other] for other in range(len(label)) if other != link and side[other] == node}
        for group in groups or {count}:
            out[place, group] = 1 / max(len(groups), 1)
    return out


def entropy(p: np.ndarray) -> float:
    return float(-sum(value * np.log(value) for value in p.reshape(-1) if value > 0))


@pytest.mark.parametrize("power", [0.0, 0.25, 1.0])
def test_costs_are_those_of_the_formula(power: float) -> None:
    draw = np.random.default_rng(0)
    start, end = [0, 0, 1, 2, 3, 3, 4, 1], [1, 2, 3, 3, 4, 0, 0, 4]
    label = draw.permutation([0, 0, 0, 1, 1, 2, 2, 2]).tolist()
    profiles = link_consensus._profiles(np.array(start), np.array(end), np.array(label), np.arange(8), 5)
    found = costs(*profiles, power)
    each = [surroundings(link, start, end, label, 3) for link in range(8)]
    mean = [np.mean([each[link] for link in range(8) if label[link] == group], axis=0) for group in range(3)]
    for a in range(3):
        for b in range(3):
            n_a, n_b = label.count(a), label.count(b)
            apart = entropy((mean[a] + mean[b]) / 2) - (entropy(mean[a]) + entropy(mean[b])) / 2
            wanted = np.inf if a == b else (n_a * n_b / (n_a + n_b)) ** power * apart
            assert found[a, b] == pytest.approx(wanted, abs=1e-9)


def test_surroundings_of_a_sample_count_all_links() -> None:
    start, end, label = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 0]), np.array([0, 1, 1, 0])
    profiles, number = link_consensus._profiles(start, end, label, np.array([0, 2]), 3)
    for group, link in enumerate((0, 2)):
        np.testing.assert_allclose(profiles[group], surroundings(link, start.tolist(), end.tolist(), label.tolist(), 2))
    assert number.tolist() == [2, 2]


def test_the_central_candidate_agrees_best_with_the_others() -> None:
    first = np.repeat([0, 1, 2], 20)
    near, far = first.copy(), np.tile([0, 1, 2], 20)
    near[:4] = 1
    assert central([far, near, first, first]) == 2


def test_votes_are_those_of_a_literal_loop() -> None:
    draw = np.random.default_rng(0)
    candidates, label = [draw.integers(3, size=30) for _ in range(4)], draw.integers(2, size=30)
    found = voted(candidates, label, 2)
    for link in range(30):
        shares = [np.mean(label[each == each[link]] == 1) for each in candidates]
        assert found[link, 1] == pytest.approx(np.mean(shares), abs=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_groups_in_the_same_surroundings_are_joined() -> None:
    graph, reason = stars()
    start, end = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
    fine = np.where(reason == 0, start % 2, 2 + start % 2)  # two halves of the stars, and of the triangles
    found = joined(fine, start, end, np.arange(start.size), nodes=graph.num_nodes, size=2, power=0.25)
    assert agreement(found, reason) == pytest.approx(1)


def test_a_link_on_which_members_disagree_is_less_certain() -> None:
    graph, reason = stars()
    start, end = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
    plain = np.eye(2, dtype=np.float32)[reason]
    other = plain.copy()
    other[:40] = other[:40, ::-1]
    found = consensus([plain, plain, other], start, end, nodes=graph.num_nodes, size=2, seed=0)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    sure = found.max(axis=1)
    assert sure[:40].max() < sure[40:].min()
    same = consensus([plain] * 3, start, end, nodes=graph.num_nodes, size=2, seed=0)
    assert agreement(same.argmax(axis=1), reason) == pytest.approx(1) and same.max(axis=1).min() > 0.99


def test_large_and_undirected_graphs_have_one_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = stars()
    calls: list[int] = []
    plain = link_mixture.consensus

    def counted(members: list[np.ndarray], *rest: np.ndarray, **named: object) -> np.ndarray:
        calls.append(len(members))
        return plain(members, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(link_mixture, "consensus", counted)
    LinkGroups(graph, 3)
    LinkGroups(graph.undirected(), 3)
    monkeypatch.setattr(link_mixture, "SEVERAL", 100)
    LinkGroups(graph, 3)
    assert calls == [link_mixture.MEMBERS]
