"""The same class or factor has the same colour in the pictures, the report and the explorer."""

from __future__ import annotations

import re
from pathlib import Path

from dssl.evaluation.pictures import COLOURS

SOURCE = Path(__file__).resolve().parents[1] / "src" / "dssl"


def test_pictures_report_and_explorer_have_the_same_colours() -> None:
    style = (SOURCE / "report/templates/report.css").read_text(encoding="utf-8")
    assert tuple(re.findall(r"--c\d: (#\w{6});", style)[:8]) == COLOURS
    script = (SOURCE / "explore/web/colour.js").read_text(encoding="utf-8")
    assert tuple(re.findall(r"#\w{6}", script)[:8]) == COLOURS
    assert script.count("const PALETTE = [") == 1
