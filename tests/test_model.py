from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import dssl
from dssl.errors import ConfigError, GraphError, RunError
from dssl.graph import Graph
from dssl.model import DSSL, load_model


def two_blocks(nodes: int = 12, *, names: tuple[str, ...] | None = ("a", "b", "c"), seed: int = 0) -> Graph:
    """Two rings with a bridge; features tell the blocks apart."""
    generator = np.random.default_rng(seed)
    half = nodes // 2
    ring = np.arange(half)
    source = np.concatenate([ring, ring + half, [0]])
    target = np.concatenate([np.roll(ring, 1), np.roll(ring, 1) + half, [half]])
    y = np.repeat([0, 1], half)
    x = generator.normal(size=(nodes, 3)) + 2 * y[:, None]
    ids = [f"n{i}" for i in range(nodes)]
    return Graph.from_edges(source, target, ids=ids, x=x, y=y, feature_names=names, name="two-blocks")


def small(**settings: object) -> DSSL:
    return DSSL(**{"num_factors": 2, "dim": 4, "hidden_dim": 4, "skip": False, "epochs": 3, "seed": 1, **settings})


@pytest.fixture(scope="module")
def fitted() -> DSSL:
    return small().fit(two_blocks())


def test_fit_then_transform_gives_a_row_per_node(fitted: DSSL) -> None:
    values = fitted.transform(two_blocks())
    assert values.shape == (12, 4)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values, fitted.embeddings_.values)
    assert fitted.embeddings_.ids.to_pylist() == [f"n{i}" for i in range(12)]
    assert [record["epoch"] for record in fitted.metrics_] == [1, 2, 3]
    assert fitted.epochs_ == 3


def test_fit_leaves_its_input_alone_and_looks_at_no_label() -> None:
    graph = two_blocks()
    before = graph.fingerprint()
    values = small().fit_transform(graph)
    assert graph.fingerprint() == before
    np.testing.assert_array_equal(values, small().fit_transform(graph.replace(y=None)))
    np.testing.assert_array_equal(values, small().fit_transform(graph.replace(y=1 - graph.y)))


def test_same_seed_same_bytes_another_seed_others() -> None:
    graph = two_blocks()
    first = small().fit_transform(graph)
    assert first.tobytes() == small().fit_transform(graph).tobytes()
    assert first.tobytes() != small(seed=2).fit_transform(graph).tobytes()


def test_training_changes_the_vectors() -> None:
    graph = two_blocks()
    assert not np.allclose(small(epochs=0).fit_transform(graph), small(epochs=30).fit_transform(graph))


def test_a_grown_and_a_new_graph_get_vectors_without_training(fitted: DSSL) -> None:
    grown = two_blocks(20)
    assert fitted.transform(grown).shape == (20, 4)
    assert fitted.embed(grown).ids.to_pylist()[-1] == "n19"
    assert fitted.transform(two_blocks(12, names=None)).shape == (12, 4)


@pytest.mark.parametrize("structure", ["auto", "degree", "svd", "identity"])
def test_a_graph_without_features_gets_some_from_its_links(structure: str, tmp_path: Path) -> None:
    graph = two_blocks().replace(x=None, feature_names=None)
    model = small(structure=structure, structure_dim=4).fit(graph)
    assert model.inputs.structure in ("degree", "svd", "identity")
    assert structure in ("auto", model.inputs.structure)
    model.save(tmp_path)
    values = load_model(tmp_path).transform(graph)
    np.testing.assert_array_equal(values, model.embeddings_.values)
    with pytest.raises(GraphError, match="fitted on a graph without"):
        model.transform(two_blocks())
    other = two_blocks(20).replace(x=None, feature_names=None)
    if model.inputs.structure == "degree":
        assert model.transform(other).shape == (20, 4)
    else:
        with pytest.raises(GraphError, match="mean nothing elsewhere; fit again with structure=degree"):
            model.transform(other)


def test_links_are_prepared_once_the_same_way() -> None:
    """A directed graph with self loops gives what its undirected version without them gives."""
    plain = two_blocks()
    start, end = plain.sources(), plain.indices
    once = start < end
    directed = Graph.from_edges(
        np.append(start[once], [3]),
        np.append(end[once], [3]),
        x=plain.x,
        ids=plain.ids,
        directed=True,
        self_loops="keep",
    )
    np.testing.assert_array_equal(small().fit_transform(directed), small().fit_transform(plain))
    model = small(directed=True, self_loops="keep").fit(directed)
    assert not np.array_equal(model.embeddings_.values, small().fit_transform(plain))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (two_blocks().replace(x=np.ones((12, 2), np.float32), feature_names=None), "has 2 feature columns, but .* 3"),
        (two_blocks().replace(x=None, feature_names=None), "has 0 feature columns, but the model was fitted with 3"),
        (two_blocks(names=("a", "c", "b")), "feature column 2 is 'c', but was 'b'"),
    ],
)
def test_other_feature_columns_are_refused(fitted: DSSL, graph: Graph, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        fitted.transform(graph)


def test_what_is_no_graph_is_refused(fitted: DSSL) -> None:
    with pytest.raises(GraphError, match=r"takes a dssl\.Graph, not numpy\.ndarray; make one with dssl\.load"):
        fitted.transform(np.eye(3))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="takes a dssl"):
        small().fit("texas")  # type: ignore[arg-type]


