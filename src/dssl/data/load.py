"""Any graph by one string: a published data set, ``python:PACKAGE``, ``synthetic:…``, an edge file, a packed graph.

>>> load("texsa")
Traceback (most recent call last):
    ...
dssl.errors.DatasetError: 'texsa' is neither a file nor a data set, did you mean 'texas'?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from dssl.config.schema import ReadOptions
from dssl.data import datasets
from dssl.data.catalogue import DATASETS
from dssl.data.columns import ENDINGS
from dssl.data.standard_input import STDIN
from dssl.data.tables import column_types_of, read_edges
from dssl.errors import DatasetError, GraphError, nearest
from dssl.graph import Graph, SelfLoops, packed
from dssl.graph.encoding import Encoding

Options = TypeVar("Options", bound=ReadOptions)


def load(
    source: str | Path,
    *,
    nodes: str | Path | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    weight_column: str | None = None,
    kind_column: str | None = None,
    time_column: str | None = None,
    until: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    column_types: Mapping[str, str] | None = None,
    header: bool | None = None,
    count_edges: bool | None = None,
    trim: bool | None = None,
    directed: bool = False,
    self_loops: SelfLoops = "remove",
    encoding: Encoding | None = None,
) -> Graph:
    """Load a graph; all arguments but the first apply to edge files only.

    A data set is returned as published (directed if it is, with its self loops) with the ids 0 … N−1. The name of a
    data set has priority over a file of the same name: write ``./cora`` for the file.

    Args:
        source: name of a data set, ``python:PACKAGE``, ``synthetic:h=0.25,…``, ``planted:factors=4,…``, path of an
            edge list (``.csv``, ``.tsv``, ``.txt``, these with ``.gz``, ``.parquet``), of a SciPy matrix (``.npz``) or
            of a ``.graphml`` file, folder of a graph that ``dssl pack`` wrote, or ``-``: text on standard input.
        nodes: node table in the same formats (``.npz``: a matrix of features). It gives the order of the nodes;
            without it, they are in ascending order of their ids.
        source_column: column with the source of each edge; by default one with a usual name, or the first. Columns
            of text without a header are called 1, 2, ….
        target_column: column with the target of each edge; by default one with a usual name, or the next.
        weight_column: column with the weight of each edge; by default ``weight``, or the third of three without names.
        kind_column: column with the kind of each edge, such as call or import; an empty value is an unknown kind. The
            graph is then directed: an undirected model reads each link both ways, and its factors use the direction.
        time_column: column with the time of each edge: dates or numbers. Only edges before ``until`` are read.
        until: first time that is left out: a date, a number, or a percentage of the edges; by default ``85%``.
        id_column: column of the node table with the ids; by default one with a usual name, or the first.
        label_column: column of the node table with the classes; by default ``label``, if there is one.
        feature_columns: columns of the node table that become features; by default all others.
        column_types: type of each named column of the node table: number, flag, category, text, date, vector or
            ignore; by default the values decide (`dssl inspect` shows the decisions).
        header: whether the first line of a text edge list names the columns; by default this is detected.
        count_edges: take the number of rows of an edge as its weight.
        trim: remove spaces around node ids; by default they are part of the id, and the graph's history counts them.
        directed: keep the direction of edges; otherwise each counts both ways.
        self_loops: remove or keep self loops.
        encoding: encoding of an earlier node table, to be applied to this one.
    """
    options = ReadOptions(
        source=str(source),
        nodes=None if nodes is None else str(nodes),
        source_column=source_column,
        target_column=target_column,
        weight_column=weight_column,
        kind_column=kind_column,
        time_column=time_column,
        until=until,
        id_column=id_column,
        label_column=label_column,
        feature_columns=None if feature_columns is None else tuple(feature_columns),
        column_types=column_types_of(column_types),
        header=header,
        count_edges=count_edges,
        trim=trim,
        directed=directed,
        self_loops=self_loops,
    )
    if is_file(options.source) or (isinstance(source, Path) and not packed.is_store(source)):
        return read_edges(options, encoding=encoding)
    given = {"directed": directed, "self_loops": self_loops != "remove", "encoding": encoding is not None}
    for name in (name for name, value in given.items() if value):
        _refuse(name, options.source)
    return read_graph(options)


def read_graph(options: ReadOptions, *, encoding: Encoding | None = None) -> Graph:
    """Read the graph that the options name.

    ``directed`` and ``self_loops`` apply while an edge file is read. Any other graph is returned as it is stored:
    the preparation of a model applies both to every graph.

    Args:
        options: the graph and how its files are read; a configuration's graph section is one.
        encoding: encoding of an earlier node table, to be applied to this one.
    """
    if not options.source:
        raise DatasetError("no graph is named; give a data set, a python: or synthetic: spec, or an edge file")
    if is_file(options.source):
        return read_edges(options, encoding=encoding if options.nodes is not None else None)
    for name in FOR_FILES:
        if getattr(options, name) is not None:
            _refuse(name, options.source)
    if _is_packed(options.source):
        graph = packed.open_graph(options.source)
        if encoding is not None and graph.encoding != encoding:
            raise GraphError(
                f"{options.source} was packed with another encoding of its columns than the model's; "
                "pack it again with --like and the run"
            )
        return graph
    return _by_name(options.source)


# The options that apply to edge files only.
FOR_FILES = tuple(name for name in ReadOptions.model_fields if name not in ("source", "directed", "self_loops"))


def is_file(text: str) -> bool:
    """Whether a string is the path of an edge file: by its ending, or because it exists; or ``-``, standard input.

    The name of a data set is none.
    """
    if text == STDIN:
        return True
    if not text or _is_known(text):
        return False
    try:
        return text.lower().endswith(ENDINGS) or (Path(text).exists() and not packed.is_store(text))
    except OSError:  # too long for a path
        return False


def with_full_paths(options: Options) -> Options:
    """Return the options with absolute paths, so that a run can be evaluated from any folder."""
    changes = {}
    if options.source != STDIN and (is_file(options.source) or _is_packed(options.source)):
        changes["source"] = str(Path(options.source).resolve())
    if options.nodes is not None:
        changes["nodes"] = str(Path(options.nodes).resolve())
    return options.model_copy(update=changes)


def _refuse(option: str, source: str) -> None:
    raise DatasetError(f"{option} applies to edge files only; {source!r} is not one")


def _is_known(text: str) -> bool:
    """Whether a string names a graph, whatever files exist."""
    return text.startswith(("python:", "synthetic:", "planted:")) or datasets.canonical(text) in DATASETS


def _is_packed(text: str) -> bool:
    return not _is_known(text) and packed.is_store(text)


def _by_name(text: str) -> Graph:
    if text.startswith("python:"):
        from dssl.data.python_code import package_graph

        return package_graph(text)
    if text.startswith("synthetic:"):
        from dssl.data.synthetic import from_spec

        return from_spec(text, load=load)
    if text.startswith("planted:"):
        from dssl.data.synthetic import planted_from_spec

        return planted_from_spec(text)
    name = datasets.canonical(text)
    if name not in DATASETS:
        guess = nearest(name, [*DATASETS, "python:stdlib"]) or "; `dssl datasets` lists the data sets"
        raise DatasetError(f"{text!r} is neither a file nor a data set{guess}")
    return datasets.load_dataset(text)
