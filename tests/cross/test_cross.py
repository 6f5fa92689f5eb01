"""Kernels of other processors, run under QEMU and compared with the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mdtensor.kernels.kernel_source import KernelEntry, KernelSource
from mdtensor.kernels.llvm.language import LLVM_IR
from mdtensor.lower.ir.index import Index, as_index
from mdtensor.lower.ir.loop_nest import Argument
from tests.cross import emulated, fuzz_cross, fuzz_fronts
from tests.cross.cross_device import CrossDevice, CrossProgram
from tests.cross.emulated import EMULATED, MissingToolsError
from tests.cross.emulator import EmulatorError
from tests.kernels.kernel_cases import cpu
from tests.kernels.llvm.test_elementary_functions import (
    BOUNDS,
    DTYPES,
    OF_ONE,
    arguments,
    errors,
    module_of,
)
from tests.lower.fuzz import Case, check
from tests.lower.random_problems import guarded
from tests.lower.test_fuzz import MATVEC
from tests.workers import MismatchError

pytestmark = pytest.mark.cross
COUNT = 500
CALLS = 8  # of every front end


@pytest.mark.parametrize("processor", EMULATED)
def test_random_kernels_compute_what_the_oracle_computes(processor: str) -> None:
    EMULATED[processor].require()
    report = fuzz_cross.WORKERS.run(fuzz_cross.names_of(processor, 0, COUNT))
    assert not report.failures, str(report)
    assert report.counts["ok"] > 0.8 * COUNT, str(report)


@pytest.mark.parametrize("processor", EMULATED)
def test_random_calls_of_all_front_ends_are_right(processor: str) -> None:
    EMULATED[processor].require()
    names = fuzz_fronts.names_of(processor, 0, CALLS)
    report = fuzz_fronts.WORKERS.run(names)
    assert not report.failures, str(report)
    assert report.counts["ok"] == len(names)


# A kernel that calls `apply` on so many vectors, from one array to the other.
APPLIED = """
define void @kernel(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {{
  %to_at = getelementptr ptr, ptr %arguments, i64 1
  %from = load ptr, ptr %arguments
  %to = load ptr, ptr %to_at
  call void @apply(ptr %from, ptr %from, ptr %to, i64 {count})
  ret void
}}
"""


@pytest.mark.parametrize("processor", EMULATED)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_elementary_functions_err_by_less_than_the_bounds_that_are_stated(
    name: str, dtype: str, processor: str
) -> None:
    values = arguments(name, dtype)
    of_lanes: list[np.ndarray] = []
    for lanes in (1, 4, 16):
        text = module_of(name, dtype, lanes, False) + APPLIED.format(count=len(values) // lanes)
        x, found = placed(values), placed(np.zeros_like(values))
        compiled(processor, text, 2)(x, found)
        wrong = errors(name, x, found)
        assert np.where(np.isnan(wrong), np.inf, wrong).max() < BOUNDS[name]
        of_lanes.append(found)
    np.testing.assert_array_equal(of_lanes[0], of_lanes[1])
    np.testing.assert_array_equal(of_lanes[0], of_lanes[2])


def placed(values: np.ndarray) -> np.ndarray:
    """A copy on pages of its own."""
    copy = guarded(values.nbytes)[: values.nbytes].view(values.dtype)
    copy[:] = values
    return copy


def compiled(processor: str, text: str, count: int, *, whole_pages: bool = True) -> CrossProgram:
    """The function `kernel` of a module, of so many results, by default on pages of their own."""
    entry = KernelEntry("kernel", 1, as_index(1), Index())
    roles = (Argument("to", np.dtype(np.int32), "output"),) * count
    source = KernelSource(text, "llvm", (entry,), roles, (), False, inline=True)
    return CrossDevice(processor, whole_pages=whole_pages).compile(source)


KERNEL = """
define void @kernel(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {features} {{
  %to = load ptr, ptr %arguments
  %place = getelementptr i32, ptr %to, i64 {place}
  {store}, ptr %place
  ret void
}}
"""


def run_kernel(
    processor: str, place: int, store: str = "store i32 7", features: str = ""
) -> np.ndarray:
    """A kernel that stores something that many integers behind the beginning of a page."""
    result = placed(np.zeros(1024, np.int32))
    compiled(processor, KERNEL.format(place=place, store=store, features=features), 1)(result)
    return result


@pytest.mark.parametrize("processor", EMULATED)
def test_what_kernels_write_comes_back(processor: str) -> None:
    expected = np.zeros(1024, np.int32)
    expected[5] = 7
    np.testing.assert_array_equal(run_kernel(processor, 5), expected)


@pytest.mark.parametrize("processor", EMULATED)
@pytest.mark.parametrize("place", [-1, 1024])
def test_stores_beside_the_pages_end_the_process_and_programs_run_in_another_one(
    processor: str, place: int
) -> None:
    kept = compiled(processor, KERNEL.format(place=5, store="store i32 7", features=""), 1)
    with pytest.raises(EmulatorError, match="the emulated process ended by SIGSEGV"):
        run_kernel(processor, place)
    result = placed(np.zeros(1024, np.int32))
    kept(result)
    assert result[5] == 7


@pytest.mark.parametrize("processor", EMULATED)
def test_stores_between_the_elements_of_results_are_found(processor: str) -> None:
    whole = np.zeros(64, np.int32)
    right, wrong = (
        compiled(processor, text, 1, whole_pages=False)
        for text in (KERNEL.format(place=n, store="store i32 7", features="") for n in (6, 5))
    )
    right(whole[::2])
    assert list(np.flatnonzero(whole)) == [6]
    with pytest.raises(EmulatorError, match="wrote beside the elements of its results"):
        wrong(whole[::2])


@pytest.mark.parametrize("processor", EMULATED)
def test_a_kernel_that_subtracts_where_it_should_add_is_found(processor: str) -> None:
    class Wrong(CrossDevice):
        def compile(self, source: KernelSource, sizes: Sequence[int] = ()) -> CrossProgram:
            assert "fadd" in source.text
            return super().compile(replace(source, text=source.text.replace("fadd", "fsub")), sizes)

    case = Case(MATVEC, cpu(2, (1,)))
    assert check(case, partial(CrossDevice, processor, whole_pages=True), LLVM_IR)
    with pytest.raises(MismatchError, match="5 of 5 elements differ"):
        check(case, partial(Wrong, processor, whole_pages=True), LLVM_IR)


# Stores of vectors that these processors lack, and what makes LLVM write them nevertheless.
FOREIGN = {
    "haswell": ("store <16 x i32> zeroinitializer", "avx512f"),
    "apple-m1": ("store <vscale x 4 x i32> zeroinitializer", "sve"),
    "neoverse-n1": ("store <vscale x 4 x i32> zeroinitializer", "sve"),
}


@pytest.mark.parametrize("processor", FOREIGN)
def test_instructions_that_a_processor_lacks_end_the_process(processor: str) -> None:
    store, feature = FOREIGN[processor]
    with pytest.raises(EmulatorError, match="the emulated process ended by SIGILL"):
        run_kernel(processor, 0, store, f'"target-features"="+{feature}"')


def test_a_missing_tool_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.shutil, "which", lambda _: None)
    with pytest.raises(MissingToolsError) as found:
        EMULATED["apple-m1"].require()
    assert str(found.value) == (
        "kernels of apple-m1 need qemu-aarch64 and aarch64-linux-gnu-gcc to be tested here\n"
        "  hint: on Debian and Ubuntu: apt-get install --no-install-recommends"
        " qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    )
