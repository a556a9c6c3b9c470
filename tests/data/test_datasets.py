"""Every data set in the data folder against its reference statistics, the traps in the files, and the cache."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import shutil
import socket
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dssl.config.schema import ReadOptions
from dssl.data import datasets, published
from dssl.data.catalogue import DATASETS, MEASURED, PAPER, PUBLISHED
from dssl.data.datasets import available, catalogue, compare
from dssl.data.load import load
from dssl.data.published import find_raw
from dssl.data.published_splits import published_splits
from dssl.data.tables import from_tables
from dssl.errors import DatasetError, DsslError
from dssl.graph import Graph
from dssl.graph.cache import cache_dir
from dssl.graph.homophily_spectrum import homophily_spectrum
from dssl.graph.statistics import homophily, summary

# Measured independently on the raw files:
# nodes, rows, self loops, undirected edges, symmetric, features, classes, h rows, h undirected, ĥ rows, ĥ undirected
REFERENCE = {
    "cora": (2708, 10556, 0, 5278, True, 1433, 7, 0.810, 0.810, 0.766, 0.766),
    "citeseer": (3327, 9104, 0, 4552, True, 3703, 6, 0.736, 0.736, 0.627, 0.627),
    "pubmed": (19717, 88648, 0, 44324, True, 500, 3, 0.802, 0.802, 0.664, 0.664),
    "texas": (183, 325, 16, 279, False, 1703, 5, 0.108, 0.061, 0.001, 0.000),
    "cornell-2020": (183, 298, 3, 277, False, 1703, 5, 0.305, 0.296, 0.047, 0.015),
    "cornell": (183, 298, 3, 277, False, 1703, 5, 0.131, 0.123, 0.031, 0.038),
    "wisconsin": (251, 515, 16, 450, False, 1703, 5, 0.196, 0.178, 0.094, 0.046),
    "squirrel": (5201, 217073, 140, 198353, False, 2089, 5, 0.224, 0.222, 0.025, 0.031),
    "chameleon": (2277, 36101, 50, 31371, False, 2325, 5, 0.235, 0.230, 0.062, 0.041),
    "twitch-de": (9498, 153138, 0, 153138, False, 2514, 2, 0.632, 0.632, 0.142, 0.139),
    "actor": (7600, 30019, 93, 26659, False, 932, 5, 0.219, 0.217, 0.011, 0.006),
    "cornell5": (18660, 1581554, 0, 790777, True, 4735, 2, 0.546, 0.546, 0.091, 0.091),
    "amherst41": (2235, 181908, 0, 90954, True, 1193, 2, 0.531, 0.531, 0.060, 0.060),
    "reed98": (962, 37624, 0, 18812, True, 745, 2, 0.522, 0.522, 0.022, 0.022),
    "minesweeper": (10000, 78804, 0, 39402, True, 7, 2, 0.683, 0.683, 0.009, 0.009),
}
SYN_CORA = {  # undirected edges, h
    "syn-cora-0.0": (2968, 0.000),
    "syn-cora-0.2": (2968, 0.205),
    "syn-cora-0.5": (2968, 0.511),
    "syn-cora-0.8": (2968, 0.796),
    "syn-cora-1.0": (2965, 1.000),
}
HERE = [*REFERENCE, *SYN_CORA]


@pytest.fixture(scope="module", autouse=True)
def places(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Raw files from the data folder, and a cache that is empty at first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSSL_DATA", str(data_dir))
        patch.setenv("DSSL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield data_dir


@pytest.fixture(scope="module")
def graph(places: Path) -> Callable[[str], Graph]:
    """Each graph, loaded once."""
    loaded: dict[str, Graph] = {}

    def get(name: str) -> Graph:
        if name not in loaded:
            loaded[name] = load(name)
        return loaded[name]

    return get


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty folders for raw files and cache, and no network."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("DSSL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(published, "_unreachable", lambda: "no network: Name or service not known")
    return tmp_path


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def copy_raw(name: str, places: Path, data: Path) -> Path:
    target = data / DATASETS[name].folder
    shutil.copytree(places / DATASETS[name].folder, target, copy_function=shutil.copyfile)
    target.chmod(0o755)
    return target


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_statistics(name: str, graph: Callable[[str], Graph]) -> None:
    nodes, rows, loops, edges, symmetric, features, classes, h, h_both, average, average_both = REFERENCE[name]
    loaded = graph(name)
    assert (loaded.num_nodes, loaded.num_arcs, loaded.num_self_loops) == (nodes, rows, loops)
    assert (loaded.num_features, loaded.num_classes, loaded.directed) == (features, classes, not symmetric)
    links = loaded.adjacency()
    assert (abs(links - links.T).nnz == 0) == symmetric
    measured = homophily(loaded)
    assert (round(measured.edge, 3), round(measured.class_average, 3)) == (h, average)
    both = loaded.without_self_loops().undirected()
    measured = homophily(both)
    assert both.num_edges == edges
    assert (round(measured.edge, 3), round(measured.class_average, 3)) == (h_both, average_both)


@pytest.mark.parametrize("name", SYN_CORA)
def test_reference_statistics_of_syn_cora(name: str, graph: Callable[[str], Graph]) -> None:
    loaded = graph(name)
    assert (loaded.num_nodes, loaded.num_edges, round(homophily(loaded).edge, 3)) == (1490, *SYN_CORA[name])
    assert (loaded.num_features, loaded.num_self_loops, loaded.directed) == (1433, 0, False)
    assert np.bincount(loaded.y).tolist() == [298] * 5
    assert set(np.unique(loaded.x.data)) == {1.0}


@pytest.mark.parametrize("name", HERE)
def test_graphs_are_as_published(name: str, graph: Callable[[str], Graph]) -> None:
    loaded = graph(name)
    assert loaded.name == name
    assert loaded.ids.to_pylist() == list(range(loaded.num_nodes))
    assert loaded.history == ()  # nothing merged, removed or added
    assert sparse.issparse(loaded.x) == (name != "minesweeper")


@pytest.mark.parametrize("name", HERE)
def test_the_figures_in_the_catalogue_are_measured(name: str, graph: Callable[[str], Graph]) -> None:
    got = summary(graph(name))
    wanted = MEASURED[name].figures
    assert (got["nodes"], got["edges"] - got["self_loops"]) == (wanted.nodes, wanted.edges)
    assert (got["features"], got["classes"]) == (wanted.features, wanted.classes)
    for measure in ("edge", "class_average", "node", "adjusted"):
        assert round(got[f"{measure}_homophily"], 3) == getattr(wanted, measure), measure


def test_the_reference_covers_every_raw_file_in_the_folder(places: Path) -> None:
    known = {places / DATASETS[name].folder for name in HERE}
    others = {places / DATASETS[name].folder for name in DATASETS if name not in HERE}  # such as Penn94's splits
    found = {path.parent for path in places.rglob("*") if path.is_file() and path.parent != places}
    assert known <= found <= known | others | {places / "geomgcn_splits"}
    assert all(available(name) for name in HERE)


# --- what to watch for in the files


def test_two_cornells(graph: Callable[[str], Graph]) -> None:
    corrected, old, texas = graph("cornell"), graph("cornell-2020"), graph("texas")
    np.testing.assert_array_equal(old.y, texas.y)
    assert (old.x != texas.x).nnz == 0
    np.testing.assert_array_equal(np.sort(old.degrees), np.sort(corrected.degrees))  # the links of both are Cornell's
    assert (corrected.y != old.y).any()
    assert (corrected.x != old.x).nnz > 0


def test_texas_has_a_class_with_a_single_node(graph: Callable[[str], Graph]) -> None:
    assert np.bincount(graph("texas").y).min() == 1


def test_citeseer_has_15_nodes_that_are_in_no_file(graph: Callable[[str], Graph]) -> None:
    loaded = graph("citeseer")
    got = summary(loaded)
    assert (got["nodes_without_features"], got["isolated_nodes"], got["class_sizes"][0]) == (15, 48, 264)
    empty = np.flatnonzero(np.diff(loaded.x.indptr) == 0)
    assert (loaded.y[empty] == 0).all()
    test = published_splits("citeseer")["public"][0][2]
    assert not np.isin(empty, test).any()
    assert "15 nodes" in DATASETS["citeseer"].note


@pytest.mark.parametrize(("name", "count"), [("squirrel", 165), ("chameleon", 233), ("cora", 0)])
def test_nodes_without_features(name: str, count: int, graph: Callable[[str], Graph]) -> None:
    assert summary(graph(name))["nodes_without_features"] == count


@pytest.mark.parametrize(("name", "unlabelled"), [("cornell5", 1838), ("amherst41", 203), ("reed98", 97)])
def test_facebook_nodes_without_a_label(name: str, unlabelled: int, graph: Callable[[str], Graph]) -> None:
    got = summary(graph(name))
    assert got["nodes"] - got["labelled_nodes"] == unlabelled
    assert got["feature_density"] * got["features"] == pytest.approx(6)  # one of each of the six columns


def test_features_are_not_scaled(graph: Callable[[str], Graph]) -> None:
    binary = ["cora", "citeseer", "texas", "cornell", "squirrel", "chameleon", "actor", "twitch-de", "cornell5"]
    for name in binary:
        assert set(np.unique(graph(name).x.data)) == {1.0}, name
    sums = graph("pubmed").x.sum(axis=1)
    assert (round(float(sums.min()), 2), round(float(sums.max()), 2)) == (1.27, 2.90)


def test_our_facebook_reader_equals_pyg_s(graph: Callable[[str], Graph], places: Path, tmp_path: Path) -> None:
    dataset = DATASETS["reed98"]
    data = published._pyg(dataset, places / dataset.folder, tmp_path / "processed", {})[0]
    ours = graph("reed98")
    np.testing.assert_array_equal(ours.x.toarray(), data.x.numpy())
    np.testing.assert_array_equal(ours.y, data.y.numpy())
    pairs = sorted(zip(*data.edge_index.tolist(), strict=True))
    assert pairs == list(zip(ours.sources().tolist(), ours.indices.tolist(), strict=True))


def test_twitch_equals_a_literal_reading(graph: Callable[[str], Graph], places: Path) -> None:
    import csv
    import json

    folder = places / DATASETS["twitch-de"].folder
    ours = graph("twitch-de")
    for row in csv.DictReader((folder / "musae_DE_target.csv").read_text().splitlines()):
        assert ours.y[int(row["new_id"])] == (row["mature"] == "True")
    dense = np.zeros((9498, 3170), bool)
    for node, games in json.loads((folder / "musae_DE_features.json").read_text()).items():
        dense[int(node), games] = True
    np.testing.assert_array_equal(ours.x.toarray(), dense[:, dense.any(axis=0)])
    lines = (folder / "musae_DE_edges.csv").read_text().split()[1:]
    pairs = [(int(start), int(end)) for start, end in (line.split(",") for line in lines)]
    assert sorted(pairs) == list(zip(ours.sources().tolist(), ours.indices.tolist(), strict=True))


def test_raw_file_names_are_those_of_pyg(tmp_path: Path) -> None:
    pyg = published._import_pyg()
    for dataset in DATASETS.values():
        if dataset.family not in published.PYG:
            continue
        kind = getattr(pyg, published.PYG[dataset.family][0])
        blank = kind.__new__(kind)
        blank.name, blank.split, blank.geom_gcn_preprocess = dataset.pyg_name.lower().replace("-", "_"), "public", True
        names = blank.raw_file_names
        names = [names] if isinstance(names, str) else [name for name in names if not name.startswith("fb100")]
        assert tuple(names) == dataset.files, dataset.name


# --- published splits


def check_split(split: tuple[np.ndarray, np.ndarray, np.ndarray], nodes: int) -> tuple[int, int, int]:
    together = np.concatenate(split)
    assert np.unique(together).size == together.size  # disjoint
    assert together.min() >= 0
    assert together.max() < nodes
    return split[0].size, split[1].size, split[2].size


@pytest.mark.parametrize(
    "name",
    ["texas", "wisconsin", "cornell", "cornell-2020", "squirrel", "chameleon", "actor", "pubmed"],
)
def test_geom_gcn_splits_are_48_32_20_and_cover_all_nodes(name: str) -> None:
    splits = published_splits(name)["geom-gcn"]
    nodes = MEASURED[name].figures.nodes
    assert len(splits) == 10
    for split in splits:
        train, val, test = check_split(split, nodes)
        assert train + val + test == nodes
        np.testing.assert_allclose(np.array([train, val, test]) / nodes, [0.48, 0.32, 0.20], atol=0.01)


def test_texas_and_cora_splits_have_known_sizes() -> None:
    assert {check_split(split, 183) for split in published_splits("texas")["geom-gcn"]} == {(87, 59, 37)}
    assert {sum(check_split(split, 2708)) for split in published_splits("cora")["geom-gcn"]} == {2485}


def test_two_of_citeseer_s_splits_cover_the_largest_component_only(graph: Callable[[str], Graph]) -> None:
    sizes = [sum(check_split(split, 3327)) for split in published_splits("citeseer")["geom-gcn"]]
    assert sizes == [3327] * 4 + [2120] * 2 + [3327] * 4
    assert summary(graph("citeseer"))["largest_component"] == 2120
    assert summary(graph("cora"))["largest_component"] == 2485


@pytest.mark.parametrize(("name", "classes"), [("cora", 7), ("citeseer", 6), ("pubmed", 3)])
def test_public_split(name: str, classes: int, graph: Callable[[str], Graph]) -> None:
    (split,) = published_splits(name)["public"]
    assert check_split(split, graph(name).num_nodes) == (20 * classes, 500, 1000)
    assert np.bincount(graph(name).y[split[0]]).tolist() == [20] * classes


@pytest.mark.parametrize(("name", "kind", "count"), [("twitch-de", "linkx", 5), ("minesweeper", "heterophilous", 10)])
def test_splits_in_halves_and_quarters(name: str, kind: str, count: int) -> None:
    splits = published_splits(name)[kind]
    nodes = MEASURED[name].figures.nodes
    assert len(splits) == count
    for split in splits:
        sizes = check_split(split, nodes)
        assert sum(sizes) == nodes
        np.testing.assert_allclose(np.array(sizes) / nodes, [0.5, 0.25, 0.25], atol=0.001)


def test_penn94_has_its_splits_even_without_its_graph() -> None:
    splits = published_splits("penn94")["linkx"]
    assert len(splits) == 5
    for split in splits:
        train, val, test = check_split(split, 41554)
        np.testing.assert_allclose(np.array([train, val, test]) / (train + val + test), [0.5, 0.25, 0.25], atol=0.001)


def test_splits_of_a_graph_without_any() -> None:
    assert published_splits("reed98") == {}


def test_a_pickle_that_is_not_the_published_one_is_not_opened(empty: Path, places: Path) -> None:
    folder = copy_raw("twitch-de", places, empty / "data")
    path = folder / "twitch-e-DE-splits.npy"
    path.write_bytes(path.read_bytes() + b"0")
    with pytest.raises(DatasetError, match=r"twitch-e-DE-splits.npy is not the published split file"):
        published_splits("twitch-de")


# --- raw folders and the cache


def test_raw_folder_is_left_alone(empty: Path, places: Path) -> None:
    for name in ("texas", "cora", "reed98"):
        copy_raw(name, places, empty / "data")
    before = snapshot(empty / "data")
    for name in ("texas", "cora", "reed98"):
        load(name)
    assert snapshot(empty / "data") == before


def test_second_load_is_the_same_graph_and_reads_no_raw_file(empty: Path, places: Path, monkeypatch) -> None:
    copy_raw("texas", places, empty / "data")
    first = load("texas")
    monkeypatch.setattr(datasets, "read_raw", lambda *_: pytest.fail("parsed again"))
    second = load("texas")
    assert second.fingerprint() == first.fingerprint()
    for field in dataclasses.fields(Graph):
        if field.name not in ("indptr", "indices", "x", "y"):
            assert getattr(second, field.name) == getattr(first, field.name), field.name


def test_second_load_does_not_import_torch(graph: Callable[[str], Graph]) -> None:
    graph("texas")
    code = (
        "import sys, dssl.data.datasets as d, dssl; dssl.load('texas'); d.catalogue(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("part", ["header.json", "indices", "ids.arrow"])
def test_damaged_cache_is_rebuilt(part: str, empty: Path, places: Path) -> None:
    copy_raw("texas", places, empty / "data")
    first = load("texas")
    (folder,) = (cache_dir() / "graphs").iterdir()
    content = (folder / part).read_bytes()
    for damaged in (b"", b"nonsense", content[: len(content) // 2], bytes([content[0] ^ 1]) + content[1:]):
        (folder / part).write_bytes(damaged)
        assert load("texas").fingerprint() == first.fingerprint()
        assert (folder / part).read_bytes() != damaged


def test_changed_raw_files_are_read_anew(empty: Path, places: Path) -> None:
    folder = copy_raw("texas", places, empty / "data")
    load("texas")
    with (folder / "out1_graph_edges.txt").open("a") as handle:
        handle.write("0\t1\n")
    with pytest.raises(DatasetError, match=r"not the published ones"):
        load("texas")


def test_unwritable_cache_is_no_error(empty: Path, places: Path) -> None:
    copy_raw("texas", places, empty / "data")
    (empty / "cache").write_text("a file where the folder should be")
    assert load("texas").num_nodes == 183


@pytest.mark.parametrize("name", ["reed98", pytest.param("wisconsin", marks=pytest.mark.slow)])  # PyG imports slowly
def test_two_processes_load_the_same_data_set_at_once(
    name: str, empty: Path, places: Path, graph: Callable[[str], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSSL_DATA", str(places))
    code = f"import dssl; print(dssl.load({name!r}).fingerprint())"
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {process.communicate()[0].strip() for process in both} == {graph(name).fingerprint()}
    (folder,) = (empty / "cache" / "graphs").iterdir()  # nothing left behind
    assert (folder / "header.json").is_file()


# --- files that are missing, wrong, or downloaded


def one_line(error: pytest.ExceptionInfo[DsslError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_missing_penn94_says_where_to_put_what(empty: Path) -> None:
    with pytest.raises(DatasetError) as error:
        load("penn94")
    text = one_line(error)
    assert "'penn94' is not on this machine and cannot be downloaded (no network" in text
    assert str(empty / "data" / "linkx/penn94/raw/data.mat") in text
    assert "data/facebook100/Penn94.mat of github.com/CUAI/Non-Homophily-Large-Scale" in text


@pytest.mark.parametrize("name", DATASETS)
def test_each_missing_data_set_is_one_line(name: str, empty: Path) -> None:
    with pytest.raises(DatasetError) as error:
        load(name)
    text = one_line(error)
    assert str(empty / "data" / DATASETS[name].folder) in text
    assert DATASETS[name].files[0] in text


def test_without_a_data_folder_the_cache_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSSL_DATA")
    with pytest.raises(DatasetError) as error:
        load("texas")
    assert str(empty / "cache" / "raw" / "webkb/texas/raw") in one_line(error)


@pytest.mark.parametrize(
    "problem",
    [
        urllib.error.URLError(socket.gaierror(-2, "Name or service not known")),
        TimeoutError("timed out"),
        ConnectionResetError(),
        PermissionError(13, "Permission denied"),
        RuntimeError("two\nlines"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_whatever_a_download_raises_is_one_line(problem: Exception, empty: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(published, "_unreachable", lambda: "")
    monkeypatch.setattr(published, "_pyg", fail)
    for name in ("cora", "penn94", "roman-empire"):
        with pytest.raises(DatasetError) as error:
            load(name)
        assert f"data set {name!r} is not on this machine" in one_line(error)
    assert not list((empty / "cache").rglob(".*"))  # no scratch folder stays


def test_a_network_that_does_not_answer_costs_seconds(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(published, "SECONDS", 0.1)
    answered = threading.Event()
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: answered.wait())
    assert published._unreachable() == "no network: no answer within 0.1 s"  # before any answer
    answered.set()


def test_download_goes_to_the_cache_and_is_checked(empty: Path, places: Path, monkeypatch) -> None:
    """PyG's download is replaced by a copy: of the right files, then of those of the other Cornell."""
    monkeypatch.setattr(published, "_unreachable", lambda: "")
    taken = {"folder": "webkb_2020/cornell/raw", "url": ""}

    def download(self) -> None:
        taken["url"] = self.url
        for name in self.raw_file_names:
            shutil.copyfile(places / taken["folder"] / name, Path(self.raw_dir) / name)

    monkeypatch.setattr(published._import_pyg().WebKB, "download", download)
    loaded = load("cornell-2020")
    assert loaded.num_self_loops == 3
    assert "f1fc0d14b3b0" in taken["url"]
    assert find_raw(DATASETS["cornell-2020"]) == empty / "cache/raw/webkb_2020/cornell/raw"
    assert sorted(path.name for path in find_raw(DATASETS["cornell-2020"]).iterdir()) == sorted(
        DATASETS["cornell-2020"].files
    )
    with pytest.raises(DatasetError, match=r"not the published ones .*; they are those of 'cornell-2020'; "):
        load("cornell")
    assert not available("cornell")
    taken["folder"] = "webkb/cornell/raw"
    assert load("cornell").fingerprint() != loaded.fingerprint()


