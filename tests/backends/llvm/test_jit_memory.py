"""What LLVM keeps of programs that ended."""

from __future__ import annotations

import ctypes
import gc

import pytest

from mdtensor.backends.llvm.jit_compiler import JitCompiler

pytestmark = pytest.mark.campaign

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


def bytes_in_use() -> int:
    """What `malloc` has given and not got back."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    gc.collect()
    return int(libc.mallinfo2().uordblks)


def text_of(number: int) -> str:
    product = f"%y = fmul double %x, {number + 0.5!r}"
    return f"define double @kernel(double %x) {{\n  {product}\n  ret double %y\n}}\n"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="asks glibc")
def test_programs_that_ended_leave_little() -> None:
    """Where instructions are combined, LLVM keeps 2 kB of each; 9 kB were those of linkers."""
    jit = JitCompiler()

    def program(number: int) -> float:
        code = jit.object_code(text_of(number), hasty=number % 2 == 0)
        (address,), library = jit.addresses(code, ["kernel"])
        result = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0)
        del library
        return result

    for number in range(64):  # what is made once
        program(number)
    before = bytes_in_use()
    count = 256
    for number in range(count):
        assert program(number) == 2 * (number + 0.5)
    assert (bytes_in_use() - before) / count < 2500


def test_programs_outlive_others_of_their_linker() -> None:
    jit = JitCompiler()
    code = jit.object_code(text_of(3))
    kept = [jit.addresses(code, ["kernel"]) for _ in range(100)][::7]
    gc.collect()
    for (address,), _ in kept:
        assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0) == 7.0
