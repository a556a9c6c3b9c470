"""Every setting once: its name, default, bounds and help sentence, as frozen models that go to and from TOML.

Everything that is wrong with a configuration is reported together, each with its path and the nearest valid name.
`dssl.resolve` puts a configuration together; nothing below `dssl.model` sees one: classes take plain values.
"""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import tomli_w
from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from dssl import sections as of
from dssl.errors import ConfigError, nearest
from dssl.sections import MethodSection, Section, Traits


class GraphSettings(Section):
    """What is read, and how."""

    source: str = Field(default="", description="Data set name, python: or synthetic: spec, or edge file.")
    nodes: str | None = Field(default=None, description="File with a row per node: id, label and features.")
    source_column: str | None = Field(default=None, description="Column of the edge file with the start of each link.")
    target_column: str | None = Field(default=None, description="Column of the edge file with the end of each link.")
    weight_column: str | None = Field(default=None, description="Column of the edge file with the weight of each link.")
    id_column: str | None = Field(default=None, description="Column of the node file with the ids.")
    label_column: str | None = Field(default=None, description="Column of the node file with the class of each node.")
    feature_columns: tuple[str, ...] | None = Field(
        default=None, strict=False, description="Columns of the node file that become features; by default all others."
    )
    header: bool | None = Field(default=None, description="Whether the first line of the edge file names the columns.")
    directed: bool = Field(default=False, description="Keep the direction of links; otherwise each counts both ways.")
    self_loops: Literal["remove", "keep"] = Field(
        default="remove", description="What to do with links from a node to itself."
    )
    structure: Literal["auto", "degree", "svd", "identity"] = Field(
        default="auto", description="Features made from the links when the nodes have none."
    )
    structure_dim: int = Field(default=64, ge=1, description="Number of columns of the features made from the links.")


class EncoderSettings(Section):
    """The network that turns features and links into vectors."""

    name: Literal["gcn", "gat", "sage", "gin", "mlp", "hops", "custom"] = Field(
        default="hops", description="Kind of encoder; custom is a torch module of yours, given in Python."
    )
    dim: int = Field(default=64, ge=1, description="Length of the trained vector of a node.")
    hidden_dim: int = Field(default=64, ge=1, description="Width of the hidden layers.")
    layers: int = Field(default=2, ge=1, le=16, description="Number of layers: how many links away a node sees.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Share of hidden values dropped in training.")
    batch_norm: bool | None = Field(
        default=None,
        description="Normalise each hidden value over the nodes; by default with hops on fewer features than dim / 4.",
    )
    high_pass: bool = Field(
        default=False, description="Of hops: also how a node's features differ from the mean of its neighbours'."
    )
    skip: bool = Field(
        default=True, description="Put principal components of features and links beside the trained vector."
    )
    skip_dim: int = Field(
        default=64,
        ge=1,
        description="Components of the features and of each of their averages; twice of smoothed ones.",
    )
    skip_link_dim: int = Field(default=256, ge=1, description="Components of the links.")

    @model_validator(mode="after")
    def _keep_high_pass_to_hops(self) -> EncoderSettings:
        if self.high_pass and self.name != "hops":
            raise ValueError(f"high_pass is of the encoder 'hops', not of {self.name!r}")
        return self


