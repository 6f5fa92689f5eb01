"""Registry entries of prefix sums on GPUs, and their kernel."""

from __future__ import annotations

from dataclasses import replace

from mdtensor.lower.codegen.base.frame import Frame
from mdtensor.lower.codegen.kernel import kernel_of
from mdtensor.lower.codegen.kernel_sequence import LoopNests, counting
from mdtensor.lower.codegen.scan.look_back import counters_of
from mdtensor.lower.gpu.base.block_shapes import item_counts
from mdtensor.lower.gpu.base.device_limits import can_stream
from mdtensor.lower.gpu.base.gpu_kind import LOOK_BACK, RESIDENT, GpuKind, is_plain, named
from mdtensor.lower.gpu.base.open_choices import (
    CHUNKS,
    EITHER,
    NO,
    NONE,
    ONE,
    POWERS,
    WHOLE,
    Choices,
    by_dim,
    last_dims,
    only,
    points_along,
)
from mdtensor.lower.gpu.scan.cooperative_scan import SCAN
from mdtensor.lower.gpu.scan.scan_candidates import scan_candidates, scan_estimate
from mdtensor.lower.problem.problem import Problem
from mdtensor.lower.schedule.machine_model import WARP
from mdtensor.lower.schedule.rules.register_blocking_rules import validate_resident
from mdtensor.lower.schedule.rules.scan_rules import validate_scan
from mdtensor.specs import Target

_SUMS = (1, 2, 4, 8, 16, 32, 64)  # of a work-item along a scanned dim


def scan(problem: Problem, *, shared: bool) -> Choices:
    """The choices of cooperative scans; groups may share the scanned dim by look-back."""
    d = problem.scanned
    items = tuple(n for n in POWERS if n < 2 * problem.extent(d))
    if shared:
        items = tuple(n for n in items if n >= WARP)
    sums = tuple(n for n in _SUMS if n <= problem.extent(d))
    along, own = {d: sums}, {d: items}
    if not shared:
        along |= {e: points_along(problem, e) for e in problem.kept}
        own |= {e: item_counts(problem.extent(e)) for e in problem.kept}
    possible = can_stream(problem) and bool(problem.kept)
    return Choices(
        points=only(problem, along, ONE),
        items=only(problem, own, ONE),
        chunks=only(problem, {d: CHUNKS} if shared else dict.fromkeys(along, CHUNKS), ONE),
        tiles=by_dim(problem, lambda d: NONE),
        parts=only(problem, {d: (WHOLE,)} if shared else {}, ONE),
        blocks=by_dim(problem, lambda d: ONE),
        staged=(("",),) * len(problem.streams),
        last=(True,) if shared else last_dims(problem),
        streaming=EITHER if possible else NO,
    )


def scanned_kernels(frame: Frame) -> LoopNests:
    """The kernel of a cooperative scan, with decoupled look-back among groups."""
    nest = kernel_of(frame, SCAN)
    if not frame.tilings[frame.problem.scanned].is_split:
        return (nest,)
    return (counting(replace(nest, in_order=True), counters_of(frame)),)


def _looks_back(problem: Problem, target: Target) -> bool:
    is_long = problem.scanned >= 0 and problem.extent(problem.scanned) > WARP
    return target.counts_groups and is_long


GROUP_SCAN_KIND = GpuKind(  # scans of a group
    name=RESIDENT,
    applies=lambda problem, _: problem.scanned >= 0,
    owns=lambda p, s: is_plain(s) and p.scanned >= 0 and s.parts[p.scanned] <= 1,
    space=named(RESIDENT, lambda problem, _: scan(problem, shared=False)),
    rules=(validate_resident, validate_scan),
    cost=scan_estimate,
    emit=scanned_kernels,
    candidates=scan_candidates,
)

LOOK_BACK_KIND = GpuKind(  # scans that groups share
    name=LOOK_BACK,
    applies=_looks_back,
    owns=lambda p, s: is_plain(s) and p.scanned >= 0 and s.parts[p.scanned] > 1,
    space=named(LOOK_BACK, lambda problem, _: scan(problem, shared=True)),
    rules=(validate_resident, validate_scan),
    cost=scan_estimate,
    emit=scanned_kernels,
    candidates=scan_candidates,
)
