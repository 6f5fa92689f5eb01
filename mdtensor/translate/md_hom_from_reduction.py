"""From a reduction or a scan to an `md_hom`: any function of elements, any operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdtensor.errors import DTypeError, ShapeError, SubscriptError, TranslationError
from mdtensor.specs import TensorSpec, contiguous_strides
from mdtensor.translate.combination import Combination, cc, ps, pw
from mdtensor.translate.combine import CC, PAIR_NAMES, Combine, Pointwise, PrefixSum
from mdtensor.translate.epilogues import epilogue_named
from mdtensor.translate.index_space import IndexSpace, index_space
from mdtensor.translate.md_hom import Dim, Epilogue, MDHom
from mdtensor.translate.md_hom_from_einsum import accumulation_dtype, buffers
from mdtensor.translate.operators import operator_name, operator_of
from mdtensor.translate.python_source import scalar_function
from mdtensor.translate.scalar import (
    BOOL,
    I64,
    Expr,
    Number,
    ScalarFunction,
    cast,
    index_of,
    param,
    substitute,
)
from mdtensor.translate.subscripts import Subscripts, count_of, parse
from mdtensor.translate.views import Access, AffineIndex, Buffer
from mdtensor.translate.views_from_index_space import affine_access, views_from_index_space

Function = Callable[..., Any]
# A name, a function or an Operator for all dims, or one (or a Combination) for each of some dims.
Said = Any


@dataclass(frozen=True)
class Reduction:
    """What a front end was told; see `mdtensor.reduce`.

    `scans` says that a dim of the output to which `combine` gives an operator is scanned by it.
    `counts` says that sums and products of booleans are counted in int64, as by `numpy.sum`;
    `order` is the memory order of the results, C or F.
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


def md_hom_from_reduction(reduction: Reduction, specs: Sequence[TensorSpec]) -> MDHom:
    """The `md_hom` of a reduction on operands of the given specs.

    Dims are ordered by their first use in the string; where several operators combine several
    dims, the last dim is combined first, as the innermost loop of a nest is.

    Raises SubscriptError where string and shapes do not fit, TranslationError where functions and
    operators do not fit them, DTypeError where types cannot be combined.

    >>> a = TensorSpec.of((4, 3))
    >>> md_hom_from_reduction(Reduction("ij->i", combine={"j": "add", "i": ps("add")}), (a,))
    md_hom[i:4, j:3](id, (ps(add), pw(add)))
    """
    subscripts = parse(reduction.text, extended=True)
    space = index_space(subscripts, specs, reduction.extents)
    combinations = _combinations(reduction, subscripts, space)
    view = views_from_index_space(space, specs)
    elements = _elements(space, view, specs)
    read = [specs[access.buffer].dtype for access in view]
    argument = _is_argument(reduction, combinations)
    if argument:
        _check_arguments(space, combinations)
    natural = _results(reduction, space, elements, argument)
    dtypes = _result_dtypes(reduction, natural, combinations)
    held = _held_dtypes(reduction, dtypes, combinations)
    if reduction.function is None:
        elements = _factors(reduction, elements, dtypes[0], held[0])
    else:
        elements = _floats_widened(elements, held[0])
    computed = _results(reduction, space, elements, argument)
    results = tuple(
        _brought(value, dtype, to) for value, dtype, to in zip(computed, dtypes, held, strict=True)
    )
    epilogue, stored = _epilogue(reduction, space, specs, dtypes, held, argument)
    return MDHom(
        _dims(space, combinations, held, reduction),
        ScalarFunction(tuple(read), results, _name(reduction, elements)),
        buffers(specs),
        _outputs(space, stored, reduction.order),
        view,
        tuple(
            Access(n, tuple(AffineIndex.of(d) for d in space.output)) for n in range(len(stored))
        ),
        epilogue,
    )


def _outputs(space: IndexSpace, dtypes: Sequence[np.dtype], order: str) -> tuple[Buffer, ...]:
    shape = [space.extents[name] for name in space.output]
    strides = contiguous_strides(shape)
    if order == "F":
        strides = contiguous_strides(shape[::-1])[::-1]
    names = ["out"] if len(dtypes) == 1 else [f"out{n}" for n in range(len(dtypes))]
    return tuple(
        Buffer(name, TensorSpec.of(shape, dtype, strides))
        for name, dtype in zip(names, dtypes, strict=True)
    )


def _combinations(
    reduction: Reduction, subscripts: Subscripts, space: IndexSpace
) -> dict[str, Combination]:
    """How every dim is combined."""
    said = reduction.combine
    if not isinstance(said, Mapping):
        if reduction.scans:
            said = {_only_dim(subscripts, space): said}
        else:
            return {d: cc if d in space.output else pw(said) for d in space.extents}
    by_dim: Mapping[str, object] = dict(said)  # pyright: ignore[reportUnknownArgumentType]
    for name in by_dim:
        if name not in space.extents:
            raise SubscriptError(
                f"combine names dim {name!r}, which the string does not have",
                text=reduction.text,
                hint=f"its dims are {', '.join(map(repr, space.extents))}",
            )
    return {
        name: _combination(reduction, name, by_dim.get(name), name in space.output)
        for name in space.extents
    }


