"""The spectrum of homophily of four graphs, beside the measures of homophily that need labels.

    python benchmarks/homophily.py [--out results/homophily.md]

A citation graph, a graph of web pages, a social graph and the code graph of the demo.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import dssl
from dssl.graph.statistics import summary
from dssl.runtime import files
from dssl.studies.results_table import markdown_rows

GRAPHS = ("cora", "texas", "reed98", "python:stdlib")
MEASURES = ("edge_homophily", "class_average_homophily", "adjusted_homophily")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/homophily.md"))
    options = parser.parse_args()
    rows, sections = [], []
    for source in GRAPHS:
        graph = dssl.load(source)
        labels, found = summary(graph), dssl.homophily_spectrum(graph)
        shown = found.summary(graph.feature_names, count=5)
        largest, smallest = max(0.0, *found.effective), min(0.0, *found.effective)
        figures = [f"{shown['directions']:,}", f"{found.chance:.2f}", f"{largest:+.2f}", f"{smallest:+.2f}"]
        rows.append([source, *figures, *(f"{labels[name]:.2f}" for name in MEASURES)])
        lines = [[f"{each['value']:+.2f}", ", ".join(each["columns"])] for each in shown["first"]]
        sections += ["", f"## {source}", ""]
        sections += markdown_rows(["eigenvalue", "main columns"], lines) if lines else ["No direction is above chance."]
    header = ["graph", "directions above chance", "chance", "largest", "smallest"]
    header += [name.replace("_", " ") for name in MEASURES]
    text = [
        "# The spectrum of homophily of four graphs",
        "",
        "`python benchmarks/homophily.py`. The first columns need no labels: the number of directions of the features",
        "in which neighbours are similar or opposite beyond chance, the level of chance, and the largest and smallest",
        "eigenvalue without the part due to chance. The last three are computed from the labels. Columns without names",
        "are numbers.",
        "",
        *markdown_rows(header, rows),
        *sections,
    ]
    files.write_text(options.out, "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