def test_wrong_files_are_refused_before_they_are_read(empty: Path, places: Path) -> None:
    folder = copy_raw("cora", places, empty / "data")
    (folder / "ind.cora.x").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")  # a pickle that would run a command
    with pytest.raises(DatasetError) as error:
        load("cora")
    assert str(folder) in one_line(error)
    assert not Path("pwned").exists()


def test_files_without_a_checksum_that_cannot_be_read(empty: Path) -> None:
    folder = empty / "data" / DATASETS["roman-empire"].folder
    folder.mkdir(parents=True)
    (folder / "roman_empire.npz").write_bytes(b"not an archive")
    with pytest.raises(DatasetError, match=r"the files of data set 'roman-empire' in .* cannot be read"):
        load("roman-empire")


def test_checksums_are_those_of_the_files(places: Path) -> None:
    """Single-file data sets: the digits in the catalogue are those of the file, by hashlib alone."""
    for dataset in DATASETS.values():
        if len(dataset.files) == 1 and dataset.sha256 and find_raw(dataset):
            content = (places / dataset.folder / dataset.files[0]).read_bytes()
            assert hashlib.sha256(content).hexdigest().startswith(dataset.sha256)


# --- the listing, and names


def test_catalogue_rows_are_complete_and_read_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("read_bytes", "read_text", "open"):
        monkeypatch.delattr(Path, name)
    rows = {row["name"]: row for row in catalogue()}
    assert list(rows) == list(DATASETS)
    assert rows["texas"]["raw"] == find_raw(DATASETS["texas"])
    assert rows["texas"]["paper"]["features"] == 1793
    assert rows["cornell"]["paper"] is None
    assert (rows["cora"]["nodes"], rows["cora"]["edge_homophily"]) == (2708, 0.810)
    assert set(MEASURED) == set(HERE)
    assert set(PUBLISHED) == set(DATASETS) - set(HERE)
    assert set(PAPER) <= set(DATASETS)


