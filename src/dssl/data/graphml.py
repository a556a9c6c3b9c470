"""GraphML files, read by NetworkX."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import ParseError

from dssl.config.schema import ReadOptions
from dssl.data.convert import from_networkx
from dssl.data.text import one_line
from dssl.errors import DsslError, GraphError, require
from dssl.graph import Graph

# Options of edge lists that have a meaning here: names of attributes.
_ALLOWED = ("source", "weight_column", "kind_column", "label_column", "feature_columns", "directed", "self_loops")


def read_graphml(options: ReadOptions) -> Graph:
    """Read a graph whose node attributes are features and labels, and whose edge attributes are weights and kinds.

    Args:
        options: the file, and the names of attributes; the file decides on directions.
    """
    for name in ReadOptions.model_fields:  # a command passes further settings of the graph
        if name not in _ALLOWED and getattr(options, name) is not None:
            raise GraphError(f"{name} applies to edge lists, and {options.source} is GraphML; leave it out")
    require("networkx", extra="graphml")
    import networkx as nx

    path = Path(options.source)
    try:
        found = nx.read_graphml(path)
    except (ParseError, nx.NetworkXError, KeyError, ValueError, TypeError, IndexError) as error:
        raise GraphError(f"{path} is not GraphML ({one_line(error)}); write it again") from None
    try:
        return from_networkx(
            found,
            label=options.label_column,
            features=options.feature_columns,
            weight=options.weight_column,
            kind=options.kind_column,
            self_loops=options.self_loops,
            name=path.stem,
        )
    except DsslError as error:
        raise GraphError(f"{path}: {error}") from None
