"""The bases of all settings: a section, a setting in it, and the section of a method with its traits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo


class Scope(Enum):
    """The part of the program that a setting belongs to."""

    COMMAND = "reading files and evaluating; not a keyword of the estimators"
    TRAINING = "training; a fitted model keeps its weights when it changes"
    MODEL = "the architecture and the input; the weights depend on it"


@dataclass(frozen=True, slots=True)
class Range:
    """A search range of positive numbers, sampled uniformly in the logarithm."""

    low: float
    high: float


Search = tuple[Any, ...] | Range
Count = Annotated[int, Field(ge=1, le=1024)]  # or a word, such as "auto"


@dataclass(frozen=True, slots=True)
class Marks:
    """Facts about a setting that its type and bounds do not contain.

    Args:
        scope: the part of the program that it belongs to; None takes the scope of its section.
        encoder_only: whether methods without an encoder ignore it.
        search: values that ``dssl tune --space wide`` tries; None leaves it fixed.
    """

    scope: Scope | None = None
    encoder_only: bool = False
    search: Search | None = None


def setting(
    default: Any,
    help: str,
    *,
    scope: Scope | None = None,
    encoder_only: bool = False,
    search: Search | None = None,
    **bounds: Any,
) -> Any:
    """Declare a setting of a section.

    Args:
        default: the default value.
        help: a noun phrase and a full stop, with the unit and the paper's symbol in brackets.
        scope: see `Marks`.
        encoder_only: see `Marks`.
        search: see `Marks`.
        bounds: constraints of `pydantic.Field`, such as ``ge=1``.
    """
    extra: Any = {"marks": Marks(scope, encoder_only, search)}
    return Field(default=default, description=help, json_schema_extra=extra, **bounds)


def marks_of(info: FieldInfo) -> Marks:
    """Return the marks of a field; a plain `pydantic.Field` has none."""
    extra: Any = info.json_schema_extra
    return extra["marks"] if isinstance(extra, dict) and "marks" in extra else Marks()


class Section(BaseModel):
    """A frozen group of settings that rejects unknown names and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    scope: ClassVar[Scope] = Scope.COMMAND


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a method, for ``dssl methods`` and for the code that builds it.

    Args:
        name: the name of the method in settings and on the command line.
        home: its class, as ``package.module:Class``.
        citation: authors, venue and year.
        inductive: whether a fitted model embeds nodes that it was not fitted on.
        features: whether it uses node features.
        directed: whether it can keep the direction of edges.
        weighted: whether it uses edge weights.
        scales: cost of a step, in a few words.
        encoder: whether it trains an encoder; otherwise it trains a table with a row per node.
        defaults: its own defaults of the settings of other sections.
        revision: number of the implementation; a change of the code that changes results raises it, so that tables
            mark records of an earlier one.
    """

    name: str
    home: str
    citation: str
    inductive: bool
    features: bool
    directed: bool
    weighted: bool
    scales: str
    encoder: bool = True
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    revision: int = 1

    @property
    def page(self) -> str:
        """The page in docs/methods of a method of this package, named after its module; otherwise empty."""
        _, package, module = self.home.partition(":")[0].rpartition("dssl.methods.")
        return f"{module.partition('.')[0].replace('_', '-')}.md" if package else ""


class MethodSection(Section):
    """The settings of one method."""

    traits: ClassVar[Traits]
    scope: ClassVar[Scope] = Scope.MODEL
    name: str = setting("", "Name of the method.")

    @model_validator(mode="before")
    @classmethod
    def _set_name(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        own = cls.traits.name
        if values.get("name", own) != own:
            raise ValueError(f"these are the settings of the method {own}, not of {values['name']}")
        return {"name": own, **values}


RAW = {"features": "raw"}  # the published methods are defined on the features themselves


def encoder_traits(
    name: str,
    home: str,
    citation: str,
    *,
    encoder: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    scales: str = "links; mini-batches",
    revision: int = 1,
) -> Traits:
    """Return the traits of a method that trains an encoder.

    ``encoder`` and ``train`` are its own defaults of ``encoder.*`` and ``train.*``; see `Traits` for the others.
    """
    return Traits(
        name,
        home,
        citation,
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales=scales,
        defaults={"graph": RAW, "encoder": {"name": "gcn", **(encoder or {})}, "train": train or {}},
        revision=revision,
    )


def table_traits(
    name: str, home: str, citation: str, *, scales: str, epochs: int, weighted: bool = True, revision: int = 1
) -> Traits:
    """Return the traits of a method that trains a vector per node of the fitted graph, from its edges alone.

    ``epochs`` is its own default of ``train.epochs``; see `Traits` for the others.
    """
    return Traits(
        name,
        home,
        citation,
        inductive=False,
        features=False,
        directed=True,
        weighted=weighted,
        scales=scales,
        encoder=False,
        defaults={"graph": RAW, "train": {"epochs": epochs}},
        revision=revision,
    )
