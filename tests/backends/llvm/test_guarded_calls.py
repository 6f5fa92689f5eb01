"""Calls that a built-in function serves: which fit an entry, what they give, what they keep."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from mdtensor.backends.llvm.guard_words import Table
from mdtensor.backends.llvm.guarded_calls import MOST, GuardedCall, GuardedCalls, counted_by
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.native_launch import NAMES, NativeLaunch, runtime_ir
from mdtensor.specs import TensorSpec

MISSED = object()
# Adds the first 6 elements of two arrays.
ADD = """
define void @add(ptr %arguments, ptr %sizes, i64 %begin, i64 %end) {
  %a = load ptr, ptr %arguments
  %b_at = getelementptr ptr, ptr %arguments, i64 1
  %b = load ptr, ptr %b_at
  %c_at = getelementptr ptr, ptr %arguments, i64 2
  %c = load ptr, ptr %c_at
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %after, %next ]
  %after = add i64 %n, 1
  %x_at = getelementptr double, ptr %a, i64 %n
  %x = load double, ptr %x_at
  %y_at = getelementptr double, ptr %b, i64 %n
  %y = load double, ptr %y_at
  %z = fadd double %x, %y
  %z_at = getelementptr double, ptr %c, i64 %n
  store double %z, ptr %z_at
  %more = icmp ult i64 %after, COUNT
  br i1 %more, label %next, label %done
