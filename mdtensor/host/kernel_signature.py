"""Parsing of kernel signatures from OpenCL C or CUDA C++ source."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, shown

_LEFT_OUT = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|\b__attribute__\s*\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)"
    r"|\b__launch_bounds__\s*\([^()]*\)",
    re.DOTALL,
)
_KERNEL = re.compile(
    r"\b(?P<mark>(?:__)?kernel|__global__)\b[^;{()]*?"
    r"\b(?P<name>\w+)\s*\((?P<arguments>[^()]*)\)\s*\{"
)
_QUALIFIERS = {
    *("const", "volatile", "restrict", "__restrict__", "__restrict", "__const"),
    *("global", "__global", "local", "__local", "constant", "__constant", "private", "__private"),
}
# `long` has 8 bytes in OpenCL, and in CUDA where it has them in C.
_TYPES = {
    name: np.dtype(code)
    for code, names in {
        "?": "bool",
        "i1": "char int8_t",
        "u1": "uchar uint8_t unsigned_char",
        "i2": "short int16_t",
        "u2": "ushort uint16_t unsigned_short",
        "i4": "int int32_t signed",
        "u4": "uint uint32_t unsigned unsigned_int",
        "i8": "long int64_t long_long",
        "u8": "ulong uint64_t size_t unsigned_long unsigned_long_long",
        "f2": "half __half",
        "f4": "float",
        "f8": "double",
    }.items()
    for name in names.split()
}
_VECTOR = re.compile(r"^(u?(?:char|short|int|long)|half|float|double)(?:2|3|4|8|16)$")


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter of a kernel; `dtype` is None for an unknown type.

    `is_local` is memory of a work-group, which a launch has to give a size.
    """

    name: str
    type: str
    dtype: np.dtype[Any] | None
    is_pointer: bool
    is_constant: bool
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's language, "opencl" or "cuda", its name, and its arguments."""

    language: str
    name: str
    arguments: tuple[KernelParameter, ...]


def signature_of(text: str, name: str | None) -> Signature:
    """The signature of a kernel in source text, by name if there are several.

    >>> found = signature_of("kernel void f(global const float* x, int n) {}", None)
    >>> found.language, found.name, [each.dtype.name for each in found.arguments]
    ('opencl', 'f', ['float32', 'int32'])

    Raises ArgumentError where there is none, or several and no name.
    """
    kernels = {
        match["name"]: Signature(
            "cuda" if match["mark"] == "__global__" else "opencl",
            match["name"],
            tuple(_argument(each) for each in _listed(match["arguments"])),
        )
        for match in _KERNEL.finditer(_LEFT_OUT.sub(" ", text))
    }
    if not kernels:
        raise ArgumentError(
            "the text defines no kernel",
            hint="a function that is `kernel void …` in OpenCL C, or `__global__ void …` in CUDA",
        )
    if name is None and len(kernels) > 1:
        raise ArgumentError("the text defines several kernels", hint=f"name={[*kernels]!r}[0]")
    if name is not None and name not in kernels:
        raise ArgumentError(
            f"the text defines no kernel called {shown(name)}", hint=f"it defines {[*kernels]}"
        )
    return kernels[name or next(iter(kernels))]


def _listed(arguments: str) -> list[str]:
    return [] if arguments.strip() in ("", "void") else arguments.split(",")


def _argument(text: str) -> KernelParameter:
    words = re.findall(r"\w+|\*|&|\[", text)
    is_pointer = "*" in words or "[" in words
    # The name comes last, behind the type.
    *said, name = [word for word in words if word not in "*&["] or [""]
    base = " ".join(word for word in said if word not in _QUALIFIERS)
    if (vector := _VECTOR.match(base)) is not None and is_pointer:
        base = vector[1]
    of_pointed = words[: words.index("*")] if "*" in words else words
    constant = {"const", "__const", "constant", "__constant"} & {*of_pointed}
    return KernelParameter(
        name,
        base,
        _TYPES.get(base.replace(" ", "_")),
        is_pointer,
        bool(constant),
        bool({"local", "__local"} & {*said}),
    )


def scalar(argument: KernelParameter, value: Any, where: str) -> Any:
    """Convert a number to the NumPy scalar type of a kernel's parameter.

    Raises DTypeError where the type is not known, or does not hold the number.
    """
    dtype, own = argument.dtype, getattr(value, "dtype", None)
    if own is not None and dtype in (None, own) and issubclass(type(value), np.generic):
        return value
    if dtype is None:
        raise DTypeError(
            f"{where} is of a type that is not known here, {argument.type!r}",
            hint="a number of NumPy's, such as numpy.float32(2.0), has a type of its own",
        )
    is_whole, is_real = (
        any(issubclass(type(value), kind) for kind in kinds)
        for kinds in ((int, np.integer, np.bool_), (float, np.floating))
    )
    if dtype.kind == "f" and (is_whole or is_real):
        return dtype.type(value)
    if is_whole:
        with contextlib.suppress(OverflowError):
            return np.array(int(value), dtype)[()]
    raise DTypeError(f"{where} is {shown(value)}, and in the kernel of type {argument.type}")
