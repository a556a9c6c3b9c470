"""The files of a page: what is read back is what went in, whole or in parts, served or written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dssl.errors import RunError
from dssl.explore import pages as pages
from tests.views import HOSTILE, made


def test_arrays_are_read_back_from_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PART", 64)
    view = made(60, num_factors=3)
    files = pages.data_files(view, per=1)
    meta = json.loads(files["meta.json"])
    assert (meta["nodes"], meta["factors"], meta["links"]) == (60, 3, view.graph.num_edges)

    def read(name: str) -> np.ndarray:
        described = meta["arrays"][name]
        assert all(len(files[part]) <= 64 for part in described["parts"])
        return np.frombuffer(b"".join(files[part] for part in described["parts"]), described["type"])

    assert np.array_equal(read("points").reshape(-1, 2), view.points)
    assert np.array_equal(read("indptr"), view.graph.indptr)
    assert np.array_equal(read("indices"), view.graph.indices)
    assert np.array_equal(read("node_q").reshape(-1, 3), view.node_q)
    assert np.array_equal(read("link_q").reshape(-1, 3), view.link_q)
    for described, column in zip(meta["columns"], view.columns, strict=True):
        assert np.array_equal(read(described["array"]), column.values)
        assert described["names"] == (None if column.names is None else list(column.names))


def test_a_page_without_factors_has_no_posteriors() -> None:
    meta = json.loads(pages.data_files(made(num_factors=0), per=1)["meta.json"])
    assert meta["factors"] == 0
    assert not {"node_q", "link_q"} & set(meta["arrays"])


@pytest.mark.parametrize("ids", [HOSTILE, [2**62 + i for i in range(8)], [-5, 3, 7, 8, 9, 10, 11, 12]])
def test_ids_stay_what_they_are_as_text(ids: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "IDS_AT_ONCE", 3)
    files = pages.data_files(made(8, ids=ids), per=1)
    parts = json.loads(files["meta.json"])["ids"]
    assert len(parts) == 3
    assert [each for part in parts for each in json.loads(files[part])] == [str(each) for each in ids]


def test_an_export_holds_every_file_that_the_page_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "NODES_AT_ONCE", 25)
    view = made(60)
    told: list[str] = []
    count, size = pages.export(view, tmp_path / "page", on_part=told.append)
    written = [path for path in (tmp_path / "page").rglob("*") if path.is_file()]
    assert (len(written), sum(path.stat().st_size for path in written)) == (count, size)
    data = tmp_path / "page" / "data"
    meta = json.loads((data / "meta.json").read_text())
    for part in (*meta["ids"], *(part for array in meta["arrays"].values() for part in array["parts"])):
        assert (data / part).is_file()
    assert meta["nearest"] == {"per": 25, "top": 12}
    for block, nodes in enumerate([range(25), range(25, 50), range(50, 60)]):
        content = (data / "nearest" / f"{block}.bin").read_bytes()
        places = np.frombuffer(content[: len(content) // 2], "<i4").reshape(-1, 12)
        cosines = np.frombuffer(content[len(content) // 2 :], "<f4").reshape(-1, 12)
        expected = view.nearest(nodes[0], nodes[-1] + 1)
        assert np.array_equal(places, expected[0])
        assert np.array_equal(cosines, expected[1])
    assert {path.name for path in tmp_path.iterdir()} == {"page"}
    assert told == ["nearest nodes: 0 of 60", "nearest nodes: 25 of 60", "nearest nodes: 50 of 60"]
    for name, content in pages.assets().items():
        assert (tmp_path / "page" / name).read_bytes() == content


def test_an_export_takes_an_empty_folder_and_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    pages.export(made(5), tmp_path / "page")
    before = (tmp_path / "page" / "data" / "meta.json").stat().st_mtime_ns
    with pytest.raises(RunError, match="is not empty; choose another folder"):
        pages.export(made(6), tmp_path / "page")
    assert (tmp_path / "page" / "data" / "meta.json").stat().st_mtime_ns == before


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pages.export(made(5), tmp_path / "page", on_part=fail)
    assert list(tmp_path.iterdir()) == []


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_markup_of_data() -> None:
    assets = {name: content.decode() for name, content in pages.assets().items()}
    assert {"index.html", "style.css", "main.js", "map.js"} <= set(assets)
    for name, text in assets.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
        links = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", re.sub(r"(?m)^\s*//.*$", "", text)))
        assert links <= {"http://www.w3.org/2000/svg"}, name
    html = assets["index.html"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in html
    assert not re.search(r"<[^>]+\s(on\w+|style)=", html)
    used = set(re.findall(r'get\("(\w+)"\)', assets["main.js"]))
    assert used
    assert used <= set(re.findall(r'id="(\w+)"', html))
