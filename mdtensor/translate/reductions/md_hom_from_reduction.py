"""Reductions and scans by any functions and operators as `md_hom`s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, ShapeError, SubscriptError, TranslationError
from mdtensor.specs import TensorSpec, contiguous_strides
from mdtensor.translate.combine import (
    CC,
    PAIR_NAMES,
    Combine,
    Operator,
    Pointwise,
    PrefixSum,
    with_ascending_places,
)
from mdtensor.translate.einsum.index_space import IndexSpace, index_space
from mdtensor.translate.einsum.md_hom_from_einsum import buffers
from mdtensor.translate.einsum.subscripts import parse
from mdtensor.translate.einsum.views_from_index_space import affine_access, views_from_index_space
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.operators.combination import Combination
from mdtensor.translate.operators.combine_operators import operator_name, operator_of
from mdtensor.translate.operators.positions import Origin, operators_by_dim
from mdtensor.translate.python.expr_from_function import scalar_function
from mdtensor.translate.reductions.combinations_of_dims import (
    Said,
    combinations_of_dims,
    operator_names,
)
from mdtensor.translate.reductions.epilogues import epilogue_named
from mdtensor.translate.reductions.reduction_types import (
    asked_dtypes,
    brought,
    factors,
    floats_widened,
    held_dtype,
    natural_dtype,
)
from mdtensor.translate.scalar import F32, Expr, Number, const, equal, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction, factor
from mdtensor.translate.trees import all_substituted, dims_in, params_in
from mdtensor.translate.views import BufferAccess, BufferSpec

Function = Callable[..., Any]
_OF_EPILOGUES = (
    "an epilogue gets the results, then an element of each operand behind a semicolon:"
    " 'ij,jk->ik; k'"
)


@dataclass(frozen=True)
class Reduction:
    """The arguments of a reduction; see `mdtensor.reduce`.

    `scans` says that a dim of the output to which `combine` gives an operator is scanned by it.
    `counts` says that sums and products of booleans are counted in int64, as by `numpy.sum`;
    `order` is the memory order of the results, C or F. Without a function, elements are factors,
    which hardware may round to a `precision`.
    """

    text: str
    function: Function | None = None
    combine: Said = "add"
    identity: tuple[Number, ...] | None = None
    dtype: object = None
    acc_dtype: object = None
    extents: Mapping[str, int] = field(default_factory=dict[str, int])
    epilogue: Function | str | None = None
    scans: bool = False
    counts: bool = True
    order: str = "C"
    precision: str | None = None


def md_hom_from_reduction(reduction: Reduction, specs: Sequence[TensorSpec]) -> MDHom:
    """The `md_hom` of a reduction on operands of the given specs.

    The last dim is combined first, as the innermost loop of a nest is. A mapping of operators is
    applied in its order, so its first dim is the last one here; what has no order, or needs none,
    is ordered by the first use in the string.

    Raises SubscriptError where string and shapes do not fit, TranslationError where functions and
    operators do not fit them, DTypeError where types cannot be combined.

    >>> from mdtensor.translate.operators.combination import ps
    >>> a = TensorSpec.of((4, 3))
    >>> md_hom_from_reduction(Reduction("ij->i", combine={"j": "add", "i": ps("add")}), (a,))
    md_hom[i:4, j:3](id, (ps(add), pw(add)))
    """
    space = index_space(parse(reduction.text, extended=True), specs, reduction.extents)
    return md_hom_from_reduced_space(reduction, space, specs)


def md_hom_from_reduced_space(
    reduction: Reduction, space: IndexSpace, specs: Sequence[TensorSpec]
) -> MDHom:
    """The `md_hom` of a reduction whose string is resolved to an index space."""
    combinations = combinations_of_dims(
        reduction.combine, reduction.text, space, scans=reduction.scans
    )
    names = operator_names(combinations)
    if not names and operator_name(reduction.combine) in PAIR_NAMES:
        names = [operator_name(reduction.combine)]  # over no dims: the position is 0 everywhere
    is_place = reduction.function is None and not set(PAIR_NAMES).isdisjoint(names)
    place = _place(space, combinations) if is_place else None
    view = views_from_index_space(space, specs)
    elements = _elements(space, view, specs)
    results, dtypes = _combined(reduction, space, elements, names, place)
    held = tuple(result.dtype for result in results)
    found = _in_c_order(space, combinations) if is_place else None
    epilogue, stored = _epilogue(reduction, space, specs, dtypes, held, found)
    return MDHom(
        _dims(space, combinations, results, reduction, view, is_place=is_place),
        ScalarFunction(
            tuple(specs[access.buffer].dtype for access in view),
            results,
            _name(reduction, elements),
        ),
        buffers(specs),
        _outputs(space, stored, reduction.order),
        view,
        tuple(BufferAccess.at(n, space.output) for n in range(len(stored))),
        epilogue,
    )


def _combined(
    reduction: Reduction,
    space: IndexSpace,
    elements: Sequence[Expr],
    names: Sequence[str | None],
    place: Expr | None,
) -> tuple[tuple[Expr, ...], tuple[np.dtype, ...]]:
    """The results to be combined, and the types in which they are stored.

    The function is applied twice: to the elements as they are, which tells NumPy's types, and to
    elements in the types in which the results are combined.
    """
    natural = [value.dtype for value in _results(reduction, space, elements, place)]
    finds_places = not set(PAIR_NAMES).isdisjoint(names)
    dtypes = tuple(
        d if finds_places and n else natural_dtype(d, names, counts=reduction.counts)
        for n, d in enumerate(natural)
    )
    is_asked = reduction.dtype is not None and place is None
    if is_asked:
        dtypes = asked_dtypes(reduction.dtype, len(natural))
    is_finished = reduction.epilogue is None
    held = tuple(held_dtype(dtype, names, is_finished=is_finished) for dtype in dtypes)
    if reduction.acc_dtype is not None:
        held = asked_dtypes(reduction.acc_dtype, len(dtypes))
    if reduction.function is None:
        elements = factors(elements, dtypes[0] if is_asked else None, held[0])
        precision = reduction.precision if len(elements) > 1 and held[0] == F32 else None
        elements = [factor(element, precision) for element in elements]
    else:
        elements = floats_widened(elements, held[0])
    computed = _results(reduction, space, elements, place)
    results = tuple(
        brought(value, dtype, to) for value, dtype, to in zip(computed, dtypes, held, strict=True)
    )
    return results, dtypes


def _outputs(space: IndexSpace, dtypes: Sequence[np.dtype], order: str) -> tuple[BufferSpec, ...]:
    shape = [space.extents[name] for name in space.output]
    strides = contiguous_strides(shape)
    if order == "F":
        strides = contiguous_strides(shape[::-1])[::-1]
    names = ["out"] if len(dtypes) == 1 else [f"out{n}" for n in range(len(dtypes))]
    return tuple(
        BufferSpec(name, TensorSpec.of(shape, dtype, strides))
        for name, dtype in zip(names, dtypes, strict=True)
    )


def _elements(
    space: IndexSpace, view: Sequence[BufferAccess], specs: Sequence[TensorSpec]
) -> list[Expr]:
    """The elements that the function takes, in operand order; index operands are excluded."""
    positions = {access.buffer: position for position, access in enumerate(view)}
    return [
        param(positions[number], specs[number].dtype)
        for number in range(len(view))
        if number not in space.index_operands
    ]


def _results(
    reduction: Reduction, space: IndexSpace, elements: Sequence[Expr], place: Expr | None
) -> tuple[Expr, ...]:
    """The results of the function or product on elements, with `place` appended if given."""
    if reduction.function is not None:
        return _traced(reduction.function, elements, space.extents)
    if not elements:
        raise TranslationError("there are no elements to multiply", hint="give f")
    value = elements[0]
    for element in elements[1:]:
        value = value * element
    return (value,) if place is None else (value, place)


def _place(space: IndexSpace, combinations: Mapping[str, Combination]) -> Expr:
    """The position of a point among those it is compared with; the last dim is fastest.

    Dims are in the order of the `md_hom`: in a tie, the first place among those of the dims that
    are combined last wins.
    """
    place: Expr | None = None
    for name in _places(combinations):
        if space.extents[name] == 0:
            raise ShapeError(
                f"{operator_name(combinations[name].operator)} of no elements:"
                f" dim {name!r} is empty",
                hint="an f that returns (value, index) gives the operator's identity",
            )
        index = index_of(name)
        place = index if place is None else place * space.extents[name] + index
    return const(0, np.int64) if place is None else place


def _places(combinations: Mapping[str, Combination]) -> list[str]:
    """The dims that are combined by argmin or argmax."""
    operators = {name: said.operator for name, said in combinations.items() if said.kind != "cc"}
    return [name for name, said in operators.items() if operator_name(said) in PAIR_NAMES]


def _in_c_order(
    space: IndexSpace, combinations: Mapping[str, Combination]
) -> Callable[[Expr], Expr]:
    """A function from positions as in `_place` to flat positions in C order.

    The position is 0 where no element was better than the operator's identity.
    """
    counted = _places(combinations)
    wanted = [name for name in space.extents if name in counted]

    def found(place: Expr) -> Expr:
        if place.dtype.kind not in "iu":
            raise DTypeError(
                f"positions are integers, not {place.dtype}", hint="leave dtype and acc_dtype out"
            )
        nowhere = const(int(np.iinfo(place.dtype).max), place.dtype)
        place = select(equal(place, nowhere), const(0, place.dtype), place)
        if counted == wanted:
            return place
        digits: dict[str, Expr] = {}
        for name in reversed(counted):
            digits[name], place = place % space.extents[name], place // space.extents[name]
        flat = digits[wanted[0]]
        for name in wanted[1:]:
            flat = flat * space.extents[name] + digits[name]
        return flat

    return found


def _traced(
    function: Function, elements: Sequence[Expr], dims: Iterable[str], **hint: str
) -> tuple[Expr, ...]:
    """Trace a function on elements; its keyword-only parameters are indices."""
    types = [element.dtype for element in elements]
    scalar = scalar_function(function, types, indices={name: name for name in dims}, **hint)
    return all_substituted(scalar.results, elements)


def _dims(
    space: IndexSpace,
    combinations: Mapping[str, Combination],
    results: Sequence[Expr],
    reduction: Reduction,
    view: Sequence[BufferAccess],
    *,
    is_place: bool,
) -> tuple[Dim, ...]:
    def make(said: Combination, dtypes: Sequence[np.dtype]) -> Operator:
        operator = operator_of(said.operator, dtypes, reduction.identity)
        is_ascending = is_place and operator.name in PAIR_NAMES
        return with_ascending_places(operator) if is_ascending else operator

    held = [result.dtype for result in results]
    origins = [_origin(result, view) for result in results]
    operators = operators_by_dim(combinations, held, origins, make, is_place=is_place)

    def combine(name: str, said: Combination) -> Combine:
        if said.kind == "cc":
            return CC
        return (Pointwise if said.kind == "pw" else PrefixSum)(operators[name])

    return tuple(
        Dim(name, space.extents[name], combine(name, said)) for name, said in combinations.items()
    )


def _origin(result: Expr, view: Sequence[BufferAccess]) -> Origin:
    read = [dim for n in params_in(result) for dim in _dims_read(view, n)]
    dims = dims_in(result)
    return Origin(frozenset((*dims, *read)), bool(dims) and not params_in(result))


def _dims_read(view: Sequence[BufferAccess], position: int) -> list[str]:
    """The dims that an element depends on, also by way of computed indices."""
    access = view[position]
    return [*access.dims, *(dim for n in access.elements for dim in _dims_read(view, n))]


def _name(reduction: Reduction, elements: Sequence[Expr]) -> str:
    if reduction.function is not None:
        return _shown(reduction.function, "f")
    return "mul" if len(elements) > 1 else "id"


def _shown(function: Function, otherwise: str) -> str:
    return getattr(function, "__name__", otherwise).replace("<lambda>", otherwise)


def _epilogue(
    reduction: Reduction,
    space: IndexSpace,
    specs: Sequence[TensorSpec],
    dtypes: tuple[np.dtype, ...],
    held: tuple[np.dtype, ...],
    found: Callable[[Expr], Expr] | None,
) -> tuple[Epilogue | None, tuple[np.dtype, ...]]:
    """The epilogue, and the types of the stored results.

    Where places are wanted, `found` makes the positions of them that are stored. The function is
    traced on the results' own types first, which tells the types that NumPy would give; what
    computes takes tuples as they were combined.
    """
    if reduction.epilogue is None and space.finish:
        raise SubscriptError(
            "operands stand after the semicolon, but there is no epilogue",
            text=reduction.text,
            carets=(reduction.text.index(";"),),
            hint="epilogue='bias' adds one; any function of result and operands can be given",
        )
    if reduction.epilogue is None and found is None:
        return None, dtypes
    count = len(space.inputs)
    view = tuple(affine_access(count + n, axes) for n, axes in enumerate(space.finish))
    read = [specs[access.buffer].dtype for access in view]
    function = epilogue_named(reduction.epilogue)
    # The values that led to places are dropped.
    first = 0 if found is None else 1

    def finished(types: Sequence[np.dtype]) -> tuple[Expr, ...]:
        results = [param(n, dtype) for n, dtype in enumerate(types)][first:]
        if found is not None:
            results = [found(place) for place in results]
        extra = [param(len(types) + n, dtype) for n, dtype in enumerate(read)]
        if function is None:
            return tuple(results)
        given = [*results, *floats_widened(extra, types[first])]
        return _traced(function, given, space.output, hint=_OF_EPILOGUES)

    stored = tuple(value.dtype for value in finished(dtypes))
    if reduction.dtype is not None and function is not None:
        stored = asked_dtypes(reduction.dtype, len(stored))
    name = "index" if function is None else _shown(function, "epilogue")
    scalar = ScalarFunction((*held, *read), finished(held), name)
    return Epilogue(scalar, view), stored
