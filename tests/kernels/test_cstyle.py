"""The renderer: how statements and values are spelt, and that spelling means what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mdtensor.errors import LoweringError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.kernels.kernel_source import numbered
from mdtensor.kernels.opencl import OPENCL, OPENCL_FMA
from mdtensor.lower.ir.group_statements import AwaitCopies, CommitCopies, CopyAsync
from mdtensor.lower.ir.index import Index, as_index, name
from mdtensor.lower.ir.loop_nest import Argument, LoopNest
from mdtensor.lower.ir.statements import (
    Allocate,
    Declare,
    If,
    Increment,
    IndexCalc,
    Let,
    LetIndex,
    Loop,
    Set,
    Statement,
    VectorStore,
)
from mdtensor.lower.ir.values import Calc, Literal, Load, Pack, Ref, Slice, Value

F4, F2, I1, U1, I4, I8, U8, F8 = (
    np.dtype(t) for t in ("f4", "f2", "i1", "u1", "i4", "i8", "u8", "f8")
)
I2, U2 = np.dtype("i2"), np.dtype("u2")


def nest(*body: Statement, memory: np.dtype = F4, sizes: tuple[str, ...] = ()) -> LoopNest:
    arguments = (
        Argument("I0", memory, "input"),
        Argument("O0", memory, "output"),
        Argument("scratch", np.dtype("u1"), "scratch"),
    )
    return LoopNest("kernel_0", arguments, sizes, 1, body, as_index(1), as_index(0))


def lines(*body: Statement, dialect=OPENCL, memory: np.dtype = F4, streaming: bool = False):
    """The lines of a kernel's body, after those that take its arguments."""
    text = render([nest(*body, memory=memory)], dialect, streaming=streaming).text
    body_lines = [line.strip() for line in text[text.index("\n{\n") :].splitlines()[2:-1]]
    begin = max(n for n, line in enumerate(body_lines) if " group = " in line)
    return body_lines[begin + 1 :]


def value_text(value: Value, dialect=OPENCL) -> str:
    (line,) = (
        line
        for line in lines(Let(Ref("v", value.dtype, value.lanes), value), dialect=dialect)
        if " v = " in line
    )
    return line.split(" v = ")[1].removesuffix(";")


def load(lanes: int, stride: int | Index, valid: int = 0, memory: np.dtype = F4) -> Load:
    return Load("I0", memory, name("i"), lanes, stride, valid)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (load(1, 1), "I0[i]"),
        (load(4, 1), "vload4(0, I0 + i)"),
        (load(4, -1), "vload4(0, I0 + i - 3).s3210"),
        (load(2, 3), "(float2)(I0[i], I0[i + 3])"),
        (load(2, name("s")), "(float2)(I0[i], I0[s + i])"),
        (load(4, 1, 3), "(float4)(vload2(0, I0 + i), I0[i + 2], 0)"),
        (load(4, 2, 3), "(float4)(I0[i], I0[i + 2], I0[i + 4], 0)"),
        (load(1, 1, 0, F2), "vload_half(i, I0)"),
        (load(8, 1, 0, F2), "vload_half8(0, I0 + i)"),
        (load(2, -1, 0, F2), "vload_half2(0, I0 + i - 1).s10"),
    ],
)
def test_loads(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("number", "dtype", "text"),
    [
        (1.5, F4, "1.5f"),
        (0.1, F8, "0.1"),
        (float("inf"), F4, "INFINITY"),
        (float("-inf"), F8, "-INFINITY"),
        (float("nan"), F4, "NAN"),
        (-7, I1, "(char)(-7)"),
        (2**63, U8, "(ulong)(9223372036854775808UL)"),
        (-(2**63), I8, "(long)(-9223372036854775807L - 1)"),
    ],
)
def test_literals(number, dtype, text):
    assert value_text(Literal(number, dtype)) == text


A4, B4 = Ref("a", F4), Ref("b", F4, 4)
X, Y = Ref("x", I4), Ref("y", I4, 4)
D4 = Ref("d", F8, 4)
LESS, LESS_4 = Calc("lt", (A4, A4), U1), Calc("lt", (B4, B4), U1, 4)
MORE_4 = Calc("gt", (D4, D4), U1, 4)
BOTH = "(convert_uchar4((b < b) & convert_int4(d > d)) & (uchar4)(1))"


