"""Pages about runs: they say what was measured, stand alone, and show hostile text as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dssl.cli
from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.errors import DsslError, RunError
from dssl.evaluation.factor_analysis import class_similarity
from dssl.graph import Graph
from dssl.graph.features import encode
from dssl.graph.statistics import neighborhood_similarity
from dssl.model.factors import Factors
from dssl.report import charts as report_charts
from dssl.report import facts as report_facts
from dssl.report import page as report
from dssl.report.facts import Arrays, Facts
from dssl.runs import run_folder, workflow
from dssl.runs.node_map import Map
from dssl.runs.records import Environment, InputRecord

SMALL = {"num_factors": 3, "dim": 4, "hidden_dim": 4, "features": "raw", "epochs": 3, "splits": 2}
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "{{ 7 * 7 }}{% raw %}",
    "line\u2028end\u202eevil",
    "<a href='https://evil.example'>x</a>",
    "<!--",
    "x" * 10_000,
]
LOADS = {"src", "srcset", "href", "data", "poster", "background", "action", "formaction"}


class Page(HTMLParser):
    """The elements of a page, the text of its scripts and styles, and all that is shown."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: dict[str, list[str]] = {"script": [], "style": []}
        self.shown = ""
        self.inside = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.parts:
            self.inside = tag
            self.parts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.parts[self.inside][-1] += data
        else:
            self.shown += data

    @property
    def charts(self) -> list[dict[str, Any]]:
        return json.loads(self.parts["script"][0])

    @property
    def sections(self) -> set[str]:
        return {str(attributes["id"]) for tag, attributes in self.tags if tag == "section" and "id" in attributes}

    def words(self) -> str:
        return " ".join(self.shown.split())


