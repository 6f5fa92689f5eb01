"""Calls from Python into kernels by a built-in function whose code is LLVM IR."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.host import openmp_team, thread_count
from mdtensor.backends.llvm.guard_ir import GUARDED
from mdtensor.backends.llvm.thread_pool import thread_pool_ir

_FASTCALL, _KEYWORDS = 0x80, 0x02  # METH_FASTCALL and METH_KEYWORDS of Python's C-API
_WORD = 8
# Where a Python object has its type, and an array the address of its elements.
_DATA = object.__basicsize__
_TYPE = _DATA - _WORD
_MESSAGE = "a kernel takes NumPy arrays, one for each of its operands and results\0"


class LaunchRecord(np.ndarray):
    """What a launch must know, in words that the built-in function reads.

    The number of arrays, of kernels, whether the pool stays out, the type of arrays, the addresses
    of sizes, scratch memory and counters; then each kernel's address and its number of groups. What
    they lie in is kept in `keeps`.
    """

    keeps: tuple[Any, ...]


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeLaunch:
    """The compiled runtime: launches of records, on a pool of threads.

    It stays until the process ends, since its threads are at any place of its code.
    """

    def __init__(self, addresses: Sequence[int], library: Any) -> None:
        launch, guarded, limit, join, forget, end = addresses
        self._library = library
        self._method = _MethodDef(b"launch", launch, _FASTCALL, None)
        self._guarded = _MethodDef(b"guarded", guarded, _FASTCALL | _KEYWORDS, None)
        self._new: Any = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )(("PyCFunction_NewEx", ctypes.pythonapi))
        self._limit = ctypes.CFUNCTYPE(None, ctypes.c_int64)(limit)
        self._join = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(join)
        self._forget = ctypes.CFUNCTYPE(None)(forget)
        self._end = ctypes.CFUNCTYPE(None)(end)
        self._forget()
        self._is_forked = False
        os.register_at_fork(after_in_child=self._forget_threads)
        atexit.register(self._end_threads)
        openmp_team.when_shared(self.join_team)
        thread_count.when_limited(self._limit)

    def join_team(self, function: int) -> None:
        """Runs kernels on the threads of an OpenMP runtime, whose GOMP_parallel lies there.

        For 0, on own ones. Not in the child of a fork, where a runtime that its parent used waits
        for ever.
        """
        if not self._is_forked:
            self._join(function)

    def _forget_threads(self) -> None:
        """The child of a fork has none of its parent's threads."""
        self._is_forked = True
        self._join(None)
        self._forget()

    def _end_threads(self) -> None:
        self._end()

    def launcher(
        self,
        kernels: Sequence[tuple[int, int]],
        arrays: int,
        fixed: Sequence[int],
        keeps: tuple[Any, ...],
        *,
        inline: bool,
    ) -> Callable[..., None]:
        """A function of arrays that runs kernels, pairs of an address and a number of groups.

        `fixed` are the addresses of sizes, scratch memory and counters, and `keeps` is what must
        stay as long as the function. It raises TypeError for what is not a NumPy array.
        """
        words = [arrays, len(kernels), int(inline), id(np.ndarray), *fixed]
        record = np.array([*words, *(word for pair in kernels for word in pair)], np.int64)
        record = record.view(LaunchRecord)
        record.keeps = (*keeps, self)
        return self._new(ctypes.addressof(self._method), record, None)

    def guarded(self, table: LaunchRecord) -> Callable[..., Any]:
        """A function of arguments that launches what a table has for them (`GuardedCalls`)."""
        return self._new(ctypes.addressof(self._guarded), table, None)


def has_lock() -> bool:
    """Whether Python lets one thread run at a time, for as long as that does not let others."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


NAMES = ("launch", "guarded", "limit_threads", "join_team", "forget_threads", "end_threads")


def runtime_ir(threads: int) -> str:
    """The module of the runtime for that many threads, the caller's included."""
    text = _MESSAGE.encode()
    spelled = "".join(f"\\{byte:02X}" for byte in text)
    return f"""{thread_pool_ir(threads)}
@message = internal constant [{len(text)} x i8] c"{spelled}"
{_with_offsets(_LAUNCH + GUARDED)}"""


