from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse, stats

from dssl.data.synthetic import (
    arrivals,
    compatibility,
    from_spec,
    gaussian_features,
    parse_spec,
    planted_factors,
    planted_pairs,
    synthetic,
)
from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.kernels.preferential_attachment import attach_preferentially

SYN_CORA = {"nodes": 1490, "classes": 5, "degree": 4, "first": 10, "features": 0}
LEVELS = [0.0, 0.1, 0.25, 0.5, 0.75, 0.99, 1.0]


def edge_homophily(graph: Graph) -> float:
    assert graph.y is not None
    return float((graph.y[graph.sources()] == graph.y[graph.indices]).mean())


def mixing(graph: Graph) -> NDArray[np.float64]:
    """Share of the neighbours of class i that are of class j."""
    assert graph.y is not None
    counts = np.zeros((graph.num_classes, graph.num_classes))
    np.add.at(counts, (graph.y[graph.sources()], graph.y[graph.indices]), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def literal(
    classes: NDArray[np.int64], H: NDArray[np.float64], first: int, links: int, chain: bool, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """The rule, word for word: weights of all nodes, and NumPy's draw without replacement."""
    degree = np.zeros(len(classes))
    edges = []
    for v in range(2, len(classes)):
        weights = np.maximum(degree[:v], 1) * H[classes[v], classes[:v]]
        if v < first and chain:
            chosen = [v - 1]
        elif weights.sum() == 0:
            chosen = []
        else:
            chosen = rng.choice(v, 1 if v < first else links, replace=False, p=weights / weights.sum()).tolist()
        for u in chosen:
            edges.append((v, u))
            degree[u] += 1
        degree[v] += len(chosen)
    return edges


@pytest.mark.parametrize("h", LEVELS)
def test_homophily_and_edges_of_syn_products(h: float) -> None:
    graph = synthetic(h=h)
    assert edge_homophily(graph) == pytest.approx(h, abs=0.012)
    assert (edge_homophily(graph) in (0.0, 1.0)) == (h in (0.0, 1.0))
    assert graph.num_edges == (59_640 if h == 1 else 59_648)
    assert graph.history == ()  # neither loops nor repeated links were made
    assert np.bincount(graph.y).tolist() == [1000] * 10
    assert graph.x.shape == (10_000, 100)


def test_edges_of_syn_cora() -> None:
    counts = [synthetic(h=h, **SYN_CORA).num_edges for h in (0.0, 0.2, 0.5, 0.8)]
    assert counts == [2968] * 4
    for seed in range(8):
        same = np.unique(arrivals(1490, 5, 2, seed)[:2]).size == 1
        assert synthetic(h=1, seed=seed, **SYN_CORA).num_edges == 2965 - same


def test_compatibility_of_syn_cora_at_h_0() -> None:
    H = compatibility(0.0, 5)
    assert H[0].tolist() == pytest.approx([0, 1 / 3, 1 / 6, 1 / 6, 1 / 3])
    measured = np.mean([mixing(synthetic(h=0, seed=seed, **SYN_CORA)) for seed in range(20)], axis=0)
    near, far = np.isclose(H, 1 / 3), np.isclose(H, 1 / 6)
    assert measured[near].mean() == pytest.approx(0.331, abs=0.01)
    assert measured[far].mean() == pytest.approx(0.169, abs=0.01)


@pytest.mark.parametrize("classes", [2, 3, 4, 7, 10])
@pytest.mark.parametrize("h", [0.0, 0.3, 1.0])
def test_compatibility_is_a_circulant_distribution(classes: int, h: float) -> None:
    H = compatibility(h, classes)
    assert np.allclose(H.sum(axis=1), 1)
    assert np.allclose(H, H.T)
    assert np.allclose(H, np.roll(H, (1, 1), (0, 1)))
    assert np.allclose(np.diag(H), h)
    assert np.allclose(compatibility(h, classes, base=1.0)[0, 1:], (1 - h) / (classes - 1))


@pytest.mark.parametrize("h", [0.0, 0.3, 1.0])
def test_draws_have_the_distribution_of_the_literal_rule(h: float) -> None:
    classes = np.array([0, 1, 2, 1, 0, 2, 0, 1, 2, 0])
    H = compatibility(h, 3)
    runs = 6000
    last: list[list[tuple[int, ...]]] = [[], []]
    seen = np.zeros((2, 10, 10))
    ours, theirs = np.random.default_rng(1), np.random.default_rng(2)
    for _ in range(runs):
        source, target = attach_preferentially(classes, H, 6, 2, 0 < h < 1, ours)
        both = (list(zip(source.tolist(), target.tolist(), strict=True)), literal(classes, H, 6, 2, 0 < h < 1, theirs))
        for which, edges in enumerate(both):
            for v, u in edges:
                seen[which, v, u] += 1 / runs
            last[which].append(tuple(u for v, u in edges if v == 9))  # ordered: the first draw is not the second
    spread = np.sqrt(2 * seen[1] * (1 - seen[1]) / runs)
    assert (np.abs(seen[0] - seen[1]) <= 4.5 * spread + 1e-9).all()
    # The pair that the last node drew, after the degrees have grown apart.
    pairs = sorted(set(last[0]) | set(last[1]))
    table = np.array([[draws.count(pair) for pair in pairs] for draws in last])
    table = table[:, table.sum(axis=0) >= 20]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_new_nodes_draw_different_nodes_by_degree() -> None:
    star = np.zeros(400, np.int64)
    source, target = attach_preferentially(star, np.ones((1, 1)), 3, 3, False, np.random.default_rng(0))
    assert np.unique(source * 400 + target).size == source.size
    assert (target < source).all()
    assert np.bincount(source, minlength=400)[3:].tolist() == [3] * 397


def test_degrees_have_a_heavy_tail() -> None:
    graph = synthetic(h=0.5, nodes=30_000, features=0)
    degrees = graph.degrees
    # Growth by degree gives P(degree ≥ k) ~ k^−2: slope −2 on log-log axes, and hubs far above the mean of 12.
    grid = np.array([12, 24, 48, 96])
    slope = np.polyfit(np.log(grid), np.log([(degrees >= k).mean() for k in grid]), 1)[0]
    assert -2.4 < slope < -1.6
    assert degrees.max() > 200
    assert degrees[200:].min() == 6


@pytest.mark.parametrize("h", ["0.00", "0.20", "0.50", "0.80", "1.00"])
def test_like_the_released_syn_cora(h: str, data_dir: Path) -> None:
    with np.load(data_dir / "syn_cora" / f"h{h}-r1.npz", allow_pickle=False) as file:
        parts = (file["adj_data"], file["adj_indices"], file["adj_indptr"])
        links = sparse.coo_array(sparse.csr_array(parts, shape=tuple(file["adj_shape"])))
        released = Graph.from_edges(links.row, links.col, y=file["labels"])
    made = [synthetic(h=float(h), seed=seed, **SYN_CORA) for seed in range(10)]
    assert {graph.num_nodes for graph in made} == {released.num_nodes}
    assert abs(made[0].num_edges - released.num_edges) <= 1
    assert np.bincount(made[0].y).tolist() == np.bincount(released.y).tolist()
    measured = [edge_homophily(graph) for graph in made]
    assert edge_homophily(released) == pytest.approx(np.mean(measured), abs=0.03)
    # Released and made: the same share of small and of large degrees, and hubs of the same order.
    for k in (3, 5, 10, 20):
        shares = [(graph.degrees >= k).mean() for graph in made]
        assert (released.degrees >= k).mean() == pytest.approx(np.mean(shares), abs=0.03), k
    tops = [graph.degrees.max() for graph in made]
    assert min(tops) / 2 < released.degrees.max() < 2 * max(tops)
    assert np.abs(mixing(released) - np.mean([mixing(graph) for graph in made], axis=0)).max() < 0.06


def test_same_seed_same_graph() -> None:
    small = {"nodes": 500, "classes": 4, "degree": 6, "features": 8}
    assert synthetic(seed=3, **small).fingerprint() == synthetic(seed=3, **small).fingerprint()
    assert synthetic(seed=3, **small).fingerprint() != synthetic(seed=4, **small).fingerprint()


def test_features_do_not_move_the_links() -> None:
    one, other = synthetic(nodes=500, features=0), synthetic(nodes=500, features=20, signal=0)
    assert np.array_equal(one.indices, other.indices)


@pytest.mark.parametrize("signal", [0.0, 1.0, 5.0])
def test_class_means_are_as_far_apart_as_asked(signal: float) -> None:
    y = np.repeat(np.arange(6), 20_000)
    x = gaussian_features(y, 8, signal, seed=0)
    means = np.stack([x[y == c].mean(axis=0) for c in range(6)])
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)[~np.eye(6, dtype=bool)]
    assert np.allclose(apart, signal, atol=0.06)
    assert np.allclose((x - means[y]).std(axis=0), 1, atol=0.02)


def donor(*, with_labels: bool = True) -> Graph:
    """Three classes of 40, 10 and 30 nodes and one unlabelled node; column 0 is the node, column 1 its class."""
    y = np.repeat([0, 1, 2, -1], [40, 10, 30, 1])
    x = sparse.csr_array(np.stack([np.arange(81.0), y], axis=1))
    return Graph.from_edges([], [], x=x, y=y if with_labels else None, feature_names=["node", "class"], name="donor")


def test_borrowed_rows_are_different_nodes_of_the_matched_class() -> None:
    graph = synthetic(nodes=60, classes=2, degree=4, features=donor())
    rows = graph.x.toarray()
    assert np.unique(rows[:, 0]).size == 60
    for c in range(2):  # the two largest of the donor's classes, 0 and 2
        assert set(rows[graph.y == c, 1]) == {[0.0, 2.0][c]}
    assert graph.feature_names == ("node", "class")


def test_spec_is_the_call_and_the_name_is_the_spec() -> None:
    text = "synthetic:h=0.4,nodes=300,classes=3,degree=4,seed=7"
    graph = from_spec(text + ",features=6,signal=1.5")
    assert (
        graph.fingerprint()
        == synthetic(h=0.4, nodes=300, classes=3, degree=4, seed=7, features=6, signal=1.5).fingerprint()
    )
    assert graph.name == text + ",features=6,signal=1.5"
    assert from_spec(graph.name).fingerprint() == graph.fingerprint()
    assert parse_spec("synthetic:") == parse_spec("synthetic") == {}
    asked = []

    def load(name: str) -> Graph:
        asked.append(name)
        return donor()

    borrowed = from_spec("synthetic:nodes=60,classes=2,degree=4,features=donor", load=load)
    assert asked == ["donor"]
    assert borrowed.name.endswith("features=donor")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("synthetic:node=5", ["'node'", "'nodes'"]),
        ("synthetic:zzz=5", ["'zzz'", "h, nodes, classes"]),
        ("synthetic:h", ["h has no value"]),
        ("synthetic:h=", ["h has no value"]),
        ("synthetic:h=0.1,h=0.2", ["h is given twice"]),
        ("synthetic:h=high", ["h must be a number", "'high'"]),
        ("synthetic:nodes=1.5", ["nodes must be a whole number", "'1.5'"]),
        ("synthetic:features=1.5", ["features must be a whole number", "'1.5'"]),
        ("synthetic:h=1.2", ["h must be between 0 and 1", "1.2"]),
        ("synthetic:h=nan", ["h must be between 0 and 1", "nan"]),
        ("synthetic:classes=1", ["classes must be at least 2", "1"]),
        ("synthetic:degree=5", ["degree must be an even number", "5"]),
        ("synthetic:degree=0", ["degree must be an even number", "0"]),
        ("synthetic:nodes=59", ["nodes must be at least", "60", "59"]),
        ("synthetic:nodes=3000000000", ["nodes must be", "3000000000"]),
        ("synthetic:first=10", ["first must be from", "60", "10"]),
        ("synthetic:nodes=80,first=81", ["first must be from", "81"]),
        ("synthetic:seed=-1", ["seed must be 0 or more", "-1"]),
        ("synthetic:base=0.5", ["base must be between 1 and 100", "0.5"]),
        ("synthetic:features=5", ["features must be 0 or at least classes = 10", "5"]),
        ("synthetic:features=-1", ["features must be 0 or at least", "-1"]),
        ("synthetic:signal=-1", ["signal must be finite", "-1"]),
        ("synthetic:signal=inf", ["signal must be finite", "inf"]),
        ("synthetic:features=0,signal=1", ["signal must be left out", "1"]),
        ("synthetic:features=cora", ["features=cora", "dssl.load"]),
    ],
)
def test_bad_specs_are_one_clear_line(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_spec(text)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"nodes": 60, "classes": 4, "degree": 2}, ["classes must be at most 3", "got 4"]),
        ({"nodes": 80, "classes": 2, "degree": 2}, ["40 nodes", "donor has 30", "at most 60"]),
        ({"nodes": 60, "classes": 2, "degree": 2, "signal": 1.0}, ["signal must be left out"]),
    ],
)
def test_donor_that_does_not_suffice(keys: dict[str, int], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        synthetic(features=donor(), **keys)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_donor_without_labels() -> None:
    with pytest.raises(ConfigError, match="donor has no features or no labels"):
        synthetic(nodes=60, classes=2, degree=2, features=donor(with_labels=False))


def test_smallest_graph() -> None:
    graph = synthetic(h=0.5, nodes=2, classes=2, degree=2, features=0)
    assert (graph.num_nodes, graph.num_edges) == (2, 0)


@pytest.mark.slow
def test_a_million_nodes() -> None:
    graph = synthetic(nodes=1_000_000, features=0)
    assert graph.num_edges == (1_000_000 - 70) * 6 + 68
    assert edge_homophily(graph) == pytest.approx(0.25, abs=0.002)


def neighbour_mean(graph: Graph, arcs: NDArray[np.bool_]) -> NDArray[np.float64]:
    total = np.zeros(graph.x.shape)
    np.add.at(total, graph.sources()[arcs], graph.x[graph.indices[arcs]])
    count = np.bincount(graph.sources()[arcs], minlength=graph.num_nodes)
    return total / np.maximum(count, 1)[:, None]


def test_planted_reasons_follow_the_rule_and_are_used_evenly() -> None:
    graph, reason = planted_factors(factors=3, nodes=600)
    assert reason.shape == graph.indices.shape
    assert ((graph.y[graph.sources()] + graph.y[graph.indices]) % 3 == reason).all()
    assert np.allclose(np.bincount(reason) / reason.size, 1 / 3, atol=0.05)
    other, reason_again = planted_factors(factors=3, nodes=600)
    assert other.fingerprint() == graph.fingerprint()
    assert np.array_equal(reason, reason_again)
    # Opposite arcs of a link have one reason.
    matrix = sparse.csr_array((reason + 1, graph.indices, graph.indptr), shape=(600, 600))
    assert (matrix != matrix.T).nnz == 0


def test_planted_classes_are_read_reason_by_reason() -> None:
    from sklearn.linear_model import LogisticRegression

    graph, reason = planted_factors(factors=4, nodes=2000)
    own = graph.x
    plain = np.hstack([own, neighbour_mean(graph, np.ones(reason.size, bool))])
    by_reason = np.hstack([own, *(neighbour_mean(graph, reason == k) for k in range(4))])

    def accuracy(z: NDArray[np.float64]) -> float:
        fitted = LogisticRegression(max_iter=1000).fit(z[:1000], graph.y[:1000])
        return float(fitted.score(z[1000:], graph.y[1000:]))

    alone, mean, known = accuracy(own), accuracy(plain), accuracy(by_reason)
    assert alone > 0.4  # four classes
    assert mean < alone + 0.05
    assert known > mean + 0.15


def test_planted_reason_is_visible_in_the_pair() -> None:
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    graph, reason = planted_factors(factors=2, nodes=800, dim=8)
    pairs = np.hstack([graph.x[graph.sources()], graph.x[graph.indices]])
    found = KMeans(4, n_init=4, random_state=0).fit_predict(pairs)  # one cluster for each pair of kinds
    majority = np.array([np.bincount(reason[found == c], minlength=2).argmax() for c in range(4)])
    assert normalized_mutual_info_score(majority[found], reason) > 0.9


@pytest.mark.parametrize("keys", [{"factors": 1}, {"dim": 7}, {"nodes": 15}, {"degree": -2}, {"seed": -1}])
def test_planted_bounds(keys: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="planted factors"):
        planted_factors(**keys)


@pytest.mark.parametrize("directed", [True, False])
def test_planted_pairs_have_a_reason_for_each_pair_of_kinds(directed: bool) -> None:
    graph, reason = planted_pairs(kinds=3, nodes=600, directed=directed)
    low, high = (pick(graph.y[graph.sources()], graph.y[graph.indices]) for pick in (np.minimum, np.maximum))
    assert np.unique(np.stack([low, high, reason]), axis=1).shape[1] == 6  # one to one
    links = np.bincount(reason[graph.sources() < graph.indices]) if not directed else np.bincount(reason)
    assert np.allclose(links / links.sum(), 1 / 6, atol=0.03)
    if directed:
        assert (graph.y[graph.sources()] <= graph.y[graph.indices]).all()
    again, same = planted_pairs(kinds=3, nodes=600, directed=directed)
    assert again.fingerprint() == graph.fingerprint() and np.array_equal(reason, same)


@pytest.mark.parametrize("keys", [{"kinds": 1}, {"dim": 2}, {"nodes": 2}, {"degree": -2}, {"seed": -1}])
def test_planted_pairs_bounds(keys: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="planted pairs"):
        planted_pairs(**keys)
