"""Random quadruples against the oracle, and what makes that comparison one that can fail."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from mdtensor.lower.codegen.base.staged_layouts import staged_dtype
from mdtensor.lower.lowering import lowered
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.problem.scatter_pattern import selection_of
from mdtensor.specs import TensorSpec
from mdtensor.translate.combine import CC, Concat, Pointwise, PrefixSum, named
from mdtensor.translate.md_hom import Dim, MDHom
from mdtensor.translate.reference import compute
from mdtensor.translate.scalar import Expr, apply, cast, const, index_of, param, select
from mdtensor.translate.scalar_function import ScalarFunction
from mdtensor.translate.trees import dims_in
from mdtensor.translate.views import AffineIndex, BufferAccess, BufferSpec, ComputedIndex
from tests import workers
from tests.kernels.kernel_cases import cpu, gpu
from tests.lower import fuzz, fuzz_cuda, fuzz_llvm
from tests.lower.md_hom_cases import MDHomCase, StagedRun, narrowest, single_case
from tests.lower.random_problems import Einsum, Operand, Placed
from tests.lower.random_scalars import magnitude
from tests.lower.running import compare

DRAWN = 300
COUNT = int(os.environ.get("MDTENSOR_TEST_KERNELS", "30"))  # of those, compiled
MATVEC = Einsum(
    "ij,j->i",
    (
        Operand("f4", (5, 37), (0, 1), (1, 1), (0, 0)),
        Operand("f4", (37,), (0,), (1,), (0,)),
    ),
    Operand("f4", (5,), (0,), (2,), (0,)),
)


@pytest.mark.process
def test_random_kernels_compute_what_the_oracle_computes():
    report = fuzz.WORKERS.run(fuzz.names_of(2, fuzz.FAMILIES, COUNT))
    assert not report.failures, str(report)
    assert report.counts["ok"] > 0.8 * COUNT, str(report)
    assert report.counts[workers.COMPILER] < 0.05 * COUNT, str(report)


BFLOATS = fuzz.names_of(31, ("cpu",), COUNT, kind=fuzz.BFLOATS)


@pytest.mark.process
@pytest.mark.parametrize("by", [fuzz, fuzz_llvm], ids=["opencl", "llvm"])
def test_bfloats_are_what_the_oracle_computes(by):
    report = by.WORKERS.run(BFLOATS)
    assert not report.failures, str(report)
    assert report.counts["ok"] > 0.8 * len(BFLOATS), str(report)


def test_cases_of_bfloats_are_of_several_types():
    cases = [fuzz.random_einsum_case(name).einsum for name in BFLOATS]
    assert {o.dtype for case in cases for o in case.operands} == {"bfloat16", "float32", "float64"}
    assert {case.out.dtype for case in cases} == {"bfloat16", "float32", "float64"}


TRANSPOSED = fuzz.names_of(21, ("cpu",), DRAWN, kind=fuzz.TRANSPOSED)


@pytest.mark.process
def test_rows_that_are_transposed_are_what_the_oracle_computes():
    report = fuzz.WORKERS.run(TRANSPOSED[:COUNT])
    assert not report.failures, str(report)
    assert report.counts["ok"] > 0.8 * COUNT, str(report)


def test_rows_are_transposed_in_most_cases_of_that_kind():
    cases = [fuzz.random_einsum_case(name) for name in TRANSPOSED]
    transposed = [case for case in cases if case.schedule.transposed]
    assert len(transposed) > 0.5 * DRAWN
    assert {case.general for case in transposed} == {True, False}
    assert {case.schedule.streaming for case in transposed} == {True, False}


MD_HOMS = fuzz.names_of(12, fuzz.FAMILIES, DRAWN, kind=fuzz.MD_HOM)


@pytest.mark.process
def test_kernels_of_random_md_homs_compute_what_the_oracle_computes():
    report = fuzz.WORKERS.run(MD_HOMS[:COUNT])
    assert not report.failures, str(report)
    assert report.counts["ok"] > 0.9 * COUNT, str(report)
    assert report.counts[workers.COMPILER] < 0.05 * COUNT, str(report)


@pytest.mark.parametrize("kind", ["", fuzz.MD_HOM, fuzz.TRANSPOSED, fuzz.BFLOATS])
def test_a_case_is_known_by_its_name(kind):
    first, again = (fuzz.random_case(f"7/cpu/3{kind}") for _ in range(2))
    assert first == again
    assert first != fuzz.random_case(f"7/cpu/5{kind}")


def test_random_md_homs_are_of_every_sort():
    seen = Counter[str]()
    for case in map(fuzz.random_case, MD_HOMS):
        assert isinstance(case, MDHomCase)
        seen.update(set(sorts_of(case)))
    rare = {name: count for name, count in seen.items() if count < 5}
    assert not rare
    assert seen.keys() == SORTS


SORTS = {
    *(f"{rank} dims" for rank in (1, 2, 3, 4)),
    *("cc", "pw", "ps", "several stages", "no identity", "does not commute", "tuples"),
    *("index functions", "gathers", "several accesses", "several outputs", "one output for all"),
    *("epilogue", "epilogue that reads", "general", "fixed", "exact", "inexact"),
    *(
        "selected",
        "scattered",
        "diagonal",
        "negative step",
        "two dims share an axis",
        "strided buffers",
    ),
    *(f"of {kind}" for kind in ("bool", "int", "uint", "float", "complex")),
}


def sorts_of(case: MDHomCase) -> Iterator[str]:
    md_hom = case.md_hom()
    yield f"{len(md_hom.dims)} dims"
    for dim in md_hom.dims:
        yield {Concat: "cc", Pointwise: "pw", PrefixSum: "ps"}[type(dim.combine)]
    for op in md_hom.operators:
        yield from ("no identity",) if op.identity is None else ()
        yield from ("does not commute",) if not op.commutative else ()
        yield from ("tuples",) if len(op.dtypes) > 1 else ()
    if len(case.stages) > 1:
        yield "several stages"
    if any(dims_in(result) for result in md_hom.scalar.results):
        yield "index functions"
    for access in md_hom.accesses:
        yield from _sorts_of_access(access)
    if len(md_hom.inp_view) > len({access.buffer for access in md_hom.inp_view}):
        yield "several accesses"
    if len(md_hom.out_view) > 1:
        yield "several outputs" if len(md_hom.outputs) > 1 else "one output for all"
    if md_hom.epilogue is not None:
        yield "epilogue that reads" if md_hom.epilogue.view else "epilogue"
    for problem, schedule in zip(case.problems(), case.schedules, strict=True):
        if selection_of(problem) is not None:
            yield "scattered" if schedule.scatter else "selected"
    yield "general" if case.general else "fixed"
    yield "exact" if case.drawn.exact else "inexact"
    for buffer in (*md_hom.inputs, *md_hom.outputs):
        yield "of " + buffer.spec.dtype.name.rstrip("0123456789")
        if not buffer.spec.is_contiguous:
            yield "strided buffers"


def _sorts_of_access(access: BufferAccess) -> Iterator[str]:
    if not access.is_affine:
        yield "gathers"
    axes = [axis for axis in access.index if isinstance(axis, AffineIndex)]
    if any(len(axis.dims) > 1 for axis in axes):
        yield "two dims share an axis"
    if any(coefficient < 0 for axis in axes for _, coefficient in axis.coefficients):
        yield "negative step"
    if len(set(access.dims)) < sum(len(axis.dims) for axis in axes):
        yield "diagonal"


def test_cases_reach_every_part_of_a_schedule():
    cases = [fuzz.random_case(name) for name in fuzz.names_of(2, fuzz.FAMILIES, DRAWN)]
    problems = [case.problem() for case in cases]
    seen = set[str]()
    for case, problem in zip(cases, problems, strict=True):
        schedule = case.schedule
        seen |= {f"staged in {region}" for region in schedule.staged if region}
        seen |= {f"tail {schedule.tail}", f"{len(problem.extents)} dims"}
        seen |= {f"{schedule.width} lanes", "general" if case.general else "fixed"}
        if 0 <= schedule.lane < len(problem.extents):
            seen.add("reduced lanes" if problem.reduced[schedule.lane] else "kept lanes")
        if schedule.streaming:
            seen.add("streaming")
        if schedule.peel:
            seen.add("peel")
        if schedule.ahead:
            seen.add("ahead")
        for d in problem.dims[: len(schedule.threads)]:
            if schedule.threads[d] > 1:
                seen.add("reduced threads" if problem.reduced[d] else "kept threads")
    assert seen >= {
        *(f"staged in {region}" for region in ("scratch", "private", "local")),
        *(f"tail {tail}" for tail in ("split", "pad", "overlap")),
        *(f"{width} lanes" for width in (1, 2, 4, 8, 16)),
        *(f"{rank} dims" for rank in range(5)),
        *("general", "fixed", "reduced lanes", "kept lanes", "streaming"),
        *("peel", "ahead"),
        *("reduced threads", "kept threads"),
    }


class Kernel:
    """Stands for a compiled program: computes a matrix-vector product, then does some harm."""

    def __init__(self, harm):
        self.harm = harm

    def __call__(self, matrix, vector, out):
        out[...] = matrix @ vector
        self.harm(matrix, vector, out)


def nothing(matrix, vector, out):
    pass


def one_wrong_element(matrix, vector, out):
    out[3] *= 1.0001


def one_element_not_written(matrix, vector, out):
    out[4] = np.nan


def a_gap_written(matrix, vector, out):
    np.ndarray(1, np.float32, out.base, out.__array_interface__["data"][0] % 4096 + 4096 + 4)[0] = 0


def an_input_written(matrix, vector, out):
    vector[0] = 0


def test_a_right_kernel_passes():
    fuzz.check_program(Kernel(nothing), MATVEC, 0)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (one_wrong_element, r"1 of 5 elements differ, the first at \(3,\)"),
        (one_element_not_written, r"1 of 5 elements differ, the first at \(4,\)"),
        (a_gap_written, "bytes beside the output changed"),
        (an_input_written, "bytes of input 1 changed"),
    ],
)
def test_a_wrong_kernel_is_caught(harm, message):
    with pytest.raises(fuzz.MismatchError, match=message):
        fuzz.check_program(Kernel(harm), MATVEC, 0)


class Oracle:
    """Stands for the compiled program of one stage, and does some harm."""

    def __init__(self, md_hom: MDHom, harm):
        self.md_hom, self.harm = md_hom, harm

    def __call__(self, *arrays):
        inputs, outputs = arrays[: len(self.md_hom.inputs)], arrays[len(self.md_hom.inputs) :]
        given = [array.copy() for array in outputs]
        compute(self.md_hom, inputs, given)
        for output, values in zip(outputs, given, strict=True):
            output[...] = values
        self.harm(inputs, outputs)


def by_one(inputs, outputs):
    outputs[-1][0] += 1


def written_where_nothing_is(inputs, outputs):
    outputs[0][1] = 0


def first_input(inputs, outputs):
    inputs[0][...] = 0


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (by_one, "output 1: 1 of 4 elements differ"),
        (written_where_nothing_is, "output 0: 1 of 7 elements differ"),
        (first_input, r"\d+ bytes of input 0 changed"),
    ],
)
def test_a_wrong_kernel_of_an_md_hom_is_caught(harm, message):
    x = param(0, "f4")
    spread = MDHom(
        (Dim("i", 4, PrefixSum(named("add", ["f4", "f4"]))),),
        ScalarFunction((np.dtype("f4"),), (x, x * 2), "f"),
        (BufferSpec("x", TensorSpec.of((4,), "f4")),),
        (BufferSpec("y", TensorSpec.of((7,), "f4")), BufferSpec("z", TensorSpec.of((4,), "f4"))),
        (BufferAccess(0, (AffineIndex.of("i"),)),),
        (BufferAccess(0, (AffineIndex.of(i=2),)), BufferAccess(1, (AffineIndex.of("i"),))),
    )
    case = single_case(spread, cpu(1, (0,), staged=("",)), ((1, 9),))
    run = StagedRun(case.drawn, case.stages, 0)
    run.check(0, Oracle(spread, lambda inputs, outputs: None))
    with pytest.raises(fuzz.MismatchError, match=message):
        run.check(0, Oracle(spread, harm))


# Of float16, the largest number is 65504, and what lies beyond 65520 is an infinity.
@pytest.mark.parametrize(
    ("result", "expected", "tolerance"),
    [
        (np.inf, 70000.0, 70.0),
        (-np.inf, -70000.0, 70.0),
        (np.inf, 65510.0, 64.0),
        (65504.0, 65510.0, 64.0),
        (np.inf, 3.0, np.inf),
        (np.nan, 3.0, np.inf),
    ],
)
def test_numbers_that_may_be_too_large_may_be_infinities(result, expected, tolerance):
    compare(np.array([result], "f2"), np.array([expected]), np.array([tolerance]))


@pytest.mark.parametrize(
    ("result", "expected", "tolerance"),
    [
        (-np.inf, 70000.0, 70.0),
        (np.nan, 70000.0, 70.0),
        (60000.0, 70000.0, 70.0),
        (np.inf, 65000.0, 64.0),
        (np.inf, 3.0, 1.0),
        (3.5, 3.0, 0.1),
    ],
)
def test_no_other_number_is_right(result, expected, tolerance):
    with pytest.raises(fuzz.MismatchError, match="1 of 1 elements differ"):
        compare(np.array([result], "f2"), np.array([expected]), np.array([tolerance]))


HALVES = Einsum(
    "i->",
    (Operand("f8", (3,), (0,), (1,), (0,)),),
    Operand("f2", (), (), (), ()),
    dtype="f8",
)


def test_a_sum_that_overflows_is_right_and_another_number_is_not():
    expected, tolerance = fuzz.expectation(HALVES, [np.array([6e4, 6e4, -1e4])])
    assert tolerance is not None
    compare(np.array(np.inf, "f2"), expected, tolerance)
    with pytest.raises(fuzz.MismatchError):
        compare(np.array(6e4, "f2"), expected, tolerance)


def test_a_sum_that_is_held_in_too_small_a_type_may_be_anything():
    held = replace(HALVES, operands=(Operand("f4", (3,), (0,), (1,), (0,)),), dtype=None)
    _, tolerance = fuzz.expectation(held, [np.array([3e38, 3e38, -3e38], "f4")])
    assert tolerance == np.inf
    _, tolerance = fuzz.expectation(held, [np.array([3e30, 3e30, -3e30], "f4")])
    assert tolerance is not None
    assert np.isfinite(tolerance)


def test_rounding_errors_are_bounded_by_magnitudes():
    a, b = param(0, "f4"), param(1, "f4")
    assert repr(magnitude(a * 2 - b)) == "((abs(p0) * abs(2)) + abs(p1))"
    assert repr(magnitude(apply("min", a, -b))) == "max(abs(p0), abs(p1))"
    whole = cast(a, "c8") - cast(-b, "c8")
    assert repr(magnitude(whole)) == "(complex64(abs(p0)) + complex64(abs(p1)))"
    assert "hypot(real(p2), imag(p2))" in repr(magnitude(param(2, "c8")))
    assert repr(magnitude(apply("imag", whole))) == f"real({magnitude(whole)})"


def test_the_narrowest_floats_are_also_those_of_complex_numbers():
    x = param(0, "f8")
    assert narrowest(of_elements(x * 2, cast(x, "c16"), types=("f8",))) is np.float64
    assert narrowest(of_elements(x * 2, cast(x, "c8"), types=("f8",))) is np.float32


@pytest.mark.campaign
def test_a_worker_that_crashes_or_hangs_fails_its_case_only(monkeypatch):
    """One that says nothing for 12 seconds hangs."""
    monkeypatch.setattr(workers, "SECONDS", 12)
    monkeypatch.setenv("MDTENSOR_TEST_FUZZ_HARM", "3/cpu/0=crash 3/cpu/2=hang")
    report = fuzz.WORKERS.run(fuzz.names_of(3, ("cpu",), 4))
    assert set(report.failures) == {"3/cpu/0", "3/cpu/2"}
    assert "the process ended with -11" in report.failures["3/cpu/0"]
    assert "no answer in 12 s" in report.failures["3/cpu/2"]
    assert report.counts.total() == 2


def aborts(name: str):
    os.abort()


def sleeps(name: str):
    time.sleep(600)
    return name, "ok"


def answers(name: str):
    return name, f"ok: {name}"


@pytest.mark.parametrize(
    ("run", "seconds", "said"),
    [
        (aborts, 300, "CRASHED the process ended with -6"),
        (sleeps, 0.5, "HUNG no answer in 0.5 s, alone"),
        (answers, 300, "ok: 3/gpu/0"),
    ],
)
def test_a_case_alone_tells_a_crash_from_a_hang(run, seconds, said):
    assert fuzz_cuda.alone(run, "3/gpu/0", seconds) == said


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("steps", [(1, 1), (-1, 2), (0, -3)])
def test_elements_are_placed_where_the_strides_say(at_end, steps):
    operand = Operand("i4", (3, 4), (1, 0), steps, (1, 2), at_end=at_end, offset=1)
    values = np.arange(12, dtype="i4").reshape(3, 4)
    placed = Placed(operand, values)
    assert placed.array.strides == tuple(4 * stride for stride in operand.strides)
    expected = np.broadcast_to(values[:1], (3, 4)) if steps[0] == 0 else values
    assert np.array_equal(placed.array, expected)
    assert placed.changed() == 0
    placed.array[0, 0] = -1
    assert placed.strays() == 0
    assert placed.changed() > 0


@pytest.mark.parametrize("kind", ["", fuzz.MD_HOM, fuzz.TRANSPOSED])
def test_a_gpu_gets_schedules_with_resident_accumulators_too(kind):
    cases = [fuzz_cuda.case_of(name) for name in fuzz.names_of(5, ("gpu",), 60, kind=kind)]
    pairs = [pair for c in cases for pair in zip(c.problems(), c.schedules, strict=True)]
    resident = [s.resident for problem, s in pairs if problem.contracted and problem.scanned < 0]
    assert 0.3 < np.mean(resident) < 0.7


@pytest.mark.parametrize("name", ["5/gpu/1/md_hom", "5/gpu/2", f"5/gpu/3 {fuzz_cuda.SPACE}"])
def test_a_processor_computes_by_schedules_of_a_gpu(name):
    case = fuzz_cuda.case_of(f"{name} {fuzz_cuda.OPENCL_TOO}")
    assert all(schedule.asm == "gpu" and not schedule.cluster for schedule in case.schedules)
    assert fuzz_cuda.outcome(f"{name} {fuzz_cuda.OPENCL_TOO}")[1] == "ok"


def test_random_schedules_are_mostly_accepted():
    rng = random.Random(0)
    names = fuzz.names_of(rng.randrange(100), fuzz.FAMILIES, 200)
    refused = 0
    for case in map(fuzz.random_case, names):
        try:
            lowered(case.problem(), case.schedule)
        except fuzz.LoweringError:
            refused += 1
    assert 0 < refused < 40


def test_a_general_program_serves_other_shapes():
    case = replace(fuzz.random_case("2/cpu/0"), einsum=MATVEC, general=True)
    others = list(fuzz.other_shapes(case))
    assert others
    assert others[0].problem() == case.problem()
    assert others[0].einsum != case.einsum


ONCE_WRONG = {
    # Kernels without fault, from which Intel's compiler made stores to wrong places: given pointers
    # with restrict, and where either a loop's only step or what remains is run.
    "five or four by tiles": fuzz.Case(
        Einsum(
            "pj,j->pj",
            (
                Operand("i4", (5, 64), (0, 1), (1, 1), (0, 0)),
                Operand("i4", (64,), (0,), (1,), (0,)),
            ),
            Operand("c8", (5, 64), (0, 1), (1, 1), (0, 0), at_end=True),
        ),
        cpu(2, (), parts=(4, 1), tiles=(0, 5), registers=(1, 5)),
    ),
    "five or four by groups": fuzz.Case(
        Einsum(
            "m,p,p->mp",
            (
                Operand("u1", (5,), (0,), (1,), (0,)),
                Operand("u1", (9,), (0,), (1,), (0,)),
                Operand("u1", (9,), (0,), (3,), (3,)),
            ),
            Operand("u1", (5, 9), (0, 1), (1, 1), (0, 0)),
        ),
        gpu(2, (), parts=(5, 2), registers=(1, 5), group_order=(1, 0), staged=("", "", "")),
    ),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_what_was_wrong_once(name):
    assert fuzz.check(ONCE_WRONG[name])


def of_elements(*results: Expr, types: tuple[str, ...]) -> MDHom:
    """The md_hom that applies expressions of elements of several vectors to all of them."""
    every = (AffineIndex.of("i"),)
    outputs = [BufferSpec(f"y{n}", TensorSpec.of((37,), r.dtype)) for n, r in enumerate(results)]
    return MDHom(
        (Dim("i", 37, CC),),
        ScalarFunction(tuple(map(np.dtype, types)), results),
        tuple(BufferSpec(f"x{n}", TensorSpec.of((37,), t)) for n, t in enumerate(types)),
        tuple(outputs),
        tuple(BufferAccess(n, every) for n in range(len(types))),
        tuple(BufferAccess(n, every) for n in range(len(results))),
    )


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2"])
def test_small_integers_keep_their_type_inside_functions(dtype):
    a, b = param(0, dtype), param(1, dtype)
    chosen = select(apply("lt", a, b), a, b)
    md_hom = of_elements(apply("min", a | b, b), apply("max", chosen, a), types=(dtype,) * 2)
    schedule = cpu(1, (), registers=(4,), staged=("",) * 2)
    assert fuzz.check(single_case(md_hom, schedule, ((0, 9), (0, 9))))


def test_a_staged_array_keeps_the_type_that_its_places_are_computed_from():
    """Places of a gather are computed from what the scalar function takes as floats."""
    given, taken = param(0, "u1"), param(1, "f4")
    place = ComputedIndex(cast(given * 16, "i8"))
    rows, all_of = (AffineIndex.of("i"),), (AffineIndex.of("i"), AffineIndex.of("j"))
    md_hom = MDHom(
        (Dim("i", 9, CC), Dim("j", 5, CC)),
        ScalarFunction((given.dtype, taken.dtype), (cast(given, "f4") + taken,)),
        (
            BufferSpec("at", TensorSpec.of((9,), "u1")),
            BufferSpec("x", TensorSpec.of((300, 5), "f4")),
        ),
        (BufferSpec("y", TensorSpec.of((9, 5), "f4")),),
        (BufferAccess(0, rows), BufferAccess(1, (place, AffineIndex.of("j")))),
        (BufferAccess(0, all_of),),
    )
    problem = problem_from_md_hom(md_hom)
    assert staged_dtype(problem, 0) == np.uint8
    schedule = cpu(2, (), registers=(2, 1), staged=("private", ""))
    assert fuzz.check(single_case(md_hom, schedule, ((0, 255), (-9, 9))))


def test_counting_what_remains():
    """Where an If guarded what remained, Intel's compiler made a count from nothing."""
    i, j = "i", "j"
    mean = named("add", ["f4", "i4"])
    md_hom = MDHom(
        (Dim(i, 64, Pointwise(mean)), Dim(j, 64, Pointwise(mean))),
        ScalarFunction(
            (np.dtype("u4"),), (cast(apply("mod", index_of(j), 3), "f4"), const(1, "i4"))
        ),
        (BufferSpec("x", TensorSpec.of((64,), "u4")),),
        (BufferSpec("sum", TensorSpec.of((), "f4")), BufferSpec("count", TensorSpec.of((), "i4"))),
        (BufferAccess(0, (AffineIndex.of(j),)),),
        (BufferAccess(0, ()), BufferAccess(1, ())),
    )
    schedule = gpu(
        2,
        (0, 1),
        parts=(3, 1),
        registers=(6, 1),
        group_order=(1, 0),
        reduce_order=(1, 0),
        staged=("local",),
    )
    assert fuzz.check(single_case(md_hom, schedule, ((0, 9),)))
