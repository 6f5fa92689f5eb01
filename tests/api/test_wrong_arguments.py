"""Arguments of the wrong kind: a typed error at once, which names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import fp64
from mdtensor.errors import DTypeError, LoweringError, ShapeError, SubscriptError, TranslationError

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
IMG, FLT = np.ones((1, 8, 8, 3)), np.ones((4, 3, 3, 3))


FIXED = np.zeros(2)
FIXED.flags.writeable = False
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# What has no module: a callable that some other library made.
NOBODYS = type("Nobody", (), {"__call__": lambda self: None, "__module__": None})()


def shifted(u: Any) -> Any:
    return u[-1, 0]


def add(lhs: Any, rhs: Any) -> Any:
    return lhs + rhs


@mdt.mdh
def copied(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i]


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: mdt.reduce(3, A), SubscriptError, "3 is no einsum string"),  # type: ignore[arg-type]
    (lambda: mdt.scan(None, A), SubscriptError, "None is no einsum string"),  # type: ignore[arg-type]
    (lambda: mdt.reduce(A), SubscriptError, r"^an array \(2, 3\) of float64 is no einsum string\n"),  # type: ignore[arg-type]
    (lambda: mdt.scan([1, 2]), SubscriptError, r"hint: the string comes first, then the arrays"),  # type: ignore[arg-type]
    (
        lambda: mdt.einsum(A, B),
        DTypeError,
        r"(?s)^index an array \(4,\) .*hint: begin with",
    ),
    (
        lambda: mdt.einsum("9" * 5000 + "i -> i", A[0]),
        SubscriptError,
        "^a number in '9{78}… is larger than any array\n  9{160}…\n  \\^\n  hint: numbers have",
    ),
    (lambda: mdt.einsum("ij->i", None), DTypeError, r"^operand 0 is None\n  hint: pass an array"),
    (lambda: mdt.compile("ij->i", (2, 3)), DTypeError, r"hint: .*mdtensor.spec\(\(2, 3\), 'f4'\)"),
    (
        lambda: mdt.reduce("ij->i", A, combine=lambda lhs: lhs),
        TranslationError,
        r"^operator 'op' does not take two elements, but \(lhs\)\n  hint: lambda lhs, rhs",
    ),
    (
        lambda: mdt.reduce("ij->i", A, f=lambda x: x.sum()),
        TranslationError,
        "^an element is a number, which has no 'sum' here\n",
    ),
    (
        lambda: mdt.reduce("ij->i", A, f=lambda x: 2 * np.linalg.norm(x)),
        TranslationError,
        "^np.linalg.norm cannot be traced\n",
    ),
    (
        lambda: mdt.conv(np.ones((1, 3, 8, 8)), np.ones((4, 3, 2, 2))),
        ShapeError,
        "hint: layout= says which axis is which: 'NHWC,KRSC->NPQK', 'NCHW,KCRS->NKPQ'",
    ),
    (
        lambda: mdt.reduce("ij->i", A, f=lambda x: (x, x), out=np.zeros(2)),
        ShapeError,
        "^1 array in out for 2 results$",
    ),
    (lambda: mdt.reduce("ij->i", A, f=3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (lambda: mdt.reduce("ij->i", A, f="add"), TranslationError, "'add' is no function"),  # type: ignore[arg-type]
    (lambda: mdt.reduce("ij->i", A, dtype="foo"), DTypeError, "'foo' is no element type"),
    (lambda: mdt.reduce("ij->i", A, dtype=object), DTypeError, "kernels compute with dtype object"),
    (lambda: mdt.reduce("ij->i", A, acc_dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.scan("i->i", A[0], acc_dtype="g"), DTypeError, "compute with dtype float128"),
    (lambda: mdt.einsum("ij->i", A, acc_dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.einsum("ij->i", A, dtype="foo"), DTypeError, "'foo' is no element type"),
    (lambda: mdt.conv(IMG, FLT, dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.conv(IMG, FLT, acc_dtype="S3"), DTypeError, "compute with dtype bytes24"),
    (lambda: mdt.conv(IMG, FLT, epilogue=3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (lambda: mdt.conv(IMG, FLT, layout=3), SubscriptError, "a layout names image, filter and"),  # type: ignore[arg-type]
    (
        lambda: mdt.reduce("ij->i", A, identity=5),
        TranslationError,
        r"operator 'add' has its own identity, not \(5,\)",
    ),
    (
        lambda: mdt.reduce("ij->i", A, combine=np.maximum, identity=5),
        TranslationError,
        "operator 'max' has its own identity",
    ),
    (
        lambda: mdt.reduce("ij->i", A, extents={"i": 1.5}),  # type: ignore[dict-item]
        SubscriptError,
        "extents gives dim 'i' the extent 1.5",
    ),
    (
        lambda: mdt.stencil(shifted, border="constant", cval="x"),  # type: ignore[arg-type]
        DTypeError,
        "the border's value is 'x', which is no number",
    ),
    (
        lambda: mdt.stencil(shifted, border="constant", cval=np.ones(2)),  # type: ignore[arg-type]
        DTypeError,
        r"the border's value is an array \(2,\) of float64, which is no number",
    ),
    (lambda: mdt.stencil(3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (lambda: mdt.stencil(shifted).steps(A, n="3"), DTypeError, "n is .*, not a whole number"),
    (lambda: mdt.stencil(shifted).steps(A, n=2.5), DTypeError, "n is .*, not a whole number"),
    (lambda: mdt.spec((1.5,)), ShapeError, r"\(1.5,\) is no shape"),  # type: ignore[arg-type]
    (lambda: mdt.spec("ab"), ShapeError, "'ab' is no shape"),  # type: ignore[arg-type]
    (lambda: mdt.spec(None), ShapeError, "None is no shape"),  # type: ignore[arg-type]
    (lambda: mdt.spec((-1,)), ShapeError, r"shape \(-1,\) has a negative extent"),
    (lambda: mdt.spec((1,), "foo"), DTypeError, "'foo' is no element type"),
    (lambda: mdt.spec((10**10, 10**10)), ShapeError, r"float32\[10000000000, .* than any memory"),
    (lambda: mdt.reduce("h+r->h", A[0], extents=3), DTypeError, "extents is 3"),  # type: ignore[arg-type]
    (
        lambda: mdt.reduce("ij->i", A, combine=add, identity="x"),  # type: ignore[arg-type]
        TranslationError,
        "the identity of operator 'add' is 'x', which is no number",
    ),
    (lambda: mdt.operator(3), TranslationError, "3 is no operator"),  # type: ignore[arg-type]
    (lambda: mdt.md_hom[3](add, 3), TranslationError, "3 is no combine operator"),  # type: ignore[arg-type]
    (lambda: mdt.mdh(len), TranslationError, "<built-in function len> is no function of Python's"),
    (lambda: mdt.mdh(int), TranslationError, "<class 'int'> is no function of Python's"),
    (lambda: copied(A[0].astype(object), A[1]), DTypeError, "no kernels compute with dtype object"),
    (lambda: mdt.device(3), DTypeError, "3 is no name of a device"),  # type: ignore[arg-type]
    (lambda: mdt.einsum("ij->i", A, out=3), DTypeError, "out is int, not an array\n  hint: numpy."),
    (
        lambda: mdt.compile(NOBODYS, 3),
        TranslationError,
        "is neither an einsum string nor a function that can be planned",
    ),
    (
        lambda: mdt.reduce("ij->i", A * 1j, combine="max"),
        TranslationError,
        "no order for operator 'max'\n  hint: combine their real parts or",
    ),
    (
        lambda: mdt.reduce("ij->i", A * 1j, combine="argmax"),
        TranslationError,
        "no order for operator 'argmax'\n  hint: combine their real parts or",
    ),
    (lambda: list(mdt.md_hom), TypeError, "not iterable"),  # type: ignore[call-overload]
    (lambda: list(fp64), TypeError, "not iterable"),  # type: ignore[call-overload]
    (lambda: mdt.md_hom[2.5], DTypeError, "2.5 is no size of md_hom"),
    (lambda: mdt.md_hom["a"], DTypeError, "'a' is no size of md_hom"),
    (lambda: mdt.md_hom[3, -1], ShapeError, "-1 is no size of md_hom"),
    (lambda: list(mdt.inp_view[float]), TypeError, "not iterable"),  # type: ignore[call-overload]
    (
        lambda: mdt.einsum("ij,jk->ik", A, "x"),
        SubscriptError,
        "operand 1 has 0 axes but 2 indices",
    ),
    (
        lambda: mdt.einsum("i,i->", np.zeros(3, "M8[s]"), np.zeros(3, "M8[s]")),
        DTypeError,
        r"no kernels compute with dtype datetime64\[s\], and NumPy says: ",
    ),
    (
        lambda: mdt.convolve("abc", [1]),
        DTypeError,
        "no kernels compute with dtype str96, and NumPy or scipy says: ",
    ),
    (
        lambda: mdt.convolve(np.ones((2, 2), "M8[s]"), [[1]]),
        DTypeError,
        r"no kernels compute with dtype datetime64\[s\], and NumPy or scipy says: ",
    ),
    (lambda: mdt.convolve(None, [1]), TypeError, "operand 0 is None"),  # type: ignore[arg-type]
    (
        lambda: mdt.einsum("i,i->", np.array([1, "a"], object), np.array([None, 2], object)),
        TypeError,
        "unsupported operand",  # an element's own error
    ),
    (
        lambda: mdt.einsum("ij,jk->ik", *[A.astype(BFLOAT16)] * 2, semiring="min_plus"),
        DTypeError,
        r"dtype bfloat16\n  hint: processors compute with float32: a.astype",
    ),
    *(
        (function, DTypeError, r"dtype bfloat16\n  hint: processors compute with float32: a.astype")
        for function in (
            lambda: mdt.reduce("ij->i", A.astype(BFLOAT16)),
            lambda: mdt.scan("ij->ij", A.astype(BFLOAT16)),
            lambda: mdt.conv(IMG.astype(BFLOAT16), FLT.astype(BFLOAT16)),
            lambda: mdt.stencil(shifted)(A.astype(BFLOAT16)),
            lambda: mdt.ndimage.uniform_filter(A.astype(BFLOAT16)),
            lambda: copied(A[0].astype(BFLOAT16), A[1]),
            lambda: mdt.compile(mdt.reduce, "ij->i", A.astype(BFLOAT16)),
        )
    ),
    (
        lambda: mdt.compile("ij->i", mdt.spec((2, 3), BFLOAT16)),
        DTypeError,
        r"dtype bfloat16, and a plan is for .*\n  hint: processors compute with float32",
    ),
    (
        lambda: mdt.einsum("ij->i", A, out=FIXED),
        ShapeError,
        "out is read-only\n  hint: pass out.co",
    ),
    (
        lambda: mdt.reduce("ij->i", A, out=FIXED),
        ShapeError,
        "out is read-only\n  hint: pass out.co",
    ),
    (
        lambda: mdt.reduce("i,j->ij", *[np.broadcast_to(np.float32(1), 1 << 22)] * 2),
        MemoryError,
        r"for an array with shape \(4194304, 4194304\) and data type float32",
    ),
    (
        lambda: mdt.einsum("ij,kl->", *[np.broadcast_to(np.int8(1), (1 << 31, 1 << 31))] * 2),
        LoweringError,
        "21267647932558653966460912964485513216 points are more than any device computes",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG)
def test_wrong_arguments_are_named(
    wrong: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        wrong()
    shows_another = caught.value.__context__ is not None and not caught.value.__suppress_context__
    assert not shows_another, "what went before it is shown as well"


def test_numbers_of_numpy_are_numbers() -> None:
    assert mdt.spec(np.int64(5)) == mdt.spec((5,))
    function = mdt.stencil(shifted, border="constant", cval=np.float32(2))  # type: ignore[arg-type]
    np.testing.assert_array_equal(function.steps(A, n=np.int64(1))[0], [2, 2, 2])
