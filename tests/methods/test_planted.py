"""On links whose reason is plain from the pair of end nodes, the posteriors find the reason."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score

from dssl.data.synthetic import planted_pairs
from dssl.graph import Graph
from dssl.model.estimator import DSSL

REASONS = 4


def plain_reasons(seed: int, *, nodes: int = 800, degree: int = 8, dim: int = 16) -> tuple[Graph, np.ndarray]:
    """Reason k links nodes of kind 2k to nodes of kind 2k + 1, and the features show the kind."""
    draw = np.random.default_rng(seed)
    kind = draw.permutation(np.arange(nodes) % (2 * REASONS))
    means = draw.normal(size=(2 * REASONS, dim))
    x = draw.normal(size=(nodes, dim)) + 6 * (means / np.linalg.norm(means, axis=1, keepdims=True))[kind]
    members = [np.flatnonzero(kind == number) for number in range(2 * REASONS)]
    reasons = draw.integers(REASONS, size=nodes * degree // 2)
    ends = [[draw.choice(members[2 * k + side]) for k in reasons] for side in (0, 1)]
    graph = Graph.from_edges(*ends, num_nodes=nodes, x=x)
    return graph, (kind // 2)[graph.sources()]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_posteriors_find_plain_reasons_at_least_as_well_as_k_means_on_the_pairs(seed: int) -> None:
    graph, reason = plain_reasons(seed)
    x = np.asarray(graph.x)
    pairs = np.hstack([x[graph.sources()], x[graph.indices]])
    clusters = KMeans(REASONS, n_init=4, random_state=0).fit_predict(pairs)
    factors = DSSL(num_factors=REASONS, features="raw", seed=seed).fit(graph).factors(graph)
    found = adjusted_mutual_info_score(reason, factors.links.argmax(axis=1))
    assert found >= 0.8
    assert found >= adjusted_mutual_info_score(reason, clusters)


def found_and_k_means(seed: int, *, signal: float, directed: bool) -> tuple[float, float]:
    """Agreement with the true reason, link by link in each direction, of taught posteriors and of k-means on pairs."""
    graph, reason = planted_pairs(nodes=600, signal=signal, directed=directed, seed=seed)
    x = np.asarray(graph.x)
    clusters = KMeans(6, n_init=4, random_state=0).fit_predict(np.hstack([x[graph.sources()], x[graph.indices]]))
    model = DSSL(num_factors=6, distillation_weight=2.0, features="raw", directed=directed, seed=seed, epochs=60).fit(
        graph
    )
    labels = model.factors(graph).links.argmax(axis=1), clusters
    found, k_means = (float(adjusted_mutual_info_score(reason, label)) for label in labels)
    return found, k_means


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_taught_posteriors_tell_the_reasons_of_nodes_that_share_them(seed: int) -> None:
    """A node takes part in three reasons, so one end does not tell; a link has one reason from either end."""
    found, k_means = found_and_k_means(seed, signal=8.0, directed=False)
    assert found >= max(0.9, k_means)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("directed", [True, False])
def test_taught_posteriors_are_as_good_as_k_means_where_the_reason_is_faint(seed: int, directed: bool) -> None:
    found, k_means = found_and_k_means(seed, signal=3.0, directed=directed)
    assert found >= k_means
    assert k_means < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_taught_posteriors_tell_the_reasons_of_directed_links(seed: int) -> None:
    found, k_means = found_and_k_means(seed, signal=8.0, directed=True)
    assert found >= 0.9
    assert found >= k_means - 0.01  # both are nearly perfect
