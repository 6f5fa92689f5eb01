"""The guard trampoline in LLVM IR: checks a call's arguments, makes the result, launches.

It compares a call's arguments with the entries of a table, whose words `GuardedCalls` writes.
Arrays are NumPy's, read as NumPy lays them out, or another library's, described by DLPack's C
functions.
"""

from __future__ import annotations

from mdtensor.backends.llvm.guard_words import MOST_RESULTS, DLPackWords, EntryWords, Item, Table
from mdtensor.backends.llvm.launch_ir import word


def _is_false(call: str, name: str, *, yes: str, no: str) -> str:
    """IR that branches to `yes` if a call returns False, else to `no`, or to %failed on error."""
    return f"""
  %{name} = call ptr {call}
  %has_{name} = icmp ne ptr %{name}, null
  br i1 %has_{name}, label %drop_{name}, label %failed
drop_{name}:
  call void @Py_DecRef(ptr %{name})
  %is_{name} = icmp eq ptr %{name}, @_Py_FalseStruct
  br i1 %is_{name}, label %{yes}, label %{no}"""


_DECLARED = """
@_Py_FalseStruct = external global i8
@_Py_TrueStruct = external global i8
declare i32 @PyUnicode_Compare(ptr, ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)

; DLPack's DLTensor: address, device, axes and type of elements, shape, strides, offset.
%dltensor = type { i64, i64, i64, ptr, ptr, i64 }
"""

# Whether an array of another library is plain, and how it lies, where it is.
_EXCHANGED = f"""
define i1 @exchanged(ptr %exchange, ptr %object, ptr %to) {{
  %arguments = alloca ptr, align 8
  store ptr %object, ptr %arguments
  {word("exchange", DLPackWords.FLAG, "ptr")}
  {_is_false("@PyObject_GetAttr(ptr %object, ptr %flag)", "marked", yes="ask", no="look")}
look:
  {word("exchange", DLPackWords.ENABLED, "ptr")}
  {_is_false("@PyObject_CallNoArgs(ptr %enabled)", "mode", yes="ask", no="no")}
ask:
  {word("exchange", DLPackWords.METHOD, "ptr")}
  {
    _is_false(
        "@PyObject_VectorcallMethod(ptr %method, ptr %arguments, i64 1, ptr null)",
        "other",
        yes="levels",
        no="no",
    )
}
levels:
  {word("exchange", DLPackWords.MODULE, "ptr")}
  {word("exchange", DLPackWords.LEVEL, "ptr")}
  {word("exchange", DLPackWords.NO_LEVEL, "ptr")}
  %found = call ptr @PyObject_GetAttr(ptr %module, ptr %level)
  %is_known = icmp ne ptr %found, null
  br i1 %is_known, label %compare, label %failed
compare:
  call void @Py_DecRef(ptr %found)
  %is_none = icmp eq ptr %found, %no_level
  br i1 %is_none, label %watched, label %no
watched:
  {word("exchange", DLPackWords.MODES, "ptr")}
  {word("exchange", DLPackWords.NO_MODES, "ptr")}
  %running = call ptr @PyObject_CallNoArgs(ptr %modes)
  %is_told = icmp ne ptr %running, null
  br i1 %is_told, label %alone, label %failed
alone:
  call void @Py_DecRef(ptr %running)
  %is_alone = icmp eq ptr %running, %no_modes
  br i1 %is_alone, label %describe, label %no
describe:
  {word("exchange", DLPackWords.LAYOUT, "ptr")}
  %status = call i32 %layout(ptr %object, ptr %to)
  %is_described = icmp eq i32 %status, 0
  br i1 %is_described, label %place, label %failed
place:
  %data = load i64, ptr %to
  %has_memory = icmp ne i64 %data, 0
  ret i1 %has_memory
failed:
  call void @PyErr_Clear()
  br label %no
no:
  ret i1 false
}}
"""

