"""The model of a run applied to graphs: vectors and factors of the fitted graph, of another one, and of new nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dssl.config.schema import GraphSettings
from dssl.data.extend import read_extended
from dssl.data.load import FOR_FILES, is_file, read_graph
from dssl.errors import ConfigError, GraphError, RunError
from dssl.model.embeddings import Embeddings
from dssl.model.estimator import Embedder
from dssl.runs import run_folder
from dssl.runs.run_folder import read_config, read_embeddings

if TYPE_CHECKING:
    from dssl.graph import Graph
    from dssl.graph.encoding import Encoding
    from dssl.model.factors import Factors

    OnNote = Callable[[str], None]

ENCODED = ("feature_columns", "column_types")  # options that the encoding of a fitted run replaces
CUT = ("time_column", "until")  # options that belong to the files of the run
MANY = 0.1  # fraction of new edges from which a new fit is better
COLUMNS = tuple(name for name in FOR_FILES if name not in ("nodes", *CUT))


def embed(folder: Path, options: GraphSettings | None = None, *, on_note: OnNote = lambda _: None) -> Embeddings:
    """Return the vectors of the fitted graph, or those that the model of a run gives to another graph.

    Args:
        folder: the run folder.
        options: another graph. Options to read its files that are not given are those of the run.
        on_note: called with a sentence for each option that differs from the run's.
    """
    if options is None:
        return read_embeddings(folder)
    read_config(folder)
    model = Embedder.load(folder)
    return model.embed(_load_alike(folder, model, options, on_note))


def embed_new(folder: Path, options: GraphSettings, *, on_note: OnNote = lambda _: None) -> Embeddings:
    """Return the vectors of new nodes in the context of the fitted graph.

    Args:
        folder: the run folder.
        options: files of new edges and nodes. Options to read them that are not given are those of the run.
        on_note: called with a sentence for each thing that makes the vectors worse, or that may surprise.
    """
    model, graph, old = _extended(folder, options, on_note)
    vectors = model.embed(graph)
    return Embeddings(graph.ids.slice(old), vectors.values[old:])


def factors(folder: Path, options: GraphSettings | None = None, *, on_note: OnNote = lambda _: None) -> Factors:
    """Return the factors of the fitted graph, or those that the model of a run finds in another graph.

    Args:
        folder: the run folder.
        options: another graph. Options to read its files that are not given are those of the run.
        on_note: called with a sentence for each option that differs from the run's.
    """
    read_config(folder)
    if options is None and run_folder.has_factors(folder):
        found = run_folder.read_factors(folder, "dssl factors")
        try:
            return replace(found, graph=run_folder.read_graph(folder, "dssl factors"))
        except RunError:  # the graph was left out: the factors have no names
            return found
    model = Embedder.load(folder)
    if options is None:
        return model.factors(run_folder.read_graph(folder, "dssl factors"))
    return model.factors(_load_alike(folder, model, options, on_note))


def new_factors(folder: Path, options: GraphSettings, *, on_note: OnNote = lambda _: None) -> Factors:
    """Return the factors of the links of new nodes, in the context of the fitted graph.

    Args:
        folder: the run folder.
        options: files of new edges and nodes, as for `embed_new`.
        on_note: likewise.
    """
    from dssl.model.factors import Factors

    model, graph, old = _extended(folder, options, on_note)
    found = model.factors(graph)
    kept = (found.source >= old) | (found.target >= old)
    used = np.zeros(graph.num_nodes, bool)
    used[old:] = True
    used[found.source[kept]] = True
    place = (np.cumsum(used) - 1).astype(np.int32)
    ids = graph.ids.filter(pa.array(used))
    ends = place[found.source[kept]], place[found.target[kept]]
    return Factors(ids, *ends, found.links[kept], found.nodes[used])


def save_kinds(folder: Path, factors: Factors, out: Path) -> int:
    """Write the kind of each link, known or predicted, with ids; return the number of links.

    Args:
        folder: the run folder; its factors were taught kinds.
        factors: the factors of a graph.
        out: ends with ``.parquet`` or ``.csv``.
    """
    from dssl.model.embeddings import write_table

    method = read_config(folder).method
    if getattr(method, "teach", "") != "kinds":
        raise ConfigError(f"{folder} was not taught kinds of links; fit again with --set teach=kinds")
    table = factors.kinds_table()
    write_table(out, table)
    return int(table.num_rows)


def encoding_of(folder: Path) -> Encoding | None:
    """Return how the columns of a node table became the features of a run, or of a packed graph."""
    from dssl.graph import packed

    if packed.is_store(folder):
        return packed.open_graph(folder).encoding
    read_config(folder)
    return run_folder.read_inputs(folder).encoding


def differing_columns(fitted: GraphSettings, given: GraphSettings) -> list[str]:
    """Return a sentence for each option to read files that a run and another graph have in different ways."""
    pairs = {name: (getattr(fitted, name), getattr(given, name)) for name in COLUMNS}
    return [
        f"{name} is {now!r}, but was {was!r} when the model was fitted"
        for name, (was, now) in pairs.items()
        if was is not None and was != now
    ]


def _as_read(fitted: GraphSettings, given: GraphSettings, on_note: OnNote) -> GraphSettings:
    """Options to read another graph as the fitted one was, except for given options, and without labels."""
    changes = {name: getattr(fitted, name) for name in ("directed", "self_loops")}
    if not is_file(given.source):
        return given.model_copy(update=changes)
    for name in ENCODED:
        if getattr(given, name) is not None:
            raise ConfigError(f"{name}: the columns are encoded as those of the run; leave this option out")
    for name in CUT:
        if getattr(given, name) is not None:
            raise ConfigError(f"{name}: only `dssl fit` holds out edges by time; leave this option out")
    kept = [name for name in COLUMNS if name not in ENCODED and getattr(given, name) is None]
    changes |= {name: getattr(fitted, name) for name in kept} | {"label_column": None}
    if given.nodes is None:
        changes["id_column"] = None
    alike = given.model_copy(update=changes)
    kept_columns = {name: getattr(alike, name) for name in ("label_column", "id_column", *ENCODED)}
    for sentence in differing_columns(fitted.model_copy(update=kept_columns), alike):
        on_note(sentence)
    return alike


def _load_alike(folder: Path, model: Embedder, options: GraphSettings, on_note: OnNote) -> Graph:
    """Read another graph for a fitted model, in the same way as the fitted one."""
    graph = read_graph(_as_read(model.config.graph, options, on_note), encoding=model.inputs.encoding)
    weighted = run_folder.read_graph_record(folder).summary.get("weighted", False)
    if graph.num_arcs and (graph.weights is not None) != weighted:
        has, had = ("weights", "none") if graph.weights is not None else ("no weights", "some")
        raise RunError(f"the edges of {options.source} have {has}, but the fitted graph had {had}; see --weight-column")
    return graph


def _extended(folder: Path, options: GraphSettings, on_note: OnNote) -> tuple[Embedder, Graph, int]:
    """The model, the fitted graph with new edges and nodes, and the number of old nodes, which come first."""
    read_config(folder)
    model = Embedder.load(folder)
    fitted = run_folder.read_graph(folder, "dssl embed")
    graph = read_extended(fitted, _as_read(model.config.graph, options, on_note))
    old, new = fitted.num_nodes, graph.num_nodes - fitted.num_nodes
    if not new:
        raise GraphError(
            f"all nodes of {options.source} are in the fitted graph; `dssl embed {folder}` writes their vectors, and "
            f"`dssl fit GRAPH --from {folder}` trains on a changed graph"
        )
    source = graph.sources()
    lone = int((np.bincount(np.concatenate([source, graph.indices]), minlength=graph.num_nodes)[old:] == 0).sum())
    if lone:
        on_note(f"{lone:,} of {new:,} new nodes have no edges: their vectors come from their columns alone")
    if lone < new and not ((source >= old) ^ (graph.indices >= old)).any():
        on_note("no edge connects a new node to the fitted graph; for another graph, add --separate")
    if graph.num_edges - fitted.num_edges > MANY * graph.num_edges:
        share = 1 - fitted.num_edges / graph.num_edges
        on_note(f"{share:.0%} of the edges are new: a fit on all files, then `dssl align`, learns from them too")
    return model, graph, old