done:
  ret void
}
"""
A, B = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
SPEC = TensorSpec.of((2, 3), "f8")


@pytest.fixture(scope="module")
def jit() -> JitCompiler:
    return JitCompiler()


@pytest.fixture(scope="module")
def native(jit: JitCompiler) -> NativeLaunch:
    return NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(2)), NAMES))


def launcher(jit: JitCompiler, native: NativeLaunch, count: int = 6, *, inline: bool = True) -> Any:
    (add,), library = jit.addresses(jit.object_code(ADD.replace("COUNT", str(count))), ["add"])
    return native.launcher([(add, 1)], 3, (library,), inline=inline)


@pytest.fixture(params=[True, False])
def guards(jit: JitCompiler, native: NativeLaunch, request: Any) -> GuardedCalls:
    made = GuardedCalls(native, [], MISSED)
    made.run = launcher(jit, native, inline=request.param)  # pyright: ignore
    return made


def add(guards: GuardedCalls, *arguments: Any, names: tuple[str, ...] = (), **more: Any) -> Any:
    return guards.add(GuardedCall(arguments, names, guards.run, (SPEC,), **more))  # pyright: ignore


def test_a_call_that_fits_makes_its_result(guards: GuardedCalls) -> None:
    entry = add(guards, "a text", A, B)
    for n in range(1, 4):
        found = guards.call("a text", A + n, B)
        np.testing.assert_array_equal(found, A + n + 1)
        assert (found.flags.owndata, found.flags.writeable, counted_by(entry)) == (True, True, n)
    assert guards.call("".join(["a te", "xt"]), A, B) is not MISSED


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (A, B),
        ("another", A, B),
        (b"a text", A, B),
        ("a text", A, B, None),
        ("a text", A.T, B),
        ("a text", A[:1], B),
        ("a text", A[None], B),
        ("a text", A.astype("f4"), B),
        ("a text", A.astype(">f8"), B),
        ("a text", A.tolist(), B),
        ("a text", np.ma.array(A), B),
        ("a text", A[:, ::-1], B),
        ("a text", A, "a text"),
    ],
)
def test_another_call_is_missed(guards: GuardedCalls, arguments: tuple[Any, ...]) -> None:
    add(guards, "a text", A, B)
    assert guards.call(*arguments) is MISSED


def test_options_are_told_by_what_they_are(guards: GuardedCalls) -> None:
    call, axis = guards.call, (0, 1)
    add(guards, A, B, axis, True, names=("axis", "keeps"))
    assert call(A, B, axis=axis, keeps=True) is not MISSED
    assert call(A, B, axis=axis, keeps=False) is MISSED
    assert call(A, B, axis=axis, kept=True) is MISSED
    assert call(A, B, axis=axis) is MISSED
    assert call(A, B, axis, keeps=True) is MISSED


def test_results_are_written_to_arrays_of_their_own(guards: GuardedCalls) -> None:
    call, out = guards.call, np.zeros((2, 3))
    add(guards, A, B, out, names=("out",), out=2)
    assert call(A, B, out=out) is out
    np.testing.assert_array_equal(out, A + 1)
    fixed = np.zeros((2, 3))
    fixed.flags.writeable = False
    for target in (fixed, None, A, B, A[:]):
        assert call(A, B, out=target) is MISSED
    memory = np.arange(18.0)
    first, second, third = (memory[n : n + 6].reshape(2, 3) for n in (0, 6, 12))
    assert call(first, third, out=second) is second
    np.testing.assert_array_equal(second, first + third)
    between = memory[3:9].reshape(2, 3)
    assert call(first, third, out=between) is MISSED
    assert call(third, first, out=between) is MISSED


def test_an_element_is_a_number(jit: JitCompiler, native: NativeLaunch) -> None:
    guards = GuardedCalls(native, [], MISSED)
    x = np.array([2.0])
    guards.add(GuardedCall((x, x), (), launcher(jit, native, 1), (TensorSpec.of((), "f8"),)))
    found = guards.call(x, x)
    assert (type(found), found) == (np.float64, 4.0)


def test_nobody_is_served_while_somebody_watches(jit: JitCompiler, native: NativeLaunch) -> None:
    watchers: list[int] = []
    guards = GuardedCalls(native, watchers, MISSED)
    guards.add(GuardedCall((A, B), (), launcher(jit, native), (SPEC,)))
    watchers.append(1)
    assert guards.call(A, B) is MISSED
    watchers.clear()
    assert guards.call(A, B) is not MISSED
    guards.keep([])
    assert guards.call(A, B) is MISSED


def test_some_entries_are_kept(guards: GuardedCalls) -> None:
    entries = [add(guards, text, A, B) for text in "abc"]
    guards.keep([entries[0], entries[2]])
    assert [guards.call(text, A, B) is MISSED for text in "abc"] == [False, True, False]
    entries.append(add(guards, "d", A, B))
    assert [guards.call(text, A, B) is MISSED for text in "abcd"] == [False, True, False, False]
    assert [counted_by(entry) for entry in entries] == [2, 0, 2, 1]


def test_so_many_launches_are_left(guards: GuardedCalls) -> None:
    add(guards, A, B, left=2)
    found = [guards.call(A, B) is MISSED for _ in range(4)]
    assert found == [False, False, True, True]


def test_the_oldest_entry_goes(guards: GuardedCalls) -> None:
    for number in range(MOST + 1):
        add(guards, str(number), A, B)
    assert guards.call("0", A, B) is MISSED
    assert all(guards.call(str(number), A, B) is not MISSED for number in range(1, MOST + 1))


def test_a_launch_takes_all_arrays(jit: JitCompiler, native: NativeLaunch) -> None:
    guards = GuardedCalls(native, [], MISSED)
    with pytest.raises(ValueError, match="of 3 arrays, operands and results, was given 2"):
        guards.add(GuardedCall((A,), (), launcher(jit, native), (SPEC,)))
    assert guards.call(A) is MISSED


def test_operands_are_those_of_the_order(guards: GuardedCalls) -> None:
    add(guards, A, A[0], 2 * A, operands=((2, 0), (0, 0)))
    np.testing.assert_array_equal(guards.call(B, A[0], A), A + B)
    assert guards.call(B, A[0, :2], A) is MISSED


def test_operands_begin_at_bytes_of_arrays(guards: GuardedCalls) -> None:
    memory, out = np.arange(20.0), np.zeros((2, 3))
    second = (0, 8 * 8)  # the array that begins there
    add(guards, memory, operands=((0, 0), second))
    add(guards, memory, out, names=("out",), out=1, operands=(second, second))
    np.testing.assert_array_equal(
        guards.call(memory), memory[:6].reshape(2, 3) + memory[8:14].reshape(2, 3)
    )
    assert guards.call(memory, out=out) is out
    np.testing.assert_array_equal(out, 2 * memory[8:14].reshape(2, 3))
    assert guards.call(memory, out=memory[14:].reshape(2, 3)) is MISSED


def test_references_are_given_back(guards: GuardedCalls) -> None:
    out = np.zeros((2, 3))
    entry = add(guards, A, B)
    add(guards, A, B, out, names=("out",), out=2)
    counted = (A, B, out, MISSED, entry, A.dtype, None)
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(1000):
        guards.call(A, B)
        guards.call(A, B, out=out)
        guards.call(A)
    after = [sys.getrefcount(each) for each in counted]
    assert all(abs(b - a) < 100 for a, b in zip(before, after, strict=True))
    kept = weakref.ref(entry)
    guards.keep([])
    del entry, counted
    gc.collect()
    assert kept() is None


def test_an_entry_stays_as_long_as_the_table_has_it(guards: GuardedCalls) -> None:
    for number in range(3 * MOST):
        add(guards, str(number), A, B)
        if number % 7 == 0:
            guards.keep([])
        places = {*guards._table[Table.ENTRIES :].tolist()} - {0}
        assert places == {entry.ctypes.data for entry in guards._entries.values()}


def test_threads_call_while_entries_come_and_go(guards: GuardedCalls) -> None:
    wrong: list[object] = []

    def calls() -> None:
        for _ in range(3000):
            found = guards.call("a", A, B)
            if found is not MISSED and not np.array_equal(found, A + 1):
                wrong.append(found)

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        add(guards, "a", A, B)
        guards.keep([])
    for thread in threads:
        thread.join()
    assert not wrong