def make(folder: Path, rows: list[str] | None = None, ids: list[str] | None = None, **settings: Any) -> Path:
    """Fit a ring of 24 nodes with chords, with a node table if there are rows for one."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = ids or [f"n{at}" for at in range(24)]
    quoted = ['"' + node.replace('"', '""') + '"' for node in ids]
    links = [(at, (at + step) % 24) for at in range(24) for step in (1, 5)]
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{quoted[a]},{quoted[b]}\n" for a, b in links))
    flags: dict[str, Any] = {"source": str(folder / "edges.csv"), **SMALL, **settings}
    if rows:
        lines = [f"{node},{row}\n" for node, row in zip(quoted, rows[1:], strict=True)]
        (folder / "nodes.csv").write_text(f"id,{rows[0]}\n" + "".join(lines))
        flags["nodes"] = str(folder / "nodes.csv")
    workflow.fit(resolve(flags), folder / "run", command="dssl fit <b>")
    return folder / "run"


def table(labels: list[str]) -> list[str]:
    cells = [f'"{labels[at % len(labels)]}",{at * 1.5},{["red", "blue", ""][at % 3]}' for at in range(24)]
    return ["label,size,colour", *cells]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make(tmp_path_factory.mktemp("labelled"), table(["cat", "dog"]))
    workflow.evaluate(folder)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ids = [HOSTILE[at] if at < len(HOSTILE) else f"n{at}" for at in range(24)]
    labels = [label.replace('"', '""') for label in HOSTILE]
    return make(tmp_path_factory.mktemp("hostile"), table(labels), ids)


def test_a_page_says_what_was_run_and_how_it_went(labelled: Path, tmp_path: Path) -> None:
    page = Page(report.write([labelled], tmp_path / "a.html"))
    result = json.loads((labelled / "evaluation.json").read_text())
    assert page.sections == {"graph", "training", "results", "map", "factors", "classes", "run"}
    words = page.words()
    assert "24 nodes and 48 links, embedded without labels by dssl with 3 factors" in words
    assert result["verdict"] in words
    assert f"Edge homophily h fraction of links within a class {0:.3f}" not in words
    assert f"{json.loads((labelled / 'graph.json').read_text())['summary']['edge_homophily']:.3f}" in words
    assert "dssl fit <b>" in words  # the command, as text
    intervals = next(chart for chart in page.charts if chart["kind"] == "intervals")
    own, *baselines = intervals["rows"]
    assert own["mean"] == pytest.approx(100 * result["probe"]["accuracy"]["mean"], rel=1e-4)
    assert own["low"] == pytest.approx(100 * result["probe"]["accuracy"]["interval"][0], rel=1e-4)
    assert [row["mean"] for row in baselines] == sorted((row["mean"] for row in baselines), reverse=True)
    assert len(baselines) == len(result["sanity"])
    curves = {len(chart["lines"][0]["x"]) for chart in page.charts if chart["kind"] == "lines"}
    assert curves == {3}
    (places,) = (chart for chart in page.charts if chart["kind"] == "map")
    names = [column["name"] for column in places["columns"]]
    assert names[:5] == ["label", "factor", "degree", "size", "colour"]
    assert len(names) == 5 + 3


def test_factors_and_kinds_of_links_are_a_table(labelled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(labelled, folder)
    result = json.loads((folder / "evaluation.json").read_text())
    rows = {"factors": {"ami": 0.456, "purity": 0.789}, "chance": {"ami": 0.0, "purity": 0.5}}
    result["kinds"] = {"links": 1300, "rows": rows, "table": [[1234, 0], [6, 60]], "names": ["call", "<import>"]}
    (folder / "evaluation.json").write_text(json.dumps(result))
    page = report.write([folder], tmp_path / "page.html").read_text()
    section = page.split('<section id="kinds">')[1].split("</section>")[0]
    assert "mutual information 0.46, purity 0.79" in section and "chance: 0.00, 0.50." in section
    assert ">1,234</td>" in section and "&lt;import&gt;" in section and "did not use the kinds" in section


def test_the_spectrum_of_homophily_is_a_plot(labelled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(labelled, folder)
    stored = json.loads((folder / "features.json").read_text())
    first = [{"value": 0.5, "columns": ["cat", "<dog>"]}, {"value": -0.2, "columns": ["price"]}]
    stored["homophily"] = {"chance": 0.1, "directions": 3, "first": first}
    (folder / "features.json").write_text(json.dumps(stored))
    page = report.write([folder], tmp_path / "page.html").read_text()
    section = page.split("<h3>Spectrum of homophily</h3>")[1].split("</div>")[0]
    assert "cat, &lt;dog&gt;" in section and "+0.50" in section and "-0.20" in section
    assert "margin-left: 50.0%; width: 25.0%" in section and "margin-left: 40.0%; width: 10.0%" in section
    assert "in 3 directions" in section and "beyond chance (0.10)" in section and "The first 2 are shown" in section
    (folder / "features.json").write_text(json.dumps(stored | {"homophily": {"chance": "x"}}))
    with pytest.raises(RunError, match=r"features\.json is damaged: homophily"):
        report.write([folder], tmp_path / "page.html")


def test_the_same_run_gives_the_same_file(labelled: Path, tmp_path: Path) -> None:
    first = report.write([labelled], tmp_path / "a.html").read_bytes()
    (labelled / run_folder.MAP).unlink()
    assert report.write([labelled]) == labelled / "report.html"
    assert (labelled / "report.html").read_bytes() == first


def test_a_page_stands_alone(labelled: Path, hostile: Path, tmp_path: Path) -> None:
    for name, folders in {"a": [labelled], "b": [hostile], "c": [labelled, hostile]}.items():
        page = Page(report.write(folders, tmp_path / f"{name}.html"))
        for tag, attributes in page.tags:
            for key in LOADS & attributes.keys():
                assert str(attributes[key]).startswith("#"), (tag, key)
        assert not re.search(r"url\(|@import|http", "".join(page.parts["style"]))
        policy = next(str(a["content"]) for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
        assert policy.startswith("default-src 'none';")
        assert "http" not in policy
        assert "script-src 'unsafe-inline'" not in policy
        assert "unsafe-eval" not in policy
        data, *scripts = page.parts["script"]
        json.loads(data)
        for script in scripts:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
        assert len(scripts) == 2


def test_hostile_text_is_shown_as_text_and_shortened(hostile: Path, labelled: Path, tmp_path: Path) -> None:
    good = Page(report.write([labelled], tmp_path / "good.html"))
    page = Page(report.write([hostile], tmp_path / "page.html"))
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in good.tags} | {"ul", "li"}
    handlers = {key for _, attributes in page.tags for key in attributes if key.startswith("on")}
    assert handlers == set()
    for text in (*HOSTILE[:2], *HOSTILE[3:6]):
        assert page.source.count(text) == good.source.count(text), text
    assert HOSTILE[2] in page.words()
    assert "x" * 100 not in page.source
    places = next(chart for chart in page.charts if chart["kind"] == "map")
    assert places["ids"][0].startswith("</script><script>alert(1)")
    assert places["ids"][3] == "line·end·evil"
    assert max(map(len, places["ids"])) <= 40
    assert max(map(len, places["columns"][0]["classes"])) <= 28
    assert "</script><script>alert(1)" in page.words()  # a class, in the table of classes


@pytest.mark.parametrize(
    ("settings", "rows", "gone"),
    [
        ({"num_factors": 1}, table(["cat", "dog"]), {"classes"}),
        ({}, None, {"classes"}),
        ({"method": "dgi", "num_factors": None}, table(["cat", "dog"]), {"factors", "classes"}),
        ({"method": "deepwalk", "num_factors": None}, None, {"factors", "classes"}),
        ({"epochs": 0}, table(["one"]), {"training", "classes"}),
    ],
    ids=["one factor", "no table", "dgi", "deepwalk", "no epoch and one class"],
)
def test_runs_with_less_to_show(
    tmp_path: Path, settings: dict[str, Any], rows: list[str] | None, gone: set[str]
) -> None:
    made = make(tmp_path, rows, **settings)
    page = Page(report.write([made]))
    assert {"graph", "training", "results", "map", "factors", "classes", "run"} - page.sections == gone
    assert f"dssl evaluate {made}" in page.words()
    if rows is None:
        assert "Homophily" not in page.words()
        assert "The nodes have no features." in page.words()


def test_a_page_is_made_from_the_run_folder_alone(tmp_path: Path) -> None:
    folder = make(tmp_path, table(["cat", "dog"]))
    whole = report.write([folder]).read_bytes()
    (tmp_path / "edges.csv").unlink()
    (tmp_path / "nodes.csv").unlink()
    assert report.write([folder]).read_bytes() == whole
    for name in ("weights.safetensors", "features.json"):
        (folder / name).unlink()
    assert report.write([folder]).read_bytes() == whole


def test_a_run_without_its_graph_or_factors_has_a_page_that_names_the_reason(tmp_path: Path) -> None:
    folder = make(tmp_path, table(["cat", "dog"]), keep_factors=False)
    page = Page(report.write([folder]))
    assert "No factors here" in page.words() and "keep_factors is false" in page.words()
    assert "factors" not in page.sections
    shutil.rmtree(folder / "graph")
    page = Page(report.write([folder]))
    assert "No labels, links and factors here" in page.words()
    (places,) = (chart for chart in page.charts if chart["kind"] == "map")
    assert (places["count"], places["columns"]) == (24, [])


def test_several_runs_are_compared(labelled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "run"
    config = resolve(
        {**SMALL, "source": str(labelled.parent / "edges.csv"), "nodes": str(labelled.parent / "nodes.csv"), "seed": 5}
    )
    workflow.fit(config, other)
    workflow.evaluate(other)
    third = tmp_path / "third"
    workflow.fit(config.model_copy(update={"train": config.train.model_copy(update={"epochs": 5})}), third)
    page = Page(report.write([labelled, other, third], tmp_path / "c.html"))
    rows = re.findall(r"<code>([a-z_.]+)</code></th>", page.source)
    assert rows == ["seed", "train.epochs"]
    words = page.words()
    assert "labelled0/run" in words  # two folders are called run
    assert "The runs of the seeds 0, 5 differ in nothing else" in words
    assert f"dssl evaluate {third}" in words
    intervals = next(chart for chart in page.charts if chart["kind"] == "intervals")
    assert [row["look"] for row in intervals["rows"]] == [0, 1, None]
    loss = next(chart for chart in page.charts if chart["kind"] == "lines")
    assert [len(line["x"]) for line in loss["lines"]] == [3, 3, 5]


def test_runs_whose_short_names_are_equal_are_all_shown(labelled: Path, tmp_path: Path) -> None:
    folders = [shutil.copytree(labelled, tmp_path / f"{'a' * 40}{number}{'b' * 40}") for number in range(2)]
    page = Page(report.write(folders, tmp_path / "c.html"))
    loss = next(chart for chart in page.charts if chart["kind"] == "lines")
    assert len(loss["lines"]) == 2


def test_what_is_no_run_is_one_line(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        report.write([tmp_path])
    with pytest.raises(RunError, match="named twice"):
        report.write([labelled, labelled])
    with pytest.raises(RunError, match="is a folder; name a file with -o"):
        report.write([labelled], tmp_path)
    monkeypatch.setattr(sys, "argv", ["dssl", "report", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as ended:
        dssl.cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("dssl: error: ") and said.count("\n") == 1


def test_the_command_says_where_the_page_is(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(sys, "argv", ["dssl", "report", str(labelled), "-o", str(tmp_path / "p.html"), "--open"])
    with pytest.raises(SystemExit) as ended:
        dssl.cli.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'p.html'}: ")
    assert opened == [(tmp_path / "p.html").as_uri()]


def facts(**changes: Any) -> Facts:
    last = {"effective_rank": 30.0, "factor_usage_max": 0.2, "factor_information": 0.5}
    records: list[dict[str, float | None]] = [{"epoch": at, "loss": 1 + 2.0**-at, **last} for at in range(1, 41)]
    start = Facts(Path("r"), Config(), {"name": "g"}, [], [], {}, records, {}, Environment(), InputRecord())
    return replace(start, **changes)


def heads(found: Facts) -> dict[str, tuple[str, str]]:
    return {verdict.about: (verdict.state, verdict.head) for verdict in report_facts.verdicts(found)}


def test_verdicts_of_a_good_run() -> None:
    found = heads(facts())
    assert found["Training"] == ("good", "The loss has settled")
    assert found["Representation"] == ("good", "Not collapsed")
    assert found["Factors"] == ("good", "The factors are used")
    assert found["Labels"] == ("plain", "Not evaluated")


def test_verdicts_of_what_went_wrong() -> None:
    from dssl.nn import health

    bad = {"effective_rank": 1.0, "factor_usage_max": 0.95, "factor_information": 0.5}
    limits = health.limits(64, num_factors=8)
    said = list(health.collapses(bad, limits, dim=64).values())
    found = {
        verdict.about: verdict
        for verdict in report_facts.verdicts(facts(warnings=said, limits=limits, records=[{"epoch": 1, **bad}]))
    }
    assert [found[about].state for about in ("Representation", "Factors")] == ["look", "look"]
    assert found["Representation"].head == found["Factors"].head == "Collapsed"
    assert "one factor takes 95%".capitalize()[1:] in found["Factors"].words[1:]
    unrelated = facts(warnings=["the settings x: without effect"], limits=limits)
    assert heads(unrelated)["Factors"] == ("good", "The factors are used")
    falling = [{"epoch": at, "loss": 100.0 - at} for at in range(40)]
    assert heads(facts(records=falling))["Training"][1] == "The loss was still falling"
    assert heads(facts(records=[{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": None}]))["Training"][1] == "Diverged"
    assert heads(facts(records=[]))["Training"][1] == "No training"
    for words, head in {
        "The embedding (1%) does not beat the best": "Below the best baseline",
        "is above …, but within the noise of the splits.": "Level with the best baseline",
        "The embedding beats the best": "Above all baselines",
    }.items():
        assert heads(facts(evaluation={"probe": {}, "verdict": words}))["Labels"][1] == head
    assert heads(facts(evaluation={"label_free": {}}))["Labels"][1] == "No labels to test on"


def planted(classes: int = 3) -> tuple[Graph, Factors]:
    rng = np.random.default_rng(0)
    start, end = rng.integers(60, size=(2, 200))
    y = np.arange(60) % classes
    y[:5] = -1
    graph = Graph.from_edges(start, end, num_nodes=60, y=y).without_self_loops()
    q = rng.dirichlet([0.3] * 4, graph.num_arcs).astype(np.float32)
    nodes = np.stack(
        [
            q[graph.indptr[at] : graph.indptr[at + 1]].mean(axis=0) if graph.degrees[at] else np.zeros(4)
            for at in range(60)
        ]
    )
    return graph, Factors(graph.ids, graph.sources(), graph.indices, q, nodes.astype(np.float32))


def test_matrices_of_factors_are_the_shares_of_their_links() -> None:
    graph, factors = planted()
    cards = report_charts.factor_cards(graph, factors)
    assert [card["share"] for card in cards] == sorted((card["share"] for card in cards), reverse=True)
    for card in cards:
        at = int(card["name"].split()[1])
        wanted = np.zeros((3, 3))
        for arc in range(graph.num_arcs):
            a, b = graph.y[factors.source[arc]], graph.y[factors.target[arc]]
            if a >= 0 and b >= 0:
                wanted[a, b] += factors.links[arc, at]
        np.testing.assert_allclose(card["chart"]["values"], 100 * wanted / wanted.sum(), rtol=1e-4)
        best = card["links"][0]
        assert best["share"] == factors.links[:, at].max()
        ends = [end for link in card["links"] for end in (link["from"], link["to"])]
        assert len(set(ends)) == len(ends)
        for pair in card["pairs"]:
            share = wanted[int(pair["from"]), int(pair["to"])] / wanted.sum()
            assert pair["share"] == pytest.approx(share)
            assert pair["lift"] >= 1.1


def test_many_classes_are_put_together_and_nothing_is_lost() -> None:
    graph, factors = planted(classes=30)
    cards = report_charts.factor_cards(graph, factors)
    names = cards[0]["chart"]["names"]
    assert len(names) == report_charts.MOST_ROWS
    assert names[-1] == "17 other classes"
    assert np.sum(cards[0]["chart"]["values"]) == pytest.approx(100, rel=1e-3)
    found = report_charts.similarity(graph, factors)
    assert found is not None
    assert found["left_out"] == 30 - report_charts.MOST_ROWS


def test_classes_beside_their_factors() -> None:
    graph, factors = planted()
    found = report_charts.similarity(graph, factors)
    assert found is not None
    np.testing.assert_allclose(found["true"]["values"], neighborhood_similarity(graph), rtol=1e-4)
    np.testing.assert_allclose(found["learnt"]["values"], class_similarity(graph, factors.nodes), rtol=1e-4)


def unpack(packed: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["data"]), dtype=np.dtype("<" + packed["type"]))


def test_a_map_holds_places_and_columns_as_they_were() -> None:
    rows = pa.table({"size": [1.5, -2.0, 30.0] * 20, "kind": ["a", "", "b"] * 20, "new": [True, False, False] * 20})
    x, names, encoding = encode(rows)
    graph, factors = planted()
    graph = graph.replace(x=x, feature_names=names, encoding=encoding)
    points = np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)
    chart = report_charts.node_map(Arrays(Map(points, "pca"), graph, graph, factors, []))
    assert chart["ids"] is None  # they are the positions
    for axis, name in enumerate("xy"):
        assert np.corrcoef(unpack(chart[name]), points[:, axis])[0, 1] > 0.9999
    columns = {column["name"]: column for column in chart["columns"]}
    np.testing.assert_array_equal(unpack(columns["degree"]["values"]), graph.degrees)
    np.testing.assert_allclose(unpack(columns["size"]["values"]), rows["size"].to_numpy(), rtol=1e-5, atol=1e-5)
    codes = unpack(columns["kind"]["values"])
    assert [columns["kind"]["classes"][code] if code < 200 else "" for code in codes] == rows["kind"].to_pylist()
    assert unpack(columns["new"]["values"]).tolist() == [1, 0, 0] * 20
    assert (unpack(columns["label"]["values"])[:5] == report_charts.NONE).all()
    best = unpack(columns["factor"]["values"])
    linked = factors.nodes.any(axis=1)
    np.testing.assert_array_equal(best[linked], factors.nodes.argmax(axis=1)[linked])
    assert (best[~linked] == report_charts.NONE).all()


def test_the_map_of_a_messy_table_has_its_values_and_what_is_missing() -> None:
    rows = pa.table(
        {
            "income": [1.0, None, 30_000.0] * 20,
            "joined": pa.array([date(2020, 7, 1), None, date(2024, 1, 1)] * 20),
            "note": [f"pays late {i}" for i in range(60)],
            "email": [f"u{i}@x.org" for i in range(60)],
            "currency": ["EUR"] * 60,
        }
    )
    x, names, encoding = encode(rows)
    graph = planted()[0].replace(x=x, feature_names=names, encoding=encoding)
    chart = report_charts.node_map(Arrays(Map(np.zeros((60, 2), np.float32), "pca"), graph, graph, None, []))
    columns = {column["name"]: column for column in chart["columns"]}
    assert list(columns) == ["label", "degree", "income", "joined, year"]
    np.testing.assert_allclose(unpack(columns["income"]["values"])[:3], [1, np.nan, 30_000], rtol=1e-3)
    np.testing.assert_allclose(unpack(columns["joined, year"]["values"])[:3], [2020.5, np.nan, 2024.0], atol=0.01)


def test_classes_beyond_the_looks_are_others() -> None:
    graph, _ = planted(classes=30)
    chart = report_charts.node_map(Arrays(Map(np.zeros((60, 2), np.float32), "pca"), graph, graph, None, []))
    label = chart["columns"][0]
    codes = unpack(label["values"])
    assert len(label["classes"]) == report_charts.MOST_CLASSES
    assert label["other"] == "6 other classes"
    assert (codes == report_charts.NONE).sum() == 5
    shown = {int(name) for name in label["classes"]}
    assert (codes == report_charts.OTHER).sum() == sum(value not in shown and value >= 0 for value in graph.y)


def test_a_map_of_very_many_nodes_stays_small() -> None:
    n = 100_000
    graph = Graph.from_edges(np.arange(n - 1), np.arange(1, n), y=np.arange(n) % 7)
    nodes = np.full((n, 16), 1 / 16, np.float32)
    factors = Factors(
        graph.ids, graph.sources(), graph.indices, np.full((graph.num_arcs, 16), 1 / 16, np.float32), nodes
    )
    places = Map(np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32), "tsne")
    chart = report_charts.node_map(Arrays(places, graph, graph, factors, []))
    assert len(json.dumps(chart)) < 1_000_000
    assert [column["name"] for column in chart["columns"]] == ["label", "factor", "degree"]


def test_long_trainings_are_thinned_and_end_where_they_ended() -> None:
    records = [{"epoch": at, "loss": float(at)} for at in range(1, 5001)]
    chart = report_charts.lines({"": records}, "loss")
    assert chart is not None
    x = chart["lines"][0]["x"]
    assert len(x) <= report_charts.MOST_POINTS + 1
    assert (x[0], x[-1]) == (1, 5000)
    assert report_charts.lines({"": records}, "rank") is None
    broken = report_charts.lines({"": [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": None}]}, "loss")
    assert broken is not None
    assert broken["lines"][0]["y"] == [1.0]


def test_a_damaged_run_is_named(labelled: Path, tmp_path: Path) -> None:
    for name in ("config.toml", "environment.json", "metrics.jsonl"):
        (tmp_path / name).write_bytes((labelled / name).read_bytes())
    (tmp_path / "graph.json").write_text("{}")
    with pytest.raises(DsslError, match=r"graph\.json is damaged: fingerprint"):
        report.write([tmp_path])
