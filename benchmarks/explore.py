"""How fast the explorer answers a click: the server alone, and a real browser from the click to the drawn panel.

    python benchmarks/explore.py [--nodes 100_000] [--clicks 40] [--run RUN] [--out results/explore.md]

Without --run, a graph with made-up links, posteriors and vectors of the default length is shown: times do not depend on
what was learnt, and nothing has to be trained. A click is a click of the mouse on the map; its time runs from the
browser's own time stamp of the event until the whole panel is drawn: neighbourhood, distances to all nodes, nearest
nodes (from the server) and those far away for the same reasons. A step of the map is the time between two pictures
while the map is being dragged. Beside each time stands that of the processor alone, which other work on the machine
lengthens less: of the page's own thread, and of the server.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import sync_playwright
from tests.browser.conftest import executable
from tests.views import made, served

from dssl.explore import view as explore
from dssl.explore.server import HOST, Server
from dssl.graph import Graph
from dssl.runtime import environment, files

DEGREE, FACTORS, DIM = 12, 8, 384
WATCH = """() => {
  window.clicks = [];
  let from = null;
  const panel = document.getElementById("node");
  addEventListener("pointerup", (event) => (from = event.timeStamp), true);
  new MutationObserver(() => {
    if (panel.dataset.state !== "complete" || from === null) return;
    const begin = from;
    from = null;
    requestAnimationFrame(() => {  // the message comes after the picture with the panel
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (panel.dataset.clicks = window.clicks.push(performance.now() - begin));
      port2.postMessage(null);
    });
  }).observe(panel, { attributes: true, attributeFilter: ["data-state"] });
}"""
STEPS = """() => {
  window.steps = [];
  let before = null;
  const step = (now) => {
    if (before !== null) window.steps.push(now - before);
    before = now;
    if (window.steps.length < 60) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}"""


def large(nodes: int) -> explore.View:
    """A view with links between nodes of very different degrees, drawn at random."""
    rng = np.random.default_rng(0)
    ends = np.minimum((nodes * rng.random((2, nodes * DEGREE // 2)) ** 2).astype(np.int64), nodes - 1)
    graph = Graph.from_edges(*ends, num_nodes=nodes, y=rng.integers(0, 10, nodes), name="made up")
    return made(graph=graph, num_factors=FACTORS, dim=DIM)


def answers(server: Server, count: int, nodes: int) -> tuple[list[float], float]:
    """Milliseconds that the server takes for the nearest nodes of one node, and those of the processor on average."""
    connection = http.client.HTTPConnection(HOST, server.server_port)
    found = []
    before = time.process_time()
    for node in np.random.default_rng(1).integers(0, nodes, count).tolist():
        start = time.perf_counter()
        connection.request("GET", f"/{server.token}/data/nearest/{node}.bin")
        connection.getresponse().read()
        found.append(1000 * (time.perf_counter() - start))
    connection.close()
    return found, 1000 * (time.process_time() - before) / count


def in_browser(address: str, clicks: int) -> dict[str, Any]:
    """Milliseconds until the page is ready, of each click, and between pictures of the map that is dragged."""
    path = executable()
    if path is None:
        sys.exit("no browser on this machine: install chromium, or set DSSL_BROWSER")
    options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options, timeout=120_000)
        page = browser.new_page(viewport={"width": 1360, "height": 820})
        page.set_default_timeout(120_000)
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        opened = 1000 * (time.perf_counter() - start)
        box = page.locator("#points").bounding_box()
        centre = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.evaluate(WATCH)
        inspector = page.context.new_cdp_session(page)
        inspector.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy = 0.0
        rng = np.random.default_rng(2)
        for _ in range(20 * clicks):
            done = page.evaluate("window.clicks.length")
            if done == 1:
                busy = busy_time(inspector)  # the first one compiles the scripts
            if done == clicks + 1:
                break
            before = page.get_attribute("#node", "data-node")
            page.mouse.click(centre[0] + rng.normal(0, 90), centre[1] + rng.normal(0, 90))
            if page.get_attribute("#node", "data-node") not in (before, ""):
                page.wait_for_selector(f"#node[data-clicks='{done + 1}']")
        times = page.evaluate("window.clicks")[1:]
        busy = 1000 * (busy_time(inspector) - busy) / max(len(times), 1)
        page.mouse.move(*centre)
        page.mouse.down()
        page.evaluate(STEPS)
        for i in range(300):
            page.mouse.move(centre[0] + 100 * np.sin(i / 10), centre[1] + 100 * np.cos(i / 10))
            if i % 10 == 9 and page.evaluate("window.steps.length") >= 60:
                break
        steps = page.evaluate("window.steps")
        version = browser.version
        browser.close()
    return {"opened": opened, "clicks": times, "steps": steps, "version": version, "busy": busy}


def busy_time(inspector: Any) -> float:
    """Seconds of the processor that the page's thread has taken so far."""
    metrics = inspector.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def row(name: str, times: list[float], busy: float | None = None) -> str:
    at = np.percentile(times, [50, 95]) if times else [np.nan, np.nan]
    return f"| {name} | {len(times)} | {at[0]:.0f} | {at[1]:.0f} | {'' if busy is None else f'{busy:.0f}'} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/explore.md"))
    options = parser.parse_args()
    view = large(options.nodes) if options.run is None else explore.of_run(options.run)
    with served(view) as server:
        alone, work = answers(server, options.clicks, len(view.ids))
        found = in_browser(server.address, options.clicks)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    raised = f" while this ran at priority {os.nice(0)}" if hasattr(os, "nice") and os.nice(0) else ""
    record = environment.describe("", started=datetime.now(UTC), resumed_at=0)
    lines = [
        "# How fast the explorer answers",
        "",
        f"{len(view.ids):,} nodes, {view.graph.num_edges:,} links, {view.node_q.shape[1]} factors, vectors of "
        f"{view.unit.shape[1]} numbers ({view.name}); made by `python benchmarks/explore.py`, which says",
        f"what is measured. Chromium {found['version']} without a graphics card (the map is drawn by the processor), "
        f"{record['processor']}, {record['cores']} cores,",
        f"load {load:.1f}{raised}, Python {record['python']}, dssl {record['packages']['dssl']}.",
        "",
        "| milliseconds | times | median | 95% within | processor, mean |",
        "| --- | --: | --: | --: | --: |",
        row("the server's answer: nearest nodes of a node", alone, work),
        row("from a click on the map to the whole panel", found["clicks"], found["busy"]),
        row("a step of the map while it is dragged", found["steps"]),
        row("from the address to a page that is ready", [found["opened"]]),
    ]
    print("\n".join(lines))
    print(f"median of clicks: {statistics.median(found['clicks']):.1f} ms")
    files.write_text(options.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
