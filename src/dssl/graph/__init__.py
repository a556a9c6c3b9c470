"""The `Graph` value and everything computed from it."""

from dssl.graph.change import Change
from dssl.graph.graph import Graph, SelfLoops
from dssl.graph.ids import as_ids

__all__ = ["Change", "Graph", "SelfLoops", "as_ids"]
