from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.adjacency import Averages
from dssl.graph.node_parts import NodeParts, are_tokens
from dssl.graph.positions import Positions, link_reliability
from dssl.graph.reliability import halves, reliability, word_reliability
from dssl.graph.roles import Roles
from dssl.graph.word_covariance import WordCovariance
from dssl.rng import stream
from dssl.runtime import out_of_core
from tests import graphs
from tests.graph.test_homophily_spectrum import linked_bags
from tests.graph.test_positions import blocks


def root_length(part: np.ndarray) -> np.ndarray:
    """Each row with the root of its length over the mean length, in a loop."""
    lengths = [max(np.sqrt((row.astype(np.float64) ** 2).sum()), 1e-3) for row in part]
    return np.array([row / np.sqrt(length * np.mean(lengths)) for row, length in zip(part, lengths, strict=True)])


def test_parts_have_a_total_variance_of_one_and_the_closed_form_is_their_principal_components() -> None:
    graph = linked_bags(0.9, nodes=200)
    fitted, parts, spectrum = NodeParts.fit(graph, dim=16)
    assert spectrum is not None
    assert (
        list(parts) == list(fitted.weights) == [*("topics", "words", "smoothed words", "amount", "positions", "roles")]
    )
    for name, part in parts.items():
        assert part.var(axis=0).sum() == pytest.approx(1, abs=0.3 if name == "roles" else 1e-3)  # roles are clipped
    shorter = {name: part if name in ("amount", "roles") else root_length(part) for name, part in parts.items()}
    joined = np.hstack([fitted.weights[name] * part for name, part in shorter.items()])
    u, s, _ = np.linalg.svd(joined - joined.mean(axis=0), full_matrices=False)
    expected = u[:, :16] * s[:16]
    found = fitted.closed_form(parts)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T / (expected**2).sum() * 200, atol=1e-3)


@pytest.mark.parametrize("directed", [False, True])
def test_stored_maps_give_the_same_parts(directed: bool) -> None:
    graph = linked_bags(0.9, nodes=150)
    if directed:
        graph = Graph.from_edges(graph.sources(), graph.indices, directed=True, x=graph.x)
    fitted, parts, _ = NodeParts.fit(graph, dim=8)
    again = NodeParts.from_arrays(fitted.arrays(), fitted.weights)
    for name, part in again.apply(graph).items():
        np.testing.assert_allclose(part, parts[name], atol=1e-4)
    np.testing.assert_allclose(again.closed_form(again.apply(graph)), fitted.closed_form(parts), atol=1e-4)
    assert np.array_equal(fitted.closed_form(parts), NodeParts.fit(graph, dim=8)[0].closed_form(parts))


def test_weights_are_the_formulas_of_the_reliabilities() -> None:
    graph = linked_bags(0.9, nodes=200)
    fitted, parts, _ = NodeParts.fit(graph, dim=8)
    own = WordCovariance.fit(graph.x)
    topics, rho, amount = word_reliability(graph.x, own.basis @ own.weights, fitted.basis @ fitted.words.axes)
    assert fitted.weights["words"] == pytest.approx(1.5 * min(rho / (1 - rho), 2))
    assert fitted.weights["topics"] == pytest.approx(min(topics / (1 - topics), 1), abs=1e-5)
    assert fitted.weights["amount"] == pytest.approx(0.35 * np.sqrt(amount))
    both = halves(graph)
    context = reliability(*(Averages(half).mean(parts["topics"]) for half in both))
    assert fitted.weights["smoothed words"] == pytest.approx(context)
    roles = reliability(*(Roles.fit(half)[1] for half in both))
    assert fitted.weights["roles"] == pytest.approx(0.7 * np.sqrt(roles))
    together, directions = link_reliability(graph)
    ratios = [min(max(rho / (1 - rho), together / (1 - together)), 2) for rho in directions]
    variance = Positions.fit(graph)[1].var(axis=0, dtype=np.float64)  # of all directions together 1
    size = np.sqrt(variance @ np.square(ratios))
    assert fitted.weights["positions"] == pytest.approx(size * (1 - fitted.weights["topics"] / 2), rel=1e-4)


def test_one_category_for_each_node_has_no_reliable_topics_and_amount() -> None:
    """Six categories with one value each: no value says anything of the others."""
    x = np.zeros((300, 120), np.float32)
    for block in range(6):
        x[np.arange(300), 20 * block + stream(block, "category").integers(20, size=300)] = 1
    weights = NodeParts.fit(linked_bags(0.5, nodes=300).replace(x=x, feature_names=None), dim=8)[0].weights
    assert weights["topics"] < 0.05
    assert weights["amount"] == 0


