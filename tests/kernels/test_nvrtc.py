"""CUDA text compiled by NVRTC, which needs no GPU."""

from __future__ import annotations

import pytest
from cuda.bindings import nvrtc

from mdtensor.errors import LoweringError
from mdtensor.kernels.cstyle import render
from mdtensor.kernels.cuda import CUDA
from mdtensor.lower.lowering import lowered
from tests.kernels.kernel_cases import GPU_CASES, source
from tests.lower import fuzz

ARCHITECTURES = ("sm_80", "sm_90a")


class RefusedError(Exception):
    """NVRTC did not compile a text; the message is its log."""


def compiled(text: str, architecture: str) -> str:
    """The PTX of a text, which was assembled for the architecture too."""
    program = succeeded(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(succeeded(nvrtc.nvrtcGetProgramLogSize(program)))
            succeeded(nvrtc.nvrtcGetProgramLog(program, log))
            raise RefusedError(log.decode(errors="replace").rstrip("\0"))
        ptx = bytearray(succeeded(nvrtc.nvrtcGetPTXSize(program)))
        succeeded(nvrtc.nvrtcGetPTX(program, ptx))
        return ptx.decode()
    finally:
        succeeded(nvrtc.nvrtcDestroyProgram(program))


def succeeded(answer):
    status, *values = answer
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", GPU_CASES)
def test_compiles(name, architecture):
    program = source(name, CUDA)
    ptx = compiled(program.text, architecture)
    for entry in program.entries:
        assert f".entry {entry.name}(" in ptx


def test_what_is_no_cuda_is_refused():
    text = source("gpu_outer", CUDA).text.replace("const long long group", "const vector group")
    with pytest.raises(RefusedError, match=r'identifier "vector" is undefined'):
        compiled(text, "sm_80")


def test_random_kernels_compile():
    count = 0
    for name in fuzz.names_of(4, ("gpu",), 40):
        case = fuzz.random_case(name)
        try:
            nests = lowered(case.problem(), case.schedule)
        except LoweringError:
            continue
        compiled(render(nests, CUDA).text, "sm_80")
        count += 1
    assert count > 30
