from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import dssl
import dssl.model._keywords
from dssl.config import keywords
from dssl.config.methods import METHODS
from dssl.config.resolve import resolve
from dssl.errors import ConfigError, GraphError, RunError
from dssl.graph import Graph
from dssl.model.estimator import DSSL, Embedder, load_model
from tests.graphs import isolated_node


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
    values: dict[str, Any] = {"num_factors": 2, "dim": 4, "hidden_dim": 4, "features": "raw", "epochs": 3, "seed": 1}
    return DSSL(**{**values, **settings})


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


@pytest.mark.parametrize(
    "settings",
    [{"features": "topics"}]
    + [
        {"num_factors": 24, "distillation_weight": 0.0, **more}
        for more in ({}, {"batch_size": 256}, {"head": "product"})
    ]
    + [{"estimator": "gumbel", "distillation_weight": 0.0}]
    + [{"method": method} for method in ("gae", "vgae", "sage", "graphacl")],
)
def test_any_number_of_threads_gives_the_same_bytes(settings: dict[str, Any]) -> None:
    draw = np.random.default_rng(0)
    links = draw.integers(1500, size=(2, 6000))
    graph = Graph.from_edges(*links, num_nodes=1500, x=np.abs(draw.normal(size=(1500, 40))))
    made = []
    for threads in (1, 2, 2):
        config = resolve({"epochs": 2, "seed": 1, "threads": threads, "features": "raw", **settings})
        made.append(Embedder.from_config(config).fit(graph))
    for other in made[1:]:
        np.testing.assert_array_equal(made[0].embeddings_.values, other.embeddings_.values)
        assert made[0].metrics_ == other.metrics_


