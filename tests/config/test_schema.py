from __future__ import annotations

import tomllib
from pathlib import Path

import pydantic
import pytest

from dssl.config.fields import check, differences, locate, settings_of
from dssl.config.methods import METHODS
from dssl.config.recipes import read_recipe, recipes
from dssl.config.reference import reference, with_methods
from dssl.config.resolve import resolve, unused
from dssl.config.schema import PRESETS, Config
from dssl.config.toml import from_toml, to_toml
from dssl.errors import ConfigError
from dssl.graph import Graph
from dssl.model.estimator import Embedder

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_setting_has_a_sentence_and_a_default_within_its_bounds() -> None:
    rows = list(settings_of())
    assert len({row.path for row in rows}) == len(rows)
    for row in rows:
        assert row.help.endswith("."), row.path
        assert len(row.help) > 10, row.path
    assert from_toml(to_toml(Config()), "defaults") == Config()


def test_settings_tell_type_default_and_bounds() -> None:
    rows = {row.path: row for row in settings_of()}
    momentum = rows["method.momentum"]
    assert (momentum.kind, momentum.default, momentum.bounds) == ("a number", "0.99", "of at least 0 and at most 1")
    assert rows["graph.nodes"].default == "not set"
    assert rows["train.fanout"].default == "[10, 10]"
    assert rows["encoder.name"].allowed == "gcn, gat, sage, gin, mlp, hops or custom"


def test_round_trip_keeps_every_value() -> None:
    config = resolve(
        {"seed": 3, "nodes": 'a "b" ü.csv', "header": False, "fanout": [5, 3], "dropout": 0.1, "preset": "paper"}
    )
    assert from_toml(to_toml(config), "f.toml") == config
    assert config.train.fanout == (5, 3)
    assert tomllib.loads(to_toml(config))["graph"]["nodes"] == 'a "b" ü.csv'


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        Config().encoder.dim = 3  # type: ignore[misc]


def test_all_errors_come_at_once_in_one_line_with_paths_and_nearest_names(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[encoder]\ndimm = 3\nlayers = 0\n[trian]\nepochs = 1\n")
    with pytest.raises(ConfigError) as caught:
        resolve({"encoder": "gcm", "preset": "papr"}, file=file, settings=["momentum=2", "nam=1", "epochs", "name=x"])
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        f"{file}: unknown setting 'encoder.dimm', did you mean 'encoder.dim'?",
        f"{file}: encoder.layers is 0, but must be an integer of at least 1 and at most 16",
        f"{file}: unknown setting 'trian', did you mean 'train'?",
        "encoder.name is 'gcm', but must be gcn, gat, sage, gin, mlp, hops or custom, did you mean 'gcn'?",
        "unknown preset 'papr', did you mean 'paper'?",
        "--set: method.momentum is 2, but must be a number of at least 0 and at most 1",
        "--set: unknown setting 'nam', did you mean 'name'?",
        "--set: 'epochs' is not of the form key=value",
        "--set: setting 'name' is ambiguous; write one of encoder.name, method.name",
    ):
        assert part in message
    assert len(message.split("; ")) == 10  # the ambiguous one holds a semicolon


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs=true", "train.epochs is True, but must be an integer of at least 0"),
        ("epochs=1.5", "train.epochs is 1.5, but must be an integer of at least 0"),
        ('epochs="5"', "train.epochs is '5', but must be an integer of at least 0"),
        ("epochs=2024-01-01", "but must be an integer of at least 0"),
        ("learning_rate=0", "train.learning_rate is 0, but must be a number above 0"),
        ("learning_rate=nan", "train.learning_rate is nan, but must be a number above 0"),
        ("dropout=1", "encoder.dropout is 1, but must be a number of at least 0 and below 1"),
        ("center=yes", "method.center is 'yes', but must be true or false"),
        ("fanout=10,5", "train.fanout is '10,5', but must be a list of integers such as [10, 5]"),
        ("fanout=[]", "train.fanout is []"),
        ("seed=-1", "seed is -1"),
        ("train_share=0.9", "train_share and validation_share must sum to less than 1"),
        ("method=dsll", "did you mean 'dssl'?"),
    ],
)
def test_bad_values_are_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(settings=[text])
    assert said in str(caught.value)
    assert ";" not in str(caught.value)


def test_a_high_pass_is_of_hops_alone() -> None:
    assert resolve(settings=["high_pass=true"]).encoder.high_pass
    with pytest.raises(ConfigError, match=r"encoder: high_pass requires the encoder 'hops', not 'gcn'"):
        resolve(settings=["high_pass=true", "encoder=gcn"])


