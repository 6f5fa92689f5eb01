"""Kernels that LLVM compiled, against NumPy in float64 and against the oracle."""

import pytest

from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.object_compiler import recipe
from mdtensor.errors import CompileError
from mdtensor.kernels.llvm.language import LLVM_IR
from tests import children
from tests.lower.fuzz import MD_HOM, TRANSPOSED, names_of
from tests.lower.fuzz_llvm import outcome


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 12))
def test_random_einsums_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 12, kind=MD_HOM))
def test_random_reductions_scans_and_stencils_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(3, ("cpu",), 6, kind=TRANSPOSED))
def test_results_far_apart_along_lanes_are_right(name):
    outcome(name)


@pytest.mark.parametrize("name", names_of(4, ("cpu",), 6))
def test_products_that_are_not_fused_are_right(name):
    outcome(name, LLVM_IR)


@pytest.mark.parametrize("name", ["0/cpu/45", "1/cpu/164/md_hom"])
def test_float64_is_stored_as_float16(name):
    assert outcome(name) == "ok"


def test_what_llvm_refuses_is_told():
    with pytest.raises(CompileError, match="LLVM refused a kernel: "):
        JitCompiler().object_code("define void @f() { ret i32 }")


def test_large_kernels_are_optimised():
    """A logsumexp product of 512³ has 508 kB: compiled in haste it took four times as long."""
    (level, passes), hasty = (recipe(" " * 600_000, hasty=hasty) for hasty in (False, True))
    assert (level, hasty[0]) == (2, 0)
    assert set(hasty[1]) < set(passes)


def test_what_lies_between_two_bounds_is_asked_at_once():
    """Histograms compare each index with both ends: one comparison without signs says both."""
    text = """
define i1 @between(i64 %index) {
  %least = icmp slt i64 -1, %index
  br i1 %least, label %further, label %end
further:
  %most = icmp slt i64 %index, 256
  br label %end
end:
  %found = phi i1 [ false, %0 ], [ %most, %further ]
  ret i1 %found
}
"""
    _, module = JitCompiler()._objects._optimised(text, hasty=False)
    assert str(module).count("icmp") == 1


# A daemon thread that waits for the compiler and holds what a handler of the exit needs.
LATE = """
import atexit, threading
held = threading.Lock()
atexit.register(lambda: print(held.acquire(timeout=60)))
from mdtensor.backends.llvm.jit_compiler import JitCompiler
jit, waits = JitCompiler(), threading.Event()
class Lock:
    def acquire(self, **options):
        if threading.current_thread() is not threading.main_thread():
            waits.set()
        return lock.acquire(**options)
    def release(self):
        lock.release()
lock, jit._lock = jit._lock, Lock()
def compiles():
    with held:
        jit.object_code("define void @kernel() { ret void }")
lock.acquire()
threading.Thread(target=compiles, daemon=True).start()
waits.wait()
"""


@pytest.mark.process
def test_who_waits_for_the_compiler_at_the_exit_ends_there() -> None:
    end = children.run("-c", LATE)
    assert (end.out, end.err) == ("True\n", "")
