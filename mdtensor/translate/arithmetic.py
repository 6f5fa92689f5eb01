"""Python's operators and NumPy's functions on symbolic values, by one method each class defines."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, Self, TypeVar

import numpy as np

from mdtensor.errors import TranslationError, shown
from mdtensor.translate.operations import UFUNCS

Result_co = TypeVar("Result_co", covariant=True)


class Arithmetic(ABC, Generic[Result_co]):
    """Gives a class all of Python's arithmetic; `applied(op, *operands)` makes the result.

    `==` and `!=` are left alone, since they say whether two symbolic values are the same one.
    """

    __slots__ = ()

    @abstractmethod
    def applied(self, op: str, *operands: Any) -> Result_co:
        """The symbolic value of an operation of `translate.operations` on operands."""

    def __add__(self, other: object) -> Result_co:
        return self.applied("add", self, other)

    def __radd__(self, other: object) -> Result_co:
        return self.applied("add", other, self)

    def __sub__(self, other: object) -> Result_co:
        return self.applied("sub", self, other)

    def __rsub__(self, other: object) -> Result_co:
        return self.applied("sub", other, self)

    def __mul__(self, other: object) -> Result_co:
        return self.applied("mul", self, other)

    def __rmul__(self, other: object) -> Result_co:
        return self.applied("mul", other, self)

    def __truediv__(self, other: object) -> Result_co:
        return self.applied("div", self, other)

    def __rtruediv__(self, other: object) -> Result_co:
        return self.applied("div", other, self)

    def __floordiv__(self, other: object) -> Result_co:
        return self.applied("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Result_co:
        return self.applied("floordiv", other, self)

    def __mod__(self, other: object) -> Result_co:
        return self.applied("mod", self, other)

    def __rmod__(self, other: object) -> Result_co:
        return self.applied("mod", other, self)

    def __divmod__(self, other: object) -> tuple[Result_co, Result_co]:
        return self.applied("floordiv", self, other), self.applied("mod", self, other)

    def __rdivmod__(self, other: object) -> tuple[Result_co, Result_co]:
        return self.applied("floordiv", other, self), self.applied("mod", other, self)

    def __pow__(self, other: object) -> Result_co:
        return self.applied("pow", self, other)

    def __rpow__(self, other: object) -> Result_co:
        return self.applied("pow", other, self)

    def __and__(self, other: object) -> Result_co:
        return self.applied("and", self, other)

    def __rand__(self, other: object) -> Result_co:
        return self.applied("and", other, self)

    def __or__(self, other: object) -> Result_co:
        return self.applied("or", self, other)

    def __ror__(self, other: object) -> Result_co:
        return self.applied("or", other, self)

    def __xor__(self, other: object) -> Result_co:
        return self.applied("xor", self, other)

    def __rxor__(self, other: object) -> Result_co:
        return self.applied("xor", other, self)

    def __lshift__(self, other: object) -> Result_co:
        return self.applied("lshift", self, other)

    def __rlshift__(self, other: object) -> Result_co:
        return self.applied("lshift", other, self)

    def __rshift__(self, other: object) -> Result_co:
        return self.applied("rshift", self, other)

    def __rrshift__(self, other: object) -> Result_co:
        return self.applied("rshift", other, self)

    def __neg__(self) -> Result_co:
        return self.applied("neg", self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Result_co:
        return self.applied("abs", self)

    def __invert__(self) -> Result_co:
        return self.applied("invert", self)

    def __floor__(self) -> Result_co:
        return self.applied("floor", self)

    def __ceil__(self) -> Result_co:
        return self.applied("ceil", self)

    def __trunc__(self) -> Result_co:
        return self.applied("trunc", self)

    def __lt__(self, other: object) -> Result_co:
        return self.applied("lt", self, other)

    def __le__(self, other: object) -> Result_co:
        return self.applied("le", self, other)

    def __gt__(self, other: object) -> Result_co:
        return self.applied("gt", self, other)

    def __ge__(self, other: object) -> Result_co:
        return self.applied("ge", self, other)

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


class Aggregate(Arithmetic[NoReturn]):
    """A traced aggregate (a record, an array, a string), for which Python's defaults mean nothing.

    By default Python compares objects by identity, takes each for true, and finds it in sets and
    dicts by its address. All that, and arithmetic, is refused unless a class says what it means.
    """

    __slots__ = ()

    @abstractmethod
    def refused(self, what: str) -> TranslationError:
        """The error of an operation without a meaning, of which `what` is the name."""

    def equals(self, other: object) -> Any:
        """Whether both have the same elements, as an expression; refused by default."""
        raise self.refused("a comparison")

    def applied(self, op: str, *operands: Any) -> NoReturn:
        """Refuses arithmetic."""
        raise self.refused(f"operation {op!r}")

    def __eq__(self, other: object) -> Any:
        return self.equals(other)

    def __ne__(self, other: object) -> Any:
        equals = self.equals(other)
        return not equals if isinstance(equals, bool) else equals.applied("not", equals)

    def __hash__(self) -> int:
        raise self.refused("a search in a set or a dict")

    def __bool__(self) -> bool:
        raise self.refused("a condition")

    def __iter__(self) -> Any:
        raise self.refused("iteration")

    def __int__(self) -> int:
        raise self.refused("int()")

    def __float__(self) -> float:
        raise self.refused("float()")

    def __complex__(self) -> complex:
        raise self.refused("complex()")

    def __index__(self) -> int:
        raise self.refused("use as an index")

    def __str__(self) -> str:
        raise self.refused("str()")

    def __format__(self, spec: str) -> str:
        raise self.refused("formatting")

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise self.refused("conversion to an array of NumPy")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def _numpy_name(function: Any) -> str:
    """As users write it, also where it lies in a module inside of NumPy.

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
    """Rounded half to even, to so many decimals, as NumPy does it; integers stay integers."""
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


def _scaled(factor: float) -> Callable[..., Any]:
    def composed(applied: Applied, x: Any) -> Any:
        return applied("mul", x, factor)

    return composed


def _unary(op: str) -> Callable[..., Any]:
    def composed(applied: Applied, x: Any) -> Any:
        return applied(op, x)

    return composed


def _square(applied: Applied, x: Any) -> Any:
    return applied("mul", x, x)


def _reciprocal(applied: Applied, x: Any) -> Any:
    return applied("div", 1, x)


def _itself(applied: Applied, x: Any) -> Any:
    return x


def _divmod(applied: Applied, x: Any, y: Any) -> tuple[Any, Any]:
    return applied("floordiv", x, y), applied("mod", x, y)


def _signbit(applied: Applied, x: Any) -> Any:
    return applied("lt", applied("copysign", 1.0, x), 0)


_COMPOSED_UFUNCS: Mapping[np.ufunc, Callable[..., Any]] = {
    np.logical_and: _logical("and"),
    np.logical_or: _logical("or"),
    np.logical_xor: _logical("xor"),
    np.square: _square,
    np.reciprocal: _reciprocal,
    np.positive: _itself,
    np.divmod: _divmod,
    np.signbit: _signbit,
    np.degrees: _scaled(180 / np.pi),
    np.rad2deg: _scaled(180 / np.pi),
    np.radians: _scaled(np.pi / 180),
    np.deg2rad: _scaled(np.pi / 180),
}
_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.round: rounded,
    np.around: rounded,
    np.real: _unary("real"),
    np.imag: _unary("imag"),
}