class DSSLSettings(MethodSection):
    """Decoupled self-supervised learning; the paper's symbols in brackets."""

    traits = Traits(
        "dssl:DSSLModel",
        "Xiao et al., NeurIPS 2022",
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales="links; mini-batches",
    )
    name: Literal["dssl"] = Field(default="dssl", description="Method that trains the encoder.")
    num_factors: int = Field(default=8, ge=1, le=1024, description="Number of latent factors behind the links [K].")
    relation: Literal["shift", "map"] = Field(
        default="shift", description="How a factor leads from a node to its neighbour: by a shift, or by a matrix."
    )
    shift_scale: float = Field(default=0.6, ge=0, description="Strength of the shift or the matrix of a factor [beta].")
    prototype_variance: float = Field(default=0.2, gt=0, description="Variance of nodes around prototypes [sigma1^2].")
    link_variance: float = Field(
        default=0.1, gt=0, description="Variance of a neighbour around its prediction [sigma2^2]."
    )
    momentum: float = Field(
        default=0.99, ge=0, le=1, description="Share of the target encoder kept in each step [tau]."
    )
    estimator: Literal["exact", "gumbel", "gumbel-soft"] = Field(
        default="exact", description="How the expectation over the factors is taken."
    )
    temperature: float = Field(default=0.5, gt=0, description="Temperature of the Gumbel estimators [gamma].")
    inference: Literal["amortised", "exact", "uniform"] = Field(
        default="amortised",
        description="Where the posterior of a link comes from: a network, the closed form, or nowhere.",
    )
    head: Literal["concat", "product"] = Field(
        default="concat", description="How the inference network joins two nodes."
    )
    local_weight: float = Field(default=1.0, ge=0, description="Weight of predicting the neighbours.")
    global_weight: float = Field(default=1.0, ge=0, description="Weight of agreeing with the prototypes.")
    entropy_weight: float = Field(default=0.1, ge=0, description="Weight of the entropy of each link's posterior.")
    balance_weight: float = Field(default=0.2, ge=0, description="Weight of the entropy of the mean posterior.")
    prototype_update: bool = Field(
        default=True, description="Set the prototypes from all nodes after each epoch [Eq. 8]."
    )
    center: bool = Field(default=True, description="Subtract the mean before vectors are scaled to length one.")
    projector: bool = Field(default=True, description="Train through a projection that the embedding is taken before.")
    reconstruction_weight: float = Field(default=5.0, ge=0, description="Weight of reconstructing the features.")
    reconstruction_dim: int = Field(default=256, ge=1, description="Components of the features that are reconstructed.")
    link_reconstruction_weight: float = Field(
        default=5.0, ge=0, description="Weight of reconstructing the links, where they can be foretold."
    )
    link_reconstruction_dim: int = Field(
        default=128, ge=1, description="Components of the links that are reconstructed."
    )
    negatives: int = Field(default=0, ge=0, description="Random nodes per node that it is pushed away from.")
    distillation_weight: float = Field(
        default=1.0, ge=0, description="Weight of teaching the factors the clusters of linked pairs of nodes."
    )
    factor_readout: bool = Field(
        default=False, description="Put the mean of the neighbours' vectors for each factor beside a node's own."
    )


MethodSettings = Annotated[
    DSSLSettings
    | of.DGISettings
    | of.GAESettings
    | of.VGAESettings
    | of.GraphCLSettings
    | of.MVGRLSettings
    | of.BGRLSettings
    | of.GCASettings
    | of.SAGESettings
    | of.CCASSGSettings
    | of.GraphACLSettings
    | of.DeepWalkSettings
    | of.Node2VecSettings
    | of.LINESettings
    | of.Struc2VecSettings,
    Field(discriminator="name"),
]
METHODS: dict[str, type[MethodSection]] = {
    part.model_fields["name"].default: part for part in get_args(get_args(MethodSettings)[0])
}


LARGE_BATCH, LARGE_STEPS = 1024, 4000  # of a graph that is too large to be taken at once, unless the user says


