"""Calls on tensors of torch that a built-in function serves: which are plain, where they launch."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdtensor.api.arrays.torch_tensors import exchange_of, maker_of
from mdtensor.backends.host.array_exchange import ArrayExchange
from mdtensor.backends.llvm.guarded_calls import GuardedCall, GuardedCalls, counted_by
from mdtensor.backends.llvm.jit_compiler import JitCompiler
from mdtensor.backends.llvm.native_launch import NAMES, NativeLaunch, runtime_ir
from mdtensor.specs import TensorSpec

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
MISSED, SPEC = object(), TensorSpec.of((2, 3), "f4")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("torch before 2.10 has no exchange interface", allow_module_level=True)


class Launch:
    """What stands for a launch: it notes streams and addresses, and gives `answer`."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, tuple[int, ...]]] = []
        self.answer: Any = True

    def __call__(self, stream: int, places: tuple[int, ...]) -> Any:
        self.seen.append((stream, places))
        if self.answer is ValueError:
            raise ValueError("no launch")
        return self.answer


@pytest.fixture(scope="module")
def native() -> NativeLaunch:
    jit = JitCompiler()
    return NativeLaunch(*jit.addresses(jit.object_code(runtime_ir(2)), NAMES))


@pytest.fixture
def launch() -> Launch:
    return Launch()


@pytest.fixture
def guards(native: NativeLaunch) -> GuardedCalls:
    return GuardedCalls(native, [], MISSED)


def randn(*shape: int) -> Any:
    return torch.randn(shape)


def added(guards: GuardedCalls, launch: Launch, *arguments: Any, **more: Any) -> Any:
    tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
    exchanges: Any = {type(each): exchange_of(each, on_cuda=False) for each in tensors}
    make = None if "out" in more else maker_of((SPEC,), tensors[0])
    return guards.add(
        GuardedCall(
            arguments,
            more.pop("names", ()),
            launch,
            (SPEC,),
            make=make,
            exchanges=exchanges,
            **more,
        )
    )


def test_addresses_go_to_the_launch(guards: GuardedCalls, launch: Launch) -> None:
    a, b = randn(2, 3), randn(5, 7)[1:4, 2::2]
    entry = added(guards, launch, "a text", a, b)
    found = guards.call("a text", a, b)
    assert launch.seen == [(0, (a.data_ptr(), b.data_ptr(), found.data_ptr()))]
    assert (type(found), found.dtype, tuple(found.shape)) == (torch.Tensor, torch.float32, (2, 3))
    assert counted_by(entry) == 1
    other = randn(2, 3)
    guards.call("a text", other, b)
    assert launch.seen[-1][1][0] == other.data_ptr()


def _functional(call: Callable[[Any], Any], x: Any) -> Any:
    found: list[Any] = []

    def seen(t: Any) -> Any:
        found.append(call(t))
        return t

    torch.func.functionalize(seen)(x)
    return found[0]


def _in_forward_mode(call: Callable[[Any], Any], x: Any) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return call(torch.autograd.forward_ad.make_dual(x, x))


def _within(transform: Any) -> Callable[[Callable[[Any], Any], Any], Any]:
    def found(call: Callable[[Any], Any], x: Any) -> Any:
        seen: list[Any] = []

        def total(t: Any) -> Any:
            seen.append(call(t))
            return t.sum()

        transform(total)(x)
        return seen[0]

    return found


OTHERS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "a view": lambda call, x: call(x.T),
    "another shape": lambda call, x: call(x[:1]),
    "another type": lambda call, x: call(x.double()),
    "an integer of as many bits": lambda call, x: call(x.view(torch.int32)),
    "more axes": lambda call, x: call(x[None]),
    "an array": lambda call, x: call(x.numpy()),
    "a parameter": lambda call, x: call(torch.nn.Parameter(x)),
    "a gradient": lambda call, x: call(x.clone().requires_grad_()),
    "sparse": lambda call, x: call(x.to_sparse()),
    "no memory": lambda call, x: call(x.to("meta")),
    "zeros without memory": lambda call, x: call(torch._efficientzerotensor((2, 3))),
    "negated when read": lambda call, x: call(
        torch.view_as_complex(randn(2, 3, 2)).conj().imag.as_strided((2, 3), (3, 1))
    ),
    "traced": _functional,
    "a tangent": _in_forward_mode,
    "a batch": lambda call, x: _within(torch.func.vmap)(call, x[None]),
    "a function's argument": _within(torch.func.grad),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tensors_are_missed(guards: GuardedCalls, launch: Launch, name: str) -> None:
    x = randn(2, 3)
    added(guards, launch, x)
    assert OTHERS[name](guards.call, x) is MISSED
    assert not launch.seen
    assert guards.call(x) is not MISSED