# Whether a graph, or what Python calls with the current stream and these addresses, launched; -1
# for an error.
_LAUNCHED = f"""
define i32 @launched(ptr %entry, ptr %exchange, ptr %addresses, i64 %count) {{
  %given = alloca ptr, i64 2, align 8
  %stream_to = alloca ptr, align 8
  store ptr null, ptr %stream_to
  {word("entry", EntryWords.LAUNCH, "ptr")}
  {word("entry", EntryWords.DEVICE)}
  {word("exchange", DLPackWords.STREAM, "ptr")}
  %kind = trunc i64 %device to i32
  %shifted = lshr i64 %device, 32
  %number = trunc i64 %shifted to i32
  %status = call i32 %stream(i32 %kind, i32 %number, ptr %stream_to)
  %is_told = icmp eq i32 %status, 0
  br i1 %is_told, label %begin, label %error
begin:
  %handle = load ptr, ptr %stream_to
  {word("entry", EntryWords.GRAPHS, "ptr")}
  %has_graphs = icmp ne ptr %graphs, null
  br i1 %has_graphs, label %graph, label %objects
graph:
  %is_launched = call i1 @graph_launched(ptr %graphs, ptr %handle, ptr %addresses)
  br i1 %is_launched, label %launched, label %objects
launched:
  ret i32 1
objects:
  %first = call ptr @PyLong_FromVoidPtr(ptr %handle)
  %tuple = call ptr @PyTuple_New(i64 %count)
  %has_first = icmp ne ptr %first, null
  %has_tuple = icmp ne ptr %tuple, null
  %has_both = and i1 %has_first, %has_tuple
  br i1 %has_both, label %next, label %error
next:
  %n = phi i64 [ 0, %objects ], [ %after, %put ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %fill, label %call
fill:
  %address_at = getelementptr ptr, ptr %addresses, i64 %n
  %address = load ptr, ptr %address_at
  %integer = call ptr @PyLong_FromVoidPtr(ptr %address)
  %has_integer = icmp ne ptr %integer, null
  br i1 %has_integer, label %put, label %error
put:
  %after = add i64 %n, 1
  %is_put = call i32 @PyTuple_SetItem(ptr %tuple, i64 %n, ptr %integer)
  br label %next
call:
  store ptr %first, ptr %given
  %second_at = getelementptr ptr, ptr %given, i64 1
  store ptr %tuple, ptr %second_at
  %answer = call ptr @PyObject_Vectorcall(ptr %launch, ptr %given, i64 2, ptr null)
  call void @Py_DecRef(ptr %first)
  call void @Py_DecRef(ptr %tuple)
  %has_answer = icmp ne ptr %answer, null
  br i1 %has_answer, label %answered, label %error
answered:
  call void @Py_DecRef(ptr %answer)
  %ran = icmp eq ptr %answer, @_Py_TrueStruct
  %as_number = zext i1 %ran to i32
  ret i32 %as_number
error:
  ret i32 -1
}}
"""

