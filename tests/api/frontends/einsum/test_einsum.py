"""einsum against numpy.einsum: values, types, memory order, views, aliases, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from mdtensor.api.calls import program_calls
from mdtensor.api.calls.statistics import stats
from mdtensor.api.frontends.einsum.einsum import einsum, einsum_path
from mdtensor.api.frontends.einsum.tensordot import tensordot
from mdtensor.api.plans.compile import compile as planned
from mdtensor.bounded import Bounded
from mdtensor.errors import AxisError, DTypeError, PathError, ShapeError, SubscriptError
from tests.cases import CASES, DTYPES, Case, operands, tolerance, values
from tests.strategies import Problem, laid_out, outputs, problems

pytestmark = pytest.mark.usefixtures("by_reference")

fixture_is_constant = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def check(result: Any, text: str, arrays: list[np.ndarray], **options: Any) -> None:
    """The result is NumPy's in shape, type and strides, and in value up to rounding."""
    expected = np.einsum(text, *arrays, **options)
    assert type(result) is type(expected)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    if isinstance(result, np.ndarray) and result.size:
        kept = [axis for axis, extent in enumerate(result.shape) if extent > 1]
        assert [result.strides[a] for a in kept] == [expected.strides[a] for a in kept]
    compare(result, text, arrays)


def compare(result: Any, text: str, arrays: list[np.ndarray]) -> None:
    dtype = np.asarray(result).dtype
    if dtype.kind in "fc":
        wide = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
        arrays = [array.astype(wide) for array in arrays]
    terms = max((a.size for a in arrays), default=1) * 16
    np.testing.assert_allclose(
        result, np.einsum(text, *arrays), rtol=0, atol=tolerance(dtype, terms, 2.0)
    )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: Case, dtype: str) -> None:
    arrays = operands(case, dtype)
    check(einsum(case.text, *arrays), case.text, arrays)


@given(problems())
@fixture_is_constant
def test_any_einsum_in_any_layout(problem: Problem) -> None:
    check(einsum(problem.text, *problem.operands), problem.text, list(problem.operands))


@given(problems(("int32",), most_operands=2), st.sampled_from("KCFAkcfa"))
@fixture_is_constant
def test_any_order(problem: Problem, order: str) -> None:
    result = einsum(problem.text, *problem.operands, order=order)
    check(result, problem.text, list(problem.operands), order=order)


@given(problems(("int16", "float32"), most_operands=2), st.data())
@fixture_is_constant
def test_any_out(problem: Problem, data: st.DataObject) -> None:
    arrays = list(problem.operands)
    expected = np.einsum(problem.text, *arrays)
    out = data.draw(outputs(np.shape(expected), expected.dtype))
    base = out if out.base is None else out.base
    base[...] = 7
    whole = base.copy()
    assert einsum(problem.text, *arrays, out=out) is out
    compare(out, problem.text, arrays)
    out[...] = 7
    np.testing.assert_array_equal(base, whole)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("optimize", [True, "greedy", "optimal", ("greedy", 5), "auto"])
@pytest.mark.parametrize("case", [c for c in CASES if len(c.shapes) > 1], ids=str)
def test_any_path(case: Case, optimize: Any) -> None:
    arrays = operands(case, "int64")
    result = einsum(case.text, *arrays, optimize=optimize)
    np.testing.assert_array_equal(result, np.einsum(case.text, *arrays))


# ---- where paths of NumPy's change more than the order, and ours do not


@pytest.mark.parametrize("optimize", [True, "greedy", "optimal"])
@pytest.mark.parametrize("text", ["k,kk", "i,i->", "i,ij,j"])
def test_a_result_without_dims_is_a_scalar_by_any_path(text: str, optimize: Any) -> None:
    shapes = [(3,) * len(term) for term in text.partition("->")[0].split(",")]
    arrays = [np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes]
    result = einsum(text, *arrays, optimize=optimize)
    assert type(result) is np.float64
    assert result == np.einsum(text, *arrays)


