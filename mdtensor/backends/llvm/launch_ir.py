"""Launches in LLVM IR: a record's steps on arrays, and the memory of temporaries.

A call's memory, which holds temporaries, scratch memory and counters, is a block that the process
keeps from one call to the next, for whichever launch comes; a call that comes while another one has
it takes a block of its own.
"""

from __future__ import annotations

from enum import IntEnum

_HEADER = 64  # bytes before a block's memory, which begin with its size
_MOST_KEPT = 1 << 28  # bytes of a block


class LaunchWords(IntEnum):
    """Word offsets in a launch record; its steps follow.

    ROOM is that of a step's arguments, MEMORY a call's in bytes. Where all is INLINE, Python's lock
    is held.
    """

    ARRAYS = 0
    INLINE = 1
    ARRAY_TYPE = 2
    MEMORY = 3
    ROOM = 4
    STEPS = 5
    FIRST = 6


class StepWords(IntEnum):
    """Word offsets in a step; its slots follow, then each kernel's address and groups."""

    LENGTH = 0
    ARGUMENTS = 1
    KERNELS = 2
    SIZES = 3
    INLINE = 4
    SCRATCH = 5
    COUNTERS = 6
    COUNTER_BYTES = 7
    SLOTS = 8


def word(record: str, which: IntEnum, kind: str = "i64", name: str = "") -> str:
    """IR that loads a word of a record, into a value called `name` or like the word."""
    name = name or which.name.lower()
    return f"""
  %{name}_at = getelementptr i64, ptr %{record}, i64 {int(which)}
  %{name} = load {kind}, ptr %{name}_at"""


_MEMORY = f"""
@kept_block = internal global i64 0, align 64
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Memory of so many bytes at least; null where there is none.
define internal ptr @take_block(i64 %bytes) {{
  %to = alloca ptr, align 8
  %word = atomicrmw xchg ptr @kept_block, i64 0 acq_rel
  %kept = inttoptr i64 %word to ptr
  %has = icmp ne i64 %word, 0
  br i1 %has, label %look, label %make
look:
  %size = load i64, ptr %kept
  %fits = icmp uge i64 %size, %bytes
  br i1 %fits, label %found, label %drop
drop:
  call void @free(ptr %kept)
  br label %make
make:
  %whole = add i64 %bytes, {_HEADER}
  %status = call i32 @posix_memalign(ptr %to, i64 64, i64 %whole)
  %is_made = icmp eq i32 %status, 0
  br i1 %is_made, label %made, label %none
made:
  %new = load ptr, ptr %to
  store i64 %bytes, ptr %new
  br label %found
found:
  %block = phi ptr [ %kept, %look ], [ %new, %made ]
  %memory = getelementptr i8, ptr %block, i64 {_HEADER}
  ret ptr %memory
none:
  ret ptr null
}}

; The size of the block that is kept, or 0; as all that is exported, called under Python's lock.
define i64 @kept_memory() {{
  %kept_word = load i64, ptr @kept_block
  %kept = inttoptr i64 %kept_word to ptr
  %has = icmp ne i64 %kept_word, 0
  br i1 %has, label %look, label %none
look:
  %size = load i64, ptr %kept
  ret i64 %size
none:
  ret i64 0
}}

define void @free_memory() {{
  %kept_word = atomicrmw xchg ptr @kept_block, i64 0 acq_rel
  %kept = inttoptr i64 %kept_word to ptr
  call void @free(ptr %kept)
  ret void
}}

define internal void @give_block(ptr %memory) {{
  %block = getelementptr i8, ptr %memory, i64 -{_HEADER}
  %size = load i64, ptr %block
  %is_large = icmp ugt i64 %size, {_MOST_KEPT}
  br i1 %is_large, label %large, label %keep
large:
  call void @free(ptr %block)
  ret void
keep:
  %word = ptrtoint ptr %block to i64
  %before = atomicrmw xchg ptr @kept_block, i64 %word acq_rel
  %other = inttoptr i64 %before to ptr
  call void @free(ptr %other)
  ret void
}}
"""

