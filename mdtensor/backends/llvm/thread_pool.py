"""A thread pool in LLVM IR: pthreads that claim parts of a kernel's groups.

A launch is published by one word: its number in the upper half, the parts that nobody took in the
lower one. Whoever lowers it has a part: workers, and the caller until none is left, so no launch
waits for a thread that sleeps or does not exist. Workers look at the word for `SPIN_SECONDS` after
their last part and sleep on a condition variable after that. Where another thread has the pool, a
caller runs all groups itself.

Instead of its own workers a pool may have the threads of an OpenMP runtime, which take parts in the
same way (see `openmp_team`).
"""

from __future__ import annotations

import platform
import signal
import time

SPIN_SECONDS = 100e-6
# More than threads, so that one which is late or slow takes fewer.
PARTS_PER_THREAD = 4
MOST_THREADS = 256
# Of instructions that tell a processor with shared cores that it waits.
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
# Those that tell of a fault of the thread's own: blocked, nobody could report them.
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def thread_pool_ir(threads: int, machine: str = "") -> str:
    """The IR of a pool for `threads` threads, including the caller.

    `machine` is a processor's architecture, this one's if it is not given; the operating system is
    this one's.

    `run_in_parallel(kernel, arguments, sizes, groups)`, `limit_threads(most)` for later launches,
    `join_team(function)` with the address of GOMP_parallel or null, `forget_threads()` for the
    child of a fork, and `end_threads()`, after which callers run everything themselves.
    """
    workers = min(threads, MOST_THREADS) - 1
    machine = machine or platform.machine()
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)
    declared, pause = _PAUSES.get(machine, ("", ""))
    reported = "\n".join(f"  call i32 @sigdelset(ptr %set, i32 {int(s)})" for s in _FAULTS)
    return f"""{declared}
define internal void @pause() alwaysinline {{
  {pause}
  ret void
}}

define internal i64 @nanoseconds() {{
  %time = alloca [2 x i64], align 8
  call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %place = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %place
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %rest
  ret i64 %sum
}}

define internal void @block_signals() {{
  %set = alloca [128 x i8], align 16
  call i32 @sigfillset(ptr %set)
{reported}
  call i32 @pthread_sigmask(i32 {int(signal.SIG_BLOCK)}, ptr %set, ptr null)
  ret void
}}

@worker_count = internal constant i64 {workers}
@most_parts = internal constant i64 {threads * PARTS_PER_THREAD}
@spin = internal constant i64 {round(SPIN_SECONDS * 1e9)}
@threads = internal global [{MOST_THREADS} x ptr] zeroinitializer, align 64
{_POOL}"""


