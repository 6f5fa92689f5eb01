"""Functions count by what they say: their code, and all that it refers to."""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import enum
import functools
import os
import types
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import function_fingerprint as module
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.frontends import reduce as front_end
from mdtensor.translate.operators.combination import ps
from mdtensor.translate.operators.combine_operators import operator

FACTOR: Any = 2.0


def by_global(x: float) -> Any:
    return x * FACTOR


def calling(x: float) -> Any:
    return by_global(x) + 1


def by_closure(factor: Any) -> Callable[..., Any]:
    return lambda x: x * factor


def by_default(factor: Any) -> Callable[..., Any]:
    return lambda x, factor=factor: x * factor


def test_values_around_a_function_count() -> None:
    for made in (by_closure, by_default):
        keys = [function_key(made(v)) for v in (1, 1.0, True, 0.0, -0.0, np.float32(1), 1)]
        assert len(set(keys)) == 6
        assert keys[0] == keys[-1]


def test_globals_count_also_through_calls() -> None:
    global FACTOR
    before = function_key(by_global), function_key(calling)
    FACTOR = 3.0
    after = function_key(by_global), function_key(calling)
    FACTOR = 2.0
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert before == (function_key(by_global), function_key(calling))


def test_other_code_is_another_key() -> None:
    assert function_key(lambda x: x + 1) != function_key(lambda x: x + 2)


@pytest.mark.parametrize("length", [3, 1000])
@pytest.mark.parametrize("dtype", [float, object])
def test_arrays_count_by_what_they_contain(length: int, dtype: type) -> None:
    table = np.arange(length, dtype=dtype)
    before = function_key(by_closure(table))
    assert before == function_key(by_closure(table.copy()))
    assert before != function_key(by_closure(table.reshape(1, length)))
    table[-1] = 7.5
    assert before != function_key(by_closure(table))


def test_keys_let_large_arrays_go() -> None:
    table = np.zeros(1 << 20)
    key, gone = function_key(by_closure(table)), weakref.ref(table)
    del table
    assert gone() is None, key


class Settings:
    by_class = 2.0

    def __init__(self) -> None:
        self.factor = 2.0

    def method(self, x: Any) -> Any:
        return self.factor * x

    def __call__(self, x: Any) -> Any:
        return self.method(x)


class WithProperty:
    @property
    def seen(self) -> Any:
        return SETTINGS.factor


class WithStaticMethod:
    @staticmethod
    def scaled(x: Any, by: Any) -> Any:
        return SETTINGS.factor * x * by


class WithOperator:
    def __mul__(self, x: Any) -> Any:
        return SETTINGS.factor * x


class Model:
    def __init__(self) -> None:
        self.parts = [types.SimpleNamespace(settings=SETTINGS)]

    def __call__(self, x: Any) -> Any:
        return self.parts[0].settings.factor * x


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 2.0


SETTINGS, SLOTTED, MODULE = Settings(), Slotted(), types.ModuleType("settings")
MODULE.factor = 2.0
HOLDING = types.SimpleNamespace(held=SETTINGS)
DEEP = types.SimpleNamespace(a=types.SimpleNamespace(b=types.SimpleNamespace(c=HOLDING)))
MODEL, WITH = Model(), (WithProperty(), WithStaticMethod(), WithOperator())


def chained(length: int) -> Callable[..., Any]:
    """A function that calls a function that calls … one that looks at a factor."""
    function: Callable[..., Any] = by_global_settings
    for _ in range(length):
        function = calling_on(function)
    return function


def by_global_settings(x: Any) -> Any:
    return SETTINGS.factor * x


def calling_on(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x) + 0.0


