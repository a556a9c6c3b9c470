"""The section of a report about the graph: sizes, homophily and classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dssl.report.facts import number
from dssl.runs.records import Homophily

HOMOPHILY = {
    "edge_homophily": ("Edge homophily h", "fraction of links within a class"),
    "class_average_homophily": ("Class-average homophily ĥ", "mean over classes of the excess over random links"),
    "node_homophily": ("Node homophily", "mean fraction of a node's neighbours in its own class"),
    "adjusted_homophily": (
        "Adjusted homophily",
        "0 for links independent of classes, 1 if all links are within classes",
    ),
}


def sizes(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the table of sizes."""
    kind = "directed" if summary.get("directed") else "undirected"
    rows = [
        ("nodes", number(summary.get("nodes"))),
        ("links", number(summary.get("edges"))),
        ("kind", f"{kind} weighted" if summary.get("weighted") else kind),
        ("mean degree", number(summary.get("mean_degree"))),
        ("largest degree", number(summary.get("max_degree"))),
        ("components", number(summary.get("components"))),
        ("in the largest", number(summary.get("largest_component"))),
        ("without links", number(summary.get("isolated_nodes"))),
        ("self loops", number(summary.get("self_loops"))),
        ("features", number(summary.get("features")) if summary.get("features") else "none"),
        ("classes", number(summary.get("classes")) if summary.get("classes") else "none"),
    ]
    if summary.get("classes"):
        rows.append(("labelled nodes", number(summary.get("labelled_nodes"))))
    return rows


def homophily(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the known measures of homophily with their names and meanings."""
    return [
        {"name": name, "words": words, "value": summary[key]}
        for key, (name, words) in HOMOPHILY.items()
        if summary.get(key) is not None
    ]


def spectrum(found: Homophily | None) -> dict[str, Any] | None:
    """Return the directions of the spectrum of homophily with the sides of their bars; none without topics."""
    if found is None:
        return None
    rows = [
        {
            "value": direction.value,
            "columns": ", ".join(direction.columns),
            "left": 50 + 50 * min(0.0, max(direction.value, -1.0)),
            "width": 50 * min(abs(direction.value), 1.0),
        }
        for direction in found.first
    ]
    return {"chance": found.chance, "directions": found.directions, "rows": rows}


def reading(summary: Mapping[str, Any]) -> str:
    """The homophily in a sentence."""
    adjusted = summary.get("adjusted_homophily")
    if adjusted is None:
        return ""
    if adjusted >= 0.3:
        return "Linked nodes tend to be of the same class."
    if adjusted <= -0.05:
        return "Linked nodes tend to be of different classes."
    return "Links are nearly independent of the classes."


def class_sizes(summary: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the sizes of the largest classes, and the number of classes left out."""
    sizes = summary.get("class_sizes") or []
    titles = names if len(names) == len(sizes) else [str(at) for at in range(len(sizes))]
    rows = sorted(zip(titles, sizes, strict=True), key=lambda row: -row[1])
    largest = max(sizes, default=0) or 1
    shown = [{"name": name, "size": size, "share": 100 * size / largest} for name, size in rows[:12]]
    return {"rows": shown, "left_out": max(0, len(rows) - 12)}
