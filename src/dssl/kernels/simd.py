"""Eight floats at once, for compiled loops: explicit vector operations that a compiler does not find by itself.

Numba turns plain loops into vector instructions where each iteration is independent; a tile of a matrix product, whose
sums stay in registers, it does not find. These few functions, for code that Numba compiles, name the registers. LLVM
translates them for any processor: AVX has registers of eight floats, others use two of four.

Memory is an address (`memory`), places in it count entries. So a call costs nothing: with arrays, Numba counts
references. Positions are not checked.

``load(m, i)``, ``store(m, i, v)``
    the eight floats from place i on
``number(m, i)``, ``short``, ``long``, ``double``; ``put_number(m, i, x)``, ``put_long``, ``put_double``
    a float32, int32, int64 or float64
``prefetch(m, i)``
    ask for the cache line of the float at i
``splat(x)``, ``total(v)``
    eight times x; the sum of the eight
``+``, ``-``, ``*``, ``/``, ``fma(x, y, z)``, ``maximum(x, y)``, ``exp(x)``, ``log(x)``
    entry by entry; exp to 1e-7 for x up to 88 and 0 below −87; log for normal x > 0
``where_positive(x, y)``
    y where x > 0, and 0 elsewhere
``transpose(m, i, m', i')``
    write the transpose of the 8 × 8 matrix at one place to another
``add_scaled(t, x, m, i)``, ``store_all(m, i, t)``
    x times the floats from place i on, added to a tuple of vectors; the tuple stored there
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types as _types
from numba.core import cgutils as _cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, overload, register_model
from numpy.typing import NDArray

types, cgutils = cast(Any, _types), cast(Any, _cgutils)
WIDTH = 8
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_FLOATS, _INTS = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(_INT, WIDTH)


class Vector(_types.Type):
    """Numba's type of eight floats."""

    def __init__(self) -> None:
        super().__init__(name="Vector8")


VECTOR = Vector()
TUPLE: Any = object()  # stands for the type of a tuple of vectors, of any length


@register_model(Vector)
class _Model(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)  # type: ignore[no-untyped-call]


def _function(result: Any, kinds: list[Any], build: Callable[..., Any]) -> Any:
    """Make a function for compiled code from one that writes LLVM's instructions: ``build(builder, *values)``."""

    @intrinsic
    def function(_: Any, *given: Any) -> Any:
        vectors: Any = next((kind for kind in given if isinstance(kind, types.UniTuple)), None)

        def make(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            made = build(builder, *cgutils.unpack_tuple(builder, arguments[0]))
            if result is TUPLE:
                return context.make_tuple(builder, vectors, made)
            return context.get_dummy_value() if result is types.void else made

        accepted = [vectors if kind is TUPLE else kind for kind in kinds]
        return (vectors if result is TUPLE else result)(types.StarArgTuple(accepted)), make

    return function


# --- pieces of instructions -----------------------------------------------------------------------------------------


def _constant(value: float, kind: Any = _FLOAT) -> Any:
    return ir.Constant(ir.VectorType(kind, WIDTH), [ir.Constant(kind, value)] * WIDTH)


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * len(arguments))
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{WIDTH}f32"), arguments)


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return _call(builder, "fmuladd", x, y, z)


def _splat(builder: Any, value: Any) -> Any:
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, nothing, _constant(0, _INT))


def _plus(builder: Any, place: Any, number: int) -> Any:
    return builder.add(place, ir.Constant(place.type, number))


def _address(builder: Any, memory: Any, place: Any, to: Any, unit: Any = None) -> Any:
    there = builder.gep(builder.inttoptr(memory, (unit or to).as_pointer()), [place])
    return there if unit is None else builder.bitcast(there, to.as_pointer())


