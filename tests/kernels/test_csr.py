"""`rows_from_arcs` against a dictionary of rows; the other kernels are tested beside their users."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.kernels.csr import rows_from_arcs


def rows_by_hand(source, target, weights, num_nodes, both, loops):
    rows = [defaultdict(float) for _ in range(num_nodes)]
    for s, t, w in zip(source, target, weights, strict=True):
        if s == t and not loops:
            continue
        rows[s][t] += w
        if both and s != t:
            rows[t][s] += w
    return [sorted(row.items()) for row in rows]


arcs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9)), max_size=40)


@settings(deadline=None)  # the first call compiles
@given(arcs=arcs, both=st.booleans(), loops=st.booleans(), weighted=st.booleans())
def test_rows_equal_those_by_hand(arcs, both, loops, weighted):
    source, target, weights = np.array(arcs, np.int32).reshape(-1, 3).T.copy()
    strengths = weights.astype(np.float32) if weighted else None
    indptr, indices, values = rows_from_arcs(source, target, strengths, 7, both=both, loops=loops)
    expected = rows_by_hand(source.tolist(), target.tolist(), weights.tolist(), 7, both, loops)
    bounds = list(pairwise(indptr.tolist()))
    assert [indices[a:b].tolist() for a, b in bounds] == [[t for t, _ in row] for row in expected]
    if weighted:
        assert [values[a:b].tolist() for a, b in bounds] == [[w for _, w in row] for row in expected]
    else:
        assert values is None
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
    assert indptr[-1] == indices.size  # the room for the repeats is gone


@pytest.mark.parametrize("degree", [3, 64, 65, 300])
def test_short_and_long_rows_are_sorted(degree):
    target = np.random.default_rng(0).permutation(degree).astype(np.int32)
    indptr, indices, _ = rows_from_arcs(np.zeros(degree, np.int32), target, None, degree, both=False)
    assert indices.tolist() == list(range(degree))
    assert indptr.tolist() == [0, *[degree] * degree]


def test_the_arcs_are_left_alone():
    source, target = np.array([2, 0, 2], np.int32), np.array([1, 1, 0], np.int32)
    rows_from_arcs(source, target, None, 3, both=True)
    assert source.tolist() == [2, 0, 2]
    assert target.tolist() == [1, 1, 0]
