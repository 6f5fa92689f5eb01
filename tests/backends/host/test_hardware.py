"""What the operating system tells about the processor."""

from __future__ import annotations

import pytest

from mdtensor.backends.host import hardware

X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
cpu MHz\t\t: 2596.120
flags\t\t: fpu avx avx2 avx512f
"""
ARM = """\
processor\t: 0
CPU implementer\t: 0x41
CPU part\t: 0xd40
Features\t: fp asimd
"""


@pytest.mark.parametrize(("text", "model"), [(X86, "26-2"), (ARM, "0x41-0xd40"), ("", "")])
def test_models_tell_processors_of_one_name_apart(
    monkeypatch: pytest.MonkeyPatch, text: str, model: str
) -> None:
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: text)
    assert hardware.processor_model() == model


def test_flags_and_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: X86)
    assert hardware.cpu_flags() == {"fpu", "avx", "avx2", "avx512f"}
    assert hardware.vector_unit() == (64, 32)
    assert hardware.clock_hertz() == pytest.approx(2.59612e9)
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: "")
    assert hardware.cpu_flags() == frozenset()
    assert hardware.clock_hertz(1e9) == 1e9


@pytest.mark.parametrize(
    ("text", "vectors"),
    [(X86, 2), (X86.replace("26", "25"), 1), (X86.replace("26", "25").replace("avx512f", ""), 2)],
)
def test_vectors_of_multiply_adds_a_cycle(
    monkeypatch: pytest.MonkeyPatch, text: str, vectors: int
) -> None:
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: text)
    assert hardware.multiply_adds_per_cycle() == vectors
