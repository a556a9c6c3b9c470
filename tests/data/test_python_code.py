from __future__ import annotations

import importlib.machinery
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from dssl.data._python_source import words
from dssl.data.python_code import KINDS, LINKS, NUM_COLUMNS, hashed_bags, package_graph
from dssl.errors import DatasetError
from dssl.graph import Graph

SHOP = {
    "__init__.py": '''
        """A shop."""
        raise RuntimeError("the code must not be run")
        from .goods import Fruit
        from . import errors
    ''',
    "goods.py": '''
        import json as coder
        from .errors import ShopError
        from typing import overload

        class Goods:
            """Things for sale."""

            def __init__(self, unitPrice):
                self.reset()

            def reset(self): ...

            def price(self):
                return self.reset()

        class Fruit(Goods):
            peel = Goods.reset

            def __init__(self, unit_price):
                super().__init__(unit_price)

            def eat(self):
                self.price()
                self.peel()
                raise ShopError

            @property
            def weight(self): ...

            @weight.setter
            def weight(self, value): ...

            @classmethod
            def ripe(cls):
                return cls(1)

            @staticmethod
            def parse(text):
                coder.loads(text)
                text.reset()

            def __call__(self): ...

        def buy(count):
            def helper(): ...

            helper()
            item = Fruit(3)
            item.eat()
            item()
            buy(count - 1)

        def sell(item: Fruit, print):
            item.price()
            print()
            len([])

        if True:
            def twice(): ...
        else:
            def twice(): ...
    ''',
    "errors.py": """
        import importlib.machinery
import json

        class ShopError(Exception): ...

        class Closed(ShopError): ...

        class Broken(json.JSONDecodeError): ...

        class Report(dict): ...
    """,
    "till.py": """
        from shop import Fruit as Apple, errors
        from .goods import *
        import shop.goods

        class Till:
            def __init__(self):
                self.held = Apple(1)

            def open(self):
                self.held.eat()
                Apple(2).price()
                shop.goods.sell(None, None)
                buy(1)
                raise errors.Closed()

        open = Till
        open()
    """,
    "goods_py2.py": "print 'no longer Python'",
    "nul.py": "x = 1\0",
    "latin.py": b"# -*- coding: latin-1 -*-\ndef gr\xfc\xdfen(): ...\n",
    "deep.py": "x = " + "-" * 60 + "1\n" + "y = " + " + ".join(["1"] * 800),
    "chain.py": "x = a" + ".b()" * 80,
    "tests/__init__.py": "def test_shop(): ...",
    "clash/__init__.py": "def part():\n    def inner(): ...\n\npart()",
    "clash/part.py": "",
    "not-a-module.py": "",
}


def dedent(source: str) -> str:
    lines = source.splitlines()
    return "\n".join(line[8:] if line.startswith(" " * 8) else line for line in lines) + "\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, source in SHOP.items():
        path = tmp_path / "site" / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source if isinstance(source, bytes) else dedent(source).encode())
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "site" / "shop"


def kinds(graph: Graph) -> dict[str, str]:
    return {id: KINDS[kind] for id, kind in zip(graph.ids.to_pylist(), graph.y, strict=True)}


def links(graph: Graph) -> set[frozenset[str]]:
    ids = graph.ids.to_pylist()
    return {frozenset((ids[a], ids[b])) for a, b in zip(graph.sources(), graph.indices, strict=True)}


def linked(graph: Graph, id: str) -> set[str]:
    """Neighbours of a node of the shop, without the common prefix."""
    found = (next(iter(link - {f"shop.{id}"})) for link in links(graph) if f"shop.{id}" in link)
    return {name.removeprefix("shop.") for name in found}


def test_nodes_and_their_kinds(shop: Path) -> None:
    found = kinds(package_graph("shop", cache=False))
    assert found["shop"] == found["shop.goods"] == "module"
    assert found["shop.goods.Fruit"] == "class"
    assert found["shop.goods.Fruit.eat"] == found["shop.goods.Fruit.parse"] == "method"
    assert found["shop.goods.buy"] == found["shop.goods.buy.helper"] == "function"
    assert found["shop.latin.grüßen"] == "function"
    assert found["shop.errors.ShopError"] == found["shop.errors.Closed"] == found["shop.errors.Broken"] == "exception"
    assert found["shop.errors.Report"] == "class"
    assert found["shop.clash.part"] == "module"
    assert found["shop.clash.part#2"] == found["shop.clash.part#2.inner"] == "function"
    assert not any("tests" in id or "not-a-module" in id for id in found)
    assert len([id for id in found if "twice" in id or "weight" in id]) == 2  # definitions of one name are one node


