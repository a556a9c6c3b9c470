"""Hand-written code next to the library that does the same: the reason why it exists.

    python benchmarks/kernels.py [--rounds 5] [--out results/kernels.md]

Each row is measured in one process on one thread. Ours and the alternative take turns; the medians of the CPU time are
compared, because the machine may be busy with other work. The results are checked to agree before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import dssl
from dssl.evaluation.probe import STRENGTHS, linear_probe
from dssl.evaluation.splits import random_splits
from dssl.kernels import fused
from dssl.kernels.id_table import TextTable
from dssl.kernels.spmm import spmm
from dssl.rng import stream
from dssl.runtime import environment, files
from dssl.studies.results_table import markdown_rows


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison; both functions do the same work."""

    what: str
    size: str
    library: str
    ours: Callable[[], object]
    theirs: Callable[[], object]


def products() -> list[Row]:
    """A sparse matrix with the links of a Facebook graph, or a random one, times a dense one."""
    rows, degree, width = 18_660, 85, 64
    draw = stream(0, "benchmark")
    indices = draw.integers(rows, size=rows * degree).astype(np.int32)
    indptr = np.arange(rows + 1, dtype=np.int64) * degree
    values = draw.random(indices.size, dtype=np.float32)
    matrix = sparse.csr_array((values, indices, indptr.astype(np.int32)), shape=(rows, rows))
    matrix.sort_indices()
    dense = draw.standard_normal((rows, width), dtype=np.float32)
    out = np.empty_like(dense)
    other = torch.sparse_csr_tensor(*map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data)), matrix.shape)
    columns = torch.from_numpy(dense)
    links = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data

    def ours() -> object:
        spmm(*links, dense, out, threads=1)
        return out

    np.testing.assert_allclose(ours(), matrix @ dense, rtol=1e-3, atol=1e-3)
    size = f"{rows:,} × {rows:,}, {matrix.nnz:,} entries, {width} columns"
    what = "sparse times dense (`kernels/spmm.py`)"
    return [
        Row(what, size, "torch CSR", ours, lambda: other @ columns),
        Row(what, size, "SciPy", ours, lambda: matrix @ dense),
    ]


def row_functions() -> list[Row]:
    """Functions of rows with their gradients, forward and backward."""
    values = torch.from_numpy(stream(0, "rows").standard_normal((18_660, 64), dtype=np.float32))
    mine, theirs = fused.PReLU(), torch.nn.PReLU()

    def both(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], object]:
        def step() -> object:
            x = values.clone().requires_grad_()
            function(x).sum().backward()
            return x.grad

        return step

    def normalise(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, dim=1)

    torch.testing.assert_close(fused.unit(values), normalise(values))
    size = "18,660 × 64, forward and backward"
    return [
        Row("rows of length 1 (`kernels/fused.py`)", size, "torch normalize", both(fused.unit), both(normalise)),
        Row("PReLU (`kernels/fused.py`)", size, "torch PReLU", both(mine), both(theirs)),
    ]


def probe() -> list[Row]:
    """All strengths of a logistic regression on a split: correlated columns, as embeddings have."""
    draw = stream(0, "probe")
    nodes, width, classes = 2_708, 64, 7
    y = draw.integers(classes, size=nodes)
    mixing = draw.standard_normal((width, width)) * (0.85 ** np.arange(width))[:, None]
    x = ((draw.standard_normal((nodes, width)) + draw.standard_normal((classes, width))[y]) @ mixing).astype(np.float32)
    splits = random_splits(y, count=1, seed=0)

    def theirs() -> object:
        scores = []
        for split in splits:
            centred = x - x[split.train].mean(axis=0)
            model = LogisticRegression(warm_start=True, max_iter=300, tol=1e-4)
            for strength in STRENGTHS:
                scores.append(model.set_params(C=strength).fit(centred[split.train], y[split.train]))
        return scores

    size = f"{nodes:,} nodes, {width} columns, {classes} classes, one split × {len(STRENGTHS)} strengths"
    ours = lambda: linear_probe(x, y, splits, scalings=("plain",))  # noqa: E731
    return [Row("linear probe (`evaluation/logistic.py`)", size, "scikit-learn, warm starts", ours, theirs)]


def ids() -> list[Row]:
    """Positions of text ids that arrive in blocks."""
    draw = stream(0, "ids")
    names = np.array([f"user_{i:07d}" for i in range(200_000)])
    blocks = [pa.array(names[draw.integers(names.size, size=250_000)]) for _ in range(8)]

    def ours() -> object:
        table = TextTable()
        return [table.add(block) for block in blocks]

    def theirs() -> object:
        return pa.chunked_array(blocks).combine_chunks().dictionary_encode().indices

    found = np.concatenate(ours())  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, theirs().to_numpy())  # type: ignore[attr-defined]
    size = "2,000,000 text ids in 8 blocks, 200,000 different"
    return [Row("table of ids (`kernels/id_table.py`)", size, "Arrow dictionary_encode, all at once", ours, theirs)]


def measure(row: Row, rounds: int) -> dict[str, Any]:
    """Median CPU seconds of both sides, which take turns."""
    spent: dict[str, list[float]] = {"ours": [], "theirs": []}
    for function in (row.ours, row.theirs):
        function()
    for _ in range(rounds):
        for name, function in (("ours", row.ours), ("theirs", row.theirs)):
            start = time.process_time()
            function()
            spent[name].append(time.process_time() - start)
    ours, theirs = (statistics.median(values) for values in spent.values())
    return {"row": row, "ours": ours, "theirs": theirs, "faster": theirs / ours}


def page(records: list[dict[str, Any]], started: datetime) -> str:
    """The records as a table."""
    about = environment.describe("python benchmarks/kernels.py", started=started, resumed_at=0)
    lines = [
        "# Hand-written code and libraries",
        "",
        "Generated by `python benchmarks/kernels.py`: one thread, median CPU time, both sides in turns in one process.",
        "",
        f"Machine: {about['processor']}, {about['cores']} cores, {about['system']}; Python {about['python']}, "
        f"{about['finished'][:10]}.",
        "",
    ]
    rows = []
    for record in records:
        row, times = record["row"], [f"{1e3 * record[side]:,.1f}" for side in ("theirs", "ours")]
        rows.append([row.what, row.size, row.library, *times, f"**{record['faster']:.1f} ×**"])
    header = ["code", "size", "library", "library, ms", "ours, ms", "ratio"]
    return "\n".join([*lines, *markdown_rows(header, rows, align="lllr")]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/kernels.md"))
    options = parser.parse_args()
    started = datetime.now(UTC)
    torch.set_num_threads(1)
    assert dssl.__version__
    rows = [*products(), *row_functions(), *probe(), *ids()]
    records = [measure(row, options.rounds) for row in rows]
    files.write_text(options.out, page(records, started))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
