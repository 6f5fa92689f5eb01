"""Object files for other processors, and the facts about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from llvmlite import binding

from mdtensor.api.engine.kernel_choice import DIALECTS
from mdtensor.backends.host import hardware
from mdtensor.backends.llvm import llvm_device
from mdtensor.backends.llvm.object_compiler import ObjectCompiler
from mdtensor.backends.llvm.processors import PROCESSORS
from mdtensor.kernels.program import program_of
from mdtensor.lower.problem.problem import problem_from_md_hom
from mdtensor.lower.search.candidates import ranked
from mdtensor.specs import TensorSpec
from mdtensor.translate.einsum.md_hom_from_einsum import md_hom_from_einsum

# Numbers of architectures in the heads of ELF files.
_MACHINES = {"aarch64": 183, "x86_64": 62}
PRODUCT = md_hom_from_einsum("ij,jk->ik", [TensorSpec.of((512, 512)), TensorSpec.of((512, 512))])


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_favourite_schedule_of_a_product_compiles_for_every_processor(name: str) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    processor = PROCESSORS[name]
    compiler = ObjectCompiler(binding, processor.triple, name, features="")
    problem = problem_from_md_hom(PRODUCT)
    target = processor.target("LLVM")
    _, schedule = ranked(problem, target, most=1)[0]
    text = program_of(problem, schedule, DIALECTS[target.dialect]).text
    code = compiler.object_code(text)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == _MACHINES[processor.machine]
    multiply_add = {"aarch64": "fmla", "x86_64": "vfmadd"}[processor.machine]
    assert compiler.assembly(text).count(multiply_add if processor.fused else "mulps") > 8


@pytest.fixture
def silent_arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system on an Arm processor that tells neither clock nor caches."""
    monkeypatch.setattr(hardware.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(hardware, "_cpuinfo", lambda: "")
    monkeypatch.setattr(hardware, "_CACHES", tmp_path)


@pytest.mark.usefixtures("silent_arm")
@pytest.mark.parametrize("name", ["apple-m1", "apple-m4", "neoverse-v2"])
def test_what_systems_do_not_tell_is_known_by_the_name(name: str) -> None:
    known = PROCESSORS.get(name, PROCESSORS["apple-m1"])
    found = llvm_device._target(
        SimpleNamespace(processor=name, version="22", features=""), known.cores
    )
    expected = known.target("LLVM 22")
    assert found == replace(expected, name=name, bandwidth=found.bandwidth)


@pytest.mark.usefixtures("silent_arm")
def test_unknown_processors_have_modest_facts() -> None:
    found = llvm_device._target(SimpleNamespace(processor="generic", version="22", features=""), 2)
    caches = found.l1_bytes, found.l2_bytes, found.l3_bytes
    assert (found.clock, found.units, *caches) == (3e9, 2, 32 << 10, 512 << 10, 16 << 20)


@pytest.mark.parametrize(
    ("flags", "dialect"),
    [
        ("avx512f avx512vl fma f16c", "llvm-avx512"),
        ("avx2 fma f16c", "llvm-fma"),
        ("avx2 fma", "llvm"),
        ("avx f16c", "llvm"),
        ("", "llvm"),
    ],
)
def test_the_language_is_that_of_the_instructions(
    flags: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(hardware, "cpu_flags", lambda: frozenset(flags.split()))
    assert llvm_device._dialect() == dialect


def test_processors_have_the_rate_that_their_clock_and_units_tell() -> None:
    target = PROCESSORS["neoverse-v2"].target("LLVM")
    assert (target.clock, target.rate) == (2.8e9, 2.8e9 * 4 * 4)
    assert all(name == processor.name for name, processor in PROCESSORS.items())
