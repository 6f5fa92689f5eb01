"""Families of computations: first calls on new shapes that need no translation."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.calls import program_calls as program_calls_module
from mdtensor.api.calls.shape_families import Families, Later, family_of, numbers_of
from mdtensor.api.engine import registry
from mdtensor.api.engine.generic_kernels import Decision
from mdtensor.bounded import Bounded
from mdtensor.errors import MdtensorError
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum
from mdtensor.translate.md_hom_program import Program
from mdtensor.translate.rewrites.stages import staged

Array = np.ndarray


def _ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


BORDERS = ("valid", "fixed", "constant", "nearest", "wrap")


def _jacobi(border: str) -> Callable[[int, int], Callable[[], Any]]:
    @mdt.stencil(border=border)
    def jacobi(u: Any) -> Any:
        return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])

    return lambda m, n: lambda: jacobi(_ones(m, n))


def _einsum(
    text: str, *shapes: Callable[[int, int], tuple[int, ...]], order: str = "C", dtype: str = "f4"
) -> Callable[[int, int], Callable[[], Any]]:
    orders = order * len(shapes) if len(order) == 1 else order

    def of(m: int, n: int) -> Callable[[], Any]:
        made: Any = zip(shapes, orders, strict=True)
        operands = [np.ones(shape(m, n), dtype, order=each) for shape, each in made]
        return lambda: mdt.einsum(text, *operands)

    return of


def _product(order: str, dtype: str) -> Callable[[int, int], Callable[[], Any]]:
    shapes = (lambda m, n: (m, 8)), (lambda m, n: (8, n))
    return _einsum("ij,jk->ik", *shapes, order=order, dtype=dtype)


# Calls on shapes that follow from two extents.
CALLS: dict[str, Callable[[int, int], Callable[[], Any]]] = {
    **{
        f"product, {order}, {dtype}": _product(order, dtype)
        for order in ("CC", "FC", "CF", "FF")
        for dtype in ("f4", "c16", "i1", "?")
    },
    "einsum, no sum": _einsum("i,j->ij", lambda m, n: (m,), lambda m, n: (n,)),
    "einsum, transposed": _einsum("ijk->kji", lambda m, n: (m, n, 3)),
    "einsum, batches": _einsum("...ij,...jk", lambda m, n: (2, m, n), lambda m, n: (2, n, 5)),
    "einsum, diagonal": _einsum("ii->i", lambda m, n: (m, m)),
    "einsum, a trace": _einsum("ij,jj->i", lambda m, n: (m, n), lambda m, n: (n, n)),
    "einsum, three": _einsum("i,i,i->i", *([lambda m, n: (m,)] * 3)),
    "einsum, by a path": _einsum(
        "ij,jk,kl->il", lambda m, n: (m, 300), lambda m, n: (300, n), lambda m, n: (n, 300)
    ),
    "einsum, index sums": _einsum("i+j,j->i", lambda m, n: (m + 4,), lambda m, n: (5,)),
    "einsum, other strides": lambda m, n: (
        lambda: mdt.einsum("ij,jk", _ones(m, 16)[:, ::2], _ones(8, n)[::-1])
    ),
    "rows": lambda m, n: lambda: mdt.reduce("ij->i", _ones(m, n), combine="max"),
    "columns": lambda m, n: lambda: mdt.reduce("ij->j", _ones(m, n)),
    "slices": lambda m, n: lambda: mdt.reduce("ij->i", _ones(m, 2 * n)[:, ::2]),
    "scan": lambda m, n: lambda: mdt.scan("ij->ij", _ones(m, n), combine={"j": "add"}),
    "chain": lambda m, n: lambda: mdt.reduce("ij->", _ones(m, n), combine={"i": "max", "j": "add"}),
    "window": lambda m, n: lambda: mdt.reduce("h+r,r->h", _ones(m + 4), _ones(5), combine="min"),
    "gather": lambda m, n: lambda: mdt.reduce("@1 j, i -> i j", _ones(m, n), np.zeros(n + 1, int)),
    "semiring": lambda m, n: (
        lambda: mdt.einsum("ij,jk->ik", _ones(m, 8), _ones(8, n), semiring="min_plus")
    ),
    "conv": lambda m, n: lambda: mdt.conv(_ones(1, m, n, 4), _ones(3, 3, 3, 4)),
    "conv, padding": lambda m, n: (
        lambda: mdt.conv(_ones(2, m, n, 4), _ones(3, 3, 3, 4), padding=1, stride=2)
    ),
    "conv, transposed": lambda m, n: (
        lambda: mdt.conv(_ones(1, m, n, 4), _ones(3, 3, 3, 4), transposed=True, stride=2)
    ),
    "conv, bias": lambda m, n: (
        lambda: mdt.conv(_ones(1, m, n, 4), _ones(3, 3, 3, 4), bias=_ones(3), epilogue="relu")
    ),
    **{f"stencil, {border}": _jacobi(border) for border in BORDERS},
    "filter": lambda m, n: lambda: mdt.ndimage.gaussian_filter(_ones(m, n), 1.0),
    "lazy": lambda m, n: (mdt.lazy(_ones(m, n)) * _ones(n) + 2).evaluate,
    "lazy, slices": lambda m, n: (
        lambda: sum(mdt.lazy(_ones(m, n))[:, k : n - 2 + k] for k in range(3)).evaluate()
    ),
    "lazy, blocks": lambda m, n: (
        lambda: np.concatenate([mdt.lazy(_ones(m, 5)), mdt.lazy(_ones(m, n))], 1).evaluate()
    ),
    "lazy, turned": lambda m, n: lambda: mdt.lazy(_ones(m, n)).T.reshape(-1).evaluate(),
    "lazy, rolled": lambda m, n: lambda: np.roll(mdt.lazy(_ones(m, n)), 7, 0).evaluate(),
    "softmax": lambda m, n: lambda: mdt.softmax(_ones(m, n)),
    "logsumexp": lambda m, n: lambda: mdt.logsumexp(_ones(m, n), 0),
    "layer_norm": lambda m, n: lambda: mdt.layer_norm(_ones(m, 24), _ones(24)),
    "cumsum": lambda m, n: lambda: np.cumsum(mdt.lazy(_ones(m, n)) * 2, 1).evaluate(),
}

Specs = tuple[TensorSpec, ...]
program_calls: Any = program_calls_module  # also what it keeps to itself
# What a call builds, of which specs and other numbers.
Built = tuple[Callable[..., Any], Specs, tuple[int, ...]]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], Built]]:
    """What a call would build; nothing is computed."""
    seen: list[Built] = []

    def noted(_: Any, alike: Any, specs: Specs, build: Any) -> Any:
        skeleton = alike()
        made = skeleton.build
        seen.append((lambda *given: staged(made(*given)), specs, skeleton.numbers))
        return staged(build(specs))

    def of(call: Callable[[], Any]) -> Built:
        seen.clear()
        # Or what calls of other tests made is not built again.
        monkeypatch.setattr(program_calls, "families", Families(registry.engine_for))
        registry.forget()
        call()
        return seen[-1]

    monkeypatch.setattr(program_calls, "_member_or_built", noted)
    monkeypatch.setattr(program_calls, "is_watched", lambda: False)  # though calls are planned

    def planned(*_: Any) -> Any:
        return _ones(1)

    token = program_calls.planner.set(planned)
    yield of
    program_calls.planner.reset(token)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", CALLS)
def test_a_family_gives_what_is_built_or_nothing(
    name: str, built: Callable[[Callable[[], Any]], Built]
) -> None:
    engine, random_ = registry.engine_for(), random.Random(name)
    build, specs, more = built(CALLS[name](54, 61))
    family = family_of(build(specs, *more), specs, build, engine, more)
    assert family is not None
    used = 0
    for trial in range(60):
        if trial % 3:
            others = tuple([_other(spec, random_) for spec in specs])
        else:
            call = CALLS[name](random_.randint(40, 90), random_.randint(40, 90))
            _, others, more = built(call)
        numbers = numbers_of(others, more)
        given = family.numbers(*numbers)
        try:
            wanted = build(others, *more)
        except MdtensorError:
            assert given is None
            continue
        if given is None:
            continue
        used += 1
        assert family.gives(numbers, wanted)
        for n, step in enumerate(wanted.steps):
            assert Later(family, n, numbers)() == engine.problem_of(step.md_hom)
    assert used


def _other(spec: TensorSpec, random_: random.Random) -> TensorSpec:
    """A spec of that type and number of axes, with some extents of this one."""
    largest = random_.choice([3, 90])
    shape = [
        extent if random_.random() < 0.4 else random_.randint(0, largest) for extent in spec.shape
    ]
    order = random_.choice(["C", "F", "apart"])
    if order == "apart":
        return TensorSpec.of(shape, spec.dtype, [3 * n for n in TensorSpec.of(shape).strides])
    strides = TensorSpec.of(shape[:: -1 if order == "F" else 1]).strides
    return TensorSpec.of(shape, spec.dtype, strides[:: -1 if order == "F" else 1])


def test_calls_of_a_family_build_nothing_and_are_right(
    fresh: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    built: list[Any] = []
    learn = fresh.learn

    def noted(*given: Any) -> None:
        built.append(given)
        learn(*given)

    monkeypatch.setattr(fresh, "learn", noted)
    weights = np.full((3, 3), 1 / 9)
    for n in range(16):
        a = rng.random((60 + n, 90 - n))
        wanted: Any = importlib.import_module("scipy.ndimage").correlate(a, weights, mode="nearest")
        np.testing.assert_allclose(
            mdt.ndimage.correlate(a, weights, mode="nearest"), wanted, rtol=1e-12
        )
        registry.engine_for().settle()
    assert len(built) < 12


def test_lazy_arrays_of_other_shapes_build_nothing(
    fresh: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a slice of two elements taken for one of three, whose expression looks the same."""
    learned: list[Any] = []
    learn = fresh.learn
    monkeypatch.setattr(fresh, "learn", lambda *given: (learned.append(given), learn(*given)))
    for n in range(20, 40):
        x = np.arange(3.0 * n).reshape(3, n) / n
        powers = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(mdt.softmax(x), powers / powers.sum(-1, keepdims=True))
        u = mdt.lazy(x)
        for gap in (2, 3):
            found = (u[:, gap:] - u[:, :-gap]).evaluate()
            np.testing.assert_allclose(found, x[:, gap:] - x[:, :-gap])
        np.testing.assert_allclose((u[:1] + u).evaluate(), x[:1] + x)
        np.testing.assert_allclose((u[:1] + u[1:2]).evaluate(), x[:1] + x[1:2])
        registry.engine_for().settle()
    assert len(learned) < 40  # of 100