def _polynomial(builder: Any, x: Any, *coefficients: float) -> Any:
    value = _constant(coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fma(builder, value, x, _constant(coefficient))
    return value


# --- memory ---------------------------------------------------------------------------------------------------------


def _reader(kind: Any, to: Any) -> Any:
    return _function(
        kind, [types.intp, types.intp], lambda builder, at, place: builder.load(_address(builder, at, place, to))
    )


def _writer(kind: Any, to: Any) -> Any:
    def build(builder: Any, at: Any, place: Any, value: Any) -> None:
        builder.store(value, _address(builder, at, place, to))

    return _function(types.void, [types.intp, types.intp, kind], build)


number, put_number = _reader(types.float32, _FLOAT), _writer(types.float32, _FLOAT)
short = _reader(types.int32, _INT)
long, put_long = _reader(types.int64, ir.IntType(64)), _writer(types.int64, ir.IntType(64))
double, put_double = _reader(types.float64, ir.DoubleType()), _writer(types.float64, ir.DoubleType())


def _load(builder: Any, at: Any, place: Any) -> Any:
    return builder.load(_address(builder, at, place, _FLOATS, _FLOAT), align=4)


def _store(builder: Any, at: Any, place: Any, value: Any) -> None:
    builder.store(value, _address(builder, at, place, _FLOATS, _FLOAT), align=4)


def _load_all(builder: Any, at: Any, place: Any, count: int) -> list[Any]:
    return [_load(builder, at, _plus(builder, place, v * WIDTH)) for v in range(count)]


def _store_all(builder: Any, at: Any, place: Any, vectors: Any) -> None:
    values = vectors if isinstance(vectors, list) else cgutils.unpack_tuple(builder, vectors)
    for v, value in enumerate(values):
        _store(builder, at, _plus(builder, place, v * WIDTH), value)


def _prefetch(builder: Any, at: Any, place: Any) -> None:
    pointer = _address(builder, at, place, ir.IntType(8), _FLOAT)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    builder.call(function, [pointer, *(ir.Constant(_INT, option) for option in (0, 3, 1))])


load = _function(VECTOR, [types.intp, types.intp], _load)
store = _function(types.void, [types.intp, types.intp, VECTOR], _store)
store_all = _function(types.void, [types.intp, types.intp, TUPLE], _store_all)
prefetch = _function(types.void, [types.intp, types.intp], _prefetch)


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _exp(builder: Any, x: Any) -> Any:
    least = _constant(-87.0)
    small = builder.fcmp_ordered("<", x, least)
    x = builder.select(small, least, x)
    whole = _call(builder, "floor", _fma(builder, x, _constant(1.44269504), _constant(0.5)))
    rest = _fma(builder, whole, _constant(-0.693359375), x)
    rest = _fma(builder, whole, _constant(2.12194440e-4), rest)
    # The coefficients of Cephes' expf: minimax on |x| ≤ ln 2 / 2.
    value = _polynomial(
        builder, rest, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
        5.0000001201e-1, 1.0, 1.0,
    )  # fmt: skip
    power = builder.shl(builder.add(builder.fptosi(whole, _INTS), _constant(127, _INT)), _constant(23, _INT))
    return builder.select(small, _constant(0.0), builder.fmul(value, builder.bitcast(power, _FLOATS)))


def _log(builder: Any, x: Any) -> Any:
    # x = (1 + m) 2^e with 1 + m from √½ to √2; the coefficients of Cephes' logf.
    low = _constant(0x3F3504F3, _INT)
    bits = builder.sub(builder.bitcast(x, _INTS), low)
    power = builder.sitofp(builder.ashr(bits, _constant(23, _INT)), _FLOATS)
    mantissa = builder.bitcast(builder.add(builder.and_(bits, _constant(0x007FFFFF, _INT)), low), _FLOATS)
    m = builder.fsub(mantissa, _constant(1.0))
    value = _polynomial(
        builder, m, 7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )  # fmt: skip
    square = builder.fmul(m, m)
    value = builder.fmul(builder.fmul(value, m), square)
    value = _fma(builder, power, _constant(-2.12194440e-4), value)
    value = _fma(builder, square, _constant(-0.5), value)
    return _fma(builder, power, _constant(0.693359375), builder.fadd(m, value))


def _total(builder: Any, x: Any) -> Any:
    for half in (4, 2, 1):
        other = ir.Constant(_INTS, [(lane + half) % WIDTH for lane in range(WIDTH)])
        x = builder.fadd(x, builder.shuffle_vector(x, x, other))
    return builder.extract_element(x, ir.Constant(_INT, 0))


def _add_scaled(builder: Any, sums: Any, x: Any, at: Any, place: Any) -> list[Any]:
    before, scale = cgutils.unpack_tuple(builder, sums), _splat(builder, x)
    return [_fma(builder, scale, y, z) for y, z in zip(_load_all(builder, at, place, len(before)), before, strict=True)]


def _transpose(builder: Any, at: Any, place: Any, to: Any, target: Any) -> None:
    found = _load_all(builder, at, place, WIDTH)
    for step in (4, 2, 1):  # swap the off-diagonal blocks of 4, then of 2, then of 1
        upper = [lane if not lane & step else WIDTH + lane - step for lane in range(WIDTH)]
        lower = [lane + step if not lane & step else WIDTH + lane for lane in range(WIDTH)]
        for i in (i for i in range(WIDTH) if not i & step):
            both = found[i], found[i + step]
            found[i] = builder.shuffle_vector(*both, ir.Constant(_INTS, upper))
            found[i + step] = builder.shuffle_vector(*both, ir.Constant(_INTS, lower))
    _store_all(builder, to, target, found)


splat, total = _function(VECTOR, [types.float32], _splat), _function(types.float32, [VECTOR], _total)
fma = _function(VECTOR, [VECTOR] * 3, _fma)
exp, log = _function(VECTOR, [VECTOR], _exp), _function(VECTOR, [VECTOR], _log)
maximum = _function(VECTOR, [VECTOR] * 2, lambda b, x, y: b.select(b.fcmp_ordered(">", y, x), y, x))
where_positive = _function(
    VECTOR, [VECTOR] * 2, lambda b, x, y: b.select(b.fcmp_ordered(">", x, _constant(0.0)), y, _constant(0.0))
)
add_scaled = _function(TUPLE, [TUPLE, types.float32, types.intp, types.intp], _add_scaled)
transpose = _function(types.void, [types.intp] * 4, _transpose)


def _operator(symbol: Any, name: str) -> None:
    function = _function(VECTOR, [VECTOR] * 2, lambda builder, x, y: getattr(builder, name)(x, y))

    @overload(symbol, strict=False)
    def both(x: Any, y: Any) -> Any:
        if isinstance(x, Vector) and isinstance(y, Vector):
            return lambda x, y: function(x, y)
        return None


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


def tile(rows: int, vectors: int, depth: int, *, a_row: int, a_column: int, b_row: int, c_row: int) -> Any:
    """Make ``C[r, :] += Σ_p A[r, p] B[p, :]`` for a few rows of a few vectors, all of whose sums stay in registers.

    The arguments of the result are, for A, B and C, the memory and the place of the first entry.

    Args:
        rows: of A and C.
        vectors: of eight columns of B and C.
        depth: columns of A and rows of B.
        a_row: how far apart the rows of A are.
        a_column: how far apart its columns are.
        b_row: how far apart the rows of B are.
        c_row: how far apart the rows of C are.
    """

    def build(builder: Any, a: Any, a_at: Any, b: Any, b_at: Any, c: Any, c_at: Any) -> None:
        sums = [_load_all(builder, c, _plus(builder, c_at, r * c_row), vectors) for r in range(rows)]
        for p in range(depth):
            right = _load_all(builder, b, _plus(builder, b_at, p * b_row), vectors)
            for r in range(rows):
                left = builder.load(_address(builder, a, _plus(builder, a_at, r * a_row + p * a_column), _FLOAT))
                sums[r] = [_fma(builder, _splat(builder, left), x, y) for x, y in zip(right, sums[r], strict=True)]
        for r, values in enumerate(sums):
            _store_all(builder, c, _plus(builder, c_at, r * c_row), values)

    return _function(types.void, [types.intp] * 6, build)


# --- for those who call compiled code -------------------------------------------------------------------------------


def memory(array: NDArray[Any]) -> int:
    """Return the address of a contiguous array; 0 for one that is empty. The caller keeps the array alive."""
    assert array.flags.c_contiguous
    return int(array.__array_interface__["data"][0]) if array.size else 0


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function, with fused multiply-add where the processor has it; the code is kept on disk."""
    return numba.njit(function, cache=True, nogil=True, fastmath={"contract", "nsz"})


ZERO, ONE = np.float32(0), np.float32(1)
