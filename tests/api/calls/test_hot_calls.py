"""Hot calls: what the built-in function serves, counts, and leaves to Python."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as mdt
from mdtensor.api.arrays import invalidation
from mdtensor.api.calls import call_cache, hot_calls
from mdtensor.api.engine import cpu_tier, registry
from mdtensor.api.engine.kernel_choice import replaced
from mdtensor.api.engine.launch_counter import LaunchNumbers
from mdtensor.api.frameworks.call_text import held_call, run
from mdtensor.api.plans.plan import Plan
from mdtensor.errors import ShapeError
from tests.hurried import at_once

# Where it is imported, it begins a process, which no test may.
torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
LARGE = np.arange(512.0 * 700).reshape(512, 700) % 17
A, B = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5)


def product(a: np.ndarray, b: np.ndarray, **options: Any) -> Any:
    return mdt.einsum("ij,jk->ik", a, b, **options)


@pytest.fixture(autouse=True)
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What calls of this test were served by the built-in function; of another device, none."""
    if registry.engine_for().target.dialect[:4] != "llvm":
        pytest.skip("built-in functions are of the llvm device")
    monkeypatch.setenv("MDTENSOR_TIER0", "0")
    added: list[Any] = []
    add = hot_calls.HotCalls.add

    def watched(self: Any, *given: Any) -> Any:
        found = add(self, *given)
        added.append(found)
        return found

    monkeypatch.setattr(hot_calls.HotCalls, "add", watched)
    invalidation.clear()
    yield added
    invalidation.clear()