_RUN = f"""
; Runs the steps of a record on the addresses of its arrays; false where there is no memory.
define i1 @run_steps(ptr %record, ptr %addresses) {{
  {word("record", LaunchWords.ROOM)}
  %arguments = alloca ptr, i64 %room, align 8
  {word("record", LaunchWords.MEMORY)}
  {word("record", LaunchWords.INLINE)}
  %holds = icmp ne i64 %inline, 0
  %needs = icmp ne i64 %memory, 0
  br i1 %needs, label %take, label %begin
take:
  %taken = call ptr @take_block(i64 %memory)
  %has_memory = icmp ne ptr %taken, null
  br i1 %has_memory, label %begin, label %none
none:
  ret i1 false
begin:
  %block = phi ptr [ null, %0 ], [ %taken, %take ]
  br i1 %holds, label %steps, label %release
release:
  %saved = call ptr @PyEval_SaveThread()
  br label %steps
steps:
  %thread = phi ptr [ null, %begin ], [ %saved, %release ]
  {word("record", LaunchWords.STEPS, name="step_count")}
  %first = getelementptr i64, ptr %record, i64 {int(LaunchWords.FIRST)}
  br label %step
step:
  %number = phi i64 [ 0, %steps ], [ %number_after, %kernel ]
  %at = phi ptr [ %first, %steps ], [ %behind, %kernel ]
  %more_steps = icmp ult i64 %number, %step_count
  br i1 %more_steps, label %begin_step, label %finished
begin_step:
  %number_after = add i64 %number, 1
  {word("at", StepWords.LENGTH)}
  {word("at", StepWords.ARGUMENTS, name="count")}
  {word("at", StepWords.KERNELS, name="kernel_count")}
  {word("at", StepWords.SIZES, "ptr")}
  {word("at", StepWords.INLINE, name="by_caller")}
  %alone = icmp ne i64 %by_caller, 0
  {word("at", StepWords.SCRATCH)}
  {word("at", StepWords.COUNTERS)}
  {word("at", StepWords.COUNTER_BYTES)}
  %behind = getelementptr i64, ptr %at, i64 %length
  %slots = getelementptr i64, ptr %at, i64 {int(StepWords.SLOTS)}
  br label %argument
argument:
  %n = phi i64 [ 0, %begin_step ], [ %n_after, %put ]
  %more_arguments = icmp ult i64 %n, %count
  br i1 %more_arguments, label %look, label %memories
look:
  %n_after = add i64 %n, 1
  %slot_at = getelementptr i64, ptr %slots, i64 %n
  %slot = load i64, ptr %slot_at
  %is_given = icmp sge i64 %slot, 0
  br i1 %is_given, label %given, label %own
given:
  %address_at = getelementptr ptr, ptr %addresses, i64 %slot
  %address = load ptr, ptr %address_at
  br label %put
own:
  %offset = xor i64 %slot, -1
  %inside = getelementptr i8, ptr %block, i64 %offset
  br label %put
put:
  %its = phi ptr [ %address, %given ], [ %inside, %own ]
  %argument_at = getelementptr ptr, ptr %arguments, i64 %n
  store ptr %its, ptr %argument_at
  br label %argument
memories:
  %its_scratch = getelementptr i8, ptr %block, i64 %scratch
  %scratch_to = getelementptr ptr, ptr %arguments, i64 %count
  store ptr %its_scratch, ptr %scratch_to
  %its_counters = getelementptr i8, ptr %block, i64 %counters
  %counters_to = getelementptr ptr, ptr %scratch_to, i64 1
  store ptr %its_counters, ptr %counters_to
  %has_counters = icmp ne i64 %counter_bytes, 0
  br i1 %has_counters, label %zero, label %kernels
zero:
  call void @llvm.memset.p0.i64(ptr %its_counters, i8 0, i64 %counter_bytes, i1 false)
  br label %kernels
kernels:
  %words = getelementptr i64, ptr %slots, i64 %count
  br label %kernel
kernel:
  %index = phi i64 [ 0, %kernels ], [ %after, %run_alone ], [ %after, %run_shared ]
  %more_kernels = icmp ult i64 %index, %kernel_count
  br i1 %more_kernels, label %run, label %step
run:
  %after = add i64 %index, 1
  %twice = shl i64 %index, 1
  %function_at = getelementptr i64, ptr %words, i64 %twice
  %function = load ptr, ptr %function_at
  %groups_at = getelementptr i64, ptr %function_at, i64 1
  %groups = load i64, ptr %groups_at
  %one = icmp eq i64 %groups, 1
  %is_alone = or i1 %alone, %one
  br i1 %is_alone, label %run_alone, label %run_shared
run_alone:
  call void %function(ptr %arguments, ptr %sizes, i64 0, i64 %groups)
  br label %kernel
run_shared:
  call void @run_in_parallel(ptr %function, ptr %arguments, ptr %sizes, i64 %groups)
  br label %kernel
finished:
  br i1 %holds, label %give, label %take_back
take_back:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %give
give:
  br i1 %needs, label %keep, label %end
keep:
  call void @give_block(ptr %block)
  br label %end
end:
  ret i1 true
}}
"""

_LAUNCH = f"""
@PyExc_TypeError = external global ptr
@_Py_NoneStruct = external global i8
declare i32 @PyType_IsSubtype(ptr, ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define ptr @launch(ptr %self, ptr %objects, i64 %given) {{
  %record_at = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %record = load ptr, ptr %record_at
  {word("record", LaunchWords.ARRAYS)}
  %fits = icmp eq i64 %given, %arrays
  br i1 %fits, label %begin, label %refuse
refuse:
  %error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %error, ptr @message)
  ret ptr null
begin:
  %addresses = alloca ptr, i64 %given, align 8
  {word("record", LaunchWords.ARRAY_TYPE, "ptr")}
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
  %address_at = getelementptr ptr, ptr %addresses, i64 %number
  store ptr %data, ptr %address_at
  %following = add i64 %number, 1
  br label %next
taken:
  %ran = call i1 @run_steps(ptr %record, ptr %addresses)
  br i1 %ran, label %end, label %none
none:
  %no_memory = call ptr @PyErr_NoMemory()
  ret ptr null
end:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}
"""

LAUNCH = _MEMORY + _RUN + _LAUNCH
"""The functions of launches, which the thread pool is put beside."""