def test_a_stencil_on_another_shape_takes_the_numbers_of_that_moment(
    fresh: Families,
) -> None:
    factor = [1.0]

    @mdt.stencil
    def scaled(u: Any) -> Any:
        return factor[0] * u[0] + u[1]

    for n in (20, 21, 22, 23):
        np.testing.assert_array_equal(scaled(np.ones(n)), np.full(n - 1, 2.0))
    factor[0] = 3.0
    np.testing.assert_array_equal(scaled(np.ones(24)), np.full(23, 4.0))
    np.testing.assert_array_equal(scaled(np.ones(20)), np.full(19, 2.0))


def test_what_depends_on_more_than_the_specs_has_no_family(fresh: Families) -> None:
    def build(held: tuple[int, ...]) -> Any:  # forgets to look at the specs
        md_hom = md_hom_from_einsum("ij->i", (TensorSpec.of(held),))

        def built(_: Specs) -> Any:
            return Program.of(md_hom)

        return built

    for shape in ((12, 8), (14, 8), (15, 9)):
        specs = (TensorSpec.of(shape),)
        fresh.learn("key", build(shape)(specs), specs, build(shape))
        registry.engine_for().settle()
        assert fresh.member("key", specs) is None
        assert fresh.member("key", (TensorSpec.of((13, 8)),)) is None


