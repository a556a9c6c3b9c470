"""Where the published graphs come from: the catalogue, their raw files on this machine, downloads, and readers.

Raw files are looked for below ``$DSSL_DATA``, then below ``raw/`` in the user's cache, in the same layout; missing
files are downloaded to the cache by PyG. A raw folder is only ever read: PyG's classes keep their
``processed/`` files in a temporary folder instead of next to ``raw/``.

Every known set of files has a checksum, tested before the files are read. This distinguishes the two Cornells, finds
half-finished downloads, and keeps PyG from unpickling anything but the published Planetoid files (``ind.*`` are
pickles).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import shutil
import socket
import tempfile
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dssl.data.catalogue import DATASETS, Dataset
from dssl.data.text import one_line
from dssl.errors import DatasetError, DsslError
from dssl.graph import Graph
from dssl.graph.cache import cache_dir

log = logging.getLogger(__name__)

PROBE = "https://raw.githubusercontent.com"  # PyG fetches every data set of the catalogue from GitHub
SECONDS = 5  # how long the probe may take; a machine without a network must answer fast


def bases() -> list[Path]:
    """Folders that may hold raw files, in the order in which they are asked."""
    chosen = os.environ.get("DSSL_DATA")
    found = [Path(chosen).expanduser()] if chosen else []
    return [*found, cache_dir() / "raw"]


def find_raw(dataset: Dataset) -> Path | None:
    """Return the first raw folder that holds all the files of the data set, or none."""
    for base in bases():
        folder = base / dataset.folder
        if all((folder / name).is_file() for name in dataset.files):
            return folder
    return None


def fetch_raw(dataset: Dataset) -> Path:
    """Return the raw folder, downloading the files to the user's cache if there is none."""
    folder = find_raw(dataset)
    if folder is not None:
        return folder
    try:
        return _download(dataset)
    except DsslError:
        raise
    except Exception as error:  # whatever urllib, ssl, fsspec or the disk raise, the remedy is the same
        raise DatasetError(_where_to_put(dataset, _reason(error))) from None


def read_raw(dataset: Dataset, folder: Path) -> Graph:
    """Check and parse the raw files: the graph as published, directed where it is, with its self loops."""
    _verify(dataset, folder)
    try:
        return READERS[dataset.family](dataset, folder)
    except DsslError:
        raise
    except Exception as error:  # a file without a checksum may hold anything
        raise DatasetError(
            f"the files of data set {dataset.name!r} in {folder} cannot be read ({_reason(error)}); replace them"
        ) from None


def _verify(dataset: Dataset, folder: Path) -> None:
    if dataset.sha256 is None:
        return
    found = checksum(dataset, folder)
    if found == dataset.sha256:
        return
    twins = [f"; they are those of {other.name!r}" for other in DATASETS.values() if other.sha256 == found]
    raise DatasetError(
        f"the files of data set {dataset.name!r} in {folder} are not the published ones (SHA-256 begins with "
        f"{found[:8]}, not {dataset.sha256[:8]}){''.join(twins)}; replace them with those of {dataset.origin}"
    )


def checksum(dataset: Dataset, folder: Path) -> str:
    """First 32 digits of the SHA-256 of the graph's files, one after the other (the split files are left out)."""
    state = hashlib.sha256()
    for name in dataset.files:
        if "_split_" not in name:
            state.update((folder / name).read_bytes())
    return state.hexdigest()[:32]


def _where_to_put(dataset: Dataset, reason: str) -> str:
    folder = bases()[0] / dataset.folder
    missing = [name for name in dataset.files if not (folder / name).is_file()]
    listed = missing if len(missing) < 4 else [*missing[:2], "…", missing[-1]]
    what = str(folder / missing[0]) if len(missing) == 1 else f"{', '.join(listed)} in {folder}"
    return (
        f"data set {dataset.name!r} is not on this machine and cannot be downloaded ({reason}); "
        f"save {dataset.origin} as {what}"
    )


def _reason(error: BaseException) -> str:
    return one_line(error.reason if isinstance(error, urllib.error.URLError) else error)


def _download(dataset: Dataset) -> Path:
    if dataset.family not in PYG:
        raise DatasetError(_where_to_put(dataset, "PyG has no such files"))
    reason = _unreachable()
    if reason:
        raise DatasetError(_where_to_put(dataset, reason))
    log.info("downloading %s", dataset.name)
    target = cache_dir() / "raw" / dataset.folder
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".") as scratch:
        raw = Path(scratch) / "raw"
        with _socket_timeout(30):
            _pyg(dataset, raw, Path(scratch) / "processed", {"process": _nothing, "load": _nothing})
        _verify(dataset, raw)
        for name in sorted(path.name for path in raw.iterdir()):
            (raw / name).replace(target / name)
    return target


def _nothing(*_: object) -> None:
    """Stand in for a step of PyG's that a download does not need."""


def _unreachable() -> str:
    """Say why the network does not answer, or nothing if it does; in its own thread, since name servers may hang."""
    answer = [f"no network: no answer within {SECONDS} s"]

    def probe() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(PROBE, method="HEAD"), timeout=SECONDS).close()
            answer[0] = ""
        except urllib.error.HTTPError:
            answer[0] = ""
        except Exception as error:
            answer[0] = f"no network: {_reason(error)}"

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(SECONDS + 1)
    return answer[0]


@contextlib.contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


PYG: dict[str, tuple[str, dict[str, Any]]] = {
    "planetoid": ("Planetoid", {}),
    "webkb": ("WebKB", {}),
    "wikipedia": ("WikipediaNetwork", {"geom_gcn_preprocess": True}),
    "actor": ("Actor", {}),
    "linkx": ("LINKXDataset", {}),
    "heterophilous": ("HeterophilousGraphDataset", {}),
}