@pytest.mark.parametrize(
    ("node", "neighbours"),
    [
        ("goods.Goods.reset", {"goods.Goods", "goods.Goods.__init__", "goods.Goods.price", "goods.Fruit.eat"}),
        ("goods.Goods.__init__", {"goods.Goods", "goods.Goods.reset", "goods.Fruit.__init__"}),
        (
            "goods.Goods.price",
            {"goods.Goods", "goods.Goods.reset", "goods.Fruit.eat", "goods.sell", "till.Till.open"},
        ),
        (
            "goods.Fruit.eat",
            {"goods.Fruit", "goods.Goods.price", "goods.Goods.reset", "errors.ShopError"}
            | {"goods.buy", "till.Till.open"},
        ),
        ("goods.Fruit.__call__", {"goods.Fruit", "goods.buy"}),
        ("goods.Fruit.ripe", {"goods.Fruit"}),
        ("goods.Fruit.parse", {"goods.Fruit"}),  # json is outside, and the type of text is not known
        (
            "goods.buy",
            {"goods", "goods.buy.helper", "goods.Fruit", "goods.Fruit.eat", "goods.Fruit.__call__"}
            | {"till.Till.open"},
        ),
        ("goods.sell", {"goods", "goods.Goods.price", "till.Till.open"}),
        ("errors.Closed", {"errors", "errors.ShopError", "till.Till.open"}),
        ("till.Till", {"till", "till.Till.__init__", "till.Till.open"}),  # the alias `open` is no call of its own
        ("till", {"shop", "goods", "errors", "till.Till"}),
        (
            "errors",
            {"shop", "goods", "till"} | {f"errors.{name}" for name in ("ShopError", "Closed", "Broken", "Report")},
        ),
        ("clash.part#2", {"clash", "clash.part#2.inner"}),
    ],
)
def test_links(shop: Path, node: str, neighbours: set[str]) -> None:
    assert linked(package_graph("shop", cache=False), node) == neighbours


def test_links_have_a_kind_and_a_direction(shop: Path) -> None:
    graph = package_graph("shop", cache=False)
    assert graph.directed
    ids = graph.ids.to_pylist()
    ends = [(ids[a], ids[b]) for a, b in zip(graph.sources(), graph.indices, strict=True)]
    found = {(a, b): LINKS[kind] for (a, b), kind in zip(ends, graph.kinds, strict=True)}
    for kind, start, end in [
        ("contain", "shop", "shop.goods"),
        ("contain", "shop.goods", "shop.goods.Fruit"),
        ("contain", "shop.goods.Fruit", "shop.goods.Fruit.eat"),
        ("inherit", "shop.goods.Fruit", "shop.goods.Goods"),
        ("import", "shop.till", "shop.errors"),
        ("call", "shop.goods.sell", "shop.goods.Goods.price"),
        ("override", "shop.goods.Fruit.__init__", "shop.goods.Goods.__init__"),
    ]:
        assert found[start, end] == kind


def test_what_was_skipped_or_merged_is_recorded(shop: Path) -> None:
    history = {change.what: change.count for change in package_graph("shop", cache=False).history}
    assert history["files with syntax errors skipped"] == 2
    assert history["self loops removed"] == 1  # buy calls itself


def test_the_code_is_not_imported(shop: Path) -> None:
    graph = package_graph("python:shop.goods", cache=False)
    assert graph.name == "python:shop.goods"
    assert "shop.goods.Fruit" in kinds(graph)
    assert not [name for name in sys.modules if name.partition(".")[0] == "shop"]


def test_words_are_split_at_underscores_and_capitals() -> None:
    assert words("parseHTTPHeader_to_json2 JSONDecoder __init__ größte x") == [
        *("parse", "http", "header", "to", "json", "json", "decoder", "init", "größte")
    ]
    assert words("") == []


def test_features_are_words_of_name_parameters_and_docstring(shop: Path) -> None:
    graph = package_graph("shop", cache=False)

    def columns(id: str) -> set[int]:
        row = graph.positions([id])[0]
        return set(graph.x.indices[graph.x.indptr[row] : graph.x.indptr[row + 1]].tolist())

    def expected(*bag: str) -> set[int]:
        return {zlib.crc32(word.encode()) % NUM_COLUMNS for word in bag}

    assert columns("shop.goods.Goods.__init__") == expected("init", "unit", "price")  # but not self
    assert columns("shop.goods.Goods.__init__") == columns("shop.goods.Fruit.__init__")
    assert columns("shop.goods.Goods") == expected("goods", "things", "for", "sale")
    assert columns("shop.goods.Fruit.weight") == expected("weight", "value")
    assert columns("shop") == expected("shop")
    assert np.allclose(graph.x.multiply(graph.x).sum(axis=1), 1)


