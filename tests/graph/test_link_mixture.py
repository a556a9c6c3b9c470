"""The mixture over descriptions of links: literal formulas, planted reasons, and context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dssl import rng
from dssl.data.synthetic import planted_pairs
from dssl.graph import Graph, link_description, link_mixture
from dssl.graph.link_mixture import LinkGroups, Mixture, fit, shares_of


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(a, b))


def test_posterior_and_likelihood_are_those_of_the_formula() -> None:
    draw = np.random.default_rng(0)
    readings = draw.normal(size=(2, 4, 3)).astype(np.float32)
    weight = np.array([0.2, 0.8])
    mean, variance = draw.normal(size=(2, 3)), draw.uniform(0.5, 2, size=(2, 3))
    mixture = Mixture(*(np.asarray(a, np.float32) for a in (np.log(weight), mean, variance)))
    shares, likelihood = shares_of(mixture.joint(readings))
    total = 0.0
    for link in range(4):
        p = np.zeros((2, 2))
        for reading in range(2):
            for k in range(2):
                density = norm.pdf(readings[reading, link], mean[k], np.sqrt(variance[k])).prod()
                p[reading, k] = weight[k] * density / 2
        total += np.log(p.sum())
        np.testing.assert_allclose(shares[:, link], p / p.sum(), rtol=1e-3)
    assert likelihood == pytest.approx(total / 4, rel=1e-4)


def test_maximum_likelihood_is_a_weighted_mean_and_variance_of_both_readings() -> None:
    draw = np.random.default_rng(0)
    readings = draw.normal(size=(2, 5, 3)).astype(np.float32)
    shares = draw.random((2, 5, 2)).astype(np.float32)
    found = Mixture.from_shares(readings, shares)
    flat, weights = readings.reshape(10, 3), shares.reshape(10, 2)
    for k in range(2):
        mean = np.average(flat, axis=0, weights=weights[:, k])
        variance = np.average((flat - mean) ** 2, axis=0, weights=weights[:, k]) + link_mixture.FLOOR
        np.testing.assert_allclose(found.mean[k], mean, rtol=1e-4)
        np.testing.assert_allclose(found.variance[k], variance, rtol=1e-4)
    np.testing.assert_allclose(np.exp(found.log_weight), weights.sum(axis=0) / weights.sum(), rtol=1e-5)


def test_each_iteration_raises_the_likelihood() -> None:
    readings = np.random.default_rng(0).normal(size=(1, 300, 4)).astype(np.float32)
    readings[0, :100] += 4
    mixture, last = Mixture.from_shares(readings, np.random.default_rng(1).random((1, 300, 2)).astype(np.float32)), -9e9
    for _ in range(10):
        shares, likelihood = shares_of(mixture.joint(readings))
        assert likelihood >= last - 1e-3
        mixture, last = Mixture.from_shares(readings, shares), likelihood


@pytest.mark.parametrize("directed", [False, True])
def test_reasons_that_features_show_are_found_from_features_alone(directed: bool) -> None:
    graph, reason = planted_pairs(nodes=400, directed=directed)
    found = LinkGroups(graph, 6)
    upper = np.ones(graph.num_arcs, bool) if directed else graph.sources() < graph.indices
    assert agreement(found.posteriors.argmax(axis=1), reason[upper]) > 0.95
    assert set(found.blocks) == {"components"}
    np.testing.assert_allclose(found.posteriors.sum(axis=1), 1, atol=1e-4)


def stars(seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Hubs that point to leaves (reason 0), and a ring of triangles (reason 1); features are noise."""
    links, reason = [], []
    for hub in range(20):
        links += [(hub, 20 + 10 * hub + leaf) for leaf in range(10)]
        reason += [0] * 10
    for first in range(220, 400, 3):
        links += [(first, first + 1), (first + 1, first + 2), (first + 2, first)]
        reason += [1] * 3
    x = np.random.default_rng(seed).normal(size=(402, 30))
    graph = Graph.from_edges(*np.array(links).T, num_nodes=402, x=x, directed=True)
    order = np.lexsort(np.array(links).T[::-1])
    return graph, np.array(reason)[order]