def test_the_amount_is_the_logarithm_of_the_sum_of_words_and_counts_where_it_varies_beyond_chance() -> None:
    graph = linked_bags(0.5, nodes=200)
    x = np.asarray(graph.x)
    fitted, parts, _ = NodeParts.fit(graph, dim=8)
    found = np.log1p(x.sum(axis=1))
    np.testing.assert_allclose(parts["amount"][:, 0], (found - found.mean()) / found.std(), atol=1e-4)
    uneven = x * (stream(0, "uneven").random(x.shape) < np.where(np.arange(200) % 2, 0.2, 1)[:, None])
    other = NodeParts.fit(graph.replace(x=uneven.astype(np.float32), feature_names=None), dim=8)[0].weights["amount"]
    assert fitted.weights["amount"] < 0.2 < 0.3 < other <= 0.35


def test_words_of_long_texts_count_more_but_within_bounds() -> None:
    graph = linked_bags(0.5)
    x = np.asarray(graph.x)
    thin, long = x * (stream(0, "thin").random(x.shape) < 0.2), np.sign(x - x.mean()) @ np.ones((x.shape[1], 1))
    repeated = np.where(long > np.median(long), [1.0, 0.0], [0.0, 1.0]) @ np.kron(np.eye(2), np.ones((1, 5000)))
    weights = [
        NodeParts.fit(graph.replace(x=v.astype(np.float32), feature_names=None), dim=8)[0].weights["words"]
        for v in (thin, x, repeated)
    ]
    assert weights[0] < weights[1] < weights[2] == 3


def test_weights_follow_the_graph() -> None:
    alike, chance = (NodeParts.fit(linked_bags(h), dim=8)[0].weights for h in (0.95, 0.5))
    assert alike["smoothed words"] > chance["smoothed words"] + 0.1
    placed, random = (NodeParts.fit(blocks(degree=30, nodes=200, within=w), dim=8)[0].weights for w in (0.9, 0.25))
    assert placed["positions"] > random["positions"] + 0.05
    assert list(placed) == ["positions", "roles"]


def test_a_handful_of_features_has_whitened_hops() -> None:
    """Own columns and means one and two links away, standardised, all components of the same variance, by NumPy."""
    draw = stream(0, "x")
    x = (draw.normal(size=(400, 3)) * [1, 1000, 0.001]).astype(np.float32)
    few = blocks().replace(x=np.hstack([x, np.ones((400, 1), np.float32)]))
    fitted, parts, spectrum = NodeParts.fit(few, dim=128)
    assert spectrum is None
    assert list(fitted.weights) == ["hops", "positions", "roles"]
    assert fitted.weights["hops"] == 1.5
    p = few.adjacency().toarray()
    p /= p.sum(axis=1, keepdims=True)
    hops = np.hstack([x, p @ x, p @ p @ x])
    hops = (hops - hops.mean(axis=0)) / hops.std(axis=0)
    u = np.linalg.svd(hops, full_matrices=False)[0]
    np.testing.assert_allclose(parts["hops"] @ parts["hops"].T, u @ u.T * 400 / 9, atol=2e-3)
    rows = {**parts, "positions": root_length(parts["positions"])}
    joined = np.hstack([fitted.weights[name] * part for name, part in rows.items()])
    products = (joined - joined.mean(axis=0)) @ (joined - joined.mean(axis=0)).T
    found = fitted.closed_form(parts)
    np.testing.assert_allclose(found @ found.T, products / np.trace(products) * 400, atol=5e-3)


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_many_measurements_have_the_denoised_components_of_their_hops(alike: float) -> None:
    graph = blocks()
    x = stream(0, "x").normal(size=(400, 100)).astype(np.float32)
    x[:, 0] *= np.float32(8)  # a signal of the nodes alone
    p = graph.adjacency().toarray()
    p /= p.sum(axis=1, keepdims=True)
    x[:, 1:] += np.float32(2 * alike) * (p @ x[:, 1:])
    many = graph.replace(x=x)
    fitted, parts, _ = NodeParts.fit(many, dim=4)
    assert list(parts) == list(fitted.weights) == ["hops", "positions", "roles"]
    assert fitted.weights["hops"] == 1.2

    variances = np.linalg.eigvalsh(np.cov(x.T.astype(np.float64), bias=True))
    noise = np.median(variances)
    signal = (variances - noise)[variances > noise * 1.5**2].sum() / variances.sum()
    first, second = (half.adjacency().toarray() for half in halves(graph))
    one, other = (half @ x / np.maximum(half.sum(axis=1, keepdims=True), 1) for half in (first, second))
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    r = max(0, (one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))
    rho = 2 * r / (1 + r)
    ratio = 2 * min(rho / (1 - rho), 2) / min(signal / (1 - signal), 2)
    hops = [block - block.mean(axis=0) for block in (x, p @ x, p @ p @ x)]
    own, *near = (np.linalg.norm(block) for block in hops)
    assert (ratio * own > max(near)) == bool(alike)  # means get another size in one of the cases
    for at, size in enumerate(near, 1):
        hops[at] *= max(1, min(ratio, 1) * own / size)
    u, s, _ = np.linalg.svd(np.hstack(hops), full_matrices=False)
    variances = s[: np.linalg.matrix_rank(np.hstack(hops), tol=1e-3)] ** 2
    shrunk = (u[:, :100] * s[:100]) * np.maximum(1 - np.median(variances) / variances[:100], 0.1)
    expected = shrunk * 20 / np.linalg.norm(shrunk)
    np.testing.assert_allclose(parts["hops"] @ parts["hops"].T, expected @ expected.T, atol=5e-3)


