"""Launches of CUDA graphs in LLVM IR: a graph is handed addresses, and enqueued on a stream.

They call the driver's own functions. What is unusual is left to Python: a thread or a stream
without a graph, a stream that is captured, another device, arrays that are not aligned.
"""

from __future__ import annotations

from enum import IntEnum

from mdtensor.backends.llvm.launch_ir import word


class GraphTable(IntEnum):
    """Word offsets in a program's table; the addresses of its graphs' words follow.

    FALLBACK is what Python calls where no graph can be launched. CONTEXT is that of the device, and
    no address may have a bit of MISALIGNED. CURRENT, CAPTURING, SET, LAUNCH and ENCODE are the
    driver's cuCtxGetCurrent, cuStreamIsCapturing, cuGraphExecKernelNodeSetParams, cuGraphLaunch and
    cuTensorMapEncodeTiled. HOLDER keeps the graphs alive: while one is launched, other threads of
    Python run, which may replace it.
    """

    FALLBACK = 0
    ARRAYS = 1
    MISALIGNED = 2
    CONTEXT = 3
    CURRENT = 4
    CAPTURING = 5
    SET = 6
    LAUNCH = 7
    ENCODE = 8
    HOLDER = 9
    COUNT = 10
    GRAPHS = 11


class GraphWords(IntEnum):
    """Word offsets in a thread's graph on a stream; its nodes and tensor maps follow.

    VALUES are the arguments, of which the arrays' addresses come first; the graph has the present
    ones where it IS_HANDED them.
    """

    THREAD = 0
    STREAM = 1
    IS_HANDED = 2
    VALUES = 3
    EXECUTABLE = 4
    NODES = 5
    MAPS = 6
    REST = 7


class NodeWords(IntEnum):
    """Word offsets in a graph's kernel node: its handle, and its parameters' address."""

    NODE = 0
    PARAMETERS = 1
    LENGTH = 2


class MapWords(IntEnum):
    """Word offsets in a tensor map: what cuTensorMapEncodeTiled takes, in its order.

    Its array begins OFFSET bytes behind the address in argument POSITION.
    """

    POSITION = 0
    OFFSET = 1
    TO = 2
    TYPE = 3
    RANK = 4
    EXTENTS = 5
    STRIDES = 6
    BOX = 7
    STEPS = 8
    INTERLEAVED = 9
    SWIZZLED = 10
    PROMOTED = 11
    FILLED = 12
    LENGTH = 13


def _numbers(*which: MapWords) -> str:
    """IR that loads words of a tensor map as 32-bit integers."""
    return "".join(
        f"{word('map', each, name=f'{each.name.lower()}64')}"
        f"\n  %{each.name.lower()} = trunc i64 %{each.name.lower()}64 to i32"
        for each in which
    )


