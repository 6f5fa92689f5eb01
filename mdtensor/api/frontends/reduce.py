"""`reduce` and `scan`: a function of elements, combined by associative operators."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from mdtensor.api.arrays.operands import check_types
from mdtensor.api.arrays.sparse_arrays import check_dense
from mdtensor.api.calls.call_cache import with_call_cache
from mdtensor.api.calls.function_fingerprint import function_key
from mdtensor.api.calls.program_calls import call
from mdtensor.api.calls.ragged_operands import (
    RaggedOperands,
    call_on_ragged,
    check_positions,
    ragged_operands,
)
from mdtensor.api.calls.stored_operands import call_on_stored, stored_operands
from mdtensor.api.devices import Devices
from mdtensor.api.frontends.parted import in_parts
from mdtensor.api.frontends.structured_arrays import by_columns
from mdtensor.dataclass import dataclass
from mdtensor.errors import DTypeError, TranslationError, shown
from mdtensor.options import flag
from mdtensor.specs import TensorSpec, as_dtype
from mdtensor.translate.combine import PAIR_NAMES, PrefixSum
from mdtensor.translate.einsum.subscripts import no_string, parse
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.operators import associativity
from mdtensor.translate.operators.combine_operators import operator_name
from mdtensor.translate.program_builder import ProgramBuilder
from mdtensor.translate.reductions.combinations_of_dims import Said
from mdtensor.translate.reductions.md_hom_from_reduction import Reduction, md_hom_from_reduction
from mdtensor.translate.rewrites.scans import exclusive_along, reversed_along
from mdtensor.translate.scalar import Number

# One array, or a tuple of several.
Arrays = Any


@with_call_cache
def reduce(
    subscripts: str,
    *operands: object,
    f: Callable[..., Any] | None = None,
    combine: Said = "add",
    identity: Number | tuple[Number, ...] | None = None,
    out: Arrays | None = None,
    dtype: object = None,
    acc_dtype: object = None,
    extents: Mapping[str, int] | None = None,
    epilogue: Callable[..., Any] | str | None = None,
    check: bool = False,
    memory_limit: int | str | None = None,
    devices: Devices | None = None,
) -> Any:
    """Applies `f` at every point of a string's dims, and reduces the dims that the output lacks.

    `subscripts` is an einsum string with an arrow. Its indices may be sums, as in
    `"h+r, r -> h"`; then blanks separate them, and names have any length. Extents follow from the
    shapes: a dim alone on an axis has its extent, a sum leaves the other dim the largest extent
    with which it stays inside; `extents` gives what remains open. `@1` in a sum is the element of
    operand 1: `"@1 j, i -> i j"` gathers rows of operand 0. An index below 0 counts from the end;
    what is still outside is moved to the nearest end. An operand that is an index is no element.

    `f` gets the elements in the order of the operands, by default it multiplies them. Its
    keyword-only parameters are the values of indices of that name; a tuple that it returns gives
    several results. Operands may be records or strings of fixed length. With a structured
    `dtype` or `out`, results are its fields, which operators get by name (docs/records.md).

    One operand may be a sparse array of scipy, of which only stored elements take part
    (docs/reductions.md). Operands may be ragged batches, whose sequences are combined one by one
    (docs/ragged.md).

    `combine` is an operator for all dims that the output lacks: `add`, `mul`, `min`, `max`,
    `fmin`, `fmax`, `lesser`, `greater`, `and`, `or`, `xor`, `logaddexp`, `argmin`, `argmax`,
    NumPy's function of that meaning, one that `mdtensor.operator` made, or any associative
    function of two elements (of two tuples, where `f` returns tuples) with its `identity`, if it
    has one. Or a dict with an operator for each dim; there `ps("add")` scans a dim that the
    output keeps. The operators of a dict are applied in its order: `{"d": "add", "j": "min"}` is
    the minimum along j of the sums along d.

    Types are NumPy's for the operations that `f` makes. Sums and products of booleans are counted
    in int64. `dtype` is the type to which results of `f` are brought, `acc_dtype` the one in which
    they are combined; by default float32 for float16 and bfloat16. `min` and `max` give NaN where
    there is one. `argmin` and `argmax` without `f` give the position of the first extreme, flat in
    C order where several dims are reduced; an `f` that returns (value, index) gets both back.

    `epilogue` is applied to every finished result, then to one element of each operand that
    stands after a semicolon: `"ij,jk->ik; k"` with `epilogue=lambda total, b: total + b`. Names
    are `relu`, `gelu` (by `erf`), `silu`, `tanh`, `bias`, and `bias_relu` and so on for the others.
    `check` tests on random values that operators are associative, and that one of several dims may
    be applied in any order, unless a dict says the order.

    `memory_limit`, such as "1GB", has operands read part by part, from maps of files larger than
    memory too (see `mdtensor.stream`). `devices`, a list of names as `mdtensor.devices` has them or
    "all", has the parts of the computation computed by several devices (docs/devices.md).

    Raises SubscriptError, DTypeError, ShapeError and TranslationError; OperatorError, with a
    counter-example, where `check` finds one; DeviceError for `devices` that are none.

    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> reduce("ij->i", a, combine="max")
    array([2., 5.])
    >>> reduce("ij->", a, combine="argmax")
    np.int64(5)
    >>> reduce("i->", np.arange(5), f=lambda x: (x, x * x), combine="add")
    (np.int64(10), np.int64(30))
    >>> reduce("h+r, r -> h", np.arange(5.0), np.ones(2), combine="max")
    array([1., 2., 3., 4.])
    >>> reduce("ij,j->i; i", a, np.ones(3), np.ones(2), epilogue=lambda t, b: 2 * t - b)
    array([ 5., 23.])
    """
    if memory_limit is not None or devices is not None:
        options = {"f": f, "combine": combine, "identity": identity, "dtype": dtype}
        options |= {"acc_dtype": acc_dtype, "extents": extents, "epilogue": epilogue}
        options |= {"check": check, "out": out}
        return in_parts(reduce, (subscripts, *operands), options, devices, memory_limit)
    reduction = Reduction(
        subscripts, f, combine, _tuple(identity), dtype, acc_dtype, extents_of(extents), epilogue
    )
    return _called(_Call(reduction, check=flag("check", check)), operands, out)


@with_call_cache
def scan(
    subscripts: str,
    *operands: object,
    combine: Said = "add",
    f: Callable[..., Any] | None = None,
    exclusive: bool = False,
    reverse: bool = False,
    identity: Number | tuple[Number, ...] | None = None,
    out: Arrays | None = None,
    dtype: object = None,
    acc_dtype: object = None,
    extents: Mapping[str, int] | None = None,
    check: bool = False,
    memory_limit: int | str | None = None,
    devices: Devices | None = None,
) -> Any:
    """Scan: combines every element along a dim with all elements before it.

    Strings, `f`, operators and types are those of `reduce`. `combine` is the operator of the dim
    of the output, where it has one, or a dict with the operator of each dim that is scanned, and
    of each dim that the output lacks.

    An `exclusive` scan leaves out the element itself, and begins with the operator's identity. A
    scan in `reverse` begins at the last element; its element n is x[n] ⊗ x[n+1] ⊗ …, so operators
    meet their operands in the order of the array here, too. `memory_limit` and
    `devices` are those of `reduce`.

    Raises what `reduce` raises, and TranslationError where an exclusive scan has an operator
    without identity.

    >>> import numpy as np
    >>> scan("i->i", np.array([3, 1, 2]))
    array([3, 4, 6])
    >>> scan("i->i", np.array([3, 1, 2]), exclusive=True, reverse=True)
    array([3, 2, 0])
    >>> scan("ij->ij", np.array([[1, 5], [4, 2]]), combine={"i": "max"})
    array([[1, 5],
           [4, 5]])
    """
    if memory_limit is not None or devices is not None:
        options = {"f": f, "combine": combine, "identity": identity, "dtype": dtype}
        options |= {"acc_dtype": acc_dtype, "extents": extents, "exclusive": exclusive}
        options |= {"reverse": reverse, "check": check, "out": out}
        return in_parts(scan, (subscripts, *operands), options, devices, memory_limit)
    reduction = Reduction(
        subscripts, f, combine, _tuple(identity), dtype, acc_dtype, extents_of(extents), scans=True
    )
    asked = _Call(
        reduction,
        exclusive=flag("exclusive", exclusive),
        reverse=flag("reverse", reverse),
        check=flag("check", check),
    )
    return _called(asked, operands, out)


@dataclass(frozen=True)
class OperandBorder:
    """A border of a reduction's operand: counts before and after by axis, and its value."""

    around: tuple[tuple[int, int], ...]
    value: Number