def test_figures_beside_the_paper_s() -> None:
    disagreements = {
        (name, row.quantity) for name in PAPER if available(name) for row in compare(name) if row.agrees is False
    }
    assert disagreements - {("penn94", "features")} == {
        ("texas", "features"),
        ("twitch-de", "features"),
        ("twitch-de", "edges"),
        ("cornell-2020", "edge_homophily"),
    }
    assert {row.paper for row in compare("wisconsin")} == {None}


def test_comparing_a_missing_data_set_downloads_nothing(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "fetch_raw", lambda _: pytest.fail("downloads"))
    assert [row.ours for row in compare("texas")] == list(dataclasses.astuple(MEASURED["texas"].figures))
    penn94 = {row.quantity: row for row in compare("penn94")}
    assert penn94["nodes"] == datasets.Comparison("nodes", None, 41554, None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("texsa", r"^'texsa' is neither a file nor a data set, did you mean 'texas'\?$"),
        ("zzzzzz", r"^'zzzzzz' is neither a file nor a data set; `dssl datasets` lists the data sets$"),
        ("pyhton:stdlib", r"did you mean 'python:stdlib'\?$"),
        ("x" * 5000, r"is neither a file nor a data set"),
        ("syn-cora-0.20", r"did you mean 'syn-cora-0.2'\?$"),
    ],
    ids=["near", "far", "prefix", "long", "level"],
)
def test_unknown_names(source: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load(source)


@pytest.mark.parametrize("function", [available, published_splits, compare])
def test_unknown_data_sets(function: Callable[[str], object]) -> None:
    with pytest.raises(DatasetError, match=r"^there is no data set 'texsa', did you mean 'texas'\?$"):
        function("texsa")


def test_names_in_other_spellings(graph: Callable[[str], Graph]) -> None:
    assert load("Twitch_DE").fingerprint() == graph("twitch-de").fingerprint()


@pytest.mark.parametrize("source", ["texas", "synthetic:h=0.5,nodes=100", "python:stdlib"])
def test_file_options_are_refused_elsewhere(source: str) -> None:
    with pytest.raises(DatasetError, match=r"^nodes applies to edge files only; .* is not one"):
        load(source, nodes="nodes.csv")
    with pytest.raises(DatasetError, match=r"^directed applies to edge files only"):
        load(source, directed=True)


@pytest.mark.parametrize("function", [load, from_tables])
def test_public_readers_have_the_keywords_of_the_read_options(function: Callable[..., Graph]) -> None:
    fields = {name: field.default for name, field in ReadOptions.model_fields.items()}
    given = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
    about_files = {"source", "nodes"} | ({"header"} if function is from_tables else set())
    columns = {name: default for name, default in fields.items() if name not in about_files}
    assert columns.items() <= given.items()
    assert given.keys() - fields.keys() <= {"edges", "encoding", "name"}


def test_edge_files_and_generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "cora").write_text("not a graph")
    monkeypatch.chdir(tmp_path)
    assert load("edges.csv").num_edges == 2
    assert load(tmp_path / "edges.csv", directed=True).directed
    assert load("cora").num_nodes == 2708  # the data set goes before the file
    assert load("synthetic:h=0.5,nodes=200,classes=2,degree=4").num_nodes == 200
    with pytest.raises(DsslError, match=r"nowhere\.csv"):
        load("nowhere.csv")


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("name", ["texas", "cora", "reed98", "syn-cora-0.0", "actor"])
def test_the_catalogue_has_the_measured_spectrum_of_homophily(
    name: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    assert datasets.spectrum(name) == pytest.approx(homophily_spectrum(datasets.load_dataset(name)).extent, abs=6e-3)
