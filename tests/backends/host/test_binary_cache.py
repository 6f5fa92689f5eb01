"""Machine code in a folder, and what the assembler's log tells."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cuda.bindings import nvrtc

from mdtensor.backends.cuda.nvrtc import machine_code
from mdtensor.backends.host.binary_cache import Binaries, MachineCode
from tests.kernels.nvrtc_compiler import succeeded

CODE = MachineCode(b"code\n\x00more", 40, 8)


def test_what_is_put_is_there_in_the_next_process(tmp_path: Path) -> None:
    Binaries(tmp_path / "cuda").put("key", CODE)
    assert Binaries(tmp_path / "cuda").get("key") == CODE
    assert Binaries(tmp_path / "cuda").get("another key") is None
    assert (tmp_path / "cuda").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [b"", b"{}\ncode", b"[]", b"\xff\xfe", b"torn"])
def test_what_is_broken_is_not_there(tmp_path: Path, content: bytes) -> None:
    binaries = Binaries(tmp_path)
    binaries.put("key", CODE)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1] if content == b"torn" else content)
    assert binaries.get("key") is None
    binaries.put("key", CODE)
    assert binaries.get("key") == CODE


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    binaries = Binaries(tmp_path / "file" / "deeper")
    binaries.put("key", CODE)
    assert binaries.get("key") is None


@pytest.mark.parametrize(("owner", "trusted"), [("user", True), (0, True), (4711, False)])
def test_what_another_user_put_there_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int | str, trusted: bool
) -> None:
    binaries = Binaries(tmp_path)
    binaries.put("key", CODE)
    owner = os.geteuid() if isinstance(owner, str) else owner
    whole = os.fstat

    def of_that_owner(handle: int) -> os.stat_result:
        fields = list(whole(handle)[:10])
        fields[stat.ST_UID] = owner
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", of_that_owner)
    assert (binaries.get("key") == CODE) == trusted


SPILLING = """
extern "C" __global__ __launch_bounds__(1024, 2) void spills(const float* a, float* b) {
  float held[120];
  #pragma unroll
  for (int n = 0; n < 120; n++) held[n] = a[n * 64 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int n = 0; n < 120; n++) b[(119 - n) * 64 + threadIdx.x] = held[n] * held[(n * 7) % 120];
}
extern "C" __global__ void copies(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x]; }
"""


def log_of(text: str) -> str:
    program = succeeded(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    options = [b"--gpu-architecture=sm_90a", b"--std=c++17", b"--ptxas-options=-v"]
    succeeded(nvrtc.nvrtcCompileProgram(program, len(options), options))
    log = bytearray(succeeded(nvrtc.nvrtcGetProgramLogSize(program)))
    succeeded(nvrtc.nvrtcGetProgramLog(program, log))
    succeeded(nvrtc.nvrtcDestroyProgram(program))
    return log.decode()


def test_the_log_tells_registers_and_what_is_spilled() -> None:
    machine = machine_code(b"", log_of(SPILLING))
    assert machine.registers == 32
    assert machine.spilled > 100
    copies = SPILLING[SPILLING.rindex("extern") :]
    assert machine_code(b"", log_of(copies)).spilled == 0
    assert 4 <= machine_code(b"", log_of(copies)).registers < 20
