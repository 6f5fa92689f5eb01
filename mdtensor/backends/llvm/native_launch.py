"""Calls from Python into kernels by a built-in function whose code is LLVM IR."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mdtensor.backends.host import openmp_team, thread_count
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


NAMES = ("launch", "guarded", "limit_threads", "join_team", "forget_threads", "end_threads")


def runtime_ir(threads: int) -> str:
    """The module of the runtime for that many threads, the caller's included."""
    text = _MESSAGE.encode()
    spelled = "".join(f"\\{byte:02X}" for byte in text)
    return f"""{thread_pool_ir(threads)}
@message = internal constant [{len(text)} x i8] c"{spelled}"
{_with_offsets(_LAUNCH + _GUARDED)}"""


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
  %thread = phi ptr [ null, %taken ], [ %saved, %release ]
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
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""

# Arguments against the entries of a table; the words of both are those of `GuardedCalls`.
_GUARDED = """
declare i32 @PyUnicode_Compare(ptr, ptr)
declare void @Py_DecRef(ptr)

define ptr @guarded(ptr %self, ptr %objects, i64 %given, ptr %names) {
  %table_at = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %table = load ptr, ptr %table_at
  %watchers_at = load ptr, ptr %table
  %watchers = load i64, ptr %watchers_at
  %missed_at = getelementptr i64, ptr %table, i64 1
  %missed = load ptr, ptr %missed_at
  %array_type_at = getelementptr i64, ptr %table, i64 2
  %array_type = load ptr, ptr %array_type_at
  %string_type_at = getelementptr i64, ptr %table, i64 3
  %string_type = load ptr, ptr %string_type_at
  %most_at = getelementptr i64, ptr %table, i64 6
  %most = load i64, ptr %most_at
  %has_names = icmp ne ptr %names, null
  br i1 %has_names, label %count_names, label %sum
count_names:
  %names_count_at = getelementptr i8, ptr %names, i64 DATA_OFFSET
  %names_count = load i64, ptr %names_count_at
  br label %sum
sum:
  %named = phi i64 [ 0, %0 ], [ %names_count, %count_names ]
  %total = add i64 %given, %named
  %room = add i64 %total, 1
  %arrays = alloca ptr, i64 %room, align 8
  %lows = alloca i64, i64 %room, align 8
  %highs = alloca i64, i64 %room, align 8
  %watched = icmp ne i64 %watchers, 0
  br i1 %watched, label %miss, label %entries

entries:
  %number = phi i64 [ 0, %sum ], [ %number_after, %other ]
  %number_after = add i64 %number, 1
  %more_entries = icmp ult i64 %number, %most
  br i1 %more_entries, label %find, label %miss
find:
  %place = add i64 %number, 7
  %entry_at = getelementptr i64, ptr %table, i64 %place
  %entry = load ptr, ptr %entry_at
  %is_there = icmp ne ptr %entry, null
  br i1 %is_there, label %begin, label %other
other:
  br label %entries
begin:
  %positional = load i64, ptr %entry
  %fits_positional = icmp eq i64 %positional, %given
  %named_at = getelementptr i64, ptr %entry, i64 1
  %named_due = load i64, ptr %named_at
  %fits_named = icmp eq i64 %named_due, %named
  %left_at = getelementptr i64, ptr %entry, i64 2
  %left = load i64, ptr %left_at
  %is_left = icmp sgt i64 %left, 0
  %fits_both = and i1 %fits_positional, %fits_named
  %fits = and i1 %fits_both, %is_left
  br i1 %fits, label %guard, label %other
guard:
  %dtype_at = getelementptr i64, ptr %entry, i64 5
  %result_dtype = load ptr, ptr %dtype_at
  %makes = icmp ne ptr %result_dtype, null
  %out_at = getelementptr i64, ptr %entry, i64 8
  %out = load i64, ptr %out_at
  %items_at = getelementptr i64, ptr %entry, i64 10
  %items = load i64, ptr %items_at
  %first_item = getelementptr i64, ptr %entry, i64 %items
  br label %next

next:
  %n = phi i64 [ 0, %guard ], [ %n_after, %done ]
  %item = phi ptr [ %first_item, %guard ], [ %item_after, %done ]
  %count = phi i64 [ 0, %guard ], [ %count_after, %done ]
  %n_after = add i64 %n, 1
  %more = icmp ult i64 %n, %total
  br i1 %more, label %look, label %matched
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %n
  %object = load ptr, ptr %object_at
  %is_named = icmp uge i64 %n, %given
  br i1 %is_named, label %name, label %kind
name:
  %name_number = sub i64 %n, %given
  %name_list = getelementptr i8, ptr %names, i64 ITEMS_OFFSET
  %name_at = getelementptr ptr, ptr %name_list, i64 %name_number
  %its_name = load ptr, ptr %name_at
  %name_due = load ptr, ptr %item
  %behind_name = getelementptr i64, ptr %item, i64 1
  %has_name = icmp eq ptr %its_name, %name_due
  br i1 %has_name, label %kind, label %other
kind:
  %guarded_at = phi ptr [ %item, %look ], [ %behind_name, %name ]
  %what = load i64, ptr %guarded_at
  %due_at = getelementptr i64, ptr %guarded_at, i64 1
  %due = load ptr, ptr %due_at
  %is_array = icmp eq i64 %what, 2
  br i1 %is_array, label %array, label %value
value:
  %behind_value = getelementptr i64, ptr %guarded_at, i64 2
  %same = icmp eq ptr %object, %due
  br i1 %same, label %done, label %string
string:
  %is_string = icmp eq i64 %what, 1
  %type_at = getelementptr i8, ptr %object, i64 TYPE_OFFSET
  %type = load ptr, ptr %type_at
  %has_string = icmp eq ptr %type, %string_type
  %compares = and i1 %is_string, %has_string
  br i1 %compares, label %compare, label %other
compare:
  %difference = call i32 @PyUnicode_Compare(ptr %object, ptr %due)
  %equal = icmp eq i32 %difference, 0
  br i1 %equal, label %done, label %other
array:
  %kind_at = getelementptr i8, ptr %object, i64 TYPE_OFFSET
  %its_type = load ptr, ptr %kind_at
  %is_numpys = icmp eq ptr %its_type, %array_type
  br i1 %is_numpys, label %layout, label %other
layout:
  %its_dtype_at = getelementptr i8, ptr %object, i64 DTYPE_OFFSET
  %its_dtype = load ptr, ptr %its_dtype_at
  %has_dtype = icmp eq ptr %its_dtype, %due
  %its_axes_at = getelementptr i8, ptr %object, i64 AXES_OFFSET
  %its_axes32 = load i32, ptr %its_axes_at
  %its_axes = sext i32 %its_axes32 to i64
  %axes_at = getelementptr i64, ptr %guarded_at, i64 2
  %axes = load i64, ptr %axes_at
  %has_axes = icmp eq i64 %its_axes, %axes
  %may_fit = and i1 %has_dtype, %has_axes
  br i1 %may_fit, label %shapes, label %other
shapes:
  %shape_at = getelementptr i8, ptr %object, i64 SHAPE_OFFSET
  %shape = load ptr, ptr %shape_at
  %strides_at = getelementptr i8, ptr %object, i64 STRIDES_OFFSET
  %strides = load ptr, ptr %strides_at
  %shape_due = getelementptr i64, ptr %guarded_at, i64 5
  %strides_due = getelementptr i64, ptr %shape_due, i64 %axes
  %behind_array = getelementptr i64, ptr %strides_due, i64 %axes
  br label %axis
axis:
  %a = phi i64 [ 0, %shapes ], [ %a_after, %both ]
  %more_axes = icmp ult i64 %a, %axes
  br i1 %more_axes, label %both, label %alike
both:
  %a_after = add i64 %a, 1
  %extent_at = getelementptr i64, ptr %shape, i64 %a
  %extent = load i64, ptr %extent_at
  %extent_due_at = getelementptr i64, ptr %shape_due, i64 %a
  %extent_due = load i64, ptr %extent_due_at
  %same_extent = icmp eq i64 %extent, %extent_due
  %stride_at = getelementptr i64, ptr %strides, i64 %a
  %stride = load i64, ptr %stride_at
  %stride_due_at = getelementptr i64, ptr %strides_due, i64 %a
  %stride_due = load i64, ptr %stride_due_at
  %same_stride = icmp eq i64 %stride, %stride_due
  %same_axis = and i1 %same_extent, %same_stride
  br i1 %same_axis, label %axis, label %other
alike:
  %array_at = getelementptr ptr, ptr %arrays, i64 %count
  store ptr %object, ptr %array_at
  %data_at = getelementptr i8, ptr %object, i64 DATA_OFFSET
  %data = load i64, ptr %data_at
  %before_at = getelementptr i64, ptr %guarded_at, i64 3
  %before = load i64, ptr %before_at
  %low = add i64 %data, %before
  %low_at = getelementptr i64, ptr %lows, i64 %count
  store i64 %low, ptr %low_at
  %behind_at = getelementptr i64, ptr %guarded_at, i64 4
  %behind = load i64, ptr %behind_at
  %high = add i64 %data, %behind
  %high_at = getelementptr i64, ptr %highs, i64 %count
  store i64 %high, ptr %high_at
  %is_out = icmp eq i64 %n, %out
  %one = select i1 %is_out, i64 0, i64 1
  %count_more = add i64 %count, %one
  br label %done
done:
  %item_after = phi ptr
    [ %behind_value, %value ], [ %behind_value, %compare ], [ %behind_array, %alike ]
  %count_after = phi i64 [ %count, %value ], [ %count, %compare ], [ %count_more, %alike ]
  br label %next

matched:
  br i1 %makes, label %make, label %given_out
given_out:
  %target_at = getelementptr ptr, ptr %objects, i64 %out
  %target = load ptr, ptr %target_at
  %flags_at = getelementptr i8, ptr %target, i64 FLAGS_OFFSET
  %flags = load i32, ptr %flags_at
  %written = and i32 %flags, 1024
  %is_writeable = icmp ne i32 %written, 0
  %begin_at = getelementptr i64, ptr %lows, i64 %count
  %begin_of_out = load i64, ptr %begin_at
  %end_at = getelementptr i64, ptr %highs, i64 %count
  %end_of_out = load i64, ptr %end_at
  br i1 %is_writeable, label %apart, label %miss
apart:
  %m = phi i64 [ 0, %given_out ], [ %m_after, %apart_next ]
  %m_after = add i64 %m, 1
  %more_arrays = icmp ult i64 %m, %count
  br i1 %more_arrays, label %is_apart, label %take
is_apart:
  %begin_of_at = getelementptr i64, ptr %lows, i64 %m
  %begin_of = load i64, ptr %begin_of_at
  %end_of_at = getelementptr i64, ptr %highs, i64 %m
  %end_of = load i64, ptr %end_of_at
  %is_before = icmp ule i64 %end_of, %begin_of_out
  %is_behind = icmp uge i64 %begin_of, %end_of_out
  %surely = or i1 %is_before, %is_behind
  br i1 %surely, label %apart_next, label %miss
apart_next:
  br label %apart
take:
  call void @Py_IncRef(ptr %target)
  br label %run
make:
  call void @Py_IncRef(ptr %result_dtype)
  %new_at = getelementptr i64, ptr %table, i64 4
  %new = load ptr, ptr %new_at
  %result_axes_at = getelementptr i64, ptr %entry, i64 7
  %result_axes = load i64, ptr %result_axes_at
  %result_axes32 = trunc i64 %result_axes to i32
  %result_shape = getelementptr i64, ptr %entry, i64 12
  %made = call ptr %new(ptr %array_type, ptr %result_dtype, i32 %result_axes32,
    ptr %result_shape, ptr null, ptr null, i32 0, ptr null)
  %has_memory = icmp ne ptr %made, null
  br i1 %has_memory, label %run, label %failed
failed:
  ret ptr null

run:
  %result = phi ptr [ %target, %take ], [ %made, %make ]
  %result_at = getelementptr ptr, ptr %arrays, i64 %count
  store ptr %result, ptr %result_at
  %left_after = sub i64 %left, 1
  store i64 %left_after, ptr %left_at
  %counted_at = getelementptr i64, ptr %entry, i64 3
  %counted = load i64, ptr %counted_at
  %counted_after = add i64 %counted, 1
  store i64 %counted_after, ptr %counted_at
  %scalar_at = getelementptr i64, ptr %entry, i64 6
  %scalar_word = load i64, ptr %scalar_at
  %record_at = getelementptr i64, ptr %entry, i64 4
  %record = load ptr, ptr %record_at
  %keeper_at = getelementptr i64, ptr %entry, i64 11
  %keeper = load ptr, ptr %keeper_at
  call void @Py_IncRef(ptr %keeper)
  %every = add i64 %count, 1
  %none = call ptr @launch(ptr %record, ptr %arrays, i64 %every)
  call void @Py_DecRef(ptr %keeper)
  %ran = icmp ne ptr %none, null
  br i1 %ran, label %finish, label %undo
undo:
  call void @Py_DecRef(ptr %result)
  ret ptr null
finish:
  call void @Py_DecRef(ptr %none)
  %is_scalar = icmp ne i64 %scalar_word, 0
  %takes_scalar = and i1 %is_scalar, %makes
  br i1 %takes_scalar, label %scalar, label %end
scalar:
  %return_at = getelementptr i64, ptr %table, i64 5
  %return = load ptr, ptr %return_at
  %number_of = call ptr %return(ptr %result)
  ret ptr %number_of
end:
  ret ptr %result

miss:
  call void @Py_IncRef(ptr %missed)
  ret ptr %missed
}
"""