class TrainSettings(Section):
    """The training loop."""

    epochs: int = Field(default=100, ge=0, description="Passes over all nodes; 0 leaves the encoder as initialised.")
    learning_rate: float = Field(default=0.005, gt=0, description="Step size of Adam.")
    weight_decay: float = Field(default=0.0, ge=0, description="Pull of the weights towards zero.")
    batch_size: int | None = Field(
        default=None,
        ge=0,
        description="Centre nodes per step; 0 takes all at once. By default all of up to 50,000 nodes, and of more "
        "1,024, in as many epochs as make 4,000 steps, if these are fewer.",
    )
    fanout: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(10, 10), min_length=1, strict=False, description="Neighbours sampled per layer in mini-batches."
    )
    device: str = Field(default="auto", description="auto, cpu, or a torch device such as cuda:0.")
    threads: int = Field(default=0, ge=0, description="CPU threads; 0 leaves the choice to torch.")
    log_every: int = Field(default=1, ge=1, description="Epochs between two lines of metrics.jsonl.")
    checkpoint_every: int = Field(default=10, ge=1, description="Epochs between two states to resume from.")
    patience: int = Field(
        default=0, ge=0, description="Epochs to average the loss over, to stop when it levels off; 0 never stops."
    )
    tolerance: float = Field(
        default=0.01, ge=0, lt=1, description="Share of the loss's decrease so far that patience epochs must add."
    )
    start_from: str = Field(default="", description="Run whose weights training starts from, as by --from.")

    def for_graph(self, num_nodes: int, *, encoder: bool = True) -> TrainSettings:
        """Return the settings with what the size of the graph decides; a method without an encoder has no batches.

        >>> chosen = TrainSettings().for_graph(1_000_000)
        >>> chosen.batch_size, chosen.epochs
        (1024, 4)
        >>> TrainSettings(epochs=7).for_graph(50_000).batch_size
        0
        """
        from dssl.disk import LARGE

        if self.batch_size is not None:
            return self
        if num_nodes <= LARGE or not encoder:
            return self.model_copy(update={"batch_size": 0})
        epochs = min(self.epochs, max(LARGE_STEPS * LARGE_BATCH // num_nodes, 1))
        return self.model_copy(update={"batch_size": LARGE_BATCH, "epochs": epochs, "checkpoint_every": 1})


class EvaluateSettings(Section):
    """How embeddings are judged."""

    protocol: Literal["random", "geom-gcn", "linkx", "heterophilous", "public"] = Field(
        default="random", description="Splits of the labelled nodes: random, or those published with a data set."
    )
    splits: int = Field(default=10, ge=1, le=1000, description="Number of random splits; published ones are all taken.")
    split_seed: int = Field(
        default=0, ge=0, lt=2**32, description="Seed of the splits: runs of other seeds are judged on the same ones."
    )
    train_share: float = Field(
        default=0.6, gt=0, lt=1, description="Share of labelled nodes that train the linear probe."
    )
    validation_share: float = Field(
        default=0.2, gt=0, lt=1, description="Share of labelled nodes that choose its settings."
    )
    scaling: Literal["chosen", "global", "columns", "plain"] = Field(
        default="chosen",
        description="Scaling of the columns for the probe: global or by columns as validation has it, or one of three.",
    )
    links: bool = Field(default=False, description="Train once more without some of the links, and rank those.")

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of train, validation and test in random splits."""
        return (self.train_share, self.validation_share, 1 - self.train_share - self.validation_share)

    @model_validator(mode="after")
    def _leave_a_test_part(self) -> EvaluateSettings:
        if self.train_share + self.validation_share >= 1:
            raise ValueError("train_share and validation_share must sum to less than 1, to leave nodes for testing")
        return self


class Config(Section):
    r"""A complete configuration.

    >>> from_toml("seed = 3\n[encoder]\ndim = 32", "example.toml").encoder.dim
    32
    """

    seed: int = Field(default=0, ge=0, lt=2**32, description="Every use of chance follows from it.")
    preset: str = Field(default="default", description="Named settings to start from: default or paper.")
    recipe: str = Field(default="", description="Published settings to start from: NAME, NAME:DATASET or a TOML file.")
    graph: GraphSettings = GraphSettings()
    encoder: EncoderSettings = EncoderSettings()
    method: MethodSettings = DSSLSettings()
    train: TrainSettings = TrainSettings()
    evaluate: EvaluateSettings = EvaluateSettings()


PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "default": {},
    # The paper to the letter, with the collapse that docs/methods/dssl.md shows.
    "paper": {
        "encoder": {"name": "gcn", "skip": False},
        "method": {
            "estimator": "gumbel",
            "head": "product",
            "entropy_weight": 1.0,
            "balance_weight": 0.0,
            "center": False,
            "projector": False,
            "reconstruction_weight": 0.0,
            "link_reconstruction_weight": 0.0,
            "distillation_weight": 0.0,
        },
    },
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table of settings.

    Args:
        path: dotted path, such as ``encoder.dim``.
        kind: what it holds, in words: ``an integer``.
        default: the default, as written in TOML; ``not set`` where leaving it out means something.
        bounds: such as ``at least 1``, or empty.
        help: one sentence.
        value: the default itself.
        method: the method that it is a setting of, or empty.
    """

    path: str
    kind: str
    default: str
    bounds: str
    help: str
    value: Any
    method: str = ""

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        return f"{self.kind} {self.bounds}".rstrip()


def settings(method: str = "dssl") -> Iterator[Setting]:
    """Yield every setting of a configuration with a method, with its defaults, in the order of the sections.

    >>> next(row for row in settings() if row.path == "encoder.dim").allowed
    'an integer of at least 1'
    >>> [row.default for row in settings("dgi") if row.path == "encoder.name"]
    ['"gcn"']
    """
    chosen = METHODS.get(method, DSSLSettings)
    own = chosen.traits.defaults
    for name, field in Config.model_fields.items():
        sections = sections_of(field.annotation)
        if not sections:
            yield _setting(name, field)
        for section in [chosen] if len(sections) > 1 else sections:
            for leaf, inner in section.model_fields.items():
                yield _setting(f"{name}.{leaf}", inner, own.get(name, {}), chosen if name == "method" else None)


def every_setting() -> Iterator[Setting]:
    """Yield the settings with the default method, and those that only other methods have."""
    for method in METHODS:
        yield from (row for row in settings(method) if method == "dssl" or (row.method and row.path != "method.name"))


def from_toml(text: str, origin: str) -> Config:
    """Read a configuration as it stands, without applying its preset; ``origin`` names the file in errors."""
    tables = parse_toml(text, origin)
    return check(tables, dict.fromkeys(tables, origin), [])


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML; what is malformed is one line that names ``origin``."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: is not valid TOML: {error}".replace("\n", " ")) from None


def to_toml(config: Config) -> str:
    """Write a configuration, every value included; what is not set is left out."""
    return tomli_w.dumps(config.model_dump(exclude_none=True))


def locate(key: str) -> str:
    """Return the dotted path that a key stands for: a path, its last part if unique, or a section with a name.

    >>> locate("dim"), locate("train.epochs"), locate("encoder")
    ('encoder.dim', 'train.epochs', 'encoder.name')
    """
    paths = list(dict.fromkeys(row.path for row in every_setting()))
    if key in paths:
        return key
    if f"{key}.name" in paths:
        return f"{key}.name"
    ends = [path for path in paths if path.rpartition(".")[2] == key]
    if len(ends) == 1:
        return ends[0]
    if ends:
        raise ConfigError(f"setting {key!r} is ambiguous; write one of {', '.join(ends)}")
    raise ConfigError(f"unknown setting {key!r}{near(key)}")


def near(key: str) -> str:
    """Return a hint at the nearest setting or section, in the form that the key has, or an empty text."""
    paths = [row.path for row in every_setting()]
    leaves = [*(path.rpartition(".")[2] for path in paths), *Config.model_fields]
    return nearest(key, paths if "." in key else leaves) or nearest(key.rpartition(".")[2], leaves)


def reference() -> str:
    """Return the page docs/configuration.md: every setting with its values, default and meaning."""
    lines = [
        "# Configuration",
        "",
        "Every setting, as `dssl settings --markdown` writes it. Set one with `--set encoder.dim=32`, with its last "
        "part alone where that is unique (`--set dim=32`), in a TOML file (`--config my.toml`), or in Python: "
        "`dssl.DSSL(dim=32)`.",
        "",
        "Later ones win: defaults, `--preset`, `--recipe`, `--config`, flags, `--set`. A run folder holds the outcome "
        "as `config.toml`, which `--config` takes again.",
    ]
    heading = None
    for row in every_setting():
        section, _, leaf = row.path.rpartition(".")
        if (section, row.method) != heading:
            heading = (section, row.method)
            title = f"## `[{section}]`" + f' with `name = "{row.method}"`' * bool(row.method)
            lines += ["", title if section else "## Top level", ""]
            lines += ["| setting | value | default | meaning |", "| --- | --- | --- | --- |"]
        default = row.default if row.default == "not set" else f"`{row.default}`"
        lines.append(f"| `{leaf}` | {row.allowed} | {default} | {row.help} |")
    lines += ["", "## Presets", ""]
    lines += [f"- `{name}`: {_changes(tables) or 'the defaults above'}." for name, tables in PRESETS.items()]
    lines += ["", "## Defaults of the methods", ""]
    lines += [
        f"- `{name}`: {_changes(part.traits.defaults) or 'the defaults above'}." for name, part in METHODS.items()
    ]
    return "\n".join(lines) + "\n"


def _changes(tables: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"`{section}.{leaf} = {value!r}`" for section, table in tables.items() for leaf, value in table.items()
    )


def values(config: Config) -> dict[str, Any]:
    """Return every setting of a configuration by its dotted path.

    >>> values(Config(seed=3))["seed"], values(Config())["encoder.dim"]
    (3, 64)
    """
    tables = config.model_dump()
    parts = ((row.path, row.path.rpartition(".")) for row in settings(config.method.name))
    return {path: tables[section].get(leaf) if section else tables[leaf] for path, (section, _, leaf) in parts}


def changed(config: Config) -> dict[str, Any]:
    """Return the settings that are not as by default with the method, by their dotted path.

    >>> changed(Config(seed=3))
    {'seed': 3}
    """
    found = values(config)
    return {row.path: found[row.path] for row in settings(config.method.name) if found[row.path] != row.value}


def differences(old: Config, new: Config) -> dict[str, str]:
    """Return what differs between two configurations: a few words by dotted path.

    >>> differences(Config(), Config(seed=3))
    {'seed': 'seed was 0, is 3'}
    """
    before, after = old.model_dump(), new.model_dump()
    found = {}
    other = old.method.name != new.method.name
    for row in settings(new.method.name):
        section, _, leaf = row.path.rpartition(".")
        was, now = (table[section].get(leaf) if section else table[leaf] for table in (before, after))
        if was != now and not (other and row.method and leaf != "name"):
            found[row.path] = f"{row.path} was {was!r}, is {now!r}"
    return found


def sections_of(annotation: Any) -> list[type[Section]]:
    """The models that a field of `Config` may hold: none for a plain value, several for a union."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType, Annotated) else (annotation,)
    return [part for part in parts if isinstance(part, type) and issubclass(part, Section)]


def _setting(
    path: str, field: FieldInfo, own: Mapping[str, Any] | None = None, section: type[MethodSection] | None = None
) -> Setting:
    default = (own or {}).get(path.rpartition(".")[2], field.get_default(call_default_factory=True))
    method = "" if section is None else section.model_fields["name"].default
    kind = _kind(field.annotation)
    if path == "method.name":
        default, kind = "dssl", _choices(METHODS)
    written = "not set" if default is None else tomli_w.dumps({"v": default}).removeprefix("v = ").strip()
    if isinstance(default, tuple):
        written = str(list(default))
    return Setting(path, kind, written, _bounds(field.metadata), str(field.description), default, method)


def _choices(names: Iterable[Any]) -> str:
    *first, last = (str(name) for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def _kind(annotation: Any) -> str:
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
    if annotation in names:
        return names[annotation]
    if get_origin(annotation) is Literal:
        return _choices(get_args(annotation))
    if get_origin(annotation) is tuple:
        of_texts = get_args(annotation)[0] is str
        return 'a list of texts such as ["age"]' if of_texts else "a list of integers such as [10, 5]"
    return _kind(next(part for part in get_args(annotation) if part is not type(None)))


def _bounds(metadata: Sequence[Any]) -> str:
    words = []
    for part in metadata:
        match part:
            case annotated_types.Ge(ge=low):
                words.append(f"of at least {low}")
            case annotated_types.Gt(gt=low):
                words.append(f"above {low}")
            case annotated_types.Le(le=high):
                words.append(f"at most {high}")
            case annotated_types.Lt(lt=high):
                words.append(f"below {high}")
    return " and ".join(words)


def where(problem: str, origin: str) -> str:
    """Return a problem with the place that it came from, if that has a name."""
    return f"{origin}: {problem}" if origin else problem


def check(tables: Mapping[str, Any], origins: Mapping[str, str], problems: Sequence[str]) -> Config:
    """Make a configuration of nested tables, or raise one error with everything that is wrong.

    Args:
        tables: values by section and name.
        origins: where the value of a dotted path came from, to name it in errors.
        problems: what was found wrong before, to be reported together.
    """
    problems = list(problems)
    config = None
    if isinstance(tables.get("method"), Mapping):
        tables = {**tables, "method": {"name": "dssl", **tables["method"]}}
    try:
        config = Config.model_validate(tables)
    except ValidationError as error:
        method = _named(tables)
        rows = {row.path: row for row in settings(method)}
        for path, found in {_path(found["loc"]): found for found in error.errors()}.items():
            origin, value = origins.get(path, origins.get(path.partition(".")[0], "")), found["input"]
            if found["type"] == "union_tag_invalid":
                path, value = "method.name", method
                origin = origins.get(path, origins.get("method", ""))
            if found["type"] == "extra_forbidden" and (owners := _owners(path)):
                problems.append(
                    where(f"setting {path!r} is one of the method {_choices(owners)}, not of {method}", origin)
                )
            elif found["type"] == "extra_forbidden":
                problems.append(where(f"unknown setting {path!r}{near(path)}", origin))
            elif path in rows:
                hint = (
                    nearest(value, rows[path].kind.replace(" or ", ", ").split(", ")) if isinstance(value, str) else ""
                )
                problems.append(where(f"{path} is {value!r}, but must be {rows[path].allowed}{hint}", origin))
            else:
                problems.append(where(f"{path}: {found['msg'].removeprefix('Value error, ')}", origin))
    if problems or config is None:
        raise ConfigError("; ".join(problems))
    return config


def _named(tables: Mapping[str, Any]) -> str:
    """The method that nested tables name."""
    section = tables.get("method")
    return str(section.get("name")) if isinstance(section, Mapping) else "dssl"


def _owners(path: str) -> list[str]:
    """The methods that have a setting."""
    section, _, leaf = path.rpartition(".")
    return [name for name, part in METHODS.items() if section == "method" and leaf in part.model_fields]


def _path(location: tuple[int | str, ...]) -> str:
    """The setting that a pydantic location lies in: without list positions and the tags of unions."""
    parts = [str(part) for part in location if isinstance(part, str)]
    return f"{parts[0]}.{parts[-1]}" if len(parts) > 2 else ".".join(parts)