def test_parameters_are_plain_where_nobody_wants_gradients(
    guards: GuardedCalls, launch: Launch
) -> None:
    x = torch.nn.Parameter(randn(2, 3))
    added(guards, launch, x)
    assert guards.call(x) is MISSED
    with torch.no_grad():
        assert guards.call(x) is not MISSED


def test_what_does_not_launch_is_missed_and_not_counted(
    guards: GuardedCalls, launch: Launch
) -> None:
    x = randn(2, 3)
    entry = added(guards, launch, x)
    launch.answer = False
    assert guards.call(x) is MISSED
    assert counted_by(entry) == 0
    launch.answer = ValueError
    before = sys.getrefcount(launch)
    for _ in range(10):
        with pytest.raises(ValueError, match="no launch"):
            guards.call(x)
    assert sys.getrefcount(launch) == before


def test_results_are_written_to_tensors_of_their_own(guards: GuardedCalls, launch: Launch) -> None:
    x, out = randn(2, 3), randn(2, 3)
    added(guards, launch, x, out, names=("out",), out=1)
    assert guards.call(x, out=out) is out
    assert launch.seen == [(0, (x.data_ptr(), out.data_ptr()))]
    memory = randn(12)
    first, middle = memory[:6].view(2, 3), memory[3:9].view(2, 3)
    assert guards.call(first, out=middle) is MISSED
    assert guards.call(first, out=memory[6:].view(2, 3)) is not MISSED
    assert guards.call(x, out=x) is MISSED
    assert guards.call(x, out=out.clone().requires_grad_()) is MISSED


def test_operands_are_those_of_the_order(guards: GuardedCalls, launch: Launch) -> None:
    a, b, c = randn(2, 3), randn(4), randn(5)
    added(guards, launch, a, b, c, operands=((2, 0), (0, 0)))
    found = guards.call(a, b, c)
    assert launch.seen == [(0, (c.data_ptr(), a.data_ptr(), found.data_ptr()))]
    assert guards.call(a, randn(3), c) is MISSED
    given = randn(2, 3)
    added(guards, launch, a, b, c, given, names=("out",), out=3, operands=((1, 0),))
    assert guards.call(a, b, c, out=given) is given
    assert launch.seen[-1] == (0, (b.data_ptr(), given.data_ptr()))


def test_arrays_and_tensors_are_in_one_call(guards: GuardedCalls, launch: Launch) -> None:
    a, b = np.ones((4, 5)), randn(2, 3)
    added(guards, launch, a, b)
    found = guards.call(a, b)
    assert launch.seen[0][1] == (a.ctypes.data, b.data_ptr(), found.data_ptr())


def test_nothing_is_left_behind(guards: GuardedCalls, launch: Launch) -> None:
    x = randn(2, 3)
    added(guards, launch, x)
    guards.call(x)
    before = sys.getrefcount(x), sys.getrefcount(MISSED), sys.getrefcount(torch.Tensor)
    for _ in range(100):
        guards.call(x)
        guards.call(x.T)
    launch.seen.clear()
    assert (sys.getrefcount(x), sys.getrefcount(MISSED), sys.getrefcount(torch.Tensor)) == before


def test_entries_may_go_while_torch_is_asked(guards: GuardedCalls, launch: Launch) -> None:
    """What is asked of torch lets other threads run, which may clear the table."""
    forgotten: list[Any] = []

    def clears() -> bool:
        guards.keep([])
        gc.collect()
        forgotten.append([np.full(words, -1) for words in range(20, 60) for _ in range(50)])
        return False

    x = torch.nn.Parameter(randn(2, 3))
    forward = torch.autograd.forward_ad
    exchange = ArrayExchange.of(
        type(x), ("requires_grad", clears, "is_neg", forward, "_current_level", -1, int, 0)
    )
    make, exchanges = maker_of((SPEC,), x), {type(x): exchange}
    for _ in range(20):
        guards.add(GuardedCall((x,), (), launch, (SPEC,), make=make, exchanges=exchanges))
        found = guards.call(x)
        assert launch.seen.pop()[1] == (x.data_ptr(), found.data_ptr())
    assert len(forgotten) == 20
