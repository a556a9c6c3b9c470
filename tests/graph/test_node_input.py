"""The input of a node: parts, weights, stored maps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph
from dssl.graph.features import encode
from dssl.graph.node_input import NodeInput, _agreement, principal_axes, product, token_columns
from dssl.rng import stream
from tests import graphs


def words(nodes: int = 120, columns: int = 80, *, directed: bool = False) -> Graph:
    """Two blocks of nodes with words of their own, and links inside a block."""
    draw = stream(0, "words")
    block = np.arange(nodes) % 2
    likely = np.where(block[:, None] == (np.arange(columns) % 2), 0.3, 0.05)
    source = draw.integers(nodes, size=4 * nodes)
    target = (source + 2 * draw.integers(1, nodes // 2, size=4 * nodes)) % nodes
    x = sparse.csr_array((draw.random((nodes, columns)) < likely).astype(np.float32))
    return Graph.from_edges(source, target, num_nodes=nodes, x=x, directed=directed)


@pytest.mark.parametrize("directed", [False, True])
def test_parts_have_the_size_of_their_weights(directed: bool) -> None:
    graph = words(directed=directed)
    fitted, x, spectrum = NodeInput.fit(graph, width=500, seed=0)
    names = [part.name for part in fitted.parts]
    wanted = ["topics", "words", "context", "positions", "roles"]
    assert names == ([*wanted[:4], "positions by in-links", *wanted[4:]] if directed else wanted)
    by_name = {part.name: part for part in fitted.parts}
    assert by_name["topics"].weight == 1
    assert by_name["context"].weight == pytest.approx(0.5 * by_name["context"].reliability)
    assert by_name["roles"].weight == pytest.approx(0.3 * by_name["roles"].reliability ** 0.5)
    if directed:
        assert by_name["positions by in-links"].weight == pytest.approx(0.5 * by_name["positions"].weight)
    # A rotation keeps the total variance, which is the sum of the squared weights.
    total = np.square(x).sum() / graph.num_nodes
    assert total == pytest.approx(sum(part.weight**2 for part in fitted.parts), rel=1e-3)
    assert sum(fitted.fractions.values()) == pytest.approx(1)
    assert spectrum is not None
    assert spectrum.values[0] > spectrum.chance  # links keep to the blocks


def test_columns_are_in_order_and_padded_to_the_width() -> None:
    _, x, _ = NodeInput.fit(words(), width=500, seed=0)
    spread = x.std(axis=0)
    assert x.shape == (120, 500)
    assert (np.diff(spread) <= 1e-6).all()
    assert spread[-1] == 0


def test_stored_maps_give_the_same_input() -> None:
    graph = words(directed=True)
    fitted, x, _ = NodeInput.fit(graph, width=64, seed=3)
    again = NodeInput.from_arrays(fitted.arrays(), fitted.to_json())
    np.testing.assert_array_equal(again.apply(graph), x)
    other, same, _ = NodeInput.fit(graph, width=64, seed=3)
    np.testing.assert_array_equal(same, x)
    assert other.to_json() == fitted.to_json()


def test_new_nodes_get_the_input_of_nodes_like_them() -> None:
    graph = words()
    fitted, x, _ = NodeInput.fit(graph, width=32, seed=0)
    start, end = graph.sources(), graph.indices
    own = end[start == 5]
    twin = Graph.from_edges(
        np.r_[start[start < end], np.full(own.size, 120)],
        np.r_[end[start < end], own],
        num_nodes=121,
        x=sparse.vstack([graph.x, graph.x[[5]]]),
    )
    found = fitted.apply(twin)
    cosine = found[120] @ found[5] / np.linalg.norm(found[120]) / np.linalg.norm(found[5])
    assert cosine > 0.95
    assert np.abs(found[:120] - x).max() < np.abs(x).max()


@pytest.mark.parametrize("make", graphs.ALL)
def test_any_graph_has_an_input(make) -> None:
    graph = make().without_self_loops()
    fitted, x, _ = NodeInput.fit(graph, width=8, seed=0)
    assert x.shape == (graph.num_nodes, 8)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(fitted.apply(graph), x, atol=1e-6)


def test_tokens_are_decided_by_the_table() -> None:
    import pyarrow as pa

    rows = 200
    table = pa.table({"age": np.arange(rows) * 1.0, "city": [f"c{i % 100}" for i in range(rows)]})
    x, names, encoding = encode(table)
    graph = Graph.from_edges([0], [1], num_nodes=rows, x=x, feature_names=names, encoding=encoding)
    assert token_columns(graph).tolist() == [False] + [True] * 100
    few = graph.replace(x=np.asarray(x.toarray())[:, :20], feature_names=None, encoding=None)
    assert not token_columns(few).any()
    fitted, _, _ = NodeInput.fit(graph, width=16, seed=0)
    assert {"topics", "measures", "measures of neighbours"} <= {part.name for part in fitted.parts}


def test_agreement_is_the_stepped_up_correlation() -> None:
    draw = stream(0, "agreement")
    first, second = draw.normal(size=(2, 50, 3)).astype(np.float32)
    variance = np.array([1.0, 2.0, 3.0])
    wanted = 0.0
    for k in range(3):
        r = max(0.0, float(np.corrcoef(first[:, k], second[:, k])[0, 1]))
        wanted += 2 * r / (1 + r) * variance[k] / 6
    assert _agreement(first, second, variance) == pytest.approx(wanted, rel=1e-5)
    assert _agreement(first, first, variance) == pytest.approx(1)


def test_principal_axes_are_those_of_an_svd() -> None:
    x = stream(0, "axes").normal(size=(40, 5)).astype(np.float32) * np.array([5, 4, 3, 2, 1], np.float32)
    x -= x.mean(axis=0)
    values = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(product(x, principal_axes(x, 3)), axis=0), values[:3], rtol=1e-5)
