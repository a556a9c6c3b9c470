"""The picture of the explorer: `python docs/images/explore.py [--run RUN]` fits a small run and photographs its page.

The graph is the code of the package rich, whose ids are names; a browser is needed, as for the tests.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from playwright.sync_api import sync_playwright
from tests.browser.conftest import executable
from tests.views import served

from dssl.config.resolve import resolve
from dssl.explore import view as explore
from dssl.runs import workflow
from dssl.runtime import files

SOURCE, NODE = "python:rich", "rich.console.Console"
MOST_BYTES = 200_000


def photograph(view: explore.View, target: Path) -> None:
    """Open the page, choose a node, and take a picture."""
    with served(view) as server, sync_playwright() as playwright:
        options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=executable(), args=options, timeout=120_000)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.set_default_timeout(120_000)
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.fill("#search", NODE)
        page.press("#search", "Enter")
        page.wait_for_selector("#node[data-state=complete]")
        page.fill("#search", "")
        page.focus("#points")
        page.evaluate("document.activeElement.blur()")
        page.wait_for_timeout(1000)
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    with files.replacing(target) as temporary:
        # This choice of colours keeps the rare ones, which small signs such as those of the factors have.
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(temporary, optimize=True)
    size = target.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{target} has {size:,} bytes, more than {MOST_BYTES:,}: make the window smaller")


def main() -> None:
    """Fit the run unless it is given, and write the picture next to this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, help="a run that is there already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = options.run or Path(folder) / "run"
        if options.run is None:
            workflow.fit(resolve({"graph.source": SOURCE}), found)
        photograph(explore.of_run(found), Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main()
