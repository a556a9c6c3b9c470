"""Take docs/images/report.png, the picture in docs/report.md: ``python docs/images/report.py RUN/report.html``.

It needs Playwright, which the extra ``dev`` installs, and a chromium.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def main(page: Path, out: Path) -> None:
    """Take the top of a page and its map, at half of their size."""
    from PIL import Image

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        opened = browser.new_page(viewport={"width": 1120, "height": 900})
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("html[data-drawn]", timeout=120_000)
        opened.screenshot(path=out, full_page=True)
        parts = [opened.locator(part).bounding_box() for part in ("nav", ".verdicts", "#map", "#factors")]
        browser.close()
    tops = [part["y"] if part else 0 for part in parts]
    whole = Image.open(out).convert("RGB")
    kept = [(0, int(tops[1] + (parts[1] or {"height": 0})["height"])), (int(tops[2]), int(tops[3]) + 480)]
    pieces = [whole.crop((0, top, whole.width, bottom)) for top, bottom in kept]
    picture = Image.new("RGB", (whole.width, sum(piece.height for piece in pieces)))
    below = 0
    for piece in pieces:
        picture.paste(piece, (0, below))
        below += piece.height
    small = picture.resize((700, picture.height * 700 // picture.width), Image.Resampling.LANCZOS)
    palette = small.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    palette.save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_suffix(".png"))
