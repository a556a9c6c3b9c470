"""The explorer as a person uses it: open, search, click, light up a factor, select, export."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from dssl.explore import pages
from dssl.explore import view as explore
from dssl.explore.server import Server
from dssl.graph import Graph
from tests import graphs
from tests.views import HOSTILE, made, ring, served

Open = Callable[..., Any]
ASK = """async (question) => {
  const load = (name) => import(new URL(name, location).href);
  const [graph, files] = [await load("graph.js"), await load("data.js")];
  const data = await files.Data.open();
  await data.complete();
  return (new Function("graph", "data", `return ${question}`))(graph, data);
}"""


@pytest.fixture(scope="module")
def view() -> explore.View:
    return made(300, num_factors=4)


@pytest.fixture(scope="module")
def server(view: explore.View) -> Iterator[Server]:
    with served(view) as running:
        yield running


def choose(page: Any, text: str) -> None:
    page.fill("#search", text)
    page.press("#search", "Enter")
    page.wait_for_selector("#node[data-state=complete]")


def exported(page: Any) -> list[list[str]]:
    with page.expect_download() as download:
        page.click("#csv")
    assert download.value.suggested_filename.endswith("-selection.csv")
    text = Path(download.value.path()).read_bytes().decode()
    return list(csv.reader(io.StringIO(text, newline="")))


def colours(page: Any) -> set[tuple[int, ...]]:
    """The distinct colours of the map as it is drawn."""
    drawn = page.evaluate("""() => new Promise((resolve) => requestAnimationFrame(() => {
      const canvas = document.createElement("canvas");
      const from = document.getElementById("points");
      [canvas.width, canvas.height] = [from.width, from.height];
      const pen = canvas.getContext("2d");
      document.getElementById("fit").click();
      requestAnimationFrame(() => {
        pen.drawImage(from, 0, 0);
        const all = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
        resolve([...new Set(all)].slice(0, 5000));
      });
    }))""")
    return {tuple(int(value).to_bytes(4, "little")) for value in drawn}


def test_a_page_opens_with_all_nodes_on_the_map(server: Server, open_page: Open) -> None:
    page = open_page(server.address)
    assert page.title() == "made up · dssl explore"
    assert "300 nodes" in page.inner_text("#about")
    assert page.locator("#legend button").count() == 3
    assert page.locator("#factors button").count() == 4
    assert page.is_hidden("#nogl")
    assert len(colours(page)) > 3
    assert page.locator("#colour option").all_inner_texts() == ["label", "main factor", "degree"]


HALVES = """() => new Promise((resolve) => {
  const from = document.getElementById("points");
  document.getElementById("fit").click();
  requestAnimationFrame(() => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [from.width, from.height];
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.drawImage(from, 0, 0);
    const half = (row) => {
      const drawn = pen.getImageData(0, row, from.width, from.height >> 1).data;
      const counts = {};
      for (let i = 0; i < drawn.length; i += 4)
        if (drawn[i + 3] > 150) counts[drawn.slice(i, i + 3)] = (counts[drawn.slice(i, i + 3)] ?? 0) + 1;
      const most = Object.entries(counts).sort((a, b) => b[1] - a[1])[0][0];
      return { pixels: Object.values(counts).reduce((a, b) => a + b, 0), most };
    };
    resolve([half(0), half(from.height >> 1)]);
  });
})"""


def test_the_few_nodes_of_a_rare_class_are_drawn_last_and_larger(open_page: Open) -> None:
    """Ten rare nodes above, with fifty others in the place of each, and ten others below."""
    across = np.linspace(-2, 2, 10)
    above, below = (np.stack([across, np.full(10, side)], axis=1) for side in (1.0, -1.0))
    points = np.concatenate([above, np.repeat(above, 50, axis=0), below]).astype(np.float32)
    size = len(points)
    graph = Graph.from_edges(
        *ring(size), y=(np.arange(size) < 10).astype(np.int64), class_names=["usual", "rare"], name="made up"
    )
    values = np.random.default_rng(0).normal(size=(size, 4)).astype(np.float32)
    view = explore.view(graph, graph, values, points=points, factors=None, method="dgi", how="made up")
    with served(view) as server:
        upper, lower = open_page(server.address).evaluate(HALVES)
    assert upper["most"] != lower["most"]
    assert upper["pixels"] > 1.8 * lower["pixels"]


def test_the_page_offers_a_node_to_start_at(server: Server, view: explore.View, open_page: Open) -> None:
    page = open_page(server.address)
    hub = view.ids[int(view.graph.degrees.argmax())].as_py()
    assert page.inner_text("#node .hint button") == hub
    page.click("#node .hint button")
    page.wait_for_selector("#node[data-state=complete]")
    assert hub in page.inner_text("#node")


def test_search_finds_by_part_of_an_id_the_same_id_first(server: Server, open_page: Open) -> None:
    page = open_page(server.address)
    page.fill("#search", "NODE 2")
    page.wait_for_selector("#results li")
    assert "111 found" in page.inner_text("#results")
    shown = page.locator("#results li").all_inner_texts()
    assert shown[0].strip() == "node 2"
    assert len(shown) == 50
    page.press("#search", "ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#node[data-state=complete]")
    assert page.inner_text("#node .id") == "node 20"
    page.fill("#search", "no such node")
    assert "No id holds this text." in page.inner_text("#results")


def test_a_node_shows_its_links_its_nearest_and_those_far_away_alike(
    server: Server, view: explore.View, open_page: Open
) -> None:
    page = open_page(server.address)
    choose(page, "node 17")
    graph, own = view.graph, 17
    neighbours = set(graph.indices[graph.indptr[own] : graph.indptr[own + 1]].tolist())
    drawn = page.locator("svg.ego .other").evaluate_all("found => found.map((each) => Number(each.dataset.node))")
    assert set(drawn) == neighbours
    lists = page.locator("#node ul").evaluate_all(
        "found => found.map((list) => [...list.querySelectorAll('button')].map((each) => Number(each.dataset.node)))"
    )
    assert set(lists[0]) <= neighbours
    assert lists[1] == view.nearest(own, own + 1)[0][0][:6].tolist()
    away = steps(graph, own)
    assert all(away[node] >= 4 for node in lists[2])
    assert page.evaluate("location.hash") == "#n=17"
    page.click("#node ul >> nth=1 >> button >> nth=0")
    page.wait_for_selector(f"#node[data-node='{lists[1][0]}']")
    page.go_back()
    page.wait_for_selector("#node[data-node='17']")


def test_a_click_on_the_map_opens_the_node_under_it(server: Server, view: explore.View, open_page: Open) -> None:
    page = open_page(server.address)
    at = page.evaluate(
        """async (points) => {
          const { PointMap } = await import(new URL("map.js", location).href);
          const canvas = document.getElementById("points");
          const spare = document.createElement("canvas");
          const map = new PointMap(canvas, spare, new Float32Array(points), { hover() {}, pick() {}, lasso() {} });
          return map.toScreen(42);
        }""",
        view.points.reshape(-1).tolist(),
    )
    page.reload()
    page.wait_for_selector("body[data-ready]")
    box = page.locator("#points").bounding_box()
    page.mouse.move(box["x"] + at[0], box["y"] + at[1])
    page.wait_for_selector("#tip:not([hidden])")
    assert "node 42" in page.inner_text("#tip")
    page.mouse.click(box["x"] + at[0], box["y"] + at[1])
    page.wait_for_selector("#node[data-state=complete]")
    assert page.inner_text("#node .id") == "node 42"
    page.mouse.wheel(0, -400)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.up()
    assert page.inner_text("#node .id") == "node 42"  # to zoom and to drag is not to choose


def test_the_map_can_be_touched_before_the_links_are_there(server: Server, open_page: Open) -> None:
    slow = """
      const [now, gate] = [window.fetch, new Promise((open) => (window.arrive = open))];
      window.fetch = async (path, ...rest) => {
        if (String(path).includes("indptr")) await gate;
        return now(path, ...rest);
      };
    """
    page = open_page(server.address, before=slow, wait="#points")
    page.wait_for_function("document.title.endsWith('dssl explore')")
    box = page.locator("#points").bounding_box()
    for at in range(1, 20):
        page.mouse.click(box["x"] + box["width"] * at / 20, box["y"] + box["height"] * at / 20)
    page.evaluate("window.arrive()")
    page.wait_for_selector("body[data-ready]")
    choose(page, "node 0")


def test_a_factor_lights_up_the_links_that_it_explains(server: Server, view: explore.View, open_page: Open) -> None:
    page = open_page(server.address)
    before = colours(page)
    page.click("[data-factor='2']")
    count = int((view.link_q.argmax(axis=1) == 2).sum())
    assert f"All {count} links" in page.inner_text("#lit")
    assert page.get_attribute("[data-factor='2']", "aria-pressed") == "true"
    assert colours(page) != before
    page.click("[data-factor='2']")
    assert page.locator("#lit").count() == 0


def test_a_selection_is_exported_as_csv(server: Server, view: explore.View, open_page: Open) -> None:
    page = open_page(server.address)
    page.click("#legend button >> nth=1")
    assert page.inner_text("#selected") == "100 selected"
    rows = exported(page)
    assert rows[0] == ["id", "label", "degree", "factor", "q0", "q1", "q2", "q3"]
    assert [row[0] for row in rows[1:]] == [f"node {i}" for i in range(1, 300, 3)]
    assert {row[1] for row in rows[1:]} == {"green"}
    assert [int(row[2]) for row in rows[1:]] == view.graph.degrees[1::3].tolist()
    assert [int(row[3]) for row in rows[1:]] == view.node_q[1::3].argmax(axis=1).tolist()
    np.testing.assert_allclose(np.array([row[4:] for row in rows[1:]], float), view.node_q[1::3], atol=1e-6)
    page.click("#clear")
    assert page.is_hidden("#selection")
    choose(page, "node 5")
    page.click("#node h2 button >> nth=1")
    assert page.inner_text("#selected") == "12 selected"


def test_a_lasso_selects_what_it_goes_around(server: Server, open_page: Open) -> None:
    page = open_page(server.address)
    box = page.locator("#points").bounding_box()
    corners = [(4, 4), (4, box["height"] - 4), (box["width"] - 4, box["height"] - 4), (box["width"] - 4, 4)]
    page.click("#lasso")
    page.mouse.move(box["x"] + corners[0][0] + 250, box["y"] + corners[0][1])
    page.mouse.down()
    for x, y in [(254, 300), (4, 300), *corners[1:], corners[3]]:
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    selected = int(page.inner_text("#selected").split()[0])
    assert 100 < selected <= 300
    assert page.get_attribute("#lasso", "aria-pressed") == "false"


def test_everything_can_be_reached_by_keys(server: Server, open_page: Open) -> None:
    page = open_page(server.address)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    assert {"colour", "theme", "points", "legend", "lasso", "fit", "factors"} <= seen
    page.focus("#points")
    for key in ("+", "-", "ArrowLeft", "ArrowUp", "0"):
        page.keyboard.press(key)
    page.focus("[data-factor='1']")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.factor") == "1"
    assert page.get_attribute("[data-factor='1']", "aria-pressed") == "true"


def test_it_is_dark_where_the_system_is_and_light_on_request(server: Server, open_page: Open) -> None:
    page = open_page(server.address, color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, dark[4:-1].split(","))) < 200 < sum(map(int, light[4:-1].split(",")))
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_it_fits_a_phone(server: Server, open_page: Open) -> None:
    page = open_page(server.address, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    choose(page, "node 3")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    box = page.locator("#points").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_wrong_token_is_refused(server: Server, open_page: Open, browser: Any) -> None:
    page = browser.new_page()
    answer = page.goto(server.address.replace(server.token, "wrong"))
    assert answer.status == 403
    assert "token" in page.inner_text("body")
    assert page.goto(server.address.replace(server.token + "/", "")).status == 403
    page.close()


def test_another_site_cannot_read_it(server: Server, browser: Any) -> None:
    page = browser.new_page()
    page.goto("data:text/html,<title>elsewhere</title>")
    read = "(address) => fetch(address).then((answer) => answer.text()).catch(() => 'refused')"
    assert page.evaluate(read, server.address + "data/meta.json") == "refused"
    page.close()


def test_an_export_works_on_any_web_server(view: explore.View, tmp_path: Path, open_page: Open) -> None:
    pages.export(view, tmp_path / "page")

    class Silent(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(tmp_path / "page"))) as plain:
        Thread(target=plain.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        page = open_page(f"http://127.0.0.1:{plain.server_port}/")
        choose(page, "node 250")
        near = page.locator("#node ul >> nth=1").evaluate(
            "list => [...list.querySelectorAll('button')].map((each) => Number(each.dataset.node))"
        )
        assert near == view.nearest(250, 251)[0][0][:6].tolist()
        page.click("#legend button >> nth=0")
        assert len(exported(page)) == 101
        plain.shutdown()


def test_hostile_ids_and_labels_are_text(open_page: Open) -> None:
    view = made(8, ids=HOSTILE, class_names=[HOSTILE[0], HOSTILE[5], HOSTILE[2]])
    with served(view) as server:
        page = open_page(server.address)
        page.hover("#legend button >> nth=0")
        for text in HOSTILE:
            choose(page, text[:60].splitlines()[0])
            assert page.text_content("#node .id") == text
        assert page.evaluate("document.title") == "made up · dssl explore"
        assert page.locator("img, script:not([src='main.js'])").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1200
        page.fill("#search", "")
        for row in range(3):
            page.click(f"#legend button >> nth={row}")
        rows = exported(page)
        ids = {row[0] for row in rows[1:]}
        assert ids == {("'" + text if text[0] in "=+" else text) for text in HOSTILE}
        assert {row[1] for row in rows[1:]} == {HOSTILE[0], HOSTILE[5], "'" + HOSTILE[2]}


def test_negative_integers_stay_numbers_in_a_csv(open_page: Open) -> None:
    with served(made(8, ids=[-5, 2, 3, 4, 2**62 + 1, 6, 7, 8])) as server:
        page = open_page(server.address)
        choose(page, "4611686018427387905")
        for row in range(3):
            page.click(f"#legend button >> nth={row}")
        assert [row[0] for row in exported(page)[1:]] == ["-5", "2", "3", "4", "4611686018427387905", "6", "7", "8"]


@pytest.mark.parametrize(("number", "num_factors"), list(enumerate([0, 1, 3, 0, 3, 3, 3, 1, 3])))
def test_any_small_graph_can_be_looked_at(number: int, num_factors: int, open_page: Open) -> None:
    graph = graphs.ALL[number]()
    with served(made(graph=graph, num_factors=num_factors)) as server:
        page = open_page(server.address)
        assert page.is_visible("#factors") == (num_factors > 0)
        for i in range(page.locator("#colour option").count()):
            page.select_option("#colour", str(i))
        for k in range(num_factors):
            page.click(f"[data-factor='{k}']")
        for node in range(graph.num_nodes):
            page.evaluate(f"location.hash = 'n={node}'")
            page.wait_for_selector(f"#node[data-node='{node}'][data-state=complete]")
            assert page.inner_text("#node .id") == str(graph.ids[node].as_py())


def test_without_webgl_a_sentence_stands_for_the_map(server: Server, open_page: Open) -> None:
    without = """const plain = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
      return kind === "webgl2" ? null : plain.call(this, kind, ...rest);
    };"""
    page = open_page(server.address, before=without)
    assert "no map here" in page.inner_text("#nogl")
    choose(page, "node 9")
    page.click("[data-factor='0']")
    page.click("#legend button >> nth=0")
    assert len(exported(page)) == 101


def test_a_lost_context_is_made_anew(server: Server, open_page: Open) -> None:
    page = open_page(server.address)
    before = len(colours(page))
    page.evaluate("""() => new Promise((resolve) => {
      const canvas = document.getElementById("points");
      const gl = canvas.getContext("webgl2").getExtension("WEBGL_lose_context");
      canvas.addEventListener("webglcontextrestored", () => setTimeout(resolve, 100));
      canvas.addEventListener("webglcontextlost", () => setTimeout(() => gl.restoreContext(), 100));
      gl.loseContext();
    })""")
    assert len(colours(page)) > before / 2


def steps(graph: Graph, start: int) -> list[int]:
    """Distances by a plain loop, along links of either direction."""
    beside: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for a, b in zip(graph.sources().tolist(), graph.indices.tolist(), strict=True):
        beside[a].add(b)
        beside[b].add(a)
    found = [-1] * graph.num_nodes
    found[start] = 0
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for other in beside[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                queue.append(other)
    return [65_535 if each < 0 else each for each in found]


@pytest.mark.parametrize("directed", [False, True])
def test_the_questions_are_answered_as_by_plain_loops(directed: bool, open_page: Open) -> None:
    size, num_factors = 90, 3
    edges = ring(size - 2, chords=5)
    labels = np.arange(size) % 4 - 1
    graph = Graph.from_edges(*edges, num_nodes=size, y=labels, class_names=["a", "b", "c"], directed=directed)
    view = made(graph=graph, num_factors=num_factors, seed=3)
    q, nodes = view.link_q, view.node_q
    with served(view) as server:
        # Asked from a page of our own making: the page itself forbids code from texts.
        page = open_page(server.address, bypass_csp=True)

        def ask(question: str) -> Any:
            return page.evaluate(ASK, question)

        away = steps(graph, 5)
        assert ask("Array.from(graph.distances(data, 5))") == away
        for start in range(0, size, 11):  # few and many nodes at a time, in either way of looking
            assert ask(f"Array.from(graph.distances(data, {start}))") == steps(graph, start)
        far = ask("graph.farAlike(data, 5, graph.distances(data, 5), 10)")
        overlap = {i: 1 - np.abs(nodes[i] - nodes[5]).sum() / 2 for i in range(size) if away[i] >= 4 and nodes[i].any()}
        expected = sorted(overlap, key=lambda i: -overlap[i])[:10]
        assert far["least"] == 4
        assert [found["node"] for found in far["found"]] == expected
        np.testing.assert_allclose([found["overlap"] for found in far["found"]], [overlap[i] for i in expected], 1e-5)
        for k in range(num_factors):
            own = [arc for arc in range(graph.num_arcs) if q[arc].argmax() == k]
            own.sort(key=lambda arc: -int(q[arc, k]))
            found = ask(f"(({{arcs, total}}) => [Array.from(arcs), total])(graph.explainedBy(data, {k}, 20))")
            assert found == [own[:20], len(own)]
            sources = ask(f"graph.sourcesOf(data.indptr, {own})")
            assert sources == graph.sources()[own].tolist()
            pairs = ask(f"graph.classPairs(data, {k}, data.column('label'), 99)")
            sums: dict[tuple[int, int], int] = {}
            for arc, (a, b) in enumerate(zip(graph.sources(), graph.indices, strict=True)):
                if min(labels[a], labels[b]) >= 0:
                    sums[labels[a], labels[b]] = sums.get((labels[a], labels[b]), 0) + int(q[arc, k])
            assert {(each["from"], each["to"]) for each in pairs} == set(sums)
            shares = [sums[each["from"], each["to"]] / sum(sums.values()) for each in pairs]
            np.testing.assert_allclose([each["share"] for each in pairs], shares)
            assert shares == sorted(shares, reverse=True)
        np.testing.assert_allclose(ask("graph.usage(data)"), q.sum(axis=0) / q.sum())
        links = ask("graph.linksOf(data, 7)")
        expected_links = {(int(b), "→" if directed else "") for b in graph.indices[graph.indptr[7] : graph.indptr[8]]}
        if directed:
            expected_links |= {(int(a), "←") for a in graph.sources()[graph.indices == 7]}
        assert {(link["node"], link["arrow"]) for link in links} == expected_links
        assert [link["factor"] for link in links] == sorted(link["factor"] for link in links)
        assert ask("graph.drawn([1, 3, 2, 3].map((certainty) => ({ certainty })), 3)") == [
            {"certainty": 3},
            {"certainty": 2},
            {"certainty": 3},
        ]


def test_a_hundred_thousand_nodes_open(open_page: Open) -> None:
    size = 100_000
    graph = Graph.from_edges(*ring(size, chords=500_000), y=np.arange(size) % 10, name="large")
    view = made(graph=graph, num_factors=8, dim=16)
    with served(view) as server:
        page = open_page(server.address)
        assert "100,000 nodes" in page.inner_text("#about")
        choose(page, "77777")
        assert page.inner_text("#node .id") == "77777"
        page.click("[data-factor='3']")
        assert "The 5,000 most certain of" in page.inner_text("#lit")
        page.fill("#search", "123")
        page.click("#results button >> nth=0")
        assert page.inner_text("#selected").endswith("selected")