PRODUCT, PRODUCT_4 = Calc("mul", (A4, A4), F4), Calc("mul", (A4, B4), F4, 4)
TWICE = Calc("mul", (A4, Literal(2, F4)), F4)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Calc("add", (A4, PRODUCT), F4), "fma(a, a, a)"),
        (Calc("add", (PRODUCT, A4), F4), "fma(a, a, a)"),
        (Calc("add", (TWICE, PRODUCT), F4), "fma(a, a, (a * 2.0f))"),
        (Calc("add", (B4, PRODUCT_4), F4, 4), "fma((float4)(a), b, b)"),
        (Calc("sub", (A4, PRODUCT), F4), "fma((((float)(-0.0f)) - a), a, a)"),
        (Calc("sub", (PRODUCT, A4), F4), "fma(a, a, (((float)(-0.0f)) - a))"),
        # Once, before it is in all lanes.
        (Calc("add", (B4, PRODUCT), F4, 4), "(b + (float4)((a * a)))"),
        (
            Calc("add", (X, Calc("mul", (X, X), I4)), I4),
            "(int)((uint)(x) + (uint)((int)((uint)(x) * (uint)(x))))",
        ),
    ],
)
def test_products_are_fused_with_sums(value, text):
    assert value_text(value, OPENCL_FMA) == text


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Calc("add", (A4, B4), F4, 4), "((float4)(a) + b)"),
        (Calc("add", (X, X), I4), "(int)((uint)(x) + (uint)(x))"),
        (Calc("mul", (X, Y), I4, 4), "as_int4(as_uint4((int4)(x)) * as_uint4(y))"),
        (Calc("mul", (Ref("u", U1), Ref("u", U1)), U1), "(uchar)(u * u)"),
        (Calc("mul", (Ref("w", I2), Ref("w", I2)), I2), "(short)((uint)(w) * (uint)(w))"),
        (Calc("mul", (Ref("w", U2), Ref("w", U2)), U2), "(ushort)((uint)(w) * (uint)(w))"),
        (Calc("neg", (A4,), F4), "(((float)(-0.0f)) - a)"),
        (Calc("cast", (X,), F4), "(float)(x)"),
        (Calc("cast", (Y,), F4, 4), "convert_float4(y)"),
        (Calc("lt", (A4, A4), U1), "(uchar)(a < a)"),
        (Calc("lt", (A4, B4), U1, 4), "(convert_uchar4((float4)(a) < b) & (uchar4)(1))"),
        (Calc("not", (Ref("t", U1),), U1), "(t ^ (uchar)(1))"),
        (Calc("max", (X, Y), I4, 4), "max((int4)(x), y)"),
        (Calc("fmax", (A4, B4), F4, 4), "fmax((float4)(a), b)"),
        (
            Calc("max", (B4, B4), F4, 4),
            "select(select(b, b, (b > b)), b, (b != b))",
        ),
        (Calc("max", (A4, Literal(0, F4)), F4), "((0.0f > a) ? 0.0f : a)"),
        (Calc("select", (Ref("t", U1), A4, A4), F4), "(t ? a : a)"),
        (Calc("select", (LESS, A4, A4), F4), "((a < a) ? a : a)"),
        (Calc("select", (LESS_4, B4, B4), F4, 4), "select(b, b, (b < b))"),
        (Calc("select", (LESS_4, D4, D4), F8, 4), "select(d, d, convert_long4(b < b))"),
        (
            Calc(
                "select", (Calc("not", (Calc("or", (LESS_4, LESS), U1, 4),), U1, 4), B4, B4), F4, 4
            ),
            "select(b, b, (~((b < b) | ((float4)(a) < (float4)(a)))))",
        ),
        (
            Calc("select", (Calc("and", (LESS_4, MORE_4), U1, 4), D4, D4), F8, 4),
            "select(d, d, convert_long4((b < b) & convert_int4(d > d)))",
        ),
        (
            Calc("select", (Ref("t", U1, 4), B4, B4), F4, 4),
            "select(b, b, (convert_int4(t) != (int4)(0)))",
        ),
        (Calc("and", (LESS, LESS), U1), "(uchar)((a < a) & (a < a))"),
        (Calc("and", (LESS_4, MORE_4), U1, 4), BOTH),
        (Calc("lshift", (X, Literal(3, I4)), I4), "(int)((uint)(x) << (uint)(3))"),
        (Calc("rshift", (X, Literal(40, I4)), I4), "((x < 0) ? -1 : 0)"),
        (Calc("mod", (Ref("u", U1), Literal(3, U1)), U1), "(uchar)(u % (uchar)(3))"),
        (Calc("invert", (Y,), I4, 4), "(int4)(~y)"),
        (Calc("isnan", (B4,), U1, 4), "(convert_uchar4(b != b) & (uchar4)(1))"),
        (Slice(B4, 0, 2), "b.lo"),
        (Slice(B4, 2, 2), "b.hi"),
        (Slice(B4, 1), "b.s1"),
        (Slice(Ref("c", F4, 8), 4, 2), "c.s45"),
    ],
)
def test_calculations(value, text):
    assert value_text(value) == text


