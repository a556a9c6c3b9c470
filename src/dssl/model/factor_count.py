"""The setting ``num_factors = "auto"``: the number of factors of a graph, in place of the word."""

from __future__ import annotations

from dssl.config.methods import DSSLSettings
from dssl.config.schema import Config
from dssl.graph import Graph
from dssl.runtime.scale import Scale

AUTO = "auto"


def is_auto(config: Config) -> bool:
    """Whether the number of factors depends on the graph."""
    return isinstance(config.method, DSSLSettings) and config.method.num_factors == AUTO


def with_count(config: Config, graph: Graph) -> Config:
    """Return a configuration with the number of factors of a graph.

    With ``teach = "kinds"`` it is the number of kinds, otherwise the number of groups of similar links.
    """
    from dssl.graph.link_count import count_groups

    assert isinstance(config.method, DSSLSettings)
    if config.method.teach == "kinds" and graph.kind_names:
        count = len(graph.kind_names)
    else:
        scale = Scale.of(graph.num_nodes, config.train.in_memory_nodes)
        count = count_groups(graph, seed=config.seed, scale=scale)
    return config.model_copy(update={"method": config.method.model_copy(update={"num_factors": count})})