@pytest.mark.parametrize("optimize", [False, True, "greedy"])
def test_dims_of_an_ellipsis_are_not_summed_by_any_path(optimize: Any) -> None:
    a, b = np.ones((2, 3)), np.ones((2, 3))
    with pytest.raises(SubscriptError) as caught:
        einsum("...i,...i->i", a, b, optimize=optimize)
    assert str(caught.value) == (
        "the output lacks the ellipsis, which stands for 1 dim\n"
        "  ...i,...i->i\n"
        "  ^    ^\n"
        "  operand 0: (2, 3) float64    operand 1: (2, 3) float64\n"
        "  hint: '...i,...i->...i' keeps them; to sum over them, give them letters"
    )


@pytest.mark.sampled(24)
@pytest.mark.parametrize("order", ["K", "A", "C", "F"])
@pytest.mark.parametrize("optimize", [True, "greedy", "optimal"])
@pytest.mark.parametrize("text", ["lBB,nl->lB", "ij,jk->ki", "ij,jk,kl->li"])
def test_results_lie_as_without_a_path(text: str, optimize: Any, order: Any) -> None:
    terms = text.partition("->")[0].split(",")
    arrays = [np.arange(4.0 ** len(term)).reshape((4,) * len(term)).T for term in terms]
    plain = einsum(text, *arrays, order=order)
    result = einsum(text, *arrays, order=order, optimize=optimize)
    assert result.strides == plain.strides
    np.testing.assert_array_equal(result, np.einsum(text, *arrays))


def test_a_path_that_the_caller_found() -> None:
    arrays = [np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4), np.arange(8).reshape(4, 2)]
    expected = np.einsum("ij,jk,kl", *arrays)
    for path in (
        [(0, 1), (0, 1)],
        [(1, 2), (0, 1)],
        [(0, 1, 2)],
        [(0,), (0, 1), (0, 1)],
        [[0, 2], [0, 1]],
    ):
        np.testing.assert_array_equal(
            einsum("ij,jk,kl", *arrays, optimize=["einsum_path", *path]), expected
        )
    found, printed = einsum_path("ij,jk,kl", *arrays, optimize="greedy")
    assert (found, printed) == np.einsum_path("ij,jk,kl", *arrays, optimize="greedy")
    np.testing.assert_array_equal(einsum("ij,jk,kl", *arrays, optimize=found), expected)


@pytest.mark.parametrize(
    ("optimize", "message"),
    [
        (["einsum_path", (0, 1)], r"^the path does not end with one array"),
        (["einsum_path"], r"^the path does not end with one array"),
        (["einsum_path", (0, 3)], r"^the path contracts operands \(0, 3\) where 3 are left"),
        (["einsum_path", 1], r"is no path\n  hint: a path is a list of tuples of ints"),
        ("best", r"^unknown path 'best'"),
        (("greedy", "big"), r"is no path"),
    ],
)
def test_paths_that_lead_nowhere(optimize: Any, message: str) -> None:
    a = np.ones((2, 2))
    with pytest.raises(PathError, match=message) as caught:
        einsum("ij,jk,kl", a, a, a, optimize=optimize)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("text", ["ij->i", "ij,jk", "ij,jk,kl"])
@pytest.mark.parametrize(
    "optimize",
    [3, 0, 1.5, b"greedy", [], ["greedy"], [(0, 1)], {"a": 1}, np.ones(2), ("greedy", None)],
)
def test_what_is_no_path_is_refused(text: str, optimize: Any) -> None:
    """For any number of operands, by the class of errors that NumPy has for most of them."""
    arrays = [np.ones((2, 2))] * (1 + text.count(","))
    for call in (einsum, einsum_path, planned):
        with pytest.raises(PathError, match=r"is no path\n  hint: give a name") as caught:
            call(text, *arrays, optimize=optimize)
        assert isinstance(caught.value, TypeError)
    with pytest.raises(PathError, match="is no path"):
        einsum(text, *arrays, optimize=optimize, semiring="min_plus")
    for known in (np.True_, np.False_):
        einsum(text, *arrays, optimize=known)


