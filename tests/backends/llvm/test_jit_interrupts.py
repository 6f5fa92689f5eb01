"""Ctrl-C while LLVM is opened, compiles, links and frees: llvmlite's lock is written in Python."""

from __future__ import annotations

import itertools
from importlib import import_module
from pathlib import Path
from typing import Any

import mdtensor as mdt
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from tests.interrupts import comes_at, interrupt, is_free

FFI: Any = import_module("llvmlite.binding.ffi")
LLVMLITE = str(Path(FFI.__file__).parents[1])
BACKEND = str(Path(mdt.__file__).parent / "backends" / "llvm")
TEXT = "define void @kernel() { ret void }"


def a_program() -> None:
    jit = JitCompiler()
    _, owner = jit.addresses(jit.object_code(TEXT, hasty=True), ["kernel"])
    del owner
    jit.object_code(TEXT, hasty=True)  # which frees it


def test_no_interrupt_leaves_a_lock() -> None:
    for places in itertools.count():
        if not comes_at(places, interrupt, a_program, LLVMLITE, BACKEND):
            break
        assert is_free(FFI.lib._lock._lock, within_s=60), places
    a_program()
    assert places > 20


def test_the_main_thread_never_calls_llvmlite() -> None:
    assert not comes_at(0, interrupt, a_program, LLVMLITE)