def _only_dim(subscripts: Subscripts, space: IndexSpace) -> str:
    if len(space.output) == 1:
        return space.output[0]
    raise SubscriptError(
        "several dims could be scanned" if space.output else "no dim is left to be scanned",
        text=subscripts.text,
        carets=[index.column for index in subscripts.output or ()],
        hint=f"say which: combine={{{space.output[-1]!r}: …}}"
        if space.output
        else "the output names the dims that stay",
    )


def _combination(reduction: Reduction, name: str, said: object, stays: bool) -> Combination:
    """How one dim is combined; `said` is None where nothing was said of it."""
    if said is None or said in ("cc", cc):
        if stays:
            return cc
        raise SubscriptError(
            f"dim {name!r} is not in the output, but no operator combines it",
            text=reduction.text,
            hint=f"combine={{{name!r}: 'add', …}}, or let the output have it",
        )
    if not isinstance(said, Combination):
        said = ps(said) if stays and reduction.scans else pw(said)
    if stays and said.kind == "pw":
        raise SubscriptError(
            f"dim {name!r} is in the output, but {said!r} would reduce it",
            text=reduction.text,
            hint=f"leave it out of the output, or scan it: combine={{{name!r}: ps(…)}}",
        )
    if not stays and said.kind == "ps":
        raise SubscriptError(
            f"dim {name!r} is scanned by {said!r}, but the output does not have it",
            text=reduction.text,
            hint="a scan keeps its dim",
        )
    return said


def _elements(space: IndexSpace, view: Sequence[Access], specs: Sequence[TensorSpec]) -> list[Expr]:
    """What the operands give to the function, in their order; not those that are indices."""
    positions = {access.buffer: position for position, access in enumerate(view)}
    return [
        param(positions[number], specs[number].dtype)
        for number in range(len(view))
        if number not in space.index_operands
    ]


def _is_argument(reduction: Reduction, combinations: Mapping[str, Combination]) -> bool:
    """Whether the values of indices are to be added to the elements, and alone come back."""
    if reduction.function is not None:
        return False
    names = _names(combinations)
    return bool(names) and all(name in PAIR_NAMES for name in names)


def _names(combinations: Mapping[str, Combination]) -> list[str | None]:
    """Names of the operators, None of those that have none."""
    return [operator_name(c.operator) for c in combinations.values() if c.kind != "cc"]


def _check_arguments(space: IndexSpace, combinations: Mapping[str, Combination]) -> None:
    for name, said in combinations.items():
        if said.kind != "cc" and space.extents[name] == 0:
            raise ShapeError(
                f"{operator_name(said.operator)} of no elements: dim {name!r} is empty",
                hint="an f that returns (value, index) gives the operator's identity",
            )


def _results(
    reduction: Reduction, space: IndexSpace, elements: Sequence[Expr], argument: bool
) -> tuple[Expr, ...]:
    """The function's results on elements."""
    if reduction.function is not None:
        return _traced(reduction.function, elements, space.extents)
    if not elements:
        raise TranslationError("there are no elements to multiply", hint="give f")
    value = elements[0]
    for element in elements[1:]:
        value = value * element
    return (value, _flat_index(space)) if argument else (value,)


def _flat_index(space: IndexSpace) -> Expr:
    """The position among all elements of the dims that are not concatenated, in C order."""
    names = [name for name in space.extents if name not in space.output] or list(space.output)
    flat = index_of(names[0])
    for name in names[1:]:
        flat = flat * space.extents[name] + index_of(name)
    return flat


def _traced(function: Function, elements: Sequence[Expr], dims: Iterable[str]) -> tuple[Expr, ...]:
    """What a function returns for elements; its keyword-only parameters are values of indices."""
    types = [element.dtype for element in elements]
    scalar = scalar_function(function, types, indices={name: name for name in dims})
    return tuple(substitute(result, elements) for result in scalar.results)


def _result_dtypes(
    reduction: Reduction, natural: Sequence[Expr], combinations: Mapping[str, Combination]
) -> tuple[np.dtype, ...]:
    """Types of the combined tuple as it is stored: NumPy's, or those that were asked for."""
    if reduction.dtype is not None and not _is_argument(reduction, combinations):
        return _asked(reduction.dtype, len(natural))
    names = _names(combinations)
    counts = reduction.counts and any(name in ("add", "mul") for name in names)
    floats = "logaddexp" in names
    return tuple(_natural_dtype(value.dtype, counts, floats) for value in natural)


