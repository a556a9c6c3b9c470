"""Columns of a node table -> feature matrix: numeric ones scaled, categorical ones encoded, vectors as they are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Encoding:
    """How the columns of a node table become features."""