_POOL = """
@word = internal global i64 0, align 64
@pending = internal global i64 0, align 64
@busy = internal global i32 0, align 64
@sleepers = internal global i32 0, align 64
@ending = internal global i32 0, align 64
@started = internal global i64 0, align 64
@most_workers = internal global i64 2147483646, align 64
@team = internal global ptr null, align 64
@kernel = internal global ptr null, align 64
@arguments = internal global ptr null
@sizes = internal global ptr null
@groups = internal global i64 0
@parts = internal global i64 0
@mutex = internal global [128 x i8] zeroinitializer, align 64
@condition = internal global [128 x i8] zeroinitializer, align 64

declare i32 @clock_gettime(i32, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @take_parts() {
  br label %look
look:
  %word = load atomic i64, ptr @word seq_cst, align 8
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %done, label %claim
claim:
  %less = sub i64 %word, 1
  %claimed = cmpxchg ptr @word, i64 %word, i64 %less seq_cst seq_cst
  %won = extractvalue { i64, i1 } %claimed, 1
  br i1 %won, label %work, label %look
work:
  %kernel = load ptr, ptr @kernel
  %arguments = load ptr, ptr @arguments
  %sizes = load ptr, ptr @sizes
  %groups = load i64, ptr @groups
  %parts = load i64, ptr @parts
  %number = sub i64 %parts, %left
  %next = add i64 %number, 1
  %before = mul i64 %groups, %number
  %begin = udiv i64 %before, %parts
  %until = mul i64 %groups, %next
  %end = udiv i64 %until, %parts
  call void %kernel(ptr %arguments, ptr %sizes, i64 %begin, i64 %end)
  %was = atomicrmw sub ptr @pending, i64 1 seq_cst
  br label %look
done:
  ret void
}

define internal ptr @worker(ptr %place) {
  %own = ptrtoint ptr %place to i64
  call void @block_signals()
  br label %rest
rest:
  %now = call i64 @nanoseconds()
  %spin = load i64, ptr @spin
  %until = add i64 %now, %spin
  br label %look
look:
  %awake = call i1 @is_wanted(i64 %own)
  br i1 %awake, label %wanted, label %wait
wait:
  call void @pause()
  %later = call i64 @nanoseconds()
  %soon = icmp slt i64 %later, %until
  br i1 %soon, label %look, label %sleep
sleep:
  call i32 @pthread_mutex_lock(ptr @mutex)
  %before = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %called = call i1 @is_wanted(i64 %own)
  br i1 %called, label %wake, label %doze
doze:
  call i32 @pthread_cond_wait(ptr @condition, ptr @mutex)
  br label %check
wake:
  %after = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %wanted
wanted:
  %ending = load atomic i32, ptr @ending seq_cst, align 4
  %ends = icmp ne i32 %ending, 0
  br i1 %ends, label %end, label %work
work:
  call void @take_parts()
  br label %rest
end:
  ret ptr null
}

define internal i1 @is_wanted(i64 %own) {
  %word = load atomic i64, ptr @word seq_cst, align 8
  %left = and i64 %word, 4294967295
  %unclaimed = icmp ne i64 %left, 0
  %most = load atomic i64, ptr @most_workers seq_cst, align 8
  %may = icmp slt i64 %own, %most
  %some = and i1 %unclaimed, %may
  %ending = load atomic i32, ptr @ending seq_cst, align 4
  %ends = icmp ne i32 %ending, 0
  %wanted = or i1 %some, %ends
  ret i1 %wanted
}

define internal void @start_threads() {
  %count = load i64, ptr @worker_count
  br label %next
next:
  %number = load i64, ptr @started
  %more = icmp ult i64 %number, %count
  br i1 %more, label %start, label %done
start:
  %place = getelementptr ptr, ptr @threads, i64 %number
  %own = inttoptr i64 %number to ptr
  %refused = call i32 @pthread_create(ptr %place, ptr null, ptr @worker, ptr %own)
  %failed = icmp ne i32 %refused, 0
  br i1 %failed, label %done, label %counted
counted:
  %following = add i64 %number, 1
  store i64 %following, ptr @started
  br label %next
done:
  ret void
}

define internal void @wake_threads() {
  call i32 @pthread_mutex_lock(ptr @mutex)
  call i32 @pthread_cond_broadcast(ptr @condition)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}

define void @run_in_parallel(ptr %kernel, ptr %arguments, ptr %sizes, i64 %groups) {
  %most_workers = load atomic i64, ptr @most_workers seq_cst, align 8
  %none_may = icmp eq i64 %most_workers, 0
  br i1 %none_may, label %alone, label %claim
claim:
  %locked = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %locked, 1
  br i1 %won, label %begin, label %alone
alone:
  call void %kernel(ptr %arguments, ptr %sizes, i64 0, i64 %groups)
  ret void
begin:
  %team = load atomic ptr, ptr @team seq_cst, align 8
  %own = icmp eq ptr %team, null
  %started = load i64, ptr @started
  %none_yet = icmp eq i64 %started, 0
  %fresh = and i1 %own, %none_yet
  br i1 %fresh, label %start, label %publish
start:
  call void @start_threads()
  br label %publish
publish:
  %most = load i64, ptr @most_parts
  %few = icmp ult i64 %groups, %most
  %parts = select i1 %few, i64 %groups, i64 %most
  store ptr %kernel, ptr @kernel
  store ptr %arguments, ptr @arguments
  store ptr %sizes, ptr @sizes
  store i64 %groups, ptr @groups
  store i64 %parts, ptr @parts
  store atomic i64 %parts, ptr @pending seq_cst, align 8
  %word = load atomic i64, ptr @word seq_cst, align 8
  %launch = lshr i64 %word, 32
  %following = add i64 %launch, 1
  %upper = shl i64 %following, 32
  %published = or i64 %upper, %parts
  store atomic i64 %published, ptr @word seq_cst, align 8
  br i1 %own, label %share, label %together
together:
  %all_may = icmp sge i64 %most_workers, 2147483646
  %most_members = add i64 %most_workers, 1
  %members = select i1 %all_may, i64 0, i64 %most_members
  %said = trunc i64 %members to i32
  call void %team(ptr @member, ptr null, i32 %said, i32 0)
  br label %wait
share:
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  call void @wake_threads()
  br label %work
work:
  call void @take_parts()
  br label %wait
wait:
  %waited = phi i64 [ 0, %work ], [ 0, %together ], [ %longer, %pause ], [ %longer, %yield ]
  %longer = add i64 %waited, 1
  %pending = load atomic i64, ptr @pending seq_cst, align 8
  %done = icmp eq i64 %pending, 0
  br i1 %done, label %end, label %more
more:
  %long = icmp ugt i64 %waited, 4096
  br i1 %long, label %yield, label %pause
pause:
  call void @pause()
  br label %wait
yield:
  call i32 @sched_yield()
  br label %wait
end:
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

define internal void @member(ptr %unused) {
  call void @take_parts()
  ret void
}

define void @limit_threads(i64 %most) {
  %workers = sub i64 %most, 1
  store atomic i64 %workers, ptr @most_workers seq_cst, align 8
  ret void
}

define void @join_team(ptr %function) {
  store atomic ptr %function, ptr @team seq_cst, align 8
  ret void
}

define void @forget_threads() {
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @condition, ptr null)
  %word = load i64, ptr @word
  %none = and i64 %word, -4294967296
  store i64 %none, ptr @word
  store i64 0, ptr @pending
  store i64 0, ptr @started
  store i32 0, ptr @sleepers
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

define void @end_threads() {
  br label %lock
lock:
  %locked = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %locked, 1
  br i1 %won, label %end, label %wait
wait:
  call i32 @sched_yield()
  br label %lock
end:
  store atomic i32 1, ptr @ending seq_cst, align 4
  call void @wake_threads()
  %count = load i64, ptr @started
  br label %next
next:
  %number = phi i64 [ 0, %end ], [ %following, %join ]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %join, label %done
join:
  %place = getelementptr ptr, ptr @threads, i64 %number
  %thread = load ptr, ptr %place
  call i32 @pthread_join(ptr %thread, ptr null)
  %following = add i64 %number, 1
  br label %next
done:
  store i64 0, ptr @started
  ret void
}
"""
