"""Node embeddings without labels, for any graph.

>>> import dssl
>>> graph = dssl.load("synthetic:h=0.2,nodes=200,classes=3,degree=4,seed=0")
>>> model = dssl.DSSL(num_factors=4, dim=16, epochs=2).fit(graph)
>>> model.transform(graph).shape[0]
200
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dssl.data.convert import from_networkx, from_pyg, from_scipy, to_pyg
    from dssl.data.extend import extend
    from dssl.data.load import load
    from dssl.data.tables import from_tables
    from dssl.errors import DsslError
    from dssl.evaluation.of_vectors import evaluate, link_predictor
    from dssl.graph import Graph
    from dssl.graph.homophily_spectrum import homophily_spectrum
    from dssl.graph.roles import roles
    from dssl.graph.statistics import homophily, summary
    from dssl.model.embeddings import Embeddings
    from dssl.model.estimator import DSSL, Embedder, load_model
    from dssl.model.factors import Factors

# Pages of 2 MB instead of 4 kB for large tensors, where the system offers them: at a million nodes, first use of fresh
# memory took longer than the work (results/step.md). torch reads it once, at its first allocation.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__all__ = [
    "DSSL",
    "DsslError",
    "Embedder",
    "Embeddings",
    "Factors",
    "Graph",
    "evaluate",
    "extend",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "from_tables",
    "homophily",
    "homophily_spectrum",
    "link_predictor",
    "load",
    "load_model",
    "roles",
    "summary",
    "to_pyg",
]

# Names are imported when they are first used, so that `import dssl` and `dssl --help` do not wait for torch.
_HOME = {
    "DSSL": "model.estimator",
    "DsslError": "errors",
    "Embedder": "model.estimator",
    "Embeddings": "model.embeddings",
    "Factors": "model.factors",
    "Graph": "graph",
    "evaluate": "evaluation.of_vectors",
    "extend": "data.extend",
    "from_networkx": "data.convert",
    "from_pyg": "data.convert",
    "from_scipy": "data.convert",
    "from_tables": "data.tables",
    "homophily": "graph.statistics",
    "homophily_spectrum": "graph.homophily_spectrum",
    "link_predictor": "evaluation.of_vectors",
    "load": "data.load",
    "load_model": "model.estimator",
    "roles": "graph.roles",
    "summary": "graph.statistics",
    "to_pyg": "data.convert",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("dssl")
    if name not in _HOME:
        raise AttributeError(f"module 'dssl' has no attribute {name!r}")
    value = getattr(import_module(f"dssl.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
