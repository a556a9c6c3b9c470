from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.errors import GraphError
from dssl.graph import Graph, topics
from dssl.graph.homophily_spectrum import measure
from dssl.graph.topics import Topics
from dssl.graph.word_covariance import WordCovariance
from dssl.rng import stream
from tests import graphs
from tests.graph.test_homophily_spectrum import linked_bags
from tests.graphs import random_graph


def literal_topics(graph: Graph) -> np.ndarray:
    """The formulas at the top of the module, a loop at a time; Gram matrix of the topics."""
    words = WordCovariance.fit(graph.x)
    b = words.project(graph.x).astype(np.float64)
    spectrum = measure(words, words.project(graph.x), graph)
    a = graph.adjacency().toarray().astype(np.float64)
    p = np.array([row / row.sum() if row.any() else row for row in a])
    two = p @ p
    np.fill_diagonal(two, 0)
    own = b @ words.weights @ spectrum.analysis
    noisy = b @ spectrum.analysis
    filtered = own.copy()
    for k, value in enumerate(spectrum.effective):
        if value == 0:
            continue
        z = np.stack([own[:, k], p @ own[:, k], two @ own[:, k]], axis=1)
        gram, cross = z.T @ z / len(z), z.T @ noisy[:, k] / len(z)
        cross[0] = (words.weights @ spectrum.analysis[:, k]) @ words.signal @ spectrum.analysis[:, k]
        filtered[:, k] = z @ np.linalg.solve(gram + 0.3 * np.diag(np.diag(gram)), cross)
    found = (filtered * (0.3 + np.abs(spectrum.effective))) @ spectrum.synthesis.T
    found -= found.mean(axis=0)
    u, s, _ = np.linalg.svd(found, full_matrices=False)
    kept = u[:, :96] * s[:96]
    return kept @ kept.T / (kept**2).sum() * len(kept)


@pytest.mark.parametrize("alike", [0.9, 0.05])
def test_topics_are_their_formula(alike: float) -> None:
    graph = linked_bags(alike, nodes=150)
    _, found, spectrum = Topics.fit(graph)
    assert spectrum.num_significant >= 1
    assert spectrum.effective[np.abs(spectrum.effective).argmax()] * (alike - 0.5) > 0
    np.testing.assert_allclose(found @ found.T, literal_topics(graph), atol=2e-3)
    variance = found.var(axis=0)
    np.testing.assert_allclose(variance.sum(), 1, atol=1e-3)
    assert np.all(np.diff(variance) <= 1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_returns_are_the_diagonal_of_two_steps(weighted: bool) -> None:
    graph = random_graph(weighted=weighted).without_self_loops()
    a = graph.adjacency().toarray()
    p = np.array([row / row.sum() if row.any() else row for row in a])
    np.testing.assert_allclose(topics.returns(graph), np.diag(p @ p), atol=1e-6)


def test_stored_maps_give_the_same_topics_and_those_of_new_nodes() -> None:
    graph = linked_bags(0.9, nodes=200)
    fitted, found, _ = Topics.fit(graph, count=5)
    again = Topics.from_arrays(fitted.arrays())
    np.testing.assert_allclose(again.apply(graph), found, atol=1e-5)
    np.testing.assert_allclose(again.apply(graph.replace(x=sparse.csr_array(graph.x))), found, atol=1e-4)
    more = Graph.from_edges(  # a twin of node 7 without links, beside the others
        *np.triu(graph.adjacency().toarray()).nonzero(), num_nodes=201, x=np.vstack([graph.x, graph.x[7]])
    )
    alone = fitted.apply(more)
    np.testing.assert_allclose(alone[:200], found, atol=1e-5)
    own = graph.replace(indptr=np.zeros(201, np.int64), indices=np.zeros(0, np.int32))
    np.testing.assert_allclose(alone[200], fitted.apply(own)[7], atol=1e-5)
    every = [*graph.sources(), 3], [*graph.indices, 3]  # both directions as links of a directed graph, and a loop
    directed = Graph.from_edges(*every, num_nodes=200, x=graph.x, directed=True)
    np.testing.assert_allclose(fitted.apply(directed), found, atol=1e-5)
    one_way = Graph.from_edges(*np.triu(graph.adjacency().toarray()).nonzero(), num_nodes=200, x=graph.x, directed=True)
    np.testing.assert_allclose(fitted.apply(one_way), found, atol=1e-5)
    with pytest.raises(GraphError, match="3 feature columns, but the topics were fitted with 150"):
        fitted.apply(graph.replace(x=np.ones((200, 3), np.float32)))


def test_neighbours_raise_the_accuracy_of_topics_where_they_are_alike() -> None:
    graph = linked_bags(0.95)
    x = np.asarray(graph.x) * (stream(0, "thin").random(graph.x.shape) < 0.1)  # a few words for each node
    _, with_links, _ = Topics.fit(graph.replace(x=x.astype(np.float32)))
    _, without, _ = Topics.fit(
        graph.replace(x=x.astype(np.float32), indptr=np.zeros(601, np.int64), indices=np.zeros(0, np.int32))
    )
    right = [abs(np.corrcoef(found[:, 0], graph.y)[0, 1]) for found in (with_links, without)]
    assert right[0] > right[1] + 0.1


@pytest.mark.parametrize(
    "graph",
    [
        graphs.no_edges().replace(x=np.eye(3, dtype=np.float32)),
        graphs.isolated_node().replace(x=np.ones((3, 1), np.float32)),
        graphs.star().replace(x=np.arange(5, dtype=np.float32)[:, None]),
        graphs.directed().replace(x=np.eye(3, dtype=np.float32)),
    ],
)
def test_small_graphs_have_finite_topics(graph: Graph) -> None:
    fitted, found, _ = Topics.fit(graph)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(fitted.apply(graph), found, atol=1e-5)
    assert np.array_equal(Topics.fit(graph)[1], found)
