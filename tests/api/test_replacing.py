"""mdtensor's functions in the places of NumPy's, put there and taken out again."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.replacing import Replacement
from mdtensor.errors import ArgumentError
from tests.hurried import at_once

NAMES = (
    *("einsum", "tensordot", "dot", "matmul", "inner", "vdot", "outer", "convolve", "correlate"),
    *("linalg.matmul", "linalg.tensordot", "linalg.outer"),
)


def _there(name: str) -> Any:
    home, _, last = name.rpartition(".")
    return vars(np.linalg if home else np)[last]


OWN = {name: _there(name) for name in NAMES}


def _are_own() -> bool:
    return all(_there(name) is own for name, own in OWN.items())


@pytest.fixture(autouse=True)
def _leaves_numpy_alone() -> Any:
    assert _are_own()
    yield
    assert _are_own()


def test_all_functions_are_replaced_and_put_back() -> None:
    with mdt.replacing("numpy"):
        assert all(isinstance(_there(name), Replacement) for name in NAMES)
    assert _are_own()


def test_nested_the_outermost_takes_them_out() -> None:
    with mdt.replacing("numpy") as outer:
        first = np.dot
        with mdt.replacing("numpy"), outer:
            assert np.dot is first
        assert np.dot is first
    assert _are_own()


def test_an_exception_takes_them_out() -> None:
    with pytest.raises(ZeroDivisionError), mdt.replacing("numpy"):
        raise ZeroDivisionError
    assert _are_own()


def test_start_and_stop_may_be_said_twice() -> None:
    session = mdt.replacing("numpy").start()
    session.start()
    assert isinstance(np.dot, Replacement)
    session.stop()
    session.stop()
    assert _are_own()
    with mdt.replacing("numpy"):
        session.stop()
        assert isinstance(np.dot, Replacement)


def test_threads_that_overlap_keep_them_until_the_last_one_ends() -> None:
    first_is_in, first_may_go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def first() -> None:
        with mdt.replacing("numpy"):
            first_is_in.set()
            first_may_go.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    assert first_is_in.wait(20)
    with mdt.replacing("numpy"):
        first_may_go.set()
        thread.join()
        seen.append(np.dot)
    assert isinstance(seen[0], Replacement)


def test_many_threads_enter_and_leave() -> None:
    def often() -> None:
        for _ in range(200):
            with mdt.replacing("numpy"):
                assert isinstance(np.dot, Replacement)

    at_once(*[often] * 6)


def test_what_a_program_had_there_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(a: Any, b: Any) -> str:
        return "mine"

    with monkeypatch.context() as patch:
        patch.setattr(np, "dot", mine)
        with mdt.replacing("numpy"):
            assert np.dot([1], [2]) == 2
            assert np.dot("a", "b") == "mine"  # type: ignore[arg-type]
        assert np.dot is mine


def test_what_a_program_puts_there_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def later() -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(np, "inner", np.inner)
        with mdt.replacing("numpy"):
            np.inner = later
        assert np.inner is later


def test_a_function_that_was_kept_is_numpys_afterwards() -> None:
    with mdt.replacing("numpy"):
        kept = np.dot
    mdt.stats(reset=True)
    assert kept([1.0], [2.0]) == 2
    assert not mdt.stats().generated


def test_attributes_are_numpys() -> None:
    with mdt.replacing("numpy"):
        assert np.matmul.signature == "(n?,k),(k,m?)->(n?,m?)"
        assert np.matmul.nin == 2
        assert np.dot.__name__ == "dot"
        assert np.dot == OWN["dot"]
        assert {OWN["dot"]: 1}[np.dot] == 1
        assert inspect.signature(np.tensordot) == inspect.signature(OWN["tensordot"])
        assert repr(np.einsum) == "<numpy.einsum by mdtensor>"
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = np.dot.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_another_process_and_copies_have_numpys(name: str) -> None:
    with mdt.replacing("numpy"):
        replaced = _there(name)
        assert pickle.loads(pickle.dumps(replaced)) is OWN[name]
        assert copy.copy(replaced) is OWN[name]


A = np.arange(6.0).reshape(2, 3)
CALLS = {
    "einsum": lambda: np.einsum("ij,kj->ik", A, A),
    "tensordot": lambda: np.tensordot(A, A, ([1], [1])),
    "dot": lambda: np.dot(A, A.T),
    "matmul": lambda: np.matmul(A, A.T),
    "inner": lambda: np.inner(A, A),
    "vdot": lambda: np.vdot(A, A),
    "outer": lambda: np.outer(A, A),
    "convolve": lambda: np.convolve(A[0], A[1]),
    "correlate": lambda: np.correlate(A[0], A[1], "full"),
    "linalg.matmul": lambda: np.linalg.matmul(A, A.T),
    "linalg.tensordot": lambda: np.linalg.tensordot(A, A, axes=2),
    "linalg.outer": lambda: np.linalg.outer(A[0], A[1]),
}


@pytest.mark.parametrize("name", NAMES)
def test_kernels_compute_and_results_are_numpys(name: str) -> None:
    expected = CALLS[name]()
    mdt.stats(reset=True)
    with mdt.replacing("numpy"):
        result = CALLS[name]()
    assert mdt.stats().generated == {"float": 1}
    assert type(result) is type(expected)
    np.testing.assert_array_equal(result, expected)


class Loud(np.ndarray):
    """A subclass that answers NumPy's functions itself."""

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func.__name__, func is OWN["dot"]


