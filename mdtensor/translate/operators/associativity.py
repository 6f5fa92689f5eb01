"""Randomised tests of operators: associativity, identity, commutativity, interchange.

A part of a dim may be cut anywhere, so operators are associative; an identity changes nothing;
lanes and work-items reorder what commutes; and where nobody said which dim is combined first,
operators of different dims interchange: (a ∘ b) ⊕ (c ∘ d) = (a ⊕ c) ∘ (b ⊕ d) (002, section
4.2.2). No test proves any of it, but what is wrong is mostly found, and shown with the plainest
values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from mdtensor.errors import OperatorError
from mdtensor.specs import kind_of
from mdtensor.translate.combine import Concat, Operator
from mdtensor.translate.md_hom import MDHom
from mdtensor.translate.operations import Values
from mdtensor.translate.trees import evaluated, wide

POINTS = 4096
_FAR = 1 << 62  # indices that are drawn are smaller
RELATIVE_TOLERANCE = 1e-9
"""Of the largest number that took part, for types whose arithmetic rounds."""

Tuple = tuple[Values, ...]
Arrays = tuple[np.ndarray, ...]


def check(operator: Operator, samples: Tuple | None = None) -> None:
    """Test associativity, identity and declared commutativity of an operator.

    Without `samples`, any values will do: 0, ±1, small ones and large ones whose sums fit the type;
    NaN and infinities are left out, and points at which a result is not finite do not count. With
    samples, an array for each element of a tuple, only these and what they combine to are tried:
    an operator need not make sense of tuples that never occur, such as a negative count.

    Raises OperatorError with a counter-example.

    >>> from mdtensor.translate.combine import operator_from_function
    >>> check(operator_from_function(lambda a, b: (a + b) / 2, ["f8"], name="mean"))
    Traceback (most recent call last):
    mdtensor.errors.OperatorError: operator 'mean' is not associative
      a = 0.5, b = 0.0, c = 0.0
      (a ∘ b) ∘ c = 0.125
      a ∘ (b ∘ c) = 0.25
      hint: results of parts must be enough to go on with: for a mean, combine (sum, count)
    """
    a, b, c = _drawn([operator], samples, 3)
    before, after = operator(a, b), operator(b, c)
    left, right = operator(before, c), operator(a, after)
    worst = _plainest(left, right, (a, b, c), (before, after))
    if worst is not None:
        raise OperatorError(
            f"operator {operator.name!r} is not associative",
            notes=(
                _shown(worst, a=a, b=b, c=c),
                _shown(worst, **{"(a ∘ b) ∘ c": left}),
                _shown(worst, **{"a ∘ (b ∘ c)": right}),
            ),
            hint="results of parts must be enough to go on with: for a mean, combine (sum, count)",
        )
    _check_identity(operator, a)
    if operator.commutative:
        _check_commutativity(operator, a, b)


def _check_identity(operator: Operator, a: Tuple) -> None:
    if operator.identity is None:
        return
    pairs = zip(operator.identity, a, strict=True)
    neutral = tuple(np.full(POINTS, value).astype(like.dtype) for value, like in pairs)
    for left, (lhs, rhs) in {"e ∘ a": (neutral, a), "a ∘ e": (a, neutral)}.items():
        result = operator(lhs, rhs)
        worst = _plainest(a, result, (a,), strict=True)
        if worst is not None:
            raise OperatorError(
                f"the identity of operator {operator.name!r} changes a value",
                notes=(_shown(worst, e=neutral, a=a), _shown(worst, **{left: result})),
                hint="declare a neutral tuple, or identity=None: a flag then says what counts",
            )


def _check_commutativity(operator: Operator, a: Tuple, b: Tuple) -> None:
    one, other = operator(a, b), operator(b, a)
    worst = _plainest(one, other, (a, b))
    if worst is not None:
        raise OperatorError(
            f"operator {operator.name!r} is declared commutative, but is not",
            notes=(
                _shown(worst, a=a, b=b),
                _shown(worst, **{"a ∘ b": one}),
                _shown(worst, **{"b ∘ a": other}),
            ),
            hint="leave out commutative=True: the order of elements is then kept",
        )


def check_interchange(outer: Operator, inner: Operator, samples: Tuple | None = None) -> None:
    """Test that two operators on different dims may be applied in either order.

    `samples` are as for `check`.

    Raises OperatorError with a counter-example.
    """
    if outer == inner and outer.commutative:
        return
    a, b, c, d = _drawn([inner, outer], samples, 4)
    rows, columns = (inner(a, b), inner(c, d)), (outer(a, c), outer(b, d))
    left, right = outer(*rows), inner(*columns)
    worst = _plainest(left, right, (a, b, c, d), (*rows, *columns))
    if worst is not None:
        raise OperatorError(
            f"operators {inner.name!r} (∘) and {outer.name!r} (⊕) on different dims do not"
            " interchange",
            notes=(
                _shown(worst, a=a, b=b, c=c, d=d),
                _shown(worst, **{"(a ∘ b) ⊕ (c ∘ d)": left}),
                _shown(worst, **{"(a ⊕ c) ∘ (b ⊕ d)": right}),
            ),
            hint="say by a dict which dim is combined first, or take two computations",
        )


def check_md_hom(md_hom: MDHom, *, is_ordered: bool = False) -> None:
    """Test every operator of an `md_hom`, and every pair on different dims.

    The tuples are those that its scalar function gives for random elements. Where somebody said
    which dim is combined first (`is_ordered`), operators need not interchange: dims of different
    operators are combined one after the other, the last one first.

    Raises OperatorError with a counter-example.
    """
    operators = [dim.combine.op for dim in md_hom.dims if not isinstance(dim.combine, Concat)]
    if not operators:
        return
    samples = _results(md_hom)
    for operator in dict.fromkeys(operators):
        check(operator, samples)
    if is_ordered:
        return
    for outer, inner in dict.fromkeys(itertools.combinations(operators, 2)):
        check_interchange(outer, inner, samples)


# ---- values -----------------------------------------------------------------------------------


def _results(md_hom: MDHom) -> Tuple:
    """Results of the scalar function for random elements and indices."""
    rng = np.random.default_rng(0)
    elements = [_values(rng, dtype) for dtype in md_hom.scalar.params]
    indices = {
        dim.name: rng.integers(0, min(max(dim.extent, 1), _FAR), POINTS) for dim in md_hom.dims
    }
    return tuple(
        np.broadcast_to(result, (POINTS,))
        for result in evaluated(md_hom.scalar.results, elements, indices)
    )


def _drawn(operators: Sequence[Operator], samples: Tuple | None, count: int) -> list[Tuple]:
    """`count` random tuples of arrays, in the reference's wider types."""
    rng = np.random.default_rng(0)
    if samples is None:
        types = operators[0].dtypes
        return [
            tuple(_values(rng, dtype).astype(wide(dtype)) for dtype in types) for _ in range(count)
        ]
    pool = samples
    for operator in operators:
        # Each once more, combined with another one.
        combined = operator(pool, _shuffled(rng, pool))
        pool = tuple(
            np.concatenate([one, np.broadcast_to(other, one.shape)])
            for one, other in zip(pool, combined, strict=True)
        )
    return [tuple(value[:POINTS] for value in _shuffled(rng, pool)) for _ in range(count)]