def _with_offsets(text: str) -> str:
    """The text with the places of what is read in objects of CPython and NumPy."""
    places = {"TYPE": _TYPE, "DATA": _DATA, "ITEMS": tuple.__basicsize__}
    fields = ("AXES", "SHAPE", "STRIDES", "", "DTYPE", "FLAGS")
    places |= {name: _DATA + _WORD * (n + 1) for n, name in enumerate(fields)}
    return re.sub(r"\b([A-Z]+)_OFFSET\b", lambda found: str(places[found[1]]), text)


_LAUNCH = """
@PyExc_TypeError = external global ptr
@_Py_NoneStruct = external global i8
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define ptr @launch(ptr %self, ptr %objects, i64 %given) {
  %record_at = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %record = load ptr, ptr %record_at
  %expected = load i64, ptr %record
  %fits = icmp eq i64 %given, %expected
  br i1 %fits, label %begin, label %refuse
refuse:
  %error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %error, ptr @message)
  ret ptr null
begin:
  %room = add i64 %given, 2
  %arguments = alloca ptr, i64 %room, align 8
  %array_type_at = getelementptr i64, ptr %record, i64 3
  %array_type = load ptr, ptr %array_type_at
  br label %next
next:
  %number = phi i64 [ 0, %begin ], [ %following, %take ]
  %more = icmp ult i64 %number, %given
  br i1 %more, label %look, label %taken
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %number
  %object = load ptr, ptr %object_at
  %type_at = getelementptr i8, ptr %object, i64 TYPE_OFFSET
  %type = load ptr, ptr %type_at
  %same = icmp eq ptr %type, %array_type
  br i1 %same, label %take, label %ask
ask:
  %derived = call i32 @PyType_IsSubtype(ptr %type, ptr %array_type)
  %is_array = icmp ne i32 %derived, 0
  br i1 %is_array, label %take, label %refuse
take:
  %data_at = getelementptr i8, ptr %object, i64 DATA_OFFSET
  %data = load ptr, ptr %data_at
  %argument_at = getelementptr ptr, ptr %arguments, i64 %number
  store ptr %data, ptr %argument_at
  %following = add i64 %number, 1
  br label %next
taken:
  call void @run_kernels(ptr %record, ptr %arguments, i64 %given)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; Runs the kernels of a record on the addresses of so many arrays, behind which two more fit.
define void @run_kernels(ptr %record, ptr %arguments, i64 %given) {
  %sizes_at = getelementptr i64, ptr %record, i64 4
  %sizes = load ptr, ptr %sizes_at
  %scratch_at = getelementptr i64, ptr %record, i64 5
  %scratch = load ptr, ptr %scratch_at
  %counters_at = getelementptr i64, ptr %record, i64 6
  %counters = load ptr, ptr %counters_at
  %first = getelementptr ptr, ptr %arguments, i64 %given
  store ptr %scratch, ptr %first
  %second = getelementptr ptr, ptr %first, i64 1
  store ptr %counters, ptr %second
  %inline_at = getelementptr i64, ptr %record, i64 2
  %inline_word = load i64, ptr %inline_at
  %inline = icmp ne i64 %inline_word, 0
  br i1 %inline, label %kernels, label %release
release:
  %saved = call ptr @PyEval_SaveThread()
  br label %kernels
kernels:
  %thread = phi ptr [ null, %0 ], [ %saved, %release ]
  %count_at = getelementptr i64, ptr %record, i64 1
  %count = load i64, ptr %count_at
  %words = getelementptr i64, ptr %record, i64 7
  br label %kernel
kernel:
  %index = phi i64 [ 0, %kernels ], [ %after, %run_alone ], [ %after, %run_shared ]
  %left = icmp ult i64 %index, %count
  br i1 %left, label %run, label %finished
run:
  %after = add i64 %index, 1
  %twice = shl i64 %index, 1
  %function_at = getelementptr i64, ptr %words, i64 %twice
  %function = load ptr, ptr %function_at
  %groups_at = getelementptr i64, ptr %function_at, i64 1
  %groups = load i64, ptr %groups_at
  %one = icmp eq i64 %groups, 1
  %alone = or i1 %inline, %one
  br i1 %alone, label %run_alone, label %run_shared
run_alone:
  call void %function(ptr %arguments, ptr %sizes, i64 0, i64 %groups)
  br label %kernel
run_shared:
  call void @run_in_parallel(ptr %function, ptr %arguments, ptr %sizes, i64 %groups)
  br label %kernel
finished:
  br i1 %inline, label %end, label %take_back
take_back:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %end
end:
  ret void
}
"""
