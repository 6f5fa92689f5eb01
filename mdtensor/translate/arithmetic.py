"""Overloads of Python's operators and NumPy's functions on symbolic values."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, Self, TypeVar

import numpy as np

from mdtensor.errors import TranslationError, shown
from mdtensor.translate.operations import UFUNCS

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


def _operator(op: str) -> Callable[[Arithmetic[Result], object], Result]:
    def method(self: Arithmetic[Result], other: object) -> Result:
        return self.applied(op, self, other)

    return method


def _reflected(op: str) -> Callable[[Arithmetic[Result], object], Result]:
    def method(self: Arithmetic[Result], other: object) -> Result:
        return self.applied(op, other, self)

    return method


def _prefix(op: str) -> Callable[[Arithmetic[Result]], Result]:
    def method(self: Arithmetic[Result]) -> Result:
        return self.applied(op, self)

    return method


class Arithmetic(ABC, Generic[Result_co]):
    """A mixin of Python's arithmetic operators, all by way of `applied(op, *operands)`.

    `==` and `!=` are left alone, since they say whether two symbolic values are the same one.
    """

    __slots__ = ()

    @abstractmethod
    def applied(self, op: str, *operands: Any) -> Result_co:
        """The symbolic result of an operation (see `translate.operations`) on operands."""

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reflected("mod")
    __pow__, __rpow__ = _operator("pow"), _reflected("pow")
    __and__, __rand__ = _operator("and"), _reflected("and")
    __or__, __ror__ = _operator("or"), _reflected("or")
    __xor__, __rxor__ = _operator("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _operator("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _operator("rshift"), _reflected("rshift")
    __neg__, __abs__, __invert__ = _prefix("neg"), _prefix("abs"), _prefix("invert")
    __floor__, __ceil__, __trunc__ = _prefix("floor"), _prefix("ceil"), _prefix("trunc")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __divmod__(self, other: object) -> tuple[Result_co, Result_co]:
        return self.applied("floordiv", self, other), self.applied("mod", self, other)

    def __rdivmod__(self, other: object) -> tuple[Result_co, Result_co]:
        return self.applied("floordiv", other, self), self.applied("mod", other, self)

    def __pos__(self) -> Self:
        return self

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            what = f".{method}" if method != "__call__" else f" with {', '.join(options)}="
            raise TranslationError(f"np.{ufunc.__name__}{what} cannot be traced")
        if ufunc in UFUNCS:
            return self.applied(UFUNCS[ufunc], *inputs)
        if ufunc in _COMPOSED_UFUNCS:
            return _COMPOSED_UFUNCS[ufunc](self.applied, *inputs)
        raise TranslationError(
            f"np.{ufunc.__name__} cannot be traced", hint="write it with other functions of NumPy"
        )

    def __array_function__(
        self, func: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if func not in _FUNCTIONS:
            raise TranslationError(
                f"{_numpy_name(func)} cannot be traced",
                hint="write it with ufuncs, np.where, np.clip or np.round",
            )
        composed = _FUNCTIONS[func]
        try:
            inspect.signature(composed).bind(self.applied, *args, **kwargs)
        except TypeError:
            raise TranslationError(
                f"{_numpy_name(func)} with these arguments cannot be traced",
                hint="leave out what says where the result goes; np.where takes three arguments",
            ) from None
        return composed(self.applied, *args, **kwargs)


def _refusal(what: str) -> Any:
    def method(self: Aggregate, *_: object, **__: object) -> NoReturn:
        raise self.refused(what)

    return method


class Aggregate(Arithmetic[NoReturn]):
    """A traced aggregate (record, array, string) without Python's default semantics.

    By default Python compares objects by identity, takes each for true, and finds it in sets and
    dicts by its address. All that, and arithmetic, is refused unless a class says what it means.
    """

    __slots__ = ()

    @abstractmethod
    def refused(self, what: str) -> TranslationError:
        """The error for an unsupported operation called `what`."""

    def equals(self, other: object) -> Any:
        """Elementwise equality of all elements as an expression; refused by default."""
        raise self.refused("a comparison")

    def applied(self, op: str, *operands: Any) -> NoReturn:
        """Refuses arithmetic."""
        raise self.refused(f"operation {op!r}")

    def __eq__(self, other: object) -> Any:
        return self.equals(other)

    def __ne__(self, other: object) -> Any:
        equals = self.equals(other)
        return not equals if isinstance(equals, bool) else equals.applied("not", equals)

    __hash__ = _refusal("a search in a set or a dict")
    __bool__ = _refusal("a condition")
    __int__, __float__, __complex__ = _refusal("int()"), _refusal("float()"), _refusal("complex()")
    __index__ = _refusal("use as an index")
    __str__, __format__ = _refusal("str()"), _refusal("formatting")
    __array__ = _refusal("conversion to an array of NumPy")

    def __iter__(self) -> Any:
        raise self.refused("iteration")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _numpy_name(function: Any) -> str:
    """A function's public NumPy name, without private modules.

    >>> _numpy_name(np.linalg.norm), _numpy_name(np.sort)
    ('np.linalg.norm', 'np.sort')
    """
    return f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)


Applied = Callable[..., Any]


def _truth(applied: Applied, operand: Any) -> Any:
    return applied("ne", operand, 0) if isinstance(operand, Arithmetic) else bool(operand)


def _logical(op: str) -> Callable[..., Any]:
    def composed(applied: Applied, lhs: Any, rhs: Any) -> Any:
        return applied(op, _truth(applied, lhs), _truth(applied, rhs))

    return composed


def _clip(
    applied: Applied,
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    *,
    min: Any = None,  # noqa: A002 - NumPy's names
    max: Any = None,  # noqa: A002
) -> Any:
    low, high = a_min if min is None else min, a_max if max is None else max
    raised = a if low is None else applied("max", a, low)
    return raised if high is None else applied("min", raised, high)


def _where(applied: Applied, condition: Any, x: Any, y: Any) -> Any:
    return applied("select", condition, x, y)


_MOST_DECIMALS = 308


def rounded(applied: Applied, a: Any, decimals: int = 0) -> Any:
    """Round half to even to `decimals` places, as NumPy does; integers stay integers."""
    is_whole = a.dtype.kind in "iu"
    if is_whole and decimals >= 0:
        return a
    if decimals == 0:
        return applied("rint", a)
    if abs(decimals) > _MOST_DECIMALS:
        raise TranslationError(f"decimals={shown(decimals)} are more than any number has")
    factor = 10.0 ** abs(decimals)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    found = applied(back, applied("rint", applied(there, a, factor)), factor)
    return found.astype(a.dtype) if is_whole else found


def _unary(op: str) -> Callable[..., Any]:
    def composed(applied: Applied, x: Any) -> Any:
        return applied(op, x)

    return composed


_OF_ONE: Mapping[np.ufunc, Callable[[Applied, Any], Any]] = {
    np.square: lambda applied, x: applied("mul", x, x),
    np.reciprocal: lambda applied, x: applied("div", 1, x),
    np.positive: lambda _, x: x,
    np.signbit: lambda applied, x: applied("lt", applied("copysign", 1.0, x), 0),
    **dict.fromkeys((np.degrees, np.rad2deg), lambda applied, x: applied("mul", x, 180 / np.pi)),
    **dict.fromkeys((np.radians, np.deg2rad), lambda applied, x: applied("mul", x, np.pi / 180)),
}
_OF_TWO: Mapping[np.ufunc, Callable[[Applied, Any, Any], Any]] = {
    np.logical_and: _logical("and"),
    np.logical_or: _logical("or"),
    np.logical_xor: _logical("xor"),
    np.divmod: lambda applied, x, y: (applied("floordiv", x, y), applied("mod", x, y)),
}
_COMPOSED_UFUNCS: Mapping[np.ufunc, Callable[..., Any]] = {**_OF_ONE, **_OF_TWO}
_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: rounded,
    np.around: rounded,
    np.real: _unary("real"),
    np.imag: _unary("imag"),
}