def test_reasons_that_roles_show_are_found_where_features_are_noise() -> None:
    graph, reason = stars()
    found = LinkGroups(graph, 2)
    assert set(found.blocks) == {"pair", "roles", "overlap", "components"}
    assert agreement(found.posteriors.argmax(axis=1), reason) == pytest.approx(1)


def test_context_is_the_sum_up_to_one_over_the_other_links_of_both_ends() -> None:
    graph, _ = stars()
    for one in (graph, graph.undirected()):
        found = LinkGroups(one, 3, rounds=0)
        start, end = found.links.ends(np.arange(len(found.links)))
        count, readings = len(end), 1 if one.directed else 2
        shares = found._shares.reshape(count, readings, 3)
        numbers = np.array([0, 7, count - 1])
        contexts = found._context(numbers)
        for row, link in enumerate(numbers):
            for reading in range(readings):
                ends = (start[link], end[link]) if reading == 0 else (end[link], start[link])
                wanted = []
                for node in ends:
                    sums = np.zeros((2, 3))  # as first and as second end
                    for other in range(count):
                        if other == link:
                            continue
                        for way in range(readings):
                            pair = (start[other], end[other]) if way == 0 else (end[other], start[other])
                            for side in range(2):
                                sums[side] += shares[other, way] * (pair[side] == node)
                    wanted += list(np.minimum(sums, 1).reshape(-1))
                np.testing.assert_allclose(contexts[reading][row], wanted, atol=1e-3)


def test_numbers_find_links_from_either_end() -> None:
    graph = Graph.from_edges([0, 1, 2], [1, 2, 1], directed=True)
    assert LinkGroups(graph, 2).links.numbers(np.array([0, 1, 1, 2, 0]), np.array([1, 0, 2, 1, 2])).tolist() == [
        0,
        0,
        1,
        2,
        -1,
    ]
    both = LinkGroups(graph.undirected(), 2).links.numbers(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]))
    assert both.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("links", [0, 1, 2])
def test_fewer_links_than_groups(links: int) -> None:
    graph = Graph.from_edges(range(links), range(1, links + 1), num_nodes=4, x=np.eye(4))
    found = LinkGroups(graph, 5).posteriors
    assert found.shape == (links, 5) and np.isfinite(found).all()


def test_same_seed_same_bytes_also_by_blocks_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = stars()
    whole = LinkGroups(graph, 3, seed=1).posteriors
    assert whole.tobytes() == LinkGroups(graph, 3, seed=1).posteriors.tobytes()
    monkeypatch.setattr(link_description, "BLOCK", 50)
    np.testing.assert_allclose(LinkGroups(graph, 3, seed=1).posteriors, whole, atol=1e-3)
    monkeypatch.setattr(link_mixture, "SAMPLE", 200)
    assert agreement(LinkGroups(graph, 3, seed=1).posteriors.argmax(axis=1), whole.argmax(axis=1)) > 0.5


def test_the_best_start_wins() -> None:
    readings = np.random.default_rng(0).normal(size=(1, 200, 2)).astype(np.float32)
    readings[0] += np.repeat(10 * np.eye(2, dtype=np.float32), 100, axis=0)
    mixture, _ = fit(readings, 2, seed=0)
    assert sorted(mixture.mean[:, 0].round(-1).tolist()) == [0, 10]


def test_the_start_with_the_largest_likelihood_is_taken() -> None:
    readings = np.random.default_rng(3).uniform(size=(1, 300, 3)).astype(np.float32)
    starts = (rng.stream(5, "link mixture", n) for n in range(link_mixture.STARTS))
    found = [link_mixture._maximise(readings, link_mixture._start(readings, 6, draw))[1] for draw in starts]
    assert max(found) > min(found)
    assert fit(readings, 6, seed=5)[1] == max(found)


def test_each_round_of_context_fits_again_from_the_posteriors_before(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = stars()
    started = []

    def counted(*args: Any, shares: Any = None, **options: Any) -> Any:
        started.append(shares is not None)
        return fit(*args, shares=shares, **options)

    monkeypatch.setattr(link_mixture, "fit", counted)
    LinkGroups(graph.undirected(), 2, rounds=3)
    assert started == [False, True, True, True]