def test_a_section_must_be_a_table(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("train = 5\n")
    with pytest.raises(ConfigError, match="train is 5, but must be a table of settings"):
        resolve(file=file)
    with pytest.raises(ConfigError, match=r"x\.toml: train"):
        from_toml("train = 5", "x.toml")


def test_later_layers_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "odd", {"encoder": {"dim": 2, "hidden_dim": 2, "layers": 3, "dropout": 0.1}})
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[recipe]\ntitle = "x"\n[encoder]\nhidden_dim = 3\nlayers = 4\ndropout = 0.2\n[train]\nepochs = 7'
    )
    file = tmp_path / "file.toml"
    file.write_text("[encoder]\nlayers = 5\ndropout = 0.3\n[train]\nepochs = 8\n")
    config = resolve(
        {"preset": "odd", "recipe": str(recipe), "dropout": 0.4, "epochs": 9}, file=file, settings=["epochs=10"]
    )
    assert config.encoder.dim == 2  # preset over default
    assert config.encoder.hidden_dim == 3  # recipe over preset
    assert config.encoder.layers == 5  # file over recipe
    assert config.encoder.dropout == 0.4  # flag over file
    assert config.train.epochs == 10  # --set over flag
    assert config.train.patience == Config().train.patience


def test_a_file_may_name_its_preset_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text('preset = "paper"\n[method]\nname = "dssl"\n')
    assert resolve(file=file).method.estimator == "gumbel"
    assert resolve({"preset": "default"}, file=file).method.estimator == "exact"


def test_a_resolved_file_gives_the_same_again(tmp_path: Path) -> None:
    config = resolve({"preset": "paper"}, settings=["entropy_weight=0.5"])
    file = tmp_path / "config.toml"
    file.write_text(to_toml(config))
    assert resolve(file=file) == config


def test_a_complete_base_stands_in_for_preset_and_recipe() -> None:
    base = resolve({"preset": "paper", "dim": 32})
    config = resolve({"epochs": 3}, base=base.model_dump(exclude_none=True), settings=["dropout=0.5"])
    assert differences(base, config) == {
        "encoder.dropout": "encoder.dropout was 0.0, is 0.5",
        "train.epochs": "train.epochs was 100, is 3",
    }


def test_none_stands_for_not_given() -> None:
    assert resolve({"dim": None, "seed": None}) == Config()


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("dim=32", "encoder.dim", 32),
        ("encoder.dim = 32", "encoder.dim", 32),
        ("encoder=gat", "encoder.name", "gat"),
        ('encoder="gat"', "encoder.name", "gat"),
        ("dropout=0", "encoder.dropout", 0.0),
        ("source_column=1", "graph.source_column", "1"),
        ("nodes=a=b.csv", "graph.nodes", "a=b.csv"),
        ("device=cuda:0", "train.device", "cuda:0"),
        ("header=false", "graph.header", False),
        ("fanout=[3, 2, 1]", "train.fanout", (3, 2, 1)),
        ("label_column=true", "graph.label_column", "true"),
    ],
)
def test_set_takes_paths_leaves_and_literals(text: str, path: str, value: object) -> None:
    section, leaf = path.split(".")
    got = getattr(getattr(resolve(settings=[text]), section), leaf)
    assert got == value
    assert type(got) is type(value)


def test_a_method_brings_its_own_settings_and_defaults() -> None:
    config = resolve({"method": "dgi"})
    assert (config.method.name, config.encoder.name, config.graph.features) == ("dgi", "gcn", "raw")
    assert resolve({"method": "dgi"}, settings=["encoder=gat", "features=topics"]).graph.features == "topics"
    assert from_toml(to_toml(config), "f.toml") == config
    assert {row.path: row.value for row in settings_of("dgi")}["encoder.layers"] == config.encoder.layers
    with pytest.raises(ConfigError, match=r"'method\.num_factors' is one of the method dssl, not of dgi"):
        resolve({"method": "dgi"}, settings=["num_factors=3"])
    assert list(differences(resolve(), config))[:2] == ["graph.features", "encoder.name"]
    assert "method.num_factors" not in differences(resolve(), config)


def test_what_contradicts_the_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="preset paper has settings of the method dssl, not of dgi"):
        resolve({"method": "dgi", "preset": "paper"})
    with pytest.raises(ConfigError, match="recipe dgi has settings of the method dgi, not of gae"):
        resolve({"method": "gae", "recipe": "dgi"})
    assert resolve({"method": "dgi", "recipe": "dgi"}) == resolve({"recipe": "dgi", "method": "dgi"})