def test_an_unfitted_model_says_so() -> None:
    for call in (lambda: small().transform(two_blocks()), lambda: small().save("nowhere"), lambda: small().inputs):
        with pytest.raises(RunError, match="not fitted yet"):
            call()


def test_save_and_load_give_the_same_vectors(fitted: DSSL, tmp_path: Path) -> None:
    fitted.save(tmp_path / "deep" / "model")
    again = dssl.load_model(tmp_path / "deep" / "model")
    np.testing.assert_array_equal(again.transform(two_blocks(20)), fitted.transform(two_blocks(20)))
    assert again.config == fitted.config
    assert again.inputs == fitted.inputs
    assert again.get_params() == fitted.get_params()
    assert sorted(path.name for path in (tmp_path / "deep" / "model").iterdir()) == [
        "config.toml",
        "features.json",
        "weights.safetensors",
    ]
    again.save(tmp_path / "second")
    for name in ("config.toml", "features.json", "weights.safetensors"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "deep" / "model" / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.toml", None, "config.toml cannot be read"),
        ("config.toml", b"[encoder]\ndim = 0\n", "encoder.dim is 0"),
        ("config.toml", b"[encoder", "is not valid TOML"),
        ("config.toml", b"\xff\xfe", "not UTF-8"),
        ("features.json", None, "features.json cannot be read"),
        ("features.json", b"{", "features.json is damaged"),
        ("features.json", b"{}", "features.json is damaged"),
        ("features.json", b"[1]", "features.json is damaged"),
        ("weights.safetensors", None, "weights.safetensors is missing"),
        ("weights.safetensors", b"", "weights.safetensors is damaged"),
        ("weights.safetensors", "half", "weights.safetensors is damaged"),
        ("config.toml", "[encoder]\ndim = 8\nhidden_dim = 4\n", "weights.safetensors is damaged or of another model"),
    ],
)
def test_a_damaged_model_is_one_line(
    fitted: DSSL, tmp_path: Path, name: str, content: bytes | str | None, said: str
) -> None:
    fitted.save(tmp_path)
    path = tmp_path / name
    if content is None:
        path.unlink()
    elif content == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(dssl.DsslError) as caught:
        DSSL.load(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_features_are_plain_json(fitted: DSSL, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    written = json.loads((tmp_path / "features.json").read_text())
    assert written["feature_names"] == ["a", "b", "c"]
    assert written["structure"] is None


def test_keywords_are_the_settings() -> None:
    model = DSSL(num_factors=4, encoder="gcn", preset="paper", learning_rate=np.float64(0.5), dim=np.int64(7))
    assert model.config.method.num_factors == 4
    assert model.config.encoder.name == "gcn"
    assert model.config.method.estimator == "gumbel"
    assert model.config.train.learning_rate == 0.5
    assert model.config.encoder.dim == 7
    signature = inspect.signature(DSSL)
    assert signature.parameters["num_factors"].default == 8
    assert "source_column" not in signature.parameters
    assert "num_factors: Number of latent factors" in (DSSL.__doc__ or "")


def test_wrong_keywords_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DSSL(num_factor=4, dim=0, encoder="gcm")
    for part in ("did you mean 'num_factors'", "encoder.dim is 0", "did you mean 'gcn'"):
        assert part in str(caught.value)
    with pytest.raises(ConfigError, match="'label_column' is not one of the model"):
        DSSL(label_column="x")


def test_parameters_in_the_manner_of_scikit_learn() -> None:
    from sklearn.base import clone

    model = small(preset="paper")
    assert model.get_params()["dim"] == 4
    assert model.get_params()["estimator"] == "gumbel"
    assert set(model.get_params()) == set(inspect.signature(DSSL).parameters)
    copy = clone(model)
    assert copy is not model
    assert copy.config == model.config
    assert copy.set_params(preset="default", dim=8) is copy
    assert (copy.config.encoder.dim, copy.config.method.estimator) == (8, "exact")
    assert model.config.encoder.dim == 4
    assert repr(DSSL(dim=3, encoder="gat")) == "DSSL(dim=3, encoder='gat')"
    assert DSSL(**model.get_params()).config == model.config


@pytest.mark.parametrize("encoder", ["gcn", "gat", "sage", "gin", "mlp", "hops"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_every_encoder_and_preset_trains(encoder: str, preset: str) -> None:
    values = small(encoder=encoder, preset=preset).fit_transform(two_blocks())
    assert np.isfinite(values).all()


def test_threads_are_put_back() -> None:
    import torch

    before = torch.get_num_threads()
    small(threads=1, epochs=1).fit(two_blocks())
    assert torch.get_num_threads() == before


def test_extreme_graphs_work() -> None:
    one = Graph.from_edges([], [], num_nodes=1, x=[[1.0, 2.0]])
    assert np.isfinite(small().fit_transform(one)).all()
    no_links = Graph.from_edges([], [], num_nodes=3, x=np.eye(3))
    assert np.isfinite(small().fit_transform(no_links)).all()
    bare = Graph.from_edges([0], [1], num_nodes=3)
    assert np.isfinite(small().fit_transform(bare)).all()