@pytest.mark.parametrize("name", ["rows", "stencil, valid", "conv"])
def test_a_shape_with_a_kernel_of_its_own_is_left_to_the_engine(
    name: str, built: Callable[[Callable[[], Any]], Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Any = registry.engine_for()
    build, specs, _ = built(CALLS[name](54, 61))
    family = family_of(build(specs), specs, build, engine)
    assert family is not None
    for step in build(specs).steps:
        engine.untuned(engine.problem_of(step.md_hom))  # which compiles a kernel
    (structure,) = [refer() for refer in family.structures]
    decision = Decision(next(iter(structure.variants)), 1, 1e-5)

    def decided(*_: Any) -> Decision:
        return decision

    monkeypatch.setattr(engine.policy, "_decided", decided)
    numbers = numbers_of(specs)
    monkeypatch.setattr(engine.tiers, "texts", set[str]())
    assert family.member(numbers) is not None
    key = problem_key(Later(family, 0, numbers)())
    monkeypatch.setattr(engine.tiers, "texts", {key})
    assert family.member(numbers) is None


def test_families_are_bounded(fresh: Families, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh, "_kinds", Bounded(8))
    for n in range(30):
        mdt.reduce("ij->i", _ones(4, 5), extents={"i": 4, f"k{n}": 1})
        assert len(fresh) <= 8


def _arranged(rows: int, columns: int) -> list[Array]:
    """Matrices of ones that lie in memory in different ways."""
    row, column = _ones(1, columns), _ones(rows, 1)
    return [
        _ones(rows, columns),
        _ones(columns, rows).T,
        _ones(rows, 2 * columns)[:, ::2],
        _ones(2 * rows, columns)[::2],
        _ones(rows, columns)[::-1],
        _ones(rows, columns)[:, ::-1],
        np.broadcast_to(row, (rows, columns)),
        np.broadcast_to(column, (rows, columns)),
    ]


def test_calls_on_many_arrangements_of_operands_leave_room_for_families() -> None:
    for n in (50, 51):
        for rows, columns in ((n, 7), (1, 7), (n, 1), (1, 1)):
            for a in _arranged(rows, columns):
                mdt.einsum("ij,jk->ik", a, _ones(columns, 5))
        registry.engine_for().settle()
    mdt.einsum("ij,jk->ik", _ones(31, 7), _ones(7, 5))
    registry.engine_for().settle()
    with mdt.trace() as seen:
        mdt.einsum("ij,jk->ik", _ones(34, 7), _ones(7, 5))
    assert "translate" not in {span.stage for span in seen.calls[0].spans}
