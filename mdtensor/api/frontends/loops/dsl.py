"""The DSL: `out_view`, `md_hom`, `inp_view` (003, Listings 6 and 7; 002, Listing 42)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor.api.arrays.operands import Array, array_module, as_array, as_output, check_mask, holds
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.calls.program_calls import call
from mdtensor.api.frontends.loops.buffer_types import BufferType, dtype_of
from mdtensor.api.frontends.loops.mdh_parameters import spec_of_operand
from mdtensor.dataclass import dataclass
from mdtensor.errors import ArgumentError, DTypeError, ShapeError, TranslationError, count_of, shown
from mdtensor.specs import TensorSpec
from mdtensor.translate.loop_nests.loop_arguments import program_of
from mdtensor.translate.loops.loop_steps import copying
from mdtensor.translate.loops.md_hom_from_assignment import writes_all
from mdtensor.translate.loops.md_hom_from_views import Accesses, Views, md_hom_from_views
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program, Step
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.python.tuples import as_tuple


def f_mul(*elements: Any) -> Any:
    """The scalar function that multiplies all elements (003, Listing 6)."""
    product = elements[0]
    for element in elements[1:]:
        product = product * element
    return product


@dataclass(frozen=True)
class View:
    """The index functions and basic types of the buffers of a view."""

    kind: str
    dtypes: tuple[np.dtype, ...]
    accesses: Accesses


@dataclass(frozen=True)
class _ViewOf:
    """`inp_view[T, T](M=[lambda i, k: (i, k)], v=[lambda i, k: (k)])`: the accesses that are read.

    `out_view[T](w=[lambda i, k: (i)])` says so of what is written. A basic type for every buffer,
    and for every access of the buffer a function from indices to places; the types may be left
    out. Raises DTypeError for what is no type, TranslationError for another number of them.

    >>> from mdtensor.directive import fp64
    >>> inp_view[fp64](x=[lambda i: i, lambda i: i + 1]).dtypes
    (dtype('float64'),)
    """

    kind: str
    dtypes: tuple[np.dtype, ...] = ()

    __iter__ = None  # indexing it never ends

    def __getitem__(self, said: Any) -> _ViewOf:
        return _ViewOf(self.kind, tuple(map(dtype_of, as_tuple(said))))

    def __call__(self, accesses: Mapping[str, Any] | None = None, /, **named: Any) -> View:
        """A list of index functions for every buffer, by keyword or in a dict."""
        whole = {**(accesses or {}), **named}
        listed = tuple((name, as_tuple(given)) for name, given in whole.items())
        if self.dtypes and len(self.dtypes) != len(listed):
            raise TranslationError(
                f"{self.kind} names {count_of(len(self.dtypes), 'type', 'types')}"
                f" for {count_of(len(listed), 'buffer', 'buffers')}",
                hint=f"{self.kind}[T, T](a=…, b=…) has one type for each buffer",
            )
        return View(self.kind, self.dtypes, listed)


inp_view = _ViewOf("inp_view")
out_view = _ViewOf("out_view")


@dataclass(frozen=True)
class MdHom:
    """The `md_hom` of a program: its sizes, scalar function and operators."""

    extents: tuple[int, ...]
    function: Callable[..., Any]
    combinations: tuple[Combination, ...]


@dataclass(frozen=True)
class _MdHomOf:
    """`md_hom[I, K](f_mul, (cc, pw(add)))`: sizes, scalar function, an operator for every size.

    Raises DTypeError and ShapeError for what is no size, TranslationError for what is no operator.

    >>> from mdtensor.directive import add, cc, fp64, mdh, pw
    >>> def matvec(T, I, K):
    ...     @mdh()
    ...     def matvec__T_I_K():
    ...         return (
    ...             out_view[T](w=[lambda i, k: (i)]),
    ...             md_hom[I, K](f_mul, (cc, pw(add))),
    ...             inp_view[T, T](M=[lambda i, k: (i, k)], v=[lambda i, k: (k)]),
    ...         )
    ...     return matvec__T_I_K
    >>> matvec(fp64, 2, 3)(np.ones((2, 3)), np.arange(3.0))
    array([3., 3.])
    """

    extents: tuple[int, ...] = ()

    __iter__ = None  # indexing it never ends

    def __getitem__(self, said: Any) -> _MdHomOf:
        return _MdHomOf(tuple(map(_extent, as_tuple(said))))

    def __call__(
        self, function: Callable[..., Any], combinations: Combination | Sequence[Combination]
    ) -> MdHom:
        """The scalar function, and a combine operator for every size."""
        whole = as_tuple(combinations)
        for each in whole:
            if not isinstance(each, Combination):
                raise TranslationError(
                    f"{shown(each)} is no combine operator", hint="cc, pw(add), ps(add), …"
                )
        return MdHom(self.extents, function, whole)


def _extent(size: Any) -> int:
    try:
        extent = operator.index(size)
    except TypeError:
        raise DTypeError(f"{shown(size)} is no size of md_hom", hint="whole numbers") from None
    if extent < 0:
        raise ShapeError(f"{shown(extent)} is no size of md_hom", hint="whole numbers from 0 on")
    return extent


md_hom = _MdHomOf()


@dataclass(frozen=True)
class Dsl:
    """A program of `inp_view`, `md_hom` and `out_view`."""

    name: str
    function: Callable[..., Any]
    views: Views
    outputs: Mapping[str, BufferType]
    inputs: Mapping[str, BufferType]

    def __call__(self, *arrays: Any) -> Any:
        """Computes the outputs from the inputs; output arrays may be passed before the inputs.

        Elements that no access of `out_view` writes stay in arrays that are passed, and are 0 in
        new ones. Raises DTypeError and ShapeError for arrays that are not what was declared.
        """
        given, operands = self._split(arrays)
        xp = array_module(arrays)
        targets = [as_output(n, array, xp) for n, array in zip(self.outputs, given, strict=False)]
        for (name, declared), target in zip(self.outputs.items(), targets, strict=False):
            declared.check(name, spec_of_operand(target))
        held: list[Array] = []
        for (name, declared), array in zip(self.inputs.items(), operands, strict=True):
            check_mask(name, array)
            dtype = None if hasattr(array, "dtype") else declared.dtype
            held.append(as_array(name, array, xp, dtype))
            declared.check(name, spec_of_operand(held[-1]))

        shapes = tuple(tuple(target.shape) for target in targets)
        copied = _copied(targets, held, xp)

        def build(specs: tuple[TensorSpec, ...]) -> Program:
            count = len(self.inputs)
            found = self._md_hom(specs[:count], shapes)
            before = dict(zip(copied, specs[count:], strict=True)) if given else None
            return _on_operands(found, list(self.inputs), before)

        held += [targets[number] for number in copied]
        out = given if len(given) != 1 else given[0]
        return call((*self._key, shapes, copied), held, build, out if given else None)

    def md_hom(self, *arrays: Any) -> MDHom:
        """The `MDHom` for arrays of these layouts."""
        given, operands = self._split(arrays)
        specs = tuple(spec_of_operand(np.asarray(array)) for array in operands)
        return self._md_hom(specs, [tuple(array.shape) for array in given])

    def _split(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        count, more = len(self.inputs), len(self.outputs)
        if len(arrays) not in (count, count + more):
            raise ArgumentError(
                f"{self.name}() takes {count} inputs, or {more} outputs and {count} inputs,"
                f" not {len(arrays)} arrays"
            )
        cut = len(arrays) - count
        return tuple(arrays[:cut]), tuple(arrays[cut:])

    def _md_hom(self, specs: Sequence[TensorSpec], shapes: Sequence[tuple[int, ...]]) -> MDHom:
        outputs: dict[str, TensorSpec | np.dtype] = {}
        for position, (name, declared) in enumerate(self.outputs.items()):
            shape = shapes[position] if shapes else declared.shape
            outputs[name] = (
                declared.dtype if shape is None else TensorSpec.of(shape, declared.dtype)
            )
        source = program_of(self.function).source
        return md_hom_from_views(
            source, self.views, dict(zip(self.inputs, specs, strict=True)), outputs
        )

    @property
    def _key(self) -> tuple[Hashable, ...]:
        clauses = tuple((n, repr(t)) for n, t in (*self.outputs.items(), *self.inputs.items()))
        return "dsl", function_key(self.function), clauses


def dsl_of(
    said: Any,
    function: Callable[..., Any],
    outputs: Mapping[str, BufferType],
    inputs: Mapping[str, BufferType],
) -> Dsl:
    """The program that a function returns as (out_view, md_hom, inp_view), in any order.

    Types and sizes of buffers are those that clauses declare, or the views.
    """
    parts = as_tuple(said)
    by_kind = {part.kind: part for part in parts if isinstance(part, View)}
    middle = [part for part in parts if isinstance(part, MdHom)]
    if len(parts) != 3 or len(middle) != 1 or set(by_kind) != {"inp_view", "out_view"}:
        raise TranslationError(
            f"{function.__name__} returns no program",
            hint="return (out_view[…](…), md_hom[…](…), inp_view[…](…))",
        )
    out, inp = by_kind["out_view"], by_kind["inp_view"]
    views = Views(
        out.accesses, inp.accesses, middle[0].extents, middle[0].function, middle[0].combinations
    )
    return Dsl(function.__name__, function, views, _declared(out, outputs), _declared(inp, inputs))


def _declared(view: View, clauses: Mapping[str, BufferType]) -> dict[str, BufferType]:
    found: dict[str, BufferType] = {}
    for position, (name, _) in enumerate(view.accesses):
        if name in clauses:
            found[name] = clauses[name]
        elif view.dtypes:
            found[name] = BufferType(view.dtypes[position])
        else:
            raise TranslationError(f"the type of {name} is not declared", hint=f"{view.kind}[T](…)")
    return found


def _copied(targets: Sequence[Array], operands: Sequence[Array], xp: Any) -> tuple[int, ...]:
    """The indices of passed outputs that kernels cannot write directly."""
    found: list[int] = []
    for number, target in enumerate(targets):
        spec = TensorSpec.of(target.shape, target.dtype.newbyteorder("="))
        others = (*operands, *(other for other in targets if other is not target))
        if not holds(target, spec, others, xp):
            found.append(number)
    return tuple(found)


def _on_operands(
    found: MDHom, names: Sequence[str], before: Mapping[int, TensorSpec] | None
) -> Program:
    """A program of one step whose operands are all inputs, read by an access or not.

    `before` are the specs of passed outputs that are operands too, since what is written in part
    begins as a copy of them; None where no outputs are passed, and all begin as zeros.
    """
    count = len(names) + len(before or ())
    reads = tuple(names.index(buffer.name) for buffer in found.inputs)
    writes = tuple(range(count, count + len(found.outputs)))
    partial = [n for n, b in enumerate(found.outputs) if not writes_all(found, b.name)]
    copies = [
        Step(copying("before", spec, "after", found.outputs[n].spec).md_hom, (slot,), (writes[n],))
        for slot, (n, spec) in enumerate((before or {}).items(), len(names))
        if n in partial
    ]
    fills = tuple(0 if before is None and n in partial else None for n in range(len(found.outputs)))
    results = tuple(buffer.spec for buffer in found.outputs)
    return Program(count, results, (), (*copies, Step(found, reads, writes)), fills)