def test_settings_that_a_method_does_not_look_at_are_told() -> None:
    ignored = {"encoder.name": "gat", "encoder.hidden_dim": 3, "train.learning_rate": 0.1, "train.batch_size": 5}
    assert unused(resolve({"method": "line", "dim": 5, "epochs": 3, **ignored})) == list(ignored)
    assert not unused(resolve({"method": "gae", "dim": 5, "epochs": 3, **ignored}))
    assert not unused(resolve({"recipe": "line:cora"}))
    ring = Graph.from_edges([0, 1, 2], [1, 2, 0])
    found = Embedder(method="line", epochs=1, hidden_dim=3).fit(ring).warnings_
    assert found == ["encoder.hidden_dim: no effect, because the method line trains no encoder"]


@pytest.mark.parametrize("method", METHODS)
def test_settings_of_methods_are_told_from_all_others(method: str) -> None:
    rows = list(settings_of(method))
    assert len({row.path for row in rows}) == len(rows)
    others = {row.path.rpartition(".")[2] for row in rows if not row.method}
    own = {row.path.rpartition(".")[2] for row in rows if row.method} - {"name"}
    assert not own & others
    config = resolve({"method": method})
    assert config.method.name == method
    for row in rows:
        section, _, leaf = row.path.rpartition(".")
        got = getattr(getattr(config, section) if section else config, leaf)
        assert got == row.value or row.path == "method.name"
        if row.method and leaf != "name":
            assert locate(leaf) == row.path


def test_locate_prefers_the_full_path() -> None:
    assert locate("seed") == "seed"
    assert locate("recipe") == "recipe"
    assert locate("method") == "method.name"
    with pytest.raises(ConfigError, match=r"did you mean 'encoder\.dim'"):
        locate("encoder.dimm")


def test_the_settings_of_another_method_do_not_leak() -> None:
    with pytest.raises(ConfigError) as caught:
        check({"method": {"name": "other"}}, {}, [])
    assert str(caught.value).startswith("method.name is 'other', but must be dssl")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = [", "is not valid TOML"),
        ("a = 1\na = 2", "is not valid TOML"),
        ("[encoder]\ndim = 'x'", "encoder.dim is 'x'"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve(file=file)
    assert str(file) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a text file"):
        resolve(file=binary)
    with pytest.raises(ConfigError, match="No such file"):
        resolve(file=tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="directory"):
        resolve(file=tmp_path)


def test_an_unknown_recipe_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown recipe 'nope'"):
        resolve({"recipe": "nope"})


def test_a_recipe_needs_its_header(tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("[train]\nepochs = 1\n")
    with pytest.raises(ConfigError, match=r"\[recipe\] contains title"):
        resolve({"recipe": str(recipe)})
    recipe.write_text('[recipe]\ntitle = "t"\npaper = {accuracy = 83.06}\n[train]\nepochs = 1\n')
    assert read_recipe(str(recipe)).header.paper == {"accuracy": 83.06}
    assert resolve(file=recipe).train.epochs == 1


RECIPE = """
preset = "paper"
[recipe]
title = "t"
paper = {cora = 83.06, texas = 60}
[encoder]
dim = 7
[train]
epochs = 1
[datasets.texas.train]
epochs = 2
[datasets.texas]
preset = "default"
"""


@pytest.mark.parametrize("as_file", [False, True])
def test_a_recipe_may_differ_by_data_set(tmp_path: Path, as_file: bool) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text(RECIPE)

    def made(source: str, settings: tuple[str, ...] = ()) -> Config:
        if as_file:
            return resolve({"source": source}, file=recipe, settings=settings)
        return resolve({"source": source, "recipe": str(recipe)}, settings=settings)

    for source, epochs, preset in [("texas", 2, "default"), ("Texas", 2, "default"), ("cora", 1, "paper")]:
        config = made(source)
        assert (config.train.epochs, config.preset, config.encoder.dim) == (epochs, preset, 7)
    assert made("./texas").train.epochs == 1  # a file of that name is another graph
    assert made("texas", ("epochs=5",)).train.epochs == 5
    assert made("texas").method.estimator == "exact"
    assert made("cora").method.estimator == "gumbel"


def test_the_source_of_a_file_chooses_too_and_a_resolved_file_gives_the_same_again(tmp_path: Path) -> None:
    recipe, file = tmp_path / "r.toml", tmp_path / "c.toml"
    recipe.write_text(RECIPE)
    file.write_text(f'recipe = "{recipe}"\n[graph]\nsource = "texas"\n')
    config = resolve(file=file)
    assert config.train.epochs == 2
    assert resolve({"source": "cora"}, file=file).train.epochs == 1
    file.write_text(to_toml(config))
    assert resolve(file=file) == config


def test_the_settings_for_a_data_set_can_be_asked_for_on_any_graph() -> None:
    for name in recipes():
        for dataset in read_recipe(name).names:
            asked = resolve({"source": "edges.csv", "recipe": f"{name}:{dataset}"})
            chosen = resolve({"source": dataset, "recipe": name})
            same = {"recipe": "", "graph": Config().graph}
            assert asked.model_copy(update=same) == chosen.model_copy(update=same)
    with pytest.raises(ConfigError, match="recipe paper-terms: unknown data set 'coar', did you mean 'cora'"):
        resolve({"recipe": "paper-terms:coar"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("datasets = 3", "datasets must contain a table of sections per graph"),
        ("[datasets]\ntexas = 3", "datasets must contain a table of sections per graph"),
        ("[datasets.texas.train]\nepoch = 3", "datasets.texas: unknown setting 'train.epoch', did you mean"),
        ("[datasets.texas.train]\nepochs = -3", "datasets.texas: train.epochs is -3"),
        ("[datasets.texas]\ntrain = 1", "datasets.texas: train is 1, but must be a table of settings"),
    ],
)
def test_wrong_settings_of_a_data_set_are_named(tmp_path: Path, text: str, said: str) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'{text}\n[recipe]\ntitle = "t"\n')
    with pytest.raises(ConfigError) as caught:
        resolve({"recipe": str(recipe), "source": "texas"})
    assert said in str(caught.value)
    assert str(recipe) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "dataset"), [(name, dataset) for name in recipes() for dataset in ["", *read_recipe(name).names]]
)
def test_every_packaged_recipe_is_valid_for_every_data_set_it_names(name: str, dataset: str) -> None:
    from dssl.data.catalogue import DATASETS

    assert read_recipe(name).header.title
    config = resolve({"recipe": name, "source": dataset})
    assert (config.recipe, config.graph.source) == (name, dataset)
    assert not dataset or dataset.removesuffix("-public") in DATASETS