def test_interleaved_form() -> None:
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    for arguments in (
        (a, [0, 1], b, [1, 2], [0, 2]),
        (a, [0, 1], b, [1, 2]),
        (a, [27, 1], b, np.array([1, 0]), [27, 0]),
        (a, [..., 1], b, [1, 2], [..., 2]),
    ):
        np.testing.assert_array_equal(einsum(*arguments), np.einsum(*arguments))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), SubscriptError),
        (("",), SubscriptError),
        ((0, 0), DTypeError),
        ((None,) * 63, DTypeError),
        (("", 0, 0), SubscriptError),
        (([1, 2], [52]), SubscriptError),
        (([1, 2], [-1]), SubscriptError),
        (([1, 2], "i"), DTypeError),
        (([1, 2], [0.5]), DTypeError),
    ],
)
def test_arguments_that_make_no_sense(arguments: tuple[Any, ...], error: type) -> None:
    with pytest.raises(error):
        einsum(*arguments)
    with pytest.raises((ValueError, TypeError)) as caught:
        np.einsum(*arguments)
    assert issubclass(error, caught.type)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"order": "W"}, ShapeError),
        ({"casting": "blah"}, ShapeError),
        ({"casting": "same_value"}, ShapeError),
        ({"out": "text"}, DTypeError),
        ({"out": (np.ones(2),)}, DTypeError),
        ({"dtype": "no type"}, TypeError),
        ({"unknown": 1}, TypeError),
        ({"out": np.ones(3)}, SubscriptError),
        ({"out": np.broadcast_to(1.0, 2)}, ShapeError),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], error: type) -> None:
    with pytest.raises(error):
        einsum("i,i->i", np.ones(2), np.ones(2), **options)
    with pytest.raises((ValueError, TypeError)):
        np.einsum("i,i->i", np.ones(2), np.ones(2), **options)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize(
    "dtype", [None, "bool", "int16", "uint16", "float16", "float64", "complex64"]
)
@pytest.mark.parametrize("given", ["int64", "float32", "complex64"])
@pytest.mark.parametrize("out", [None, "int8", "float32", "complex128"])
def test_casting(casting: str, dtype: str | None, given: str, out: str | None) -> None:
    a, b = np.array([[1, 2], [3, 0]], given), np.array([3, -2], given)
    options: dict[str, Any] = {"casting": casting, "dtype": dtype}

    def call(function: Any) -> Any:
        target = None if out is None else np.full(2, 9, out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return function("ij,j->i", a, b, **options, out=target)

    try:
        expected = call(np.einsum)
    except TypeError:
        with pytest.raises(DTypeError, match=r"cannot be cast from \w+ to \w+ under casting="):
            call(einsum)
        return
    result = call(einsum)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    "text", ["...", "ij", "ij->ji", "ji", "ij->ij", "...j->j...", "ij...->...ij"]
)
def test_views_are_views(text: str) -> None:
    a = np.arange(6).reshape(2, 3)
    before = stats().views.get("int", 0)
    result = einsum(text, a)
    assert result.base is a.base
    assert result.strides == np.einsum(text, a).strides
    assert result.flags.writeable
    a.flags.writeable = False
    assert not einsum(text, a).flags.writeable
    assert stats().views["int"] == before + 2


def test_a_diagonal_is_a_writeable_view() -> None:
    a = np.zeros((3, 3))
    einsum("ii->i", a)[:] = 1
    np.testing.assert_array_equal(a, np.eye(3))


