"""The oracle against a second one: the definition point by point, in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtensor.errors import TranslationError
from mdtensor.specs import TensorSpec
from mdtensor.translate import reference
from mdtensor.translate.combine import CC, Combine, Operator, Pointwise, PrefixSum, named
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.scalar import apply, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction, product
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec
from tests.cases import CASES, Case, operands, tolerance

I64 = np.dtype(np.int64)
F64 = np.dtype(np.float64)

FIRST = Operator((I64,), (param(0, I64),), None, commutative=False, name="first")
# x -> a x + b after x -> c x + d: associative, not commutative.
AFTER = Operator(
    (I64, I64),
    (param(0, I64) * param(2, I64), param(0, I64) * param(3, I64) + param(1, I64)),
    (1, 0),
    commutative=False,
    name="after",
)
ARGMAX = Operator(
    (F64, I64),
    tuple(
        select(param(2, F64) > param(0, F64), param(right, dtype), param(left, dtype))
        for left, right, dtype in ((0, 2, F64), (1, 3, I64))
    ),
    (float("-inf"), -1),
    commutative=False,
    name="argmax",
)

Tuple = tuple[object, ...]


def by_definition(md_hom: MDHom, inputs: list[np.ndarray]) -> list[dict[tuple[int, ...], object]]:
    """Every output as a dictionary from position to value: combine dim by dim, innermost first."""
    names = [dim.name for dim in md_hom.dims]
    table: dict[tuple[int, ...], Tuple] = {}
    for point in itertools.product(*(range(dim.extent) for dim in md_hom.dims)):
        at = dict(zip(names, point, strict=True))
        elements = [inputs[a.buffer][place(a, at)] for a in md_hom.inp_view]
        table[point] = tuple(
            reference.evaluate(e, elements, {n: np.int64(i) for n, i in at.items()})
            for e in md_hom.scalar.results
        )
    for axis in reversed(range(len(names))):
        table = combined(table, axis, md_hom.dims[axis])
    results: list[dict[tuple[int, ...], object]] = [{} for _ in md_hom.outputs]
    for point, values in table.items():
        at = dict(zip(names, point, strict=True))
        for access, value in zip(md_hom.out_view, values, strict=True):
            results[access.buffer][place(access, at)] = value
    return results


def place(access: BufferAccess, at: dict[str, int]) -> tuple[int, ...]:
    return tuple(i.offset + sum(c * at[d] for d, c in i.coefficients) for i in access.index)


def combined(
    table: dict[tuple[int, ...], Tuple], axis: int, dim: Dim
) -> dict[tuple[int, ...], Tuple]:
    if dim.combine == CC:
        return table
    lines: dict[tuple[int, ...], list[Tuple]] = {}
    for point in sorted(table):
        lines.setdefault((*point[:axis], *point[axis + 1 :]), []).append(table[point])
    op: Callable[[Tuple, Tuple], Tuple] = dim.combine.op
    result: dict[tuple[int, ...], Tuple] = {}
    for rest, line in lines.items():
        if isinstance(dim.combine, Pointwise):
            result[(*rest[:axis], 0, *rest[axis:])] = reduce(op, line)
        else:
            for n, value in enumerate(itertools.accumulate(line, op)):
                result[(*rest[:axis], n, *rest[axis:])] = value
    return result


def check(md_hom: MDHom, inputs: list[np.ndarray]) -> None:
    outputs = reference.run(md_hom, inputs)
    for output, expected in zip(outputs, by_definition(md_hom, inputs), strict=True):
        assert expected
        for position, value in expected.items():
            assert output[position] == pytest.approx(value, rel=1e-12)


def instance(
    dims: dict[str, tuple[int, Combine]],
    scalar: ScalarFunction,
    inputs: list[tuple[TensorSpec, list[tuple[AffineIndex, ...]]]],
    outputs: list[tuple[TensorSpec, list[tuple[AffineIndex, ...]]]],
) -> MDHom:
    return MDHom(
        tuple(Dim(name, extent, combine) for name, (extent, combine) in dims.items()),
        scalar,
        tuple(BufferSpec(f"in{n}", spec) for n, (spec, _) in enumerate(inputs)),
        tuple(BufferSpec(f"out{n}", spec) for n, (spec, _) in enumerate(outputs)),
        tuple(BufferAccess(n, index) for n, (_, indices) in enumerate(inputs) for index in indices),
        tuple(
            BufferAccess(n, index) for n, (_, indices) in enumerate(outputs) for index in indices
        ),
    )


AT_I, AT_J = AffineIndex.of("i"), AffineIndex.of("j")


@pytest.mark.parametrize("extent", [1, 2, 3, 7, 8])
def test_an_operator_that_does_not_commute_keeps_its_order(extent: int) -> None:
    pairs = ScalarFunction((I64, I64), (param(0, I64), param(1, I64)), "pair")
    vector = TensorSpec.of((3, extent), I64)
    for combine, out in ((Pointwise(AFTER), [(AT_I,)]), (PrefixSum(AFTER), [(AT_I, AT_J)])):
        shape = (3,) if combine == Pointwise(AFTER) else (3, extent)
        md_hom = instance(
            {"i": (3, CC), "j": (extent, combine)},
            pairs,
            [(vector, [(AT_I, AT_J)]), (vector, [(AT_I, AT_J)])],
            [(TensorSpec.of(shape, I64), out), (TensorSpec.of(shape, I64), out)],
        )
        rng = np.random.default_rng(extent)
        check(md_hom, [rng.integers(-3, 4, (3, extent)) for _ in range(2)])


def test_argmax_of_a_matrix_uses_index_values() -> None:
    md_hom = instance(
        {"i": (4, CC), "j": (9, Pointwise(ARGMAX))},
        ScalarFunction((F64,), (param(0, F64), index_of("j")), "with_index"),
        [(TensorSpec.of((4, 9), F64), [(AT_I, AT_J)])],
        [(TensorSpec.of((4,), F64), [(AT_I,)]), (TensorSpec.of((4,), I64), [(AT_I,)])],
    )
    matrix = np.random.default_rng(0).uniform(-1, 1, (4, 9)).round(1)
    values, places = reference.run(md_hom, [matrix])
    np.testing.assert_array_equal(places, matrix.argmax(1))
    np.testing.assert_array_equal(values, matrix.max(1))
    assert places.dtype == I64
    check(md_hom, [matrix])


def test_a_stencil_reads_one_buffer_at_several_places() -> None:
    left, right = AffineIndex.of("i"), AffineIndex.of("i", offset=2)
    p = [param(n, F64) for n in range(2)]
    md_hom = instance(
        {"i": (6, CC)},
        ScalarFunction((F64, F64), ((p[0] - p[1]) / 2.0,), "difference"),
        [(TensorSpec.of((8,), F64), [(left,), (right,)])],
        [(TensorSpec.of((6,), F64), [(AT_I,)])],
    )
    x = np.arange(8.0) ** 2
    np.testing.assert_array_equal(reference.run(md_hom, [x])[0], (x[:-2] - x[2:]) / 2)
    check(md_hom, [x])


def test_a_convolution_steps_through_its_image() -> None:
    window = AffineIndex.of("r", i=2)
    md_hom = instance(
        {"i": (5, CC), "r": (3, Pointwise(named("add", [F64])))},
        product([F64, F64], F64),
        [
            (TensorSpec.of((11,), F64), [(window,)]),
            (TensorSpec.of((3,), F64), [(AffineIndex.of("r"),)]),
        ],
        [(TensorSpec.of((5,), F64), [(AT_I,)])],
    )
    x, f = np.random.default_rng(1).uniform(size=(2, 11))
    expected = np.correlate(x, f[:3], "valid")[::2]
    np.testing.assert_allclose(reference.run(md_hom, [x, f[:3]])[0], expected, rtol=1e-14)


def test_maximum_bottom_box_sum_scans_one_dim_and_adds_up_the_other() -> None:
    add = named("add", [I64])
    md_hom = instance(
        {"i": (5, PrefixSum(add)), "j": (4, Pointwise(add))},
        product([I64], I64),
        [(TensorSpec.of((5, 4), I64), [(AT_I, AT_J)])],
        [(TensorSpec.of((5,), I64), [(AT_I,)])],
    )
    matrix = np.arange(20).reshape(5, 4)
    np.testing.assert_array_equal(reference.run(md_hom, [matrix])[0], matrix.sum(1).cumsum())
    check(md_hom, [matrix])


def test_outputs_may_be_written_in_steps_and_through_two_accesses() -> None:
    even, odd = AffineIndex.of(i=2), AffineIndex.of(i=2, offset=1)
    p = param(0, I64)
    md_hom = instance(
        {"i": (3, CC)},
        ScalarFunction((I64,), (p, -p), "both"),
        [(TensorSpec.of((3,), I64), [(AT_I,)])],
        [(TensorSpec.of((8,), I64), [(even,), (odd,)])],
    )
    out = np.full(8, 9)
    reference.compute(md_hom, [np.array([1, 2, 3])], [out])
    np.testing.assert_array_equal(out, [1, -1, 2, -2, 3, -3, 9, 9])


def test_an_empty_dim_gives_the_identity() -> None:
    for name, dtype, neutral in (
        ("add", "f4", 0.0),
        ("mul", "i4", 1),
        ("min", "f8", np.inf),
        ("max", "i2", -(2**15)),
        ("and", "u1", 255),
    ):
        md_hom = instance(
            {"i": (2, CC), "j": (0, Pointwise(named(name, [dtype])))},
            product([dtype], dtype),
            [(TensorSpec.of((2, 0), dtype), [(AT_I, AT_J)])],
            [(TensorSpec.of((2,), dtype), [(AT_I,)])],
        )
        (result,) = reference.run(md_hom, [np.zeros((2, 0), dtype)])
        np.testing.assert_array_equal(result, [neutral, neutral])


def test_an_empty_dim_without_identity_is_an_error() -> None:
    md_hom = instance(
        {"i": (0, Pointwise(FIRST))},
        product([I64], I64),
        [(TensorSpec.of((0,), I64), [(AT_I,)])],
        [(TensorSpec.of((), I64), [()])],
    )
    with pytest.raises(TranslationError, match=r"^dim 'i' is empty and operator first has no"):
        reference.run(md_hom, [np.zeros(0, I64)])


def test_integers_wrap_around_and_floats_do_not_round() -> None:
    (total,) = reference.run(
        md_hom_from_einsum("i->", [TensorSpec.of((300,), "i1")]), [np.ones(300, "i1")]
    )
    assert total == 300 - 256
    (total,) = reference.run(
        md_hom_from_einsum("i,i->", [TensorSpec.of((2,), "f4")] * 2),
        [np.array([1, 1e-9], "f4"), np.ones(2, "f4")],
    )
    assert total == 1 + float(np.float32(1e-9))
    assert total.dtype == np.float64


def test_cast_gives_the_types_of_the_buffers() -> None:
    md_hom = md_hom_from_einsum("i->i", [TensorSpec.of((2,), "f2")])
    (wide,), (cast,) = (reference.run(md_hom, [np.ones(2, "f2")], cast=c) for c in (False, True))
    assert (wide.dtype, cast.dtype) == (np.float64, np.float16)


@pytest.mark.parametrize("points", [1, 7, 64])
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->", "ij,jk->j"])
def test_parts_give_what_the_whole_gives(
    monkeypatch: pytest.MonkeyPatch, text: str, points: int
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (5, 7)), rng.integers(-9, 9, (7, 6))
    md_hom = md_hom_from_einsum(text, [TensorSpec.of(x.shape, x.dtype) for x in (a, b)])
    monkeypatch.setattr(reference, "POINTS_AT_ONCE", points)
    np.testing.assert_array_equal(reference.run(md_hom, [a, b])[0], np.einsum(text, a, b))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "complex128"])
def test_einsum_cases_agree_with_numpy(case: Case, dtype: str) -> None:
    arrays = operands(case, dtype)
    md_hom = md_hom_from_einsum(case.text, [TensorSpec.of(a.shape, a.dtype) for a in arrays])
    (result,) = reference.run(md_hom, arrays)
    wide = [a.astype(reference.wide(a.dtype)) for a in arrays]
    terms = md_hom.points // max(result.size, 1)
    np.testing.assert_allclose(
        result, np.einsum(case.text, *wide), rtol=0, atol=tolerance(result.dtype, terms)
    )


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=4),
    st.integers(0, 2**16),
)
def test_any_mix_of_combine_operators(dims: list[tuple[int, int]], seed: int) -> None:
    add = named("add", [I64])
    ways: list[Combine] = [CC, Pointwise(add), PrefixSum(add), CC, Pointwise(add)]
    names = [f"d{n}" for n in range(len(dims))]
    space = {name: (extent, ways[way]) for name, (extent, way) in zip(names, dims, strict=True)}
    index = tuple(AffineIndex.of(name) for name in names)
    kept = [n for n, (_, way) in space.items() if not isinstance(way, Pointwise)]
    md_hom = instance(
        space,
        ScalarFunction((I64,), (apply("add", param(0, I64), 1),), "increment"),
        [(TensorSpec.of([e for e, _ in dims], I64), [index])],
        [
            (
                TensorSpec.of([space[n][0] for n in kept], I64),
                [tuple(AffineIndex.of(n) for n in kept)],
            )
        ],
    )
    array = np.random.default_rng(seed).integers(-9, 9, [e for e, _ in dims])
    expected = array + 1
    for axis in reversed(range(len(dims))):
        combine = space[names[axis]][1]
        if isinstance(combine, PrefixSum):
            expected = expected.cumsum(axis)
        elif isinstance(combine, Pointwise):
            expected = expected.sum(axis)
    np.testing.assert_array_equal(reference.run(md_hom, [array])[0], expected)
