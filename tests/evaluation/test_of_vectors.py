"""Evaluation in Python, as a user of a notebook calls it."""

from __future__ import annotations

import numpy as np
import pytest

import dssl
from dssl.errors import DsslError
from dssl.graph import Graph
from dssl.model.embeddings import Embeddings

RNG = np.random.default_rng(0)
N = 120
Y = np.arange(N) % 2
VALUES = (RNG.normal(size=(N, 4)) + 3 * Y[:, None]).astype(np.float32)


@pytest.fixture(scope="module")
def graph() -> Graph:
    pairs = [(i, (i + step) % N) for i in range(N) for step in (2, 4, 10)]  # within the classes
    return Graph.from_edges(*np.array(pairs).T, y=Y, ids=[f"n{i}" for i in range(N)], name="two")


def test_vectors_are_found_by_their_ids(graph: Graph) -> None:
    order = RNG.permutation(N)
    shuffled = Embeddings([f"n{i}" for i in order], VALUES[order])
    for vectors in (VALUES, shuffled):
        found = dssl.evaluate(vectors, graph, splits=2)
        assert found["probe"]["accuracy"]["mean"] > 0.9
        assert "The embedding" in found["verdict"]
    assert found["verdict"] in repr(found)
    assert "probe accuracy" in repr(found)
    assert "<table>" in found._repr_html_()
    few = dssl.evaluate(VALUES, graph, splits=2, labels="5/class", baselines=False)
    assert "sanity" not in few
    assert few["probe"]["accuracy"]["mean"] > 0.9


def test_a_numeric_target_gets_r2(graph: Graph) -> None:
    target = VALUES @ [1.0, 2.0, 0.0, -1.0]
    target[:20] = np.nan
    found = dssl.evaluate(VALUES, graph, target=target, splits=5)
    assert found["probe"]["r2"]["mean"] > 0.99
    assert found["verdict"].startswith("The embedding (R² 1.00) beats")
    noise = dssl.evaluate(VALUES, graph, target=RNG.normal(size=N), splits=2)
    assert "does not beat" in noise["verdict"]
    with pytest.raises(DsslError, match="give one number per node"):
        dssl.evaluate(VALUES, graph, target=[1.0])


def test_a_link_predictor_ranks_pairs_of_ids(graph: Graph) -> None:
    model = dssl.link_predictor(VALUES, graph)
    close, far = model.probabilities([("n0", "n2"), ("n0", "n1")])
    assert close > far
    assert model.scores([]).shape == (0,)
    with pytest.raises(DsslError, match="no node with the id 'x'"):
        model.scores([("x", "n1")])
    with pytest.raises(DsslError, match="not pairs of ids; give a list such as"):
        model.scores(["n0", "n1"])  # type: ignore[list-item]
    with pytest.raises(DsslError, match="use one of uniform, degree"):
        dssl.link_predictor(VALUES, graph, negatives="none")


def test_labels_in_place_of_the_graph_are_refused() -> None:
    for use in (dssl.evaluate, dssl.link_predictor):
        with pytest.raises(DsslError, match=r"takes a dssl\.Graph, not numpy\.ndarray"):
            use(np.ones((3, 2), np.float32), np.array([0, 1, 2**31]))