def _shuffled(rng: np.random.Generator, values: Tuple) -> Arrays:
    order = rng.permutation(len(np.asarray(values[0])))
    return tuple(np.asarray(value)[order] for value in values)


def _values(rng: np.random.Generator, dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "c":
        return _reals(rng) + 1j * _reals(rng)
    if kind_of(dtype) == "f":
        return _reals(rng)
    if dtype.kind == "b":
        return rng.integers(0, 2, POINTS).astype(dtype)
    low = -1 if dtype.kind == "i" else 0
    # Sums of three do not wrap around, since operators such as a maximum of sums do not survive it.
    large = 1 << (8 * dtype.itemsize - 3)
    special = rng.choice(np.array([0, 1, low, low * large, large], dtype=object), POINTS)
    return np.where(rng.random(POINTS) < 0.4, special, rng.integers(9 * low, 9, POINTS))


def _reals(rng: np.random.Generator) -> np.ndarray:
    """Random dyadic numbers, whose sums and products are mostly exact."""
    special = rng.choice([0.0, 1.0, -1.0, 0.5, 1024.0, -1024.0], POINTS)
    return np.where(rng.random(POINTS) < 0.4, special, rng.integers(-64, 64, POINTS) / 8)


def _plainest(
    left: Tuple,
    right: Tuple,
    given: Sequence[Tuple],
    between: Sequence[Tuple] = (),
    *,
    strict: bool = False,
) -> int | None:
    """The point of the smallest inputs at which two results differ; None if they agree.

    Results that are not finite count only where the test is `strict`.
    """
    largest = np.ones(POINTS)
    for values in (*given, *between, left, right):
        for value in values:
            magnitude = np.abs(np.broadcast_to(value, (POINTS,)).astype(np.complex128))
            largest = np.maximum(largest, np.where(np.isfinite(magnitude), magnitude, 0))
    differ = np.zeros(POINTS, bool)
    for one, other in zip(left, right, strict=True):
        differ |= _differ(np.asarray(one), np.asarray(other), largest, strict)
    if not differ.any():
        return None
    size = sum(np.abs(np.asarray(value).astype(np.complex128)) for tup in given for value in tup)
    return int(np.argmin(np.where(differ, size, np.inf)))


def _differ(one: np.ndarray, other: np.ndarray, largest: np.ndarray, strict: bool) -> np.ndarray:
    if kind_of(one.dtype) not in "fc":
        return np.broadcast_to(one != other, largest.shape)
    finite = np.isfinite(one) & np.isfinite(other)
    with np.errstate(all="ignore"):
        apart = np.abs(one - other) > RELATIVE_TOLERANCE * largest
    return np.where(finite, apart, strict)


def _shown(point: int, **values: Tuple) -> str:
    return ", ".join(f"{name} = {_number(value, point)}" for name, value in values.items())


def _number(values: Tuple, point: int) -> str:
    held = [np.broadcast_to(value, (POINTS,))[point].item() for value in values]
    return repr(held[0]) if len(held) == 1 else f"({', '.join(map(repr, held))})"