def test_the_number_of_threads_holds_from_the_first_training_on() -> None:
    code = """
import dssl, torch
from tests.model.test_estimator import two_blocks
torch.set_num_threads(2)
seen = set()
dssl.DSSL(threads=1, epochs=2).fit(two_blocks(), on_epoch=lambda _: seen.add(torch.get_num_threads()))
assert seen == {1}, seen
assert torch.get_num_threads() == 2
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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


def test_positions_and_roles_of_a_graph_without_features_are_not_those_of_one_with_them() -> None:
    graph = two_blocks().replace(x=None, feature_names=None)
    model = small(features="topics", epochs=1).fit(graph)
    grown = two_blocks(20).replace(x=None, feature_names=None)
    assert model.transform(grown).shape == (20, 4)
    with pytest.raises(GraphError, match="has 3 feature columns, but the model was fitted on a graph without"):
        model.transform(two_blocks())


@pytest.mark.parametrize("kind", ["dense", "sparse", "on disk"])
def test_rows_of_features_are_scaled_in_training_and_ever_after(kind: str, tmp_path: Path) -> None:
    graph = two_blocks()
    x = np.array(graph.x)
    x[3] = 0.0
    by_hand = np.stack([row / max(np.abs(row).sum(), 1e-30) for row in x])
    np.save(tmp_path / "x.npy", x)
    given = {"dense": x, "sparse": sparse.csr_array(x), "on disk": np.load(tmp_path / "x.npy", mmap_mode="r+")}[kind]
    model = small(row_scale=True, distillation_weight=0.0).fit(graph.replace(x=given))
    expected = small(distillation_weight=0.0).fit_transform(graph.replace(x=by_hand.astype(np.float32)))
    np.testing.assert_allclose(model.embeddings_.values, expected, atol=1e-5)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)  # what was given is as it was
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").transform(graph.replace(x=given)), model.embeddings_.values
    )
    stored = json.loads((tmp_path / "model" / "features.json").read_text())
    del stored["row_scale"]  # as a model has it that was saved before there was such a setting
    (tmp_path / "model" / "features.json").write_text(json.dumps(stored))
    assert load_model(tmp_path / "model").inputs.row_scale is False


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
    both = small(distillation_weight=0.0)  # the teacher of the factors uses the direction
    np.testing.assert_array_equal(both.fit_transform(directed), small(distillation_weight=0.0).fit_transform(plain))
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
        "embeddings.parquet",
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
    model = DSSL(num_factors=4, encoder="gcn", learning_rate=np.float64(0.5), dim=np.int64(7))  # type: ignore[arg-type]
    assert model.config == resolve({"num_factors": 4, "encoder": "gcn", "learning_rate": 0.5, "dim": 7})
    parameters = inspect.signature(DSSL).parameters
    assert (parameters["num_factors"].default, parameters["num_factors"].annotation) == (8, "int | Literal['auto']")
    assert "source_column" not in parameters
    assert "num_factors: Number of factors" in (DSSL.__init__.__doc__ or "")


@pytest.mark.parametrize("method", METHODS)
def test_the_defaults_of_the_signatures_are_those_of_the_settings(method: str) -> None:
    assert Embedder(method=method).config == resolve({"method": method})
    assert DSSL().config == resolve()


def test_the_generated_keywords_are_up_to_date() -> None:
    written = Path(dssl.model._keywords.__file__).read_text(encoding="utf-8")
    assert written == keywords.source(), "run `make generate`"


def test_layers_and_settings_of_a_method() -> None:
    model = Embedder(preset="paper", dim=7, settings={"num_factors": np.int64(3)})
    assert model.config == resolve({"preset": "paper", "dim": 7, "num_factors": 3})
    assert Embedder(recipe="dgi:cora").config == resolve({"recipe": "dgi:cora"})
    assert Embedder(method="bgrl", settings={"momentum": 0.5}).config == resolve({"method": "bgrl", "momentum": 0.5})
    with pytest.raises(ConfigError, match=r"'method\.num_factors' is one of the method dssl, not of dgi"):
        Embedder(method="dgi", settings={"num_factors": 3})
    with pytest.raises(ConfigError, match=r"unknown setting 'method\.dim'"):
        Embedder(method="dgi", settings={"dim": 3})


def test_a_model_is_built_without_enumerating_the_settings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up tables are cached: a second model creates no `Setting`."""
    Embedder(method="dgi", dim=8, epochs=3, seed=1)
    monkeypatch.setattr("dssl.config.fields._setting", None)
    model = Embedder(method="dgi", dim=9, epochs=4, seed=2)
    assert repr(model.set_params(dim=10)) == "Embedder(method='dgi', dim=10, epochs=4, seed=2)"


