from __future__ import annotations

import numpy as np
import pytest

from dssl.errors import GraphError
from dssl.graph import Graph
from dssl.graph.homophily_spectrum import homophily_spectrum
from dssl.graph.word_covariance import WordCovariance
from dssl.rng import stream
from tests import graphs


def linked_bags(alike: float, *, nodes: int = 600, words: int = 150, seed: int = 0) -> Graph:
    """Bags of words of two topics; links join the same topic with the given probability."""
    draw = stream(seed, "linked bags")
    rates = draw.gamma(0.3, size=(2, words)) * 0.7
    topic = draw.integers(2, size=nodes)
    x = draw.poisson(rates[topic]).astype(np.float32)
    source = draw.integers(nodes, size=4 * nodes)
    same = draw.random(4 * nodes) < alike
    target = np.array(
        [draw.choice(np.flatnonzero((topic == topic[s]) == want)) for s, want in zip(source, same, strict=True)]
    )
    return Graph.from_edges(source, target, num_nodes=nodes, x=x, y=topic, name="bags")


def test_the_matrix_is_its_formula() -> None:
    whole = linked_bags(0.8, nodes=120)
    start, end = whole.sources(), whole.indices
    kept = (start < end) & (start >= 40)  # 40 nodes without links
    graph = Graph.from_edges(start[kept], end[kept], num_nodes=120, x=whole.x)
    found = homophily_spectrum(graph)
    words = WordCovariance.fit(graph.x)
    b = words.project(graph.x).astype(np.float64)
    a = graph.adjacency().toarray()
    cross, linked = np.zeros((b.shape[1],) * 2), 0
    for i in range(graph.num_nodes):
        if a[i].any():
            linked += 1
            cross += np.outer(b[i], a[i] @ b / a[i].sum())
    assert linked <= 80
    values, vectors = np.linalg.eigh(words.signal)
    values, vectors = values[::-1][:96], vectors[:, ::-1][:, :96]
    root = vectors / np.sqrt(np.maximum(values, 1e-12) + 0.5 * values[0])
    matrix = root.T @ (cross + cross.T) @ root / (2 * linked)
    expected = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(np.sort(found.values), expected, atol=1e-4)
    effective = np.sign(found.values) * np.sqrt(np.maximum(found.values**2 - found.chance**2, 0))
    np.testing.assert_allclose(found.effective, effective)


@pytest.mark.parametrize(("alike", "sign"), [(0.95, 1), (0.05, -1)])
def test_links_within_or_across_topics_show_as_one_direction_of_that_sign(alike: float, sign: int) -> None:
    graph = linked_bags(alike)
    found = homophily_spectrum(graph)
    assert np.sign(found.effective[0]) == sign
    assert abs(found.effective[0]) > 0.25
    assert abs(found.effective[1]) < 0.5 * abs(found.effective[0])
    mean = [np.asarray(graph.x)[graph.y == y].mean(axis=0) for y in (0, 1)]
    overlap = np.corrcoef(found.loadings[:, 0], mean[0] - mean[1])[0, 1]
    assert abs(overlap) > 0.9  # the direction is the difference of the topics


def test_links_by_chance_have_no_direction_far_above_it() -> None:
    assert np.abs(homophily_spectrum(linked_bags(0.5)).effective).max() < 0.15


def test_direction_and_self_loops_do_not_matter_and_row_order_hardly() -> None:
    graph = linked_bags(0.9, nodes=200)
    found = homophily_spectrum(graph)
    start, end = np.triu(graph.adjacency().toarray()).nonzero()
    arcs = Graph.from_edges(
        [*start, 0], [*end, 0], num_nodes=200, directed=True, self_loops="keep", x=graph.x, name="bags"
    )
    np.testing.assert_allclose(homophily_spectrum(arcs).values, found.values, atol=1e-5)
    order = stream(0, "order").permutation(200)
    place = np.argsort(order)
    turned = Graph.from_edges(place[start], place[end], num_nodes=200, x=np.asarray(graph.x)[order])
    np.testing.assert_allclose(homophily_spectrum(turned).values[:3], found.values[:3], atol=0.05)


def test_columns_name_the_words_of_a_direction() -> None:
    graph = linked_bags(0.95)
    found = homophily_spectrum(graph)
    names = [f"word {i}" for i in range(150)]
    columns = found.columns(0, names, count=3)
    assert [name for name, _ in columns] == [f"word {i}" for i in np.argsort(-np.abs(found.loadings[:, 0]))[:3]]
    assert found.columns(0)[0][0].isdigit()
    assert repr(found).startswith(f"HomophilySpectrum({found.num_significant} directions above chance (")
    assert len(repr(found)) < 100


def test_a_graph_without_links_has_a_spectrum_of_zeros_and_one_without_features_is_refused() -> None:
    alone = graphs.no_edges().replace(x=np.eye(3, dtype=np.float32))
    assert np.abs(homophily_spectrum(alone).values).max() == 0
    with pytest.raises(GraphError, match="has no features"):
        homophily_spectrum(graphs.path())


def test_the_summary_has_the_directions_above_chance_with_their_main_columns() -> None:
    graph = linked_bags(0.9)
    found = homophily_spectrum(graph)
    names = [f"word {at}" for at in range(graph.num_features)]
    summary = found.summary(names, count=2)
    assert summary["directions"] == found.num_significant >= 1
    assert summary["chance"] == pytest.approx(found.chance, abs=1e-4)
    assert len(summary["first"]) == min(2, found.num_significant)
    assert summary["first"][0]["value"] == pytest.approx(found.values[0], abs=1e-4)
    assert summary["first"][0]["columns"] == [name for name, _ in found.columns(0, names, count=5)]