B = np.array([1, 2, 3])
LEFT_TO_NUMPY: dict[str, Any] = {
    "objects": lambda: np.dot(B.astype(object), B),
    "objects of einsum": lambda: np.einsum("i,i", B.astype(object), B),
    "longdouble": lambda: np.matmul(B.astype("g"), B),
    "a second name of a type": lambda: np.dot(B.astype(np.longlong), B.astype(np.longlong)),
    "matrices": lambda: np.dot(np.matrix([[1, 2]]), np.matrix([[1], [2]])),
    "masked": lambda: np.inner(np.ma.array([1, 2], mask=[0, 1]), np.array([1, 2])),
    "answers itself": lambda: np.dot(B.view(Loud), B),
    "axes": lambda: np.matmul(np.ones((3, 2)), np.ones((3, 2)), axes=[(1, 0), (0, 1), (0, 1)]),
    "a tuple as out": lambda: np.matmul(A, A.T, out=(np.empty((2, 2)),)),
    "casts of einsum": lambda: np.einsum("i,i->i", B, B, out=np.empty(3, "g")),
    "other byte orders": lambda: np.inner(B.astype(">i8"), B.astype(">i8")),
    "timedeltas": lambda: np.outer(B.astype("m8[s]"), B),
    "named": lambda: np.dot(a=B, b=B),
    "named operands": lambda: np.convolve(B, v=B.astype(object), mode="same"),
    "a list of nothing in dot": lambda: np.dot(np.ones(0, "f4"), []),
    "a list of nothing in inner": lambda: np.inner([], np.ones(0, "f4")),
    "a list of nothing in vdot": lambda: np.vdot(np.ones(0, "f4"), []),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("case", LEFT_TO_NUMPY)
def test_other_calls_are_numpys(case: str) -> None:
    expected = LEFT_TO_NUMPY[case]()
    with mdt.replacing("numpy"):
        result = LEFT_TO_NUMPY[case]()
    assert type(result) is type(expected)
    assert getattr(result, "dtype", None) == getattr(expected, "dtype", None)
    np.testing.assert_array_equal(result, expected)


WRONG: dict[str, Any] = {
    "shapes of dot": lambda: np.dot(np.ones((2, 3)), np.ones((2, 3))),
    "shapes of matmul": lambda: np.matmul(np.ones((2, 3)), np.ones((2, 3))),
    "numbers in matmul": lambda: np.matmul(1, B),
    "letters": lambda: np.einsum("i-,i", B, B),
    "an option": lambda: np.dot(B, B, axis=1),  # type: ignore[call-overload]
    "strings": lambda: np.dot(np.array(["a"]), np.array(["b"])),
    "a missing operand": lambda: np.inner(B),  # type: ignore[call-overload]
    "two axes": lambda: np.convolve(np.ones((2, 2)), np.ones((2, 2))),
    "a mode": lambda: np.correlate(B, B, mode=None),  # type: ignore[arg-type]
    "axes": lambda: np.tensordot(A, A, ([0], [1])),
    "out of another type": lambda: np.dot(B, B, out=np.empty(())),
    "out of another shape": lambda: np.outer(B, B, out=np.empty((2, 3))),
    "two axes of linalg": lambda: np.linalg.outer(A, A),
    "a number in linalg": lambda: np.linalg.outer(B, np.int8(3)),
    "axes among operands": lambda: np.linalg.tensordot(A, A, 1),  # type: ignore[call-arg]
    "a number in correlate": lambda: np.correlate(3, 2.0, "valid"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_are_numpys(case: str) -> None:
    with pytest.raises(Exception) as numpys:  # noqa: PT011
        WRONG[case]()
    with mdt.replacing("numpy"), pytest.raises(type(numpys.value)) as ours:
        WRONG[case]()
    assert type(ours.value) is type(numpys.value)
    assert str(ours.value) == str(numpys.value)
    assert ours.value.__context__ is numpys.value.__context__


def test_calls_that_numpy_computes_are_counted() -> None:
    mdt.stats(reset=True)
    with mdt.replacing("numpy"):
        np.matmul(A, A.T, axes=[(0, 1), (0, 1), (0, 1)])
        np.matmul(A, A.T, out=(np.empty((2, 2)),))
    counted = mdt.stats().numpy
    assert sum(counted.values()) == 2


def test_lazy_arrays_and_nested_lists_go_on() -> None:
    with mdt.replacing("numpy"):
        assert np.dot([[1, 2], [3, 4]], [1, 1]).tolist() == [3, 7]
        assert np.einsum([1, 2], [0], [3, 4], [0], []) == 11


def test_methods_and_operators_stay_numpys() -> None:
    mdt.stats(reset=True)
    with mdt.replacing("numpy"):
        assert (A @ A.T).shape == A.dot(A.T).shape == (2, 2)
    assert not mdt.stats().generated


def test_opt_einsum_contracts_by_kernels() -> None:
    contract = importlib.import_module("opt_einsum").contract
    functions = importlib.import_module("opt_einsum.backends.dispatch")._cached_funcs
    before = dict(functions)
    mdt.stats(reset=True)
    with mdt.replacing("opt_einsum"):
        result = contract("ij,jk,kl->il", A, A.T, A)
    assert mdt.stats().generated == {"float": 2}
    np.testing.assert_array_equal(result, A @ A.T @ A)
    assert {key: functions[key] for key in before} == before
    assert not any(isinstance(function, Replacement) for function in functions.values())


def test_opt_einsum_has_mdtensor_as_a_backend() -> None:
    contract = importlib.import_module("opt_einsum").contract
    mdt.stats(reset=True)
    result = contract("ij,kj,kl->li", A, A, A, backend="mdtensor")
    assert mdt.stats().generated == {"float": 2}
    np.testing.assert_array_equal(result, (A @ A.T @ A).T)


def test_another_library_is_refused() -> None:
    with pytest.raises(ArgumentError) as raised:
        mdt.replacing("scipy")  # type: ignore[arg-type]
    assert str(raised.value) == "library is 'scipy'\n  hint: one of 'numpy', 'opt_einsum'"
