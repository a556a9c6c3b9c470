"""The description of links against literal loops over sets of neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dssl.graph import Graph, link_description
from dssl.graph.link_description import Canonical, LinkDescription, Scaling, directions
from dssl.kernels import pairs
from dssl.runtime import out_of_core
from tests.graphs import random_graph


def some_graph(*, directed: bool, dense: bool = True) -> Graph:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(30, 6)) * (draw.random((30, 6)) < 0.5)
    ends = draw.integers(30, size=(2, 120))
    return Graph.from_edges(*ends, num_nodes=30, directed=directed, x=x if dense else sparse.csr_array(x))


def column(description: LinkDescription, name: str, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    names = [each for block in description.blocks.values() for each in block]
    return description.columns(start, end)[:, names.index(name)]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dense", [False, True])
def test_columns_are_what_their_names_say(directed: bool, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_core, "AT_ONCE", 4 * 6 * 7)  # features of seven nodes
    graph = some_graph(directed=directed, dense=dense)
    description = LinkDescription(graph)
    start, end = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
    out = [set(graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()) - {i} for i in range(30)]
    into = [{i for i in range(30) if j in out[i]} for j in range(30)]
    near = [a | b for a, b in zip(out, into, strict=True)]
    x = np.asarray(graph.x.todense() if not dense else graph.x, np.float64)
    expected: dict[str, list[float]] = {}
    for i, j in zip(start.tolist(), end.tolist(), strict=True):
        both = near[i] & near[j]
        ranks = [
            np.mean([(len(near[w]) < len(near[b])) + 0.5 * (len(near[w]) == len(near[b])) for w in near[a]])
            for a, b in ((i, j), (j, i))
        ]
        words = [set(np.flatnonzero(x[k])) for k in (i, j)]
        lengths = np.linalg.norm(x[i]) * np.linalg.norm(x[j])
        row = {
            "log common neighbours": np.log1p(len(both)),
            "log common neighbours over degree": np.log1p(sum(1 / len(near[w]) for w in both)),
            "fraction of common neighbours": len(both) / len(near[i] | near[j]),
            "rank of the target among neighbours of the source": ranks[0],
            "rank of the source among neighbours of the target": ranks[1],
            "cosine of features": x[i] @ x[j] / lengths if lengths else 0,
            "fraction of common columns": len(words[0] & words[1]) / max(len(words[0] | words[1]), 1),
            "log columns of the source": np.log1p(len(words[0])),
            "log columns of the target": np.log1p(len(words[1])),
        }
        if directed:
            row |= {
                "log paths source to target": np.log1p(len(out[i] & into[j])),
                "log paths target to source": np.log1p(len(into[i] & out[j])),
                "log common targets": np.log1p(len(out[i] & out[j])),
                "log common sources": np.log1p(len(into[i] & into[j])),
                "link in both directions": float(i in out[j]),
                "fraction of out-neighbours without out-links of the source": np.mean([not out[w] for w in out[i]]),
            }
        for name, value in row.items():
            expected.setdefault(name, []).append(float(value))
    for name, values in expected.items():
        np.testing.assert_allclose(column(description, name, start, end), values, atol=1e-5, err_msg=name)


def test_the_other_reading_of_a_link_swaps_the_ends() -> None:
    description = LinkDescription(random_graph().undirected())
    start, end = np.array([0, 1, 2]), np.array([3, 4, 5])
    for name in ("rank of the {} among neighbours of the {}", "log degree of the {}", "component 0 of the {}"):
        there = column(description, name.format("source", "target"), start, end)
        back = column(description, name.format("target", "source"), end, start)
        np.testing.assert_allclose(there, back, atol=1e-6)


def test_common_neighbours_of_hubs_are_estimated_from_a_sample() -> None:
    draw = np.random.default_rng(1)
    a = draw.random((400, 400)) < 0.5
    graph = Graph.from_edges(*np.nonzero(a), num_nodes=400)
    start, end = np.arange(0, 50), np.arange(50, 100)
    rows, one = (graph.indptr, graph.indices), np.ones(400, np.float32)
    found = pairs.common_neighbours(*rows, *rows, one, start, end)
    near = graph.adjacency().toarray() > 0
    exact = [(near[i] & near[j]).sum() for i, j in zip(start, end, strict=True)]
    assert graph.degrees.min() > pairs.LOOKED_AT
    np.testing.assert_allclose(found, exact, rtol=0.3)
    assert abs(np.mean(found) / np.mean(exact) - 1) < 0.03


def test_a_graph_without_features_is_described_by_its_links() -> None:
    graph = Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 2], num_nodes=4, self_loops="keep", weights=[1, 2, 3, 4])
    description = LinkDescription(graph)
    assert set(description.blocks) == {"pair", "roles"}
    assert column(description, "log common neighbours", np.array([0]), np.array([1]))[0] == pytest.approx(np.log(2))


def test_blocks_have_a_total_variance_of_one_and_constant_columns_are_zero() -> None:
    draw = np.random.default_rng(0)
    columns = draw.normal(size=(5000, 7)).astype(np.float32) * [1, 10, 100, 1, 5, 1, 0] + 3
    scaled = Scaling.fit(columns, {"pair": 3, "components": 2, "context": 2})(columns.astype(np.float32))
    variance = scaled.var(axis=0)
    np.testing.assert_allclose(variance[:3], 1 / 3, rtol=1e-2)
    np.testing.assert_allclose(variance[3:5], [1 / 26, 25 / 26], rtol=0.1)
    np.testing.assert_allclose(variance[5:], [1 / 2, 0], rtol=1e-2)
    assert np.abs(scaled[:, :3]).max() <= 5 / np.sqrt(3) + 1e-6


def test_directions_are_centred_unit_rows() -> None:
    values = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) * np.arange(1, 51)[:, None]
    wanted = values - values.mean(axis=0)
    np.testing.assert_allclose(directions(values), wanted / np.linalg.norm(wanted, axis=1)[:, None], atol=1e-5)
    assert not directions(np.ones((3, 2), np.float32)).any()


def test_canonical_variates_have_the_correlations_of_the_textbook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ridge: variates of a side are uncorrelated, those of two sides have the canonical correlations."""
    monkeypatch.setattr(link_description, "RIDGE", 0.0)
    draw = np.random.default_rng(0)
    shared = draw.normal(size=(4000, 2))
    left = np.hstack([shared + 0.5 * draw.normal(size=(4000, 2)), draw.normal(size=(4000, 1))])
    right = np.hstack([shared @ [[1, 1], [0, 1]] + 0.5 * draw.normal(size=(4000, 2)), draw.normal(size=(4000, 2))])
    columns = np.hstack([left, right]).astype(np.float32)
    widths = {"pair": 2, "roles": 1, "overlap": 2, "components": 2}
    found = Canonical.fit(columns, widths)(columns)
    assert found.shape == (4000, 6)
    assert found.var(axis=0).sum() == pytest.approx(link_description.SPREAD**2, rel=0.01)
    joint = np.cov(columns.T)
    product = np.linalg.solve(joint[:3, :3], joint[:3, 3:]) @ np.linalg.solve(joint[3:, 3:], joint[3:, :3])
    wanted = np.sqrt(np.sort(np.linalg.eigvals(product).real)[::-1].clip(0))
    measured = np.corrcoef(found.T)
    np.testing.assert_allclose(np.diag(measured[:3, 3:])[:2], wanted[:2], atol=0.02)
    np.testing.assert_allclose(measured[:3, :3], np.eye(3), atol=0.02)
    np.testing.assert_allclose(found.std(axis=0)[1] / found.std(axis=0)[0], wanted[1] / wanted[0], atol=0.02)


def test_noise_on_one_side_counts_for_little() -> None:
    draw = np.random.default_rng(0)
    cause = draw.normal(size=(2000, 1))
    columns = np.hstack([cause, draw.normal(size=(2000, 2)), cause, draw.normal(size=(2000, 3))]).astype(np.float32)
    found = Canonical.fit(columns, {"pair": 1, "roles": 2, "overlap": 1, "components": 3})
    weight = np.square(found.matrix).sum(axis=1)
    assert weight[[0, 3]].min() > 20 * weight[[1, 2, 4, 5, 6]].max()
