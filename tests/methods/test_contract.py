"""What every registered method owes its users, whatever its loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl.config.methods import METHODS
from dssl.config.resolve import resolve
from dssl.errors import DsslError
from dssl.graph import Graph
from dssl.model.estimator import Embedder, load_model
from tests import graphs

INDUCTIVE = [name for name, section in METHODS.items() if section.traits.inductive]
BY_TABLE = [name for name in METHODS if name not in INDUCTIVE]


def graph(*, seed: int = 0, order: np.ndarray | None = None, features: bool = True) -> Graph:
    """Thirty nodes in two blocks, of which the last is alone, in a given order."""
    rng = np.random.default_rng(seed)
    n = 30
    block = np.arange(n) % 2
    chance = np.where(block[:, None] == block, 0.3, 0.05)
    start, end = np.nonzero(np.triu(rng.random((n, n)) < chance, 1))
    linked = (start < n - 1) & (end < n - 1)
    start, end = start[linked], end[linked]
    x = (rng.random((n, 6)) + np.eye(2)[block] @ rng.random((2, 6))).astype(np.float32)
    order = np.arange(n) if order is None else order
    place = np.argsort(order)
    ids = [f"n{i}" for i in order]
    return Graph.from_edges(
        place[start], place[end], num_nodes=n, ids=ids, x=x[order] if features else None, name="blocks"
    )


def model(method: str, **settings: Any) -> Embedder:
    small = {"dim": 4, "hidden_dim": 5, "epochs": 3, "seed": 1}
    return Embedder.from_config(resolve({"method": method, **small, **settings}))


@pytest.fixture(scope="module", params=METHODS)
def fitted(request: pytest.FixtureRequest) -> Embedder:
    return model(request.param).fit(graph())


def test_vectors_are_finite_also_of_a_node_without_links(fitted: Embedder) -> None:
    values = fitted.embeddings_.values
    assert values.shape == (30, 4)
    assert np.isfinite(values).all()
    assert values.std() > 0


def test_same_seed_same_bytes_and_another_seed_others(fitted: Embedder) -> None:
    name = fitted.config.method.name
    again = model(name).fit(graph())
    assert again.embeddings_.values.tobytes() == fitted.embeddings_.values.tobytes()
    assert again.metrics_ == fitted.metrics_
    assert model(name, seed=2).fit_transform(graph()).tobytes() != fitted.embeddings_.values.tobytes()


def test_training_changes_the_vectors_and_leaves_the_graph(fitted: Embedder) -> None:
    given = graph()
    before = given.fingerprint()
    untrained = model(fitted.config.method.name, epochs=0).fit_transform(given)
    assert given.fingerprint() == before
    assert untrained.shape == fitted.embeddings_.values.shape
    assert not np.allclose(untrained, fitted.embeddings_.values)


@pytest.mark.parametrize("batch_size", [0, 7])
def test_resumed_training_ends_with_the_same_bytes(fitted: Embedder, tmp_path: Path, batch_size: int) -> None:
    settings = {"batch_size": batch_size, "fanout": [3, 3], "epochs": 4, "checkpoint_every": 2}
    whole = model(fitted.config.method.name, **settings).fit(graph())

    def stop(record: dict[str, float]) -> None:
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        model(fitted.config.method.name, **settings).fit(graph(), on_epoch=stop, checkpoint=checkpoint)
    resumed = model(fitted.config.method.name, **settings).fit(graph(), checkpoint=checkpoint)
    assert len(resumed.metrics_) == 2
    assert resumed.embeddings_.values.tobytes() == whole.embeddings_.values.tobytes()
    assert np.isfinite(whole.embeddings_.values).all()


def test_saved_models_give_the_same_vectors(fitted: Embedder, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    again = load_model(tmp_path)
    assert type(again) is type(Embedder.from_config(fitted.config))
    assert again.config == fitted.config
    np.testing.assert_array_equal(again.transform(graph()), fitted.embeddings_.values)


def test_records_hold_the_loss(fitted: Embedder) -> None:
    assert [record["epoch"] for record in fitted.metrics_] == [1, 2, 3]
    assert all(np.isfinite(record["loss"]) for record in fitted.metrics_)


@pytest.mark.parametrize("make", [graphs.star, graphs.isolated_node, graphs.no_edges, graphs.one_node, graphs.directed])
@pytest.mark.parametrize("batch_size", [0, 2])
def test_odd_graphs_without_features(fitted: Embedder, make: Any, batch_size: int) -> None:
    given = make()
    values = model(fitted.config.method.name, batch_size=batch_size, directed=given.directed).fit_transform(given)
    assert len(values) == given.num_nodes
    assert np.isfinite(values).all()


@pytest.mark.parametrize("encoder", ["gcn", "gat", "hops", "mlp"])
@pytest.mark.parametrize("method", [name for name, part in METHODS.items() if part.traits.encoder])
def test_encoders(method: str, encoder: str) -> None:
    values = model(method, encoder=encoder, batch_size=11, fanout=[4], epochs=2).fit_transform(graph())
    assert np.isfinite(values).all()


def test_sparse_features_give_the_same_as_dense_ones(fitted: Embedder) -> None:
    from scipy import sparse

    given = graph()
    # A bias before batch normalisation has a gradient of rounding alone, of which Adam makes a full step: a small one.
    options = {"epochs": 2, "learning_rate": 1e-5}
    dense = model(fitted.config.method.name, **options).fit_transform(given)
    found = model(fitted.config.method.name, **options).fit_transform(given.replace(x=sparse.csr_array(given.x)))
    np.testing.assert_allclose(found, dense, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("method", INDUCTIVE)
def test_vectors_of_an_inductive_method_follow_the_nodes(method: str) -> None:
    order = np.random.default_rng(3).permutation(30)
    trained = model(method).fit(graph())
    np.testing.assert_allclose(
        trained.transform(graph(order=order)), trained.transform(graph())[order], atol=1e-4, rtol=1e-3
    )
    other = trained.transform(graph(seed=5))
    assert np.isfinite(other).all()


@pytest.mark.parametrize("method", BY_TABLE)
def test_a_method_with_a_table_knows_its_nodes_by_their_ids_and_no_others(method: str) -> None:
    order = np.random.default_rng(3).permutation(30)
    trained = model(method).fit(graph())
    np.testing.assert_array_equal(trained.transform(graph(order=order)), trained.embeddings_.values[order])
    other = Graph.from_edges([0], [1], ids=["n0", "new"], name="grown")
    with pytest.raises(DsslError, match="'new'") as caught:
        trained.transform(other)
    assert "\n" not in str(caught.value)


def test_the_table_of_methods_has_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    from dssl.cli import listings

    listings.methods()
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert list(rows)[1:] == list(METHODS)
    assert rows["dgi"][1:5] == ["yes"] * 4
    assert rows["struc2vec"][1:5] == ["no", "no", "yes", "no"]


def test_dssl_is_the_estimator_of_one_method() -> None:
    from dssl.model.estimator import DSSL

    assert isinstance(Embedder.from_config(DSSL().config), DSSL)
    assert repr(model("dgi", seed=3)) == "Embedder(method='dgi', dim=4, hidden_dim=5, epochs=3, seed=3)"
    assert Embedder(**model("dgi").get_params()).config == model("dgi").config