@dataclass(frozen=True)
class _Call:
    """A reduction with the options of a scan, and the border of a single operand."""

    reduction: Reduction
    exclusive: bool = False
    reverse: bool = False
    check: bool = False
    border: OperandBorder | None = None

    @property
    def key(self) -> Hashable:
        """The cache key of the computation, without the operands' layouts."""
        scanned = self.exclusive, self.reverse, self.check
        return reduction_key(self.reduction), *scanned, self.border

    def program(self, specs: Sequence[TensorSpec]) -> Program:
        """The computation on operands of these specs."""
        if self.border is not None:
            builder = ProgramBuilder(specs)
            padded = builder.padded(0, self.border.around, self.border.value)
            inner = replace(self, border=None).program([builder.specs[padded]])
            return builder.program(builder.append(inner, [padded]))
        md_hom = md_hom_from_reduction(self.reduction, specs)
        if self.check:
            is_ordered = isinstance(self.reduction.combine, Mapping)
            associativity.check_md_hom(md_hom, is_ordered=is_ordered)
        scanned = [dim.name for dim in md_hom.dims if isinstance(dim.combine, PrefixSum)]
        if self.reverse:
            md_hom = reversed_along(md_hom, scanned)
        if not self.exclusive:
            return Program.of(md_hom)
        fills = _identities(md_hom)
        return replace(Program.of(exclusive_along(md_hom, scanned)), fills=fills)