def _pyg(dataset: Dataset, raw: Path, processed: Path, changes: dict[str, Any]) -> Any:
    """Build PyG's data set from one folder and let it write to another."""
    pyg = _import_pyg()
    class_name, arguments = PYG[dataset.family]
    places = {"raw_dir": property(lambda _: str(raw)), "processed_dir": property(lambda _: str(processed))}
    pinned = {"url": dataset.url} if dataset.url else {}
    kind = type(class_name, (getattr(pyg, class_name),), {**places, **pinned, **changes})
    named = {"name": dataset.pyg_name} if dataset.pyg_name else {}
    # PyG announces each step on stderr and changes the filters of warnings: neither is to leave this block.
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        return kind(root=str(processed.parent), **named, **arguments)


def _import_pyg() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # on import PyG uses torch.jit, which torch deprecates
        import torch_geometric.datasets as pyg
    return pyg


def _read_pyg(dataset: Dataset, folder: Path) -> Graph:
    with tempfile.TemporaryDirectory(prefix="dssl-") as scratch:
        raw = Path(scratch) / "raw"
        raw.mkdir()
        for name in dataset.files:
            shutil.copyfile(folder / name, raw / name)
        _verify(dataset, raw)  # some are pickles: the bytes that are loaded are those that were checked
        data = _pyg(dataset, raw, Path(scratch) / "processed", {"download": _nothing})[0]
    source, target = data.edge_index.numpy()
    return _graph(dataset, source, target, data.x.numpy(), data.y.numpy())


def _read_facebook(dataset: Dataset, folder: Path) -> Graph:
    """Read a Facebook100 graph as PyG's ``LINKXDataset`` does, but keep the one-hot columns sparse.

    PyG makes them dense: Cornell5's 18,660 × 4,735 entries take 353 MB, of which 112 thousand are not zero.
    """
    from scipy.io import loadmat

    content = loadmat(folder / "data.mat")
    links = content["A"].tocoo()
    table = content["local_info"].astype(np.int64)  # status, gender, major, second major, dorm, year, high school
    codes = [np.unique(column, return_inverse=True)[1] for column in np.delete(table, 1, axis=1).T]
    widths = [int(code.max()) + 1 for code in codes]
    columns = np.stack([code + sum(widths[:at]) for at, code in enumerate(codes)], axis=1)  # N 6
    starts = np.arange(0, columns.size + 1, columns.shape[1])
    x = sparse.csr_array((np.ones(columns.size, np.float32), columns.ravel(), starts), shape=(len(table), sum(widths)))
    return _graph(dataset, links.row, links.col, x, table[:, 1] - 1)  # gender 0 is unknown: label −1


def _read_twitch(dataset: Dataset, folder: Path) -> Graph:
    import json

    from pyarrow import csv

    people = csv.read_csv(folder / "musae_DE_target.csv")
    order = people["new_id"].to_numpy()
    y = np.empty(order.size, np.int64)
    y[order] = people["mature"].to_numpy(zero_copy_only=False)
    edges = csv.read_csv(folder / "musae_DE_edges.csv")
    likes = json.loads((folder / "musae_DE_features.json").read_text(encoding="utf-8"))
    rows = np.repeat([int(node) for node in likes], [len(games) for games in likes.values()])
    games, columns = np.unique(np.concatenate(list(likes.values())).astype(np.int64), return_inverse=True)
    x = sparse.csr_array((np.ones(rows.size, np.float32), (rows, columns)), shape=(y.size, games.size))
    x.sum_duplicates()
    x.data[:] = 1  # a game may be listed twice
    return _graph(dataset, edges["from"].to_numpy(), edges["to"].to_numpy(), x, y)


def _read_syn_cora(dataset: Dataset, folder: Path) -> Graph:
    with np.load(folder / dataset.files[0], allow_pickle=False) as content:
        parts = {key: content[key] for key in content.files}
    adjacency, x = (
        sparse.csr_array(
            (parts[f"{name}_data"], parts[f"{name}_indices"], parts[f"{name}_indptr"]), tuple(parts[f"{name}_shape"])
        )
        for name in ("adj", "attr")
    )
    links = adjacency.tocoo()
    return _graph(dataset, links.row, links.col, x, parts["labels"])


READERS: dict[str, Callable[[Dataset, Path], Graph]] = {
    **dict.fromkeys(PYG, _read_pyg),
    "linkx": _read_facebook,
    "twitch": _read_twitch,
    "syn-cora": _read_syn_cora,
}


def _graph(
    dataset: Dataset,
    source: NDArray[Any],
    target: NDArray[Any],
    x: NDArray[Any] | sparse.csr_array,
    y: NDArray[Any],
) -> Graph:
    rows = source.size
    if not dataset.directed:  # both directions are there: one of them is enough
        once = source <= target
        source, target = source[once], target[once]
    if not sparse.issparse(x) and x.shape[1] >= 64 and np.count_nonzero(x) <= x.size / 4:
        x = sparse.csr_array(x)  # with a quarter of the entries, CSR takes half the memory; narrow tables stay dense
    graph = Graph.from_edges(
        source,
        target,
        num_nodes=y.size,
        directed=dataset.directed,
        self_loops="keep",
        x=x,
        y=y,
        name=dataset.name,
    )
    if graph.num_arcs != rows:
        raise DatasetError(f"{rows} rows give {graph.num_arcs} links: some are repeated or lack their opposite")
    return graph
