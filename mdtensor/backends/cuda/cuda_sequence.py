"""Sequences of programs, launched on a stream by their arrays' addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from typing import Any

from mdtensor.backends.cuda.cuda_stream import beside_captures
from mdtensor.backends.cuda.sequence_graphs import SequenceGraphs

Array = Any
Places = tuple[int, ...]
_ALIGNMENT = 256  # of what lies in a call's memory, in bytes


def in_sequence(
    launchers: Sequence[tuple[Any, Callable[[Sequence[int]], Places]]],
    arrays: int,
    temporaries: Sequence[int],
) -> Callable[..., None]:
    """A function of so many arrays that runs several `CudaProgram` launchers on subsets of them.

    Each comes with a choice from all addresses: of the arrays, then of temporaries of these bytes,
    which lie in scratch memory, or in memory of a captured graph's own. As these launchers,
    the function has an `at`, of a stream and addresses.
    """
    programs = [(launcher.program, choose) for launcher, choose in launchers]
    steps = [(program.at, choose) for program, choose in programs]
    functions = programs[0][0].device.functions
    sizes = [-(-nbytes // _ALIGNMENT) * _ALIGNMENT for nbytes in temporaries]
    *offsets, total = accumulate(sizes, initial=0)

    def enqueued(stream: int, places: Places) -> bool:
        return all(launch(stream, choose(places)) for launch, choose in steps)

    def singly(stream: int, places: Places) -> bool:
        if not total:
            return enqueued(stream, places)
        is_current = stream == functions.current_stream().ptr
        with nullcontext() if is_current else functions.on_stream(stream):  # whose memory it gets
            if functions.is_in_capture(stream):
                with beside_captures():
                    begin = functions.memory_of_graph(total)
            else:
                begin = functions.scratch(total, stream, "between")
            return enqueued(stream, (*places, *[begin + offset for offset in offsets]))

    every = range(arrays + len(offsets))
    placed = [(program, choose(every)) for program, choose in programs]
    at = SequenceGraphs(placed, arrays, offsets, total, singly).launch

    def run(*given: Array) -> None:
        at(functions.current_stream().ptr, tuple([array.data.ptr for array in given]))

    run.at = at  # pyright: ignore[reportFunctionMemberAccess]
    return run
