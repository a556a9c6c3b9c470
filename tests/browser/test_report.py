"""Pages about runs as a person opens them: from a file, in light and dark, on a phone, with hostile text in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dssl.config.resolve import resolve
from dssl.report import page as report
from dssl.runs import workflow
from tests.browser.conftest import TIMEOUT
from tests.report.test_page import HOSTILE, SMALL, make, table

Open = Callable[..., Any]
DRAWN = "html[data-drawn]"
PLACE = """(at) => {
  const box = document.querySelector(".chart.map"), { xaxis, yaxis } = box._fullLayout;
  const rect = box.getBoundingClientRect(), trace = box.data[0];
  return [rect.left + xaxis._offset + xaxis.d2p(trace.x[at]), rect.top + yaxis._offset + yaxis.d2p(trace.y[at])];
}"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    ids = [HOSTILE[at] if at < len(HOSTILE) else f"n{at}" for at in range(24)]
    labels = [label.replace('"', '""') for label in HOSTILE]
    return report.write([make(tmp_path_factory.mktemp("hostile"), table(labels), ids)]).as_uri()


def test_every_chart_is_drawn_and_hostile_text_does_nothing(open_page: Open, hostile: str) -> None:
    asked: list[str] = []
    page = open_page(hostile, wait=DRAWN, before="window.alert = () => { throw new Error('alert'); };")
    page.on("request", lambda request: asked.append(request.url))
    charts = page.locator("[data-chart]").count()
    assert charts > 10
    assert page.locator("[data-chart] .main-svg:first-of-type").count() >= charts
    assert page.locator(".chart a, .chart img, main img").count() == 0
    legend = page.locator(".chart.map .legendtext").all_text_contents()
    assert any(text.startswith("</script>") for text in legend)
    for at in range(page.locator("#colour option").count()):
        page.select_option("#colour", index=at)
    page.select_option("#colour", label="degree")
    page.wait_for_selector(".chart.map .colorbar")
    page.locator(".chart.map").scroll_into_view_if_needed()
    left, top = page.evaluate(PLACE, 0)
    page.mouse.move(left - 30, top - 30)
    page.mouse.move(left, top, steps=3)
    page.wait_for_selector("#tip:not([hidden])")
    assert page.locator("#tip b").inner_text().startswith("</script><script>alert(1)")
    assert asked == []


def test_light_and_dark(open_page: Open, hostile: str) -> None:
    page = open_page(hostile, wait=DRAWN, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.click("#theme")
    page.wait_for_selector("html[data-theme=light]")
    light = page.evaluate(paper)
    brightness = [sum(map(float, colour[4:-1].split(","))) for colour in (dark, light)]
    assert brightness[0] < 200 < 600 < brightness[1]
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()


def test_a_phone_needs_no_scrolling_to_the_side(open_page: Open, hostile: str) -> None:
    page = open_page(hostile, wait=DRAWN, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator(".chart.map").bounding_box()["width"] > 300


def test_many_nodes_are_painted_without_eval(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{at},{at + 1}\n" for at in range(3200)))
    settings = {**SMALL, "dim": 2, "epochs": 0, "source": str(tmp_path / "edges.csv")}
    workflow.fit(resolve(settings), tmp_path / "run")
    errors: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.write([tmp_path / "run"]).as_uri())
    page.wait_for_selector(DRAWN)
    page.wait_for_selector(".chart.map .imagelayer image")
    where = """() => {
      const box = document.querySelector(".chart.map"), { xaxis, yaxis } = box._fullLayout, group = box.groups[0];
      const rect = box.getBoundingClientRect(), node = group.nodes[7];
      const at = [xaxis._offset + xaxis.d2p(group.x[node]), yaxis._offset + yaxis.d2p(group.y[node])];
      return [rect.left + at[0], rect.top + at[1]];
    }"""
    page.locator(".chart.map").scroll_into_view_if_needed()
    left, top = page.evaluate(where)
    page.mouse.move(left - 40, top - 40)
    page.mouse.move(left, top, steps=3)
    page.wait_for_selector("#tip:not([hidden])")
    before = page.get_attribute(".chart.map .imagelayer image", "href")
    page.mouse.wheel(0, -300)  # a closer look is painted anew
    page.wait_for_function(
        "(before) => document.querySelector('.chart.map .imagelayer image')?.getAttribute('href') !== before",
        arg=before,
    )
    page.select_option("#colour", label="degree")
    page.wait_for_selector(".chart.map .colorbar")
    assert errors == []
    page.close()
