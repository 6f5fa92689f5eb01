"""Reductions of records as reductions of columns, one operand per number that is read."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, FieldError
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.index_space import index_space
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.operators.named_values import by_name, in_order
from mdtensor.translate.python.expr_from_function import no_function, scalar_function, traced
from mdtensor.translate.records.columns import Column, column_dtype, part_dtype
from mdtensor.translate.records.records import RecordOperand, has_parts, symbol_of
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction
from mdtensor.translate.scalar import Expr, param
from mdtensor.translate.trees import params_in

Columns = tuple[Column, ...]
WORTH_COPIES = 8
"""Reads of each element from which contiguous columns repay the copy."""
WORTH_CODES = 512
"""Comparisons of each string from which codes repay their making."""


@dataclass(frozen=True)
class RecordReduction:
    """A reduction rewritten on columns of its operands.

    `columns` are those of every operand, the operand itself where it holds numbers. `apart` says
    of which operands columns are read so often that they should be contiguous. `names` are those
    of the results' fields, None where the function returns no fields.
    """

    reduction: Reduction
    columns: tuple[Columns, ...]
    apart: tuple[bool, ...]
    names: tuple[str, ...] | None


def reduction_of_records(
    reduction: Reduction,
    specs: Sequence[TensorSpec],
    result: np.dtype | None = None,
    *,
    coded: bool = True,
) -> RecordReduction:
    """Rewrite a reduction on the columns of record and string operands.

    `coded` says whether strings that are compared often may become codes, which NumPy makes.

    `result` is a structured type for the results. Its fields are the elements of the tuple that
    `f` returns, or of the dict, by name; operators have them by name, too.

    Raises FieldError and ProgramError for wrong uses of records, SubscriptError where the string
    does not fit the operands.

    >>> people = TensorSpec.of((9,), [("id", "i8"), ("name", "S8")])
    >>> asked = Reduction("i,j->i", lambda a, b: a["id"] == b["id"], "or")
    >>> found = reduction_of_records(asked, (people, people))
    >>> found.reduction.text, [column.path for column in found.columns[0]]
    ('i,j->i', [('id',)])
    """
    space = index_space(parse(reduction.text, extended=True), specs, reduction.extents)
    _check_plain(reduction, specs, space.index_operands, len(space.inputs))
    elements = [n for n in range(len(space.inputs)) if n not in space.index_operands]
    points = math.prod(space.extents.values())
    encoded = coded and points >= WORTH_CODES * max((spec.size for spec in specs), default=1)
    columns: dict[int, Columns] = {}
    names = None if result is None else result.names
    if reduction.function is not None:
        operands = tuple((n, specs[n].dtype) for n in elements)
        probe = _Probe(reduction.function, operands, names, encoded)
        indices = {name: name for name in space.extents}
        scalar_function(probe, [np.uint8] * len(elements), indices=indices, name=probe.__name__)
        names, columns = probe.names, probe.columns()
    listed = tuple(columns.get(n, (Column(),)) for n in range(len(specs)))
    function = reduction.function
    if function is not None:
        parts = tuple((n, specs[n].dtype, listed[n]) for n in elements)
        function = _OnColumns(function, parts, names, encoded)
    changed = replace(
        reduction,
        text=_repeated(reduction.text, [len(part) for part in listed]),
        function=function,
        combine=reduction.combine if names is None else by_name(reduction.combine, names),
        dtype=reduction.dtype if result is None else _dtypes_of(result),
    )
    apart = tuple(points >= WORTH_COPIES * spec.size for spec in specs)
    return RecordReduction(changed, listed, apart, names)


def _check_plain(
    reduction: Reduction, specs: Sequence[TensorSpec], index_operands: Any, count: int
) -> None:
    for number, spec in enumerate(specs):
        if not has_parts(spec.dtype):
            continue
        if number in index_operands or number >= count:
            raise FieldError(
                f"operand {number} has elements of type {spec.dtype}, not numbers",
                hint="take one of its fields, for example operand['field']",
            )
        if reduction.function is None:
            raise FieldError(
                f"elements of operand {number} ({_kind(spec.dtype)}) cannot be multiplied",
                hint="f says what is computed from them: f=lambda r: r['field']",
            )


def _kind(dtype: np.dtype) -> str:
    return "records" if dtype.names else "strings"


def _dtypes_of(result: np.dtype) -> tuple[np.dtype, ...]:
    for name in result.names or ():
        if result[name].kind not in "biufc" or result[name].shape:
            raise DTypeError(
                f"field {name!r} of the result is {result[name]}; results are single numbers",
                hint="compute the index of an element, and take its fields afterwards",
            )
    return tuple(result[name] for name in result.names or ())


def _repeated(text: str, counts: Sequence[int]) -> str:
    """Repeat the string's terms once per column; `@n` is renumbered."""
    starts = [0, *itertools.accumulate(counts)]
    head, arrow, tail = text.partition("->")
    output, semicolon, finish = tail.partition(";")
    terms = head.split(",")
    after = finish.split(",") if semicolon else []
    repeated = [[term] * count for term, count in zip((*terms, *after), counts, strict=True)]
    head = ",".join(itertools.chain.from_iterable(repeated[: len(terms)]))
    finish = ",".join(itertools.chain.from_iterable(repeated[len(terms) :]))
    head = re.sub(r"@(\d+)", lambda match: f"@{starts[int(match[1])]}", head)
    return head + arrow + output + semicolon + finish