def _natural_dtype(dtype: np.dtype, counts: bool, floats: bool) -> np.dtype:
    if floats and dtype.kind in "biu":
        return np.result_type(dtype, np.float16) if dtype.itemsize < 4 else np.dtype(np.float64)
    return I64 if counts and dtype == BOOL else dtype


def _asked(dtype: object, count: int) -> tuple[np.dtype, ...]:
    each: Any = dtype
    if not isinstance(dtype, tuple | list):
        each = (dtype,) * count
    dtypes = tuple(np.dtype(given) for given in each)
    if len(dtypes) != count:
        raise DTypeError(f"{len(dtypes)} types for {count_of(count, 'result', 'results')}")
    return dtypes


def _held_dtypes(
    reduction: Reduction,
    dtypes: Sequence[np.dtype],
    combinations: Mapping[str, Combination],
) -> tuple[np.dtype, ...]:
    """Types in which tuples are combined.

    Bytes are added up in 16 bits only where nothing but sums and products sees the upper one.
    """
    if reduction.acc_dtype is not None:
        return _asked(reduction.acc_dtype, len(dtypes))
    names = _names(combinations)
    wraps = reduction.epilogue is None and all(name in ("add", "mul") for name in names)
    return tuple(
        accumulation_dtype(dtype) if wraps or dtype.kind not in "iu" else dtype for dtype in dtypes
    )


def _floats_widened(elements: Sequence[Expr], held: np.dtype) -> list[Expr]:
    """Elements as a function gets them: floats in the type in which results are combined.

    Integers stay as they are, since a function can tell how they wrap around.
    """
    return [
        cast(e, held) if e.dtype.kind in "fc" and np.can_cast(e.dtype, held) else e
        for e in elements
    ]


def _factors(
    reduction: Reduction, elements: Sequence[Expr], dtype: np.dtype, held: np.dtype
) -> list[Expr]:
    """Elements as they are multiplied: in the type that was asked for, or else in a wide one."""
    if reduction.dtype is not None:
        return [_brought(element, dtype, held) for element in elements]
    wider = (held != BOOL and np.can_cast(element.dtype, held) for element in elements)
    return [cast(e, held) if wide else e for e, wide in zip(elements, wider, strict=True)]


def _brought(value: Expr, dtype: np.dtype, held: np.dtype) -> Expr:
    """A result in the type in which it is combined; rounded to the type that was asked for."""
    is_wider = value.dtype == held and dtype.kind == held.kind
    if is_wider or np.can_cast(value.dtype, dtype):
        return cast(value, held)
    return cast(cast(value, dtype), held)


def _dims(
    space: IndexSpace,
    combinations: Mapping[str, Combination],
    held: Sequence[np.dtype],
    reduction: Reduction,
) -> tuple[Dim, ...]:
    def combine(said: Combination) -> Combine:
        if said.kind == "cc":
            return CC
        operator = operator_of(said.operator, held, reduction.identity)
        return Pointwise(operator) if said.kind == "pw" else PrefixSum(operator)

    return tuple(
        Dim(name, extent, combine(combinations[name])) for name, extent in space.extents.items()
    )


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
    argument: bool,
) -> tuple[Epilogue | None, tuple[np.dtype, ...]]:
    """What happens to finished tuples, and the types of what is stored.

    The function is traced on the results' own types first, which tells the types that NumPy would
    give; what computes takes tuples as they were combined.
    """
    if reduction.epilogue is None and space.finish:
        raise SubscriptError(
            "operands stand after the semicolon, but there is no epilogue",
            text=reduction.text,
            carets=(reduction.text.index(";"),),
            hint="epilogue='bias' adds one; any function of result and operands can be given",
        )
    if reduction.epilogue is None and not argument:
        return None, dtypes
    count = len(space.inputs)
    view = tuple(affine_access(count + n, axes) for n, axes in enumerate(space.finish))
    read = [specs[access.buffer].dtype for access in view]
    function = epilogue_named(reduction.epilogue)
    # The values that led to indices are dropped.
    first = 1 if argument else 0

    def finished(types: Sequence[np.dtype]) -> tuple[Expr, ...]:
        results = [param(n, dtype) for n, dtype in enumerate(types)]
        extra = [param(len(types) + n, dtype) for n, dtype in enumerate(read)]
        if function is None:
            return tuple(results[first:])
        given = [*results[first:], *_floats_widened(extra, types[first])]
        return _traced(function, given, space.output)

    stored = tuple(value.dtype for value in finished(dtypes))
    if reduction.dtype is not None and function is not None:
        stored = _asked(reduction.dtype, len(stored))
    name = "index" if function is None else _shown(function, "epilogue")
    scalar = ScalarFunction((*held, *read), finished(held), name)
    return Epilogue(scalar, view), stored
