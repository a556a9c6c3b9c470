"""The plan of the compiled pass, and that its result depends neither on threads nor (but for rounding) on parts.

That it equals a literal loop in value and gradient: ``tests/methods/dssl/test_posterior.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from dssl.kernels import link_posterior
from dssl.kernels.link_posterior import Plan
from tests.methods.dssl.test_posterior import random_links


def large_links(seed: int = 0) -> sparse.csr_array:
    """Enough links for several parts, unevenly spread, with empty rows and columns."""
    draw = np.random.default_rng(seed)
    rows, columns = 900, 700
    chance = draw.random(rows)[:, None] ** 2 * draw.random(columns)[None] ** 3
    dense = (draw.random((rows, columns)) < chance) * draw.random((rows, columns))
    dense[:40], dense[:, 5:9] = 0, 0
    return sparse.csr_array(dense.astype(np.float32))


def arrays(links: sparse.csr_array, hidden: int = 20, factors: int = 5) -> list[np.ndarray]:
    draw = np.random.default_rng(3)
    shapes = [(links.shape[0], hidden), (links.shape[1], hidden), (factors, hidden), (factors,)]
    return [draw.normal(size=shape).astype(np.float32) for shape in shapes]


def results(plan: Plan, given: list[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    grads = given[0][:, : given[3].size].copy(), given[1][:, : given[3].size].copy()
    found = link_posterior.backward(plan, given, *grads, 0.7, threads=threads)
    return [*link_posterior.forward(plan, given, threads=threads), *found]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_the_parts_hold_every_link_once(parts: int) -> None:
    links = large_links()
    plan = Plan.build(links, parts=parts)
    assert plan.rows[0] == 0 and plan.rows[-1] == links.shape[0] and np.all(np.diff(plan.rows) >= 0)
    np.testing.assert_array_equal(plan.starts[0], links.indptr[:-1])
    np.testing.assert_array_equal(plan.starts[-1], links.indptr[1:])
    columns: list[set[int]] = [set() for _ in range(parts)]
    for part in range(parts):
        for i in range(links.shape[0]):
            columns[part] |= set(links.indices[plan.starts[part, i] : plan.starts[part + 1, i]].tolist())
    assert all(not columns[a] & columns[b] for a in range(parts) for b in range(a))
    share = [sum(len(range(a, b)) for a, b in zip(*plan.starts[p : p + 2], strict=True)) for p in range(parts)]
    assert sum(share) == links.nnz and max(share) < 1.5 * links.nnz / parts


def test_parts_change_rounding_alone() -> None:
    links = large_links()
    given = arrays(links)
    wanted = results(Plan.build(links, parts=1), given)
    for parts in (2, 7):
        for mine, one in zip(results(Plan.build(links, parts=parts), given), wanted, strict=True):
            np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-4)


def test_few_links_and_links_out_of_order_are_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    links = large_links()
    assert len(Plan.build(links).rows) == 2
    monkeypatch.setattr(link_posterior, "PARTS", ((1000, 3), (2000, 5), (10**9, 7)))
    assert len(Plan.build(links).rows) == 6
    turned = sparse.csr_array((links.data[::-1], links.indices[::-1], links.nnz - links.indptr[::-1]), links.shape)
    assert len(Plan.build(turned).rows) == 2


@pytest.mark.parametrize("parts", [1, 3])
def test_more_factors_than_a_vector_holds_and_odd_sizes(parts: int) -> None:
    links = random_links(9, 7, seed=1)
    a, b, weight, bias = given = arrays(links, hidden=19, factors=11)
    by_centre, _, _, _ = link_posterior.forward(Plan.build(links, parts=parts), given, threads=1)
    dense = links.toarray()
    for i in range(9):
        wanted = np.zeros(11)
        for j in np.flatnonzero(dense[i]):
            scores = weight @ np.maximum(a[i] + b[j], 0) + bias
            wanted += dense[i, j] * np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        np.testing.assert_allclose(by_centre[i], wanted, atol=1e-5)


SCRIPT = """
import hashlib, json, sys
import numpy as np
from dssl.kernels import link_posterior
from dssl.kernels import spmm
from tests.kernels.test_link_posterior import arrays, large_links, results
links = large_links()
plan = link_posterior.Plan.build(links, parts=4)
found = results(plan, arrays(links, hidden=64, factors=8), threads=int(sys.argv[1]))
dense = np.random.default_rng(0).normal(size=(700, 64)).astype(np.float32)
spmm.FEW = 0
out = np.full((900, 64), np.nan, np.float32)
parts = links.indptr.astype(np.int64), links.indices.astype(np.int32), links.data
spmm.spmm(*parts, dense, out, threads=int(sys.argv[1]))
print(json.dumps([hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in [*found, out]]))
"""


@pytest.mark.slow
def test_the_same_bits_with_any_number_of_threads() -> None:
    hashes = []
    for threads in ("1", "2", "3"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, threads], capture_output=True, text=True, check=True, env=environment
        )
        hashes.append(json.loads(done.stdout))
    assert hashes[0] == hashes[1] == hashes[2]
