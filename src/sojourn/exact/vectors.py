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
register_model(_Eight)(lambda manager, kind: models.PrimitiveModel(manager, kind, _VECTOR))


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


def _load(context, builder, signature, args) -> Any:
    return builder.load(_pointer(context, builder, signature, args), align=8)


def _repeat(builder, number) -> Any:
    nothing, place = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(place, 0))
    zeros = ir.Constant(ir.VectorType(place, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(first, nothing, zeros)


def _load_one(context, builder, signature, args) -> Any:
    pointer = _pointer(context, builder, signature, args)
    one = builder.load(builder.bitcast(pointer, ir.DoubleType().as_pointer()))
    return _repeat(builder, one)


@intrinsic
def load(_, array, i):
    """Eight numbers of an array, from place i on."""
    return eight(array, i), _load


@intrinsic
def entry(_, table, i, wide):
    """Entry i of a table for eight lanes of a state; or, with one lane, those of eight states."""
    return eight(table, i, wide), _load if wide is types.none else _load_one


@intrinsic
def of_state(_, array, i, wide):
    """The numbers of eight lanes of a state; or, with one lane, its number eight times."""
    return eight(array, i, wide), _load_one if wide is types.none else _load


@intrinsic
def gather(_, array, places, i, offset):
    """The numbers of an array at eight places, those from place i of `places` on, and an offset."""

    def emit(context, builder, signature, args):
        data, at = (
            context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1)
        )
        i, offset = (context.cast(builder, args[k], signature.args[k], types.intp) for k in (2, 3))
        found = ir.Constant(_VECTOR, ir.Undefined)
        for k in range(WIDTH):
            place = builder.load(builder.gep(at, [builder.add(i, ir.Constant(i.type, k))]))
            number = builder.load(builder.gep(data, [builder.add(place, offset)]))
            found = builder.insert_element(found, number, ir.Constant(ir.IntType(32), k))
        return found

    return eight(array, places, i, offset), emit


@intrinsic
def splat(_, number):
    """One number, eight times."""
    return eight(types.float64), lambda context, builder, _, args: _repeat(builder, *args)


@intrinsic
def store(_, array, i, v):
    """Write a vector to place i of an array."""

    def emit(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(array, i, v), emit


@intrinsic
def compact(_):
    """Nothing, but the loop around it is not unrolled: it is short, and code takes room."""

    def emit(context, builder, signature, args):
        call = builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], True)
        call.attributes.add("convergent")
        return context.get_dummy_value()

    return types.void(), emit


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