def test_wrong_keywords_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        DSSL(num_factors=0, dim=0, encoder="gcm")  # type: ignore[arg-type]
    for part in ("method.num_factors is 0", "encoder.dim is 0", "did you mean 'gcn'"):
        assert part in str(caught.value)
    for unknown in ("num_factor", "label_column", "method", "preset"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'"):
            DSSL(**{unknown: "x"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown parameter 'num_factor', did you mean 'num_factors'"):
        DSSL().set_params(num_factor=4)


def test_parameters_in_the_manner_of_scikit_learn() -> None:
    from sklearn.base import clone

    model = small(estimator="gumbel")
    assert model.get_params()["dim"] == 4
    assert model.get_params()["estimator"] == "gumbel"
    assert set(model.get_params()) == set(inspect.signature(DSSL).parameters)
    copy = clone(model)
    assert copy is not model
    assert copy.config == model.config
    assert copy.set_params(estimator="exact", dim=8) is copy
    assert (copy.config.encoder.dim, copy.config.method.estimator) == (8, "exact")
    assert model.config.encoder.dim == 4
    with pytest.raises(ConfigError, match=r"encoder\.dim is 0"):
        copy.set_params(dim=0)
    assert copy.get_params()["dim"] == copy.config.encoder.dim == 8  # an error changes nothing
    assert repr(DSSL(features="raw")) == "DSSL(features='raw')"
    assert repr(DSSL(dim=3, encoder="gat")) == "DSSL(encoder='gat', dim=3)"
    assert DSSL(**model.get_params()).config == model.config


@pytest.mark.filterwarnings("ignore:.*delay parameter validation until fit")
@pytest.mark.parametrize("model", [DSSL(), Embedder(method="dgi")])
@pytest.mark.parametrize(
    "name",
    [
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_mixin_order",
    ],
)
def test_checks_of_scikit_learn_that_need_no_table(name: str, model: Embedder) -> None:
    from sklearn.utils import estimator_checks

    getattr(estimator_checks, name)(type(model).__name__, model)


def test_a_model_is_a_step_of_a_pipeline(tmp_path: Path) -> None:
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.utils.validation import check_is_fitted

    draw = np.random.default_rng(0)
    y = np.arange(40) % 2
    graph = Graph.from_edges(*draw.integers(40, size=(2, 120)), x=draw.normal(size=(40, 3)) + 2 * y[:, None])
    steps = make_pipeline(DSSL(num_factors=2, dim=6, epochs=2), LogisticRegression())
    assert clone(steps).fit(graph, y).score(graph, y) > 0.8
    model = DSSL(num_factors=2, dim=4, epochs=2)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    assert "Not fitted" in model._repr_html_()
    check_is_fitted(model.fit(graph, y))
    assert "Fitted model" in model._repr_html_()
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(np.asarray(loaded.embeddings_), np.asarray(model.embeddings_))
    with pytest.raises(AttributeError, match="no attribute 'metrics_'"):
        loaded.metrics_  # noqa: B018
    assert "<table>" in graph._repr_html_()
    assert "<table>" in model.factors(graph)._repr_html_()


def test_parameters_of_an_embedder_of_any_method() -> None:
    from sklearn.base import clone

    model = Embedder(method="bgrl", settings={"momentum": 0.5}, dim=4)
    assert model.get_params()["settings__momentum"] == 0.5
    assert model.get_params()["hidden_dim"] is None
    assert set(model.get_params(deep=False)) == set(inspect.signature(Embedder).parameters)
    assert clone(model).config == Embedder(**model.get_params(deep=False)).config == model.config
    assert clone(model).set_params(settings__predictor_dim=3).config.method.model_dump() == {
        **model.config.method.model_dump(),
        "predictor_dim": 3,
    }
    other = clone(model).set_params(method="dgi", settings=None)
    assert other.config == resolve({"method": "dgi", "dim": 4})  # with the defaults of the other method
    assert repr(model) == "Embedder(method='bgrl', settings={'momentum': 0.5}, dim=4)"
    config = resolve({"preset": "paper", "recipe": "paper-terms:cora", "batch_norm": True})
    for again in (Embedder.from_config(config), Embedder.from_config(resolve({"method": "gca", "layers": 3}))):
        copy = clone(again)
        assert type(copy) is type(again)
        same = {"preset": again.config.preset, "recipe": again.config.recipe}
        assert copy.config.model_copy(update=same) == again.config


@pytest.mark.parametrize("encoder", ["gcn", "gat", "sage", "gin", "mlp", "hops"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_every_encoder_and_preset_trains(encoder: str, preset: str) -> None:
    settings = {"num_factors": 2}
    model = Embedder(encoder=encoder, preset=preset, dim=4, hidden_dim=4, features="raw", epochs=3, settings=settings)
    values = model.fit_transform(two_blocks())
    assert np.isfinite(values).all()


def test_a_small_graph_has_one_thread() -> None:
    import torch

    seen: set[int] = set()
    before = torch.get_num_threads()
    small(epochs=1).fit(two_blocks(), on_epoch=lambda _: seen.add(torch.get_num_threads()))
    assert seen == {1} and torch.get_num_threads() == before


def test_threads_are_put_back() -> None:
    import torch

    before = torch.get_num_threads()
    small(threads=1, epochs=1).fit(two_blocks())
    assert torch.get_num_threads() == before


def test_extreme_graphs_work() -> None:
    one = Graph.from_edges([], [], num_nodes=1, x=[[1.0, 2.0]])
    assert np.isfinite(small().fit_transform(one)).all()
    no_links = Graph.from_edges([], [], num_nodes=3, x=np.eye(3))
    model = small().fit(no_links)
    assert np.isfinite(model.embeddings_.values).all()
    assert [words.partition(";")[0] for words in model.warnings_] == ["the graph has no edges to learn from"]
    bare = Graph.from_edges([0], [1], num_nodes=3)
    assert np.isfinite(small().fit_transform(bare)).all()


def test_the_examples_of_the_page_on_use_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "using.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec("\n".join(blocks), names)
    assert {"later.parquet", "links.parquet", "nodes.parquet", "own-model"} == {
        path.name for path in tmp_path.iterdir()
    }
    assert 10 <= names["model"].epochs_ < 500


# --- factors ---------------------------------------------------------------------------------------------------


def test_factors_are_distributions_with_the_ids_of_the_links(fitted: DSSL) -> None:
    graph = two_blocks()
    found = fitted.factors(graph)
    links = found.links_table()
    pairs = set(zip(links["source"].to_pylist(), links["target"].to_pylist(), strict=True))
    assert pairs == {(f"n{a}", f"n{b}") for a, b in zip(graph.sources(), graph.indices, strict=True)}
    assert found.links.shape == (len(pairs), 2)
    np.testing.assert_allclose(found.links.sum(axis=1), 1, rtol=1e-5)
    for node in range(graph.num_nodes):  # q(k | v_i) is the mean over the links of a node
        np.testing.assert_allclose(found.nodes[node], found.links[found.source == node].mean(axis=0), rtol=1e-4)


def test_factors_do_not_depend_on_how_a_graph_is_written_down(fitted: DSSL, tmp_path: Path) -> None:
    plain = two_blocks()
    order = np.random.default_rng(3).permutation(plain.num_nodes)
    at = np.argsort(order)
    once = plain.sources() < plain.indices
    shuffled = Graph.from_edges(
        np.append(at[plain.indices[once]], [4]),
        np.append(at[plain.sources()[once]], [4]),
        ids=[f"n{i}" for i in order],
        x=np.asarray(plain.x)[order],
        directed=True,
        self_loops="keep",
    )

    def by_link(model: DSSL, graph: Graph) -> dict[tuple[str, str], list[float]]:
        rows = model.factors(graph).links_table().to_pylist()
        return {(row["source"], row["target"]): row["q"] for row in rows}

    first, second = by_link(fitted, plain), by_link(fitted, shuffled)
    assert first.keys() == second.keys()
    for link, q in first.items():
        np.testing.assert_allclose(q, second[link], rtol=1e-3, atol=1e-5)
    fitted.save(tmp_path)
    assert by_link(load_model(tmp_path), plain) == first


def test_a_node_without_links_has_no_factor() -> None:
    graph = isolated_node()
    model = small().fit(graph)
    assert model.factors(graph).nodes_table().to_pylist()[2] == {"id": "alone", "factor": None, "q": [0.0, 0.0]}


def test_factors_need_a_fitted_model_and_a_method_that_has_them(fitted: DSSL) -> None:
    with pytest.raises(RunError, match="not fitted yet"):
        small().factors(two_blocks())
    with pytest.raises(GraphError, match="takes a dssl"):
        fitted.factors(np.eye(3))  # type: ignore[arg-type]
    other = Embedder(method="dgi", dim=2, epochs=1).fit(two_blocks())
    with pytest.raises(RunError, match="the method 'dgi' has no factors"):
        other.factors(two_blocks())
    with pytest.raises(RunError, match="the method 'dgi' has no factors"):
        other.link_scores(two_blocks(), [[0, 1]])


def test_link_scores_follow_the_links_that_the_model_sees(fitted: DSSL, tmp_path: Path) -> None:
    graph = two_blocks()
    pairs = np.array([[0, 1], [3, 9]])
    scores = fitted.link_scores(graph, pairs)
    assert scores.shape == (2,)
    np.testing.assert_allclose(fitted.link_scores(graph, pairs[:, ::-1]), scores, rtol=1e-5)
    arcs = Graph.from_edges(graph.sources(), graph.indices, ids=graph.ids, x=graph.x, directed=True)
    np.testing.assert_allclose(fitted.link_scores(arcs, pairs), scores, rtol=1e-5)  # links count both ways for it
    assert fitted.link_scores(graph, np.empty((0, 2))).shape == (0,)
    fitted.save(tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path).link_scores(graph, pairs.tolist()), scores)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([0, 1], "shape (2,)"),
        ([[0, 1, 2]], "shape (1, 3)"),
        ([[0.0, 1.0]], "float64"),
        ([[0, 12]], "'two-blocks' has 0 to 11"),
        ([[-1, 2]], "from -1 to 2"),
    ],
)
def test_pairs_that_are_none_are_named(fitted: DSSL, pairs: list[Any], said: str) -> None:
    with pytest.raises(GraphError, match=re.escape(said)) as error:
        fitted.link_scores(two_blocks(), pairs)
    assert "\n" not in str(error.value)


# --- warm start ------------------------------------------------------------------------------------------------


def planted(nodes: int, *, seed: int = 0) -> Graph:
    """Four groups that link in a ring; the first nodes and their links do not depend on how many follow."""
    generator = np.random.default_rng(seed)
    rows, links = [], []
    for node in range(nodes):
        rows.append(np.eye(4)[node % 4] + generator.normal(scale=0.3, size=4))
        others = generator.integers(0, max(node, 1), size=3)
        links += [(node, other) for other in others if (node - other) % 4 in (1, 3)]
    start, end = np.array(links).T
    ids = [f"n{i}" for i in range(nodes)]
    return Graph.from_edges(start, end, num_nodes=nodes, ids=ids, x=np.array(rows), name="planted")


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_a_warm_start_begins_where_training_ended_and_keeps_old_vectors_close() -> None:
    old, grown = planted(160), planted(200)
    options = {"num_factors": 4, "dim": 8, "hidden_dim": 8, "learning_rate": 0.02}
    model = small(**options, epochs=60).fit(old)
    before = model.embeddings_.values
    cold = small(**options, epochs=60).fit(grown)
    warm = model.set_params(epochs=5).fit(grown, warm=True)
    assert warm.epochs_ == 5
    assert [record["epoch"] for record in warm.metrics_] == [1, 2, 3, 4, 5]
    assert warm.metrics_[-1]["loss"] < cold.metrics_[4]["loss"]
    assert warm.embeddings_.ids.to_pylist() == grown.ids.to_pylist()
    close, far = (cosines(other.embeddings_.values[:160], before).mean() for other in (warm, cold))
    assert close > 0.9
    assert close > far
    assert not np.array_equal(warm.embeddings_.values[:160], before)


def turned(nodes: int) -> Graph:
    """`planted`, where nodes from the 160th on have features that turn the leading components of all of them."""
    graph = planted(nodes)
    x = np.array(graph.x)
    x[160:] = 3 * x[160:] @ np.random.default_rng(7).normal(size=(4, 4))
    return graph.replace(x=x)


@pytest.mark.parametrize("batch_size", [0, 64])
def test_a_warm_start_goes_on_at_the_loss_where_training_ended(tmp_path: Path, batch_size: int) -> None:
    options: dict[str, object] = {"num_factors": 4, "dim": 8, "hidden_dim": 8, "learning_rate": 0.02}
    model = small(**options, epochs=60, batch_size=batch_size).fit(turned(160))
    cold = model.metrics_
    model.save(tmp_path)
    again = load_model(tmp_path).set_params(epochs=1).fit(turned(160), warm=True).metrics_
    span = cold[0]["loss"] - cold[-1]["loss"]
    assert abs(again[0]["loss"] - cold[-1]["loss"]) < 0.1 * span
    # What is reconstructed of the features stays the same, though the grown graph's own components are others.
    grown = load_model(tmp_path).set_params(epochs=1).fit(turned(200), warm=True).metrics_
    fresh = small(**options, epochs=1, batch_size=batch_size).fit(turned(200)).metrics_
    lost, learnt = (before[0]["reconstruction"] - cold[-1]["reconstruction"] for before in (fresh, cold))
    assert grown[0]["reconstruction"] - cold[-1]["reconstruction"] < 0.25 * min(lost, learnt)


def test_a_warm_start_is_the_same_from_memory_and_from_a_folder_each_time(tmp_path: Path) -> None:
    old, grown = two_blocks(), two_blocks(20)
    model = small(features="topics").fit(old)
    model.save(tmp_path)
    first = model.fit(grown, warm=True).embeddings_.values
    for _ in range(2):
        again = load_model(tmp_path).fit(grown, warm=True)
        assert again.embeddings_.values.tobytes() == first.tobytes()
    np.testing.assert_array_equal(again.transform(grown), first)
    again.save(tmp_path / "second")
    np.testing.assert_array_equal(load_model(tmp_path / "second").transform(grown), first)


def test_the_closed_form_keeps_its_axes_in_a_warm_start() -> None:
    old, grown = two_blocks(), two_blocks(20)
    model = small(features="topics", epochs=0).fit(old)
    before = model.transform(grown)
    after = model.fit(grown, warm=True).embeddings_.values
    np.testing.assert_array_equal(after, before)
    trained = model.set_params(epochs=2).fit(old).transform(grown)
    assert not np.array_equal(model.fit(grown, warm=True).embeddings_.values, trained)


def test_a_warm_start_needs_a_fitted_model_and_the_same_columns() -> None:
    with pytest.raises(RunError, match="not fitted yet"):
        small().fit(two_blocks(), warm=True)
    model = small().fit(two_blocks())
    before = model.transform(two_blocks())
    with pytest.raises(GraphError, match="feature column 2 is 'c'"):
        model.fit(two_blocks(names=("a", "c", "b")), warm=True)
    np.testing.assert_array_equal(model.transform(two_blocks()), before)


def test_settings_of_training_leave_a_model_fitted_and_others_do_not() -> None:
    graph = two_blocks()
    model = small().fit(graph)
    before = model.transform(graph)
    np.testing.assert_array_equal(model.set_params(epochs=9, learning_rate=0.1).transform(graph), before)
    with pytest.raises(ConfigError, match=r"keeps the encoder and the method \(encoder.dim was 4, is 5\)"):
        model.continue_with(small(dim=5).config)
    assert model.continue_with(small(epochs=7).config).config.train.epochs == 7
    with pytest.raises(RunError, match="not fitted yet"):
        model.set_params(num_factors=3).transform(graph)


# --- an encoder of one's own -----------------------------------------------------------------------------------


def own_encoder(seed: int = 0, *, out: int = 5, **attributes: object) -> Any:
    import torch
    from torch import nn

    class Mean(nn.Module):
        """The mean of the neighbours beside the node itself, through one layer."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, out)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            start, end = edge_index
            total = torch.zeros_like(x).index_add(0, end, x[start])
            degree = torch.zeros(len(x)).index_add(0, end, torch.ones(len(start))).clamp_min(1)
            return self.linear(torch.cat([x, total / degree[:, None]], dim=1))

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = Mean()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def with_own(module: Any, **settings: object) -> DSSL:
    return DSSL(encoder=module, num_factors=2, features="raw", epochs=3, seed=1, **settings)


@pytest.mark.parametrize("batch_size", [0, 5])
def test_a_module_of_ones_own_is_trained_saved_and_loaded(tmp_path: Path, batch_size: int) -> None:
    graph, module = two_blocks(), own_encoder(out_channels=5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = with_own(module, batch_size=batch_size).fit(graph)
    assert model.transform(graph).shape == (12, 5)
    assert model.transform(two_blocks(20)).shape == (20, 5)
    for name, value in module.state_dict().items():
        assert value.equal(before[name])  # fit trains a copy, and so gives the same again
    first = model.embeddings_.values
    assert model.fit(graph).embeddings_.values.tobytes() == first.tobytes()
    model.save(tmp_path)
    again = DSSL.load(tmp_path, encoder=own_encoder(seed=9))
    np.testing.assert_array_equal(again.transform(graph), first)
    assert again.fit(two_blocks(20), warm=True).embeddings_.values.shape == (20, 5)


def test_training_starts_from_the_weights_of_the_module() -> None:
    import torch

    graph, module = two_blocks(), own_encoder(out_channels=5)
    values = with_own(module).set_params(epochs=0).fit_transform(graph)
    edge_index = torch.tensor(np.stack([graph.sources(), graph.indices]), dtype=torch.int64)
    with torch.no_grad():
        wanted = module(torch.tensor(np.asarray(graph.x)), edge_index)
    np.testing.assert_allclose(values, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_model_with_a_module_needs_it_again(tmp_path: Path, fitted: DSSL) -> None:
    from torch import nn

    with_own(own_encoder(), dim=5).fit(two_blocks()).save(tmp_path)
    with pytest.raises(RunError, match="has a custom encoder, whose code is not stored; pass it"):
        load_model(tmp_path)
    with pytest.raises(RunError, match="damaged or of another model"):
        load_model(tmp_path, encoder=alone(nn.Linear(3, 5)))
    fitted.save(tmp_path)
    with pytest.raises(ConfigError, match="fitted with the encoder 'hops'; load it without a module"):
        load_model(tmp_path, encoder=own_encoder())


def alone(layer: Any) -> Any:
    """A module that looks at no link."""
    from torch import nn

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.tied = layer, layer

        def forward(self, x: Any, edge_index: Any) -> Any:
            return self.tied(x)

    return Module()


def test_a_module_with_lazy_or_tied_weights_works(tmp_path: Path) -> None:
    from torch import nn

    model = with_own(alone(nn.LazyLinear(5)), dim=5).fit(two_blocks())
    model.save(tmp_path)
    again = load_model(tmp_path, encoder=alone(nn.LazyLinear(5)))
    np.testing.assert_array_equal(again.transform(two_blocks()), model.embeddings_.values)


@pytest.mark.parametrize(
    ("module", "settings", "said"),
    [
        (lambda: own_encoder(), {}, "has no attribute out_channels or dim: set dim to the length of its rows"),
        (lambda: own_encoder(), {"dim": 4}, r"gives shape \(2, 5\) for two nodes; it must give shape \(2, 4\)"),
        (lambda: 3, {}, "encoder is of type int; give a name, or a torch.nn.Module"),
        (lambda: "custom", {}, "is a torch module: pass the module itself"),
        (lambda: alone(__import__("torch").nn.Linear(9, 5)), {"dim": 5}, r"fails on x of shape \(2, 3\)"),
        (lambda: alone(lambda x: [x]), {"dim": 5}, "gives list for two nodes"),
    ],
)
def test_a_module_that_does_not_fit_is_one_line(module: Callable[[], Any], settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        with_own(module(), **settings).fit(two_blocks())
    assert "\n" not in str(caught.value)


def test_a_module_is_a_parameter_like_any_other() -> None:
    from sklearn.base import clone

    module = own_encoder(out_channels=5)
    model = with_own(module)
    assert model.config.encoder.dim == 5
    assert model.get_params()["encoder"] is module
    assert repr(model).startswith("DSSL(num_factors=2, encoder=Mean(…), features='raw'")
    assert clone(model).get_params()["encoder"] is module
    assert DSSL(**model.get_params()).config == model.config
    assert model.set_params(encoder="gcn").config.encoder.name == "gcn"