def test_views_of_types_without_kernels() -> None:
    a = np.array([[object(), None]])
    assert einsum("ij->ji", a).base is a


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->ki", "ij,jk,kl->il"])
def test_out_may_be_an_operand(text: str) -> None:
    for position in range(text.count(",") + 1):
        arrays = [np.arange(9).reshape(3, 3) + n for n in range(text.count(",") + 1)]
        expected = np.einsum(text, *arrays)
        assert einsum(text, *arrays, out=arrays[position]) is arrays[position]
        np.testing.assert_array_equal(arrays[position], expected)


def test_out_may_overlap_an_operand() -> None:
    base = np.arange(10)
    expected = base[:9] * 3
    einsum("i,->i", base[:9], 3, out=base[1:])
    np.testing.assert_array_equal(base[1:], expected)


def test_a_float_out_widens_the_computation() -> None:
    out = np.zeros((), "f8")
    einsum("i->", np.array([127, 1], "i1"), out=out)
    assert out == 128


def test_an_out_that_stretches() -> None:
    out = np.zeros(4)
    einsum("i,->i", np.ones(1), 3.0, out=out)
    np.testing.assert_array_equal(out, np.full(4, 3.0))


@pytest.mark.usefixtures("by_reference")
def test_copies_of_unaligned_operands_keep_the_order_of_axes() -> None:
    """The result's axes follow those of the operand as it was given, as NumPy's do."""
    whole = np.zeros(8 * 30 + 1, np.uint8)[1:].view("f8")
    assert not whole.flags.aligned
    column_major = whole.reshape(5, 6).T
    broadcast = as_strided(whole, (4, 3, 5), (8, 32, 0))
    for text, a in (("ij,->ij", column_major), ("ijk,->kji", broadcast)):
        found = einsum(text, a, np.array(2.0))
        assert found.strides == np.einsum(text, a, np.array(2.0)).strides


def test_copies_of_another_type_keep_the_order_of_axes() -> None:
    a = np.ones((9, 1), np.float16)
    b = np.ones((33, 9, 16, 1), np.int64).transpose(2, 0, 1, 3)
    options: Any = {"dtype": np.float16, "casting": "same_kind"}
    expected = np.einsum("uc,xfuc", a, b, **options)
    assert einsum("uc,xfuc", a, b, **options).strides == expected.strides


def test_records_with_odd_strides_are_copied() -> None:
    records = np.zeros(5, np.dtype([("tag", "u1"), ("value", "f8")]))
    records["value"] = np.arange(5)
    assert einsum("i->", records["value"]) == 10
    einsum("i,->i", np.arange(5.0), 2.0, out=records["value"])
    np.testing.assert_array_equal(records["value"], 2 * np.arange(5))


def test_operands_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def compute(md_hom: Any, inputs: tuple[np.ndarray, ...], outputs: Any) -> None:
        seen.extend(inputs)
        for buffer, array in zip(md_hom.inputs, inputs, strict=True):
            assert tuple(s * array.itemsize for s in buffer.spec.strides) == array.strides

    monkeypatch.setattr(program_calls, "executor", compute)
    a, b = np.ones((6, 4))[::-2, ::2].T, np.broadcast_to(np.float64(1), (3, 5))
    einsum("ij,jk->ik", a, b)
    assert seen[0] is a
    assert seen[1] is b


class Overriding(np.ndarray):
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
        return function.__name__


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([1, 2], object), "dtype object"),
        (np.array([1, 2], np.longdouble), f"dtype {np.dtype(np.longdouble).name}"),
        (np.array([1, 2], ">i4"), "byte order"),
    ],
)
def test_numpy_computes_what_has_no_kernel(array: np.ndarray, reason: str) -> None:
    before = sum(calls for (_, why), calls in stats().numpy.items() if why == reason)
    assert einsum("i,i->", array, array) == 5
    assert tensordot(array, array, 1) == 5
    assert sum(calls for (_, why), calls in stats().numpy.items() if why == reason) == before + 2


def test_subclasses() -> None:
    masked = np.ma.array([[1, 2], [3, 4]])
    assert type(einsum("ij,jk", masked, masked)) is np.ndarray
    assert einsum("i->", np.ones(2).view(Overriding)) == "einsum"