def test_values_used_twice_are_named():
    product = Calc("mul", (A4, A4), F4)
    total = Calc("add", (product, Calc("exp", (Calc("mul", (A4, A4), F4),), F4)), F4)
    first = Let(Ref("v", F4), Calc("div", (total, total), F4))
    assert lines(first, Set(Ref("v", F4), Calc("sub", (product, product), F4))) == [
        "const float c0 = (a * a);",
        "const float c1 = (c0 + exp(c0));",
        "const float v = (c1 / c1);",
        "const float c2 = (a * a);",
        "v = (c2 - c2);",
    ]


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (VectorStore("O0", F4, name("i"), A4), ["O0[i] = a;"]),
        (VectorStore("O0", F4, name("i"), B4), ["vstore4(b, 0, O0 + i);"]),
        (
            VectorStore("O0", F4, name("i"), Ref("p", F4, 2), 3),
            ["O0[i] = p.s0;", "O0[i + 3] = p.s1;"],
        ),
        (VectorStore("O0", F8, name("i"), A4), ["O0[i] = (double)(a);"]),
        (VectorStore("O0", F8, name("i"), B4), ["vstore4(convert_double4(b), 0, O0 + i);"]),
        (VectorStore("O0", F2, name("i"), A4), ["vstore_half_rte(a, i, O0);"]),
        (VectorStore("O0", F2, name("i"), B4), ["vstore_half4_rte(b, 0, O0 + i);"]),
        (VectorStore("O0", F2, name("i"), X), ["vstore_half_rte((float)(x), i, O0);"]),
        (VectorStore("O0", F2, name("i"), Y), ["vstore_half4_rte(convert_float4(y), 0, O0 + i);"]),
    ],
)
def test_stores(store, expected):
    assert lines(store) == expected


def test_streaming_stores_need_an_aligned_output():
    store = VectorStore("O0", F4, name("i"), B4, streaming=True)
    aligned, line = lines(store, streaming=True)
    assert aligned == "const int aligned_O0 = ((size_t)O0 & 63) == 0;"
    assert line.startswith("if (aligned_O0) __builtin_nontemporal_store(b, (__global float4*)(O0")
    assert line.endswith("else vstore4(b, 0, O0 + i);")
    assert lines(store) == ["vstore4(b, 0, O0 + i);"]


def test_streaming_stores_of_cuda_need_no_check():
    store = VectorStore("O0", F4, name("i"), Pack((Ref("x", F4),) * 4), streaming=True)
    text = lines(store, dialect=CUDA, streaming=True)
    assert text == ["__stcs((float4*)(O0 + i), make_float4(x, x, x, x));"]


def test_loops_and_branches():
    body = (Increment("i", 2),)
    by_one = Loop("i", as_index(0), name("n"), as_index(1), body)
    assert lines(by_one) == [
        "#pragma clang loop vectorize(disable)",  # vectors are those that schedules say
        "for (long i = 0; i < n; i++) {",
        "i += 2;",
        "}",
    ]
    assert lines(by_one, dialect=CUDA)[0] == "for (long long i = 0; i < n; i++) {"
    assert lines(Loop("i", None, name("n"), as_index(4), body))[1] == (
        "for (; i + 4 <= n; i += 4) {"
    )
    assert lines(If(name("i"), "<", name("n"), body, body)) == [
        "if (i < n) {",
        "i += 2;",
        "} else {",
        "i += 2;",
        "}",
    ]