@pytest.mark.parametrize("features", ["measurements", "tokens", "handful"])
def test_parts_by_blocks_are_those_in_memory(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, draw = blocks(), np.random.default_rng(0)
    made = {
        "measurements": draw.standard_normal((400, 80)),
        "tokens": draw.random((400, 80)) < 0.1,
        "handful": draw.standard_normal((400, 4)),
    }
    graph = graph.replace(x=made[features].astype(np.float32))
    fitted, parts, _ = NodeParts.fit(graph, dim=8)
    monkeypatch.setattr(out_of_core, "AT_ONCE", 4096)
    by_blocks, others, _ = NodeParts.fit(graph, dim=8)
    assert by_blocks.weights == pytest.approx(fitted.weights, rel=1e-3)
    for name, part in parts.items():
        np.testing.assert_allclose(np.abs(others[name]), np.abs(part), atol=1e-3)
    np.testing.assert_allclose(by_blocks.closed_form(others) ** 2, fitted.closed_form(parts) ** 2, atol=1e-3)


@pytest.mark.parametrize(
    "graph", [graphs.no_edges(), graphs.isolated_node(), graphs.star(), graphs.directed(), graphs.two_blocks()]
)
def test_the_closed_form_is_exact_in_width_and_finite(graph: Graph) -> None:
    fitted, parts, _ = NodeParts.fit(graph, dim=32)
    found = fitted.closed_form(parts)
    assert found.shape == (graph.num_nodes, 32)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(fitted.closed_form(fitted.apply(graph)), found, atol=1e-5)


def test_tokens_have_no_negative_value_and_are_mostly_zero() -> None:
    x = np.zeros((10, 70), np.float32)
    x[:, :35] = 1
    assert are_tokens(x) and are_tokens(sparse.csr_array(x))
    x[0, 35] = 1  # one more than half of the entries
    assert not are_tokens(x)
    x[:, :36] = 0
    x[0, 0] = -1
    assert not are_tokens(x) and not are_tokens(sparse.csr_array(x))


def test_smoothed_words_are_two_steps_of_a_gcn_centred_and_of_size_one() -> None:
    graph = linked_bags(0.9, nodes=150)
    _, parts, _ = NodeParts.fit(graph, dim=8)
    a = graph.adjacency().toarray() + np.eye(150)
    s = a / np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1)))
    near = s @ s @ parts["words"]
    near -= near.mean(axis=0)
    near /= np.sqrt((near**2).sum() / 150)
    np.testing.assert_allclose(parts["smoothed words"], near, atol=1e-4)


def test_positions_by_in_links_count_half_in_the_closed_form() -> None:
    graph = blocks(within=0.98, degree=24, directed=True)
    size = graph.num_nodes
    fitted, parts, _ = NodeParts.fit(graph, dim=16)
    out = fitted.positions.ends.shape[1]
    assert fitted.weights["positions"] > 0.1
    assert 0 < out < parts["positions"].shape[1]
    halved = {
        **parts,
        "positions": root_length(parts["positions"]) * np.where(np.arange(parts["positions"].shape[1]) < out, 1, 0.5),
    }
    joined = np.hstack([fitted.weights[name] * part for name, part in halved.items()])
    u, s, _ = np.linalg.svd(joined - joined.mean(axis=0), full_matrices=False)
    expected = u[:, :16] * s[:16]
    found = fitted.closed_form(parts)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T / (expected**2).sum() * size, atol=1e-3)