def test_the_recipe_on_the_papers_terms_keeps_to_them() -> None:
    recipe = read_recipe("paper-terms")
    for dataset in ["", *recipe.names]:
        config = resolve({"recipe": "paper-terms", "source": dataset})
        encoder = config.encoder
        assert (encoder.name, encoder.layers, config.graph.features) == ("gcn", 2, "raw")
        assert encoder.dim <= 64


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name: str) -> None:
    assert resolve({"preset": name}).preset == name


def test_the_generated_pages_are_up_to_date() -> None:
    page, methods = ((DOCS / name).read_text(encoding="utf-8") for name in ("configuration.md", "methods/README.md"))
    assert page == reference(), "run `make generate`"
    assert methods == with_methods(methods), "run `make generate`"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_this_package_has_a_page_with_its_command(method: str) -> None:
    text = (DOCS / "methods" / METHODS[method].traits.page).read_text(encoding="utf-8").replace("\n", " ")
    assert method == "dssl" or f"--method {method}`" in text


def test_the_preset_paper_is_algorithm_1_within_the_grid_of_the_paper() -> None:
    config = resolve({"preset": "paper"})
    encoder, method, train = config.encoder, config.method, config.train
    grid = {  # appendix "Experimental setup"
        train.learning_rate: (0.001, 0.005, 0.01),
        train.weight_decay: (5e-4, 1e-4, 5e-6, 1e-6),
        encoder.dim: (16, 32, 64),
        method.prototype_variance: (0.2, 0.4, 0.6, 0.8, 1.0),
        method.link_variance: (0.2, 0.4, 0.6, 0.8, 1.0),
        method.temperature: (0.2, 0.4, 0.6, 0.8, 1.0),  # lambda there, the temperature in the analysis
        method.shift_scale: (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        method.num_factors: (2, 4, 6, 8, 16, 32),
    }
    assert all(value in values for value, values in grid.items())
    assert (encoder.name, encoder.layers, encoder.dropout) == ("gcn", 2, 0.0)  # "a two-layer GCN"
    assert config.graph.features == "raw"
    assert method.prototype_variance >= 0.6  # "is better to be selected from 0.6 to 1.0"
    assert method.momentum == 0.9  # "the best result is achieved at tau = 0.9"
    assert method.estimator == "gumbel"  # Eq. 7, straight through
    assert method.head in ("product", "concat")  # "can be the element-wise product or concatenation"
    assert not method.head_scale
    assert (method.local_weight, method.global_weight, method.entropy_weight) == (1.0, 1.0, 1.0)  # Eq. 5
    assert method.prototype_update  # Algorithm 1: "at the end of each training epoch"
    assert method.prototype_pass
    assert train.batch_size  # "randomly select a mini-batch"; its size is not stated
    assert len(train.fanout) == 2  # "randomly sample its neighbors"
    ours = (method.balance_weight, method.reconstruction_weight, method.link_reconstruction_weight)
    assert (*ours, method.distillation_weight) == (0.0, 0.0, 0.0, 0.0)
    assert not method.center
    assert not method.projector