def test_hashed_bags_by_hand() -> None:
    x = hashed_bags([["a", "b", "a"], ["a"], []], 1 << 20).toarray()
    a, b = (zlib.crc32(word) % (1 << 20) for word in (b"a", b"b"))
    raw = np.array([np.log(3) * (np.log(4 / 3) + 1), np.log(2) * (np.log(4 / 2) + 1)])
    assert np.allclose(x[0, [a, b]], raw / np.linalg.norm(raw))
    assert x[1, a] == 1
    assert x.sum() == pytest.approx((raw / np.linalg.norm(raw)).sum() + 1)


def test_same_in_another_process_whatever_the_hash_seed(shop: Path) -> None:
    code = "from dssl.data.python_code import package_graph; print(package_graph('json', cache=False).fingerprint())"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == package_graph("json", cache=False).fingerprint()


def test_cache_follows_the_files(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = package_graph("shop")
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1

    def fail(*args: object) -> None:
        raise AssertionError("the cached graph was not used")

    with monkeypatch.context() as patched:
        patched.setattr("dssl.data.python_code._build", fail)
        again = package_graph("shop")
    assert again.fingerprint() == first.fingerprint()
    assert (again.history, again.class_names, again.name) == (first.history, KINDS, "python:shop")
    (shop / "new.py").write_text("def added(): ...")
    assert "shop.new.added" in kinds(package_graph("shop"))
    (shop / "new.py").write_text("def added_later(): ...")
    assert "shop.new.added_later" in kinds(package_graph("shop"))
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1  # each replaced the one before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jsn", ["'jsn'", "'json'"]),
        ("scikit-learn", ["'scikit-learn'", "'sklearn'"]),
        ("stdlb", ["'stdlb'", "'stdlib'"]),
        ("json.decodr", ["'json.decodr'"]),
        ("nothing.like.this", ["'nothing'"]),
        ("no such name", ["'no such name'"]),
        ("", ["''", "a name to import"]),
        ("sys", ["'sys'", "no Python source"]),
        ("compiled", ["'compiled'", "no Python source"]),
        ("hollow", ["'hollow'", "no Python source"]),
        ("old", ["none of its 1 files"]),
    ],
)
def test_packages_that_cannot_be_read(name: str, words: list[str], shop: Path) -> None:
    (shop.parent / f"compiled{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    (shop.parent / "hollow").mkdir()
    (shop.parent / "old.py").write_text("print 'old'")
    with pytest.raises(DatasetError) as caught:
        package_graph(f"python:{name}", cache=False)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


def test_one_file_is_a_package_too(shop: Path) -> None:
    (shop.parent / "lonely.py").write_text("")
    graph = package_graph("lonely", cache=False)
    assert (graph.ids.to_pylist(), graph.num_edges) == (["lonely"], 0)


def test_kinds_are_what_python_says() -> None:
    found = kinds(package_graph("json", cache=False))
    assert found["json.decoder.JSONDecodeError"] == "exception"
    seen = {module: vars(importlib.import_module(module)) for module in ("json", "json.decoder", "json.encoder")}
    for module, names in seen.items():
        for name, value in names.items():
            if getattr(value, "__module__", None) == module:  # defined there, not imported
                expected = "function"
                if isinstance(value, type):
                    expected = "exception" if issubclass(value, BaseException) else "class"
                assert found[f"{module}.{name}"] == expected


@pytest.mark.slow
def test_standard_library() -> None:
    graph = package_graph("stdlib", cache=False)
    found = kinds(graph)
    assert 14_000 < graph.num_nodes < 20_000
    assert 2 * graph.num_nodes < graph.num_edges < 3 * graph.num_nodes
    h = (graph.y[graph.sources()] == graph.y[graph.indices]).mean()
    assert 0.38 < h < 0.47
    assert found["subprocess.TimeoutExpired"] == "exception"
    assert found["collections.OrderedDict.popitem"] == "method"
    assert frozenset(("json.loads", "json.decoder.JSONDecoder")) in links(graph)
    assert not [change for change in graph.history if "skipped" in change.what]
