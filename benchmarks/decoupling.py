"""Where does decoupling pay? Full DSSL beside ablations of its factors, for nodes and for links.

    python benchmarks/decoupling.py [--graphs texas cora …] [--seeds 10] [--out results/decoupling] [--workers 2]

One training per graph, variant and seed, on the graph without 15% of its links (5% validate, 10% test), judged on
both tasks: linear probe of the nodes' classes, and ranking of the hidden links. A seed is a seed of everything: hidden
links, splits, weights. Differences are taken seed by seed, so that what all variants share cancels out. Nothing but the
probe's strength and scaling is chosen, on validation. Records go to OUT/*.jsonl, tables made of them to OUT.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dssl.cli.progress import Progress
from dssl.runtime import files
from dssl.studies import experiments
from dssl.studies.experiments import Job
from dssl.studies.records import Record, View
from dssl.studies.records import records as read_records
from dssl.studies.results_table import markdown_rows

OFF = {"local_weight": 0.0, "global_weight": 0.0, "entropy_weight": 0.0, "balance_weight": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "A4 (no shift)": {"shift_scale": 0.0},
    "A5 (uniform)": {"inference": "uniform"},
    "K = 1": {"num_factors": 1},
    "reconstruction only": OFF,
    "taught by pairs": {"distillation_weight": 1.0},
}
# Options that were removed because they were not better than the default; their stored records are still shown. The
# closed form is the posterior p(k | v) N(z; v + β g(k), σ₂²) in place of the network; a map is a matrix per factor.
REMOVED = ("closed form", "maps", "maps, K = 1", "maps, taught")
SYNTHETIC = [f"syn-cora-{h}" for h in ("0.0", "0.2", "0.5", "0.8", "1.0")]
REAL = ["texas", "cornell", "wisconsin", "cora", "chameleon", "reed98"]
PLANTED = ["planted:factors=4"]
# The trained vector on raw features, since topics, which use the links, would hide the effect of the loss; links are
# not reconstructed, since that is another way to learn them.
EVERY = {"features": "raw", "link_reconstruction_weight": 0.0, "distillation_weight": 0.0}


def jobs(graphs: list[str], seeds: int, variants: list[str]) -> list[Job]:
    """Seed by seed, so that a run which is stopped has something of everything."""
    return [
        Job(
            graph=f"{graph},seed={seed}" if graph.startswith("planted:") else graph,
            row=name,
            settings={**EVERY, **VARIANTS[name]},
            seed=seed,
            splits=5,
            split_seed=seed,
            hide_links=True,
            views=("trained", "factorwise"),
        )
        for seed in range(seeds)
        for graph in graphs
        for name in variants
    ]


MEASURES = {
    "Node classification: accuracy of the linear probe on the trained columns (%)": lambda r: probe(r, "trained"),
    "Node classification with the factor-wise readout [v | Σ q(k) v_j for each k] (%)": lambda r: probe(
        r, "factorwise"
    ),
    "Links: AUC of the logistic regression on pairs, uniform negatives (%)": lambda r: links(r, "probe_uniform_auc"),
    "Links: the same with negatives drawn by degree (%)": lambda r: links(r, "probe_degree_auc"),
    "Links: AUC of the cosine, uniform negatives (%)": lambda r: links(r, "cosine_uniform_auc"),
    "Links: AUC of the model's own likelihood (Eq. 1), uniform negatives (%)": lambda r: (
        100 * r.links_model["model_uniform_auc"] if r.links_model else None
    ),
    "Links: AUC of the model's own likelihood, negatives drawn by degree (%)": lambda r: (
        100 * r.links_model["model_degree_auc"] if r.links_model else None
    ),
}


def probe(record: Record, view: View) -> float | None:
    found = record.views[view].probe if view in record.views else {}
    return 100 * float(np.mean(found["accuracy"])) if found else None


def links(record: Record, name: str) -> float | None:
    return 100 * float(record.views["trained"].links[name])


def tables(records: list[Record]) -> str:
    """A table per measure: the full model, and what each variant adds to it, paired by seed."""
    text = [__doc__.splitlines()[0], ""]
    text += [
        "Made by `python benchmarks/decoupling.py` from the records beside it. First column: full DSSL, mean ± "
        "standard error over seeds. Others: variant minus full, paired by seed; **bold** beyond 2 standard errors; "
        "(n) if of fewer seeds. The options of the last columns, from *closed form* on, were removed afterwards: a "
        "matrix per factor in place of a shift (*maps*), and the closed-form posterior in place of the network.",
    ]
    graphs = list(dict.fromkeys(group(record) for record in records))
    order = [*PLANTED, *SYNTHETIC, *REAL]
    graphs.sort(key=lambda name: order.index(name) if name in order else len(order))
    rows = [name for name in (*VARIANTS, *REMOVED) if any(record.row == name for record in records)]
    for title, measure in MEASURES.items():
        body = []
        for graph in graphs:
            values = {
                name: {
                    record.seed: value
                    for record in records
                    if group(record) == graph and record.row == name and (value := measure(record)) is not None
                }
                for name in rows
            }
            full = values["full"]
            cells = [graph, str(len(full)), spread(list(full.values()))]
            for name in rows[1:]:
                both = sorted(full.keys() & values[name].keys())
                cells.append(difference([values[name][seed] - full[seed] for seed in both], len(full)))
            body.append(cells)
        text += ["", f"## {title}", "", *markdown_rows(["graph", "seeds", *rows], body)]
    return "\n".join(text) + "\n"


def group(record: Record) -> str:
    return record.graph.partition(",seed=")[0]


def spread(values: list[float]) -> str:
    if len(values) < 2:
        return "–"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


def difference(values: list[float], seeds: int) -> str:
    """Mean and standard error; with the number of seeds where it is not that of the full model."""
    if len(values) < 2:
        return "–"
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    text = f"{mean:+.1f} ± {error:.1f}"
    text = f"**{text}**" if abs(mean) > 2 * error else text
    return text if len(values) == seeds else f"{text} ({len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=[*PLANTED, *SYNTHETIC, *REAL])
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/decoupling"))
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    todo = jobs(options.graphs, options.seeds, options.variants)
    with Progress("decoupling", quiet=False) as shown:
        shown.plan(len(todo))
        experiments.run(todo, options.out, workers=options.workers, on_record=shown.record)
    text = tables(read_records(options.out))
    files.write_text(options.out.with_suffix(".md"), text)
    print(text)


if __name__ == "__main__":
    main()
