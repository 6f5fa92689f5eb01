"""Loads in LLVM IR: contiguous, strided, masked and gathered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdtensor.kernels.llvm.conversions import converted
from mdtensor.kernels.llvm.function_builder import FunctionBuilder
from mdtensor.kernels.llvm.llvm_types import constant, mangled, type_of, vector
from mdtensor.lower.ir.index import as_index
from mdtensor.lower.ir.register_types import BOOL, I64
from mdtensor.lower.ir.values import Gather, Load
from mdtensor.specs import is_short_float


def loaded(builder: FunctionBuilder, load: Load) -> str:
    """Emit a load, in its register type."""
    stride, lanes = as_index(load.stride).constant, load.lanes
    valid = load.valid or lanes
    if lanes == 1 or (stride == 1 and valid == lanes):
        operand = _neighbours(builder, builder.address(load.buffer, load.index), load)
    elif stride == 1:
        read = _masked if builder.language.masks else _by_halves
        operand = read(builder, load, valid)
    elif stride == -1 and valid == lanes:
        address = builder.address(load.buffer, load.index - (lanes - 1))
        operand = reversed_lanes(builder, _neighbours(builder, address, load), load.memory, lanes)
    else:
        operand = _apart(builder, load, valid)
    return _in_register(builder, operand, load.memory, lanes)


def gathered(builder: FunctionBuilder, gather: Gather) -> str:
    """Emit a gather, in its register type."""
    memory, lanes = gather.memory, gather.lanes
    base = builder.address(gather.buffer, gather.index)
    places = converted(builder, builder.get(gather.places.name), gather.places.dtype, I64, lanes)
    element = type_of(memory)
    valid = gather.valid or lanes
    parts: list[str] = []
    for lane in range(valid):
        place = builder.emit(f"extractelement {type_of(I64, lanes)} {places}, i32 {lane}")
        address = builder.emit(f"getelementptr {element}, ptr {base}, i64 {place}")
        parts.append(builder.emit(f"load {element}, ptr {address}, align {memory.itemsize}"))
    return _in_register(builder, packed(builder, parts, memory, lanes), memory, lanes)


def packed(builder: FunctionBuilder, parts: Sequence[str], dtype: np.dtype, lanes: int) -> str:
    """A vector of scalars; remaining lanes are zero."""
    kind, element = type_of(dtype, lanes), type_of(dtype)
    operand = "zeroinitializer" if len(parts) < lanes else "poison"
    for lane, part in enumerate(parts):
        operand = builder.emit(f"insertelement {kind} {operand}, {element} {part}, i32 {lane}")
    return operand


def reversed_lanes(builder: FunctionBuilder, operand: str, dtype: np.dtype, lanes: int) -> str:
    """The lanes in reverse order."""
    return shuffled(builder, operand, "poison", type_of(dtype, lanes), range(lanes - 1, -1, -1))


def shuffled(
    builder: FunctionBuilder, first: str, second: str, kind: str, picks: Sequence[int]
) -> str:
    """A `shufflevector` of two vectors; `picks` count on into the second one."""
    mask = vector("i32", [str(pick) for pick in picks])
    return builder.emit(
        f"shufflevector {kind} {first}, {kind} {second}, <{len(picks)} x i32> {mask}"
    )


def _neighbours(builder: FunctionBuilder, address: str, load: Load) -> str:
    kind = type_of(load.memory, load.lanes)
    return builder.emit(f"load {kind}, ptr {address}, align {load.memory.itemsize}")


def _by_halves(builder: FunctionBuilder, load: Load, valid: int) -> str:
    """The first `valid` lanes, by loads of descending power-of-two width; the others are zero.

    AVX2 has loads under a mask, but AMD's manual lets them fault by lanes that they leave out, and
    QEMU's do; other processors have none, where LLVM reads element by element.
    """
    memory, lanes = load.memory, load.lanes
    kind = type_of(memory, lanes)
    operand, first = "zeroinitializer", 0
    while first < valid:
        count = 1 << ((valid - first).bit_length() - 1)
        part, place = type_of(memory, count), builder.address(load.buffer, load.index + first)
        piece = builder.emit(f"load {part}, ptr {place}, align {memory.itemsize}")
        if count == 1:
            element = f"{type_of(memory)} {piece}"
            operand = builder.emit(f"insertelement {kind} {operand}, {element}, i32 {first}")
        else:
            widened = [n if n < count else 0 for n in range(lanes)]
            piece = shuffled(builder, piece, "poison", part, widened)
            inside = range(first, first + count)
            picks = [lanes + n - first if n in inside else n for n in range(lanes)]
            operand = shuffled(builder, operand, piece, kind, picks)
        first += count
    return operand


def _masked(builder: FunctionBuilder, load: Load, valid: int) -> str:
    """The first `valid` lanes, by a masked load; the others are zero."""
    memory, lanes = load.memory, load.lanes
    kind = type_of(memory, lanes)
    mask = vector("i1", ["true" if lane < valid else "false" for lane in range(lanes)])
    return builder.call(
        f"llvm.masked.load.{mangled(memory, lanes)}.p0",
        kind,
        ("ptr", builder.address(load.buffer, load.index)),
        ("i32", str(memory.itemsize)),
        (f"<{lanes} x i1>", mask),
        (kind, "zeroinitializer"),
    )


def _apart(builder: FunctionBuilder, load: Load, valid: int) -> str:
    element, size = type_of(load.memory), load.memory.itemsize
    parts: list[str] = []
    for lane in range(valid):
        address = builder.address(load.buffer, load.index + as_index(load.stride) * lane)
        parts.append(builder.emit(f"load {element}, ptr {address}, align {size}"))
    return packed(builder, parts, load.memory, load.lanes)


def _in_register(builder: FunctionBuilder, operand: str, memory: np.dtype, lanes: int) -> str:
    """A loaded operand in its register type: short floats as float32, booleans as 0 and 1."""
    if is_short_float(memory):
        return converted(builder, operand, memory, np.dtype(np.float32), lanes)
    if memory != BOOL:
        return operand
    kind = type_of(memory, lanes)
    zero = constant(0, memory) if lanes == 1 else "zeroinitializer"
    truth = builder.emit(f"icmp ne {kind} {operand}, {zero}")
    bits = "i1" if lanes == 1 else f"<{lanes} x i1>"
    return builder.emit(f"zext {bits} {truth} to {kind}")
