"""Each function on eight floats against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dssl.kernels.simd import (
    add_scaled,
    compiled,
    exp,
    fma,
    load,
    log,
    maximum,
    memory,
    splat,
    store,
    store_all,
    tile,
    transpose,
    where_positive,
)


@compiled
def arithmetic(x, y, out, n):
    for at in range(0, n, 8):
        a, b = load(x, at), load(y, at)
        store(out, at, a + b)
        store(out, n + at, a - b)
        store(out, 2 * n + at, a * b)
        store(out, 3 * n + at, a / b)
        store(out, 4 * n + at, fma(a, b, splat(np.float32(3))))
        store(out, 5 * n + at, maximum(a, b))
        store(out, 6 * n + at, where_positive(a, b))


def test_arithmetic_is_that_of_numpy() -> None:
    draw = np.random.default_rng(0)
    x, y = (draw.normal(size=24).astype(np.float32) for _ in range(2))
    x[:3], y[3] = (0, -0.0, np.inf), -np.inf
    out = np.empty((7, 24), np.float32)
    arithmetic(memory(x), memory(y), memory(out), 24)
    wanted = [x + y, x - y, x * y, x / y, x * y + 3, np.maximum(x, y), np.where(x > 0, y, 0)]
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)


@compiled
def functions(x, powers, logs, n):
    for at in range(0, n, 8):
        power = exp(load(x, at))
        store(powers, at, power)
        store(logs, at, log(power))


def test_exp_and_log_to_float_precision_and_at_the_ends() -> None:
    x = np.concatenate([np.linspace(-86.9, 88, 7991), [-87.5, -1e9, -np.inf, 0, 1e-30, -1e-30, 1, np.nan, -1]])
    x = x.astype(np.float32)
    powers, logs = np.empty_like(x), np.empty_like(x)
    functions(memory(x), memory(powers), memory(logs), x.size)
    inside = x >= -87
    np.testing.assert_allclose(powers[inside], np.exp(x[inside].astype(np.float64)), rtol=2e-7)
    np.testing.assert_allclose(logs[inside], x[inside], rtol=2e-7, atol=1e-7)
    assert np.all(powers[x < -87] == 0)
    assert np.isnan(powers[np.isnan(x)]).all()  # a loss that is not a number must not become one


@compiled
def turn(x, out):
    transpose(x, 0, out, 0)


def test_transpose() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    out = np.empty_like(x)
    turn(memory(x), memory(out))
    np.testing.assert_array_equal(out, x.T)


@compiled
def scale(x, out):
    one = (splat(np.float32(1)),)
    store_all(out, 8, add_scaled(one + one, np.float32(3), x, 2))
    store_all(out, 0, add_scaled(one, np.float32(-1), x, 0))


def test_a_tuple_of_vectors_is_as_many_floats_as_it_holds() -> None:
    x, out = np.arange(20, dtype=np.float32), np.empty(24, np.float32)
    scale(memory(x), memory(out))
    np.testing.assert_array_equal(out, np.concatenate([1 - x[:8], 1 + 3 * x[2:18]]))


small = tile(4, 2, 8, a_row=1, a_column=5, b_row=18, c_row=20)


@compiled
def multiply(a, b, c):
    small(a, 1, b, 2, c, 3)


def test_a_tile_is_a_product_of_strided_matrices_that_is_added() -> None:
    draw = np.random.default_rng(1)
    a, b, c = (draw.normal(size=shape).astype(np.float32) for shape in ((8, 5), (9, 18), (5, 20)))
    wanted = c.flatten()
    for row in range(4):
        for column in range(16):
            place = 3 + 20 * row + column
            for p in range(8):
                wanted[place] += a.flat[1 + row + 5 * p] * b.flat[2 + 18 * p + column]
    multiply(memory(a), memory(b), memory(c))
    np.testing.assert_allclose(c.flatten(), wanted, rtol=1e-5, atol=1e-5)


def test_memory_is_that_of_contiguous_arrays_alone() -> None:
    assert memory(np.empty((0, 3), np.float32)) == 0
    with pytest.raises(AssertionError):
        memory(np.zeros((4, 4))[:, 1:])
