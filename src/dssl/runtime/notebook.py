"""Values as small HTML tables, which notebooks show in place of the repr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def pairs(title: str, rows: Mapping[str, object]) -> str:
    """Return a table of names and values under a title.

    >>> pairs("Graph", {"nodes": 3})
    '<table><caption><b>Graph</b></caption><tr><th>nodes</th><td>3</td></tr></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table><caption><b>{escape(title)}</b></caption>{body}</table>"


def grid(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a header row under a title.

    >>> grid("Vectors", ["id", "z0"], [["a", 1]])
    '<table><caption><b>Vectors</b></caption><tr><th>id</th><th>z0</th></tr><tr><td>a</td><td>1</td></tr></table>'
    """
    lines = [header, *rows]
    marks = ["th", *["td"] * (len(lines) - 1)]
    body = "".join(
        "<tr>" + "".join(f"<{mark}>{escape(str(cell))}</{mark}>" for cell in line) + "</tr>"
        for mark, line in zip(marks, lines, strict=True)
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{body}</table>"
