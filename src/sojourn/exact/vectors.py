"""Vectors of eight numbers for kernels: each operation is one instruction, or two or four.

A compiler makes vectors of loops by itself where they are long; rows of one sequence are short.
Arrays are read and written by their place in memory, whatever their number of axes, unchecked.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as _intrinsic
from numba.extending import lower_builtin, models, register_model, type_callable

WIDTH = 8

intrinsic: Any = _intrinsic
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class _Eight(types.Type):
    """Numba's type of a vector."""


eight = _Eight("eight")


@register_model(_Eight)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _define(symbol: Any, name: str) -> None:
    """Let an operator of Python be an operation on vectors."""

    @type_callable(symbol)
    def _(context):
        return lambda a, b: eight if a is eight and b is eight else None

    @lower_builtin(symbol, _Eight, _Eight)
    def _(context, builder, signature, args):
        return getattr(builder, name)(*args)


for _symbol, _name in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")):
    _define(getattr(operator, _symbol), _name)


def _pointer(context, builder, signature, args) -> Any:
    """Where the eight numbers from a place on are in memory."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    place = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.bitcast(builder.gep(array.data, [place]), _VECTOR.as_pointer())


@intrinsic
def load(_, array, i):
    """Eight numbers of an array, from place i on."""

    def emit(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature, args), align=8)

    return eight(array, i), emit


@intrinsic
def store(_, array, i, v):
    """Write a vector to place i of an array."""

    def emit(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(array, i, v), emit


def _repeated(builder, number) -> Any:
    nothing, place = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(place, 0))
    zeros = ir.Constant(ir.VectorType(place, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, nothing, zeros)


@intrinsic
def splat(_, number):
    """The vector of one number, eight times."""

    def emit(context, builder, signature, args):
        return _repeated(builder, args[0])

    return eight(types.float64), emit


@intrinsic
def spread(_, array, i):
    """The vector of the number in place i of an array, eight times."""

    def emit(context, builder, signature, args):
        first = _pointer(context, builder, signature, args)
        number = builder.bitcast(first, ir.DoubleType().as_pointer())
        return _repeated(builder, builder.load(number))

    return eight(array, i), emit


def _operation(emit: Any, n: int = 2, result: Any = eight) -> Any:
    """A function of n vectors."""

    def lower(context, builder, signature, args):
        return emit(builder, *args)

    if n == 2:
        return intrinsic(lambda _, a, b: (result(a, b), lower))
    return intrinsic(lambda _, a, b, c: (result(a, b, c), lower))


def _emit_fma(builder, *args) -> Any:
    name, kind = "llvm.fmuladd.v8f64", ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, args)


def _emit_any(builder, a, b) -> Any:
    bits = builder.bitcast(builder.fcmp_ordered("<", a, b), ir.IntType(WIDTH))
    return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(WIDTH), 0))


# a b + c, rounded once where the processor can; the smaller and the larger of each two; v where a
# is above b, elsewhere zero; whether some number of a is below that of b.
fma = _operation(_emit_fma, 3)
least = _operation(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))
most = _operation(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))
where_above = _operation(
    lambda builder, a, b, v: builder.select(
        builder.fcmp_ordered(">", a, b), v, ir.Constant(_VECTOR, [0.0] * WIDTH)
    ),
    3,
)
any_below = _operation(_emit_any, 2, types.boolean)
