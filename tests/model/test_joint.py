"""Vectors of an exact width on topics, positions and roles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import dssl
from dssl.errors import ConfigError, RunError
from dssl.graph import Graph
from dssl.model.joint import Joint, with_input
from dssl.rng import stream


def words(nodes: int = 120, columns: int = 80, *, directed: bool = False) -> Graph:
    """Two blocks of nodes with words of their own, and links inside a block."""
    draw = stream(0, "words")
    block = np.arange(nodes) % 2
    likely = np.where(block[:, None] == (np.arange(columns) % 2), 0.3, 0.05)
    source = draw.integers(nodes, size=4 * nodes)
    target = (source + 2 * draw.integers(1, nodes // 2, size=4 * nodes)) % nodes
    x = sparse.csr_array((draw.random((nodes, columns)) < likely).astype(np.float32))
    return Graph.from_edges(source, target, num_nodes=nodes, x=x, directed=directed)


SMALL = {"features": "topics", "epochs": 2, "num_factors": 2}


@pytest.mark.parametrize("dim", [3, 16, 200])
def test_dim_is_the_length_of_the_vector(dim: int) -> None:
    assert dssl.DSSL(dim=dim, **SMALL).fit(words()).embeddings_.values.shape == (120, dim)


def test_a_saved_model_gives_the_same_vectors(tmp_path: Path) -> None:
    graph = words(directed=True)
    model = dssl.DSSL(dim=8, **SMALL).fit(graph)
    model.save(tmp_path / "m")
    again = dssl.load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.transform(graph), model.transform(graph))
    np.testing.assert_allclose(again.transform(graph), model.embeddings_.values, atol=1e-5)
    assert again.factors(graph).links.shape[1] == 2


def test_without_training_links_are_not_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    from dssl.methods.dssl import teacher

    monkeypatch.setattr(teacher, "LinkGroups", lambda *_, **__: pytest.fail("grouped"))
    model = dssl.DSSL(dim=8, **{**SMALL, "epochs": 0}).fit(words())
    assert model.factors(words()).links.shape[1] == 2
    with pytest.raises(pytest.fail.Exception, match="grouped"):
        dssl.DSSL(dim=8, **SMALL).fit(words())


def test_without_training_the_vector_is_the_closed_form() -> None:
    graph = words()
    values = dssl.DSSL(dim=8, **{**SMALL, "epochs": 0}).fit(graph).embeddings_.values
    _, x = Joint.start(graph, dim=8, seed=0)
    closed = x[:, :8] * np.sqrt(x[:, :8].std(axis=0))  # standard deviations to the power 1.5
    closed *= 2 / np.sqrt(closed.var(axis=0).sum())
    np.testing.assert_allclose(np.abs(values), np.abs(closed), atol=1e-4)


def test_columns_are_in_order_of_importance() -> None:
    values = dssl.DSSL(dim=16, **SMALL).fit(words()).embeddings_.values
    assert (np.diff(values.std(axis=0)) <= 1e-6).all()


def test_other_methods_train_on_topics_too() -> None:
    model = dssl.Embedder(method="dgi", dim=6, epochs=1, features="topics").fit(words())
    assert model.embeddings_.values.shape == (120, 6)
    with pytest.raises(ConfigError, match="deepwalk uses no features"):
        dssl.Embedder(method="deepwalk", dim=6, epochs=1, features="topics").fit(words())


def test_a_graph_without_features_has_positions_and_roles() -> None:
    graph = words().replace(x=None)
    assert dssl.DSSL(dim=8, **SMALL).fit(graph).embeddings_.values.std() > 0


@pytest.mark.parametrize("spoil", [{}, {"roles": None}, {"roles": "1"}, {"positions": 1.0, "other": 1.0}])
def test_damaged_weights_of_the_parts_are_one_line(spoil: dict[str, object], tmp_path: Path) -> None:
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=np.eye(4, dtype=np.float32))
    dssl.DSSL(dim=2, epochs=0, num_factors=2).fit(graph).save(tmp_path)
    stored = json.loads((tmp_path / "features.json").read_text())
    assert set(stored["weights"]) == {"hops", "positions", "roles"}
    (tmp_path / "features.json").write_text(json.dumps(stored | {"weights": spoil}))
    with pytest.raises(RunError, match="is damaged or of another model; fit the model again"):
        dssl.load_model(tmp_path)


def test_the_spectrum_of_homophily_is_stored_and_kept(tmp_path: Path) -> None:
    model = dssl.DSSL(dim=6, **SMALL).fit(words())
    model.save(tmp_path / "first")
    dssl.load_model(tmp_path / "first").save(tmp_path / "second")
    stored = [json.loads((tmp_path / name / "features.json").read_text()) for name in ("first", "second")]
    assert stored[0] == stored[1]
    spectrum = dssl.homophily_spectrum(words())
    assert stored[0]["homophily"] == spectrum.summary(words().feature_names)


@pytest.mark.parametrize("nodes", [120, 400])
def test_the_vector_is_made_of_the_closed_form_and_the_trained_vector_at_half_its_size_or_less(nodes: int) -> None:
    """The principal components of both, centred and of size 1 and t, their size to the power 1.5, by NumPy."""
    graph = words(nodes)
    links = np.count_nonzero(np.triu(graph.adjacency().toarray()))
    assert (links < 1000) == (nodes == 120)
    joint, x = Joint.start(graph, dim=6, seed=0)
    assert x.shape == (nodes, 128)
    trained = (60 + 40 * stream(0, "trained").normal(size=(nodes, 4))).astype(np.float32)
    ready = with_input(graph, x)
    joint.finish(ready, trained)
    sides = [side - side.mean(axis=0) for side in (x[:, :6].astype(np.float64), trained)]
    sizes = (1, 0.5 * min(1, links / 1000))
    both = np.hstack([size * side / np.sqrt((side**2).sum() / nodes) for size, side in zip(sizes, sides, strict=True)])
    u, s, _ = np.linalg.svd(both, full_matrices=False)
    expected = u[:, :6] * s[:6] ** 1.5
    found = joint.join(ready, trained)
    gram = found @ found.T
    np.testing.assert_allclose(gram / np.trace(gram), expected @ expected.T / (expected**2).sum(), atol=1e-5)
