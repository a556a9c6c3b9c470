"""The settings of the methods that DSSL is compared with: one section each, with what the method can do.

`dssl.config` puts them together with DSSL's own; the sections there are the registry of methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen group of settings that refuses unknown names and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Traits:
    """What a method is, for the table of ``dssl methods`` and for those who build it.

    Args:
        home: module below ``dssl.methods`` and class, as ``module:Class``.
        citation: where it was published.
        inductive: whether a fitted model has vectors for nodes that it was not fitted on.
        features: whether it looks at features.
        directed: whether it can keep the direction of links.
        weighted: whether weights of links matter.
        scales: what a step costs, in a few words.
        encoder: whether it trains an encoder, or a table with a row per node.
        defaults: defaults of other sections that it has of its own.
    """

    home: str
    citation: str
    inductive: bool
    features: bool
    directed: bool
    weighted: bool
    scales: str
    encoder: bool = True
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class MethodSection(Section):
    """The settings of one method."""

    traits: ClassVar[Traits]


def _encoder_traits(home: str, citation: str, *, scales: str = "links; mini-batches", **changes: Any) -> Traits:
    """The traits of a method with an encoder; its vectors are its own, with no fixed blocks beside them."""
    encoder = {"name": "gcn", "skip": False, **changes.pop("encoder", {})}
    return Traits(
        home,
        citation,
        inductive=True,
        features=True,
        directed=True,
        weighted=True,
        scales=scales,
        defaults={"encoder": encoder, "train": changes.pop("train", {})},
        **changes,
    )


class DGISettings(MethodSection):
    """Deep graph infomax."""

    traits = _encoder_traits(
        "dgi:DGI",
        "Veličković et al., ICLR 2019",
        encoder={"layers": 1},
        train={"epochs": 300, "learning_rate": 0.001},
    )
    name: Literal["dgi"] = Field(default="dgi", description="Method that trains the encoder.")