def hot(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The result of a call that Python has no part in."""
    for _ in range(3):
        call()
    with monkeypatch.context() as patched:
        for name in ("typical", "with_out", "_in_full", "taken"):
            patched.setattr(call_cache, name, None)
        return call()


def test_calls_that_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.engine_for().settle()
    out = np.empty((3, 5))
    cases = {
        "einsum": (lambda: product(A, B), A @ B),
        "out": (lambda: product(A, B, out=out), A @ B),
        "one array twice": (lambda: product(A[:, :3], A[:, :3]), A[:, :3] @ A[:, :3]),
        "a number": (lambda: mdt.einsum("i,i->", A[0], A[1]), A[0] @ A[1]),
        "options": (lambda: mdt.reduce("ij->i", A, combine="max"), A.max(1)),
        "a tuple": (lambda: mdt.sum(A, axis=(0, 1)), A.sum()),
        "convolution": (
            lambda: mdt.conv(A[None, :, :, None], np.ones((1, 2, 2, 1)), padding=0).shape,
            (1, 2, 3, 1),
        ),
        "several steps": (lambda: mdt.einsum("ij,jk,kl,lm->im", A, B, B.T, A.T), A @ B @ B.T @ A.T),
        "scratch memory and a large result": (
            lambda: mdt.einsum("ij,kj->ik", LARGE, LARGE),
            LARGE @ LARGE.T,
        ),
    }
    for name, (call, due) in cases.items():
        np.testing.assert_allclose(hot(call, monkeypatch), due, rtol=1e-12, err_msg=name)


def test_a_better_kernel_leaves_other_calls_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engine_for()
    engine.settle()
    plan = mdt.compile("ij,jk->ik", A, B)
    calls = [lambda: product(A, B), lambda: product(A[:2], B), lambda: plan(A, B)]
    for call in calls:
        call()
    engine.settle()
    for call in (*calls, *calls, *calls):
        call()
    assert [is_hot(call, monkeypatch) for call in calls] == [True] * 3
    engine.tiers.tell(replaced(engine.problem_of(plan.md_homs[0])))
    assert [is_hot(call, monkeypatch) for call in calls] == [False, True, False]
    for call in (*calls, *calls, *calls):
        call()
    assert [is_hot(call, monkeypatch) for call in calls] == [True] * 3


def is_hot(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the built-in function makes a call."""
    with monkeypatch.context() as patched:
        for module, name in ((call_cache, "typical"), (Plan, "_on_numpys")):
            patched.setattr(module, name, None)
        try:
            call()
        except TypeError:
            return False
    return True


def with_place(x: Any, *, j: Any) -> Any:
    return x, j


@pytest.mark.parametrize("of_tensors", [False, True])
def test_calls_of_several_results(monkeypatch: pytest.MonkeyPatch, of_tensors: bool) -> None:
    if of_tensors and not hasattr(getattr(torch, "Tensor", None), "__dlpack_c_exchange_api__"):
        pytest.skip("torch is not installed, or has no exchange interface")
    registry.engine_for().settle()
    x = torch.from_numpy(A.copy()) if of_tensors else A
    held = held_call(mdt.reduce, "ij->i", A, f=with_place, combine="argmax")
    found = hot(functools.partial(run, held.text, x), monkeypatch)
    assert (type(found), *map(type, found)) == (tuple, type(x), type(x))
    np.testing.assert_array_equal(found[0], A.max(1))
    np.testing.assert_array_equal(found[1], A.argmax(1))


def test_calls_on_tensors_that_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch is None:
        pytest.skip("torch is not installed")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch before 2.10 has no exchange interface")
    registry.engine_for().settle()
    a, b = torch.from_numpy(A.copy()), torch.nn.Parameter(torch.from_numpy(B.copy()))
    out = torch.empty(3, 5, dtype=torch.float64)
    cases: dict[str, tuple[Callable[[], Any], Any]] = {
        "einsum": (lambda: mdt.einsum("ij,jk->ik", a, b.detach()), A @ B),
        "out": (lambda: mdt.einsum("ij,jk->ik", a, b.detach(), out=out), A @ B),
        "an array": (lambda: mdt.einsum("ij,jk->ik", a, B), A @ B),
        "a number": (lambda: mdt.sum(a), A.sum()),
        "several steps": (lambda: mdt.einsum("ij,jk,kl->il", a, B, B.T), A @ B @ B.T),
        "a parameter": (torch.no_grad()(lambda: mdt.einsum("ij,jk->ik", a, b)), A @ B),
    }
    for name, (call, due) in cases.items():
        found = hot(call, monkeypatch)
        assert type(found) is torch.Tensor, name
        np.testing.assert_allclose(found, due, rtol=1e-12, err_msg=name)
    assert mdt.einsum("ij,jk->ik", a, b).requires_grad


def test_gradients_read_some_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch is None:
        pytest.skip("torch is not installed")
    a = torch.arange(1200.0, dtype=torch.float64).view(30, 40)  # more than counts by its content
    b = torch.ones(40, 35, dtype=torch.float64, requires_grad=True)
    given = torch.ones(30, 35, dtype=torch.float64)
    looked: list[Any] = []
    full = call_cache._in_full

    def watched(*args: Any, **options: Any) -> Any:
        looked.append(args[0])
        return full(*args, **options)

    for number in range(4):
        if number == 3:
            monkeypatch.setattr(call_cache, "_in_full", watched)
        (found,) = torch.autograd.grad(mdt.einsum("ij,jk->ik", a, b), b, given)
        torch.testing.assert_close(found, a.T @ given)
    assert not looked


def test_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    hot(lambda: product(A, B), monkeypatch)
    mdt.stats(reset=True)
    for _ in range(100):
        product(A, B)
    assert mdt.stats(reset=True).generated["float"] == 100
    invalidation.clear()
    assert mdt.stats().generated["float"] == 0
    product(A, B)
    product(A, B)
    assert mdt.stats().generated["float"] == 2


def test_calls_that_come_once_are_none(served: list[Any]) -> None:
    """Their entries would take longer to make than the calls."""
    product(A, B)
    assert not served
    product(A, B)
    assert len(served) == 1
    product(A, B)
    assert len(served) == 1


def test_better_kernels_are_taken(served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    hot(lambda: product(A, B), monkeypatch)
    count = len(served)
    invalidation.clear()
    product(A, B)
    product(A, B)
    assert len(served) > count


def test_plans_are_served_and_take_better_kernels() -> None:
    registry.engine_for().settle()
    plan, out = mdt.compile("ij,jk->ik", A, B), np.empty((3, 5))
    for _ in range(3):
        np.testing.assert_allclose(plan(A, B), A @ B)
        assert plan(A, B, out=out) is out
    assert plan._hot.call(A, B) is not hot_calls.MISSED
    assert plan._hot.call(A, B, out=out) is out
    with pytest.raises(ShapeError, match="shares memory with operand 0"):
        mdt.compile("ij->ij", A)(A, out=A)
    copied = pickle.loads(pickle.dumps(plan))
    assert copied._hot.call is None
    invalidation.clear()
    assert plan._hot.call(A, B) is hot_calls.MISSED
    np.testing.assert_allclose(plan(A, B), A @ B)


def test_plans_on_tensors_are_served() -> None:
    if torch is None:
        pytest.skip("torch is not installed")
    a, b = torch.from_numpy(A.copy()), torch.from_numpy(B.copy())
    plan = mdt.compile("ij,jk->ik", a, b)
    for _ in range(4):
        torch.testing.assert_close(plan(a, b), a @ b)
    if hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        assert plan._hot.call(a, b) is not hot_calls.MISSED
    invalidation.clear()
    torch.testing.assert_close(plan(a, b), a @ b)


@pytest.mark.parametrize("kind", ["tensor", "array", "tensor into out", "array into out"])
def test_plans_refuse_other_layouts_each_time(kind: str) -> None:
    if kind.startswith("tensor") and torch is None:
        pytest.skip("torch is not installed")
    library: Any = torch if kind.startswith("tensor") else np
    plan, out = mdt.compile("ij,jk->ik", A, B), np.empty((3, 5))
    for _ in range(3):
        plan(A, B)
        plan(A, B, out=out)
    small, single = library.ones((2, 2), dtype=library.float64), library.ones((3, 4))
    given = {"out": library.ones((2, 2), dtype=library.float64)} if kind.endswith("out") else {}
    for operands in ((small, small), (single.T, small), (small, single)):
        for _ in range(3):
            with pytest.raises(ShapeError):
                plan(*operands, **given)
    np.testing.assert_allclose(plan(A, B), A @ B)


def test_what_is_dropped_leaves_its_calls_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    mdt.stats(reset=True)
    plan = mdt.compile("ij,jk->ik", A, B)
    for _ in range(10):
        plan(A, B)
    del plan
    gc.collect()
    assert mdt.stats(reset=True).generated["float"] == 10


def test_a_trace_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    hot(lambda: product(A, B), monkeypatch)
    with mdt.trace() as seen:
        product(A, B)
    assert len(seen.calls) == 1


@pytest.mark.parametrize("option", [np.float32(2), [1], {"a": 1}, np.ones(2), lambda x: x])
def test_what_may_change_is_for_python(option: Any) -> None:
    assert not hot_calls._is_known_by_identity(option) or type(option) is np.ndarray


def test_launches_elsewhere_count() -> None:
    told: list[int] = []
    numbers = LaunchNumbers(5, lambda: told.append(1))
    numbers.count()
    numbers.elsewhere.append(lambda: 3)
    assert not told
    assert numbers.is_waited_for
    numbers.count()
    numbers.count()
    assert told == [1]
    assert not numbers.is_waited_for


def test_a_frequent_shape_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    ask = cpu_tier.CpuPolicy._ask

    def watched(self: Any, served: Any) -> None:
        asked.append(served.often)
        ask(self, served)

    monkeypatch.setattr(cpu_tier.CpuPolicy, "_ask", watched)
    monkeypatch.setattr(cpu_tier, "_MAX_OWN", 1 << 20)  # other tests' shapes have many
    monkeypatch.setattr(cpu_tier, "WORTH_OFTEN", 1e-4)  # seconds, which is less than 100 calls
    a, b = np.ones((17, 19), "f4"), np.ones((19, 23), "f4")
    for _ in range(2000):
        product(a, b)
    assert True in asked


def test_threads_make_first_calls_of_one_front_end() -> None:
    shapes = [(n, n + 1) for n in range(2, 42)]

    def calls() -> None:
        for _ in range(4):
            for m, n in shapes:
                assert mdt.einsum("ij,ij->", np.ones((m, n)), np.ones((m, n))) == m * n
            invalidation.clear()

    at_once(*[calls] * 4)