def test_loops_that_store_what_may_be_absent_are_not_unrolled():
    flag, turn = Ref("some", np.dtype("u1")), VectorStore("O0", F4, name("i"), Ref("x", F4))
    unrolled = "#pragma clang loop unroll(disable)"
    for body, expected in (((Set(flag, flag), turn), 1), ((Set(flag, flag),), 0), ((turn,), 0)):
        scan = Loop("i", as_index(0), name("n"), as_index(1), body)
        assert lines(scan).count(unrolled) == expected
        assert unrolled not in lines(scan, dialect=CUDA)


def test_index_calculations():
    lower = LetIndex("m", IndexCalc("min", name("i") + 4, name("n")))
    assert lines(lower) == ["const long m = (i + 4 < n ? i + 4 : n);"]
    rest = LetIndex("r", IndexCalc("%", name("i") + 1, as_index(3)), mutable=True)
    assert lines(rest) == ["long r = (i + 1) % (3);"]


def test_half_floats_in_cuda_are_their_bits():
    text = value_text(load(1, 1, 0, F2), dialect=CUDA)
    assert text == "of_half(I0[i])"
    (line,) = lines(VectorStore("O0", F2, name("i"), X), dialect=CUDA, memory=F2)
    assert line == "store_half((float)(x), O0 + i);"


def test_sizes_are_an_array_or_parameters():
    general = nest(sizes=("N0", "s0_1"))
    opencl, cuda = render([general], OPENCL).text, render([general], CUDA).text
    assert "__global const long* sizes" in opencl
    assert "const long s0_1 = sizes[1];" in opencl
    assert "const long long N0, const long long s0_1)" in cuda


def test_the_head_is_a_comment():
    text = render([replace(nest(), head="one\ntwo")], OPENCL).text
    assert text.startswith("// one\n// two\n")


def test_lanes_need_a_language_with_vectors():
    wide = load(4, 1)
    with pytest.raises(LoweringError, match="cuda has no vectors of 4 lanes"):
        value_text(Calc("add", (wide, wide), F4, 4), dialect=CUDA)


def test_memory_is_moved_in_wide_pieces_in_every_dialect():
    ref = Ref("w", F4, 4)
    store = VectorStore("O0", F4, name("i"), ref)
    assert value_text(load(4, 1), dialect=CUDA) == "*(const float4*)(I0 + i)"
    assert value_text(Slice(ref, 2), dialect=CUDA) == "w.z"
    assert value_text(Slice(ref, 2), dialect=OPENCL) == "w.s2"
    assert lines(store, dialect=CUDA) == ["*(float4*)(O0 + i) = w;"]
    assert lines(store) == ["vstore4(w, 0, O0 + i);"]
    packed = Pack((Ref("x", F4),) * 4)
    assert value_text(packed, dialect=CUDA) == "make_float4(x, x, x, x)"
    assert value_text(packed) == "(float4)(x, x, x, x)"
    assert lines(Declare(ref), dialect=CUDA) == ["float4 w{};"]


def test_numbered_source_counts_from_one():
    assert numbered("a\nb") == "   1 | a\n   2 | b"


COPY = CopyAsync("S0", name("i"), "I0", name("j"), F4, 4)


def test_copies_that_need_not_be_waited_for():
    assert lines(COPY, CommitCopies(), AwaitCopies(2), dialect=CUDA) == [
        "copy_async<16>(S0 + i, I0 + j);",
        'asm volatile("cp.async.commit_group;" ::: "memory");',
        'asm volatile("cp.async.wait_group 2;" ::: "memory");',
    ]
    assert lines(COPY, CommitCopies(), AwaitCopies(2)) == ["vstore4(vload4(0, I0 + j), 0, S0 + i);"]


def test_large_arrays_in_local_memory_lie_in_the_pool_of_a_launch():
    first = Allocate("S0", F4, "local", 1025)
    second = Allocate("S1", np.dtype("f8"), "local", 8 << 10)
    source = render([nest(first, second)], CUDA)
    assert "extern __shared__ __align__(1024) unsigned char pool[];" in source.text
    assert "float* const S0 = (float*)(pool + 0);" in source.text
    assert "double* const S1 = (double*)(pool + 5120);" in source.text
    assert source.entries[0].pool == 5120 + (64 << 10)
    declared = render([nest(first)], CUDA)
    assert "__shared__ __align__(16) float S0[1025];" in declared.text
    assert declared.entries[0].pool == 0
    assert render([nest(first, second)], OPENCL).entries[0].pool == 0
