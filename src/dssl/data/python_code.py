"""Python code as a graph: ``python:PACKAGE`` for any installed package, ``python:stdlib`` for the standard library.

Nodes are modules, classes, exceptions, functions and methods; edges are containment, inheritance, imports and the
calls that can be resolved; features are hashed bags of the words in names, parameters and docstrings; the label is
the kind. Edges are directed and have a kind (`LINKS`). The code is read, never imported or run.

Choices, where there was one:

- Folders named ``test`` or ``tests`` are left out, and so are files with syntax errors; the history of the graph
  counts the latter. Of the standard library, the editor, the demonstrations and two packages that newer versions no
  longer have are left out too (`STDLIB_LEFT_OUT`).
- Edges run from the container to its content, from a class to its bases, from a module to the one it imports, from
  the caller to the callee, and from a method to the one it overrides. Of several kinds of edges in one direction
  between two nodes, the first in the order of `LINKS` is kept.
- An import joins two modules, also if it is a function or class that is imported.
- A call is resolved through names, imports, ``self``, ``super()``, base classes, and variables, attributes and
  parameters that are made or annotated as objects of a class; anything that only execution could resolve is left out.
- Definitions of the same dotted name in one module (overloads, the two branches of an ``if``, a property and its
  setter) are one node, of the kind of the first. A definition named like a submodule gets ``#2`` after its id.
- A class is an exception if one of its bases is, however far up. Of a base outside the package only the name is
  known: a built-in exception, or one that ends in Error, Exception or Warning.
- ``self`` and ``cls`` are excluded: they would reveal the kind.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import sysconfig
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

import numpy as np
from scipy import sparse

from dssl.data._python_source import LINKS, File, Reader
from dssl.errors import DatasetError, nearest
from dssl.graph import Change, Graph
from dssl.graph.cache import cached_graph

PREFIX = "python:"
KINDS = ("module", "class", "exception", "function", "method")
NUM_COLUMNS = 1024
LEFT_OUT = {"__pycache__", "test", "tests"}
STDLIB_LEFT_OUT = {"distutils", "idlelib", "lib2to3", "turtledemo"}
VERSION = 3  # raise it when the same files give another graph: cached ones are then rebuilt


def package_graph(name: str, *, cache: bool = True) -> Graph:
    """Return the graph of an installed package, or of the running Python's standard library.

    Args:
        name: ``stdlib``, or the name that one imports, such as ``sklearn`` or ``sklearn.linear_model``; a leading
            ``python:`` is allowed.
        cache: whether to keep the graph on disk, and take it from there while the files are unchanged.
    """
    name = name.removeprefix(PREFIX)
    files = list(_stdlib_files() if name == "stdlib" else _package_files(name))
    if not files:
        raise DatasetError(f"{PREFIX}{name}: {name!r} has no Python source to read (it is compiled or empty)")
    if not cache:
        return _build(name, files)
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        about = file.path.stat()
        state.update(f"{file.module}|{file.path}|{about.st_size}|{about.st_mtime_ns}\n".encode())
    python = ".".join(map(str, sys.version_info[:3]))
    slot = f"{PREFIX}{name} {python} {files[0].path}"
    return cached_graph(f"{slot} {VERSION} {state.hexdigest()}", lambda: _build(name, files), slot=slot)


def _stdlib_files() -> Iterator[File]:
    files = _files_below(Path(sysconfig.get_path("stdlib")), "")
    return (file for file in files if file.module.partition(".")[0] not in STDLIB_LEFT_OUT)


def _package_files(name: str) -> Iterator[File]:
    spec = _spec(name)
    if spec.submodule_search_locations is not None:
        for folder in spec.submodule_search_locations:
            yield from _files_below(Path(folder), name)
    elif spec.origin is not None and spec.origin.endswith(".py"):
        yield File(name, Path(spec.origin), is_package=False)


def _spec(name: str) -> ModuleSpec:
    """Find a package without importing it: the parts of a dotted name one below the other."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top) if top.isidentifier() else None
    if spec is None and top.isidentifier() and top not in sys.modules:
        spec = importlib.util.find_spec(top)  # editable installations may bring a finder
    if spec is None and top in sys.builtin_module_names:
        spec = ModuleSpec(top, None)
    found = top
    for part in rest:
        if spec is not None:
            found = f"{found}.{part}"
            spec = PathFinder.find_spec(found, spec.submodule_search_locations or [])
    if spec is None:
        known = {distribution: names for names, of in _installed().items() for distribution in of}
        meant = f", did you mean {known[name]!r}?" if name in known else nearest(name, _installed())
        raise DatasetError(f"{PREFIX}{name}: no package {found!r} is installed{meant or '; give a name to import'}")
    return spec


