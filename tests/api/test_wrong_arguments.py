"""Arguments of the wrong kind: a typed error at once, which names the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.directive import Buffer, fp64
from mdtensor.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    FilterError,
    IndexingError,
    LoweringError,
    MdtensorError,
    PathError,
    ShapeError,
    SubscriptError,
    TranslationError,
    shown,
)

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
IMG, FLT = np.ones((1, 8, 8, 3)), np.ones((4, 3, 3, 3))


TOO_LARGE = "int too large to convert to float"  # in Python's words
FIXED, FIXED2 = np.zeros(2), np.zeros((2, 2), "f4")
FIXED.flags.writeable = FIXED2.flags.writeable = False
FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)
# What has no module: a callable that some other library made.
NOBODYS = type("Nobody", (), {"__call__": lambda self: None, "__module__": None})()


def nested(depth: int = 0) -> list[Any]:
    """A list in as many others, or one that holds itself."""
    inner: list[Any] = []
    inner.extend([] if depth else [inner])
    for _ in range(depth):
        inner = [inner]
    return inner


def shifted(u: Any) -> Any:
    return u[-1, 0]


def add(lhs: Any, rhs: Any) -> Any:
    return lhs + rhs


@mdt.mdh
def copied(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i]


@mdt.mdh(mdt.directive.out(y=Buffer[fp64]), mdt.directive.inp(x=Buffer[fp64]))
def copied_floats(y: Any, x: Any) -> None:
    for i in range(len(x)):
        y[i] = x[i]


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
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
        lambda: mdt.scan("ij->ij", A, combine={"i": "mul", "j": A}),
        TranslationError,
        r"^an array \(2, 3\) of float64 is no operator\n",
    ),
    (
        lambda: mdt.compile("ij->i", A)(np.zeros((2, 3), "S0")),
        ShapeError,
        r"operand 0: bytes8\[2, 3\], the plan has float64\[2, 3\]",
    ),
    (
        lambda: mdt.argmax(A, axis=nested()),  # type: ignore[arg-type]
        DTypeError,
        r"^argmax takes one axis, not \[{9}\.\.\.\]{9}\n",
    ),
    (
        lambda: mdt.matmul(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), FIXED2, dtype="f8"),
        ShapeError,
        "^out is read-only\n",
    ),
    (
        lambda: mdt.tensordot(mdt.lazy(A), B, (range(2**40), [0])),
        DTypeError,
        "axis 2 is out of bounds for array of dimension 2",
    ),
    (
        lambda: mdt.md_hom[-(10**5000)],
        ShapeError,
        "^an int of 16610 bits is no size of md_hom\n",
    ),
    (
        lambda: mdt.reduce("ij->i", A, f=lambda x: (x, x), out=np.zeros(2)),
        ShapeError,
        "^1 array in out for 2 results$",
    ),
    (lambda: mdt.reduce("ij->i", A, f=3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (lambda: mdt.reduce("ij->i", A, f="add"), TranslationError, "'add' is no function"),  # type: ignore[arg-type]
    (lambda: mdt.reduce("ij->i", A, dtype=object), DTypeError, "kernels compute with dtype object"),
    (lambda: mdt.reduce("ij->i", A, acc_dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.scan("i->i", A[0], acc_dtype="g"), DTypeError, "compute with dtype float128"),
    (lambda: mdt.einsum("ij->i", A, acc_dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.conv(IMG, FLT, dtype="O"), DTypeError, "compute with dtype object"),
    (lambda: mdt.conv(IMG, FLT, acc_dtype="S3"), DTypeError, "compute with dtype bytes24"),
    (lambda: mdt.conv(IMG, FLT, epilogue=3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (
        lambda: mdt.reduce("ij->i", A, identity=5),
        TranslationError,
        r"operator 'add' has its own identity, not \(5,\)",
    ),
    (lambda: mdt.stencil(3), TranslationError, "3 is no function"),  # type: ignore[arg-type]
    (lambda: mdt.stencil(shifted).steps(A, n="3"), DTypeError, "n is .*, not a whole number"),
    (lambda: mdt.stencil(shifted).steps(A, n=2.5), DTypeError, "n is .*, not a whole number"),
    (lambda: mdt.spec("ab"), ShapeError, "'ab' is no shape"),  # type: ignore[arg-type]
    (lambda: mdt.spec((-1,)), ShapeError, r"shape \(-1,\) has a negative extent"),
    (lambda: mdt.spec((1,), "foo"), DTypeError, "'foo' is no element type"),
    (lambda: mdt.spec((10**10, 10**10)), ShapeError, r"float32\[10000000000, .* than any memory"),
    (
        lambda: mdt.reduce("ij->i", A, combine=add, identity="x"),  # type: ignore[arg-type]
        TranslationError,
        "the identity of operator 'add' is 'x', which is no number",
    ),
    (lambda: mdt.operator(3), TranslationError, "3 is no operator"),  # type: ignore[arg-type]
    (lambda: mdt.md_hom[3](add, 3), TranslationError, "3 is no combine operator"),  # type: ignore[arg-type]
    (lambda: mdt.mdh(len), TranslationError, "<built-in function len> is no function of Python's"),
    (lambda: copied(A[0].astype(object), A[1]), DTypeError, "no kernels compute with dtype object"),
    (lambda: mdt.device(3), DTypeError, "3 is no name of a device"),  # type: ignore[arg-type]
    (lambda: mdt.einsum("ij->i", A, out=3), DTypeError, "out is int, not an array\n  hint: numpy."),
    (
        lambda: mdt.compile(NOBODYS, 3),
        TranslationError,
        "is neither an einsum string nor a function that can be planned",
    ),
    (
        lambda: mdt.reduce("ij->i", A * 1j, combine="argmax"),
        TranslationError,
        "no order for operator 'argmax'\n  hint: combine their real parts or",
    ),
    (lambda: list(mdt.md_hom), TypeError, "not iterable"),  # type: ignore[call-overload]
    (lambda: list(fp64), TypeError, "not iterable"),  # type: ignore[call-overload]
    (lambda: mdt.md_hom[2.5], DTypeError, "2.5 is no size of md_hom"),
    (lambda: mdt.md_hom[3, -1], ShapeError, "-1 is no size of md_hom"),
    (lambda: list(mdt.inp_view[float]), TypeError, "not iterable"),  # type: ignore[call-overload]
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
        lambda: mdt.einsum("ij,jk->ik", *[A.astype(FLOAT8)] * 2, semiring="min_plus"),
        DTypeError,
        r"dtype float8_e4m3fn\n  hint: convert the arrays to bool, integers, float16",
    ),
    *(
        (
            function,
            DTypeError,
            r"dtype float8_e4m3fn\n  hint: convert the arrays to bool, integers, float16",
        )
        for function in (
            lambda: mdt.reduce("ij->i", A.astype(FLOAT8)),
            lambda: mdt.scan("ij->ij", A.astype(FLOAT8)),
            lambda: mdt.conv(IMG.astype(FLOAT8), FLT.astype(FLOAT8)),
            lambda: mdt.stencil(shifted)(A.astype(FLOAT8)),
            lambda: mdt.ndimage.uniform_filter(A.astype(FLOAT8)),
            lambda: copied(A[0].astype(FLOAT8), A[1]),
            lambda: mdt.compile(mdt.reduce, "ij->i", A.astype(FLOAT8)),
        )
    ),
    (
        lambda: mdt.compile("ij->i", mdt.spec((2, 3), FLOAT8)),
        DTypeError,
        r"dtype float8_e4m3fn, and a plan is for .*\n  hint: convert the arrays to bool",
    ),
    (
        lambda: mdt.einsum("ij->i", A, out=FIXED),
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

CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)
PLAN = mdt.compile("ij,jk->ik", mdt.spec((2, 3), "f8"), mdt.spec((3, 4), "f8"))
PLANE = memoryview(np.zeros((2, 2)))
OBJECTS = np.ones((2, 3), object)


# The whole texts of what untyped errors came of.
TYPED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: mdt.reduce("ij->i", CIRCULAR),
        ShapeError,
        (
            "operand 0 is a list that is no array: setting an array element with a sequence. The"
            " requested array would exceed the maximum number of dimension of 64.\n"
            "  hint: nested lists have one length on each level"
        ),
    ),
    (
        lambda: mdt.einsum("i->", A[0], optimize=CIRCULAR),
        PathError,
        (
            "[[[[[[[[[...]]]]]]]]] is no path\n"
            "  hint: give a name, (name, limit) or ['einsum_path', (0, 1), …]"
        ),
    ),
    (
        lambda: mdt.stencil(lambda u: ())(A),
        TranslationError,
        "a stencil returns no values\n  hint: one expression, or a tuple of them",
    ),
    (
        lambda: mdt.reduce("ij->i", A, f=lambda x: ()),
        TranslationError,
        "the function returns no values\n  hint: one expression, or a tuple of them",
    ),
    (
        lambda: mdt.compile("i,i->", mdt.spec((3,)), np.float32),
        DTypeError,
        (
            "no kernels compute with dtype object, and a plan is for what they compute\n"
            "  hint: convert the arrays to bool, integers, float16 to float64 or complex numbers"
        ),
    ),
    (
        lambda: mdt.compile("ij->i", mdt.spec((2, 3)), extents=type),
        DTypeError,
        "extents is <class 'type'>\n  hint: a dict from dims to whole numbers: {'r': 3}",
    ),
    (
        lambda: mdt.compile("ij->i", mdt.spec((2, 3)), mode="x"),
        ArgumentError,
        (
            "einsum has no option 'mode'\n  hint: it has dtype, order, casting, optimize,"
            " acc_dtype, precision, semiring, f, combine, epilogue, extents"
        ),
    ),
    (
        lambda: mdt.tensordot(A, B, 10**20),
        AxisError,
        "axes are 100000000000000000000\n  hint: an array has 64 at most",
    ),
    (
        lambda: mdt.tensordot(A, B, PLANE),
        DTypeError,
        f"axes are {PLANE!r}\n  hint: a number of axes, or two lists of them: ([1, 2], [0, 1])",
    ),
    (
        lambda: mdt.lazy(A).transpose(np.array(1)),
        ShapeError,
        "1 axes to order 2 by",
    ),
    (
        lambda: mdt.lazy(A)[10**5000],
        IndexingError,
        "index an int of 16610 bits is out of range for axis 0, which has 2 elements",
    ),
    (
        lambda: mdt.spec((10**5000, 2)),
        ShapeError,
        "an extent is an int of 16610 bits, which is larger than any array",
    ),
    (
        lambda: mdt.einsum_path("ij,jk,kl->il", A, A.T, A, optimize=("frob", 10**5000)),
        PathError,
        "unknown path 'frob'\n  hint: 'greedy', 'optimal', 'auto' and others of opt_einsum",
    ),
    (
        lambda: mdt.convolve(mdt.lazy(A), np.zeros((2, 2), [("a", "f4")])),
        DTypeError,
        (
            "no kernels compute with LazyArray overrides NumPy's functions, and NumPy or scipy"
            " says: Unsupported type\n  hint: convert the arrays to bool, integers, float16 to"
            " float64 or complex numbers"
        ),
    ),
    (
        lambda: mdt.ndimage.convolve(A, [[10**400, 1]]),
        FilterError,
        "weights are no numbers: int too large to convert to float",
    ),
    (
        lambda: mdt.einsum("ij->i", A, combine="add", acc_dtype="add"),
        DTypeError,
        "'add' is no element type\n  hint: such as f4, float64, i1",
    ),
    (
        lambda: mdt.tensordot(OBJECTS, OBJECTS, ([5], [0])),
        AxisError,
        "a has no axis 5, but 2 axes\n  a: (2, 3)    b: (2, 3)",
    ),
    (
        lambda: mdt.einsum_path("ij,jk->ik", A, B, optimize=["einsum_path", (0, 7)]),
        PathError,
        "the path contracts operands (0, 7) where 2 are left",
    ),
    (
        lambda: mdt.einsum_path("ij,jk->ik", A, A),
        SubscriptError,
        (
            "index 'j' has extent 3 in operand 0 but 2 in operand 1\n  ij,jk->ik\n   ^ ^\n"
            "  operand 0: (2, 3) float64    operand 1: (2, 3) float64\n"
            "  hint: 'ij,kj->ik' fits these shapes"
        ),
    ),
    (
        lambda: mdt.einsum_path("h+r -> h", A[0]),
        SubscriptError,
        (
            "sums for indices have no path\n  h+r -> h\n"
            "  hint: mdtensor computes such a string as a whole"
        ),
    ),
    (
        lambda: mdt.einsum(A, np.broadcast_to(np.int64(1), 2**40)),
        SubscriptError,
        (
            "an array (1099511627776,) of int64 has more than 64 indices\n"
            "  hint: begin with a string: 'ij,jk->ik', A, B"
        ),
    ),
    (
        lambda: mdt.einsum("ij->i", A, order=10**5000),  # type: ignore[arg-type]
        ShapeError,
        "order is an int of 16610 bits\n  hint: one of 'C', 'F', 'A', 'K'",
    ),
    (
        lambda: mdt.einsum("ij->i", A, casting=A),  # type: ignore[arg-type]
        ShapeError,
        (
            "casting is an array (2, 3) of float64\n"
            "  hint: one of 'no', 'equiv', 'safe', 'same_kind', 'unsafe'"
        ),
    ),
    (
        lambda: mdt.reduce("ij->i", A, check=A),  # type: ignore[arg-type]
        DTypeError,
        "check is an array (2, 3) of float64\n  hint: True or False",
    ),
    (
        lambda: mdt.reduce("ij->i", mdt.spec((2, 3))),
        DTypeError,
        "operand 0 is a spec, not an array\n  hint: mdtensor.compile makes plans of specs",
    ),
    (
        lambda: mdt.reduce("ij->", A, combine="argmin", acc_dtype="f8"),
        DTypeError,
        "positions are integers, not float64\n  hint: leave dtype and acc_dtype out",
    ),
    (
        lambda: mdt.conv(IMG, FLT, layout=mdt.lazy(A)),  # type: ignore[arg-type]
        SubscriptError,
        (
            "a layout names image, filter and result by capital letters, not as"
            " <lazy float64[2, 3]: p0>\n"
            "  hint: such as 'NHWC,KRSC->NPQK', 'NCHW,KCRS->NKPQ', 'NHWC,HWIO->NHWC',"
            " 'NCW,KCS->NKQ'"
        ),
    ),
    (
        lambda: mdt.conv(IMG, FLT, stride=10**30),
        ShapeError,
        "stride is 1000000000000000000000000000000, which is larger than any array",
    ),
    (
        lambda: mdt.conv(IMG, FLT, transposed=True, stride=5000),
        ShapeError,
        "stride is 5000; that of a transposed convolution is 1024 at most",
    ),
    (
        lambda: PLAN(mdt.spec((2, 3), "f8"), B),
        ShapeError,
        (
            "a plan takes arrays, not TensorSpec\n  ij,jk->ik\n"
            "  hint: numpy.asarray of many other objects shares their memory"
        ),
    ),
    (
        lambda: bool(mdt.lazy(A)),
        ShapeError,
        "a lazy array of shape (2, 3) is neither true nor false\n  hint: y.any() or y.all()",
    ),
    (
        lambda: float(mdt.lazy(A)),
        DTypeError,
        (
            "a lazy array of shape (2, 3) is no number\n"
            "  hint: np.asarray(y) evaluates a lazy array y first"
        ),
    ),
    (
        lambda: mdt.lazy(A)[::2.5],  # type: ignore[misc]
        IndexingError,
        (
            "slice(None, None, 2.5): slice indices must be integers or None or have an __index__"
            " method"
        ),
    ),
    (
        lambda: np.flip(mdt.lazy(A), 10**20),
        AxisError,
        "axis=100000000000000000000, where there are 2",
    ),
    (
        lambda: mdt.ndimage.gaussian_filter(A, 1e300),
        FilterError,
        "sigma is 1e+300: a Gaussian is narrower\n  hint: at most 1099511627776",
    ),
    (
        lambda: mdt.ndimage.gaussian_filter(A, 1.0, truncate=1e12),
        FilterError,
        "a Gaussian reaches 1000000000000 elements\n  hint: at most 16777216: radius=…",
    ),
    (
        lambda: Buffer[fp64, 2.5],
        DTypeError,
        "a size is 2.5, not a whole number",
    ),
    (
        lambda: Buffer[{"a": None}],
        DTypeError,
        (
            "{'a': None} is no scalar type\n"
            "  hint: fp32, np.float32, 'f4', or a dict of fields: {'values': fp64[8]}"
        ),
    ),
    (
        lambda: mdt.reduce("i,i->", A[0], A[0], f=int.__add__),
        TranslationError,
        (
            "__add__ cannot be traced: descriptor '__add__' requires a 'int' object but received a"
            " 'Expr'\n  its source was not found, so that it could only be called"
        ),
    ),
    (
        lambda: mdt.stencil(int),
        TranslationError,
        "<class 'int'> is no function of Python's\n  hint: lambda u: u[-1] + u[1]",
    ),
    (
        lambda: mdt.stencil(shifted)(A, A),
        ArgumentError,
        "shifted(u: 'Any') -> 'Any': too many positional arguments",
    ),
    (
        lambda: mdt.einsum("ij->i", A, dtype=A),
        DTypeError,
        "an array (2, 3) of float64 is no element type\n  hint: such as f4, float64, i1",
    ),
    (
        lambda: mdt.reduce("ij->i", A, dtype="9" * 5000),
        DTypeError,
        "'" + "9" * 78 + "… is no element type\n  hint: such as f4, float64, i1",
    ),
    (
        lambda: mdt.reduce("ij->", A, extents={None: 2}, combine="argmin"),  # type: ignore[dict-item]
        SubscriptError,
        "extents names a dim None\n  hint: a name: {'r': 3}",
    ),
    (
        lambda: mdt.conv(np.ones((1, 6, 6, 2)), np.ones((4, 3, 3, 2)), transposed=A),  # type: ignore[arg-type]
        DTypeError,
        f"transposed is {shown(A)}\n  hint: True or False",
    ),
    (
        lambda: mdt.einsum("2i+a,a->i", [1, 2], [1, 2], extents={"i": 10**5000}),
        SubscriptError,
        (
            "index '2i+a' of operand 0 runs from 0 to an int of 16611 bits, but its axis has"
            " extent 2\n"
            "  2i+a,a->i\n"
            "  ^\n"
            "  operand 0: (2,) int64    operand 1: (2,) int64\n"
            "  hint: extents={'i': …} makes it end earlier"
        ),
    ),
    (
        lambda: copied_floats(10**5000),
        DTypeError,
        (
            f"x is a int that numpy does not take: {TOO_LARGE}\n"
            "  hint: convert it to an array of numpy first"
        ),
    ),
    (
        lambda: mdt.stencil(shifted, border="constant", cval=nested())(A),
        DTypeError,
        "the border's value is [[[[[[[[[...]]]]]]]]], which is no number\n  hint: cval=0.0",
    ),
    (
        lambda: np.broadcast_to(mdt.lazy(A), nested()),
        ShapeError,
        "[[[[[[[[[...]]]]]]]]] is no shape\n  hint: whole numbers, such as (64, 128)",
    ),
    (
        lambda: np.broadcast_to(mdt.lazy(A), nested(5000)),
        ShapeError,
        "[[[[[[[[[...]]]]]]]]] is no shape\n  hint: whole numbers, such as (64, 128)",
    ),
    (
        lambda: np.moveaxis(mdt.lazy(A), 0, (0, 1)),
        ShapeError,
        "axes (0,) do not move to (0, 1)\n  hint: one place for each axis",
    ),
    (
        lambda: np.broadcast_to(mdt.lazy(A), 2.5),  # type: ignore[arg-type]
        ShapeError,
        "2.5 is no shape\n  hint: whole numbers, such as (64, 128)",
    ),
]


# Names of tests are the same in every process, and addresses are not.
IDS = [text.replace(str(PLANE), "a plane").splitlines()[0] for *_, text in TYPED]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("wrong", "error", "text"), TYPED, ids=IDS)
def test_errors_are_typed(wrong: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        wrong()
    assert isinstance(caught.value, MdtensorError)
    assert str(caught.value) == text


@pytest.mark.sampled(24)
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


class Long:
    """Numbers of a list that is far longer than any array has axes, and says how long."""

    def __len__(self) -> int:
        return 1 << 22

    def __iter__(self) -> Iterator[int]:
        for number in range(100):
            yield number // 99
        raise AssertionError("more than any array has axes were asked for")


@pytest.mark.parametrize(
    "call",
    [
        lambda: mdt.max_pool(IMG, 2, axes=Long()),  # type: ignore[arg-type]
        lambda: mdt.max_pool(IMG, Long()),  # type: ignore[arg-type]
        lambda: mdt.avg_pool(IMG, 2, stride=Long(), padding=Long()),  # type: ignore[arg-type]
        lambda: mdt.ndimage.gaussian_laplace(A, 1, axes=Long()),
        lambda: mdt.ndimage.median_filter(A, 3, axes=Long()),
        lambda: mdt.softmax(A, axis=Long()),  # type: ignore[arg-type]
        lambda: mdt.lazy(A).sum(axis=Long()),  # type: ignore[arg-type]
        lambda: mdt.tensordot(A, B, (Long(), Long())),  # type: ignore[arg-type]
        lambda: mdt.conv(IMG, FLT, stride=Long()),  # type: ignore[arg-type]
        lambda: mdt.compile("ij->i", A).tune(objective=Long()),  # type: ignore[arg-type]
        lambda: mdt.tune(Long()),  # type: ignore[arg-type]
    ],
)
def test_no_more_of_a_long_list_is_read_than_an_array_has_axes(call: Callable[[], Any]) -> None:
    with pytest.raises(MdtensorError):
        call()


def test_a_path_with_numbers_of_any_length_is_refused() -> None:
    with pytest.raises(PathError, match="the path contracts operands"):
        mdt.einsum_path("ij,jk->ik", A, B, optimize=["einsum_path", (0, 10**5000)])  # type: ignore[arg-type]