class _Probe:
    """Traces a function on records to find the columns that its results depend on."""

    def __init__(
        self,
        function: Callable[..., Any],
        operands: Sequence[tuple[int, np.dtype]],
        names: tuple[str, ...] | None,
        encoded: bool,
    ) -> None:
        self.names = names
        self.__name__ = getattr(function, "__name__", "f")
        if not callable(function):
            raise no_function(function)
        with contextlib.suppress(TypeError, ValueError):  # what is no function of Python's
            self.__signature__ = inspect.signature(function)
        self._function = function
        self._operands = operands
        self._encoded = encoded
        self._read: dict[tuple[int, Column], int] = {}
        self._used: set[int] = set()

    def __call__(self, *elements: Expr, **indices: Expr) -> int:
        symbols = [self._symbol(number, dtype) for number, dtype in self._operands]
        self.names, results = in_order(traced(self._function, *symbols, **indices), self.names)
        for value in results:
            if isinstance(value, Expr):
                self._used |= set(params_in(value))
        return 0

    def _symbol(self, number: int, dtype: np.dtype) -> Any:
        def read(column: Column) -> Expr:
            position = self._read.setdefault((number, column), len(self._read))
            return param(position, column_dtype(dtype, column))

        return symbol_of(dtype, RecordOperand(number, read, self._encoded))

    def columns(self) -> dict[int, Columns]:
        """The columns used of every operand; at least one each, to keep its shape."""
        found: dict[int, list[Column]] = {number: [] for number, _ in self._operands}
        for (number, column), position in self._read.items():
            if position in self._used:
                found[number].append(column)
        dtypes = dict(self._operands)
        return {n: tuple(c) or (_smallest(dtypes[n]),) for n, c in found.items()}


def _smallest(dtype: np.dtype) -> Column:
    """An arbitrary column: the first one."""
    path: list[str | int] = []
    while dtype.names or dtype.subdtype:
        step = dtype.names[0] if dtype.names else 0
        path.append(step)
        dtype = part_dtype(dtype, step)
    return Column(tuple(path), 0 if dtype.kind in "SU" else None)


@dataclass(frozen=True)
class _OnColumns:
    """Adapts a function of records to columns; `parts` are number, type and columns per operand."""

    function: Callable[..., Any]
    parts: tuple[tuple[int, np.dtype, Columns], ...]
    names: tuple[str, ...] | None
    encoded: bool

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "f")

    @property
    def __signature__(self) -> inspect.Signature:
        parameters = inspect.signature(self.function).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        every = inspect.Parameter("elements", inspect.Parameter.VAR_POSITIONAL)
        return inspect.Signature([every, *keywords])

    def __call__(self, *elements: Expr, **indices: Expr) -> tuple[Any, ...]:
        given = iter(elements)
        symbols: list[Any] = []
        for number, dtype, columns in self.parts:
            # A column that no result depends on is not read; any parameter stands for it.
            values = {column: next(given) for column in columns}
            value = partial(_value, values, dtype)
            symbols.append(symbol_of(dtype, RecordOperand(number, value, self.encoded)))
        _, results = in_order(traced(self.function, *symbols, **indices), self.names)
        return results


def _value(values: Mapping[Column, Expr], dtype: np.dtype, column: Column) -> Expr:
    return values.get(column, param(0, column_dtype(dtype, column)))
