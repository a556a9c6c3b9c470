"""The number of groups of links: the rule, planted reasons, and graphs that are too small."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from dssl.data.synthetic import planted_pairs
from dssl.graph import Graph, link_count
from dssl.graph.link_count import chosen, count_groups, held_out_likelihoods
from dssl.graph.link_mixture import Mixture
from tests.methods.test_planted import plain_reasons


@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_planted_reasons_is_found_within_one(seed: int) -> None:
    plain, reason = plain_reasons(seed)
    assert abs(count_groups(plain, seed=seed) - len(np.unique(reason))) <= 1
    shared, reason = planted_pairs(seed=seed)
    assert abs(count_groups(shared, seed=seed) - len(np.unique(reason))) <= 1


def test_the_knee_is_farthest_above_the_line_from_the_first_to_the_highest_point() -> None:
    assert chosen([1.0, 5.0, 4.0, 3.0]) == 2
    assert chosen([0.0, 4.0, 8.0, 9.6, 10.0]) == 3
    assert chosen([0.0, 4.0, 8.0, 11.5, 12.0]) == 4
    assert chosen([2.0, 1.0]) == 1
    assert chosen([2.0]) == chosen([]) == 1


def test_links_of_held_out_nodes_are_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitted and judged links together are all links."""
    graph, _ = planted_pairs(nodes=200)
    seen: list[np.ndarray] = []
    judged: list[np.ndarray] = []
    plain_fit = link_count.fit

    def fit(readings: np.ndarray, size: int, *, seed: int) -> tuple[Mixture, float]:
        seen.append(readings)
        return plain_fit(readings, size, seed=seed)

    def total(joint: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
        judged.append(joint)
        return np.asarray(logsumexp(joint, axis=axis))

    monkeypatch.setattr(link_count, "fit", fit)
    monkeypatch.setattr(link_count, "logsumexp", total)
    monkeypatch.setattr(link_count, "MOST", 2)
    assert len(held_out_likelihoods(graph)) == 2
    assert seen[0].shape[1] + judged[0].shape[1] == graph.num_arcs // 2
    assert 0.1 < judged[0].shape[1] / (graph.num_arcs // 2) < 0.5


@pytest.mark.parametrize("links", [0, 1, 2])
def test_tiny_graphs_have_at_least_one_group(links: int) -> None:
    graph = Graph.from_edges(range(links), range(1, links + 1), num_nodes=4, x=np.eye(4))
    assert 1 <= count_groups(graph) <= max(links, 1)