def _installed() -> dict[str, list[str]]:
    """Names that can be imported, each with the distributions that bring it."""
    found = {name: list(of) for name, of in importlib.metadata.packages_distributions().items()}
    return {name: [] for name in ("stdlib", *sorted(sys.stdlib_module_names))} | found


def _files_below(root: Path, package: str) -> Iterator[File]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if name.isidentifier() and name not in LEFT_OUT)
        inside = ".".join(filter(None, (package, *Path(folder).relative_to(root).parts)))
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix != ".py" or not path.stem.isidentifier():
                continue
            if path.stem != "__init__":
                yield File(f"{inside}.{path.stem}" if inside else path.stem, path, is_package=False)
            elif inside:
                yield File(inside, path, is_package=True)


def hashed_bags(bags: list[list[str]], num_columns: int = NUM_COLUMNS) -> sparse.csr_array:
    """Hashed bags of words, rows of length one, shape ``(N, num_columns)``.

    A word counts ``log(1 + times)``, more if few nodes have it (inverse document frequency). The column of a word is
    its CRC-32, the same on every machine.
    """
    counts = [Counter(zlib.crc32(word.encode()) % num_columns for word in bag) for bag in bags]
    indptr = np.cumsum([0, *map(len, counts)])
    columns = np.array([column for count in counts for column in sorted(count)], np.int32)
    times = np.array([count[column] for count in counts for column in sorted(count)], np.float64)
    rarity = np.log((1 + len(bags)) / (1 + np.bincount(columns, minlength=num_columns))) + 1
    values = np.log1p(times) * rarity[columns]
    rows = np.repeat(np.arange(len(bags)), np.diff(indptr))
    values /= np.sqrt(np.bincount(rows, values**2, minlength=len(bags)))[rows]
    return sparse.csr_array((values.astype(np.float32), columns, indptr), shape=(len(bags), num_columns))


def _build(name: str, files: list[File]) -> Graph:
    reader = Reader({file.module for file in files})
    skipped = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the code that is read may hold invalid escapes, for example
        for file in files:
            try:
                tree = ast.parse(file.path.read_bytes())
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                skipped += 1
            else:
                reader.read(file, tree)
    if not reader.kinds:
        raise DatasetError(f"{PREFIX}{name}: none of its {skipped} files is valid for this Python")
    reader.mark_exceptions()
    ids = list(reader.kinds)
    at = {id: i for i, id in enumerate(ids)}
    links = [(at[start], at[end], LINKS.index(kind)) for kind, start, end in reader.links()]
    ends = np.array(links, np.int32).reshape(-1, 3)
    graph = Graph.from_edges(
        ends[:, 0],
        ends[:, 1],
        kinds=ends[:, 2],
        kind_names=LINKS,
        directed=True,
        ids=ids,
        x=hashed_bags([reader.words[id] for id in ids]),
        y=[KINDS.index(reader.kinds[id]) for id in ids],
        class_names=KINDS,
        name=PREFIX + name,
    )
    if skipped:
        graph = graph.replace(history=(*graph.history, Change("files with syntax errors skipped", skipped)))
    return graph
