"""Programs of winners: what was kept is loaded, and only for what it was kept for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.engine import program_cache, registry, tiers
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import Structures
from mdtensor.api.engine.program_cache import Winners
from mdtensor.autotune.store.store import Store
from mdtensor.backends.host.binary_cache import remove_kept
from mdtensor.errors import CompileError
from mdtensor.kernels.kernel_source import KernelSource
from mdtensor.lower.problem.generic_problem import GENERALISE
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.problem.problem_key import problem_key
from mdtensor.lower.schedule.default_schedule import plain
from mdtensor.translate.md_hom import MDHom
from tests import children
from tests.api import stand_in_bench

A, B = np.random.default_rng(0).random((2, 24, 24), np.float32)


def problem_of(text: str = "ij,jk->ik") -> Problem:
    (md_hom,) = mdt.compile(text, A, B).md_homs
    return registry.engine_for().problem_of(md_hom)


@pytest.fixture
def lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether a problem had to be lowered; its program is checked."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    engine = registry.engine_for()

    def was_lowered(problem: Problem, environment: str = "here", *, tile: int = 1) -> bool:
        schedule = replace(plain(problem), registers=(tile, 1, 1))
        made: list[None] = []

        def source() -> KernelSource:
            made.append(None)
            return engine.source(problem, schedule)

        found, program = Winners(engine.device, environment, Store.in_memory).program(
            problem, schedule, source
        )
        assert found == engine.source(problem, schedule)
        program(A, B, result := np.empty_like(A))
        np.testing.assert_allclose(result, A @ B, rtol=1e-5)
        return bool(made)

    return was_lowered


def test_what_was_kept_is_loaded_and_not_lowered(lowered: Callable[..., bool]) -> None:
    assert lowered(problem_of())
    assert not lowered(problem_of())


def test_another_problem_schedule_or_environment_is_another_program(
    lowered: Callable[..., bool],
) -> None:
    assert lowered(problem_of())
    assert lowered(problem_of(), tile=2)
    assert lowered(problem_of(), "elsewhere")
    assert lowered(problem_of("ab,bc->ac"))
    assert not lowered(problem_of())


def test_a_problem_of_the_same_key_is_told_apart(lowered: Callable[..., bool]) -> None:
    problem = problem_of()
    other = replace(problem, reaches=())
    assert problem_key(problem) == problem_key(other)
    assert lowered(problem)
    assert lowered(other)
    assert not lowered(other)


def test_changed_code_lowers_again(
    lowered: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lowered(problem_of())
    monkeypatch.setattr(program_cache, "_codegen_fingerprint", lambda: "changed")
    assert lowered(problem_of())


def test_a_file_that_is_written_changes_the_codegen_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mdt, "__file__", str(tmp_path / "__init__.py"))
    for folder in program_cache._FOLDERS:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    state = program_cache._codegen_fingerprint.__wrapped__
    before = state()
    (tmp_path / "lower" / "pass.py").write_text("pass")
    written = state()
    (tmp_path / "lower" / "pass.py").write_text("...  ")
    rewritten = state()
    (tmp_path / "lower" / "below").mkdir()
    (tmp_path / "lower" / "below" / "pass.py").write_text("pass")
    assert len({before, written, rewritten, state()}) == 4


def test_the_codegen_fingerprint_of_an_archive_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "mdtensor.zip"
    monkeypatch.setattr(mdt, "__file__", str(archive / "mdtensor" / "__init__.py"))
    state = program_cache._codegen_fingerprint.__wrapped__
    archive.write_bytes(b"one")
    before = state()
    archive.write_bytes(b"another")
    assert state() != before


PICKLE = b"cos\nsystem\n(S'touch marker'\ntR."
OTHER = json.dumps({"source": {"text": 1}, "registers": 0, "spilled": 0}).encode() + b"\ncode"


@pytest.mark.parametrize("content", [PICKLE, b"", b"[]\ncode", b"[" * 100_000, OTHER])
def test_what_other_code_kept_is_made_again(
    lowered: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lowered(problem_of())
    (file,) = (tmp_path / "programs" / "tuned").iterdir()
    name = file.read_bytes().split()[1]
    digest = hashlib.sha256(content).hexdigest()
    file.write_bytes(b"mdtensor-1 %s %d %s\n" % (name, len(content), digest.encode()) + content)
    assert lowered(problem_of())
    assert not lowered(problem_of())
    assert not (tmp_path / "marker").exists()


def test_another_keys_file_is_not_taken(lowered: Callable[..., bool], tmp_path: Path) -> None:
    assert lowered(problem_of())
    assert lowered(problem_of(), tile=2)
    one, other = (tmp_path / "programs" / "tuned").iterdir()
    one.write_bytes(other.read_bytes())
    assert lowered(problem_of()) is not lowered(problem_of(), tile=2)


@pytest.mark.parametrize("schedule", ["{}", '{"asm": 1}', "x", None])
def test_a_choice_is_kept_and_one_that_is_none_is_made_again(schedule: str | None) -> None:
    problem = problem_of()
    with Store.in_memory() as store:
        kept = Winners(registry.engine_for().device, "here", lambda: store)
        assert kept.choice(problem) is None
        kept.keep_choice(problem, 1.0, plain(problem))
        assert kept.choice(problem) == (1.0, plain(problem))
        assert kept.choice(replace(problem, reaches=())) is None
        if schedule is not None:
            with store._shelf._writing() as connection:
                connection.execute("update choices set schedule = ?", (schedule,))
            assert kept.choice(problem) is None


def test_what_was_damaged_or_is_refused_is_compiled_again(
    lowered: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lowered(problem_of())
    (file,) = (tmp_path / "programs" / "tuned").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert lowered(problem_of())
    device = registry.engine_for().device
    load, refusals = device.load, [CompileError("refused")]

    def refused_once(compiled: Any, sizes: Any) -> object:
        if refusals:
            raise refusals.pop()
        return load(compiled, sizes)

    monkeypatch.setattr(device, "load", refused_once)
    assert lowered(problem_of())


SECOND_PROCESS = """
import sys
import numpy as np, mdtensor as mdt
from mdtensor.api.engine.engine import Engine
from mdtensor.api.engine.kernel_choice import Structures
def refused(*_): raise AssertionError("a winner was lowered")
Engine.source = refused
plan = mdt.compile("ij,jk->ik", mdt.spec((37, 29)), mdt.spec((29, 41)))
from mdtensor.api.engine import registry
print(registry.engine_for().environment, file=sys.stderr)
print(plan.tune("1h", quiet=True)[0], end="; ")
print(plan.choices()[0].origin, plan(np.ones((37, 29), "f4"), np.ones((29, 41), "f4"))[0, 0])
"""


@pytest.mark.process
def test_a_process_that_tunes_keeps_the_program_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    store = Store.open()
    monkeypatch.setattr(registry.engine_for(), "_open_store", lambda: store)
    plan = mdt.compile("ij,jk->ik", mdt.spec((37, 29)), mdt.spec((29, 41)))
    stand_in_bench.use(stand_in_bench.Bench(), monkeypatch)
    (report,) = plan.tune(4, quiet=True)
    kept = store.problems(registry.engine_for().environment)
    registry.forget()
    end = children.run("-c", SECOND_PROCESS)
    told = report, kept, registry.engine_for().environment, end.err
    assert end.out == "ij,jk->ik: from the cache, 0 trials; tuned 29.0\n", told


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Structures, MDHom]:
    """An engine whose call has a first kernel, which the background has yet to make up for."""
    monkeypatch.setenv("MDTENSOR_CACHE_DIR", str(tmp_path))
    store = Store.in_memory()
    engine = Engine(registry.engine_for().device, lambda: store)
    (md_hom,) = mdt.compile("ij,jk->ik", A, B).md_homs
    engine.choose(md_hom)
    return engine, _structure(engine, md_hom), md_hom


def _structure(engine: Engine, md_hom: MDHom) -> Structures:
    return engine.structure(GENERALISE(engine.problem_of(md_hom))[0])


def test_a_first_general_kernel_is_kept_for_later_processes(
    first: tuple[Engine, Structures, MDHom], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which neither rank nor lower; it is kept as soon as it is optimised, before other work."""
    engine, structure, md_hom = first
    engine.tiers.make_up_for_haste(structure, 1e-3)

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(tiers, "ranking_in", never)
    monkeypatch.setattr(tiers, "source_in", never)
    kept = Engine(engine.device, lambda: engine.store).choose(md_hom)
    assert kept.is_general
    assert not kept.source.hasty
    kept.program(A, B, result := np.empty_like(A))
    np.testing.assert_allclose(result, A @ B, rtol=1e-5)


def test_a_first_kernel_whose_machine_code_is_gone_is_chosen_anew(
    first: tuple[Engine, Structures, MDHom],
) -> None:
    """No call compiles by the store's choice alone, past the marks of what crashed compilers."""
    engine, structure, md_hom = first
    engine.settle(600)
    second = Engine(engine.device, lambda: engine.store)
    assert second.tiers._programs.choice(structure.general) is not None
    remove_kept()
    assert not second.tiers.load(_structure(second, md_hom))
    assert second.choose(md_hom).is_general
