"""The default preset on every graph of this machine, beside baselines that need no training.

    python benchmarks/quality.py [--datasets texas cora …] [--splits 10] [--out results/default]

One JSON record per graph (settings, versions, time, memory, health of the factors, accuracies per split) and a table
made from the records. A graph whose record is there already is not run again: delete the record to do so. The rows are
one training seed; ± is the standard deviation over splits. No setting was chosen with these numbers in view of the test
parts; `val` is what choices may look at.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from datetime import UTC, datetime
from pathlib import Path

import dssl
from dssl import environment, evaluate, files
from dssl.datasets import DATASETS, available

HEALTH = ("effective_rank", "posterior_entropy", "factor_usage_max", "factor_information")
BASELINES = ("majority", "raw", "smoothed", "hops", "adjacency")


def measure(name: str, splits: int) -> dict[str, object]:
    graph = dssl.load(name)
    model = dssl.DSSL()
    started, begun = datetime.now(UTC), time.perf_counter()
    values = model.fit_transform(graph)
    seconds = time.perf_counter() - begun
    plain = graph.without_self_loops().undirected()
    found = evaluate.evaluate(plain, values, splits=splits)
    trained = evaluate.evaluate(plain, values[:, : model.config.encoder.dim].copy(), splits=splits, sanity=False)
    last = model.metrics_[-1]
    return {
        "graph": name,
        "seconds": round(seconds, 1),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "width": values.shape[1],
        "health": {key: last[key] for key in HEALTH},
        "probe": {key: found["probe"][key] for key in ("accuracy", "val_accuracy")},
        "trained_only": {key: trained["probe"][key] for key in ("accuracy", "val_accuracy")},
        "sanity": {key: found["sanity"][key]["accuracy"] for key in BASELINES if key in found["sanity"]},
        "verdict": found["verdict"],
        "settings": model.config.model_dump(mode="json"),
        "environment": environment.describe("benchmarks/quality.py", started=started, resumed_at=0),
    }


def table(records: list[dict]) -> str:
    head = "| graph | embedding | trained part alone | best baseline | which | rank of 64 | entropy | usage | seconds |"
    lines = [head, "| --- " * 9 + "|"]
    for record in records:
        baselines = {name: score["mean"] for name, score in record["sanity"].items()}
        best = max(baselines, key=baselines.__getitem__)
        health = record["health"]
        cells = [
            record["graph"],
            *(percent(record[part]["accuracy"]) for part in ("probe", "trained_only")),
            percent(record["sanity"][best]),
            best,
            f"{health['effective_rank']:.0f}",
            f"{health['posterior_entropy']:.2f}",
            f"{health['factor_usage_max']:.2f}",
            f"{record['seconds']:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def percent(score: dict[str, float]) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['std']:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="*", default=[name for name in DATASETS if available(name)])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("results/default"))
    options = parser.parse_args()
    for number, name in enumerate(options.datasets, start=1):
        path = options.out / f"{name}.json"
        print(f"{number}/{len(options.datasets)} {name}", flush=True)
        if not path.exists():
            files.write_json(path, measure(name, options.splits))
        records = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
        files.write_text(options.out.with_suffix(".md"), table(records))
    print(options.out.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