_CALL = f"""
define ptr @guarded(ptr %self, ptr %objects, i64 %given, ptr %names) {{
  %table_at = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %table = load ptr, ptr %table_at
  {word("table", Table.WATCHERS, "ptr")}
  %watching = load i64, ptr %watchers
  {word("table", Table.MISSED, "ptr")}
  {word("table", Table.ARRAY_TYPE, "ptr")}
  {word("table", Table.STRING_TYPE, "ptr")}
  {word("table", Table.COUNT, name="entry_count")}
  {word("table", Table.LAST)}
  %has_names = icmp ne ptr %names, null
  br i1 %has_names, label %count_names, label %sum
count_names:
  %names_count_at = getelementptr i8, ptr %names, i64 DATA_OFFSET
  %names_count = load i64, ptr %names_count_at
  br label %sum
sum:
  %named_given = phi i64 [ 0, %0 ], [ %names_count, %count_names ]
  %total = add i64 %given, %named_given
  %room = add i64 %total, {MOST_RESULTS + 2}
  %addresses = alloca i64, i64 %room, align 8
  %lows = alloca i64, i64 %room, align 8
  %highs = alloca i64, i64 %room, align 8
  %exchanged_to = alloca %dltensor, align 8
  {word("table", Table.HOLDER, "ptr")}
  call void @Py_IncRef(ptr %holder)
  %watched = icmp ne i64 %watching, 0
  br i1 %watched, label %miss, label %entries

entries:
  %looked = phi i64 [ 0, %sum ], [ %looked_after, %other ]
  %number = phi i64 [ %last, %sum ], [ %number_after, %other ]
  %looked_after = add i64 %looked, 1
  %more_entries = icmp ult i64 %looked, %entry_count
  br i1 %more_entries, label %find, label %miss
find:
  %following = add i64 %number, 1
  %is_end = icmp uge i64 %following, %entry_count
  %number_after = select i1 %is_end, i64 0, i64 %following
  %place = add i64 %number, {int(Table.ENTRIES)}
  %entry_at = getelementptr i64, ptr %table, i64 %place
  %entry = load ptr, ptr %entry_at
  %is_there = icmp ne ptr %entry, null
  br i1 %is_there, label %begin, label %other
other:
  br label %entries
begin:
  {word("entry", EntryWords.POSITIONAL)}
  %fits_positional = icmp eq i64 %positional, %given
  {word("entry", EntryWords.NAMED)}
  %fits_named = icmp eq i64 %named, %named_given
  {word("entry", EntryWords.LEFT)}
  %is_left = icmp sgt i64 %left, 0
  %fits_both = and i1 %fits_positional, %fits_named
  %fits = and i1 %fits_both, %is_left
  br i1 %fits, label %guard, label %other
guard:
  {word("entry", EntryWords.MAKER, "ptr")}
  %makes = icmp ne ptr %maker, null
  {word("entry", EntryWords.OUT)}
  {word("entry", EntryWords.EXCHANGE, "ptr")}
  {word("entry", EntryWords.IS_ARRAY)}
  %is_numpys = icmp ne i64 %is_array, 0
  {word("entry", EntryWords.IS_CALLED)}
  %is_made_by_python = icmp ne i64 %is_called, 0
  {word("entry", EntryWords.OPERANDS)}
  {word("entry", EntryWords.ARRAYS)}
  {word("entry", EntryWords.ITEMS)}
  %first_item = getelementptr i64, ptr %entry, i64 %items
  br label %next

next:
  %n = phi i64 [ 0, %guard ], [ %n_after, %done ]
  %item = phi ptr [ %first_item, %guard ], [ %item_after, %done ]
  %n_after = add i64 %n, 1
  %more = icmp ult i64 %n, %total
  br i1 %more, label %look, label %matched
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %n
  %object = load ptr, ptr %object_at
  %type_at = getelementptr i8, ptr %object, i64 TYPE_OFFSET
  %type = load ptr, ptr %type_at
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
  %axes_due_at = getelementptr i64, ptr %guarded_at, i64 2
  switch i64 %what, label %value [
    i64 {int(Item.ARRAY)}, label %array
    i64 {int(Item.EXCHANGED)}, label %other_array
  ]
value:
  %behind_value = getelementptr i64, ptr %guarded_at, i64 2
  %same = icmp eq ptr %object, %due
  br i1 %same, label %done, label %string
string:
  %is_string = icmp eq i64 %what, {int(Item.STRING)}
  %has_string = icmp eq ptr %type, %string_type
  %compares = and i1 %is_string, %has_string
  br i1 %compares, label %compare, label %other
compare:
  %difference = call i32 @PyUnicode_Compare(ptr %object, ptr %due)
  %equal = icmp eq i32 %difference, 0
  br i1 %equal, label %done, label %other

array:
  %is_ndarray = icmp eq ptr %type, %array_type
  br i1 %is_ndarray, label %numpys_layout, label %other
numpys_layout:
  %its_dtype_at = getelementptr i8, ptr %object, i64 DTYPE_OFFSET
  %its_dtype = load ptr, ptr %its_dtype_at
  %has_dtype = icmp eq ptr %its_dtype, %due
  %its_axes_at = getelementptr i8, ptr %object, i64 AXES_OFFSET
  %its_axes32 = load i32, ptr %its_axes_at
  %its_axes = sext i32 %its_axes32 to i64
  %axes_due = load i64, ptr %axes_due_at
  %has_axes = icmp eq i64 %its_axes, %axes_due
  %may_fit = and i1 %has_dtype, %has_axes
  br i1 %may_fit, label %read, label %other
read:
  %numpys_data_at = getelementptr i8, ptr %object, i64 DATA_OFFSET
  %numpys_data = load i64, ptr %numpys_data_at
  %numpys_shape_at = getelementptr i8, ptr %object, i64 SHAPE_OFFSET
  %numpys_shape = load ptr, ptr %numpys_shape_at
  %numpys_strides_at = getelementptr i8, ptr %object, i64 STRIDES_OFFSET
  %numpys_strides = load ptr, ptr %numpys_strides_at
  br label %shapes
other_array:
  %has_class = icmp eq ptr %type, %due
  br i1 %has_class, label %describe, label %other
describe:
  %its_axes_of = load i64, ptr %axes_due_at
  %twice = shl i64 %its_axes_of, 1
  %behind_layout = add i64 %twice, 6
  %its_exchange_at = getelementptr i64, ptr %guarded_at, i64 %behind_layout
  %its_exchange = load ptr, ptr %its_exchange_at
  %plain = call i1 @exchanged(ptr %its_exchange, ptr %object, ptr %exchanged_to)
  br i1 %plain, label %fields, label %other
fields:
  %its_device_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 1
  %its_device = load i64, ptr %its_device_at
  %device_due_at = getelementptr i64, ptr %its_exchange_at, i64 1
  %device_due = load i64, ptr %device_due_at
  %has_device = icmp eq i64 %its_device, %device_due
  %its_kind_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 2
  %its_kind = load i64, ptr %its_kind_at
  %kind_due_at = getelementptr i64, ptr %its_exchange_at, i64 2
  %kind_due = load i64, ptr %kind_due_at
  %has_kind = icmp eq i64 %its_kind, %kind_due
  %place_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 0
  %begin_at_all = load i64, ptr %place_at
  %offset_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 5
  %offset = load i64, ptr %offset_at
  %others_data = add i64 %begin_at_all, %offset
  %others_shape_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 3
  %others_shape = load ptr, ptr %others_shape_at
  %others_strides_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 4
  %others_strides = load ptr, ptr %others_strides_at
  %has_strides = icmp ne ptr %others_strides, null
  %has_no_axes = icmp eq i64 %its_axes_of, 0
  %is_laid_out = or i1 %has_strides, %has_no_axes
  %has_device_and_kind = and i1 %has_device, %has_kind
  %is_alike = and i1 %has_device_and_kind, %is_laid_out
  br i1 %is_alike, label %shapes, label %other
shapes:
  %axes_here = phi i64 [ %axes_due, %read ], [ %its_axes_of, %fields ]
  %more_words = phi i64 [ 0, %read ], [ 3, %fields ]
  %data = phi i64 [ %numpys_data, %read ], [ %others_data, %fields ]
  %shape = phi ptr [ %numpys_shape, %read ], [ %others_shape, %fields ]
  %strides = phi ptr [ %numpys_strides, %read ], [ %others_strides, %fields ]
  %shape_due = getelementptr i64, ptr %guarded_at, i64 6
  %strides_due = getelementptr i64, ptr %shape_due, i64 %axes_here
  %behind_strides = getelementptr i64, ptr %strides_due, i64 %axes_here
  %behind_array = getelementptr i64, ptr %behind_strides, i64 %more_words
  br label %axis
axis:
  %a = phi i64 [ 0, %shapes ], [ %a_after, %both ]
  %more_axes = icmp ult i64 %a, %axes_here
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
  %slot_at = getelementptr i64, ptr %guarded_at, i64 5
  %slot = load i64, ptr %slot_at
  %address_at = getelementptr i64, ptr %addresses, i64 %slot
  store i64 %data, ptr %address_at
  %before_at = getelementptr i64, ptr %guarded_at, i64 3
  %before = load i64, ptr %before_at
  %low = add i64 %data, %before
  %low_at = getelementptr i64, ptr %lows, i64 %slot
  store i64 %low, ptr %low_at
  %behind_at = getelementptr i64, ptr %guarded_at, i64 4
  %behind = load i64, ptr %behind_at
  %high = add i64 %data, %behind
  %high_at = getelementptr i64, ptr %highs, i64 %slot
  store i64 %high, ptr %high_at
  br label %done
done:
  %item_after = phi ptr
    [ %behind_value, %value ], [ %behind_value, %compare ], [ %behind_array, %alike ]
  br label %next

matched:
  {word("entry", EntryWords.RESULTS)}
  %every = add i64 %operands, %results
  {word("entry", EntryWords.CHOSEN, name="pairs")}
  %chooses = icmp ne i64 %pairs, 0
  br i1 %chooses, label %choose, label %operands_lie
choose:
  %chosen = alloca i64, i64 %every, align 8
  %first_pair = getelementptr i64, ptr %entry, i64 %pairs
  br label %choose_next
choose_next:
  %c = phi i64 [ 0, %choose ], [ %c_after, %choose_one ]
  %more_operands = icmp ult i64 %c, %operands
  br i1 %more_operands, label %choose_one, label %operands_lie
choose_one:
  %c_after = add i64 %c, 1
  %pair_number = shl i64 %c, 1
  %pair_at = getelementptr i64, ptr %first_pair, i64 %pair_number
  %from = load i64, ptr %pair_at
  %byte_at = getelementptr i64, ptr %pair_at, i64 1
  %byte = load i64, ptr %byte_at
  %from_at = getelementptr i64, ptr %addresses, i64 %from
  %begins = load i64, ptr %from_at
  %operand = add i64 %begins, %byte
  %chosen_at = getelementptr i64, ptr %chosen, i64 %c
  store i64 %operand, ptr %chosen_at
  br label %choose_next
operands_lie:
  %launched_at = phi ptr [ %addresses, %matched ], [ %chosen, %choose_next ]
  %first_result = getelementptr i64, ptr %launched_at, i64 %operands
  br i1 %makes, label %make, label %given_out
given_out:
  %out_begins_at = getelementptr i64, ptr %addresses, i64 %arrays
  %out_begins = load i64, ptr %out_begins_at
  store i64 %out_begins, ptr %first_result
  %target_at = getelementptr ptr, ptr %objects, i64 %out
  %target = load ptr, ptr %target_at
  br i1 %is_numpys, label %look_at_flags, label %bounds
look_at_flags:
  %flags_at = getelementptr i8, ptr %target, i64 FLAGS_OFFSET
  %flags = load i32, ptr %flags_at
  %written = and i32 %flags, 1024
  %is_writeable = icmp ne i32 %written, 0
  br i1 %is_writeable, label %bounds, label %miss
bounds:
  %begin_at = getelementptr i64, ptr %lows, i64 %arrays
  %begin_of_out = load i64, ptr %begin_at
  %end_at = getelementptr i64, ptr %highs, i64 %arrays
  %end_of_out = load i64, ptr %end_at
  br label %apart
apart:
  %m = phi i64 [ 0, %bounds ], [ %m_after, %apart_next ]
  %m_after = add i64 %m, 1
  %more_arrays = icmp ult i64 %m, %arrays
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
  br i1 %is_made_by_python, label %make_other, label %make_array
make_array:
  call void @Py_IncRef(ptr %maker)
  {word("table", Table.NEW_ARRAY, "ptr")}
  {word("entry", EntryWords.AXES)}
  %axes32 = trunc i64 %axes to i32
  %result_shape = getelementptr i64, ptr %entry, i64 {int(EntryWords.SHAPE)}
  %made_array = call ptr %new_array(ptr %array_type, ptr %maker, i32 %axes32,
    ptr %result_shape, ptr null, ptr null, i32 0, ptr null)
  %has_array = icmp ne ptr %made_array, null
  br i1 %has_array, label %made_by_numpy, label %failed
made_by_numpy:
  %made_at = getelementptr i8, ptr %made_array, i64 DATA_OFFSET
  %made_place = load i64, ptr %made_at
  store i64 %made_place, ptr %first_result
  br label %run
make_other:
  %made_other = call ptr @PyObject_CallNoArgs(ptr %maker)
  %has_other = icmp ne ptr %made_other, null
  br i1 %has_other, label %made_by_python, label %failed
made_by_python:
  %is_one = icmp eq i64 %results, 1
  %parts = getelementptr i8, ptr %made_other, i64 ITEMS_OFFSET
  br label %next_result
next_result:
  %r = phi i64 [ 0, %made_by_python ], [ %r_after, %placed ]
  %r_after = add i64 %r, 1
  %more_results = icmp ult i64 %r, %results
  br i1 %more_results, label %choose_result, label %run
choose_result:
  br i1 %is_one, label %place_result, label %part
part:
  %part_at = getelementptr ptr, ptr %parts, i64 %r
  %its_part = load ptr, ptr %part_at
  br label %place_result
place_result:
  %one = phi ptr [ %made_other, %choose_result ], [ %its_part, %part ]
  br i1 %is_numpys, label %place_array, label %describe_other
place_array:
  %array_at = getelementptr i8, ptr %one, i64 DATA_OFFSET
  %array_place = load i64, ptr %array_at
  br label %placed
describe_other:
  %describes_at = getelementptr i64, ptr %exchange, i64 {int(DLPackWords.LAYOUT)}
  %describes = load ptr, ptr %describes_at
  %described = call i32 %describes(ptr %one, ptr %exchanged_to)
  %is_described = icmp eq i32 %described, 0
  br i1 %is_described, label %place_other, label %undescribed
undescribed:
  call void @Py_DecRef(ptr %made_other)
  br label %failed
place_other:
  %other_begin = load i64, ptr %exchanged_to
  %other_offset_at = getelementptr %dltensor, ptr %exchanged_to, i64 0, i32 5
  %other_offset = load i64, ptr %other_offset_at
  %other_place = add i64 %other_begin, %other_offset
  br label %placed
placed:
  %its_place = phi i64 [ %array_place, %place_array ], [ %other_place, %place_other ]
  %result_at = getelementptr i64, ptr %first_result, i64 %r
  store i64 %its_place, ptr %result_at
  br label %next_result
failed:
  call void @Py_DecRef(ptr %holder)
  ret ptr null

run:
  %result = phi ptr
    [ %target, %take ], [ %made_array, %made_by_numpy ], [ %made_other, %next_result ]
  store i64 %number, ptr %last_at
  %left_after = sub i64 %left, 1
  store i64 %left_after, ptr %left_at
  {word("entry", EntryWords.COUNTED)}
  %counted_after = add i64 %counted, 1
  store i64 %counted_after, ptr %counted_at
  {word("entry", EntryWords.IS_PYTHON)}
  %by_python = icmp ne i64 %is_python, 0
  br i1 %by_python, label %call, label %kernels
kernels:
  {word("entry", EntryWords.LAUNCH, "ptr")}
  %had_memory = call i1 @run_steps(ptr %launch, ptr %launched_at)
  br i1 %had_memory, label %ran, label %no_memory
no_memory:
  %no_result = call ptr @PyErr_NoMemory()
  br label %undo
call:
  %status = call i32 @launched(ptr %entry, ptr %exchange, ptr %launched_at, i64 %every)
  switch i32 %status, label %undo [
    i32 1, label %ran
    i32 0, label %refused
  ]
undo:
  call void @Py_DecRef(ptr %result)
  br label %failed
refused:
  call void @Py_DecRef(ptr %result)
  %uncounted = load i64, ptr %counted_at
  %counted_before = sub i64 %uncounted, 1
  store i64 %counted_before, ptr %counted_at
  br label %miss
ran:
  {word("entry", EntryWords.IS_SCALAR)}
  call void @Py_DecRef(ptr %holder)
  %has_number = icmp ne i64 %is_scalar, 0
  br i1 %has_number, label %scalar, label %end
scalar:
  {word("table", Table.RETURN_ARRAY, "ptr")}
  %number_of = call ptr %return_array(ptr %result)
  ret ptr %number_of
end:
  ret ptr %result

miss:
  call void @Py_DecRef(ptr %holder)
  call void @Py_IncRef(ptr %missed)
  ret ptr %missed
}}
"""

GUARDED = _DECLARED + _EXCHANGED + _LAUNCHED + _CALL
"""The functions of calls, which `run_steps` and the places of fields are put beside."""