_HANDED = f"""
; Hands a graph its arguments: tensor maps, then kernel by kernel. The driver's error, or 0.
define internal i32 @hand_arguments(ptr %table, ptr %graph, ptr %values) {{
  {word("table", GraphTable.SET, "ptr")}
  {word("table", GraphTable.ENCODE, "ptr")}
  {word("graph", GraphWords.EXECUTABLE, "ptr")}
  {word("graph", GraphWords.NODES)}
  {word("graph", GraphWords.MAPS)}
  %first = getelementptr i64, ptr %graph, i64 {int(GraphWords.REST)}
  %node_words = mul i64 %nodes, {int(NodeWords.LENGTH)}
  %first_map = getelementptr i64, ptr %first, i64 %node_words
  br label %next_map
next_map:
  %m = phi i64 [ 0, %0 ], [ %m_after, %map_begins ]
  %map = phi ptr [ %first_map, %0 ], [ %map_after, %map_begins ]
  %more_maps = icmp ult i64 %m, %maps
  br i1 %more_maps, label %map_begins, label %next_node
map_begins:
  %m_after = add i64 %m, 1
  %map_after = getelementptr i64, ptr %map, i64 {int(MapWords.LENGTH)}
  {word("map", MapWords.POSITION)}
  {word("map", MapWords.OFFSET)}
  {word("map", MapWords.TO, "ptr")}
  {word("map", MapWords.EXTENTS, "ptr")}
  {word("map", MapWords.STRIDES, "ptr")}
  {word("map", MapWords.BOX, "ptr")}
  {word("map", MapWords.STEPS, "ptr")}
  {_numbers(MapWords.TYPE, MapWords.RANK, MapWords.INTERLEAVED, MapWords.SWIZZLED)}
  {_numbers(MapWords.PROMOTED, MapWords.FILLED)}
  %value_at = getelementptr i64, ptr %values, i64 %position
  %value = load i64, ptr %value_at
  %begin = add i64 %value, %offset
  %begin_at = inttoptr i64 %begin to ptr
  %encoded = call i32 %encode(
    ptr %to, i32 %type, i32 %rank, ptr %begin_at, ptr %extents, ptr %strides, ptr %box, ptr %steps,
    i32 %interleaved, i32 %swizzled, i32 %promoted, i32 %filled)
  %is_encoded = icmp eq i32 %encoded, 0
  br i1 %is_encoded, label %next_map, label %refused_map
refused_map:
  ret i32 %encoded
next_node:
  %n = phi i64 [ 0, %next_map ], [ %n_after, %node_begins ]
  %at = phi ptr [ %first, %next_map ], [ %at_after, %node_begins ]
  %more_nodes = icmp ult i64 %n, %nodes
  br i1 %more_nodes, label %node_begins, label %finished
node_begins:
  %n_after = add i64 %n, 1
  %at_after = getelementptr i64, ptr %at, i64 {int(NodeWords.LENGTH)}
  {word("at", NodeWords.NODE, "ptr")}
  {word("at", NodeWords.PARAMETERS, "ptr")}
  %status = call i32 %set(ptr %executable, ptr %node, ptr %parameters)
  %is_set = icmp eq i32 %status, 0
  br i1 %is_set, label %next_node, label %refused
refused:
  ret i32 %status
finished:
  ret i32 0
}}
"""