def _identities(md_hom: MDHom) -> tuple[Number, ...]:
    """The operator's identities, which begin an exclusive scan; TranslationError if it has none."""
    operators = {dim.combine.op for dim in md_hom.dims if isinstance(dim.combine, PrefixSum)}
    if len(operators) != 1:
        raise TranslationError("an exclusive scan has one operator", hint="scan dim after dim")
    (operator,) = operators
    if operator.identity is None or md_hom.epilogue is not None:
        raise TranslationError(
            f"an exclusive scan begins with the identity, and operator {operator!r} has none",
            hint="declare it by identity=…",
        )
    return operator.identity


def reduction_key(reduction: Reduction) -> Hashable:
    """The cache key of a reduction, with functions by fingerprint."""
    return (
        "reduce",
        reduction.text,
        function_key(
            (reduction.function, reduction.combine, reduction.identity, reduction.epilogue)
        ),
        function_key((str(reduction.dtype), str(reduction.acc_dtype), dict(reduction.extents))),
        (reduction.scans, reduction.counts, reduction.order, reduction.precision),
    )


def reduced(
    reduction: Reduction,
    operands: Sequence[object],
    out: Arrays | None,
    check: Callable[..., object] | None = None,
    border: OperandBorder | None = None,
) -> Any:
    """Run a front end's reduction; a `check` sees dense operands before each run.

    One operand may have a border, which is copied with it.
    """
    return _called(_Call(reduction, border=border), operands, out, check)


def _called(
    asked: _Call,
    operands: Sequence[object],
    out: Arrays | None,
    check: Callable[..., object] | None = None,
) -> Any:
    _check_options(asked.reduction)
    if (batches := ragged_operands(operands)) is not None:
        return _on_ragged(asked, batches, out)
    stored = stored_operands(operands, distinct=lambda: not _is_product_sum(asked.reduction))
    if stored is not None:
        _check_stored(asked.reduction, operands)
        return call_on_stored(asked.key, stored, asked.program, out)
    split = by_columns(asked.reduction, asked.key, operands, out)
    if split is None:
        return call(asked.key, operands, asked.program, out, check=check)
    asked = replace(asked, reduction=split.reduction)
    return split.joined(call(asked.key, split.operands, asked.program, split.out))


def _on_ragged(asked: _Call, operands: RaggedOperands, out: Arrays | None) -> Any:
    """A reduction of ragged batches, over the values of all their sequences."""
    reduction = asked.reduction
    subscripts = parse(reduction.text, extended=True)
    name = operator_name(reduction.combine)
    if reduction.function is None and name is not None and name in PAIR_NAMES:
        check_positions(subscripts, operands, name)
    takes_rows = reduction.function is not None or isinstance(reduction.combine, Mapping)
    return call_on_ragged(
        asked.key,
        operands,
        subscripts,
        asked.program,
        out,
        takes_rows=takes_rows,
        extents=reduction.extents,
    )


def _is_product_sum(reduction: Reduction) -> bool:
    """Whether duplicates of stored elements may be combined one by one, as sums of products can."""
    return reduction.function is None and operator_name(reduction.combine) == "add"


def _check_stored(reduction: Reduction, operands: Sequence[object]) -> None:
    """Raises DTypeError for scans of sparse operands, TranslationError for positions in them."""
    for number, operand in enumerate(operands if reduction.scans else ()):
        check_dense(f"operand {number}", operand)
    if reduction.function is None and operator_name(reduction.combine) in PAIR_NAMES:
        raise TranslationError(
            f"{operator_name(reduction.combine)} of a sparse operand may find no element",
            hint="an f that returns (value, index) gives the operator's identity then",
        )


def _check_options(reduction: Reduction) -> None:
    """Raises SubscriptError for no string, DTypeError for types without kernels.

    And TranslationError for an identity too many.
    """
    if not isinstance(cast("object", reduction.text), str):
        raise no_string(reduction.text)
    asked = (*_listed(reduction.dtype), *_listed(reduction.acc_dtype))
    types = [dtype for dtype in map(as_dtype, asked) if dtype.names is None]
    check_types(types)
    name = operator_name(reduction.combine)
    if reduction.identity is not None and name is not None:
        raise TranslationError(
            f"operator {name!r} has its own identity, not {shown(reduction.identity)}",
            hint="leave identity= out; a value to begin with is combined with the result",
        )


def extents_of(given: Mapping[str, int] | None) -> dict[str, int]:
    """The extents by name from a caller's argument; raises DTypeError where it is no dict."""
    if not isinstance(cast("object", given), Mapping | None):
        raise DTypeError(
            f"extents is {shown(given)}", hint="a dict from dims to whole numbers: {'r': 3}"
        )
    return dict(given or {})


def _listed(asked: object) -> tuple[object, ...]:
    if asked is None or isinstance(asked, tuple):
        return asked or ()  # pyright: ignore[reportUnknownVariableType]
    return (asked,)


def _tuple(identity: Number | tuple[Number, ...] | None) -> tuple[Number, ...] | None:
    return identity if identity is None or isinstance(identity, tuple) else (identity,)