def test_lists_and_scalars() -> None:
    assert einsum("i,i", [1, 2], [3, 4]) == 11
    assert isinstance(einsum("...,...", 3, 4.0), np.float64)
    assert einsum("i,->i", [1, 2], 2).dtype == np.int64
    assert einsum(b"i->", [1, 2]) == 3


def test_float16_is_accumulated_in_float32() -> None:
    ones = np.ones(4096, np.float16)
    assert einsum("i,i->", ones, ones) == 4096
    assert einsum("i,i->", ones, ones).dtype == np.float16


def test_acc_dtype() -> None:
    x = np.array([1, 2.0**-30], np.float32)
    kept = einsum("i->", x, acc_dtype="f8", dtype="f8")
    assert kept == 1 + 2.0**-30
    assert einsum("i->", x, acc_dtype="f8").dtype == np.float32


def test_plans_are_kept_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_calls, "_table", table := Bounded(3))
    for n in (2, 3, 2, 4, 2, 5):
        assert einsum("i->", np.ones(n)) == n
    assert 1 <= len(table) <= 3


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex128"])
@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [
        ((3, 4, 5), (4, 3, 2), ([1, 0], [0, 1])),
        ((3, 4), (4, 5), 1),
        ((3, 4), (2,), 0),
        ((3, 4), (3, 4), 2),
        ((3, 4), (5, 4), (-1, 1)),
        ((), (3,), 0),
        ((0, 3), (3, 2), 1),
        ((2, 0), (0, 2), 1),
        ((1, 2), (1, 2), ((0,), (0,))),
    ],
)
def test_tensordot(left: Any, right: Any, axes: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = values(rng, left, dtype), values(rng, right, dtype)
    result, expected = tensordot(a, b, axes), np.tensordot(a, b, axes)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert result.flags.c_contiguous
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (1, r"^axis -1 of a has extent 3 but axis 0 of b 2\n  a: \(2, 3\)    b: \(2, 3\)$"),
        (([0, 1], [0]), r"^2 axes of a for 1 of b"),
        (([0, 0], [0, 0]), r"^axes \(\[0, 0\], \[0, 0\]\) are repeated"),
        (([0, -2], [0, 0]), r"are repeated"),
    ],
)
def test_tensordot_of_axes_that_do_not_fit(axes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        tensordot(np.ones((2, 3)), np.ones((2, 3)), axes)


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (3, AxisError, r"^a has no axis -3, but 2 axes\n  a: \(2, 3\)    b: \(2, 3\)$"),
        (([0], [-3]), AxisError, "^b has no axis -3, but 2 axes"),
        ([[0]], ShapeError, r"^axes are \[\[0\]\]\n  hint: a number of axes, or two lists of them"),
        (1.5, DTypeError, "^axes are 1.5\n  hint"),
        ("ab", DTypeError, "^axes are 'ab'\n  hint"),
    ],
)
def test_tensordot_of_what_is_no_axis(axes: Any, error: type[Exception], message: str) -> None:
    a = np.ones((2, 3))
    with pytest.raises(error, match=message) as caught:
        tensordot(a, a, axes)
    with pytest.raises((IndexError, TypeError, ValueError)) as expected:
        np.tensordot(a, a, axes)
    assert isinstance(caught.value, type(expected.value))


def test_tensordot_does_not_broadcast() -> None:
    with pytest.raises(ShapeError):
        tensordot(np.ones((2, 1)), np.ones((3, 2)), 1)


@given(laid_out((3, 4, 5), "float64"), laid_out((5, 4, 2), "float64"))
@fixture_is_constant
def test_tensordot_in_any_layout(a: np.ndarray, b: np.ndarray) -> None:
    axes = ([2, 1], [0, 1])
    np.testing.assert_allclose(tensordot(a, b, axes), np.tensordot(a, b, axes), atol=1e-14)