_LAUNCHED = f"""
declare i64 @PyThread_get_thread_ident()
declare ptr @PyLong_AsVoidPtr(ptr)

; Whether the calling thread's graph of a stream is launched with these addresses.
define internal i1 @graph_launched(ptr %table, ptr %stream, ptr %addresses) {{
  %context_to = alloca ptr, align 8
  %capture_to = alloca i32, align 8
  {word("table", GraphTable.COUNT)}
  %thread = call i64 @PyThread_get_thread_ident()
  br label %next
next:
  %g = phi i64 [ 0, %0 ], [ %g_after, %look ]
  %more = icmp ult i64 %g, %count
  br i1 %more, label %look, label %none
look:
  %g_after = add i64 %g, 1
  %place = add i64 %g, {int(GraphTable.GRAPHS)}
  %graph_at = getelementptr i64, ptr %table, i64 %place
  %graph = load ptr, ptr %graph_at
  {word("graph", GraphWords.THREAD, name="its_thread")}
  {word("graph", GraphWords.STREAM, "ptr", name="its_stream")}
  %has_thread = icmp eq i64 %its_thread, %thread
  %has_stream = icmp eq ptr %its_stream, %stream
  %has_both = and i1 %has_thread, %has_stream
  br i1 %has_both, label %found, label %next
found:
  {word("table", GraphTable.CURRENT, "ptr")}
  {word("table", GraphTable.CONTEXT, "ptr")}
  {word("table", GraphTable.CAPTURING, "ptr")}
  {word("table", GraphTable.MISALIGNED)}
  {word("table", GraphTable.ARRAYS)}
  {word("graph", GraphWords.VALUES, "ptr")}
  {word("graph", GraphWords.IS_HANDED)}
  store ptr null, ptr %context_to
  %told_context = call i32 %current(ptr %context_to)
  %its_context = load ptr, ptr %context_to
  %is_here = icmp eq ptr %its_context, %context
  %is_legacy = icmp eq ptr %stream, null
  br i1 %is_here, label %here, label %none
here:
  br i1 %is_legacy, label %compare, label %ask
ask:
  store i32 1, ptr %capture_to
  %told_capture = call i32 %capturing(ptr %stream, ptr %capture_to)
  %captured = load i32, ptr %capture_to
  %has_failed = or i32 %told_capture, %captured
  %is_free = icmp eq i32 %has_failed, 0
  br i1 %is_free, label %compare, label %none
compare:
  %n = phi i64 [ 0, %here ], [ 0, %ask ], [ %n_after, %one ]
  %bits = phi i64 [ 0, %here ], [ 0, %ask ], [ %bits_after, %one ]
  %changes = phi i64 [ 0, %here ], [ 0, %ask ], [ %changes_after, %one ]
  %more_arrays = icmp ult i64 %n, %arrays
  br i1 %more_arrays, label %one, label %compared
one:
  %n_after = add i64 %n, 1
  %address_at = getelementptr i64, ptr %addresses, i64 %n
  %address = load i64, ptr %address_at
  %known_at = getelementptr i64, ptr %values, i64 %n
  %known = load i64, ptr %known_at
  %change = xor i64 %address, %known
  %changes_after = or i64 %changes, %change
  %bits_after = or i64 %bits, %address
  br label %compare
compared:
  %wrong = and i64 %bits, %misaligned
  %is_aligned = icmp eq i64 %wrong, 0
  br i1 %is_aligned, label %aligned, label %none
aligned:
  %is_same = icmp eq i64 %changes, 0
  %was_handed = icmp ne i64 %is_handed, 0
  %has_all = and i1 %is_same, %was_handed
  br i1 %has_all, label %launch, label %hand
hand:
  store i64 0, ptr %is_handed_at
  %nbytes = shl i64 %arrays, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %values, ptr %addresses, i64 %nbytes, i1 false)
  %refused = call i32 @hand_arguments(ptr %table, ptr %graph, ptr %values)
  %is_taken = icmp eq i32 %refused, 0
  br i1 %is_taken, label %taken, label %none
taken:
  store i64 1, ptr %is_handed_at
  br label %launch
launch:
  {word("table", GraphTable.LAUNCH, "ptr", name="enqueue")}
  {word("table", GraphTable.HOLDER, "ptr")}
  {word("graph", GraphWords.EXECUTABLE, "ptr")}
  call void @Py_IncRef(ptr %holder)
  %saved = call ptr @PyEval_SaveThread()
  %status = call i32 %enqueue(ptr %executable, ptr %stream)
  call void @PyEval_RestoreThread(ptr %saved)
  call void @Py_DecRef(ptr %holder)
  %is_launched = icmp eq i32 %status, 0
  ret i1 %is_launched
none:
  ret i1 false
}}

; The built-in function of a stream and a tuple of addresses.
define ptr @launch_graph(ptr %self, ptr %objects, i64 %given) {{
  %table_at = getelementptr i8, ptr %self, i64 DATA_OFFSET
  %table = load ptr, ptr %table_at
  {word("table", GraphTable.ARRAYS)}
  %addresses = alloca i64, i64 %arrays, align 8
  %stream_object = load ptr, ptr %objects
  %tuple_at = getelementptr ptr, ptr %objects, i64 1
  %tuple = load ptr, ptr %tuple_at
  %length_at = getelementptr i8, ptr %tuple, i64 DATA_OFFSET
  %length = load i64, ptr %length_at
  %fits = icmp eq i64 %length, %arrays
  br i1 %fits, label %begin, label %python
begin:
  %stream = call ptr @PyLong_AsVoidPtr(ptr %stream_object)
  %items = getelementptr i8, ptr %tuple, i64 ITEMS_OFFSET
  br label %next
next:
  %n = phi i64 [ 0, %begin ], [ %after, %take ]
  %more = icmp ult i64 %n, %arrays
  br i1 %more, label %take, label %launch
take:
  %after = add i64 %n, 1
  %item_at = getelementptr ptr, ptr %items, i64 %n
  %item = load ptr, ptr %item_at
  %value = call ptr @PyLong_AsVoidPtr(ptr %item)
  %address_at = getelementptr ptr, ptr %addresses, i64 %n
  store ptr %value, ptr %address_at
  br label %next
launch:
  %launched = call i1 @graph_launched(ptr %table, ptr %stream, ptr %addresses)
  br i1 %launched, label %yes, label %python
yes:
  call void @Py_IncRef(ptr @_Py_TrueStruct)
  ret ptr @_Py_TrueStruct
python:
  {word("table", GraphTable.FALLBACK, "ptr")}
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %objects, i64 2, ptr null)
  ret ptr %answer
}}
"""

GRAPH_LAUNCH = _HANDED + _LAUNCHED
"""The functions of CUDA graphs, which call the driver and Python."""