@pytest.mark.parametrize(
    ("holder", "name", "function"),
    [
        pytest.param(SETTINGS, "factor", lambda x: SETTINGS.factor * x, id="instance"),
        pytest.param(Settings, "by_class", lambda x: Settings.by_class * x, id="class"),
        pytest.param(Settings, "by_class", lambda x: SETTINGS.by_class * x, id="class by instance"),
        pytest.param(SLOTTED, "factor", lambda x: SLOTTED.factor * x, id="slot"),
        pytest.param(MODULE, "factor", lambda x: MODULE.factor * x, id="module"),
        pytest.param(SETTINGS, "factor", lambda x: HOLDING.held.factor * x, id="attribute of one"),
        pytest.param(SETTINGS, "factor", SETTINGS.method, id="method"),
        pytest.param(SETTINGS, "factor", lambda x: SETTINGS.method(x) + 0.0, id="method by name"),
        pytest.param(SETTINGS, "factor", SETTINGS, id="instance that is called"),
        pytest.param(SETTINGS, "factor", lambda x: DEEP.a.b.c.held.factor * x, id="five deep"),
        pytest.param(SETTINGS, "factor", MODEL, id="what its method looks at, deep"),
        pytest.param(SETTINGS, "factor", lambda x: WITH[0].seen * x, id="property"),
        pytest.param(SETTINGS, "factor", lambda x: WITH[1].scaled(x, 1.0), id="static method"),
        pytest.param(SETTINGS, "factor", lambda x: WITH[2] * x, id="operator of a class"),
        pytest.param(SETTINGS, "factor", chained(12), id="calls, twelve deep"),
    ],
)
def test_attributes_that_are_named_count(
    holder: Any, name: str, function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.ones(3)
    before, doubled = function_key(function), front_end.reduce("i->i", a, f=function)
    assert function_key(function) == before
    monkeypatch.setattr(holder, name, 5.0)
    np.testing.assert_array_equal(doubled, 2 * a)
    np.testing.assert_array_equal(front_end.reduce("i->i", a, f=function), 5 * a)


class Number(float): ...


class Numbers(list[float]): ...


class Matrix(np.ndarray): ...


class Looked:
    def __get__(self, holder: Any, owner: type) -> Any:
        return SETTINGS.factor


class WithDescriptor:
    seen = Looked()


class Meta(type):
    @property
    def seen(cls) -> Any:
        return SETTINGS.factor


class WithMeta(metaclass=Meta): ...


def with_factor() -> Any:
    return with_factor.factor  # type: ignore[attr-defined]


with_factor.factor = 2.0  # type: ignore[attr-defined]
NUMBER, NUMBERS, MATRIX = Number(1.0), Numbers([1.0]), np.ones(2).view(Matrix)
NUMBER.factor = NUMBERS.factor = MATRIX.factor = 2.0  # type: ignore[attr-defined]
DESCRIBED, HALF = WithDescriptor(), Fraction(1, 2)


@pytest.mark.parametrize(
    ("holder", "function"),
    [
        pytest.param(NUMBER, lambda x: NUMBER.factor * x, id="a number"),
        pytest.param(NUMBERS, lambda x: NUMBERS.factor * x, id="a list"),
        pytest.param(MATRIX, lambda x: MATRIX.factor * x, id="an array"),
        pytest.param(with_factor, lambda x: with_factor() * x, id="a function"),
        pytest.param(SETTINGS, lambda x: DESCRIBED.seen * x, id="a descriptor"),
        pytest.param(SETTINGS, lambda x: WithMeta.seen * x, id="a class of classes"),
    ],
)
def test_attributes_of_what_has_a_value_of_its_own_count(
    holder: Any, function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = function_key(function)
    assert function_key(function) == before
    monkeypatch.setattr(holder, "factor", 5.0)
    assert function_key(function) != before


class Tensor:
    """Another library's array, which is equal to itself alone."""

    def __init__(self, *values: float) -> None:
        self.values = np.array(values)

    def __dlpack__(self) -> Any: ...

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values

    def __setitem__(self, place: int, value: float) -> None:
        self.values[place] = value


VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=2.0)


def first(values: Any, value: Any) -> None:
    values[0] = value


@pytest.mark.parametrize(
    ("held", "change"),
    [
        pytest.param({1, 2}, lambda s: s.add(3), id="set"),
        pytest.param(collections.deque([1, 2]), lambda d: d.append(3), id="deque"),
        pytest.param(bytearray(b"ab"), lambda b: first(b, 1), id="bytearray"),
        pytest.param(array.array("d", [1.0]), lambda a: first(a, 2.0), id="array of numbers"),
        pytest.param([{1: {2}}], lambda t: t[0][1].add(3), id="set in a dict in a list"),
        pytest.param(Tensor(1.0, 2.0), lambda t: first(t, 3.0), id="another library's array"),
        pytest.param(VARIABLE, lambda v: v.set(3.0), id="variable of a context"),
    ],
)
def test_what_may_change_counts_by_what_it_contains(
    held: Any, change: Callable[[Any], Any]
) -> None:
    context = contextvars.copy_context()
    before = function_key(by_closure(held))
    assert function_key(by_closure(held)) == before
    context.run(change, held)
    assert context.run(function_key, by_closure(held)) != before


def test_a_view_of_a_dict_counts_by_what_it_contains() -> None:
    values = {"a": 1.0}
    function = by_closure(types.MappingProxyType(values))
    before = function_key(function)
    assert function_key(function) == before
    values["a"] = 2.0
    assert function_key(function) != before


def test_what_may_change_unseen_is_looked_at_in_every_call() -> None:
    class OnDevice(Tensor):
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            raise TypeError("it is on a GPU")

    for held in (memoryview(bytearray(b"a")), OnDevice(1.0)):
        function = by_closure(held)
        assert function_key(function) != function_key(function)


def test_partial_functions_count_by_their_arguments() -> None:
    table = [2.0]
    partly = functools.partial(lambda table, x: table[0] * x, table)
    before = function_key(partly)
    assert before == function_key(functools.partial(partly.func, [2.0]))
    table[0] = 5.0
    assert before != function_key(partly)


def test_what_cannot_be_hashed_counts_by_identity() -> None:
    assert function_key(by_closure([1, 2])) == function_key(by_closure([1, 2]))
    assert function_key(by_closure({"a": 1})) != function_key(by_closure({"a": 2}))


def test_functions_that_call_themselves_have_keys() -> None:
    def outer() -> Callable[..., Any]:
        def again(x: float) -> Any:
            return again(x)

        return again

    hash(function_key(outer()))


def test_objects_that_hold_themselves_have_keys() -> None:
    around = types.SimpleNamespace(factor=2.0)
    around.around = around

    def function(x: float) -> Any:
        return around.around.around.factor * x

    before = function_key(function)
    assert before == function_key(function)
    around.factor = 3.0
    assert before != function_key(function)


def test_what_refers_to_too_much_is_looked_at_in_every_call() -> None:
    chain = by_closure(2.0)
    for _ in range(1000):
        chain = calling_on(chain)
    assert function_key(chain) != function_key(chain)
    endless: list[Any] = []
    endless.append(endless)
    assert function_key(by_closure(endless)) != function_key(by_closure(endless))


class Color(enum.Enum):
    RED = 2.0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * Color.RED.value,
        lambda x: x * float(HALF),
        lambda x: x * float(os.environ.get("FACTOR", "1")),
    ],
)
def test_what_functions_of_pythons_library_refer_to_is_what_it_is(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = function_key(function)
    visited: list[object] = []
    visit = module._visit

    def noted(place: Any, value: object, known: Any) -> None:
        visited.append(value)
        visit(place, value, known)

    monkeypatch.setattr(module, "_visit", noted)
    assert function_key(function) == before
    assert len(visited) < 100


def test_operators_count_by_their_functions() -> None:
    def made(value: float) -> Any:
        return operator(identity=value)(lambda a, b: a + b + value)

    assert function_key({"i": ps(made(1.0))}) == function_key({"i": ps(made(1.0))})
    assert function_key({"i": ps(made(1.0))}) != function_key({"i": ps(made(2.0))})


@pytest.mark.parametrize(
    "options",
    [
        {"f": lambda x: x * 2.0, "combine": "max"},
        {"combine": {"i": ps("add"), "j": "add"}},
        {"combine": operator(lambda lhs, rhs: lhs + rhs, identity=0.0)},
    ],
)
def test_calls_with_functions_are_recalled(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.arange(12, dtype="f4").reshape(3, 4)
    first = front_end.reduce("ij->i", a, **options)
    monkeypatch.setattr(front_end, "_called", None)
    np.testing.assert_array_equal(front_end.reduce("ij->i", a, **options), first)


def test_what_functions_refer_to_is_looked_at_in_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = np.arange(12, dtype="f4").reshape(3, 4)
    doubled = front_end.reduce("ij->i", a, f=calling, combine="max")
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    tripled = front_end.reduce("ij->i", a, f=calling, combine="max")
    np.testing.assert_array_equal(doubled, a.max(axis=1) * 2 + 1)
    np.testing.assert_array_equal(tripled, a.max(axis=1) * 3 + 1)


def test_functions_of_mdtensor_are_what_they_are() -> None:
    def summed(x: np.ndarray) -> Any:
        return mdt.reduce("i->", x) + mdt.einsum("i->", x)

    summed(np.ones(8))
    before = function_key(summed)
    for size in range(1, 5):  # which fills the tables of these functions
        np.testing.assert_array_equal(summed(np.ones(size)), 2 * size)
        mdt.reduce("i->", np.ones(size), f=lambda x: x * 2.0, combine="max")
    assert function_key(summed) == before


@contextlib.contextmanager
def by_context(x: float) -> Iterator[Any]:
    yield by_global(x)


def test_what_pythons_library_made_of_a_function_counts_by_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = function_key(by_context)
    assert function_key(by_context) == before
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert function_key(by_context) != before


def test_what_is_changed_meanwhile_is_looked_at_in_every_call() -> None:
    changing: dict[int, Any] = {}

    class Adding(float):
        def __repr__(self) -> str:
            changing[len(changing)] = 1.0
            return "2.0"

    changing |= {0: Adding(2.0), 1: 3.0}
    function = by_closure(changing)
    assert function_key(function) != function_key(function)
