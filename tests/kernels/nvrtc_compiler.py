"""NVRTC, which compiles CUDA and needs no GPU."""

from __future__ import annotations

from cuda.bindings import nvrtc

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a")


class RefusedError(Exception):
    """NVRTC did not compile a text; the message is its log."""


def compiled(text: str, architecture: str) -> str:
    """The PTX of a text, which was assembled for the architecture too."""
    return _compiled(text, architecture)[0]


def compiler_log(text: str, architecture: str) -> str:
    """What the compiler and the assembler say of a text."""
    return _compiled(text, architecture, "--ptxas-options=-v")[1]


def _compiled(text: str, architecture: str, *more: str) -> tuple[str, str]:
    program = succeeded(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    options = [o.encode() for o in (f"--gpu-architecture={architecture}", "--std=c++17", *more)]
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = bytearray(succeeded(nvrtc.nvrtcGetProgramLogSize(program)))
        succeeded(nvrtc.nvrtcGetProgramLog(program, log))
        said = log.decode(errors="replace").rstrip("\0")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RefusedError(said)
        ptx = bytearray(succeeded(nvrtc.nvrtcGetPTXSize(program)))
        succeeded(nvrtc.nvrtcGetPTX(program, ptx))
        return ptx.decode(), said
    finally:
        succeeded(nvrtc.nvrtcDestroyProgram(program))


def succeeded(answer):
    status, *values = answer
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None
